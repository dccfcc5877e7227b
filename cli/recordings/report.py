"""`brokertwin report`: leaders, in-sync replicas and high watermarks in a recorded cluster."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import Progress

from brokertwin.cli.options import AsJson, BrokerConfig, typed_broker_settings
from brokertwin.cli.output import err, say, show_json, show_table, warn
from brokertwin.cli.recordings.ingest import Broker, TimeZone
from brokertwin.errors import UserError
from brokertwin.wording import counted

if TYPE_CHECKING:
    from brokertwin.recordings.formats.summary import Summary
    from brokertwin.state.observed.checkpoints import CheckedEntry
    from brokertwin.state.observed.replicas import PartitionReplicas
    from brokertwin.state.observed.replication import (
        IsrChange,
        ReplicationObserver,
        WatermarkDifference,
        WatermarkSample,
    )

DIFFERS = 1
UNKNOWN = -1
DIFFERENCES_SHOWN = 20
CHANGES_SHOWN = 200
HEEDED = ("min.insync.replicas", "replica.lag.time.max.ms")
CHECKPOINT = "replication-offset-checkpoint"

Files = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILE…",
        help="Request logs of the cluster's brokers and controllers, because only controller logs"
        " have AlterPartition; also .gz.",
    ),
]
Partitions = Annotated[
    list[str] | None,
    typer.Option(
        "--partition",
        metavar="TOPIC-N",
        help="Report only this partition, with all its changes; repeatable.",
    ),
]
Checkpoints = Annotated[
    list[Path] | None,
    typer.Option(
        "--checkpoints",
        metavar="DIR",
        help=f"Compare each {CHECKPOINT} below this directory with the derived HW. Its folder's"
        " name must end with the broker id: broker-1; repeatable.",
    ),
]
Plot = Annotated[
    Path | None,
    typer.Option(
        "--plot",
        metavar="FILE",
        help="Plot LEO, HW and ISR over time to FILE.html (self-contained page), .svg or .png.",
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
    """Show replication in a recorded cluster, from its brokers' request logs.

    Derives leaders, log end offsets (LEO), in-sync replicas (ISR) and high watermarks (HW) from the
    requests and responses of clients and followers, and compares each HW that a leader reported
    with Kafka's rule. Exits with code 1 if there is an unexplained difference.
    """
    from brokertwin.recordings.formats.lines import size_of
    from brokertwin.recordings.formats.pipeline import FileReading, zone_of
    from brokertwin.recordings.formats.summary import Summary, nothing_read
    from brokertwin.recordings.observed import plots
    from brokertwin.recordings.observed.exchanges import exchanges_of
    from brokertwin.state.observed.replication import ReplicationObserver

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
                FileReading(broker, zone_of(time_zone), warn),
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
    """Return broker id and text of each checkpoint below the directories."""
    found = []
    for directory in directories:
        paths = sorted(directory.rglob(CHECKPOINT))
        if not paths:
            raise UserError(
                f"There is no {CHECKPOINT} below {directory}.",
                "Pass a directory with the brokers' log directories to --checkpoints.",
            )
        for path in paths:
            broker = path.parent.name.rpartition("-")[2]
            if not broker.isdigit():
                raise UserError(
                    f"Cannot tell which broker {path} belongs to.",
                    "Rename its folder so that the name ends with the broker id: broker-1.",
                )
            found.append((int(broker), path.read_text()))
    return found


class _Report:
    """The shown part of an observer's findings: all partitions or some."""

    def __init__(
        self, observer: "ReplicationObserver", summary: "Summary", partitions: list[str]
    ) -> None:
        self._observer = observer
        self._summary = summary
        self._asked = partitions
        names = {self._name(place): place for place in observer.partitions}
        for name in partitions:
            if name not in names:
                raise UserError(
                    f"The recording has no partition {name}.", f"It has {sorted(names)}."
                )
        shown = partitions or sorted(names)
        self.partitions = {name: observer.partitions[names[name]] for name in shown}
        self.samples: list[WatermarkSample] = [s for s in observer.samples if self._has(s)]
        self.isr_changes: list[IsrChange] = [c for c in observer.isr_changes if self._has(c)]
        self.odd_changes = [change for change in self.isr_changes if change.why]
        self.differences: list[WatermarkDifference] = [
            d for d in observer.differences if self._has(d)
        ]

    def _name(self, place: tuple[str, int]) -> str:
        topic_id, partition = place
        return f"{self._observer.names.get(topic_id, topic_id)}-{partition}"

    def _has(self, found: "WatermarkSample | WatermarkDifference | IsrChange") -> bool:
        return f"{found.topic}-{found.partition}" in self.partitions

    @property
    def unexplained(self) -> list["WatermarkDifference"]:
        """High watermarks that differ from the rule without a known reason."""
        from brokertwin.state.observed.replication import UNEXPLAINED

        return [each for each in self.differences if each.why == UNEXPLAINED]

    def check(self, files: Sequence[tuple[int, str]]) -> list["CheckedEntry"]:
        """Compare the entries of checkpoint files with the derived high watermarks."""
        from brokertwin.state.logs import checkpoint_files
        from brokertwin.state.observed import checkpoints

        found = []
        for broker, text in files:
            try:
                found.append((broker, checkpoint_files.parse(text)))
            except checkpoint_files.CheckpointError as error:
                raise UserError(
                    f"Cannot read the checkpoint of broker {broker}: {error}."
                ) from None
        nameless = {topic_id for topic_id, _ in self._observer.partitions} - set(
            self._observer.names
        )
        return checkpoints.check(self._observer.samples, nameless, found)

    def as_json(self, checked: Sequence["CheckedEntry"]) -> dict[str, Any]:
        """All findings as JSON; times are in ms since 1970."""
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
        """Print the findings as tables."""
        from brokertwin.recordings.history.words import clock

        show_table(
            ("partition", "leader", "leader epoch", "ISR", "LEO", "HW", "HW source"),
            [_row(name, known) for name, known in self.partitions.items()],
        )
        if self._asked:
            self._show_changes()
        if self.differences:
            show_table(
                ("time", "partition", "reported HW", "expected HW", "reason", "line"),
                [
                    (
                        clock(d.time),
                        f"{d.topic}-{d.partition}",
                        d.reported,
                        d.derived,
                        d.why,
                        d.place,
                    )
                    for d in self.differences[:DIFFERENCES_SHOWN]
                ],
                title="High watermarks that differ from Kafka's rule",
            )
        for change in self.odd_changes:
            verb = "added to" if change.is_added else "removed from"
            warn(
                f"{change.topic}-{change.partition}: leader {change.leader} asked at"
                f" {clock(change.time)} for broker {change.broker} to be {verb} the ISR, but"
                f" {change.why} ({change.place})"
            )
        say(
            f"ISR: {counted(len(self.isr_changes), 'change')},"
            f" {len(self.isr_changes) - len(self.odd_changes):,} as expected"
        )
        counts = ", ".join(f"{count} {name}" for name, count in self._counts().items())
        say(f"high watermarks reported by leaders: {counts}")
        wrong = [each for each in checked if each.why]
        if checked:
            entries = counted(len(checked), "entry", "entries")
            say(f"checkpoints: {len(checked) - len(wrong):,} of {entries} as expected")
        for each in wrong:
            warn(
                f"broker {each.broker} has {each.offset} for {each.topic}-{each.partition}:"
                f" {each.why}"
            )

        for api, count in self._observer.unread.items():
            messages = counted(count, f"{api} message")
            warn(f"skipped {messages}, whose fields are not those of Kafka 4.3")

    def _show_changes(self) -> None:
        from brokertwin.recordings.history.words import clock

        rows = [
            (
                clock(sample.time),
                f"{sample.topic}-{sample.partition}",
                _number(sample.leader),
                sample.leader_epoch,
                list(sample.isr),
                _end(max(sample.ends.values(), default=UNKNOWN), sample.is_least),
                _number(sample.high_watermark),
                sample.why,
            )
            for sample in self.samples[-CHANGES_SHOWN:]
        ]
        columns = ("time", "partition", "leader", "leader epoch", "ISR", "LEO", "HW", "reason")
        hidden = len(self.samples) - len(rows)
        title = f"Last {len(rows)} of {len(self.samples)} changes" if hidden else "Changes"
        show_table(columns, rows, title=title)


def _state(known: "PartitionReplicas") -> dict[str, Any]:
    return {
        "topicId": known.topic_id,
        "leader": known.leader,
        "leaderEpoch": known.leader_epoch,
        "replicas": known.replicas,
        "isr": sorted(known.in_sync),
        "logEndOffsets": known.log_ends,
        "logEndIsLeast": known.end_is_least,
        "highWatermark": known.high_watermark,
        "isAssumed": known.is_assumed,
    }


def _row(name: str, known: "PartitionReplicas") -> tuple[object, ...]:
    leos = " ".join(
        f"{broker}:{_end(end, known.end_is_least and broker == known.led_by)}"
        for broker, end in sorted(known.log_ends.items())
    )
    note = "assumed" if known.is_assumed else "by rule"
    in_sync = sorted(known.in_sync)
    leader, high_watermark = _number(known.leader), _end(known.high_watermark, known.is_least)
    return name, leader, known.leader_epoch, in_sync, leos or "?", high_watermark, note


def _number(value: int) -> str:
    """A broker or an offset; `?` if the recording does not show it."""
    return str(value) if value != UNKNOWN else "?"


def _end(offset: int, is_least: bool) -> str:
    """A log end offset; `≥` if the log may end later."""
    return f"≥{offset}" if is_least and offset != UNKNOWN else _number(offset)
