"""`brokertwin report`: leaders, in-sync replicas and high watermarks of a recorded cluster."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import Progress

from brokertwin.cli.ingest import Broker, TimeZone
from brokertwin.cli.options import AsJson, BrokerConfig, typed_broker_settings
from brokertwin.cli.output import err, say, show_json, show_table, warn
from brokertwin.errors import UserError

if TYPE_CHECKING:
    from brokertwin.state.observed.checkpoints import CheckedEntry
    from brokertwin.state.observed.replicas import Replicas
    from brokertwin.state.observed.replication import (
        Difference,
        IsrChange,
        ReplicationObserver,
        Sample,
    )
    from brokertwin.streaming.ingest.summary import Summary

DIFFERS = 1
DIFFERENCES_SHOWN = 20
CHANGES_SHOWN = 200
HEEDED = ("min.insync.replicas", "replica.lag.time.max.ms")
CHECKPOINT = "replication-offset-checkpoint"

Files = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILE…",
        help="Request logs of the cluster's brokers, and of its controller where there are some:"
        " only there is AlterPartition; also .gz.",
    ),
]
Partitions = Annotated[
    list[str] | None,
    typer.Option(
        "--partition",
        metavar="TOPIC-N",
        help="Report this partition alone, with every change of it; repeatable.",
    ),
]
Checkpoints = Annotated[
    list[Path] | None,
    typer.Option(
        "--checkpoints",
        metavar="DIR",
        help=f"Hold each {CHECKPOINT} below this directory against what was derived; the folder"
        " that it is in ends with the broker's id, like broker-1; repeatable.",
    ),
]
Plot = Annotated[
    Path | None,
    typer.Option(
        "--plot",
        metavar="FILE",
        help="Draw LEO, HW and ISR over time: FILE.html (a page that needs nothing else), .svg or"
        " .png.",
    ),
]


def command(
    files: Files,
    partitions: Partitions = None,
    broker_config: BrokerConfig = None,
    checkpoints: Checkpoints = None,
    plot: Plot = None,
    broker: Broker = None,
    time_zone: TimeZone = "UTC",
    as_json: AsJson = False,
) -> None:
    """Show how a recorded cluster replicated, from its brokers' request logs.

    Follows leaders, log end offsets (LEO), in-sync replicas (ISR) and high watermarks (HW) through
    what clients and followers asked and were answered, and holds each HW that a leader told against
    Kafka's rule. Where the two differ without a reason the exit code is 1.
    """
    from brokertwin.state.observed.replication import ReplicationObserver
    from brokertwin.streaming.ingest.pipeline import Reading, zone_of
    from brokertwin.streaming.ingest.summary import Summary, nothing_read
    from brokertwin.streaming.lines import size_of
    from brokertwin.streaming.observed import plots
    from brokertwin.streaming.observed.exchanges import exchanges_of

    if plot is not None:
        plots.look(plot)
    observer, summary = ReplicationObserver(), Summary()
    if broker_config is not None:
        rules = typed_broker_settings(broker_config, (), also_acted_on=HEEDED)
        observer = ReplicationObserver(rules.min_insync_replicas, rules.replica_lag_time_max_ms)
    with Progress(console=err, transient=True, disable=not err.is_terminal) as bar:
        task = bar.add_task("reading", total=size_of(files))
        observer.observe(
            exchanges_of(
                files,
                Reading(broker, zone_of(time_zone), warn),
                summary,
                lambda size: bar.advance(task, size),
            )
        )
    if not summary.events:
        raise nothing_read(summary)
    report = _Report(observer, summary, partitions or [])
    checked = report.check(_checkpoints(checkpoints or []))
    if plot is not None:
        plots.write(plot, report.samples, observer.time)
        say(f"wrote {plot}")
    if as_json:
        show_json(report.as_json(checked))
    else:
        report.show(checked)
    if (
        report.unexplained
        or report.odd_changes
        or any(each.why for each in checked)
        or summary.dead
        or observer.unread
    ):
        raise typer.Exit(DIFFERS)


def _checkpoints(directories: list[Path]) -> list[tuple[int, str]]:
    """Broker and text of each checkpoint below some directories."""
    found = []
    for directory in directories:
        paths = sorted(directory.rglob(CHECKPOINT))
        if not paths:
            raise UserError(f"There is no {CHECKPOINT} below {directory}.")
        for path in paths:
            broker = path.parent.name.rpartition("-")[2]
            if not broker.isdigit():
                raise UserError(
                    f"Whose is {path}?", "The folder's name has to end with the broker's id."
                )
            found.append((int(broker), path.read_text()))
    return found


class _Report:
    """What is shown of an observer's findings: all partitions, or some."""

    def __init__(
        self, observer: "ReplicationObserver", summary: "Summary", partitions: list[str]
    ) -> None:
        self._observer = observer
        self._summary = summary
        self._asked = partitions
        names = {self._name(place): place for place in observer.partitions}
        for name in partitions:
            if name not in names:
                raise UserError(f"{name} is not in the recording.", f"There are {sorted(names)}.")
        shown = partitions or sorted(names)
        self.partitions = {name: observer.partitions[names[name]] for name in shown}
        self.samples: list[Sample] = [s for s in observer.samples if self._has(s)]
        self.isr_changes: list[IsrChange] = [c for c in observer.isr_changes if self._has(c)]
        self.odd_changes = [change for change in self.isr_changes if change.why]
        self.differences: list[Difference] = [d for d in observer.differences if self._has(d)]

    def _name(self, place: tuple[str, int]) -> str:
        topic_id, partition = place
        return f"{self._observer.names.get(topic_id, topic_id)}-{partition}"

    def _has(self, found: "Sample | Difference | IsrChange") -> bool:
        return f"{found.topic}-{found.partition}" in self.partitions

    @property
    def unexplained(self) -> list["Difference"]:
        """High watermarks that the rule does not give, and no race explains."""
        from brokertwin.state.observed.replication import UNEXPLAINED

        return [each for each in self.differences if each.why == UNEXPLAINED]

    def check(self, files: Sequence[tuple[int, str]]) -> list["CheckedEntry"]:
        """The entries of checkpoint files, held against what was derived."""
        from brokertwin.state.logs import checkpoint_files
        from brokertwin.state.observed import checkpoints

        found = []
        for broker, text in files:
            try:
                found.append((broker, checkpoint_files.parse(text)))
            except checkpoint_files.CheckpointError as error:
                raise UserError(
                    f"The checkpoint of broker {broker} cannot be read: {error}."
                ) from None
        nameless = {topic_id for topic_id, _ in self._observer.partitions} - set(
            self._observer.names
        )
        return checkpoints.check(self._observer.samples, nameless, found)

    def as_json(self, checked: Sequence["CheckedEntry"]) -> dict[str, Any]:
        """Everything, for programs. Times are ms since 1970."""
        return {
            "partitions": {name: _state(known) for name, known in self.partitions.items()},
            "highWatermarks": self._counts(),
            "differences": [each._asdict() for each in self.differences],
            "isrChanges": [each._asdict() for each in self.isr_changes],
            "checkpoints": [each._asdict() for each in checked],
            "changes": [each._asdict() for each in self.samples] if self._asked else [],
            "unreadable": self._summary.dead,
            "unread": dict(self._observer.unread),
        }

    def _counts(self) -> dict[str, int]:
        places = [(known.topic_id, known.partition) for known in self.partitions.values()]
        return {
            "agree": sum(self._observer.agreed[place] for place in places),
            "assumed": sum(self._observer.adopted[place] for place in places),
            **Counter(each.why for each in self.differences),
        }

    def show(self, checked: Sequence["CheckedEntry"]) -> None:
        """Tables for people."""
        from brokertwin.streaming.explain.story import clock

        show_table(
            ("partition", "leader", "epoch", "in sync", "LEO", "HW", "HW is"),
            [_row(name, known) for name, known in self.partitions.items()],
        )
        if self._asked:
            self._show_changes()
        if self.differences:
            show_table(
                ("time", "partition", "HW told", "by the rule", "why", "line"),
                [
                    (clock(d.time), f"{d.topic}-{d.partition}", d.told, d.derived, d.why, d.place)
                    for d in self.differences[:DIFFERENCES_SHOWN]
                ],
                title="High watermarks that the rule does not give",
            )
        for change in self.odd_changes:
            verb = "in" if change.is_added else "out"
            warn(
                f"{change.topic}-{change.partition}: leader {change.leader} wanted broker"
                f" {change.broker} {verb} at {clock(change.time)}, and {change.why}"
                f" ({change.place})"
            )
        say(
            f"in-sync replicas: {len(self.isr_changes)} changes,"
            f" {len(self.isr_changes) - len(self.odd_changes)} by the rule"
        )
        counts = ", ".join(f"{count} {name}" for name, count in self._counts().items())
        say(f"high watermarks that leaders told: {counts}")
        wrong = [each for each in checked if each.why]
        if checked:
            say(f"checkpoints: {len(checked) - len(wrong)} of {len(checked)} entries as derived")
        for each in wrong:
            warn(
                f"broker {each.broker} has {each.offset} for {each.topic}-{each.partition}:"
                f" {each.why}"
            )

        for api, count in self._observer.unread.items():
            warn(f"{count} {api} have another shape than Kafka 4.3's, and were passed over")

    def _show_changes(self) -> None:
        from brokertwin.streaming.explain.story import clock

        rows = [
            (
                clock(sample.time),
                f"{sample.topic}-{sample.partition}",
                sample.leader,
                sample.leader_epoch,
                list(sample.isr),
                max(sample.ends.values()),
                sample.high_watermark,
                sample.why,
            )
            for sample in self.samples[-CHANGES_SHOWN:]
        ]
        columns = ("time", "partition", "leader", "epoch", "in sync", "LEO", "HW", "because")
        hidden = len(self.samples) - len(rows)
        title = f"The last {len(rows)} of {len(self.samples)} changes" if hidden else "Changes"
        show_table(columns, rows, title=title)


def _state(known: "Replicas") -> dict[str, Any]:
    return {
        "topicId": known.topic_id,
        "leader": known.leader,
        "leaderEpoch": known.leader_epoch,
        "replicas": known.replicas,
        "isr": sorted(known.in_sync),
        "logEndOffsets": {known.leader: known.leader_end, **known.ends},
        "highWatermark": known.high_watermark,
        "isAssumed": known.is_assumed,
    }


def _row(name: str, known: "Replicas") -> tuple[object, ...]:
    ends = {known.leader: known.leader_end, **known.ends}
    leos = " ".join(f"{broker}:{end}" for broker, end in sorted(ends.items()))
    note = "assumed" if known.is_assumed else "by rule"
    in_sync = sorted(known.in_sync)
    return name, known.leader, known.leader_epoch, in_sync, leos, known.high_watermark, note
