"""Timelines of transactional ids in a recording of a real broker, and in invented ones."""

from pathlib import Path

import msgspec
import pytest

from brokertwin.errors import UserError
from brokertwin.protocol.errors import Error
from brokertwin.recordings.explain.transactions import TransactionTimeline
from brokertwin.recordings.replay.recording import read
from tests.support.sources import ROOT
from tests.support.synthetic_recording import PRODUCER, SyntheticRecording

PARTITION = {"partitionIndex": 0, "partitionErrorCode": 0}


def add(recording: SyntheticRecording, error: int = 0, epoch: int = 0) -> None:
    """An AddPartitionsToTxn as of version 3."""
    request = {
        "v3AndBelowTransactionalId": "tx",
        "v3AndBelowProducerId": PRODUCER,
        "v3AndBelowProducerEpoch": epoch,
        "v3AndBelowTopics": [{"name": "orders", "partitions": [0]}],
    }
    results = [
        {"name": "orders", "resultsByPartition": [PARTITION | {"partitionErrorCode": error}]}
    ]
    recording.add("a", "ADD_PARTITIONS_TO_TXN", request, {"resultsByTopicV3AndBelow": results})


def story(recording: SyntheticRecording) -> tuple[list[list[str]], TransactionTimeline]:
    found = TransactionTimeline(recording.exchanges, "tx")
    return [entry.notes for entry in found.story()], found


def test_transaction_begins_with_its_first_partition_and_ends_with_its_commit() -> None:
    recording = SyntheticRecording()
    recording.init("a", 0)
    add(recording, Error.CONCURRENT_TRANSACTIONS)
    add(recording)
    recording.end_txn("a", 0)
    notes, found = story(recording)
    assert notes == [
        [],
        [],
        ["transaction 1 begins", "adds partition orders-0"],
        ["transaction 1 is committed after 1005 ms"],
    ]
    assert found.ending()[0] == (
        "transaction 1, producer 7 epoch 0: committed after 1005 ms by client a's END_TXN at"
        " 12:00:03.000 (h:3000); orders-0"
    )


def test_next_init_aborts_an_open_transaction() -> None:
    recording = SyntheticRecording()
    recording.init("a", 0, timeout_ms=60_000)
    add(recording)
    recording.init("b", -1, Error.CONCURRENT_TRANSACTIONS)
    recording.init("b", 2)
    recording.end_txn("a", 0, Error.INVALID_PRODUCER_EPOCH)
    notes, found = story(recording)
    assert notes[2] == ["transaction 1 is still open; the coordinator aborts it first"]
    assert notes[3][0] == "transaction 1 is aborted within 2005 ms, without an EndTxn"
    assert notes[4] == [], "what is refused ends nothing"
    assert [each.is_committed for each in found.ended] == [False]


def test_only_the_first_refused_init_certainly_waits_for_the_abort() -> None:
    recording = SyntheticRecording()
    recording.init("a", 0, timeout_ms=60_000)
    add(recording)
    recording.init("b", -1, Error.CONCURRENT_TRANSACTIONS)
    recording.init("c", -1, Error.CONCURRENT_TRANSACTIONS)
    notes, _ = story(recording)
    assert notes[2:] == [["transaction 1 is still open; the coordinator aborts it first"], []]


@pytest.mark.parametrize(
    ("timeout_ms", "is_fenced", "words"),
    [
        (60_000, False, "after 1005 ms"),
        (60_000, True, "after at most 2005 ms by this request, or by its time-out"),
        (1_000, False, "after at most 1005 ms by this request, or by its time-out"),
        (None, False, "after at most 1005 ms by this request, or by its time-out"),
    ],
)
def test_an_abort_is_accepted_after_a_time_out_too(
    timeout_ms: int | None, is_fenced: bool, words: str
) -> None:
    """KIP-890: the EndTxn counts as a repeated one, because the epoch before is in it."""
    recording = SyntheticRecording()
    recording.init("a", 0, timeout_ms=timeout_ms)
    add(recording)
    if is_fenced:
        recording.write("a", Error.INVALID_PRODUCER_EPOCH)
    recording.end_txn("a", 0, committed=False)
    assert story(recording)[0][-1] == [f"transaction 1 is aborted {words}"]


def test_transaction_without_an_end_is_open() -> None:
    recording = SyntheticRecording()
    recording.init("a", 0)
    add(recording)
    assert (
        story(recording)[1]
        .ending()[0]
        .endswith("open since client a's ADD_PARTITIONS_TO_TXN at 12:00:01.000 (h:1000); orders-0")
    )


def test_end_without_a_transaction_is_noted() -> None:
    recording = SyntheticRecording()
    recording.init("a", 0)
    recording.end_txn("a", 0, committed=False)
    assert story(recording)[0][1] == [
        "the recording shows no begin of a transaction: aborted again, or empty"
    ]


def test_end_of_another_epoch_leaves_the_contents_of_its_transaction_unknown() -> None:
    """KIP-890: each end raises the epoch, so the end of the first one is not recorded."""
    recording = SyntheticRecording()
    add(recording, epoch=1)
    recording.end_txn("a", 2)
    assert story(recording)[0][-1] == [
        "the recording shows no begin of a transaction: committed again, or empty"
    ]


def test_marker_aborts_what_it_names_of_the_newest_transaction() -> None:
    recording = SyntheticRecording()
    add(recording, epoch=1)
    recording.abort_marker(2)
    markers = msgspec.json.decode(recording.exchanges[-1].request)
    markers["markers"][0]["transactionResult"] = True
    recording.exchanges[-1] = msgspec.structs.replace(
        recording.exchanges[-1], request=msgspec.Raw(msgspec.json.encode(markers))
    )
    recording.take_in("a", 2)
    recording.abort_marker(3)
    recording.init("a", 4)
    (ended,) = (e for e in story(recording)[1].ended if e.causes)
    assert ended.began is not None
    assert (ended.began.place, ended.epoch, [*ended.places]) == ("h:2000", 2, ["orders-0"])


def test_verified_partition_is_not_taken_in() -> None:
    """KIP-890: a leader asks the coordinator of an older client's transaction."""
    recording = SyntheticRecording()
    recording.init("a", 0)
    one = {"transactionalId": "tx", "producerId": PRODUCER, "producerEpoch": 0}
    results = [{"name": "orders", "resultsByPartition": [PARTITION]}]
    response = {"resultsByTransaction": [{"transactionalId": "tx", "topicResults": results}]}
    for verifies in (True, False):
        request = {"transactions": [one | {"verifyOnly": verifies, "topics": []}]}
        recording.add("broker", "ADD_PARTITIONS_TO_TXN", request, response)
    notes, _ = story(recording)
    assert notes[1:] == [[], ["transaction 1 begins", "adds partition orders-0"]]


def test_each_transaction_of_a_recording_ended_as_its_client_requested() -> None:
    exchanges = read([Path(ROOT / "tests/captures/txn_loop_ck.jsonl.gz")]).exchanges
    found = TransactionTimeline(exchanges, "txn_loop_ck.12.txn")
    ends = [each for each in exchanges if each.api == "END_TXN" and not each.response["errorCode"]]
    wanted = [each.body()["committed"] for each in ends]
    assert [each.is_committed for each in found.ended] == wanted
    assert set(wanted) == {True, False}
    assert all(each.groups == ["txn_loop_ck.12.group"] for each in found.ended)
    assert all(set(each.places.values()) == {1} for each in found.ended)


def test_a_producer_without_a_transactional_id_has_no_transactions() -> None:
    recording = SyntheticRecording()
    recording.produce(0, 0)
    with pytest.raises(UserError, match="has no transactional id"):
        TransactionTimeline(recording.exchanges, str(PRODUCER))
    request = {"transactionalId": None, "producerId": -1, "producerEpoch": -1}
    response = {"errorCode": 0, "producerId": PRODUCER + 1, "producerEpoch": 0}
    recording.add("b", "INIT_PRODUCER_ID", request, response)
    recording.init("a", 0)
    with pytest.raises(UserError, match="has no transactional id payments") as raised:
        TransactionTimeline(recording.exchanges, "payments")
    assert raised.value.hint == "It has tx."
