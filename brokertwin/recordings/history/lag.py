"""Lag of the groups that commit in a partition, between two bounds.

The lag at a commit is at least that by the last high watermark (HW) before it, and at most that by
the first HW after it. If both are negative, the group committed beyond the log end. The lag has
grown if the lower bound of a later commit is above the upper bound of an earlier one. So a HW that
is not recorded never makes the lag greater. Records that are read again after a commit that
went back are no growth.

Offsets of a transaction are committed when it ends. A HW that goes back, with a new leader, begins
anew: lags before and after it are not compared.
"""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import field

from brokertwin.recordings.history.bodies import MARKERS
from brokertwin.recordings.history.entity import EntityKey, EntityKind, ObservedEntity, Parts
from brokertwin.recordings.history.exchange import KnownFacts, RecordedExchange, RecordedRequest
from brokertwin.recordings.history.findings import (
    CommitBeyondEnd,
    Finding,
    LagGrew,
    LagSeen,
    OffsetCommitted,
    PartitionId,
    Severity,
)
from brokertwin.recordings.history.group_offsets import (
    COMMIT_APIS,
    ENDING_APIS,
    ObservedOffsets,
    commits_in,
    places_of,
)
from brokertwin.recordings.history.stable_offsets import StableOffset, marked_in, written_in

GROWTH = 1_000
"""Records by which a lag has to grow for a finding."""

WATERMARKS_MAX = 100
"""Maximum number of high watermarks of a partition that are kept for commits on their way."""

GROUPS_MAX = 100
"""Maximum number of groups of a partition."""

COMMITS_MAX = 100
"""Maximum number of commits of a group that wait for a high watermark."""

READ_COMMITTED = 1
"""The isolation level of consumers that read only committed records."""

LATEST = -1
"""The timestamp of ListOffsets for the end of the log."""


class KnownWatermark(msgspec.Struct, array_like=True, frozen=True):
    """A high watermark, and when the first response with it was sent, in ms since 1970."""

    value: int
    sent: int


class WaitingCommit(msgspec.Struct):
    """A commit whose upper bound is unknown.

    Attributes:
        line: the commit.
        end: when it was done, in ms since 1970.
        least: the lower bound of the lag; None if no HW before it is recorded.
        back: by how many records the group had gone back up to it.
    """

    line: RecordedRequest
    end: int
    offset: int
    least: int | None
    back: int = 0


class GroupLag(msgspec.Struct):
    """The lag of a group.

    Attributes:
        offsets: its committed offsets, also those of open transactions.
        waiting: commits whose upper bound is unknown, in their order.
        lowest: the least upper bound of a lag, less `back`; None if none is known.
        last: the last committed offset; -1 if none is known.
        back: by how many records commits have gone back: so much lag is not growth.
    """

    offsets: ObservedOffsets
    waiting: list[WaitingCommit] = field(default_factory=list)
    lowest: int | None = None
    last: int = -1
    back: int = 0


class PartitionLag(ObservedEntity, kw_only=True):
    """The high watermarks of a partition, and the groups that commit in it.

    Attributes:
        topic: topic name, or id if no response shows the name.
        groups: group id to its lag; the last one committed last.
        watermarks: the newest high watermarks, none less than one before it.
        begun: when the request for the first of them arrived, in ms since 1970.
        newest_sent: when the last response with one was sent, in ms since 1970.
        has_gone_back: whether a high watermark was less than one before it.
        stable: its last stable offset, and the transactions that hold it back.
    """

    topic: str
    partition: int
    groups: dict[str, GroupLag] = field(default_factory=dict)
    watermarks: list[KnownWatermark] = field(default_factory=list)
    begun: int = 0
    newest_sent: int = 0
    has_gone_back: bool = False
    stable: StableOffset = field(default_factory=StableOffset)

    def take(self, exchange: RecordedExchange, known: KnownFacts) -> Iterable[Finding]:
        if "highWatermark" in exchange.response:
            findings = self._reported(exchange.line, exchange.response["highWatermark"], known)
            findings += self.stable.fetched(exchange, self.topic, self.partition)
            return findings
        if exchange.line.api == "PRODUCE":
            self.stable.written(exchange)
            return ()
        if "producerIds" in exchange.request:
            return self.stable.marked(exchange, known)
        return self._take_commits(exchange, known)

    def _take_commits(self, exchange: RecordedExchange, known: KnownFacts) -> Iterator[Finding]:
        if exchange.line.api in ENDING_APIS:
            for name, group in self.groups.items():
                done = group.offsets.end_transaction(exchange, known)
                yield from self._committed(name, group, exchange.line, done)
        else:
            name = str(exchange.request.get("groupId"))
            group = self.groups.pop(name, GroupLag(ObservedOffsets(name)))
            self.groups[name] = group
            while len(self.groups) > GROUPS_MAX:
                del self.groups[next(iter(self.groups))]
            done = group.offsets.take(exchange, known)
            yield from self._committed(name, group, exchange.line, done)

    def _reported(self, line: RecordedRequest, value: int, known: KnownFacts) -> list[Finding]:
        """Take a high watermark; two responses at once have no order."""
        former = self.watermarks[-1] if self.watermarks else None
        if former is not None and value < former.value:
            if line.time <= self.newest_sent:
                return []
            self.watermarks, self.has_gone_back = [], True
            for group in self.groups.values():
                group.waiting, group.lowest = [], None
        if not self.watermarks:
            self.begun = line.time
        if not self.watermarks or value > self.watermarks[-1].value:
            self.watermarks.append(KnownWatermark(value, line.end))
            del self.watermarks[:-WATERMARKS_MAX]
        self.newest_sent = line.end
        findings: list[Finding] = []
        for name, group in self.groups.items():
            if group.waiting:
                findings += self._bounded(name, group, line.time - known.late_ms, value)
        return findings

    def _committed(
        self,
        name: str,
        group: GroupLag,
        by: RecordedRequest,
        done: Iterator[Finding],
    ) -> Iterator[Finding]:
        for each in done:
            if not isinstance(each, OffsetCommitted) or (
                self.has_gone_back and by.time < self.begun
            ):
                continue
            offset = each.offset
            group.back += max(0, group.last - offset)
            group.last = offset
            before = next((e for e in reversed(self.watermarks) if e.sent <= by.time), None)
            least = before.value - offset if before is not None else None
            commit = WaitingCommit(each.line, by.end, offset, least, group.back)
            if least is not None:
                yield LagSeen(
                    line=commit.line, group=name, partition=self._at, offset=offset, lag=least
                )
            low = None if group.lowest is None else group.lowest + group.back
            if low is not None and least is not None and least - low >= GROWTH:
                yield LagGrew(
                    line=commit.line,
                    severity=Severity.WARNING,
                    group=name,
                    partition=self._at,
                    offset=offset,
                    former=low,
                    least=least,
                )
            group.waiting = [*group.waiting, commit][-COMMITS_MAX:]

    def _bounded(
        self, name: str, group: GroupLag, requested_at: int, value: int
    ) -> Iterator[Finding]:
        """Bound the lag at commits that were done before a high watermark was requested."""
        while group.waiting and group.waiting[0].end <= requested_at:
            commit = group.waiting.pop(0)
            most = value - commit.offset
            if commit.least is not None and most < 0:
                yield CommitBeyondEnd(
                    line=commit.line,
                    severity=Severity.WARNING,
                    group=name,
                    partition=self._at,
                    offset=commit.offset,
                    beyond=-most,
                )
            most -= commit.back
            group.lowest = min(most, most if group.lowest is None else group.lowest)

    @property
    def _at(self) -> PartitionId:
        return PartitionId(self.topic, self.partition)


def _offsets_in(
    exchange: RecordedExchange, known: KnownFacts
) -> dict[tuple[str, int], RecordedExchange]:
    response, line, is_fetch = exchange.response, exchange.line, exchange.line.api == "FETCH"
    latest = None if is_fetch else _latest(exchange.request, known)
    reads_committed = is_fetch and exchange.request.get("isolationLevel") == READ_COMMITTED
    request = {"readsCommitted": reads_committed and not line.is_own}
    value_field = "highWatermark" if is_fetch else "offset"
    found = {}
    for topic in response.get("responses" if is_fetch else "topics") or ():
        name = known.topic(topic)
        for each in topic["partitions"]:
            place = name, each["partitionIndex"]
            value = each.get(value_field, -1)
            if not each["errorCode"] and value >= 0 and (latest is None or place in latest):
                offsets = {"highWatermark": value}
                if is_fetch:
                    offsets["lastStable"] = each.get("lastStableOffset", -1)
                found[place] = RecordedExchange(line, request, offsets)
    return found


def _latest(body: Any, known: KnownFacts) -> set[tuple[str, int]]:
    """The partitions of a ListOffsets for the high watermark."""
    if body.get("isolationLevel"):
        return set()
    return {
        (known.topic(topic), each["partitionIndex"])
        for topic in body.get("topics") or ()
        for each in topic["partitions"]
        if each["timestamp"] == LATEST
    }


def _partitions_in(exchange: RecordedExchange, known: KnownFacts) -> Parts:
    """The partitions, each with its commit, or its high watermark."""
    api = exchange.line.api
    if api in COMMIT_APIS:
        for (topic, number), part in commits_in(exchange, known).items():
            yield _key(topic, number), part
    elif api in ENDING_APIS:
        named = places_of(exchange, known)
        for topic, number in dict.fromkeys((known.named(topic), n) for _, topic, n in named):
            yield _key(topic, number), exchange
    if api in ("PRODUCE", MARKERS):
        parts = written_in(exchange, known) if api == "PRODUCE" else marked_in(exchange, known)
        for (topic, number), part in parts.items():
            yield _key(topic, number), part
    elif api in ("FETCH", "LIST_OFFSETS"):
        for (topic, number), part in _offsets_in(exchange, known).items():
            yield _key(topic, number), part


@lru_cache(maxsize=10_000)
def _key(topic: str, partition: int) -> EntityKey:
    return EntityKey("lag", f"{partition} {topic}")


def _partition_of(key: EntityKey) -> PartitionLag:
    partition, _, topic = key.id.partition(" ")
    return PartitionLag(topic=topic, partition=int(partition))


LAGS = EntityKind(
    "lag",
    frozenset({"FETCH", "LIST_OFFSETS", "PRODUCE", *ENDING_APIS, *COMMIT_APIS}),
    _partitions_in,
    _partition_of,
)
