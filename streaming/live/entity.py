"""An entity of the live audit: its machine, the exchanges that it has seen, waiting and expiry.

Times: the exchanges' own (event time), and that of the micro-batch. An entity takes a waiting
exchange when the event time of its cluster has passed it (`ClusterFacts.event_time`). If no
exchange of the entity comes for `SILENT_MS` of the micro-batches' time, it takes all.

Expiry: an entity is over when the event time of its cluster is `kept_ms` past its newest exchange.
So a query that was stopped reads what comes next before it drops anything. The micro-batches' time
only decides when an entity looks at that.

Repeats and late exchanges: an exchange is identified by connection, correlation id and time. An
entity takes each id once. It ignores exchanges that are `LATE_MS` older than the event time of the
micro-batch before, of which it keeps no ids.

Refusals: the same error to the same API of a client within `TOGETHER_MS` is one finding, which is
completed.
"""

from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cache
from itertools import groupby
from operator import attrgetter

import msgspec
from msgspec import field

from brokertwin.recordings.history.entity import EntityKey, ObservedEntity
from brokertwin.recordings.history.exchange import KnownFacts, RecordedExchange
from brokertwin.recordings.history.findings import Finding, Refused, Severity
from brokertwin.streaming.live.facts import ALIVE_MS, ClusterFacts
from brokertwin.streaming.live.kinds import SILENT, kept_ms, machine_of

LATE_MS = 300_000
"""How much older than the event time of the cluster an exchange may be."""

BLOCK_MS = 10_000
"""Ids of exchanges are kept in blocks of this span."""

IDS_MAX = 20_000
"""Maximum number of ids of an entity; beyond it, the oldest blocks are dropped."""

SILENT_MS = 10_000
"""How long an entity waits for earlier exchanges if its cluster is silent."""

TOGETHER_MS = 60_000
"""How long after the first of them refusals complete one finding."""

TOGETHER_MAX = 100
"""Maximum number of refusals of one finding."""

ALARM_MS = 1_000
"""When an entity with waiting exchanges is called again: in the next micro-batch."""

BEHIND_ALARM_MS = 300_000
"""When any entity is called again at the latest if its cluster's event time is catching up."""


class EntityArrival(msgspec.Struct, array_like=True, frozen=True):
    """The part of an exchange for an entity, and the identity of the exchange.

    Attributes:
        number: hash of connection, correlation id and time; 64 bits.
        part: from `EntityKind.parts_of`.
    """

    number: int
    part: RecordedExchange


class SeenExchanges(msgspec.Struct, array_like=True):
    """The exchanges that an entity has seen lately.

    Attributes:
        floor: exchanges with a response before it are ignored, in ms since 1970.
        blocks: number of a span of `BLOCK_MS` to the ids of its exchanges, 8 bytes each.
    """

    floor: int = 0
    blocks: dict[int, bytes] = field(default_factory=dict)

    def new_ones(
        self, arrivals: Sequence[EntityArrival], event_time: int, counts: Counter[str]
    ) -> list[EntityArrival]:
        """Return those that are neither late nor repeated, in the order of the responses.

        Args:
            arrivals: in any order.
            event_time: of the cluster, in ms since 1970.
            counts: gets the numbers of the others, `late` and `repeated`.
        """
        new: list[EntityArrival] = []
        for block, group in groupby(_in_order(arrivals), _block):
            own = list(group)
            seen = set(array("Q", self.blocks.get(block, b"")))
            numbers = {each.number for each in own}
            is_all_new = len(numbers) == len(own) and seen.isdisjoint(numbers)
            if not is_all_new or _end(own[0]) < self.floor:
                own = list(self._new_of(own, seen, counts))
                numbers = {each.number for each in own}
            if own:
                new += own
                self.blocks[block] = array("Q", sorted(seen | numbers)).tobytes()
        self._bound(event_time)
        return new

    def _new_of(
        self, arrivals: Iterable[EntityArrival], seen: Collection[int], counts: Counter[str]
    ) -> Iterator[EntityArrival]:
        numbers = {*seen}
        for each in arrivals:
            if each.number in numbers:
                counts["repeated"] += 1
            elif _end(each) < self.floor:
                counts["late"] += 1
            else:
                numbers.add(each.number)
                yield each

    def _bound(self, event_time: int) -> None:
        self.floor = max(self.floor, event_time - LATE_MS)
        total = sum(map(len, self.blocks.values())) // 8
        for block in sorted(self.blocks):
            is_old = (block + 1) * BLOCK_MS <= self.floor
            if not is_old and (total <= IDS_MAX or len(self.blocks) == 1):
                break
            total -= len(self.blocks.pop(block)) // 8
            self.floor = max(self.floor, (block + 1) * BLOCK_MS)


def _in_order(arrivals: Sequence[EntityArrival]) -> Sequence[EntityArrival]:
    """Sort arrivals by the order of their responses; most end in a ms of their own."""
    ends = list(map(_end, arrivals))
    if len({*ends}) < len(ends):
        return sorted(arrivals, key=lambda each: each.part.line.order)
    return sorted(arrivals, key=_end)


_end = attrgetter("part.line.end")


def _block(arrival: EntityArrival) -> int:
    return arrival.part.line.end // BLOCK_MS


class StoredEntity(msgspec.Struct, array_like=True):
    """The state of an entity.

    Attributes:
        seen: the exchanges that it has seen lately.
        touched: time of the last micro-batch with an exchange of it, in ms since 1970.
        machine: its machine, encoded.
        refused: the refusals of each finding that may still be completed.
    """

    seen: SeenExchanges
    touched: int
    machine: bytes
    refused: list[list[Refused]] = []


def _completes(each: Refused, group: Sequence[Refused]) -> bool:
    """Return whether a refusal completes the finding of others."""
    first = group[0]
    is_like = (each.code, each.line.api) == (first.code, first.line.api)
    is_soon = abs(each.line.end - first.line.end) <= TOGETHER_MS
    return is_like and is_soon and len(group) < TOGETHER_MAX


_decoder = msgspec.msgpack.Decoder(StoredEntity)
_encoder = msgspec.msgpack.Encoder()


@cache
def _machines(kind: type[ObservedEntity]) -> "msgspec.msgpack.Decoder[ObservedEntity]":
    return msgspec.msgpack.Decoder(kind)


class LiveEntity:
    """An entity in a micro-batch.

    `stored`: from `stored`; None for a new one.

    Attributes:
        counts: number of exchanges that it has ignored, `late` and `repeated`.
    """

    def __init__(self, key: EntityKey, stored: bytes | None) -> None:
        self.key = key
        self.counts: Counter[str] = Counter()
        self.machine = machine_of(key)
        self._entity = StoredEntity(SeenExchanges(), 0, b"")
        if stored is not None:
            self._entity = _decoder.decode(stored)
            self.machine = _machines(type(self.machine)).decode(self._entity.machine)

    def handle(
        self, arrivals: Sequence[EntityArrival], facts: ClusterFacts, now: int, event_time: int
    ) -> list[Finding]:
        """Take exchanges, and those that need not wait any longer; return the findings.

        Args:
            arrivals: exchanges in any order; none if the entity is called by its alarm.
            facts: those of its cluster.
            now: time of the micro-batch, in ms since 1970.
            event_time: that of its cluster.
        """
        findings: list[Finding] = []
        for each in self._entity.seen.new_ones(arrivals, event_time, self.counts):
            findings += self._wait(each.part, facts.known)
        if arrivals:
            self._entity.touched = now
        is_silent = now - self._entity.touched >= SILENT_MS
        findings += self.machine.expire(float("inf") if is_silent else event_time, facts.known)
        if self.key.kind in SILENT:
            return []
        return list({each.id: each for each in findings}.values())

    def _wait(self, part: RecordedExchange, known: KnownFacts) -> list[Finding]:
        """Let an exchange wait. Ignore one in a hole, and start a new machine after it."""
        findings: list[Finding] = []
        if known.holes and self.machine.newest:
            new, current = known.part_of(part.line.end), known.part_of(self.machine.newest)
            if new < current:
                return findings
            if new > current:
                findings = self.machine.expire(float("inf"), known)
                self.machine = machine_of(self.key)
        self.machine.wait(part)
        return findings

    def together(self, findings: Iterable[Finding]) -> Iterator[list[Finding]]:
        """Yield the findings of each document: one, or refusals with earlier ones."""
        groups = self._entity.refused
        changed: dict[int, list[Refused]] = {}
        for each in findings:
            if not isinstance(each, Refused) or each.severity <= Severity.NOTE:
                yield [each]
                continue
            group = next((e for e in reversed(groups) if _completes(each, e)), None)
            if group is None:
                group = []
                groups.append(group)
            group.append(each)
            changed[id(group)] = group
        yield from (list[Finding](group) for group in changed.values())
        newest = self.machine.newest
        self._entity.refused = [
            each
            for each in groups
            if len(each) < TOGETHER_MAX and newest - each[0].line.end <= TOGETHER_MS
        ]

    @property
    def is_waiting(self) -> bool:
        return bool(self.machine.waiting or self.machine.pending)

    def is_over(self, event_time: int) -> bool:
        """Whether its cluster's event time is past the time for which the entity is kept."""
        return event_time - self.machine.newest >= kept_ms(self.key.kind)

    def alarm_ms(self, is_behind: bool) -> int:
        """In how many ms the entity has to be called if no exchange comes.

        Event time may be `ALIVE_MS` behind. An entity of a silent cluster stays, and is called
        again after the same time. A machine whose state changes without exchanges is called then.

        Args:
            is_behind: whether the event time of its cluster is catching up, see `ClusterFacts`.
        """
        if self.is_waiting:
            return ALARM_MS
        over_ms, ends_ms = kept_ms(self.key.kind) + ALIVE_MS, self.machine.ends_ms
        if is_behind:
            over_ms = min(over_ms, BEHIND_ALARM_MS)
        return min(over_ms, ends_ms + SILENT_MS) if ends_ms is not None else over_ms

    def stored(self) -> bytes:
        self._entity.machine = _encoder.encode(self.machine)
        return _encoder.encode(self._entity)
