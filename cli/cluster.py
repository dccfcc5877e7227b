"""`brokerstream cluster`: brokers and replicas of a cluster, and what can be done to them."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from brokerstream.cli.cluster_access import (
    Access,
    Checkpoint,
    Cluster,
    ControlFile,
    Timeout,
)
from brokerstream.cli.options import (
    AsJson,
    Bootstrap,
    ConfigFile,
    KafkaConfig,
    Prefix,
    group,
    settings_of,
)
from brokerstream.cli.output import out, say, show_json, show_table

if TYPE_CHECKING:
    from brokerstream.streaming.state_rows import Row

TIMEOUT_S = 60.0
DONE = {
    "stop-broker": "is stopped",
    "start-broker": "runs",
    "isolate-broker": "is cut off from the other brokers",
    "rejoin-broker": "reaches the other brokers",
}

app = group()

BrokerId = Annotated[int, typer.Argument(metavar="BROKER", help="The broker's id.")]
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

    Of a job it is read from the checkpoint, as `brokerstream state` does. The lag is that of the
    replica that is farthest behind the leader; --json has each replica's.
    """
    settings_of(config)
    access = Access(control, cluster, checkpoint, prefix=prefix, config=config)
    found = access.status()
    shown = [row for row in found["partitions"] if all_items or not _is_internal(row)]
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
    hidden = len(found["partitions"]) - len(shown)
    if hidden:
        out.print(f"{hidden} partitions of internal topics are left out; --all shows them, too")


def _is_internal(row: "Row") -> bool:
    from brokerstream.state.cluster.image import INTERNAL_TOPICS

    return row["topic"] in INTERNAL_TOPICS


def _line(row: "Row") -> list[Any]:
    """A partition as people read it: no leader is a dash."""
    leader, end, high_watermark = (
        "-" if row[name] < 0 else row[name] for name in ("leader", "logEndOffset", "highWatermark")
    )
    return [
        f"{row['topic']}-{row['partition']}",
        leader,
        ",".join(map(str, row["replicas"])),
        ",".join(map(str, row["isr"])),
        end,
        high_watermark,
        "-" if row["lag"] is None else row["lag"],
    ]


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
    "Stop a broker: others are elected, its port is closed, what it held in memory is gone.",
)
_intervention(
    "start",
    "start-broker",
    "Start a broker that was stopped: it follows, and joins the in-sync sets again.",
)
_intervention(
    "isolate",
    "isolate-broker",
    "Cut a broker off from the other brokers; clients and the controller still reach it.",
)
_intervention("rejoin", "rejoin-broker", "End what `isolate` began.")
