"""Properties of every history: splits, replayed records, checkpoints, faults half-way.

`HISTORIES=500 pytest tests/state/cell/test_histories.py` tries that many of each, long ones.
"""

import gzip
import os
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokertwin.protocol.errors import Error, error_name
from brokertwin.protocol.kafka_apis import KAFKA_APIS
from brokertwin.state.apis.registry import BUILT
from brokertwin.state.cell import apply as applied
from brokertwin.state.cell import event_loop
from brokertwin.state.cell.apply import apply
from brokertwin.state.cell.cell import Cell
from brokertwin.state.cell.check import check, hold
from brokertwin.state.cell.delivery import AtOnce, DeliveryOrder, RandomDelivery
from brokertwin.state.core import outputs
from brokertwin.state.core.decision import Decision
from brokertwin.state.core.events import Reason
from brokertwin.state.core.outputs import Output, Position
from brokertwin.state.core.records import Record, RecordEntry
from brokertwin.state.core.tables import CellTables, Table, columns_of_tables
from brokertwin.state.logs import log as logs
from tests.support.histories import Story, observing, seeded, stories
from tests.support.sources import ROOT

EXAMPLES = int(os.environ.get("HISTORIES", "12"))
"""Histories for each property."""

REACHED_IN = (73, 63, 76, 38, 65, 25, 5, 35, 88, 61, 70, 72, *range(90))
"""Seeds of the histories that together have to reach everything; the first that do are enough.

Those in front did when they were chosen among the others, with the fewest events.
"""

DURABLE = ("logs", "producers", "groups", "transactions", "metadata")


@pytest.fixture(autouse=True, scope="module")
def small_index() -> Iterator[None]:
    """A log keeps the headers of four batches; older ones are sealed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(logs, "CHUNK_BATCHES_MAX", 2)
        patch.setattr(logs, "INDEX_CHUNKS_MAX", 2)
        yield


many = settings(max_examples=EXAMPLES, deadline=None)


def decide(cell: Cell, documents: list[bytes], first: int = 0) -> list[list[Output]]:
    """Decide each document and return its rows; source offsets start at `first`.

    No event goes round in circles.
    """
    rows = [
        cell.handle(document, Position(0, offset))
        for offset, document in enumerate(documents, first)
    ]
    letters = [row.value or b"" for row in flat(rows) if row.topic == outputs.DEAD_LETTERS]
    assert [letter for letter in letters if Reason.STEP_LIMIT.encode() in letter] == []
    return rows


def items(column: bytes) -> Any:
    return msgspec.msgpack.decode(column) if column else {}


def state(cell: Cell) -> dict[str, Any]:
    return {name: items(column) for name, column in columns_of_tables(cell.columns()).items()}


def flat(rows: list[list[Output]]) -> list[Output]:
    return [row for of_one in rows for row in of_one]


# Reach


class Reached:
    """What some histories have come to; a group that changes its kind is one of the `records`."""

    CONVERSIONS = ("a classic group becomes a consumer group", "and a consumer group a classic one")
    NEARBY = "a consumer is sent to a replica nearby"
    LOST = "a connection that ends gives records to others"

    def __init__(self) -> None:
        self.records: Counter[str] = Counter()
        self.apis: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self.letters: Counter[str] = Counter()
        self._gone = ("", "")

    def observe(self, _: Cell, document: bytes, rows: list[Output]) -> None:
        self.records[self.LOST] += b'"disconnect"' in document and bool(rows)
        for row in rows:
            if row.topic in (outputs.RECORDS, outputs.DEAD_LETTERS, outputs.RESPONSES):
                self._count(row.topic, msgspec.json.decode(row.value or b""))

    def missing(self) -> set[str]:
        """The record types, 4.3's APIs that are built, and the captures' errors yet to come."""
        kinds = {kind.__name__ for kind in get_args(Record)}
        records = {*kinds, *self.CONVERSIONS, self.NEARBY, self.LOST} - set(+self.records)
        apis = {KAFKA_APIS[key].name for key in BUILT if KAFKA_APIS[key].last >= 0} - set(self.apis)
        return records | apis | (captured_errors() - set(self.errors))

    def _count(self, topic: str, document: Any) -> None:
        if topic == outputs.RECORDS:
            self.records[document["record"]["type"]] += 1
            self._count_conversion(document["eventId"], document["record"])
        elif topic == outputs.DEAD_LETTERS:
            self.letters[document["reason"]] += 1
        elif document.get("response") and "requestHeader" in document:
            self.apis[BUILT[document["requestHeader"]["requestApiKey"]].name] += 1
            self.errors.update(error_name(code) for code in codes_in(document["response"]))
            self.records[self.NEARBY] += is_sent_elsewhere(document["response"])

    def _count_conversion(self, event_id: str, record: dict[str, Any]) -> None:
        """One event lets a group go and writes it with members, in records of the other kind."""
        if record["type"] != "GroupRecord":
            return
        key, value = record["key"], record["value"] or {}
        group_id = key.get("group") or key.get("groupId")
        has_members, is_classic = (
            bool(value.get("members")),
            bool(value.get("classicMemberMetadata")),
        )
        is_whole = key["type"] in ("GroupMetadataKey", "ConsumerGroupMetadataKey")
        if is_whole and record["value"] is None:
            self._gone = (event_id, group_id)
        elif self._gone == (event_id, group_id) and (has_members or is_classic):
            self.records[self.CONVERSIONS[int(has_members)]] += 1


def is_sent_elsewhere(response: Any) -> bool:
    return any(
        partition.get("preferredReadReplica", -1) >= 0
        for topic in response.get("responses") or ()
        for partition in topic.get("partitions") or ()
    )


def codes_in(value: Any) -> Iterator[int]:
    """The error codes of a response, at any depth."""
    if isinstance(value, list):
        for each in value:
            yield from codes_in(each)
    elif isinstance(value, dict):
        for name, each in value.items():
            if name.lower().endswith("errorcode"):
                yield each
            else:
                yield from codes_in(each)


@cache
def captured_errors() -> set[str]:
    """The errors that a real broker has answered to an API that is built."""
    found = set()
    for file in sorted((ROOT / "tests" / "captures").glob("*.jsonl.gz")):
        for line in gzip.decompress(file.read_bytes()).splitlines():
            exchange = msgspec.json.decode(line)
            header = exchange.get("requestHeader", {})  # none where a connection has ended
            if header.get("requestApiKey") in BUILT:
                found.update(codes_in(exchange.get("response")))
    return {error_name(code) for code in found}


@pytest.mark.long
def test_histories_reach_every_record_every_api_and_every_error_of_the_captures() -> None:
    reached = Reached()
    with observing(reached.observe):
        for seed in REACHED_IN:
            seeded(seed, 150)
            if not reached.missing():
                break
    for what in ("records", "apis", "errors", "letters"):
        counts = getattr(reached, what).most_common()
        print(f"{what}: " + ", ".join(f"{name} {count}" for name, count in counts))  # noqa: T201
    assert reached.missing() == set()
    assert captured_errors() > {Error.NONE.name, Error.UNKNOWN_MEMBER_ID.name}
    letters = {Reason.NOT_BUILT, Reason.WRONG_TYPE, Reason.NO_CONTROLLER}
    of_moves = {Reason.NOT_POSSIBLE}  # a partition without a leader
    assert set(reached.letters) - of_moves == letters, "no history has a fault"


def test_seed_always_gives_the_same_history() -> None:
    assert seeded(7, 60) == seeded(7, 60)
    assert seeded(7, 60).documents != seeded(8, 60).documents


# Splits, records, checkpoints


@pytest.mark.long
@many
@given(stories(), st.lists(st.integers(0, 300), max_size=8))
def test_any_split_gives_the_same_rows_and_state(story: Story, cuts: list[int]) -> None:
    whole = Cell(story.settings)
    expected = decide(whole, story.documents)
    cell = Cell(story.settings)
    rows = []
    for offset, document in enumerate(story.documents):
        if offset in cuts:
            cell = Cell(story.settings, cell.columns())
        rows.append(cell.handle(document, Position(0, offset)))
    assert rows == expected
    assert state(cell) == state(whole)
    assert cell.meta == whole.meta


@pytest.mark.long
@many
@given(stories(), st.integers(0, 300))
def test_records_replayed_after_a_checkpoint_give_the_same_durable_state(
    story: Story, place: int
) -> None:
    """From the beginning (a checkpoint of nothing), and from one in the middle."""
    live = Cell(story.settings)
    rows = decide(live, story.documents[:place])
    checkpoint = live.columns()
    later = decide(live, story.documents[place:], place)
    for columns, replayed in (({}, rows + later), (checkpoint, later)):
        tables = CellTables({name: columns.get(name, b"") for name in DURABLE})
        tables.given = story.settings.broker_settings
        tables.may_clean = story.settings.may_clean
        for row in flat(replayed):
            if row.topic == outputs.RECORDS:
                entry = msgspec.json.decode(row.value or b"", type=RecordEntry)
                apply(tables.of(entry.machine), entry.record)
        found, expected = tables.columns(), live.tables.columns()
        for name in DURABLE:
            assert items(found[name]) == items(expected[name]), name


def is_overtaken(event: dict[str, Any], later: list[bytes]) -> bool:
    """Whether a member has sent another join or sync since: the first is forgotten then."""
    key, member = event["requestHeader"]["requestApiKey"], event["request"]["memberId"]
    others = [msgspec.json.decode(document) for document in later]
    return any(
        other["requestHeader"]["requestApiKey"] == key and other["request"]["memberId"] == member
        for other in others
        if "requestHeader" in other and other["request"].get("memberId")
    )


def assert_all_are_completed(story: Story, cell: Cell, rows: list[Output]) -> None:
    """Every request is answered once, waits, is overtaken, or is a dead letter."""
    responses = [row.id for row in rows if row.topic == outputs.RESPONSES]
    assert len(responses) == len(set(responses))
    waiting = {key.removeprefix("wait/") for key in cell.tables.pending.keys("wait/")}
    for place, document in enumerate(story.documents):
        event = msgspec.json.decode(document)
        if "requestHeader" not in event:
            continue
        assert not (event["id"] in responses and event["id"] in waiting)
        if event["id"] not in responses and event["id"] not in waiting:
            assert is_overtaken(event, story.documents[place + 1 :]), event["id"]
    ids = [(row.topic, row.id) for row in rows]
    assert len(ids) == len(set(ids))


@pytest.mark.long
@many
@given(stories())
def test_every_request_is_completed_pending_dropped_or_a_dead_letter(story: Story) -> None:
    cell = Cell(story.settings)
    assert_all_are_completed(story, cell, flat(decide(cell, story.documents)))


# Any order of delivery


def decide_as_drawn(seed: int, schedule: Callable[[Callable[[int], int]], DeliveryOrder]) -> None:
    """Decide a history of several brokers; a drawn order controls the delivery of messages."""
    story, source = seeded(seed), random.Random(seed)
    cell, rows = Cell(story.settings, make_schedule=lambda: schedule(source.randrange)), []
    for offset, document in enumerate(story.documents):
        rows += cell.handle(document, Position(0, offset))
        hold(cell)
    assert_all_are_completed(story, cell, rows)
    letters = [msgspec.json.decode(r.value or b"") for r in rows if r.topic == outputs.DEAD_LETTERS]
    assert [letter for letter in letters if letter["reason"] == Reason.FAULT] == []


@pytest.mark.long
@pytest.mark.parametrize("seed", range(EXAMPLES))
def test_invariants_hold_in_any_order_of_delivery(seed: int) -> None:
    decide_as_drawn(seed, RandomDelivery)


def test_lossy_delivery_is_noticed() -> None:
    class Losing(RandomDelivery):
        """The first broker misses all records of the controller."""

        def publish(self, record: Record, brokers: Iterable[int]) -> None:
            super().publish(record, list(brokers)[1:])

    with pytest.raises(AssertionError):
        decide_as_drawn(2, Losing)


# Faults


class Fault(Exception):
    """Planted."""


class Faults:
    """Raises at one step of one event: an item, a record or a delivery, counted together.

    Attributes:
        steps: how many there were, by the id of the event.
    """

    def __init__(self, event_id: str = "", step: int = -1) -> None:
        self._event_id = event_id
        self._step = step
        self._running = ""
        self.steps: Counter[str] = Counter()

    @contextmanager
    def planted(self) -> Iterator[None]:
        """Make calls of tables and records raise the planted faults within this context."""
        with pytest.MonkeyPatch.context() as patch:
            for owner, name in (
                (Table, "put"),
                (Table, "change"),
                (Table, "drop"),
                (applied.RecordEffects, "apply"),
                (AtOnce, "next"),
            ):
                patch.setattr(owner, name, self._counting(getattr(owner, name)))
            handle = event_loop.CellLoop.handle
            patch.setattr(
                event_loop.CellLoop,
                "handle",
                lambda loop, event, now: self._handle(handle, loop, event, now),
            )
            yield

    def _handle(self, handle: Any, loop: Any, event: Any, now: int) -> None:
        self._running = event.id
        self.steps[self._running] = 0
        try:
            handle(loop, event, now)
        finally:
            self._running = ""

    def _counting(self, function: Any) -> Any:
        def step(*arguments: Any) -> Any:
            if self._running:
                self.steps[self._running] += 1
                if (self._running, self.steps[self._running]) == (self._event_id, self._step):
                    raise Fault
            return function(*arguments)

        return step


def not_built(document: bytes) -> bytes:
    """The event with a request of an API that is not built in its place."""
    event = msgspec.json.decode(document)
    header = {"requestApiKey": 76, "requestApiVersion": 1}
    kept = {name: event[name] for name in ("id", "cluster", "time")}
    return msgspec.json.encode({**kept, "requestHeader": header, "request": {}})


def of_others(rows: list[Output], event_id: str) -> list[Output]:
    """What deadlines gave before a refused event, without its dead letter and error."""
    return [row for row in rows if row.topic != outputs.DEAD_LETTERS and row.id != event_id]


@pytest.mark.long
@many
@given(stories(), st.integers(0, 10**6), st.integers(0, 10**6))
def test_fault_at_any_step_leaves_only_a_dead_letter(story: Story, which: int, step: int) -> None:
    counted = Faults()
    with counted.planted():
        decide(Cell(story.settings), story.documents)
    event_ids = [event_id for event_id, steps in counted.steps.items() if steps]
    if not event_ids:
        return
    event_id = event_ids[which % len(event_ids)]
    place = int(event_id.removeprefix("e"))
    faulty, refusing = Cell(story.settings), Cell(story.settings)
    with Faults(event_id, 1 + step % counted.steps[event_id]).planted():
        rows = decide(faulty, story.documents)
    changed = list(story.documents)
    changed[place] = not_built(changed[place])
    expected = decide(refusing, changed)
    letters = [row for row in rows[place] if row.topic == outputs.DEAD_LETTERS]
    assert [msgspec.json.decode(each.value or b"")["reason"] for each in letters] == [Reason.FAULT]
    rows[place] = of_others(rows[place], event_id)
    expected[place] = of_others(expected[place], event_id)
    assert rows == expected
    assert state(faulty) == state(refusing)


# Broken properties are noticed


def test_durable_item_without_a_record_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A durable item written past `apply` is missing where the records are replayed."""
    original = applied.RecordEffects.apply

    def apply_and_more(self: Any, machine: int, record: Any) -> None:
        original(self, machine, record)
        self._tables.groups.put("1/group/nobody", record)

    monkeypatch.setattr(applied.RecordEffects, "apply", apply_and_more)
    check = test_records_replayed_after_a_checkpoint_give_the_same_durable_state
    with pytest.raises(AssertionError, match="groups"):
        check.hypothesis.inner_test(seeded(1, 30), 10)  # type: ignore[attr-defined]


def test_unanswered_pending_join_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    report = event_loop.CellLoop._send

    def without_responses(of: event_loop.CellLoop, machine: int, decision: Decision) -> None:
        report(of, machine, msgspec.structs.replace(decision, resumed=[]))

    monkeypatch.setattr(event_loop.CellLoop, "_send", without_responses)
    found: list[str] = []
    for seed in range(8):
        story = seeded(seed, 60)
        cell = Cell(story.settings)
        decide(cell, story.documents)
        found += check(cell)
    assert any("is pending, but not for a member" in violation for violation in found)


def test_incomplete_rollback_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Table, "rollback", lambda self: self._former.clear())
    check = test_fault_at_any_step_leaves_only_a_dead_letter
    with pytest.raises(AssertionError):
        check.hypothesis.inner_test(seeded(2, 60), 7, 9)  # type: ignore[attr-defined]
