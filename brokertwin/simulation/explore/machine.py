"""A cell that goes from state to state, for the search.

A state shares the encoded items that a delivery has not touched with the state before it. The
fingerprint of a state is the sum of the fingerprints of its items, so a delivery updates it from
the touched items alone. Not in the fingerprint: the items of `UNREAD`, and log lines.

A delivery to a cell in a known state is not decided again: many states of a model differ in their
clients alone. The cell is loaded only to decide, or to be read.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from brokertwin.protocol.bodies import Body, shown
from brokertwin.protocol.codec import response_type
from brokertwin.simulation.explore.api import Between, Cluster
from brokertwin.simulation.explore.mistakes import ModelError
from brokertwin.state.cell.cell import Cell, Meta
from brokertwin.state.cell.check import check
from brokertwin.state.cell.delivery import AtOnce, MetadataRead, Step
from brokertwin.state.cell.output_rows import Rows
from brokertwin.state.configs import broker_config
from brokertwin.state.core import outputs, pending
from brokertwin.state.core.check import Touched
from brokertwin.state.core.decision import CONTROLLER, AnyRequest, LeaderAndIsr, Message, Sent
from brokertwin.state.core.events import Event, Kind
from brokertwin.state.core.outputs import Position
from brokertwin.state.core.records import Record
from brokertwin.state.core.settings import CellSettings
from brokertwin.state.core.tables import TABLE_NAMES, CellTables, Changes
from brokertwin.state.eras.versions import SETTINGS

CLUSTER = "explored"
T0 = 1_700_000_000_000
"""The time of the first event. Time passes only with the fault `wait`."""

UNREAD = frozenset({"producer-ids"})
"""Kinds of items that no later decision depends on: the search chooses producer ids."""

MODERN_GROUPS = ("consumer", "share", "streams")

ITEM_HASHES = 2**17

EFFECTS_MAX = 30_000
"""Decisions kept at least, about 5 kB each; up to twice as many are in memory."""

_MASK = 2**64 - 1

_encode = msgspec.msgpack.Encoder().encode

Key = TypeVar("Key")
Value = TypeVar("Value")

Items = Mapping[str, bytes]
Tables = Mapping[str, Items]
Waiting = tuple[tuple[tuple[str, int, int], tuple[Step, ...]], ...]
"""Undelivered messages between machines, by kind, sender and receiver, in order."""

NONE_WAITING: Waiting = ()


class Recent(Generic[Key, Value]):
    """The values used last, by key.

    Args:
        most: values kept at least; up to twice as many are in memory.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._new: dict[Key, Value] = {}
        self._old: dict[Key, Value] = {}

    def get(self, key: Key) -> Value | None:
        """Return a value, None if it is unknown."""
        found = self._new.get(key)
        if found is None and key in self._old:
            found = self._old[key]
            self.put(key, found)
        return found

    def put(self, key: Key, value: Value) -> None:
        if len(self._new) >= self._most:
            self._old, self._new = self._new, {}
        self._new[key] = value


class CellState(NamedTuple):
    """A state of the cell.

    Sums and numbers are one for each exchange of client names (`Model.symmetric`), the first
    without any.

    Attributes:
        meta: the time, and the announced deadline.
        waiting: messages under way.
        sums: of the fingerprints of all items.
        numbers: fingerprints of the whole state, with the time and the messages.
        broken: invariants of `state/` that the last step violated.
    """

    tables: Tables
    meta: tuple[int, int]
    waiting: Waiting
    sums: tuple[int, ...]
    numbers: tuple[int, ...]
    broken: tuple[str, ...] = ()


class Answer(NamedTuple):
    """A response to a client, and its error codes."""

    event_id: str
    body: Any
    codes: frozenset[int]


class Effect(NamedTuple):
    """What an event does in a state: the next state, responses, and records by type."""

    after: CellState
    answers: tuple[Answer, ...]
    applied: tuple[tuple[tuple[str, bool], int], ...]


class CollectedRows(Rows):
    """Keeps responses as structs and counts records; writes no rows."""

    answers: list[Answer]
    applied: Counter[tuple[str, bool]]
    refusals: list[str]

    def begin(self, position: Position) -> None:
        """Start with an event."""
        self.rows = []
        self._ordinal = 0

    def response(
        self,
        source: AnyRequest,
        now: int,
        response: Body | dict[str, Any] | None,
        closes_connection: bool = False,
        mute_ms: int = 0,
    ) -> None:
        """Keep a response with the fields of its version."""
        body: Any = response
        if isinstance(body, Body):
            body = shown(body, source.header.request_api_version)
        if isinstance(body, dict):
            body = msgspec.convert(body, response_type(source.header.request_api_key))
        self.answers.append(Answer(source.event_id, body, frozenset(error_codes(body))))

    def done(self, event: Event, now: int, content: msgspec.Struct | None = None) -> None:
        """Drop the response to an intervention."""

    def record(self, machine: int, now: int, event_id: str, record: Record) -> None:
        self.applied[type(record).__name__, machine == CONTROLLER] += 1

    def of_group(self, record: Record) -> None:
        """Drop a row of a group."""

    def timer(self, deadline: int) -> None:
        """Drop a deadline."""


class Held(AtOnce):
    """Messages between machines that wait for their delivery; all others are delivered at once."""

    def __init__(self, between: frozenset[Between]) -> None:
        super().__init__()
        self.between = between
        self.ways: dict[tuple[str, int, int], tuple[Step, ...]] = {}

    def publish(self, record: Record, brokers: Iterable[int]) -> None:
        """Add a metadata record for each of the brokers."""
        if Between.METADATA not in self.between:
            super().publish(record, brokers)
            return
        for broker in brokers:
            self._hold(Between.METADATA, CONTROLLER, broker, MetadataRead(broker, record))

    def send(self, messages: Sequence[Sent]) -> None:
        """Add messages of a machine; LeaderAndIsr shares the connection of metadata."""
        for message in messages:
            kind = Between.REQUEST if isinstance(message, Message) else Between.REPLICA
            if isinstance(message, LeaderAndIsr):
                kind = Between.METADATA
            if kind not in self.between or message.sender == message.receiver:
                self._messages.append(message)
            else:
                self._hold(kind, message.sender, message.receiver, message)

    def release(self, step: Step) -> None:
        """Deliver a message that has waited."""
        self._messages.append(step)

    def _hold(self, kind: Between, sender: int, receiver: int, step: Step) -> None:
        way = str(kind), sender, receiver
        self.ways[way] = (*self.ways.get(way, ()), step)

    def clear(self) -> None:
        """Drop the messages of an event that raised."""
        self._messages.clear()
        self._metadata.clear()


def settings_of(cluster: Cluster) -> CellSettings:
    """Return the settings of a model's cluster: Kafka's, but small internal topics, and no delays.

    Time passes only with the fault `wait`, so groups compute assignments at once.
    """
    replicas = cluster.replicas or min(cluster.brokers, 3)
    given = {
        "auto.create.topics.enable": "false",
        "auto.leader.rebalance.enable": "false",
        "default.replication.factor": str(replicas),
        "group.initial.rebalance.delay.ms": "0",
        "group.streams.initial.rebalance.delay.ms": "0",
        **{f"group.{kind}.assignment.interval.ms": "0" for kind in MODERN_GROUPS},
        "offsets.topic.num.partitions": "1",
        "offsets.topic.replication.factor": str(replicas),
        "transaction.state.log.num.partitions": "1",
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.num.partitions": "1",
        "share.coordinator.state.topic.replication.factor": str(replicas),
        "share.coordinator.state.topic.min.isr": "1",
        **(SETTINGS[cluster.era] if cluster.era else {}),
        **cluster.settings,
    }
    return CellSettings(
        name=CLUSTER,
        cluster=CLUSTER,
        brokers=list(range(1, cluster.brokers + 1)),
        event_time="recorded",
        may_intervene=True,
        writes_records=False,
        broker_settings=broker_config.parse(given)[0],
    )


@lru_cache(ITEM_HASHES)
def item_hash(table: str, key: str, encoded: bytes) -> int:
    """Return the fingerprint of an item, 0 if nothing depends on it."""
    parts = key.split("/", 2)
    if len(parts) > 1 and parts[1] in UNREAD:
        return 0
    text = b"%b/%b\0%b" % (table.encode(), key.encode(), encoded)
    return int.from_bytes(blake2b(text, digest_size=8).digest())


class ForkableCell:
    """One cell, which goes to one state after the other.

    Args:
        exchanges: for each exchange of names, the pairs of names to replace.
        is_checked: whether the invariants of `state/` are checked after each step.
    """

    def __init__(
        self,
        cluster: Cluster,
        exchanges: Sequence[Sequence[tuple[str, str]]] = ((),),
        *,
        is_checked: bool = False,
    ) -> None:
        self.settings = settings_of(cluster)
        self.held = Held(cluster.between)
        self.applied: Counter[tuple[str, bool]] = Counter()
        self._answers: list[Answer] = []
        self._applied: Counter[tuple[str, bool]] = Counter()
        self._exchanges = [tuple(each) for each in exchanges]
        self._is_checked = is_checked
        self.cell = Cell(self.settings, None, self._rows, lambda: self.held)
        self._loaded: CellState | None = None
        self._present: CellState | None = None
        self._commits = 0
        self._effects: Recent[tuple[int, Any], Effect] = Recent(EFFECTS_MAX)
        self._states: Recent[int, CellState] = Recent(EFFECTS_MAX)

    def _rows(self, settings: CellSettings) -> CollectedRows:
        rows = CollectedRows(settings)
        rows.answers, rows.applied = self._answers, self._applied
        return rows

    @property
    def tables(self) -> CellTables:
        """The tables of the present state."""
        return self.cell.tables

    def begin(self) -> CellState:
        """Return the empty state."""
        tables: dict[str, Items] = {name: {} for name in TABLE_NAMES}
        meta = Meta(T0)
        zeros = (0,) * len(self._exchanges)
        return CellState(tables, (meta.now, meta.outstanding), (), zeros, zeros)

    def load(self, state: CellState) -> None:
        """Go to a state, from which an event can be handled."""
        self.cell.load(state.tables, Meta(*state.meta))
        self.held.ways = dict(state.waiting)
        self.held.clear()
        self._loaded = self._present = state
        self._commits = self.cell.tables.commits
        self._applied.clear()

    def enter(self, state: CellState) -> None:
        """Go to a state for reading."""
        if state is not self._present:
            self.load(state)

    def effect(self, state: CellState, key: Any, act: Callable[[], Iterable[Answer]]) -> Effect:
        """Return what an event does in a state; `act` is called if the event is new there.

        Args:
            state: of the cell before the event.
            key: identifies the event.
            act: handles the event.
        """
        known = self._effects.get((state.numbers[0], key))
        if known is None:
            self.load(state)
            self._present = None
            answers = tuple(act())
            after = self.save()
            known = Effect(after, answers, tuple(self._applied.items()))
            self._effects.put((state.numbers[0], key), known)
        for record, count in known.applied:
            self.applied[record] += count
        return known

    def handle(self, event: Event, released: Step | None = None) -> list[Answer]:
        """Handle an event and return the responses to clients.

        Raises:
            ModelError: the cell refuses the event.
        """
        self._answers.clear()
        if released is not None:
            self.held.release(released)
        rows = self.cell.handle(event, Position(0, 0))
        while self._is_due():
            tick = Event(id="tick", cluster=CLUSTER, time=self.cell.meta.now, kind=Kind.TICK)
            rows = [*rows, *self.cell.handle(tick, Position(0, 0))]
        letters = [row for row in rows if row.topic == outputs.DEAD_LETTERS]
        if letters or self.cell.tables.commits != self._commits:
            detail = msgspec.json.decode(letters[0].value or b"{}") if letters else {}
            reason = detail.get("reason", "fault")
            text = detail.get("detail", "an exception that did not repeat")
            raise ModelError(f"the broker refuses {event.id}: {reason}: {text}")
        return list(self._answers)

    def _is_due(self) -> bool:
        """True if a deadline is over without a further event."""
        earliest = pending.earliest(self.tables.pending)
        return earliest is not None and earliest[0] <= self.cell.meta.now

    def save(self) -> CellState:
        """Return the present state; an equal known one if there is one."""
        loaded, meta = self._loaded, self.cell.meta
        assert loaded is not None
        changed = self.tables.differences()
        waiting = tuple(sorted((k, v) for k, v in self.held.ways.items() if v))
        rest = _encode((meta.now, waiting)) if waiting or meta.now != T0 else b""
        sums, numbers = [], []
        for total, exchange in zip(loaded.sums, self._exchanges, strict=True):
            for name, items in changed.items():
                before = loaded.tables[name]
                for key, encoded in items.items():
                    if (former := before.get(key)) is not None:
                        total -= _hash_exchanged(name, key, former, exchange)
                    if encoded is not None:
                        total += _hash_exchanged(name, key, encoded, exchange)
            sums.append(total & _MASK)
            of_rest = _hash_exchanged("", "", rest, exchange) if rest else 0
            numbers.append((total + of_rest) & _MASK)
        known = self._states.get(numbers[0])
        if known is None:
            known = CellState(
                _changed(loaded.tables, changed),
                (meta.now, meta.outstanding),
                waiting,
                tuple(sums),
                tuple(numbers),
                self._broken() if self._is_checked and not waiting else (),
            )
            self._states.put(numbers[0], known)
        self._present = known
        return known

    def _broken(self) -> tuple[str, ...]:
        """Check the items that the last step touched; the others hold as before it."""
        touched = {name: self.tables[name].touched() for name in TABLE_NAMES}
        return tuple(check(self.cell, Touched({n: keys for n, keys in touched.items() if keys})))


def _changed(tables: Tables, changes: Mapping[str, Changes]) -> Tables:
    """Return tables with changes; items without any are shared."""
    found = dict(tables)
    for name, items in changes.items():
        after = {**tables[name], **items}
        found[name] = {key: item for key, item in after.items() if item is not None}
    return found


def response_code(response: Any) -> int:
    """Return the first error in a response, 0 if there is none."""
    return next((code for code in error_codes(response) if code), 0)


def error_codes(body: Any) -> Iterator[int]:
    """Return all error codes in a response, which may be a document."""
    if isinstance(body, msgspec.Struct):
        for name in body.__struct_fields__:
            value = getattr(body, name)
            if name in ("error_code", "partition_error_code") and isinstance(value, int):
                yield value
            elif isinstance(value, list):
                for each in value:
                    yield from error_codes(each)
    elif isinstance(body, dict):
        for name, value in body.items():
            if name in ("errorCode", "partitionErrorCode"):
                yield value
            elif isinstance(value, list):
                for each in value:
                    yield from error_codes(each)


def _hash_exchanged(
    table: str, key: str, encoded: bytes, exchange: tuple[tuple[str, str], ...]
) -> int:
    for one, other in exchange:
        key = exchanged_text(key, one, other)
        encoded = exchanged_bytes(encoded, one.encode(), other.encode())
    return item_hash(table, key, encoded)


def exchanged_text(text: str, one: str, other: str) -> str:
    if one not in text and other not in text:
        return text
    return other.join(part.replace(other, one) for part in text.split(one))


def exchanged_bytes(text: bytes, one: bytes, other: bytes) -> bytes:
    """Exchange two names of equal length in encoded items."""
    if one not in text and other not in text:
        return text
    return other.join(part.replace(other, one) for part in text.split(one))
