"""Findings about producers."""

import msgspec
import pytest

from brokertwin.protocol.errors import Error
from brokertwin.recordings.audit import producers
from brokertwin.recordings.audit.history import History
from brokertwin.recordings.history.findings import ProducerFenced, Severity
from brokertwin.recordings.history.producers import PRODUCERS
from brokertwin.state.logs.producer import SEQUENCE_MAX
from tests.support.audits import whole
from tests.support.synthetic_recording import PRODUCER, TOPIC, SyntheticRecording

ID = "sBMy5xo8RPizf-WO-2kZgA"


def test_fenced_client_and_the_client_with_the_newer_epoch() -> None:
    recording = SyntheticRecording()
    recording.init("first", 1)
    recording.init("second", 2)
    recording.end_txn("first", 1, Error.INVALID_PRODUCER_EPOCH)
    recording.init("third", 3)
    (found,) = recording.found(producers.fenced)
    assert (found.subject, found.clients, found.by) == ("producer tx", ["first"], ["second"])
    assert found.severity == Severity.WARNING
    assert found.evidence[0].said == (
        "has epoch 1; 2 since client second's INIT_PRODUCER_ID at 12:00:01.000 (h:1000)"
    )


@pytest.mark.parametrize(
    ("taker", "host", "shown"),
    [
        ("second", "10.0.0.2", "second"),
        ("first", "10.0.0.2", "first at 10.0.0.2"),
        ("first", "10.0.0.1", "first at the same host"),
    ],
)
def test_two_clients_with_one_id_are_told_apart_by_the_host(
    taker: str, host: str, shown: str
) -> None:
    recording = SyntheticRecording()
    recording.init("first", 1)
    recording.init(taker, 2)
    recording.end_txn("first", 1, Error.INVALID_PRODUCER_EPOCH)
    hosts = "10.0.0.1", host, "10.0.0.1"
    pairs = zip(recording.exchanges, hosts, strict=True)
    recording.exchanges = [msgspec.structs.replace(each, host=of) for each, of in pairs]
    (found,) = recording.found(producers.fenced)
    assert found.what == (
        f"Client first was fenced once in 1 epoch; newer epochs went to client {shown}."
    )


def test_produce_that_arrived_before_an_end_txn_has_the_epoch_before_it() -> None:
    recording = SyntheticRecording()
    recording.init("first", 0, at=0)
    recording.write("first", Error.INVALID_PRODUCER_EPOCH, at=8_000, end=8_030)
    given = {"errorCode": 0, "producerId": PRODUCER, "producerEpoch": 1}
    request = {"transactionalId": "tx", "producerId": PRODUCER, "producerEpoch": 0}
    recording.add("first", "END_TXN", request | {"committed": False}, given, at=8_010, end=8_030)
    (fenced,) = History(recording.exchanges).found(PRODUCERS, ProducerFenced)
    assert fenced.epoch == 0


def test_unknown_newer_epoch_accuses_no_client() -> None:
    recording = SyntheticRecording()
    recording.init("first", 1)
    recording.end_txn("first", 1, Error.INVALID_PRODUCER_EPOCH)
    (found,) = recording.found(producers.fenced)
    assert found.by == []
    assert found.what == (
        "Client first was fenced once in 1 epoch; the recording does not show the newer epoch. The"
        " transaction may have timed out (transaction.timeout.ms), or another producer may have got"
        " the epoch in a part that is not recorded."
    )


def test_producer_that_is_fenced_in_three_epochs_has_two_owners() -> None:
    (*_, first, second) = [e for e in whole("txn_fencing_ck").findings if e.code == 47]
    assert (first.severity, first.total, first.by) == (Severity.ERROR, 4, ["second"])
    assert second.subject == "producer txn_fencing_ck.14.txn-1"


def test_gap_has_the_missing_sequences() -> None:
    recording = SyntheticRecording()
    recording.produce(0, 0, count=3)
    recording.produce(5, -1, error=Error.OUT_OF_ORDER_SEQUENCE_NUMBER)
    recording.produce(1, -1, error=Error.OUT_OF_ORDER_SEQUENCE_NUMBER)
    (found,) = recording.found(producers.sequences)
    assert (found.kind, found.severity) == ("sequence-gap", Severity.ERROR)
    assert found.subject == "producer 7 in orders-0"
    assert [each.said for each in found.evidence] == [
        "begins at 5 of epoch 0, 2 records after 2",
        "begins at 1 of epoch 0, and 2 is written",
    ]


def _recording_with_id() -> SyntheticRecording:
    recording = SyntheticRecording()
    topic = {"topicId": ID, "name": TOPIC, "errorCode": 0, "partitions": []}
    recording.add("a", "METADATA", {"topics": []}, {"brokers": [], "topics": [topic]})
    return recording


@pytest.mark.parametrize("has_name", [True, False])
def test_a_batch_that_comes_again_is_a_repeat_and_at_another_offset_it_is_written_twice(
    has_name: bool,
) -> None:
    recording = _recording_with_id() if has_name else SyntheticRecording()
    recording.produce(0, 10, topic_id=ID)
    recording.produce(0, 10, topic_id=ID)
    (found,) = recording.found(producers.written)
    assert (found.kind, found.severity, found.total) == ("batch-repeated", Severity.INFO, 1)
    recording.produce(0, 11, topic_id=ID)
    repeated, twice = recording.found(producers.written)
    assert (repeated.total, twice.total) == (1, 3)
    assert (twice.kind, twice.severity) == ("written-twice", Severity.ERROR)


@pytest.mark.parametrize(
    ("first", "offset", "is_found"),
    [(3, 3, False), (4, 3, True), (4, 4, False)],
    ids=["it follows", "it does not", "another batch is in between"],
)
def test_a_sequence_is_skipped_where_both_batches_stand_side_by_side(
    first: int, offset: int, is_found: bool
) -> None:
    recording = _recording_with_id()
    recording.produce(0, 0, count=3, topic_id=ID)
    recording.produce(first, offset, topic_id=ID)
    assert [e.kind for e in recording.found(producers.skipped)] == ["sequence-skipped"] * is_found


def test_topic_by_name_may_be_another_one() -> None:
    recording = SyntheticRecording()
    recording.produce(0, 0, count=3)
    recording.produce(0, 3)
    recording.produce(7, 4)
    assert not recording.found(producers.written)
    assert not recording.found(producers.skipped)


def test_after_the_greatest_sequence_comes_0() -> None:
    recording = SyntheticRecording()
    recording.produce(SEQUENCE_MAX, 0)
    recording.produce(0, 1)
    assert recording.found(producers.skipped) == []


def test_an_offset_belongs_to_one_batch_of_a_topic_of_that_id() -> None:
    recording = SyntheticRecording()
    recording.produce(0, 10, topic_id=ID)
    recording.produce(0, 10, topic_id=ID)
    assert recording.found(producers.reused) == []
    recording.produce(1, 10, topic_id=ID)
    (found,) = recording.found(producers.reused)
    assert found.kind == "offset-reused"
    named = SyntheticRecording()  # such a topic may be another of that name
    named.produce(0, 10)
    named.produce(1, 10)
    assert named.found(producers.reused) == []


def test_epoch_goes_back_only_if_responses_have_an_order() -> None:
    recording = SyntheticRecording()
    recording.init("a", 5, at=0)
    recording.init("b", 4, at=2)
    assert recording.found(producers.went_back) == []
    recording.init("c", 4, at=10)
    (found,) = recording.found(producers.went_back)
    assert [each.client for each in found.evidence] == ["c"]
