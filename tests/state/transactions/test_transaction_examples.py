"""Worked examples of the transaction coordinator, with their numbers.

Examples [1, 9, 10] are in `test_transactional_ids.py`. Examples of partitions (13 to 16, 18, 19)
are in `test_write_txn_markers.py`, `test_log_transactions.py` and `test_producer_transactions.py`.
Example 7 needs a log that rejects a record. Examples [6, 8] are rules of version 1; version 2 is
tested, too.
"""

from typing import Any

import msgspec
import pytest

from brokertwin.state.cluster.coordinators import TRANSACTION_TOPIC, partition_for
from brokertwin.state.core import pending
from brokertwin.state.core.records import TransactionMetadata, TransactionMetadataWritten
from brokertwin.state.transactions import transactional_ids
from tests.support.machine import START
from tests.support.transactions import Holder, TransactionBench

BUSY, WRONG, FENCED = 51, 48, 90


def finalized(version: int, **settings: Any) -> TransactionBench:
    return TransactionBench(brokertwin_transaction_version=version, **settings)


def at_epoch(bench: TransactionBench, epoch: int) -> Holder:
    """Set the epoch of the existing t1."""
    at = bench.cell.tables.of(1)
    metadata = transactional_ids.metadata(at, "t1")
    assert metadata is not None
    changed = msgspec.structs.replace(metadata, producer_epoch=epoch)
    transactional_ids.apply_written(at, TransactionMetadataWritten("t1", changed))
    at.tables.commit()
    return Holder(metadata.producer_id, epoch)


def written(bench: TransactionBench) -> list[dict[str, Any]]:
    """Return the written metadata of t1, in order."""
    return [
        entry["record"]["metadata"]
        for entry in bench.records()
        if entry["record"]["type"] == "TransactionMetadataWritten"
    ]


def test_example_2_first_added_partition_begins_the_transaction() -> None:
    bench = TransactionBench()
    holder = bench.init()
    bench.now += 1000
    assert bench.add("t1", holder, a=[0]) == {"a": [0]}
    before = len(written(bench))
    assert bench.add("t1", holder, a=[0]) == {"a": [0]}
    assert len(written(bench)) == before
    bench.now += 500
    assert bench.add("t1", holder, a=[1]) == {"a": [0]}
    described = bench.described()
    assert described["transactionStartTimeMs"] == START + 1000
    assert described["topics"] == [{"topic": "a", "partitions": [0, 1]}]


def test_example_3_wrong_producer_and_wrong_coordinator() -> None:
    bench = TransactionBench(brokers=(1, 2))
    leader = bench.request("FIND_COORDINATOR", 4, keyType=1, coordinatorKeys=["t1"])[
        "coordinators"
    ][0]["nodeId"]
    bench.settings.brokers.sort(key=lambda broker: broker != leader)
    holder = bench.init()
    bench.init()
    assert bench.add("t1", holder, a=[0]) == {"a": [FENCED]}
    assert bench.add("t1", (7, 1), a=[0]) == {"a": [49]}
    assert bench.add("", (7, 1), a=[0]) == {"a": [42]}
    bench.settings.brokers.reverse()
    assert bench.add("t1", holder, a=[0]) == {"a": [16]}
    assert bench.end("t1", holder)["errorCode"] == 16
    names = [f"n{number}" for number in range(9)]
    partitions = {name: partition_for(name, 50) for name in names}
    topic = bench.request("METADATA", 12, name=TRANSACTION_TOPIC)["topics"][0]
    leaders = {p["partitionIndex"]: p["leaderId"] for p in topic["partitions"]}
    ours = [n for n in names if leaders[partitions[n]] == bench.settings.brokers[0]]
    assert bench.add(ours[0], holder, a=[0]) == {"a": [49]}


def test_partition_errors_have_the_order_and_repeats_of_the_request() -> None:
    # compared with Apache Kafka 4.3.1
    bench = TransactionBench()
    holder = bench.init()
    for name, topics, items in [
        ("t1", {"a": [0, 1, 0]}, {"a": [0, 0, 0]}),
        ("none", {"a": [0, 1, 0]}, {"a": [49, 49, 49]}),
        ("t1", {"a": [0, 9, 0, 9]}, {"a": [55, 3]}),
    ]:
        assert bench.add(name, holder, **topics) == items
    assert bench.described()["topics"] == [{"topic": "a", "partitions": [0, 1]}]


def test_fenced_producer_gets_invalid_producer_epoch_below_version_2() -> None:
    bench = TransactionBench()
    holder = bench.init()
    bench.init()
    assert bench.add("t1", holder, version=1, a=[0]) == {"a": [47]}
    assert bench.end("t1", holder, version=1)["errorCode"] == 47


def test_example_4_outcome_is_decided_before_markers_are_written() -> None:
    bench = TransactionBench(may_hold=True)
    holder = bench.init()
    bench.add("t1", holder, a=[0])
    assert bench.end("t1", holder, id="end", isHeld=True)["errorCode"] == 0
    assert bench.state_of() == "PrepareCommit"
    assert bench.end("t1", holder)["errorCode"] == BUSY
    assert bench.end("t1", holder, is_commit=False)["errorCode"] == WRONG
    assert bench.add("t1", holder, a=[1]) == {"a": [BUSY]}
    assert bench.init().error == BUSY
    bench.handle({"id": "c", "cluster": "bench", "kind": "complete", "of": "end"})
    assert bench.state_of() == "CompleteCommit"
    assert bench.end("t1", holder)["errorCode"] == 0
    assert bench.end("t1", holder, is_commit=False)["errorCode"] == WRONG


def test_kafka_9600_client_ends_a_transaction_only_in_its_own_epoch() -> None:
    """Kafka once accepted an EndTxn with a higher epoch from a client."""
    bench = TransactionBench()
    holder = bench.init()
    bench.add("t1", holder, a=[0])
    later = (holder.producer_id, holder.epoch + 1)
    assert bench.end("t1", later)["errorCode"] == FENCED
    assert bench.state_of() == "Ongoing"
    assert bench.end("t1", holder)["errorCode"] == 0


def test_example_5_end_without_a_transaction() -> None:
    bench = TransactionBench()
    holder = bench.init()
    assert bench.end("t1", holder)["errorCode"] == WRONG
    assert bench.end("t1", holder, is_commit=False)["errorCode"] == WRONG


@pytest.mark.parametrize(("version", "last_epoch"), [(1, -1), (2, 1)])
def test_example_6_new_producer_fences_the_old_one(version: int, last_epoch: int) -> None:
    bench = finalized(version)
    bench.init()
    old = bench.init()
    bench.add("t1", old, a=[0])
    bench.produce("t1", old, 0)
    assert bench.init().error == BUSY
    assert bench.state_of() == "CompleteAbort"
    assert bench.described()["producerEpoch"] == 2
    assert bench.init() == (old.producer_id, 3, 0)
    assert bench.add("t1", old, a=[0]) == {"a": [FENCED]}
    assert bench.produce("t1", old, 1)[0] == 47
    assert bench.read()["abortedTransactions"] == [
        {"producerId": old.producer_id, "firstOffset": 0}
    ]
    prepared = next(each for each in written(bench) if each["state"] == "PrepareAbort")
    assert prepared["lastProducerEpoch"] == last_epoch


def test_example_8_exhausted_epoch_is_fenced_with_the_last_one() -> None:
    bench = finalized(1)
    bench.init()
    old = at_epoch(bench, 32766)
    bench.add("t1", old, a=[0])
    assert bench.init().error == BUSY
    assert bench.described()["producerEpoch"] == 32767
    new = bench.init()
    assert (new.producer_id > old.producer_id, new.epoch) == (True, 0)


def test_fence_of_an_exhausted_epoch_allocates_a_producer_id_in_version_2() -> None:
    bench = TransactionBench()
    bench.init()
    old = at_epoch(bench, 32766)
    bench.add("t1", old, a=[0])
    bench.produce("t1", old, 0)
    assert bench.init().error == BUSY
    described = bench.described()
    assert (described["producerId"], described["producerEpoch"]) == (old.producer_id + 1, 0)
    assert bench.read()["lastStableOffset"] == 2
    assert bench.init() == (old.producer_id + 1, 1, 0)


@pytest.mark.parametrize("version", [1, 2])
def test_example_11_transaction_is_aborted_after_its_timeout(version: int) -> None:
    bench, interval = finalized(version), 10_000
    holder = bench.init(timeout_ms=60_000)
    assert bench.now % interval == 0
    bench.add("t1", holder, a=[0])
    bench.produce("t1", holder, 0)
    bench.tick(60_000)
    assert bench.state_of() == "Ongoing"
    timer = bench.of("timers")[-1]
    assert msgspec.json.decode(timer.value or b"")["deadline"] == bench.now + interval
    bench.tick(interval - 1)
    assert bench.state_of() == "Ongoing"
    bench.tick(1)
    assert bench.state_of() == "CompleteAbort"
    assert bench.described()["producerEpoch"] == holder.epoch + 1
    assert bench.read()["lastStableOffset"] == 2
    assert bench.add("t1", holder, a=[0]) == {"a": [FENCED]}
    assert bench.produce("t1", holder, 1)[0] == 47


def test_example_11_timeout_is_exact_to_the_millisecond() -> None:
    bench = TransactionBench(transaction_abort_timed_out_transaction_cleanup_interval_ms=1)
    holder = bench.init(timeout_ms=60_000)
    bench.add("t1", holder, a=[0])
    bench.tick(60_000)
    assert bench.state_of() == "Ongoing"
    bench.tick(1)
    assert bench.state_of() == "CompleteAbort"


def test_example_12_partitions_are_verified() -> None:
    bench = TransactionBench(may_hold=True)
    holder = bench.init()
    bench.add("t1", holder, a=[0])
    assert bench.verify("t1", holder, 0, 1) == [0, 120]
    assert bench.verify("t1", (holder.producer_id, 5), 0) == [FENCED]
    assert bench.verify("t1", (77, 0), 0) == [49]
    assert bench.verify("", holder, 0) == [42]
    bench.end("t1", holder, isHeld=True)
    assert bench.verify("t1", holder, 0) == [BUSY]


def test_example_17_pending_offsets() -> None:
    bench = TransactionBench()
    holder = bench.init()
    commit_plainly(bench, 50)
    assert bench.add_offsets("t1", holder) == 0
    assert bench.commit_offset("t1", holder, 100) == 0
    assert bench.committed_offset() == (0, 50)
    assert bench.committed_offset(require_stable=True) == (88, -1)
    bench.end("t1", holder)
    assert bench.committed_offset(require_stable=True) == (0, 100)
    bench.add_offsets("t1", holder)
    bench.commit_offset("t1", holder, 150)
    commit_plainly(bench, 200)
    bench.end("t1", holder)
    assert bench.committed_offset(require_stable=True) == (0, 200)


def commit_plainly(bench: TransactionBench, offset: int) -> None:
    partition = {"partitionIndex": 0, "committedOffset": offset}
    body = {
        "groupId": "g",
        "generationIdOrMemberEpoch": -1,
        "memberId": "",
        "topics": [{"name": "a", "partitions": [partition]}],
    }
    response = bench.request("OFFSET_COMMIT", 8, body)
    assert response["topics"][0]["partitions"][0]["errorCode"] == 0


def test_example_20_lost_markers_are_sent_again() -> None:
    bench = TransactionBench(may_hold=True)
    holder = bench.init()
    bench.add("t1", holder, a=[0, 1])
    bench.produce("t1", holder, 0)
    bench.end("t1", holder, isHeld=True, id="end")
    bench.tick(10_000)
    assert bench.state_of() == "PrepareCommit", "its markers are pending"
    (lost,) = pending.take_late_messages(bench.cell.tables.pending, "end")
    bench.cell.tables.commit()
    bench.tick(10_000)
    assert bench.state_of() == "CompleteCommit"
    assert bench.read()["lastStableOffset"] == 2
    marker = msgspec.msgpack.decode(lost.body)
    response = bench.request("WRITE_TXN_MARKERS", 2, marker)
    assert response["markers"][0]["topics"][0]["partitions"][0]["errorCode"] == 0
    assert bench.read()["lastStableOffset"] == 3
    assert bench.read()["abortedTransactions"] == []


# --- Version 2 ------------------------------------------------------------------------------------


def test_every_end_bumps_the_epoch_in_version_2() -> None:
    bench = TransactionBench()
    holder = bench.init()
    assert bench.produce("t1", holder, 0, version=12) == (0, 0)
    response = bench.end("t1", holder, version=5)
    assert (response["errorCode"], response["producerId"], response["producerEpoch"]) == (
        0,
        holder.producer_id,
        1,
    )
    assert bench.end("t1", holder, version=5)["producerEpoch"] == 1, "a retry"
    assert bench.end("t1", holder, is_commit=False, version=5)["errorCode"] == WRONG
    held = (holder.producer_id, 1)
    assert bench.produce("t1", holder, 1, version=12)[0] == 47
    assert bench.produce("t1", held, 0, version=12) == (0, 2)
    assert bench.end("t1", held, is_commit=False, version=5)["producerEpoch"] == 2


def test_abort_without_a_transaction_bumps_the_epoch_in_version_2_but_commit_fails() -> None:
    bench = TransactionBench()
    holder = bench.init()
    assert bench.end("t1", holder, version=5)["errorCode"] == WRONG
    assert bench.end("t1", holder, is_commit=False, version=5)["producerEpoch"] == 1
    assert bench.state_of() == "CompleteAbort"
    assert bench.end("t1", holder, is_commit=False, version=5)["producerEpoch"] == 1, "a retry"
    held = (holder.producer_id, 1)
    assert bench.end("t1", held, is_commit=False, version=5)["producerEpoch"] == 2


def test_exhausted_epoch_continues_with_a_new_producer_id_in_version_2() -> None:
    bench = TransactionBench()
    bench.init()
    old = at_epoch(bench, 32766)
    bench.produce("t1", old, 0, version=12)
    response = bench.end("t1", old, version=5)
    assert (response["producerId"], response["producerEpoch"]) == (old.producer_id + 1, 0)
    assert bench.end("t1", old, version=5)["producerId"] == old.producer_id + 1, "a retry"
    assert bench.end("t1", old, is_commit=False, version=5)["errorCode"] == WRONG
    assert bench.read()["lastStableOffset"] == 2


def test_exhausted_epoch_waits_for_a_producer_id_block() -> None:
    bench = TransactionBench(has_producer_ids=False)
    ongoing = TransactionMetadata(
        7, 32766, state="Ongoing", transaction_start_timestamp=START, partitions={"a": [0]}
    )
    transactional_ids.apply_written(
        bench.cell.tables.of(1), TransactionMetadataWritten("t1", ongoing)
    )
    pending.set_timer(bench.cell.tables.pending, "transactions/1/t1", START + 60_000)
    bench.cell.tables.commit()
    assert bench.end("t1", (7, 32766), version=5)["errorCode"] == 14
    assert bench.state_of() == "Ongoing"
    response = bench.end("t1", (7, 32766), version=5)
    assert (response["errorCode"], response["producerId"], response["producerEpoch"]) == (0, 0, 0)


# --- Other rules --------------------------------------------------------------------------------


def test_partitions_of_a_deleted_topic_need_no_marker() -> None:
    bench = TransactionBench()
    bench.topic("b")
    holder = bench.init()
    bench.add("t1", holder, a=[0], b=[0])
    bench.request("DELETE_TOPICS", 5, topicNames=["b"], timeoutMs=1000)
    bench.end("t1", holder)
    assert bench.state_of() == "CompleteCommit"
    bench.add("t1", holder, a=[0])
    bench.request("DELETE_TOPICS", 5, topicNames=["a"], timeoutMs=1000)
    bench.end("t1", holder, is_commit=False)
    assert bench.state_of() == "CompleteAbort"


def test_marker_sent_to_a_former_leader_is_sent_to_the_new_one() -> None:
    bench = TransactionBench(brokers=(1, 2), may_hold=True)
    bench.settings.may_intervene = True
    place = {"keyType": 1, "coordinatorKeys": ["t1"]}
    coordinator = bench.request("FIND_COORDINATOR", 4, place)["coordinators"][0]["nodeId"]
    bench.settings.brokers.sort(key=lambda broker: broker != coordinator)
    topic = bench.request("METADATA", 12, name="a")["topics"][0]
    leaders = {p["partitionIndex"]: p["leaderId"] for p in topic["partitions"]}
    holder = bench.init()
    bench.add("t1", holder, a=[0, 1])
    bench.end("t1", holder, isHeld=True, id="end")
    move = {"topic": "a", "partition": 0, "leader": 3 - leaders[0]}
    event = {"cluster": "bench", "time": bench.now}
    bench.handle({**event, "id": "move", "kind": "move-leader", "move": move})
    bench.handle({**event, "id": "c", "kind": "complete", "of": "end"})
    assert bench.described()["topics"] == [{"topic": "a", "partitions": [0]}]
    assert bench.state_of() == "PrepareCommit"
    bench.tick(10_000)
    assert bench.state_of() == "CompleteCommit"
    appended = [e for e in bench.records() if e["record"]["type"] == "BatchAppended"]
    appended = [e for e in appended if e["record"]["topicId"] == topic["topicId"]]
    where = {(entry["record"]["partition"], entry["machine"]) for entry in appended}
    assert where == {(0, 3 - leaders[0]), (1, leaders[1])}
    assert len(appended) == 2


def test_fenced_marker_is_not_sent_again() -> None:
    bench = TransactionBench()
    holder = bench.init()
    newer = {
        "producerId": holder.producer_id,
        "producerEpoch": 9,
        "transactionResult": False,
        "topics": [{"name": "a", "partitionIndexes": [0]}],
        "coordinatorEpoch": 0,
    }
    bench.request("WRITE_TXN_MARKERS", 1, {"markers": [newer]})
    bench.add("t1", holder, a=[0])
    bench.end("t1", holder)
    assert bench.state_of() == "PrepareCommit"
    assert pending.earliest(bench.cell.tables.pending) is None
    assert bench.init().error == BUSY


def test_markers_go_to_each_leader_and_the_last_response_completes() -> None:
    bench = TransactionBench(brokers=(1, 2, 3))
    place = {"keyType": 1, "coordinatorKeys": ["t1"]}
    leader = bench.request("FIND_COORDINATOR", 4, place)["coordinators"][0]["nodeId"]
    bench.topic("b", 6)
    bench.settings.brokers.sort(key=lambda broker: broker != leader)
    holder = bench.init()
    bench.add("t1", holder, b=[0, 1, 2, 3, 4, 5])
    bench.end("t1", holder)
    states = [each["state"] for each in written(bench)]
    assert states[-2:] == ["PrepareCommit", "CompleteCommit"]
    taken_off = [e for e in bench.records() if e["record"]["type"] == "TransactionMarkersWritten"]
    remaining = [each["record"]["partitions"]["b"] for each in taken_off]
    assert [len(each) for each in remaining] == [4, 2]


def test_open_transaction_never_expires_and_an_ended_one_does() -> None:
    week = 7 * 86_400_000
    bench = TransactionBench(transaction_max_timeout_ms=2_000_000_000)
    holder = bench.init(timeout_ms=2_000_000_000)
    bench.init("t2")
    bench.add("t1", holder, a=[0])
    bench.tick(week + 3_600_000)
    assert bench.state_of("t1") == "Ongoing"
    assert bench.described("t2")["errorCode"] == 105
    bench.end("t1", holder)
    bench.tick(week + 3_600_000)
    assert bench.described("t1")["errorCode"] == 105


def test_requests_do_not_wait_for_the_timeout_of_an_open_transaction() -> None:
    bench = TransactionBench()
    holder = bench.init()
    bench.add("t1", holder, a=[0])
    assert not pending.awaits_deadline(bench.cell.tables.pending)
    partition = {"partition": 0, "fetchOffset": 0, "partitionMaxBytes": 100}
    poll = bench.send("FETCH", 12, partition, maxWaitMs=500, minBytes=1, topic="a")
    assert pending.awaits_deadline(bench.cell.tables.pending)
    bench.tick(500)
    assert poll in bench.responses
    assert not pending.awaits_deadline(bench.cell.tables.pending)


def test_replaying_the_records_gives_the_same_metadata() -> None:
    bench = TransactionBench()
    holder = bench.init()
    bench.add("t1", holder, a=[0])
    bench.end("t1", holder)
    last = msgspec.convert(written(bench)[-1], TransactionMetadata)
    assert last == transactional_ids.metadata(bench.cell.tables.of(1), "t1")
