"""Cells that talk: together they answer as one cell does, and a repeat changes nothing."""

import random
from typing import Any

import msgspec
import pytest

from brokertwin.protocol.errors import Error
from brokertwin.state.apis.registry import BUILT
from brokertwin.state.cell import between_cells
from brokertwin.state.cell.cell import Cell
from brokertwin.state.core.events import BETWEEN_CELLS, Kind, Reason
from brokertwin.state.core.outputs import RECORDS
from brokertwin.state.core.settings import BrokerSettings, CellSettings
from tests.support.cells import Cells, Row, handle_in_both, kind_of, split, stories
from tests.support.histories import CLUSTER, START, Story
from tests.support.machine import header, produce_body

TWO = {"a": [1], "b": [2]}
SETTINGS = CellSettings(name=CLUSTER, cluster=CLUSTER, brokers=[1, 2], event_time="recorded")

HOUR_MS = 3_600_000


def cells_of(story: Story, **more: Any) -> Cells:
    brokers = story.settings.brokers
    count = 2 if len(story.documents) % 2 else len(brokers)
    return Cells(story.settings, split(brokers, count), **more)


@pytest.mark.long
def test_several_cells_respond_like_one() -> None:
    result = set()
    for story in stories():
        one, many = Cells(story.settings, {}), cells_of(story)
        for document in story.documents:
            handle_in_both(document, one, many)
            assert many.responses == one.responses, document
        assert many.durable() == one.durable()
        assert {letter["reason"] for letter in many.dead_letters()} <= {
            letter["reason"] for letter in one.dead_letters()
        }
        result |= set(many.reported)
    assert result | {Kind.REGISTRATION} == BETWEEN_CELLS, "brokers stop in few histories"


def some_again(seed: int) -> Any:
    """Gives rows between cells once more, any that have lain in the topic, at any later point."""
    source = random.Random(seed)

    def repeat(topic: list[Row]) -> list[Row]:
        drawn = [source.choice(topic[-source.choice([20, 10_000]) :]) for _ in range(4)]
        return [row for row in drawn if kind_of(row) in BETWEEN_CELLS]

    return repeat


def items(cell: Cell) -> dict[str, Any]:
    """The state by column and key.

    In which order a column has its items depends on where commits fall; nothing reads that.
    """
    columns = cell.columns()
    return {name: msgspec.msgpack.decode(columns[name]) for name in columns if columns[name]}


def deliver_twice(story: Story, seed: int) -> None:
    """A history with repeats and without gives the same rows and the same state."""
    once, twice = cells_of(story), cells_of(story, repeat=some_again(seed))
    for document in story.documents:
        handle_in_both(document, once, twice)
    assert twice.responses == once.responses
    for name, cell in twice.cells.items():
        assert items(cell) == items(once.cells[name])
    assert twice.out == once.out
    assert twice.topic == once.topic


@pytest.mark.long
def test_repeat_has_no_effect_at_any_later_point() -> None:
    for seed, story in enumerate(stories()):
        deliver_twice(story, seed)


def test_accepted_repeat_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(between_cells, "is_repeat", lambda *_: False)
    monkeypatch.setattr(between_cells, "is_next", lambda *_: True)
    with pytest.raises(AssertionError):
        deliver_twice(next(stories()), 0)


def test_cells_continue_from_stored_state() -> None:
    story = next(stories())
    straight, stored = cells_of(story), cells_of(story)
    for document in story.documents:
        handle_in_both(document, straight, stored)
        for name, cell in stored.cells.items():
            stored.cells[name] = Cell(cell.settings, cell.columns())
    assert stored.responses == straight.responses
    assert stored.durable() == straight.durable()


# One event at a time


def document(event_id: str, key: int, version: int, broker: int, body: Any, **more: Any) -> bytes:
    header = {"requestApiKey": key, "requestApiVersion": version}
    event = {"id": event_id, "cluster": CLUSTER, "broker": broker, "time": START, "nonce": event_id}
    return msgspec.json.encode({**event, "requestHeader": header, "request": body, **more})


def creation(event_id: str, broker: int, name: str, factor: int = 1) -> bytes:
    topic = {"name": name, "numPartitions": 2, "replicationFactor": factor}
    return document(event_id, 19, 7, broker, {"topics": [topic], "timeoutMs": 1000})


def reported(cells: Cells, kind: str) -> list[Row]:
    return [row for row in cells.topic if kind_of(row) == kind]


def changed(row: Row, **fields: Any) -> Row:
    return row[0], msgspec.json.encode({**msgspec.json.decode(row[1]), **fields})


def topics(cells: Cells, name: str) -> list[str]:
    keys = cells.cells[name].tables.metadata.keys()
    return sorted({key.split("/")[2] for key in keys if key.split("/")[1] == "name"})


def test_controllers_cell_responds_to_a_client_of_another_cell() -> None:
    cells = Cells(SETTINGS, TWO)
    cells.handle(creation("c1", 2, "orders"))
    (response,) = cells.responses["c1"]["response"]["topics"]
    assert (response["name"], response["errorCode"]) == ("orders", 0)
    assert cells.responses["c1"]["broker"] == 2
    assert topics(cells, "a") == topics(cells, "b") == ["orders"]


@pytest.mark.parametrize("storage", ["kafka", "zookeeper"])
def test_offsets_of_another_cell_equal_those_of_one_cell(storage: str) -> None:
    requested = BrokerSettings(
        brokertwin_forward_offset_fetch=True,
        brokertwin_offset_storage=storage,
        offsets_topic_num_partitions=4,
    )
    settings = msgspec.structs.replace(SETTINGS, broker_settings=requested)
    groups = ["g", "h", "k", "l"]
    fields = {"keyType": 0, "coordinatorKeys": groups}
    given = [{"name": "a", "partitions": [{"partitionIndex": 0, "committedOffset": 5}]}]
    wanted = [{"groupId": group, "topics": None} for group in groups]
    documents = [creation("c", 1, "a"), document("f", 10, 4, 1, fields)]
    for broker in (1, 2):
        for group in groups:
            body = {"groupId": group, "memberId": "", "topics": given}
            documents.append(document(f"c-{broker}-{group}", 8, 8, broker, body))
    documents += [document(f"o-{n}", 9, 8, n, {"groups": wanted}) for n in (1, 2)]
    deleted = [{"name": "a", "partitions": [{"partitionIndex": 0}]}]
    for broker in (1, 2):
        for group in groups[:2]:
            body = {"groupId": group, "topics": deleted}
            documents.append(document(f"d-{broker}-{group}", 47, 0, broker, body))
        documents.append(document(f"g-{broker}", 42, 2, broker, {"groupsNames": groups[2:]}))
    one, many = Cells(settings, {}), Cells(settings, TWO)
    for each in documents:
        handle_in_both(each, one, many)
    assert many.responses == one.responses
    assert many.durable() == one.durable()
    errors = [one.responses[f"g-{n}"]["response"]["results"] for n in (1, 2)]
    assert {each["errorCode"] for response in errors for each in response} == {0, 16}
    result = [one.responses[f"o-{broker}"]["response"]["groups"] for broker in (1, 2)]
    assert result[0][0]["topics"][0]["partitions"][0]["committedOffset"] == 5
    assert result[0] == result[1]
    assert many.reported["answer"] >= 2


def test_row_has_sender_incarnation_and_sequence() -> None:
    cells = Cells(SETTINGS, TWO)
    for number in range(3):
        cells.handle(creation(f"c{number}", 1, f"t{number}"))
    rows = [msgspec.json.decode(value) for _, value in reported(cells, "metadata")]
    assert [key for key, _ in reported(cells, "metadata")] == ["b"] * 3
    assert [(row["sender"], row.get("incarnation", 0), row["sequence"]) for row in rows] == [
        ("a", 0, 1),
        ("a", 0, 2),
        ("a", 0, 3),
    ]
    assert [row["of"] for row in rows] == ["c0", "c1", "c2"]


def test_early_event_is_a_dead_letter_and_accepted_in_its_turn() -> None:
    cells = Cells(SETTINGS, TWO)
    first = cells.take(("a", creation("c1", 1, "orders")))
    second = cells.take(("a", creation("c2", 1, "payments")))
    assert cells.take(second[0]) == []
    assert [letter["reason"] for letter in cells.dead_letters()] == [Reason.OUT_OF_SEQUENCE]
    assert topics(cells, "b") == []
    cells.deliver([*first, *second])
    assert topics(cells, "b") == ["orders", "payments"]
    assert len(cells.dead_letters()) == 1


def test_new_cell_counts_from_one_in_a_higher_incarnation() -> None:
    cells = Cells(SETTINGS, TWO)
    cells.handle(creation("c1", 1, "orders"))
    (older,) = reported(cells, "metadata")
    anew = Cells(msgspec.structs.replace(SETTINGS, incarnation=7), TWO)
    anew.deliver([older])
    assert topics(anew, "b") == [], "what an older incarnation has told is told again"
    anew.handle(creation("c1", 1, "orders"))
    (row,) = [msgspec.json.decode(value) for _, value in reported(anew, "metadata")[1:]]
    assert (row["incarnation"], row["sequence"]) == (7, 1)
    assert topics(anew, "b") == ["orders"]
    before = anew.cells["b"].columns()
    anew.deliver([older, changed(older, sequence=2)])
    assert anew.cells["b"].columns() == before
    assert anew.dead_letters() == []


def test_only_the_first_event_of_a_new_cell_is_next() -> None:
    cells = Cells(SETTINGS, TWO)
    for number in range(2):
        cells.handle(creation(f"c{number}", 1, f"t{number}"))
    (row,) = cells.take(("a", creation("c2", 1, "orders")))
    cells.deliver([changed(row, incarnation=7, sequence=2)])
    assert [letter["reason"] for letter in cells.dead_letters()] == [Reason.OUT_OF_SEQUENCE]
    assert topics(cells, "b") == ["t0", "t1"]
    cells.deliver([changed(row, incarnation=7, sequence=1), row])
    assert topics(cells, "b") == ["orders", "t0", "t1"]
    assert len(cells.dead_letters()) == 1, "what it had told before is told already"


@pytest.mark.parametrize("sender", ["", "b", "c", CLUSTER])
def test_event_of_an_unknown_cell_is_refused(sender: str) -> None:
    cells = Cells(SETTINGS, TWO)
    (row,) = cells.take(("a", creation("c1", 1, "orders")))
    cells.deliver([changed(row, sender=sender)])
    assert [letter["reason"] for letter in cells.dead_letters()] == [Reason.INTERNAL_KIND]
    assert topics(cells, "b") == []


@pytest.mark.parametrize("kind", sorted(BETWEEN_CELLS))
def test_single_cell_refuses_events_of_cells(kind: str) -> None:
    cell = Cells(SETTINGS, {})
    event = {"id": "x", "cluster": CLUSTER, "kind": kind, "sender": "a", "sequence": 1}
    cell.deliver([(CLUSTER, msgspec.json.encode(event))])
    assert [letter["reason"] for letter in cell.dead_letters()] == [Reason.INTERNAL_KIND]
    assert cell.responses == {}


def test_failed_event_is_a_dead_letter_and_later_ones_are_accepted() -> None:
    cells = Cells(SETTINGS, TWO)
    (row,) = cells.take(("a", creation("c1", 1, "orders")))
    (following,) = cells.take(("a", creation("c2", 1, "payments")))
    cells.deliver([changed(row, told={"record": {"type": "Nothing"}}), following, row])
    assert [letter["reason"] for letter in cells.dead_letters()] == [Reason.FAULT]
    assert topics(cells, "b") == ["payments"]


def test_failed_forwarded_request_gets_an_error_response(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails(*_: Any) -> Any:
        raise RuntimeError("on purpose")

    monkeypatch.setitem(BUILT, 19, msgspec.structs.replace(BUILT[19], handle=fails))
    cells = Cells(SETTINGS, TWO)
    cells.handle(creation("c1", 2, "orders"))
    assert cells.responses["c1"]["error"]["reason"] == Reason.FAULT


def test_replicas_copy_across_cells() -> None:
    settings = msgspec.structs.replace(SETTINGS, broker_settings=BrokerSettings())
    clusters = Cells(settings, {}), Cells(settings, TWO)
    batch = header(3, size=90, maxTimestamp=START)
    data = [{"index": 0, "batches": [batch]}, {"index": 1, "batches": [batch]}]
    body = {"acks": -1, "timeoutMs": 900, "topicData": [{"name": "t", "partitionData": data}]}
    for event in (
        creation("c1", 1, "t", 2),
        *(document(f"p{n}", 0, 9, n % 2 + 1, body) for n in range(6)),
    ):
        handle_in_both(event, *clusters)
    one, many = clusters
    assert many.responses == one.responses
    assert many.durable() == one.durable()
    assert many.reported["replica-answer"] > 5
    assert many.reported["replica-fetch"] > 5
    marks = [log["high_watermark"] for key, log in many.durable().items() if "/log/" in key]
    assert sorted(marks) == [9, 9, 9, 9]


# Time that passes while another cell has not been heard


def produce(event_id: str, time: int, timeout_ms: int = 60_000) -> bytes:
    """A record for the partition that broker 1 leads, with acks -1."""
    body = produce_body("t", header(1, maxTimestamp=time), timeoutMs=timeout_ms)
    return document(event_id, 0, 9, 1, body, time=time)


def tick(time: int) -> Row:
    event = {"id": f"tick-{time}", "cluster": CLUSTER, "kind": "tick", "time": time}
    return "a", msgspec.json.encode(event)


def test_follower_of_another_cell_is_caught_up_until_the_append() -> None:
    """Nothing was written for an hour; from the append on it has replica.lag.time.max.ms."""
    cells = Cells(SETTINGS, TWO)
    cells.handle(creation("c1", 1, "t", 2))
    cells.handle(produce("p0", START))
    time = START + HOUR_MS
    cells.deliver([tick(time)])
    under_way = cells.take(("a", produce("p1", time)))
    assert [kind_of(row) for row in under_way] == ["replica-answer"]
    lag_ms = SETTINGS.broker_settings.replica_lag_time_max_ms
    assert cells.take(tick(time + lag_ms)) == [], "it is not behind for too long"
    (left,) = cells.take(tick(time + 2 * lag_ms))
    assert msgspec.json.decode(left[1])["told"]["record"]["isr"] == [1]


def test_idle_leader_reads_fetches_before_it_shrinks_the_isr() -> None:
    """The fetch of a follower follows the event that informs the cell of the time."""
    cells = Cells(SETTINGS, TWO)
    cells.handle(creation("c1", 1, "t", 2))
    changes = len(reported(cells, "metadata"))
    under_way = cells.take(("a", produce("p0", START)))
    assert cells.take(tick(START + HOUR_MS)) == []
    cells.deliver(under_way)
    cells.deliver([tick(START + 2 * HOUR_MS)])
    assert len(reported(cells, "metadata")) == changes


def test_overdue_messages_leave_with_the_next_event_of_the_cell() -> None:
    """A transactional id expires in the log of broker 1 half an hour before a cell is woken.

    Followers in other cells hear of it now, and did not have half an hour.
    """
    broker_settings = BrokerSettings(transaction_state_log_num_partitions=1)
    settings = msgspec.structs.replace(SETTINGS, broker_settings=broker_settings)
    one, many = Cells(settings, {}), Cells(settings, TWO)
    find = {"keyType": 1, "coordinatorKeys": ["t"]}
    handle_in_both(document("e0", 10, 4, 1, find), one, many)
    body = {"transactionalId": "t", "transactionTimeoutMs": 1000}
    for event_id in ("e1", "e2"):  # the first one has the broker ask for producer ids
        handle_in_both(document(event_id, 22, 4, 1, body), one, many)
    assert many.responses["e2"]["response"]["errorCode"] == 0
    check = (START // HOUR_MS + 8 * 24) * HOUR_MS
    handle_in_both(document("e3", 18, 0, 1, {}, time=check + HOUR_MS // 2), one, many)
    written = [msgspec.json.decode(row.value or b"") for row in many.out if row.topic == RECORDS]
    appended = [each["time"] for each in written if each["record"]["type"] == "BatchAppended"]
    assert appended[-2:] == [check, check]
    assert many.durable() == one.durable()


def test_zero_time_out_expires_before_another_cell_replies() -> None:
    """Kafka says 7, too, where the followers are other processes; it is written all the same."""
    one, many = Cells(SETTINGS, {}), Cells(SETTINGS, TWO)
    for event in (creation("c1", 1, "t", 2), produce("p0", START, 0), produce("p1", START, 1)):
        handle_in_both(event, one, many)
    errors = {
        (name, event_id): cells.responses[event_id]["response"]["responses"][0][
            "partitionResponses"
        ][0]["errorCode"]
        for name, cells in (("one", one), ("many", many))
        for event_id in ("p0", "p1")
    }
    timed_out = Error.REQUEST_TIMED_OUT
    assert errors == {
        ("one", "p0"): 0,
        ("one", "p1"): 0,
        ("many", "p0"): timed_out,
        ("many", "p1"): 0,
    }
    assert many.durable() == one.durable()
