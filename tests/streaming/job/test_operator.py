"""The operator's function, called as Spark calls it, without Spark."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokertwin.state.apis.registry import BUILT
from brokertwin.state.cell.cell import STATE_VERSION, Cell, state_columns
from brokertwin.state.core import layers, outputs
from brokertwin.state.core.murmur2 import partition_of
from brokertwin.state.core.outputs import Output, Position
from brokertwin.state.core.packs import packed
from brokertwin.state.core.settings import CellSettings
from brokertwin.state.core.tables import columns_of_tables
from brokertwin.streaming.job import measures, operator
from brokertwin.streaming.job.kept_bases import KeptBases
from tests.support.examples import examples
from tests.support.histories import CLUSTER, START, histories

PARTITIONS = 4
HOME = partition_of(CLUSTER.encode(), PARTITIONS)
CELL_KEY = 7
CELL = CellSettings(
    name=CLUSTER,
    cluster=CLUSTER,
    event_time="recorded",
    may_hold=True,
    requests_partitions=PARTITIONS,
    responses_partitions=2,
    output_bytes_max=900_000,
)
OTHER = msgspec.structs.replace(CELL, name="other", cluster="other")
Row = tuple[int, int, int, bytes | None, bytes | None]


class State:
    """Spark's GroupState, as far as the operator uses it."""

    def __init__(self) -> None:
        self.row: tuple[Any, ...] | None = None
        self.updates = 0

    @property
    def exists(self) -> bool:
        return self.row is not None

    @property
    def get(self) -> tuple[Any, ...]:
        assert self.row is not None
        return self.row

    def update(self, newValue: tuple[Any, ...]) -> None:  # noqa: N803
        self.row = newValue
        self.updates += 1


def frames(chunks: list[list[Row]]) -> Iterator[pd.DataFrame]:
    """Chunks of rows as Spark hands them over: the group column is there, too."""
    for chunk in chunks:
        columns = list(zip(*chunk, strict=True)) or [[]] * len(operator.INPUT_COLUMNS)
        named = dict(zip(operator.INPUT_COLUMNS, columns, strict=True))
        yield pd.DataFrame({"cell": CELL_KEY, **named})


def call(key: int, chunks: list[list[Row]], state: State | None = None) -> list[Output]:
    function = operator.group_function({CELL_KEY: CELL, CELL_KEY + 1: OTHER})
    found = []
    for frame in function((key,), frames(chunks), state or State()):
        assert list(frame.columns) == ["topic", "partition", "key", "value", "id"]
        (packed,) = frame.itertuples(index=False, name=None)
        for topic, partition, *rest in zip(*packed, strict=True):
            chosen = None if partition == operator.NO_PARTITION else partition
            found.append(Output(topic, chosen, *rest))
    return found


def rows_of(documents: list[bytes]) -> list[Row]:
    return [
        (HOME, offset, START, CLUSTER.encode(), document)
        for offset, document in enumerate(documents)
    ]


def expected_of(documents: list[bytes], **changes: Any) -> tuple[list[Output], dict[str, bytes]]:
    """What one cell gives in this process, event by event."""
    cell = Cell(msgspec.structs.replace(CELL, **changes))
    rows = [
        row
        for offset, document in enumerate(documents)
        for row in cell.handle(document, Position(HOME, offset, START, CLUSTER.encode()))
    ]
    return rows, cell.columns()


@st.composite
def cut(draw: st.DrawFn, documents: list[bytes]) -> list[list[list[Row]]]:
    """Micro-batches of the rows in order, each shuffled and in chunks of any size."""
    rows = rows_of(documents)
    ends = draw(st.lists(st.integers(0, len(rows)), max_size=4).map(sorted))
    batches = []
    for start, end in zip([0, *ends], [*ends, len(rows)], strict=True):
        batch = draw(st.permutations(rows[start:end]))
        marks = draw(st.lists(st.integers(0, len(batch)), max_size=3).map(sorted))
        batches.append([batch[a:b] for a, b in zip([0, *marks], [*marks, len(batch)], strict=True)])
    return batches


@given(st.data())
@settings(max_examples=examples(15))
def test_any_chunking_and_order_of_the_rows_gives_the_same_output(data: st.DataObject) -> None:
    documents = data.draw(histories(max_size=25))
    rows, columns = expected_of(documents)
    state = State()
    found: list[Output] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layers, "LAYERED_BYTES", data.draw(st.sampled_from([0, 1 << 16])))
        for chunks in data.draw(cut(documents)):
            found += call(CELL_KEY, chunks, state)
    assert found == rows
    version, *stored = state.get
    assert version == STATE_VERSION
    row = dict(zip(state_columns(), stored, strict=True))
    assert row["meta"] == columns["meta"]
    whole = columns_of_tables(columns)
    for name, column in columns_of_tables(row).items():
        assert items_of(layers.flat(column)) == items_of(whole[name]), name


@given(st.data())
@settings(max_examples=examples(15))
def test_packs_and_single_rows_mixed_give_what_the_events_give(data: st.DataObject) -> None:
    """Also if each micro-batch runs twice, and Kafka has a pack in any of them."""
    documents = data.draw(histories(max_size=25))
    marks = data.draw(st.lists(st.integers(0, len(documents)), max_size=8).map(sorted))
    groups = [
        documents[a:b] for a, b in zip([0, *marks], [*marks, len(documents)], strict=True) if b > a
    ]
    cell, expected = Cell(CELL), []
    for offset, group in enumerate(groups):
        for index, document in enumerate(group):
            place = Position(HOME, offset, START, CLUSTER.encode(), index)
            expected += cell.handle(document, place)
    values = [group[0] if len(group) == 1 else packed(group) for group in groups]
    state, found = State(), []
    for chunks in data.draw(cut(values)):
        twin = State()
        twin.row = state.row
        again = call(CELL_KEY, chunks, twin)
        found += call(CELL_KEY, chunks, state)
        assert again == found[len(found) - len(again) :]
    assert found == expected
    alone, columns = expected_of(documents)
    assert responses_of(found) == responses_of(alone)
    assert [row.value for row in found] == [row.value for row in alone]
    stored = dict(zip(state_columns(), state.get[1:], strict=True))
    assert stored["meta"] == columns["meta"] == cell.columns()["meta"]
    ids = [(row.topic, row.id) for row in found if row.topic != outputs.RESPONSES]
    assert len(set(ids)) == len(ids)


def responses_of(rows: list[Output]) -> list[Output]:
    return [row for row in rows if row.topic == outputs.RESPONSES]


@given(st.data())
@settings(max_examples=examples(10))
def test_cached_bases_do_not_change_output(
    data: st.DataObject,
) -> None:
    """Each call begins with any state there was: tasks are tried again, cells move, jobs go back.

    The rows of the state are the same to the byte, however often and in which order it is called.
    """
    documents = data.draw(histories(max_size=25))
    rows = [State().row]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layers, "LAYERED_BYTES", 0)
        kept = KeptBases()
        for batch in data.draw(cut(documents)):
            before = data.draw(st.sampled_from(rows))
            found = []
            for bases in (kept, KeptBases(0)):
                patch.setattr(operator, "_bases", bases)
                state = State()
                state.row = before
                found.append((call(CELL_KEY, batch, state), state.row))
            assert found[0] == found[1]
            rows.append(found[0][1])


@given(histories(max_size=25))
@settings(max_examples=examples(10))
def test_without_records_other_output_is_equal(documents: list[bytes]) -> None:
    rows, columns = expected_of(documents)
    without, as_before = expected_of(documents, writes_records=False)
    assert without == [row for row in rows if row.topic != outputs.RECORDS]
    assert as_before == columns


def items_of(column: bytes) -> Any:
    """Return a column's items; their order depends on the time of encoding."""
    return msgspec.msgpack.decode(column) if column else {}


def test_the_state_is_written_once_a_call() -> None:
    state = State()
    tick = msgspec.json.encode({"id": "t", "cluster": CLUSTER, "kind": "tick", "time": START})
    call(CELL_KEY, [rows_of([tick, tick]), rows_of([tick])], state)
    assert state.updates == 1


def test_processor_time_is_counted_per_cell() -> None:
    seen: list[measures.Counts] = []
    function = operator.group_function({CELL_KEY: CELL}, seen.append)
    for key in (CELL_KEY, -3):
        list(function((key,), frames([rows_of([b"{}"] * 20)]), State()))
    of_cell, of_strays = map(measures.loads_of, seen)
    assert list(of_cell) == [CLUSTER] and of_cell[CLUSTER] > 0 and of_strays == {}


def test_an_older_state_row_is_written_in_this_versions_form() -> None:
    state = State()
    group = {"1/group/g": {"group_id": "g", "metadata": None}}
    columns = dict.fromkeys(state_columns(), b"") | {"groups": msgspec.msgpack.encode(group)}
    state.row = (3, *columns.values())
    call(CELL_KEY, [rows_of([b"{}"])], state)
    version, *stored = state.get
    assert version == STATE_VERSION
    groups = items_of(dict(zip(state_columns(), stored, strict=True))["groups"])
    assert groups["1/group/g"]["type"] == "classic"


def test_a_newer_state_row_is_unchanged() -> None:
    state = State()
    state.row = (STATE_VERSION + 1, *(b"" for _ in state_columns()))
    with pytest.raises(RuntimeError, match=f"version {STATE_VERSION + 1}"):
        call(CELL_KEY, [rows_of([b"{}"])], state)
    assert state.updates == 0


def refusals(rows: list[Output]) -> list[tuple[str, int, str]]:
    letters = [msgspec.json.decode(r.value or b"") for r in rows if r.topic == outputs.DEAD_LETTERS]
    return [(letter["reason"], letter["offset"], letter["cell"]) for letter in letters]


def test_rows_of_no_cell_are_dead_letters_and_leave_no_state() -> None:
    state = State()
    mine = msgspec.json.encode({"id": "x", "cluster": CLUSTER, "replyTo": 1})
    foreign = msgspec.json.encode({"id": "y", "cluster": "elsewhere"})
    rows: list[Row] = [
        (2, 10, START, None, mine),
        (2, 11, START, b"elsewhere", foreign),
        (2, 12, START, b"nobody", b"\xff"),
        (2, 13, START, None, None),
    ]
    found = call(-3, [rows], state)
    assert refusals(found) == [
        ("key of another cell", 10, "stray"),
        ("unknown cluster", 11, "stray"),
        ("key of another cell", 12, "stray"),
        ("key of another cell", 13, "stray"),
    ]
    responses = [(r.id, r.partition) for r in found if r.topic == outputs.RESPONSES]
    assert responses == [("x", 1), ("y", 0)]
    assert len({(row.topic, row.id) for row in found}) == len(found)
    assert state.updates == 0


def test_a_row_in_the_wrong_partition_is_rejected() -> None:
    tick = msgspec.json.encode({"id": "t", "cluster": CLUSTER, "kind": "tick", "time": START})
    wrong = (HOME + 1) % PARTITIONS
    state, untouched = State(), State()
    rows: list[Row] = [(wrong, 5, START, CLUSTER.encode(), tick)]
    assert refusals(call(CELL_KEY, [rows], state)) == [
        ("not in the partition of its key", 5, CLUSTER)
    ]
    call(CELL_KEY, [[]], untouched)
    assert state.row == untouched.row


def test_a_row_without_a_value_is_a_dead_letter() -> None:
    rows: list[Row] = [(HOME, 3, START, CLUSTER.encode(), None)]
    assert refusals(call(CELL_KEY, [rows])) == [("not JSON", 3, CLUSTER)]


def test_damaged_events_of_a_pack_are_dead_letters_alone() -> None:
    header = {"requestApiKey": 18, "requestApiVersion": 0}
    request = {"cluster": CLUSTER, "time": START, "requestHeader": header, "request": {}}
    good = [msgspec.json.encode({**request, "id": f"g{n}"}) for n in range(3)]
    pack = packed([good[0], good[1][:-9], good[2], b"", b"\xff"])
    counted: list[measures.Counts] = []
    function = operator.group_function({CELL_KEY: CELL}, counted.append)
    (frame,) = function((CELL_KEY,), frames([[(HOME, 5, START, CLUSTER.encode(), pack)]]), State())
    rows = list(zip(frame["topic"][0], frame["id"][0], frame["value"][0], strict=True))
    assert [row_id for topic, row_id, _ in rows if topic == outputs.RESPONSES] == ["g0", "g2"]
    letters = [(i, msgspec.json.decode(v)) for t, i, v in rows if t == outputs.DEAD_LETTERS]
    assert [(i, x["offset"], x["packIndex"], x["reason"]) for i, x in letters] == [
        (f"{CLUSTER}/{HOME}/5.1/dead", 5, 1, "not JSON"),
        (f"{CLUSTER}/{HOME}/5.3/dead", 5, 3, "not JSON"),
        (f"{CLUSTER}/{HOME}/5.4/dead", 5, 4, "not UTF-8"),
    ]
    assert counted[0][operator.REQUESTS] == 5


def test_each_event_of_a_misplaced_pack_is_refused() -> None:
    events = [msgspec.json.encode({"id": each, "cluster": CLUSTER}) for each in ("x", "y")]
    wrong: list[Row] = [((HOME + 1) % PARTITIONS, 5, START, CLUSTER.encode(), packed(events))]
    stray: list[Row] = [(2, 5, START, b"nobody", packed(events))]
    for key, rows in ((CELL_KEY, wrong), (-3, stray)):
        found = call(key, [rows])
        assert [row.id for row in responses_of(found)] == ["x", "y"]
        assert len({row.id for row in found}) == 4


def test_large_outputs_are_emitted_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operator, "FRAME_BYTES", 100)
    rows = [Output("responses", 0, None, b"x" * 60, str(n)) for n in range(5)]
    counts: measures.Counts = {}
    parts = list(operator.frames_of(rows, counts))
    assert [len(part["id"][0]) for part in parts] == [2, 2, 1]
    assert counts == {"responses": 5}


def test_rows_are_counted_by_topic() -> None:
    refused = msgspec.json.encode({"reason": "not JSON"})
    response = msgspec.json.encode({"requestApiKey": 0, "response": {"errorCode": 47}})
    rows = [
        Output("records", 0, b"k", None, "1"),
        Output("responses", 0, None, response, "2"),
        Output("requests", 0, b"cell", refused, "3"),
        Output("dead-letters", None, None, refused, "4"),
        Output("records", 0, b"k", response, "5"),
    ]
    counts: measures.Counts = {}
    (frame,) = operator.frames_of(rows, counts)
    assert frame["id"][0] == ["1", "2", "3", "4", "5"]
    assert counts == {
        "records": 2,
        "responses": 1,
        operator.BETWEEN_CELLS: 1,
        "dead-letters": 1,
        "answers:0": 1,
        "errors:0:47": 1,
        "reasons:not JSON": 1,
    }


HUGE = "x" * 2_000_000
NULLS = "\x00" * 1_000_000


@pytest.mark.parametrize(
    "fields",
    [
        {"id": HUGE},
        {"id": "x" * 899_000},
        {"connection": HUGE},
        {"principal": HUGE},
        {"cluster": HUGE},
        {"broker": HUGE},
        {"kind": "complete", "of": HUGE},
        {"nonce": HUGE},
        {"requestHeader": {"requestApiKey": 18, "requestApiVersion": 0, "clientId": HUGE}},
        {"requestHeader": {"requestApiKey": 18, "requestApiVersion": 9, "clientId": NULLS}},
        {"requestHeader": {"requestApiKey": 10, "requestApiVersion": 4},
         "request": {"keyType": 0, "coordinatorKeys": [HUGE]}},
    ],
    ids=lambda fields: next(iter(fields)),
)  # fmt: skip
def test_no_row_is_larger_than_its_limit(fields: dict[str, Any]) -> None:
    header = {"requestApiKey": 18, "requestApiVersion": 0}
    event = {"id": "e", "cluster": CLUSTER, "requestHeader": header, "request": {}, **fields}
    document = msgspec.json.encode(event)
    rows = call(CELL_KEY, [rows_of([document])])
    rows += call(-1, [[(0, 1, START, document[:1_000_000], document)]])
    sizes = [len(row.value or b"") + len(row.key or b"") + len(row.id) for row in rows]
    assert sizes
    assert max(sizes) < 1_000_000


def test_a_failed_wait_and_its_event_are_two_dead_letters(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both have the same offset; their ids differ, so no reader drops one."""
    partition = {"partition": 0, "fetchOffset": 0, "partitionMaxBytes": 100}
    fetch = {"maxWaitMs": 50, "minBytes": 1, "topics": [{"topic": "t", "partitions": [partition]}]}
    topic = {"name": "t", "numPartitions": 1, "replicationFactor": 1}
    events = [
        {"requestHeader": {"requestApiKey": 19, "requestApiVersion": 7},
         "request": {"topics": [topic]}},
        {"requestHeader": {"requestApiKey": 1, "requestApiVersion": 12}, "request": fetch},
        {"requestHeader": {"requestApiKey": 999, "requestApiVersion": 0}, "time": START + 60},
    ]  # fmt: skip
    common = {"cluster": CLUSTER, "time": START, "request": {}}
    documents = [
        msgspec.json.encode({**common, "id": f"e{number}", **event})
        for number, event in enumerate(events)
    ]

    def fail(*_: object) -> None:
        raise RuntimeError("planted")

    monkeypatch.setitem(BUILT, 1, msgspec.structs.replace(BUILT[1], complete=fail))
    letters = [row for row in call(CELL_KEY, [rows_of(documents)]) if row.topic == "dead-letters"]
    assert [offset for _, offset, _ in refusals(letters)] == [2, 2]
    assert len({row.id for row in letters}) == 2
