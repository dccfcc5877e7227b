"""Recorded exchanges of clients and brokers, and the findings about replication."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple, TypeVar

from brokertwin.protocol.batch_headers import Headers
from brokertwin.recordings.formats.pipeline import Source
from brokertwin.recordings.history.exchange import KnownFacts, RecordedExchange, exchange_of
from brokertwin.recordings.history.findings import (
    Finding,
    IsrAgainstRule,
    IsrChange,
    IsrRequested,
    IsrSampleTaken,
    SampleTaken,
    Unread,
    WatermarkDifference,
    WatermarkDiffers,
    WatermarkDiffersBriefly,
    WatermarkSample,
    moment_of,
)
from brokertwin.recordings.history.holes import Hole, HoleFinder, spans_of
from brokertwin.recordings.history.recording import ObservedRecording
from brokertwin.recordings.history.replicas import UNKNOWN
from brokertwin.recordings.history.replication import REPLICATION, ReplicatedPartition
from brokertwin.recordings.replay import recording
from brokertwin.recordings.replay.recording import Recording

F = TypeVar("F", bound=Finding)


class ObservedReplication:
    """The findings about replication, in the order of their moments.

    Args:
        exchanges: those of clients and of brokers.
        known: settings of the brokers.
    """

    def __init__(
        self, exchanges: Iterable[RecordedExchange], facts: KnownFacts | None = None
    ) -> None:
        ordered = sorted(exchanges, key=lambda each: each.line.end)
        self._cluster = ObservedRecording(ordered, known=facts)
        self._found = self._cluster.observed(REPLICATION)

    @property
    def exchanges(self) -> Sequence[RecordedExchange]:
        return self._cluster.exchanges

    @property
    def known(self) -> KnownFacts:
        return self._cluster.known

    @property
    def time(self) -> float:
        """The last moment, in ms since 1970."""
        return max((each.made for each in self.exchanges), default=0.0)

    @cached_property
    def partitions(self) -> Mapping[str, ReplicatedPartition]:
        found = {
            each.name: each
            for each in self._found.entities.values()
            if isinstance(each, ReplicatedPartition) and each.topic
        }
        return dict(sorted(found.items()))

    @property
    def nameless(self) -> list[str]:
        partitions = self.partitions.values()
        return sorted({each.topic for each in partitions if each.topic == each.topic_id})

    @property
    def missing(self) -> list[str]:
        """Brokers with replicas, and the controller, whose logs the recording lacks."""
        known = [each.known for each in self.partitions.values()]
        replicas = {b for each in known for b in (*each.replicas, *each.isr, each.led_by)}
        missing = sorted(replicas - self.known.logs.keys() - {UNKNOWN})
        return [f"broker {b}" for b in missing] + ["the controller"] * (not self.known.presences)

    def has_leader_log(self, partition: ReplicatedPartition) -> bool:
        return partition.known.led_by in self.known.logs

    @cached_property
    def samples(self) -> list[WatermarkSample]:
        found = self._ordered(SampleTaken, IsrSampleTaken)
        return [each.sample for each in found if isinstance(each, SampleTaken | IsrSampleTaken)]

    @cached_property
    def isr_samples(self) -> list[WatermarkSample]:
        return [each.sample for each in self._ordered(IsrSampleTaken)]

    @cached_property
    def differences(self) -> list[WatermarkDifference]:
        found = self._ordered(WatermarkDiffers, WatermarkDiffersBriefly)
        kinds = WatermarkDiffers | WatermarkDiffersBriefly
        return [each.difference for each in found if isinstance(each, kinds)]

    @cached_property
    def isr_changes(self) -> list[IsrChange]:
        found = self._ordered(IsrRequested, IsrAgainstRule)
        return [each.change for each in found if isinstance(each, IsrRequested | IsrAgainstRule)]

    @property
    def unread(self) -> Mapping[str, int]:
        return Counter(each.api for each in self.found(Unread))

    def found(self, *classes: type[F]) -> list[F]:
        return sorted(self._cluster.found(REPLICATION, *classes), key=moment_of)

    def _ordered(self, *classes: type[F]) -> list[F]:
        return sorted(self.found(*classes), key=_moment)


def _moment(finding: Finding) -> tuple[float, tuple[int | str, ...], int]:
    part = int(finding.part) if finding.part.isdecimal() else 0
    return moment_of(finding), finding.line.order[1:], part


class Watched(NamedTuple):
    """A recording.

    Attributes:
        recording: the exchanges of clients.
        replication: the findings about replication, from those of brokers, too.
        holes: stretches in which lines are missing, if they were looked for.
    """

    recording: Recording
    replication: ObservedReplication
    holes: Sequence[Hole] = ()


def watch(
    source: Source, batches: Headers | None = None, known: KnownFacts | None = None
) -> Watched:
    """Read a recording once, for the exchanges of clients and of brokers.

    Args:
        source: of the documents.
        batches: batch headers for Produce requests that have none.
        known: settings of the brokers.

    Raises:
        UserError: the source cannot be read, or none of the lines is an exchange.
    """
    return watched(recording.read_from(source, batches, with_own=True), known)


def watched(found: Recording, known: KnownFacts | None = None, is_whole: bool = False) -> Watched:
    """The same of what was read; `is_whole` if no lines were left out, so that holes show."""
    exchanges = [
        *(exchange_of(each) for each in found.exchanges),
        *(exchange_of(each, is_internal=True) for each in found.own),
    ]
    known, holes = known or KnownFacts(), list[Hole]()
    if is_whole:
        numbers = (each.header.correlation_id for each in (*found.exchanges, *found.own))
        holes = HoleFinder.of(zip(exchanges, numbers, strict=True)).holes()
        known.holes = spans_of(each[:2] for each in holes)
    return Watched(found, ObservedReplication(exchanges, known), holes)
