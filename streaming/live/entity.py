"""An entity of the live audit: its machine, the exchanges that it has seen, waiting and expiry.

Times: the exchanges' own (event time), and that of the micro-batch. The event time of a cluster is
that up to which all of its logs are read, but at most `PATIENCE_MS` behind the newest response. An
entity takes waiting exchanges when this time has passed them. If no exchange of the entity comes
for `SILENT_MS` of the micro-batches' time, it takes all.

Repeats and late exchanges: an exchange is identified by connection, correlation id and time. An
entity takes each id once. It ignores exchanges that are `LATE_MS` older than its newest one, of
which it keeps no ids.
"""

from array import array
from collections.abc import Iterable, Sequence
from functools import cache
from typing import NamedTuple

import msgspec
from msgspec import field

from brokertwin.recordings.history.entity import EntityKey, ObservedEntity
from brokertwin.recordings.history.exchange import KnownFacts, RecordedExchange
from brokertwin.recordings.history.finding import EntityFinding
from brokertwin.streaming.live.kinds import SILENT, kept_ms, machine_of

LATE_MS = 300_000
"""How much older than the newest one an exchange of an entity may be."""

BLOCK_MS = 10_000
"""Ids of exchanges are kept in blocks of this span."""

IDS_MAX = 20_000
"""Maximum number of ids of an entity; beyond it, the oldest blocks are dropped."""

SILENT_MS = 10_000
"""How long an entity waits for earlier exchanges if its cluster is silent."""

PATIENCE_MS = 30_000
"""How far the log of a broker may be behind the others without being left behind."""

ALARM_MS = 1_000
"""When an entity with waiting exchanges is called again: in the next micro-batch."""


def event_time(known: KnownFacts) -> int:
    """Up to when the logs of a cluster are read, in ms since 1970."""
    lasts = [last for _, last in known.logs.values()]
    return max(min(lasts), max(lasts) - PATIENCE_MS) if lasts else 0


class Arrival(msgspec.Struct, array_like=True, frozen=True):
    """The part of an exchange for an entity, and the identity of the exchange.

    Attributes:
        number: hash of connection, correlation id and time; 64 bits.
        part: from `ObservedEntity.part_of`.
    """

    number: int
    part: RecordedExchange


class SeenExchanges(msgspec.Struct, array_like=True):
    """The exchanges that an entity has seen lately.

    Attributes:
        newest: when the newest had its response, in ms since 1970.
        floor: earlier ones are ignored.
        blocks: number of a span of `BLOCK_MS` to the ids of its exchanges, 8 bytes each.
    """

    newest: int = 0
    floor: int = 0
    blocks: dict[int, bytes] = field(default_factory=dict)

    def new_ones(self, arrivals: Iterable[Arrival]) -> list[Arrival]:
        """Return those that are neither late nor repeated, in the order of the responses."""
        sets: dict[int, set[int]] = {}
        found = []
        for each in sorted(arrivals, key=lambda each: each.part.line.order):
            end = each.part.line.end
            block = end // BLOCK_MS
            if block not in sets:
                sets[block] = set(array("Q", self.blocks.get(block, b"")))
            if end >= self.floor and each.number not in sets[block]:
                sets[block].add(each.number)
                found.append(each)
                self.newest = max(self.newest, end)
        for block, numbers in sets.items():
            self.blocks[block] = array("Q", sorted(numbers)).tobytes()
        self._bound()
        return found

    def _bound(self) -> None:
        self.floor = max(self.floor, self.newest - LATE_MS)
        total = sum(map(len, self.blocks.values())) // 8
        for block in sorted(self.blocks):
            is_old = (block + 1) * BLOCK_MS <= self.floor
            if len(self.blocks) == 1 or (not is_old and total <= IDS_MAX):
                break
            total -= len(self.blocks.pop(block)) // 8
            self.floor = max(self.floor, (block + 1) * BLOCK_MS)


class StoredEntity(msgspec.Struct, array_like=True):
    """The state of an entity.

    Attributes:
        seen: the exchanges that it has seen lately.
        touched: time of the last micro-batch with an exchange of it, in ms since 1970.
        machine: its machine, encoded.
    """

    seen: SeenExchanges
    touched: int
    machine: bytes


_decoder = msgspec.msgpack.Decoder(StoredEntity)
_encoder = msgspec.msgpack.Encoder()


@cache
def _machines(kind: type[ObservedEntity]) -> "msgspec.msgpack.Decoder[ObservedEntity]":
    return msgspec.msgpack.Decoder(kind)


class LiveEntity:
    """An entity in a micro-batch.

    Args:
        key: its kind and id.
        stored: from `stored`; None for a new one.
    """

    def __init__(self, key: EntityKey, stored: bytes | None) -> None:
        self.key = key
        self.machine = machine_of(key)
        self._entity = StoredEntity(SeenExchanges(), 0, b"")
        if stored is not None:
            self._entity = _decoder.decode(stored)
            self.machine = _machines(type(self.machine)).decode(self._entity.machine)

    def handle(
        self, arrivals: Sequence[Arrival], known: KnownFacts, now: int
    ) -> list[EntityFinding]:
        """Take exchanges, and those that need not wait any longer; return the findings.

        Args:
            arrivals: exchanges in any order; none if the entity is called by its alarm.
            known: facts of its cluster.
            now: time of the micro-batch, in ms since 1970.
        """
        for each in self._entity.seen.new_ones(arrivals):
            self.machine.wait(each.part)
        if arrivals:
            self._entity.touched = now
        is_silent = now - self._entity.touched >= SILENT_MS
        found = self.machine.expire(float("inf") if is_silent else event_time(known), known)
        if self.key.kind in SILENT:
            return []
        return list({each.id: each for each in found}.values())

    @property
    def is_waiting(self) -> bool:
        """Whether exchanges wait for others."""
        return bool(self.machine.waiting or self.machine.pending)

    def is_over(self, now: int) -> bool:
        """Whether the entity had no exchange for as long as it is kept."""
        return now - self._entity.touched >= kept_ms(self.key.kind)

    def alarm_ms(self, now: int) -> int:
        """In how many ms the entity has to be called if no exchange comes."""
        if self.is_waiting:
            return ALARM_MS
        return max(ALARM_MS, self._entity.touched + kept_ms(self.key.kind) - now)

    def stored(self) -> bytes:
        """Encode the state."""
        self._entity.machine = _encoder.encode(self.machine)
        return _encoder.encode(self._entity)


class EntityRow(NamedTuple):
    """A changed row of a table: table, key, and values by column; None if it is gone."""

    table: str
    key: str
    values: dict[str, object] | None
