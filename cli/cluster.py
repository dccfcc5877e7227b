"""`brokertwin cluster`: brokers and replicas of a cluster, and what can be done to them."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from brokertwin.cli import state_tables
from brokertwin.cli.cluster_access import (
    Access,
    Cluster,
    ControlFile,
    Timeout,
)
from brokertwin.cli.options import (
    AsJson,
    Bootstrap,
    Checkpoint,
    ConfigFile,
    KafkaConfig,
    Prefix,
    group,
    settings_of,
)
from brokertwin.cli.output import say, show_json, show_table

if TYPE_CHECKING:
    from brokertwin.cli.cluster_requests import Outcome
    from brokertwin.streaming.state_rows import Row

TIMEOUT_S = 60.0
REFUSED = 1
DONE = {
    "stop-broker": "is stopped",
    "kill-broker": "is killed",
    "start-broker": "starts",
    "isolate-broker": "is cut off from the other brokers",
    "sever-broker": "is cut off from the other brokers and from the controller",
    "rejoin-broker": "reaches the other brokers and the controller",
}

app = group()

BrokerId = Annotated[int, typer.Argument(metavar="BROKER", help="The broker's id.")]
Elected = Annotated[
    list[str] | None,
    typer.Argument(metavar="[TOPIC-NUMBER]…", help="Partitions; without one all of them."),
]
Unclean = Annotated[
    bool,
    typer.Option("--unclean", help="Anybody who is there, where nobody leads: records are lost."),
]
Assignments = Annotated[
    list[str],
    typer.Argument(
        metavar="TOPIC-NUMBER=BROKERS…",
        help="A partition and its replicas, the preferred leader first: orders-0=2,3,1.",
    ),
]
Cancel = Annotated[
    bool, typer.Option("--cancel", help="End reassignments as they were before: TOPIC-NUMBER….")
]
Principal = Annotated[
    str, typer.Option("--principal", metavar="USER", help="Who asks, where the cluster has ACLs.")
]
All = Annotated[bool, typer.Option("--all", help="Kafka's internal topics, too.")]


@app.callback()
def cluster_command() -> None:
    """The brokers of a cluster: how they are, and what can be done to them.

    Of a gateway with the engine local that was started with `--control FILE`, or of a job. What is
    done to brokers a job takes only if it was started with `run --interventions`.
    """


@app.command()
def status(
    control: ControlFile = None,
    cluster: Cluster = None,
    checkpoint: Checkpoint = None,
    all_items: All = False,
    prefix: Prefix = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Show brokers, and of each partition its leader, replicas, ISR, LEO, HW and lag.

    Of a job it is read from the checkpoint, as `brokertwin state` does. The lag is that of the
    replica that is farthest behind the leader; --json has each replica's.
    """
    settings_of(config)
    access = Access(control, cluster, checkpoint, prefix=prefix, config=config)
    found = access.status()
    shown = state_tables.listed(found["partitions"], all_items)
    if as_json:
        show_json({"brokers": found["brokers"], "partitions": shown})
        return
    show_table(
        ["broker", "state", "leads", "replicas", "in sync"],
        (list(row.values()) for row in found["brokers"]),
    )
    if shown:
        show_table(
            ["partition", "leader", "replicas", "ISR", "LEO", "HW", "lag"], map(_line, shown)
        )
    state_tables.tell_hidden(found["partitions"], shown)


def _line(row: "Row") -> list[Any]:
    """A partition as people read it: no leader is a dash."""
    leader, end, high_watermark = (
        "-" if row[name] < 0 else row[name] for name in ("leader", "logEndOffset", "highWatermark")
    )
    return [
        f"{row['topic']}-{row['partition']}",
        leader,
        _replicas(row),
        ",".join(map(str, row["isr"])),
        end,
        high_watermark,
        "-" if row["lag"] is None else row["lag"],
    ]


def _replicas(row: "Row") -> str:
    """Replicas; while it is reassigned, + stands before those that come, - before those who go."""
    signs = dict.fromkeys(row["addingReplicas"], "+") | dict.fromkeys(row["removingReplicas"], "-")
    return ",".join(f"{signs.get(each, '')}{each}" for each in row["replicas"])


def _intervention(name: str, kind: str, line: str) -> None:
    """Add a subcommand that does something to one broker."""

    def command(
        broker: BrokerId,
        control: ControlFile = None,
        cluster: Cluster = None,
        bootstrap: Bootstrap = None,
        prefix: Prefix = None,
        kafka_config: KafkaConfig = None,
        config: ConfigFile = None,
        timeout: Timeout = TIMEOUT_S,
    ) -> None:
        settings_of(config)
        access = Access(control, cluster, None, bootstrap, prefix, kafka_config, config, timeout)
        access.intervene(kind, broker)
        say(f"broker {broker} {DONE[kind]}")

    app.command(name, help=line)(command)


_intervention(
    "stop",
    "stop-broker",
    "Stop a broker in order: others are elected, its port is closed, its memory is gone.",
)
_intervention(
    "kill",
    "kill-broker",
    "Kill a broker (kill -9): others are elected when broker.session.timeout.ms are over.",
)
_intervention(
    "start",
    "start-broker",
    "Start a stopped broker, or a killed one whose session is over: it follows, and joins again.",
)
_intervention(
    "isolate",
    "isolate-broker",
    "Cut a broker off from the other brokers; clients and the controller still reach it.",
)
_intervention(
    "sever",
    "sever-broker",
    "Cut a broker off from the controller, too, as if halted (SIGSTOP) for all but its clients.",
)
_intervention("rejoin", "rejoin-broker", "End what `isolate` or `sever` began.")


@app.command("fail-log-dir")
def fail_log_dir(
    broker: BrokerId,
    directory: Annotated[
        str, typer.Argument(metavar="DIRECTORY", help="One of the broker's log.dirs.")
    ],
    control: ControlFile = None,
    cluster: Cluster = None,
    bootstrap: Bootstrap = None,
    prefix: Prefix = None,
    kafka_config: KafkaConfig = None,
    config: ConfigFile = None,
    timeout: Timeout = TIMEOUT_S,
) -> None:
    """Let a broker's log directory fail: its replicas are offline, others lead.

    A broker halts, as if killed, where its metadata log lies in that directory (the first one, or
    `metadata.log.dir`) or no other is left. When it is stopped and started the directory is there
    again, with what it had.
    """
    settings_of(config)
    access = Access(control, cluster, None, bootstrap, prefix, kafka_config, config, timeout)
    access.intervene("fail-log-dir", broker, directory)
    say(f"log directory {directory} of broker {broker} has failed")


@app.command()
def elect(
    partitions: Elected = None,
    unclean: Unclean = False,
    control: ControlFile = None,
    cluster: Cluster = None,
    bootstrap: Bootstrap = None,
    prefix: Prefix = None,
    kafka_config: KafkaConfig = None,
    config: ConfigFile = None,
    timeout: Timeout = TIMEOUT_S,
    principal: Principal = "User:ANONYMOUS",
    as_json: AsJson = False,
) -> None:
    """Elect the preferred leaders of partitions (ElectLeaders), or unclean ones.

    With no partition named it elects wherever one is needed. The exit code is 1 where an election
    was refused; one that is not needed is no error.
    """
    from brokertwin.cli import cluster_requests as requests

    settings_of(config)
    access = Access(control, cluster, None, bootstrap, prefix, kafka_config, config, timeout)
    body = requests.election([requests.place_of(each) for each in partitions or ()], unclean)
    response = access.request(requests.ELECT_LEADERS, requests.ELECT_VERSION, body, principal)
    _show_outcomes(requests.elected(response), as_json)


@app.command()
def reassign(
    assignments: Assignments,
    cancel: Cancel = False,
    control: ControlFile = None,
    cluster: Cluster = None,
    bootstrap: Bootstrap = None,
    prefix: Prefix = None,
    kafka_config: KafkaConfig = None,
    config: ConfigFile = None,
    timeout: Timeout = TIMEOUT_S,
    principal: Principal = "User:ANONYMOUS",
    as_json: AsJson = False,
) -> None:
    """Give partitions other replicas (AlterPartitionReassignments), or cancel that.

    It is answered when the new replicas begin to copy; `status` shows when they are in sync and
    the others have gone. The exit code is 1 where a reassignment was refused.
    """
    from brokertwin.cli import cluster_requests as requests

    settings_of(config)
    access = Access(control, cluster, None, bootstrap, prefix, kafka_config, config, timeout)
    wanted = dict(
        (requests.place_of(each), None) if cancel else requests.replicas_of(each)
        for each in assignments
    )
    response = access.request(
        requests.ALTER_PARTITION_REASSIGNMENTS,
        requests.REASSIGN_VERSION,
        requests.reassignment(wanted),
        principal,
    )
    _show_outcomes(requests.reassigned(response), as_json)


def _show_outcomes(outcomes: "list[Outcome]", as_json: bool) -> None:
    """What came of each partition; the exit code is 1 where one was refused."""
    from brokertwin.cli.cluster_requests import FINE

    if as_json:
        for outcome in outcomes:
            topic, partition = outcome.place
            said = {"error": outcome.error.name, "message": outcome.message}
            show_json({"topic": topic, "partition": partition, **said})
    else:
        rows = [(f"{each.place.topic}-{each.place.partition}", each.words) for each in outcomes]
        show_table(["partition", "outcome"], rows)
    if any(outcome.error not in FINE for outcome in outcomes):
        raise typer.Exit(REFUSED)
