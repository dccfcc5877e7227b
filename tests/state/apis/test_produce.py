"""Produce: errors found in the bytes at the edge, and their precedence."""

from typing import Any

import msgspec
import pytest

from brokertwin.protocol.bodies import ZERO_UUID
from brokertwin.protocol.errors import Error
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core import outputs
from brokertwin.state.core.decision import PendingRequest
from brokertwin.state.core.events import RequestHeader
from brokertwin.state.replication import acks
from tests.support.machine import START, Bench, header

BATCH = header(maxTimestamp=START, producerId=-1)


@pytest.fixture
def bench() -> Bench:
    bench = Bench(message_max_bytes=1000)
    bench.topic("t", 2)
    return bench


def produce(
    bench: Bench, error: Error, batches: list[dict[str, Any]], acks: int = -1, index: int = 0
) -> Any:
    partition = {"index": index, "batches": batches, "recordsError": int(error)}
    response = bench.request("PRODUCE", 9, partition, acks=acks, timeoutMs=1, name="t")
    return response and response["responses"][0]["partitionResponses"][0]


def result_of(response: dict[str, Any]) -> tuple[int, int]:
    return response["errorCode"], response["logStartOffset"]


def test_invalid_batch_returns_the_error_found_at_the_edge(bench: Bench) -> None:
    assert result_of(produce(bench, Error.CORRUPT_MESSAGE, [])) == (Error.CORRUPT_MESSAGE, -1)
    assert result_of(produce(bench, Error.NONE, [])) == (Error.INVALID_RECORD, -1)


def test_crc_is_checked_before_the_log_is_read_and_records_after(bench: Bench) -> None:
    for error, start in [
        (Error.CORRUPT_MESSAGE, -1),
        (Error.INVALID_RECORD, 0),
        (Error.UNKNOWN_SERVER_ERROR, 0),
    ]:
        assert result_of(produce(bench, error, [BATCH])) == (error, start)
    assert produce(bench, Error.NONE, [BATCH])["baseOffset"] == 0


@pytest.mark.parametrize(
    ("named", "error", "appended"),
    [
        ([[BATCH], [BATCH | {"sizeInBytes": 80}]], Error.NONE, [80]),
        ([[BATCH], []], Error.INVALID_RECORD, [70]),
        ([[], [BATCH]], Error.INVALID_RECORD, [70]),
        ([[BATCH, BATCH], [BATCH], [BATCH | {"sizeInBytes": 80}]], Error.INVALID_RECORD, [80]),
        ([[BATCH], [BATCH | {"baseOffset": 4}]], Error.INVALID_RECORD, []),
        ([[], [BATCH, BATCH]], Error.INVALID_RECORD, []),
    ],
)
def test_last_record_set_of_a_repeated_partition_is_appended(
    bench: Bench, named: list[Any], error: Error, appended: list[int]
) -> None:
    """Empty record sets get a response, too (`KafkaApis.handleProduceRequest`)."""
    for is_one_topic in (True, False):
        data = [{"index": 0, "batches": batches} for batches in named]
        other = {"index": 1, "batches": [BATCH]}
        parts = [[*data, other]] if is_one_topic else [[each] for each in [*data, other]]
        topics = [{"name": "t", "partitionData": each} for each in parts]
        before = len(bench.records())
        response = bench.request("PRODUCE", 9, acks=-1, timeoutMs=1, topicData=topics)
        (result,) = response["responses"]
        codes = {each["index"]: each["errorCode"] for each in result["partitionResponses"]}
        assert codes == {0: error, 1: 0}
        assert len(result["partitionResponses"]) == 2
        written = [each["record"] for each in bench.records()[before:]]
        sizes = [each["batch"]["sizeInBytes"] for each in written if each.get("partition") == 0]
        assert sizes == appended


@pytest.mark.parametrize(
    ("batch", "index", "first"),
    [
        ({}, 7, Error.UNKNOWN_TOPIC_OR_PARTITION),
        ({"magic": 1}, 0, Error.INVALID_RECORD),
        ({"baseOffset": 4}, 0, Error.INVALID_RECORD),
        ({"sizeInBytes": 1001}, 0, Error.MESSAGE_TOO_LARGE),
    ],
)
def test_errors_checked_before_the_bytes(
    bench: Bench, batch: dict[str, Any], index: int, first: Error
) -> None:
    found = produce(bench, Error.CORRUPT_MESSAGE, [{**BATCH, **batch}], index=index)
    assert found["errorCode"] == first


@pytest.mark.parametrize("error", [Error.NONE, Error.CORRUPT_MESSAGE])
def test_with_acks_0_an_error_closes_the_connection(bench: Bench, error: Error) -> None:
    assert produce(bench, error, [BATCH], acks=0) is None
    (document,) = (bench.responses[row.id] for row in bench.of(outputs.RESPONSES, bench.last))
    assert document.get("closesConnection", False) is (error is not Error.NONE)


def test_words_go_with_timestamps_and_not_with_sequences(bench: Bench) -> None:
    # observed at Apache Kafka 4.3.1
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


@pytest.mark.parametrize(
    ("configs", "limit_ms"),
    [({}, 3_600_000), ({"message_timestamp_after_max_ms": "1000"}, 1000)],
    ids=["default", "topic"],
)
def test_timestamp_too_far_ahead_is_rejected(configs: dict[str, str], limit_ms: int) -> None:
    bench = Bench()
    bench.topic("t", **configs)
    for ahead_ms, error in ((limit_ms, Error.NONE), (limit_ms + 1, Error.INVALID_TIMESTAMP)):
        found = produce(bench, Error.NONE, [BATCH | {"maxTimestamp": START + ahead_ms}])
        assert found["errorCode"] == error


@pytest.mark.parametrize(
    ("count", "delta", "error"),
    [(2, 1, 0), (3, 1, 87), (2, 5, 87), (0, -1, 87)],
)
def test_as_many_records_as_offsets(bench: Bench, count: int, delta: int, error: int) -> None:
    # observed at Apache Kafka 4.3.1
    found = produce(bench, Error.NONE, [BATCH | {"recordCount": count, "lastOffsetDelta": delta}])
    assert found["errorCode"] == error


@pytest.mark.parametrize(("client", "error"), [("app", 17), (None, 17), ("__admin_client", 0)])
def test_only_the_admin_client_writes_to_internal_topics(client: str | None, error: int) -> None:
    bench = Bench(offsets_topic_num_partitions=1)
    bench.request("FIND_COORDINATOR", 4, keyType=0, coordinatorKeys=["g"])
    of_client = {"requestApiKey": 0, "requestApiVersion": 9, "clientId": client}
    responded = bench.append("__consumer_offsets", BATCH, version=9, requestHeader=of_client)
    assert responded["errorCode"] == error


@pytest.mark.parametrize(("version", "error"), [(6, 76), (7, 0)])
def test_zstd_is_taken_from_version_7_on(bench: Bench, version: int, error: int) -> None:
    batch = BATCH | {"compressionType": "zstd"}
    assert bench.append("t", batch, version=version)["errorCode"] == error


def test_unknown_codec_rejects_the_request_below_version_7(bench: Bench) -> None:
    # observed at Apache Kafka 4.3.1
    odd = [BATCH | {"compressionType": "unknown"}] * 2
    for version, name, partitions, codes in [
        (6, "t", [[BATCH], odd], [-1, -1]),
        (6, "t", [[BATCH | {"isTransactional": True}], odd], [53, 53]),
        (6, "t", [odd, odd[:1]], [-1, -1]),
        (6, "none", [[BATCH], odd], [3, 3]),
        (6, "t", [[BATCH], [BATCH | {"compressionType": "zstd"}] * 2], [0, 76]),
        (7, "t", [[BATCH], odd], [0, 87]),
    ]:
        data = [{"index": n, "batches": each} for n, each in enumerate(partitions)]
        response = bench.request("PRODUCE", version, acks=1, name=name, partitionData=data)
        responses = response["responses"][0]["partitionResponses"]
        assert [each["errorCode"] for each in responses] == codes, (version, name)


@pytest.mark.parametrize("version", [9, 10])
def test_every_version_of_fetch_gets_zstd(bench: Bench, version: int) -> None:
    # observed at Apache Kafka 4.3.1; before 4.0 versions below 10 were refused
    bench.append("t", BATCH | {"compressionType": "zstd"})
    topic = {"topic": "t", "partitions": [{"partition": 0, "fetchOffset": 0}]}
    topic["partitions"][0]["partitionMaxBytes"] = 1000
    body = {"maxWaitMs": 0, "minBytes": 0, "maxBytes": 1000, "topics": [topic]}
    (partition,) = bench.request("FETCH", version, body)["responses"][0]["partitions"]
    assert (partition["errorCode"], len(partition["batches"])) == (0, 1)


def test_batches_have_append_time_by_the_rule_of_their_topic(bench: Bench) -> None:
    bench.topic("appended", message_timestamp_type="LogAppendTime")
    for topic, expected in (("t", None), ("appended", True)):
        bench.append(topic, BATCH | {"hasAppendTime": not expected})
        appended = [each["record"] for each in bench.records() if "batch" in each["record"]]
        assert appended[-1]["batch"].get("hasAppendTime") == expected


@pytest.mark.parametrize("version", range(3, 14))
def test_a_response_has_the_fields_of_its_version(bench: Bench, version: int) -> None:
    name = "topicId" if version >= 13 else "name"
    called = [bench.topic("u") if version >= 13 else "t", ZERO_UUID if version >= 13 else "nope"]
    data = [{name: each, "partitionData": [{"index": 0, "batches": [BATCH]}]} for each in called]
    response = bench.request("PRODUCE", version, acks=1, topicData=data)
    since = {"logStartOffset": 5, "recordErrors": 8, "errorMessage": 8}
    partition = ["index", "errorCode", "baseOffset", "logAppendTimeMs"]
    partition += [field for field, first in since.items() if version >= first]
    assert list(response) == ["responses", "throttleTimeMs"]
    for topic, reported in zip(response["responses"], called, strict=True):
        assert list(topic) == [name, "partitionResponses"]
        assert (topic[name], list(topic["partitionResponses"][0])) == (reported, partition)


@pytest.mark.parametrize(("version", "topic"), [(12, {"name": "t"}), (13, {"topicId": "x" * 22})])
def test_pending_request_of_an_old_checkpoint_gets_a_response(
    bench: Bench, version: int, topic: dict[str, str]
) -> None:
    # it contained all fields of all versions, with their defaults
    part = {"index": 0, "errorCode": 0, "baseOffset": 7, "logAppendTimeMs": -1}
    part |= {"logStartOffset": 0, "recordErrors": [], "errorMessage": None}
    former = {"currentLeader": {"leaderId": -1, "leaderEpoch": -1}, "refusedRecords": None}
    stored = {"name": "", "topicId": ZERO_UUID, **topic, "partitionResponses": [part | former]}
    state = msgspec.msgpack.encode([[stored], [], 0])
    waiting = PendingRequest("e", 1, 0, 1, RequestHeader(0, version), "c", "User:a", 0, [], state)
    decision = acks.complete(Broker(1, bench.cell.tables, bench.settings, START), waiting)
    items = [{**topic, "partitionResponses": [part]}]
    assert msgspec.to_builtins(decision.response) == {"responses": items, "throttleTimeMs": 0}
