"""`brokertwin replication`: leaders, in-sync replicas and high watermarks in a recorded cluster."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from msgspec import structs

from brokertwin.cli.files import check_new, writing
from brokertwin.cli.options import AsJson, BrokerConfig, Force
from brokertwin.cli.output import err, progress_bars, say, show_json, show_table, warn
from brokertwin.cli.recordings.audit import broker_facts
from brokertwin.cli.recordings.ingest import Broker, TimeZone
from brokertwin.errors import UserError
from brokertwin.wording import counted

if TYPE_CHECKING:
    from brokertwin.recordings.history.findings import (
        IsrChange,
        WatermarkDifference,
        WatermarkSample,
    )
    from brokertwin.recordings.history.replicas import PartitionReplicas
    from brokertwin.recordings.history.replication import ReplicatedPartition
    from brokertwin.recordings.observed.checkpoints import CheckedEntry
    from brokertwin.recordings.observed.watching import Watched

DIFFERS = 1
UNKNOWN = -1
DIFFERENCES_SHOWN = 20
CHANGES_SHOWN = 200
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
        "--topic-partition",
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
    force: Force = False,
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
    from brokertwin.recordings.formats.pipeline import FileReading, read_files, zone_of
    from brokertwin.recordings.observed import plots
    from brokertwin.recordings.observed.watching import watch

    if plot is not None:
        plots.look(plot)
    check_new(plot, force)
    reading = FileReading(broker, zone_of(time_zone), warn)
    with progress_bars() as bar:
        task = bar.add_task("reading", total=size_of(files))
        watched = watch(
            lambda summary: read_files(
                files, reading, summary, lambda size: bar.advance(task, size)
            ),
            known=structs.replace(broker_facts(broker_config), takes_all=True),
        )
    report = _Report(watched, partitions or [])
    checked = report.check(_checkpoints(checkpoints or []))
    if plot is not None:
        with writing(plot) as temporary:
            plots.write(temporary, plot.suffix, report.samples, watched.replication.time)
        say(f"wrote {plot}")
    if as_json:
        show_json(report.as_json(checked))
    else:
        report.show(checked)
    if (
        report.unexplained
        or report.odd_changes
        or any(each.why for each in checked)
        or watched.recording.broken
        or watched.replication.unread
    ):
        raise typer.Exit(DIFFERS)


def _checkpoints(directories: list[Path]) -> list[tuple[int, str]]:
    """Return broker id and text of each checkpoint below the directories."""
    checkpoints = []
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
            checkpoints.append((int(broker), path.read_text()))
    return checkpoints


class _Report:
    """The shown part of an observer's findings: all partitions or some."""

    def __init__(self, watched: "Watched", partitions: list[str]) -> None:
        self._replication = watched.replication
        self._broken = watched.recording.broken
        self._named = partitions
        recorded = self._replication.partitions
        for name in partitions:
            if name not in recorded:
                raise UserError(
                    f"The recording has no partition {name}.", f"It has {sorted(recorded)}."
                )
        self.partitions = {name: recorded[name] for name in partitions or recorded}
        self.samples = [each for each in self._replication.samples if self._has(each)]
        self.isr_changes = [each for each in self._replication.isr_changes if self._has(each)]
        self.odd_changes = [change for change in self.isr_changes if change.why]
        self.differences = [each for each in self._replication.differences if self._has(each)]

    def _has(self, found: "WatermarkSample | WatermarkDifference | IsrChange") -> bool:
        return f"{found.topic}-{found.partition}" in self.partitions

    @property
    def unexplained(self) -> list["WatermarkDifference"]:
        """High watermarks that differ from the rule without a known reason."""
        from brokertwin.recordings.history.findings import DifferenceCause

        return [each for each in self.differences if each.why is DifferenceCause.UNEXPLAINED]

    def check(self, files: Sequence[tuple[int, str]]) -> list["CheckedEntry"]:
        """Compare the entries of checkpoint files with the derived high watermarks."""
        from brokertwin.recordings.observed import checkpoints
        from brokertwin.state.logs import checkpoint_files

        found = []
        for broker, text in files:
            try:
                found.append((broker, checkpoint_files.parse(text)))
            except checkpoint_files.CheckpointError as error:
                raise UserError(
                    f"Cannot read the checkpoint of broker {broker}: {error}."
                ) from None
        return checkpoints.check(self._replication.samples, self._replication.nameless, found)

    def as_json(self, checked: Sequence["CheckedEntry"]) -> dict[str, Any]:
        """All findings as JSON; times are in ms since 1970."""
        from brokertwin.recordings import sentences

        return {
            "partitions": {
                name: _state(each, self._replication.has_leader_log(each))
                for name, each in self.partitions.items()
            },
            "missingLogs": self._replication.missing,
            "highWatermarks": self._counts(),
            "differences": [each._asdict() for each in self.differences],
            "isrChanges": [
                {**each._asdict(), "why": sentences.breach(each.why) if each.why else ""}
                for each in self.isr_changes
            ],
            "checkpoints": [each._asdict() for each in checked],
            "changes": [
                {**each._asdict(), "why": sentences.moved(each.why)}
                for each in (self.samples if self._named else ())
            ],
            "unreadable": Counter(each.reason for each in self._broken),
            "unread": dict(self._replication.unread),
        }

    def _counts(self) -> dict[str, int]:
        return {
            "agree": sum(each.agreed for each in self.partitions.values()),
            "assumed": sum(each.adopted for each in self.partitions.values()),
            **Counter(each.why for each in self.differences),
        }

    def show(self, checked: Sequence["CheckedEntry"]) -> None:
        """Print the findings as tables."""
        from brokertwin.recordings import sentences
        from brokertwin.recordings.history.words import clock
        from brokertwin.recordings.replay.report import show_broken

        show_table(
            ("partition", "leader", "leader epoch", "ISR", "LEO", "HW", "HW source"),
            [
                _row(name, each.known, self._replication.has_leader_log(each))
                for name, each in self.partitions.items()
            ],
        )
        if self._named:
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
            assert change.why is not None
            verb = "added to" if change.is_added else "removed from"
            warn(
                f"{change.topic}-{change.partition}: leader {change.leader} asked at"
                f" {clock(change.time)} for broker {change.broker} to be {verb} the ISR, but"
                f" {sentences.breach(change.why)} ({change.place})"
            )
        say(
            f"ISR: {counted(len(self.isr_changes), 'change')},"
            f" {len(self.isr_changes) - len(self.odd_changes):,} as expected"
        )
        counts = ", ".join(f"{count} {name}" for name, count in self._counts().items())
        say(f"high watermarks reported by leaders: {counts}")
        if self._replication.missing:
            missing = " and ".join(self._replication.missing)
            warn(f"No request log of {missing}: what only these logs show is unknown or assumed.")
        wrong = [each for each in checked if each.why]
        if checked:
            entries = counted(len(checked), "entry", "entries")
            say(f"checkpoints: {len(checked) - len(wrong):,} of {entries} as expected")
        for each in wrong:
            warn(
                f"broker {each.broker} has {each.offset} for {each.topic}-{each.partition}:"
                f" {each.why}"
            )
        show_broken(err, self._broken)
        for api, count in self._replication.unread.items():
            messages = counted(count, f"{api} message")
            warn(f"skipped {messages}, whose fields are not those of Kafka 4.3")

    def _show_changes(self) -> None:
        from brokertwin.recordings import sentences
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
                sentences.moved(sample.why),
            )
            for sample in self.samples[-CHANGES_SHOWN:]
        ]
        columns = ("time", "partition", "leader", "leader epoch", "ISR", "LEO", "HW", "reason")
        hidden = len(self.samples) - len(rows)
        title = f"Last {len(rows)} of {len(self.samples)} changes" if hidden else "Changes"
        show_table(columns, rows, title=title)


def _state(of: "ReplicatedPartition", has_log: bool) -> dict[str, Any]:
    facts = of.known
    return {
        "topicId": of.topic_id,
        "leader": facts.leader,
        "leaderEpoch": facts.leader_epoch,
        "replicas": facts.replicas,
        "isr": sorted(facts.in_sync),
        "logEndOffsets": facts.log_ends,
        "logEndIsLeast": facts.end_is_least,
        "highWatermark": facts.high_watermark,
        "isAssumed": facts.is_assumed or not has_log,
    }


def _row(name: str, replicas: "PartitionReplicas", has_log: bool) -> tuple[object, ...]:
    leos = " ".join(
        f"{broker}:{_end(end, replicas.end_is_least and broker == replicas.led_by)}"
        for broker, end in sorted(replicas.log_ends.items())
    )
    note = "assumed" if replicas.is_assumed else "by rule"
    if not has_log and replicas.led_by != UNKNOWN:
        return (
            name,
            replicas.leader,
            replicas.leader_epoch,
            sorted(replicas.in_sync),
            leos,
            "?",
            "unknown",
        )
    in_sync = sorted(replicas.in_sync)
    leader, high_watermark = (
        _number(replicas.leader),
        _end(replicas.high_watermark, replicas.is_least),
    )
    return name, leader, replicas.leader_epoch, in_sync, leos or "?", high_watermark, note


def _number(value: int) -> str:
    """A broker or an offset; `?` if the recording does not show it."""
    return str(value) if value != UNKNOWN else "?"


def _end(offset: int, is_least: bool) -> str:
    """A log end offset; `≥` if the log may end later."""
    return f"≥{offset}" if is_least and offset != UNKNOWN else _number(offset)
