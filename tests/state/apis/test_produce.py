"""Produce: what the edge found in the bytes, and in which order it counts."""

from typing import Any

import pytest

from brokerstream.state.core import outputs
from brokerstream.state.core.errors import Error
from tests.support.machine import START, Bench

BATCH = {
    "baseOffset": 0,
    "lastOffsetDelta": 0,
    "recordCount": 1,
    "sizeInBytes": 70,
    "maxTimestamp": START,
    "producerId": -1,
}


@pytest.fixture
def bench() -> Bench:
    bench = Bench(message_max_bytes=1000)
    bench.topic("t")
    return bench


def produce(
    bench: Bench, error: Error, batches: list[dict[str, Any]], acks: int = -1, index: int = 0
) -> Any:
    partition = {"index": index, "batches": batches, "recordsError": int(error)}
    topics = [{"name": "t", "partitionData": [partition]}]
    answer = bench.request("PRODUCE", 9, {"acks": acks, "timeoutMs": 1, "topicData": topics})
    return answer and answer["responses"][0]["partitionResponses"][0]


def answered(answer: dict[str, Any]) -> tuple[int, int]:
    return answer["errorCode"], answer["logStartOffset"]


def test_bytes_that_are_no_batch_are_told_as_the_edge_found_them(bench: Bench) -> None:
    assert answered(produce(bench, Error.CORRUPT_MESSAGE, [])) == (Error.CORRUPT_MESSAGE, -1)
    assert answered(produce(bench, Error.NONE, [])) == (Error.INVALID_RECORD, -1)


def test_a_wrong_crc_is_found_before_the_log_is_read_and_bad_records_after(bench: Bench) -> None:
    for error, start in [
        (Error.CORRUPT_MESSAGE, -1),
        (Error.INVALID_RECORD, 0),
        (Error.UNKNOWN_SERVER_ERROR, 0),
    ]:
        assert answered(produce(bench, error, [BATCH])) == (error, start)
    assert produce(bench, Error.NONE, [BATCH])["baseOffset"] == 0


@pytest.mark.parametrize(
    ("batch", "index", "first"),
    [
        ({}, 7, Error.UNKNOWN_TOPIC_OR_PARTITION),
        ({"magic": 1}, 0, Error.INVALID_RECORD),
        ({"baseOffset": 4}, 0, Error.INVALID_RECORD),
        ({"sizeInBytes": 1001}, 0, Error.MESSAGE_TOO_LARGE),
    ],
)
def test_what_comes_before_the_bytes(
    bench: Bench, batch: dict[str, Any], index: int, first: Error
) -> None:
    found = produce(bench, Error.CORRUPT_MESSAGE, [{**BATCH, **batch}], index=index)
    assert found["errorCode"] == first


@pytest.mark.parametrize("error", [Error.NONE, Error.CORRUPT_MESSAGE])
def test_with_acks_0_an_error_closes_the_connection(bench: Bench, error: Error) -> None:
    assert produce(bench, error, [BATCH], acks=0) is None
    (document,) = (bench.answers[row.id] for row in bench.of(outputs.RESPONSES, bench.last))
    assert document.get("closesConnection", False) is (error is not Error.NONE)


def test_words_go_with_timestamps_and_not_with_sequences(bench: Bench) -> None:
    # asked of Apache Kafka 4.3.1
    producer = {"producerId": 5, "producerEpoch": 3, "baseSequence": 0}
    for change, error, text in [
        (producer, Error.NONE, None),
        (producer | {"baseSequence": 7}, Error.OUT_OF_ORDER_SEQUENCE_NUMBER, None),
        (producer | {"producerEpoch": 2}, Error.INVALID_PRODUCER_EPOCH, None),
        ({"recordCount": 2}, Error.INVALID_RECORD, None),
        (
            {"maxTimestamp": START + 36_000_000},
            Error.INVALID_TIMESTAMP,
            "One or more records have been rejected due to invalid timestamp",
        ),
    ]:
        found = produce(bench, Error.NONE, [BATCH | change])
        assert (found["errorCode"], found["errorMessage"]) == (error, text)
