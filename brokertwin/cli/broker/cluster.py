"""`brokertwin cluster`: show and control the brokers and replicas of a cluster."""

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from brokertwin.cli.broker.cluster_access import Access, ControlFile, with_access
from brokertwin.cli.job import state_tables
from brokertwin.cli.options import (
    AsJson,
    Checkpoint,
    ConfigFile,
    JobCluster,
    Prefix,
    group,
    settings_of,
)
from brokertwin.cli.output import out, say, show_json, show_table

if TYPE_CHECKING:
    from brokertwin.cli.broker.cluster_requests import PartitionResult
    from brokertwin.tables.state_rows import Row

REFUSED = 1

app = group()

BrokerId = Annotated[int, typer.Argument(metavar="BROKER", help="The broker's id.")]
Elected = Annotated[
    list[str] | None,
    typer.Argument(metavar="[TOPIC-NUMBER]…", help="Partitions; default: all."),
]
Unclean = Annotated[
    bool,
    typer.Option(
        "--unclean",
        help="Elect any live replica if the partition has no leader; this can lose records.",
    ),
]
Assignments = Annotated[
    list[str],
    typer.Argument(
        metavar="TOPIC-NUMBER=BROKERS…",
        help="A partition and its replicas, preferred leader first: orders-0=2,3,1.",
    ),
]
Cancel = Annotated[
    bool,
    typer.Option("--cancel", help="Cancel reassignments in progress; pass TOPIC-NUMBER only."),
]
Principal = Annotated[
    str,
    typer.Option("--principal", metavar="TYPE:NAME", help="Principal of the request, for ACLs."),
]
Watch = Annotated[
    float | None,
    typer.Option(
        min=0.2,
        metavar="SECONDS",
        help="Look every SECONDS, and show it again if it has changed, until Ctrl-C.",
    ),
]
All = Annotated[bool, typer.Option("--all", help="Also show Kafka's internal topics.")]


@app.callback()
def cluster_command() -> None:
    """Show and control the brokers of a cluster.

    The cluster belongs to a gateway with `--engine local --control FILE`, or to a job. A job
    accepts commands that change brokers only if it was started with `run --interventions`.
    """


@app.command()
def status(
    control: ControlFile = None,
    cluster: JobCluster = None,
    checkpoint: Checkpoint = None,
    all_items: All = False,
    prefix: Prefix = None,
    config: ConfigFile = None,
    watch: Watch = None,
    as_json: AsJson = False,
) -> None:
    """Show brokers, and each partition's leader, replicas, ISR, LEO, HW and lag.

    For a job, the state is read from the checkpoint, as `brokertwin state` does. The lag is that
    of the replica that is farthest behind the leader; --json shows each replica's.
    """
    settings_of(config)
    access = Access(control, cluster, prefix=prefix, config=config)
    shown = access.status(checkpoint)
    _show(shown, all_items, as_json)
    with suppress(KeyboardInterrupt):
        while watch is not None:
            time.sleep(watch)
            rows = access.status(checkpoint)
            if rows != shown:
                if out.is_terminal:
                    out.clear()
                _show(rows, all_items, as_json)
                shown = rows


def _show(tables: dict[str, "list[Row]"], all_items: bool, as_json: bool) -> None:
    shown = state_tables.listed(tables["partitions"], all_items)
    if as_json:
        show_json({"brokers": tables["brokers"], "partitions": shown})
        return
    show_table(
        ["broker", "state", "leader of", "replicas", "in-sync replicas"],
        (list(row.values()) for row in tables["brokers"]),
    )
    if shown:
        show_table(
            ["partition", "leader", "replicas", "ISR", "LEO", "HW", "lag"], map(_line, shown)
        )
    state_tables.show_hidden(tables["partitions"], shown)


def _line(row: "Row") -> list[Any]:
    """A partition's row for the table; a dash means no leader."""
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
    """Replicas; + marks those being added by a reassignment, - those being removed."""
    signs = dict.fromkeys(row["addingReplicas"], "+") | dict.fromkeys(row["removingReplicas"], "-")
    return ",".join(f"{signs.get(each, '')}{each}" for each in row["replicas"])


def _intervention(name: str, done: str, line: str) -> None:
    """Add a subcommand that changes one broker."""

    def command(broker: BrokerId, access: Access) -> None:
        access.intervene(f"{name}-broker", broker)
        say(f"broker {broker} {done}")

    app.command(name, help=line)(with_access(command))


_intervention(
    "stop",
    "stopped",
    "Stop a broker (controlled shutdown): other leaders are elected and its port is closed.",
)
_intervention(
    "kill",
    "killed",
    "Kill a broker (kill -9): other leaders are elected after broker.session.timeout.ms.",
)
_intervention(
    "start",
    "starting",
    "Start a stopped broker, or a killed one whose session has expired; it catches up and rejoins.",
)
_intervention(
    "isolate",
    "isolated from the other brokers",
    "Isolate a broker from the other brokers; clients and the controller still reach it.",
)
_intervention(
    "sever",
    "isolated from the other brokers and the controller",
    "Isolate a broker from the other brokers and the controller; only clients still reach it.",
)
_intervention(
    "rejoin",
    "connected to the other brokers and the controller again",
    "End `isolate` or `sever`.",
)


@app.command("fail-log-dir")
@with_access
def fail_log_dir(
    broker: BrokerId,
    directory: Annotated[
        str, typer.Argument(metavar="DIRECTORY", help="One of the broker's log.dirs.")
    ],
    access: Access,
) -> None:
    """Fail a broker's log directory: its replicas go offline and other leaders are elected.

    The broker stops, as if killed, if the directory holds its metadata log (the first directory, or
    `metadata.log.dir`) or is its last one. After `stop` and `start` the directory and its contents
    are available again.
    """
    access.intervene("fail-log-dir", broker, directory)
    say(f"failed log directory {directory} of broker {broker}")


@app.command()
@with_access
def elect(
    partitions: Elected = None,
    unclean: Unclean = False,
    *,
    access: Access,
    principal: Principal = "User:ANONYMOUS",
    as_json: AsJson = False,
) -> None:
    """Elect preferred leaders (ElectLeaders), or unclean leaders with --unclean.

    Without partitions it elects leaders wherever an election is needed. Exits with code 1 if an
    election was refused. An election that is not needed is not an error.
    """
    from brokertwin.cli.broker import cluster_requests as requests
    from brokertwin.protocol.kafka_apis import ELECT_LEADERS

    body = requests.election([requests.place_of(each) for each in partitions or ()], unclean)
    response = access.request(ELECT_LEADERS.key, requests.ELECT_VERSION, body, principal)
    _show_outcomes(requests.elected(response), as_json)


@app.command()
@with_access
def reassign(
    assignments: Assignments,
    cancel: Cancel = False,
    *,
    access: Access,
    principal: Principal = "User:ANONYMOUS",
    as_json: AsJson = False,
) -> None:
    """Change the replicas of partitions (AlterPartitionReassignments), or cancel a change.

    The command ends when the new replicas start to copy; `status` shows when they are in sync and
    the old ones are removed. Exits with code 1 if a reassignment was refused.
    """
    from brokertwin.cli.broker import cluster_requests as requests
    from brokertwin.protocol.kafka_apis import ALTER_PARTITION_REASSIGNMENTS

    replicas_by_place = dict(
        (requests.place_of(each), None) if cancel else requests.replicas_of(each)
        for each in assignments
    )
    response = access.request(
        ALTER_PARTITION_REASSIGNMENTS.key,
        requests.REASSIGN_VERSION,
        requests.reassignment(replicas_by_place),
        principal,
    )
    _show_outcomes(requests.reassigned(response), as_json)


def _show_outcomes(outcomes: "list[PartitionResult]", as_json: bool) -> None:
    """Print the result for each partition; exits with code 1 if one was refused."""
    from brokertwin.cli.broker.cluster_requests import FINE

    if as_json:
        for outcome in outcomes:
            topic, partition = outcome.place
            said = {"error": outcome.error.name, "message": outcome.message}
            show_json({"topic": topic, "partition": partition, **said})
    else:
        rows = [(f"{each.place.topic}-{each.place.partition}", each.text) for each in outcomes]
        show_table(["partition", "result"], rows)
    if any(outcome.error not in FINE for outcome in outcomes):
        raise typer.Exit(REFUSED)
