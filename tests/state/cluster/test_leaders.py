"""Moves of leaders: epochs, errors and state, as Kafka's clients see them."""

import itertools
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokertwin.protocol.errors import Error
from brokertwin.state.cell.apply import apply
from brokertwin.state.cell.cell import Cell
from brokertwin.state.cluster.coordinators import GROUP_TOPIC, partition_for
from brokertwin.state.core import outputs
from brokertwin.state.core.events import Reason
from brokertwin.state.core.outputs import Position
from brokertwin.state.core.records import RecordEntry
from brokertwin.state.core.settings import BrokerSettings, CellSettings
from brokertwin.state.core.tables import CellTables
from tests.support.histories import CLUSTER, histories
from tests.support.machine import Bench, header

BROKERS = (1, 2, 3)
GROUP = "billing"


@pytest.fixture
def bench() -> Bench:
    bench = Bench(BROKERS, offsets_topic_num_partitions=4)
    bench.settings.may_intervene = True
    return bench


def intervene(bench: Bench, kind: str, **fields: Any) -> None:
    event = {"id": f"{kind}-{len(bench.rows)}", "cluster": CLUSTER, "kind": kind, "time": bench.now}
    bench.handle({**event, **fields})


def move(bench: Bench, topic: str, partition: int, leader: int) -> None:
    wanted = {"topic": topic, "partition": partition, "leader": leader}
    intervene(bench, "move-leader", move=wanted)


def leader_of(bench: Bench, topic: str, partition: int = 0) -> tuple[int, int]:
    response = bench.request("METADATA", 12, name=topic)
    part = response["topics"][0]["partitions"][partition]
    return part["leaderId"], part["leaderEpoch"]


def others(leader: int) -> list[int]:
    return [broker for broker in BROKERS if broker != leader]


def produce(bench: Bench, broker: int, sequence: int = 0, count: int = 1) -> Any:
    return bench.append("orders", header(count, 7, 0, sequence), version=10, broker=broker)


def fetch_body(offset: int, epoch: int = -1, wait_ms: int = 0) -> dict[str, Any]:
    partition = {
        "partition": 0,
        "fetchOffset": offset,
        "partitionMaxBytes": 1000,
        "currentLeaderEpoch": epoch,
    }
    topics = [{"topic": "orders", "partitions": [partition]}]
    return {"maxWaitMs": wait_ms, "minBytes": 1, "sessionEpoch": -1, "topics": topics}


def fetch(bench: Bench, broker: int, offset: int, epoch: int = -1) -> Any:
    response = bench.request("FETCH", 12, fetch_body(offset, epoch), broker=broker)
    return response["responses"][0]["partitions"][0]


def test_log_and_producers_move_in_a_new_leader_epoch(bench: Bench) -> None:
    bench.topic("orders")
    old, epoch = leader_of(bench, "orders")
    new = others(old)[0]
    assert (epoch, produce(bench, old)["baseOffset"]) == (0, 0)
    move(bench, "orders", 0, new)
    assert leader_of(bench, "orders") == (new, 1)
    refused = produce(bench, old, sequence=1)
    assert refused["errorCode"] == Error.NOT_LEADER_OR_FOLLOWER
    assert refused["currentLeader"] == {"leaderId": new, "leaderEpoch": 1}
    again = produce(bench, new)
    assert (again["errorCode"], again["baseOffset"]) == (0, 0), "duplicates are still known"
    assert produce(bench, new, sequence=1)["baseOffset"] == 1
    batches = fetch(bench, new, 0)["batches"]
    assert [(b["baseOffset"], b["partitionLeaderEpoch"]) for b in batches] == [(0, 0), (1, 1)]


def test_old_leader_returns_the_new_one_to_readers(bench: Bench) -> None:
    topic_id = bench.topic("orders")
    old, _ = leader_of(bench, "orders")
    new = others(old)[0]
    move(bench, "orders", 0, new)
    body = fetch_body(0)
    body["topics"][0]["topicId"] = topic_id
    response = bench.request("FETCH", 16, body, broker=old)["responses"][0]["partitions"][0]
    assert response["errorCode"] == Error.NOT_LEADER_OR_FOLLOWER
    assert response["currentLeader"] == {"leaderId": new, "leaderEpoch": 1}
    earlier = fetch(bench, old, 0)
    assert earlier["errorCode"] == Error.NOT_LEADER_OR_FOLLOWER
    assert "currentLeader" not in earlier
    assert fetch(bench, new, 0, epoch=0)["errorCode"] == Error.FENCED_LEADER_EPOCH
    assert fetch(bench, new, 0, epoch=2)["errorCode"] == Error.UNKNOWN_LEADER_EPOCH


def test_fenced_reader_gets_the_leader_and_reader_of_a_later_epoch_does_not(
    bench: Bench,
) -> None:
    topic_id = bench.topic("orders")
    old, _ = leader_of(bench, "orders")
    new = others(old)[0]
    move(bench, "orders", 0, new)
    leaders = {}
    for epoch in (0, 1, 2):
        body = fetch_body(0, epoch)
        body["topics"][0]["topicId"] = topic_id
        response = bench.request("FETCH", 16, body, broker=new)["responses"][0]["partitions"][0]
        leaders[response["errorCode"]] = response.get("currentLeader")
    leader = {"leaderId": new, "leaderEpoch": 1}
    assert leaders == {
        Error.FENCED_LEADER_EPOCH: leader,
        Error.NONE: None,
        Error.UNKNOWN_LEADER_EPOCH: None,
    }


def test_pending_fetch_at_the_old_leader_completes_at_once(bench: Bench) -> None:
    bench.topic("orders")
    old, _ = leader_of(bench, "orders")
    waiting = bench.send("FETCH", 12, fetch_body(0, wait_ms=500), broker=old)
    assert waiting not in bench.responses
    move(bench, "orders", 0, others(old)[0])
    (topic,) = bench.responses[waiting]["response"]["responses"]
    assert topic["partitions"][0]["errorCode"] == Error.NOT_LEADER_OR_FOLLOWER


def test_end_offsets_of_former_leader_epochs(bench: Bench) -> None:
    bench.topic("orders")
    leader, _ = leader_of(bench, "orders")
    ends = {-1: (-1, -1), 0: (0, 2), 1: (0, 2), 2: (2, 3), 3: (3, 4), 4: (-1, -1)}
    produce(bench, leader, 0, count=2)
    for epoch, broker in enumerate(itertools.islice(itertools.cycle(others(leader)), 3), 1):
        move(bench, "orders", 0, broker)
        if epoch > 1:
            produce(bench, broker, epoch)
    (broker, _) = leader_of(bench, "orders")
    for epoch, wanted in ends.items():
        body = {"topics": [{"topic": "orders", "partitions": [{"leaderEpoch": epoch}]}]}
        response = bench.request("OFFSET_FOR_LEADER_EPOCH", 4, body, broker=broker)
        partition = response["topics"][0]["partitions"][0]
        assert (partition["leaderEpoch"], partition["endOffset"]) == wanted, epoch


def test_reader_of_an_epoch_that_ended_earlier_has_diverged(bench: Bench) -> None:
    bench.topic("orders")
    old, _ = leader_of(bench, "orders")
    produce(bench, old)
    move(bench, "orders", 0, others(old)[0])
    produce(bench, others(old)[0], 1)
    body = fetch_body(2)
    body["topics"][0]["partitions"][0]["lastFetchedEpoch"] = 0
    response = bench.request("FETCH", 12, body, broker=others(old)[0])
    diverging = response["responses"][0]["partitions"][0]["divergingEpoch"]
    assert diverging == {"epoch": 0, "endOffset": 1}


def commit(bench: Bench, broker: int, group: str, offset: int) -> int:
    committed = [{"partitionIndex": 0, "committedOffset": offset}]
    topics = [{"name": "orders", "partitions": committed}]
    body = {"groupId": group, "generationIdOrMemberEpoch": -1, "memberId": "", "topics": topics}
    response = bench.request("OFFSET_COMMIT", 8, body, broker=broker)
    return int(response["topics"][0]["partitions"][0]["errorCode"])


def committed(bench: Bench, broker: int, group: str) -> tuple[int, list[int]]:
    body = {"groups": [{"groupId": group, "topics": None}]}
    (response,) = bench.request("OFFSET_FETCH", 8, body, broker=broker)["groups"]
    offsets = [p["committedOffset"] for t in response["topics"] for p in t["partitions"]]
    return response["errorCode"], offsets


def test_coordinator_moves_with_its_committed_offsets(bench: Bench) -> None:
    bench.topic("orders")
    bench.request("FIND_COORDINATOR", 4, coordinatorKeys=[GROUP])
    place = partition_for(GROUP, 4)
    beside = next(n for n in map(str, range(100)) if partition_for(n, 4) != place)
    old, _ = leader_of(bench, GROUP_TOPIC, place)
    new = others(old)[0]
    coordinator_beside, _ = leader_of(bench, GROUP_TOPIC, partition_for(beside, 4))
    assert commit(bench, old, GROUP, 5) == 0
    assert commit(bench, coordinator_beside, beside, 6) == 0
    move(bench, GROUP_TOPIC, place, new)
    (coordinator,) = bench.request("FIND_COORDINATOR", 4, coordinatorKeys=[GROUP])["coordinators"]
    assert coordinator["nodeId"] == new
    assert commit(bench, old, GROUP, 6) == Error.NOT_COORDINATOR
    assert committed(bench, old, GROUP) == (Error.NOT_COORDINATOR, [])
    assert committed(bench, new, GROUP) == (0, [5])
    assert committed(bench, coordinator_beside, beside) == (0, [6]), "other groups stay"


def test_transactional_id_moves_with_its_coordinator(bench: Bench) -> None:
    body = {"transactionalId": "t/1", "transactionTimeoutMs": 1000}
    send = {"keyType": 1, "coordinatorKeys": ["t/1"]}
    bench.request("FIND_COORDINATOR", 4, send)
    (coordinator,) = bench.request("FIND_COORDINATOR", 4, send)["coordinators"]
    old = coordinator["nodeId"]
    new = others(old)[0]
    for broker in (old, new):  # each gets its producer id block
        bench.request("INIT_PRODUCER_ID", 4, body, transactionalId=None, broker=broker)
    first = bench.request("INIT_PRODUCER_ID", 4, body, broker=old)
    move(bench, "__transaction_state", partition_for("t/1", 50), new)
    refused = bench.request("INIT_PRODUCER_ID", 4, body, broker=old)
    assert refused["errorCode"] == Error.NOT_COORDINATOR
    second = bench.request("INIT_PRODUCER_ID", 4, body, broker=new)
    assert (second["producerId"], second["producerEpoch"]) == (first["producerId"], 1)


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        ({"topic": "payments", "partition": 0, "leader": 2}, Reason.NOT_POSSIBLE),
        ({"topic": "orders", "partition": 1, "leader": 2}, Reason.NOT_POSSIBLE),
        ({"topic": "orders", "partition": 0, "leader": 4}, Reason.UNKNOWN_BROKER),
        (None, Reason.MISSING_FIELD),
    ],
)
def test_impossible_moves_are_rejected(bench: Bench, wanted: Any, reason: Reason) -> None:
    bench.topic("orders")
    before = bench.cell.columns()
    intervene(bench, "move-leader", move=wanted)
    assert [letter["reason"] for letter in bench.dead_letters(bench.last)] == [reason]
    assert bench.cell.columns() == before


def test_move_beyond_the_size_of_a_record_is_rejected(bench: Bench) -> None:
    bench.topic("orders")
    old, _ = leader_of(bench, "orders")
    for sequence in range(40):
        produce(bench, old, sequence)
    bench.settings.output_bytes_max = 1500
    before = bench.cell.columns()
    move(bench, "orders", 0, others(old)[0])
    assert [m["reason"] for m in bench.dead_letters(bench.last)] == [Reason.OUTPUT_TOO_LARGE]
    assert bench.cell.columns() == before


def test_leaders_cannot_move_to_brokers_of_another_cell(bench: Bench) -> None:
    bench.topic("orders")
    bench.settings.cells = {CLUSTER: [1, 2], "other": [3]}
    move(bench, "orders", 0, 2)
    assert [m["reason"] for m in bench.dead_letters(bench.last)] == [Reason.NOT_POSSIBLE]


def test_partition_without_a_leader_cannot_move(bench: Bench) -> None:
    """No broker can hand over its log; an election brings back its leader, or another one."""
    bench.topic("orders")
    leader, _ = leader_of(bench, "orders")
    intervene(bench, "stop-broker", broker=leader)
    move(bench, "orders", 0, others(leader)[0])
    assert [m["reason"] for m in bench.dead_letters(bench.last)] == [Reason.NOT_POSSIBLE]


@pytest.mark.parametrize("kind", ["move-leader", "drop-sessions", "expire-members"])
def test_job_cell_rejects_interventions(kind: str) -> None:
    bench = Bench(BROKERS, may_hold=True)
    intervene(bench, kind)
    assert [letter["reason"] for letter in bench.dead_letters()] == [Reason.INTERNAL_KIND]


def test_dropped_session_completes_its_fetch_and_is_not_found_afterwards(bench: Bench) -> None:
    bench.topic("orders")
    leader, _ = leader_of(bench, "orders")
    opening = {**fetch_body(0), "sessionEpoch": 0}
    session = bench.request("FETCH", 12, opening, broker=leader)["sessionId"]
    following = {**fetch_body(0, wait_ms=500), "sessionId": session, "topics": []}
    waiting = bench.send("FETCH", 12, following, sessionEpoch=1, broker=leader)
    assert waiting not in bench.responses
    intervene(bench, "drop-sessions", broker=leader, sessions=[session])
    assert bench.responses[waiting]["response"]["errorCode"] == 0
    response = bench.request("FETCH", 12, following, sessionEpoch=2, broker=leader)
    assert response["errorCode"] == Error.FETCH_SESSION_ID_NOT_FOUND


SETTINGS = CellSettings(
    name=CLUSTER,
    cluster=CLUSTER,
    brokers=list(BROKERS),
    broker_settings=BrokerSettings(default_replication_factor=2, offsets_topic_num_partitions=4),
    event_time="recorded",
    may_intervene=True,
)


@st.composite
def histories_with_moves(draw: st.DrawFn) -> list[bytes]:
    documents = []
    for number, document in enumerate(draw(histories())):
        event = msgspec.json.decode(document)
        if number > 0 and draw(st.integers(0, 3)) == 0:
            topic = draw(st.sampled_from(["orders", "orders", "payments", GROUP_TOPIC]))
            where = {"topic": topic, "partition": draw(st.integers(0, 3))}
            moving = {"kind": "move-leader", "move": {**where, "leader": draw(st.integers(1, 3))}}
            envelope = {"id": f"m{number}", "cluster": CLUSTER, "time": event["time"]}
            documents.append(msgspec.json.encode({**envelope, **moving}))
        event["broker"] = draw(st.integers(1, 3))
        documents.append(msgspec.json.encode(event))
    return documents


@settings(deadline=None)
@given(histories_with_moves())
def test_records_of_moves_are_replayed_to_the_same_logs(documents: list[bytes]) -> None:
    live = Cell(SETTINGS)
    replayed = CellTables()
    for offset, document in enumerate(documents):
        for row in live.handle(document, Position(0, offset)):
            if row.topic == outputs.RECORDS:
                entry = msgspec.json.decode(row.value or b"", type=RecordEntry)
                apply(replayed.of(entry.machine), entry.record)
            elif row.topic == outputs.DEAD_LETTERS:
                assert msgspec.json.decode(row.value or b"")["reason"] != Reason.FAULT
    replayed.commit()
    for name in ("logs", "producers", "groups", "transactions", "metadata"):
        columns = [tables.columns()[name] for tables in (live.tables, replayed)]
        kept = [msgspec.msgpack.decode(column) if column else {} for column in columns]
        assert kept[0] == kept[1], name
