"""Edge cases of Fetch: log end, long polls, room, evictions."""

from typing import Any

import pytest

from brokertwin.protocol.bodies import ZERO_UUID
from brokertwin.protocol.errors import Error
from brokertwin.state.core.tables import Table
from brokertwin.state.fetch.fetch_session import (
    TOPIC_ID_VERSION,
    NewSession,
    SessionCache,
    SessionResponse,
)
from brokertwin.state.fetch.session_items import FetchPartition
from brokertwin.state.fetch.shards import SHARDS, ShardLayout
from brokertwin.state.logs.log import Log, log_key
from tests.support.machine import Bench, header

READ_COMMITTED = 1
NOWHERE = "AAAAAAAAAAAAAAAAAAAAAQ"
"""Id of no topic."""

BATCH = header(size=1070)
IN_TRANSACTION = {"isTransactional": True, "producerId": 7, "producerEpoch": 0, "baseSequence": 0}


class Reader(Bench):
    """A broker with a topic `a` of two partitions."""

    def __init__(self) -> None:
        super().__init__(transaction_partition_verification_enable=False)
        self.topic_id = self.topic("a", 2)

    def fill(self, count: int, partition: int = 0, **fields: Any) -> None:
        """Append batches of one record and 1070 bytes."""
        for _ in range(count):
            data = [{"index": partition, "batches": [BATCH | fields]}]
            body: dict[str, Any] = {"acks": -1, "topicData": [{"name": "a", "partitionData": data}]}
            if fields.get("isTransactional"):
                body["transactionalId"] = "t"
            response = self.request("PRODUCE", 11, body)
            assert response["responses"][0]["partitionResponses"][0]["errorCode"] == 0, response

    def fetch(
        self, *wanted: tuple[int, int], partition_max_bytes: int = 1 << 20, **fields: Any
    ) -> list[dict[str, Any]] | None:
        """Partitions of the response without a session; None while it is pending."""
        partitions = [
            {"partition": p, "fetchOffset": offset, "partitionMaxBytes": partition_max_bytes}
            for p, offset in wanted
        ]
        topics = [{"topic": "a", "partitions": partitions}]
        body = {"maxWaitMs": 0, "minBytes": 1, "maxBytes": 1 << 20, "topics": topics, **fields}
        response = self.request("FETCH", 12, body)
        result: list[dict[str, Any]] | None = response and response["responses"][0]["partitions"]
        return result


@pytest.mark.parametrize(
    ("offset", "error", "batches"), [(1, 0, 1), (2, 0, 0), (3, 1, 0)], ids=["HW", "LEO", "LEO+1"]
)
def test_consumer_may_fetch_up_to_the_log_end_and_not_beyond(
    offset: int, error: int, batches: int
) -> None:
    reader = Reader()
    reader.fill(2)
    (response,) = reader.fetch((0, offset)) or []
    assert (response["errorCode"], len(response["batches"])) == (error, batches)


def test_nothing_is_returned_between_high_watermark_and_log_end() -> None:
    reader = Reader()
    reader.fill(3)
    key = log_key(1, reader.topic_id, 0)
    reader.cell.tables.logs.change(key, Log).high_watermark = 1
    for offset in (1, 2, 3):
        (response,) = reader.fetch((0, offset)) or []
        assert (response["errorCode"], response["highWatermark"], response["batches"]) == (0, 1, [])
    (response,) = reader.fetch((0, 4)) or []
    assert response["errorCode"] == 1


def test_fetch_above_the_readable_end_is_not_pending() -> None:
    reader = Reader()
    reader.fill(1)
    reader.fill(1, **IN_TRANSACTION)
    reader.fill(1)
    patience = {"isolationLevel": READ_COMMITTED, "maxWaitMs": 500}
    assert reader.fetch((0, 1), **patience) is None
    (response,) = reader.fetch((0, 2), **patience) or []
    assert (response["errorCode"], response["lastStableOffset"], response["batches"]) == (0, 1, [])


def test_one_partition_with_an_error_completes_the_fetch() -> None:
    reader = Reader()
    reader.fill(1)
    assert reader.fetch((0, 1), minBytes=1, maxWaitMs=500) is None
    response = reader.fetch((0, 1), (1, 9), minBytes=1, maxWaitMs=500) or []
    assert [each["errorCode"] for each in response] == [0, 1]


def test_changed_isolation_level_reads_all_partitions_of_a_session() -> None:
    reader = Reader()
    reader.fill(1)
    reader.fill(1, **IN_TRANSACTION)
    partition = {"partition": 0, "fetchOffset": 1, "partitionMaxBytes": 1 << 20}
    body = {"maxWaitMs": 0, "minBytes": 1, "maxBytes": 1 << 20, "isolationLevel": READ_COMMITTED}
    body |= {"sessionId": 0, "sessionEpoch": 0}
    first = reader.request(
        "FETCH", 12, body | {"topics": [{"topic": "a", "partitions": [partition]}]}
    )
    body |= {"sessionId": first["sessionId"], "topics": []}
    assert reader.request("FETCH", 12, body | {"sessionEpoch": 1})["responses"] == []
    (response,) = reader.request("FETCH", 12, body | {"sessionEpoch": 2, "isolationLevel": 0})[
        "responses"
    ]
    assert [batch["baseOffset"] for batch in response["partitions"][0]["batches"]] == [1]


@pytest.mark.parametrize("level", [-1, 2])
def test_unknown_isolation_level_reads_nothing(level: int) -> None:
    reader = Reader()
    reader.fill(3)
    reader.cell.tables.logs.change(log_key(1, reader.topic_id, 0), Log).high_watermark = 1
    partition = {"partition": 0, "fetchOffset": 0, "partitionMaxBytes": 1 << 20}
    body = {"maxBytes": 1 << 20, "isolationLevel": level, "sessionEpoch": 0}
    named = {"topics": [{"topic": "a", "partitions": [partition]}]}
    refused = reader.request("FETCH", 12, body | named)
    (part,) = refused["responses"][0]["partitions"]
    assert (refused["errorCode"], refused["sessionId"], part["errorCode"]) == (-1, 0, -1)
    assert (part["highWatermark"], part["batches"]) == (-1, [])
    by_id = {"topics": [{"topicId": reader.topic_id, "partitions": [partition]}]}
    response = reader.request("FETCH", 13, body | by_id)
    assert (response["errorCode"], response["responses"]) == (-1, [])
    missing = {"topics": [{"topic": "gone", "partitions": [partition]}]}
    response = reader.request("FETCH", 12, body | missing)
    assert (response["errorCode"], response["responses"][0]["partitions"][0]["errorCode"]) == (0, 3)


def test_bytes_beyond_a_partitions_limit_do_not_count_for_min_bytes() -> None:
    # a real broker completed the first after 1.5 s, and the second at once
    reader = Reader()
    reader.fill(5)
    assert reader.fetch((0, 0), minBytes=1075, maxWaitMs=1500, partition_max_bytes=1000) is None
    (response,) = reader.fetch((0, 0), minBytes=900, maxWaitMs=1500, partition_max_bytes=1000) or []
    assert len(response["batches"]) == 1


@pytest.mark.parametrize("room", [-1, -(2**31)])
def test_negative_room_is_a_server_error_if_there_are_records(room: int) -> None:
    """`LogSegment.read` throws; without records no segment is read."""
    reader = Reader()
    reader.fill(2)
    for fields in ({"partition_max_bytes": room}, {"maxBytes": room}):
        there, at_end = reader.fetch((0, 1), (1, 0), **fields) or []
        assert (there["errorCode"], there["highWatermark"]) == (Error.UNKNOWN_SERVER_ERROR, -1)
        assert (at_end["errorCode"], at_end["highWatermark"]) == (0, 0)
    reader.fill(1, partition=1)
    partitions = [{"partition": 0, "partitionMaxBytes": 1 << 20}]
    partitions.append({"partition": 1, "partitionMaxBytes": room})
    body = {"maxBytes": 1 << 20, "topics": [{"topic": "a", "partitions": partitions}]}
    first, second = reader.request("FETCH", 12, body)["responses"][0]["partitions"]
    assert (len(first["batches"]), second["errorCode"]) == (2, Error.UNKNOWN_SERVER_ERROR)


def test_empty_name_is_an_unknown_topic() -> None:
    reader = Reader()
    wanted = [{"partition": 0, "partitionMaxBytes": 1 << 20}]
    for version, error in ((12, Error.UNKNOWN_TOPIC_OR_PARTITION), (13, Error.UNKNOWN_TOPIC_ID)):
        body = {"maxBytes": 1 << 20, "topics": [{"topic": "", "partitions": wanted}]}
        if version >= TOPIC_ID_VERSION:
            body = {"maxBytes": 1 << 20, "topics": [{"topicId": ZERO_UUID, "partitions": wanted}]}
        response = reader.request("FETCH", version, body)
        (result,) = response["responses"][0]["partitions"]
        assert result["errorCode"] == error


def test_aborted_transactions_are_null_if_the_first_batch_did_not_fit() -> None:
    reader = Reader()
    reader.fill(1, partition=0)
    reader.fill(1, partition=1)
    first, left_out = (
        reader.fetch((0, 0), (1, 0), isolationLevel=READ_COMMITTED, maxBytes=1500) or []
    )
    assert (len(first["batches"]), first["abortedTransactions"]) == (1, [])
    assert (left_out["batches"], left_out["abortedTransactions"]) == ([], None)
    _, without_room = (
        reader.fetch((0, 0), (1, 0), isolationLevel=READ_COMMITTED, maxBytes=1070) or []
    )
    assert (without_room["batches"], without_room["abortedTransactions"]) == ([], [])
    _, of_a_byte = reader.fetch((0, 0), (1, 0), isolationLevel=READ_COMMITTED, maxBytes=1071) or []
    assert (of_a_byte["batches"], of_a_byte["abortedTransactions"]) == ([], None)


def partitions(count: int) -> list[FetchPartition]:
    return [FetchPartition(ZERO_UUID, "t", each, 0, 1000, -1, -1, -1) for each in range(count)]


def response_of(partition: FetchPartition, error: int = 0) -> SessionResponse:
    return SessionResponse(partition.identity, partition, error, 10, 0, 0, False, True)


START_MS = 1_000_000


class Slot:
    def __init__(self) -> None:
        self._table = Table()

    def at(self, now: int) -> SessionCache:
        return SessionCache(self._table, 1, ShardLayout(SHARDS), now)

    def create(self, now: int, session_id: int, size: int) -> int:
        """Id of a new session; 0 if there is no room."""
        new = NewSession("client", False, False, "nonce", session_id)
        return self.at(now).create(new, [response_of(each) for each in partitions(size)])


@pytest.mark.parametrize(("idle_ms", "created"), [(120_000, 0), (120_001, 2)])
def test_session_idle_for_more_than_two_minutes_is_evicted(idle_ms: int, created: int) -> None:
    slot = Slot()
    slot.create(START_MS, 1, size=5)
    assert slot.create(START_MS + idle_ms, 2, size=1) == created


@pytest.mark.parametrize(("age_ms", "created"), [(120_000, 0), (120_001, 2)])
def test_active_session_is_evicted_by_a_larger_one_after_two_minutes(
    age_ms: int, created: int
) -> None:
    slot = Slot()
    slot.create(START_MS, 1, size=5)
    slot.at(START_MS + age_ms).touch(1)
    assert slot.create(START_MS + age_ms, 2, size=6) == created


@pytest.mark.parametrize(("size", "created"), [(4, 0), (5, 0), (6, 2)])
def test_active_session_is_not_evicted_by_one_of_its_size(size: int, created: int) -> None:
    slot = Slot()
    slot.create(0, 1, size=5)
    slot.at(120_001).touch(1)
    assert slot.create(120_001, 2, size=size) == created


def test_partition_is_shown_again_after_an_error() -> None:
    slot = Slot()
    slot.create(0, 1, size=1)
    (partition,) = partitions(1)
    for epoch, error, is_shown in [(1, 0, False), (2, 6, True), (3, 0, True), (4, 0, False)]:
        context = slot.at(0).open(1, epoch, 12, {partition.identity: partition}, [])
        assert slot.at(0).select(context, [response_of(partition, error)]) == [is_shown], epoch


def test_pending_fetch_ignores_partitions_of_later_requests_of_its_session() -> None:
    """An append and a timeout of others once became dead letters because of it."""
    bench = Bench((1,))
    topic_id = bench.topic("t", 2)

    def body(session: int, epoch: int, *partitions: int, **options: Any) -> dict[str, Any]:
        wanted = [{"partition": p, "fetchOffset": 0, "partitionMaxBytes": 999} for p in partitions]
        topics = [{"topicId": topic_id, "partitions": wanted}] if wanted else []
        fields = {"minBytes": 1, "sessionId": session, "sessionEpoch": epoch, "topics": topics}
        return fields | options

    session = bench.request("FETCH", 13, body(0, 0, 0, 1))["sessionId"]
    waiting = bench.send("FETCH", 13, body(session, 1, maxWaitMs=5_000))
    assert waiting not in bench.responses
    (topic,) = bench.request("FETCH", 13, body(session, 2, 99))["responses"]
    assert [(p["partitionIndex"], p["errorCode"]) for p in topic["partitions"]] == [(99, 3)]
    assert bench.append("t", header(1))["errorCode"] == 0
    bench.tick(6_000)
    response = bench.responses[waiting]["response"]
    assert response["errorCode"] == Error.INVALID_FETCH_SESSION_EPOCH
    assert bench.dead_letters(bench.last) == []


@pytest.mark.parametrize(
    ("named", "is_valid"),
    [
        ([(ZERO_UUID, 0)], True),
        ([(ZERO_UUID, 0), (ZERO_UUID, 0)], True),
        ([(ZERO_UUID, 0), (ZERO_UUID, 1)], False),
        ([(ZERO_UUID, 0), ("a", 0)], True),
        ([(ZERO_UUID, 0), ("a", 9)], False),
        ([(ZERO_UUID, 0), (NOWHERE, 0)], False),
        ([(NOWHERE, 0), (ZERO_UUID, 0)], True),
    ],
)
def test_partitions_after_a_zero_topic_id_fail_the_response(
    named: list[tuple[str, int]], is_valid: bool
) -> None:
    """The order of the response is that of reading; a session continues anyway."""
    reader = Reader()
    topics = [
        {
            "topicId": reader.topic_id if name == "a" else name,
            "partitions": [{"partition": at, "fetchOffset": 0, "partitionMaxBytes": 1}],
        }
        for name, at in named
    ]
    body = {"maxWaitMs": 0, "minBytes": 1, "maxBytes": 1 << 20, "topics": []}
    opened = reader.request("FETCH", 16, body, sessionEpoch=0)["sessionId"]
    for session in ((0, -1), (0, 0), (opened, 1), (opened, 2)):
        more = {"sessionId": session[0], "sessionEpoch": session[1]}
        more["topics"] = [] if session[1] == 2 else topics
        response = reader.request("FETCH", 16, body, **more)
        assert (response["errorCode"], bool(response["responses"])) == (
            (0, True) if is_valid else (-1, False)
        )
        assert response["sessionId"] == session[0] or (is_valid and session[1] == 0)
