"""A cell that goes from state to state, for the search.

A state shares the encoded items that a delivery has not touched with the state before it. The
fingerprint of a state is the sum of the fingerprints of its items, so a delivery updates it from
the touched items alone.

A delivery to a cell in a known state is not decided again: many states of a model differ in their
clients alone. The same holds if all items that the decision used are those of a known state
(`recall.py`). The cell is loaded only to decide, or to be read.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from hashlib import blake2b
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from brokertwin.protocol import errors
from brokertwin.protocol.bodies import Body, shown
from brokertwin.protocol.codec import response_type
from brokertwin.simulation.explore.api import Between, Cluster
from brokertwin.simulation.explore.mistakes import ModelError
from brokertwin.simulation.explore.recall import Items, Recall, Tables
from brokertwin.state.cell.cell import Cell, Meta
from brokertwin.state.cell.check import PARTS
from brokertwin.state.cell.delivery import AtOnce, MetadataRead, Step
from brokertwin.state.cell.output_rows import Rows
from brokertwin.state.configs import broker_config
from brokertwin.state.core import outputs, pending
from brokertwin.state.core.check import Touched, kind_of
from brokertwin.state.core.decision import CONTROLLER, AnyRequest, LeaderAndIsr, Message, Sent
from brokertwin.state.core.events import Event, Kind
from brokertwin.state.core.outputs import Position
from brokertwin.state.core.records import Record
from brokertwin.state.core.settings import CellSettings
from brokertwin.state.core.tables import TABLE_NAMES, CellTables, Changes
from brokertwin.state.eras.versions import SETTINGS

CLUSTER = "explored"
ANNOUNCED = 0
"""A deadline that the cell need not announce, because no clock fires it."""

T0 = 1_700_000_000_000
"""The time of the first event. Time passes only with the fault `wait`."""

CONSTANT = frozenset({"producer-ids"})
"""Kinds of items that stay as in the first state: the search chooses producer ids."""

MODERN_GROUPS = ("consumer", "share", "streams")

ITEM_HASHES = 2**17

EFFECTS_MAX = 30_000
"""Decisions kept at least, about 5 kB each; up to twice as many are in memory."""

_MASK = 2**64 - 1

_encode = msgspec.msgpack.Encoder().encode

Key = TypeVar("Key")
Value = TypeVar("Value")

Way = tuple[str, int, int]
"""A kind of message, its sender and its receiver."""

Waiting = tuple[tuple[Way, tuple[Step, ...]], ...]
"""Undelivered messages between machines, in order."""


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
        result = self._new.get(key)
        if result is None and key in self._old:
            result = self._old[key]
            self.put(key, result)
        return result

    def put(self, key: Key, value: Value) -> None:
        if len(self._new) >= self._most:
            self._old, self._new = self._new, {}
        self._new[key] = value


class CellState(NamedTuple):
    """A state of the cell at a time.

    Sums and numbers are one for each exchange of client names (`Model.symmetric`), the first
    without any.

    Attributes:
        waiting: messages under way.
        sums: of the fingerprints of all items.
        numbers: fingerprints of the whole state, with the time and the messages.
        broken: invariants of `state/` that the last step violated.
    """

    tables: Tables
    now: int
    waiting: Waiting
    sums: tuple[int, ...]
    numbers: tuple[int, ...]
    broken: tuple[str, ...] = ()


class Answer(NamedTuple):
    """A response to a client, and its error codes."""

    event_id: str
    body: Any
    codes: frozenset[int]


class Decision(NamedTuple):
    """What an event does in all states with the same used items.

    Attributes:
        changes: items by table; None for a dropped one.
        sums: added to the fingerprints of all items.
        sent: messages that wait for their delivery.
        applied: records by type.
    """

    changes: dict[str, Changes]
    sums: tuple[int, ...]
    now: int
    sent: tuple[tuple[Way, tuple[Step, ...]], ...]
    answers: tuple[Answer, ...]
    applied: tuple[tuple[tuple[str, bool], int], ...]


class Effect(NamedTuple):
    """What an event does in a state: the next state, and the decision."""

    after: CellState
    decision: Decision

    @property
    def answers(self) -> tuple[Answer, ...]:
        return self.decision.answers


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
        self.sent: dict[Way, tuple[Step, ...]] = {}

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
        self.sent[way] = (*self.sent.get(way, ()), step)

    def clear(self) -> None:
        """Drop the messages of the event before."""
        self._messages.clear()
        self._metadata.clear()
        self.sent = {}


def settings_of(cluster: Cluster) -> CellSettings:
    """Return the settings of a model's cluster: Kafka's, but small internal topics, and no delays.

    Time passes only with the fault `wait`, so groups compute assignments at once.
    """
    replicas = cluster.replicas or min(cluster.brokers, 3)
    settings = {
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
        broker_settings=broker_config.parse(settings)[0],
    )


class QuietCell(Cell):
    """A cell that announces no deadline: the search says when time passes."""

    def _announce_deadline(self, rows: Rows) -> None:
        pass


@lru_cache(ITEM_HASHES)
def item_hash(table: str, key: str, encoded: bytes) -> int:
    """Return the fingerprint of an item."""
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
        self.cell = QuietCell(self.settings, None, self._rows, lambda: self.held)
        self._recall = Recall(self.cell.tables)
        self._loaded: CellState | None = None
        self._present: CellState | None = None
        self._commits = 0
        self._checked: dict[Any, int] = {}
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
        zeros = (0,) * len(self._exchanges)
        return CellState({name: Items({}, {}) for name in TABLE_NAMES}, T0, (), zeros, zeros)

    def load(self, state: CellState) -> None:
        """Go to a state, from which an event can be handled."""
        self.cell.load(state.tables, Meta(state.now, ANNOUNCED))
        self.held.clear()
        self._loaded = self._present = state
        self._commits = self.cell.tables.commits
        self._applied.clear()

    def enter(self, state: CellState) -> None:
        """Go to a state for reading."""
        if state is not self._present:
            self.load(state)

    def effect(
        self,
        state: CellState,
        key: Hashable,
        act: Callable[[], Iterable[Answer]],
        *,
        released: Way | None = None,
        dropped: frozenset[Way] = frozenset(),
    ) -> Effect:
        """Return what an event does in a state; `act` is called if the event is new there.

        Args:
            state: of the cell before the event.
            key: identifies the event and the messages that it takes from the ways.
            act: handles the event.
            released: the way whose first message the event delivers.
            dropped: ways whose messages are lost.
        """
        effect = self._effects.get((state.numbers[0], key))
        if effect is None:
            waiting = {way: steps for way, steps in state.waiting if way not in dropped}
            if released is not None:
                waiting[released] = waiting[released][1:]
            timed = state.now, key
            decision: Decision | None = self._recall.find(state.tables, timed)
            is_new = decision is None
            if decision is None:
                self.load(state)
                self._present = None
                decision = self._recall.compute(
                    state.tables, timed, lambda: self._decide(act, CONSTANT)
                )
            effect = Effect(self._after(state, waiting, decision, is_present=is_new), decision)
            self._effects.put((state.numbers[0], key), effect)
        for record, count in effect.decision.applied:
            self.applied[record] += count
        return effect

    def recalled(self, state: CellState, key: Hashable, read: Callable[[], Value]) -> Value:
        """Return what `read` returns in a state; it is called if the state is new to it."""
        result: Value | None = self._recall.find(state.tables, key)
        if result is None:
            self.enter(state)
            result = self._recall.compute(state.tables, key, read)
        return result

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
        now, deadlines = self.cell.meta.now, pending.deadlines(self.tables.pending)
        return deadlines.first <= now and deadlines.earliest(now) is not None

    def save(self) -> CellState:
        """Return the present state."""
        loaded = self._loaded
        assert loaded is not None
        return self._after(loaded, {}, self._decide(lambda: (), frozenset()), is_present=True)

    def _decide(self, act: Callable[[], Iterable[Answer]], constant: frozenset[str]) -> Decision:
        """Return what an event does in the loaded state, but to items of some kinds."""
        answers = tuple(act())
        loaded = self._loaded
        assert loaded is not None
        changes = {
            name: changed
            for name, items in self.tables.differences().items()
            if (changed := {k: v for k, v in items.items() if kind_of(k) not in constant})
        }
        sums = []
        for exchange in self._exchanges:
            total = 0
            for name, items in changes.items():
                before = loaded.tables[name]
                for key, encoded in items.items():
                    if (former := before.get(key)) is not None:
                        total -= _hash_exchanged(name, key, former, exchange)
                    if encoded is not None:
                        total += _hash_exchanged(name, key, encoded, exchange)
            sums.append(total)
        return Decision(
            changes,
            tuple(sums),
            self.cell.meta.now,
            tuple(self.held.sent.items()),
            answers,
            tuple(self._applied.items()),
        )

    def _after(
        self,
        state: CellState,
        ways: dict[Way, tuple[Step, ...]],
        decision: Decision,
        *,
        is_present: bool,
    ) -> CellState:
        """Return the state after a decision; an equal known one if there is one."""
        for way, steps in decision.sent:
            ways[way] = (*ways.get(way, ()), *steps)
        waiting = tuple(sorted((k, v) for k, v in ways.items() if v))
        rest = _encode((decision.now, waiting)) if waiting or decision.now != T0 else b""
        sums, numbers = [], []
        for total, change, exchange in zip(state.sums, decision.sums, self._exchanges, strict=True):
            sums.append((total + change) & _MASK)
            of_rest = _hash_exchanged("", "", rest, exchange) if rest else 0
            numbers.append((sums[-1] + of_rest) & _MASK)
        known = self._states.get(numbers[0])
        if known is None:
            tables = dict(state.tables)
            for name, changes in decision.changes.items():
                tables[name] = tables[name].changed(changes)
            known = CellState(tables, decision.now, waiting, tuple(sums), tuple(numbers))
            if is_present:
                self._present = known
            if self._is_checked and not waiting:
                broken = self._broken(known, None if state.waiting else decision.changes)
                known = known._replace(broken=broken) if broken else known
            self._states.put(numbers[0], known)
        if is_present:
            self._present = known
        return known

    def _broken(self, state: CellState, changes: Mapping[str, Changes] | None) -> tuple[str, ...]:
        """Check the items that the last step changed; all if the state before was not checked."""
        keys = None if changes is None else tuple((n, *keys) for n, keys in changes.items())
        number = self._checked.setdefault((state.now, keys), len(self._checked))
        found: list[str] = []
        for part in PARTS:
            violations = part(self.cell, Touched(changes))  # a generator, evaluated in `recalled`
            found += self.recalled(state, ("check", number, part), partial(list, violations))
        return tuple(found)


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
    else:
        yield from errors.error_codes(body)


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
