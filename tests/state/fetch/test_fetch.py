"""Fetch: sessions, sizes, errors and long polls, as in Apache Kafka 4.3.1."""

from typing import Any

import pytest

from brokertwin.protocol.errors import Error
from tests.support.machine import Bench, header

BATCH_BYTES = 1070


class Reader:
    """A broker with a topic `a`, and helpers to produce and fetch."""

    def __init__(self, partitions: int = 1, **settings: Any) -> None:
        self.bench = Bench(**settings)
        self.topic_id = self.bench.topic("a", partitions)

    def fill(self, count: int = 1, partition: int = 0, size: int = BATCH_BYTES) -> None:
        result = self.bench.append("a", header(count, size=size), partition=partition)
        assert result["errorCode"] == 0

    def body(self, wanted: list[tuple[int, int]], version: int = 12, **fields: Any) -> Any:
        named = {"topicId": self.topic_id} if version >= 13 else {"topic": "a"}
        partitions = [
            {"partition": p, "fetchOffset": offset, "partitionMaxBytes": 1 << 20}
            for p, offset in wanted
        ]
        topics = [{**named, "partitions": partitions}] if wanted else []
        return {"maxWaitMs": 0, "minBytes": 0, "maxBytes": 1 << 20, "topics": topics, **fields}

    def fetch(self, wanted: list[tuple[int, int]], version: int = 12, **fields: Any) -> Any:
        return self.bench.request("FETCH", version, self.body(wanted, version, **fields))

    def forget(self, *partitions: int) -> list[dict[str, Any]]:
        return [{"topic": "a", "partitions": list(partitions)}]


def shown(response: Any) -> dict[int, int]:
    return {
        partition["partitionIndex"]: len(partition["batches"])
        for topic in response["responses"]
        for partition in topic["partitions"]
    }


def errors(response: Any) -> dict[int, int]:
    return {
        partition["partitionIndex"]: partition["errorCode"]
        for topic in response["responses"]
        for partition in topic["partitions"]
    }


def test_without_a_session_unchanged_partitions_are_shown() -> None:
    reader = Reader(2)
    reader.fill(3)
    assert shown(reader.fetch([(0, 0), (1, 0)])) == {0: 1, 1: 0}
    response = reader.fetch([(0, 3), (1, 0)], sessionEpoch=-1)
    assert (shown(response), response["sessionId"]) == ({0: 0, 1: 0}, 0)


def test_incremental_response_shows_only_changes() -> None:
    reader = Reader(3)
    for partition in range(3):
        reader.fill(2, partition)
    session = reader.fetch([(p, 2) for p in range(3)], sessionEpoch=0)["sessionId"]
    assert session > 0
    assert shown(reader.fetch([], sessionId=session, sessionEpoch=1)) == {}
    reader.fill(1, 1)
    assert shown(reader.fetch([], sessionId=session, sessionEpoch=2)) == {1: 1}
    assert shown(reader.fetch([], sessionId=session, sessionEpoch=3)) == {1: 1}
    assert shown(reader.fetch([(1, 3)], sessionId=session, sessionEpoch=4)) == {}
    assert shown(reader.fetch([], sessionId=session, sessionEpoch=5)) == {}


def test_added_partition_is_shown_and_forgotten_one_is_not() -> None:
    reader = Reader(3)
    for partition in range(3):
        reader.fill(1, partition)
    session = reader.fetch([(0, 1)], sessionEpoch=0)["sessionId"]
    assert shown(reader.fetch([(1, 1)], sessionId=session, sessionEpoch=1)) == {1: 0}
    assert shown(reader.fetch([], sessionId=session, sessionEpoch=2)) == {}
    forgotten = {"forgottenTopicsData": reader.forget(0)}
    assert shown(reader.fetch([], sessionId=session, sessionEpoch=3, **forgotten)) == {}
    reader.fill(1, 0)
    reader.fill(1, 1)
    assert shown(reader.fetch([], sessionId=session, sessionEpoch=4)) == {1: 1}


def test_partition_with_an_error_is_shown_each_time() -> None:
    reader = Reader(2)
    reader.fill()
    first = reader.fetch([(0, 1), (7, 0)], sessionEpoch=0)
    assert errors(first) == {0: 0, 7: Error.UNKNOWN_TOPIC_OR_PARTITION}
    for epoch in (1, 2):
        again = reader.fetch([], sessionId=first["sessionId"], sessionEpoch=epoch)
        assert errors(again) == {7: Error.UNKNOWN_TOPIC_OR_PARTITION}


def test_moved_high_watermark_is_shown_once() -> None:
    """The partition has no new records for this reader, who is ahead of the log."""
    reader = Reader(2)
    reader.fill(3)
    session = reader.fetch([(0, 3), (1, 0)], sessionEpoch=0)["sessionId"]
    reader.fill(2)
    ahead = {"sessionId": session, "sessionEpoch": 1}
    assert shown(reader.fetch([(0, 5)], **ahead)) == {0: 0}
    assert shown(reader.fetch([], sessionId=session, sessionEpoch=2)) == {}


def test_moved_log_start_is_shown_once() -> None:
    reader = Reader()
    for _ in range(3):
        reader.fill()
    session = reader.fetch([(0, 3)], sessionEpoch=0)["sessionId"]
    assert shown(reader.fetch([], sessionId=session, sessionEpoch=1)) == {}
    reader.bench.request("DELETE_RECORDS", 2, name="a", partitionIndex=0, offset=2, timeoutMs=1000)
    assert shown(reader.fetch([], sessionId=session, sessionEpoch=2)) == {0: 0}
    assert shown(reader.fetch([], sessionId=session, sessionEpoch=3)) == {}


@pytest.mark.parametrize(
    ("max_bytes", "wanted", "batches"),
    [
        (1, [(0, 0), (1, 0)], {0: 1, 1: 0}),
        (1, [(1, 0), (0, 0)], {0: 0, 1: 1}),
        (2500, [(0, 0), (1, 0)], {0: 2, 1: 0}),
    ],
)
def test_max_bytes_are_used_in_the_order_of_the_request(
    max_bytes: int, wanted: list[tuple[int, int]], batches: dict[int, int]
) -> None:
    reader = Reader(2)
    for partition in (0, 1):
        for _ in range(3):
            reader.fill(1, partition)
    assert shown(reader.fetch(wanted, maxBytes=max_bytes)) == batches


def test_unknown_topic_id_is_an_error_of_its_partitions() -> None:
    reader = Reader()
    reader.fill()
    body = reader.body([(0, 0)], version=13)
    body["topics"].append({"topicId": "A" * 21 + "Q", "partitions": [{"partition": 0}]})
    response = reader.bench.request("FETCH", 13, body)
    assert [t["partitions"][0]["errorCode"] for t in response["responses"]] == [
        0,
        Error.UNKNOWN_TOPIC_ID,
    ]


def test_session_remembers_the_name_of_a_deleted_topic() -> None:
    # as in Apache Kafka 4.3.1
    reader = Reader()
    reader.fill()
    session = reader.fetch([(0, 0)], 13, sessionEpoch=0)["sessionId"]
    reader.bench.request("DELETE_TOPICS", 6, name="a")
    for epoch, wanted in ((1, []), (2, [(0, 1)]), (3, [])):
        response = reader.fetch(wanted, 13, sessionId=session, sessionEpoch=epoch)
        assert errors(response) == {0: Error.UNKNOWN_TOPIC_OR_PARTITION}
    assert errors(reader.fetch([(0, 0)], 13)) == {0: Error.UNKNOWN_TOPIC_ID}


def test_recreated_topic_is_not_that_of_the_session() -> None:
    reader = Reader()
    session = reader.fetch([(0, 0)], 13, sessionEpoch=0)["sessionId"]
    reader.bench.request("DELETE_TOPICS", 6, name="a")
    reader.bench.topic("a")
    for epoch in (1, 2):
        response = reader.fetch([], 13, sessionId=session, sessionEpoch=epoch)
        assert errors(response) == {0: Error.INCONSISTENT_TOPIC_ID}


def test_example_22_unknown_topic_id_stays_in_the_session() -> None:
    reader = Reader()
    unknown = [{"topicId": "A" * 21 + "Q", "partitions": [{"partition": 0}]}]
    body = {**reader.body([(0, 0)], version=13, sessionEpoch=0)}
    body["topics"] += unknown
    session = reader.bench.request("FETCH", 13, body)["sessionId"]
    for epoch in (1, 2):
        response = reader.fetch([], 13, sessionId=session, sessionEpoch=epoch)
        assert errors(response) == {0: Error.UNKNOWN_TOPIC_ID}


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"currentLeaderEpoch": 0}, Error.NONE),
        ({"currentLeaderEpoch": -2}, Error.NONE),
        ({"currentLeaderEpoch": 4}, Error.UNKNOWN_LEADER_EPOCH),
        ({"fetchOffset": 99}, Error.OFFSET_OUT_OF_RANGE),
        ({"lastFetchedEpoch": 4}, Error.OFFSET_OUT_OF_RANGE),
    ],
)
def test_epochs_and_offsets_are_checked(fields: dict[str, int], error: Error) -> None:
    reader = Reader()
    reader.fill(2)
    body = reader.body([(0, 0)])
    body["topics"][0]["partitions"][0].update(fields)
    response = reader.bench.request("FETCH", 12, body)
    partition = response["responses"][0]["partitions"][0]
    assert partition["errorCode"] == error
    ends = [partition[end] for end in ("highWatermark", "lastStableOffset", "logStartOffset")]
    assert ends == ([2, 2, 0] if error is Error.NONE else [-1, -1, -1])


def test_reader_past_the_end_gets_the_diverging_epoch() -> None:
    reader = Reader()
    reader.fill(2)
    body = reader.body([(0, 5)])
    body["topics"][0]["partitions"][0]["lastFetchedEpoch"] = 0
    partition = reader.bench.request("FETCH", 12, body)["responses"][0]["partitions"][0]
    assert partition["divergingEpoch"] == {"epoch": 0, "endOffset": 2}
    assert partition["errorCode"] == 0


def test_examples_2_to_3_wrong_epochs_and_sessions_return_no_partition() -> None:
    reader = Reader()
    session = reader.fetch([(0, 0)], sessionEpoch=0)["sessionId"]
    wrong = reader.fetch([], sessionId=session, sessionEpoch=5)
    assert (wrong["errorCode"], wrong["sessionId"]) == (Error.INVALID_FETCH_SESSION_EPOCH, 0)
    unknown = reader.fetch([], sessionId=session + 1, sessionEpoch=1)
    assert unknown["errorCode"] == Error.FETCH_SESSION_ID_NOT_FOUND
    assert reader.fetch([], sessionId=session, sessionEpoch=1)["errorCode"] == 0


def test_closed_session_is_unknown() -> None:
    reader = Reader()
    session = reader.fetch([(0, 0)], sessionEpoch=0)["sessionId"]
    assert reader.fetch([(0, 0)], sessionId=session, sessionEpoch=-1)["sessionId"] == 0
    gone = reader.fetch([], sessionId=session, sessionEpoch=1)
    assert gone["errorCode"] == Error.FETCH_SESSION_ID_NOT_FOUND


class Poll:
    """A long poll on partition 0 from offset 0."""

    def __init__(self, reader: Reader, **fields: Any) -> None:
        self.reader = reader
        body = reader.body([(0, 0)], **{"maxWaitMs": 500, "minBytes": 1, **fields})
        self.event_id = reader.bench.send("FETCH", 12, body)

    @property
    def response(self) -> Any:
        return self.reader.bench.responses.get(self.event_id, {}).get("response")


def test_long_poll_completes_with_the_append() -> None:
    reader = Reader()
    poll = Poll(reader)
    assert poll.response is None
    reader.fill()
    assert shown(poll.response) == {0: 1}


def test_long_poll_waits_for_min_bytes() -> None:
    reader = Reader()
    poll = Poll(reader, minBytes=2 * BATCH_BYTES)
    reader.fill()
    assert poll.response is None
    reader.fill()
    assert shown(poll.response) == {0: 2}


def test_long_poll_completes_in_an_older_segment() -> None:
    reader = Reader()
    change = {"name": "internal.segment.bytes", "configOperation": 0, "value": str(BATCH_BYTES)}
    reader.bench.request("INCREMENTAL_ALTER_CONFIGS", 1, change, resourceType=2, resourceName="a")
    poll = Poll(reader, minBytes=9 * BATCH_BYTES)
    reader.fill()
    assert poll.response is None
    reader.fill()
    assert shown(poll.response) == {0: 1}
    assert shown(Poll(reader, minBytes=9 * BATCH_BYTES).response) == {0: 1}, "it does not wait"


def test_long_poll_completes_at_its_deadline() -> None:
    reader = Reader()
    poll = Poll(reader)
    reader.bench.tick(499)
    assert poll.response is None
    reader.bench.tick(1)
    assert shown(poll.response) == {0: 0}


def test_long_poll_survives_a_restore_and_completes_when_its_topic_is_deleted() -> None:
    reader = Reader()
    poll = Poll(reader)
    reader.bench.reload()
    reader.bench.request("DELETE_TOPICS", 6, name="a", timeoutMs=1000)
    assert errors(poll.response) == {0: Error.UNKNOWN_TOPIC_OR_PARTITION}


def test_example_1_session_is_created_when_the_long_poll_completes() -> None:
    reader = Reader()
    poll = Poll(reader, sessionEpoch=0)
    reader.fill()
    session = poll.response["sessionId"]
    assert session > 0
    response = reader.fetch([(0, 1)], sessionId=session, sessionEpoch=1)
    assert (response["errorCode"], shown(response)) == (0, {})


def test_example_23_superseded_long_poll_returns_invalid_fetch_session_epoch() -> None:
    reader = Reader()
    session = reader.fetch([(0, 0)], sessionEpoch=0)["sessionId"]
    body = {**reader.body([]), "maxWaitMs": 500, "minBytes": 1, "sessionId": session}
    first = reader.bench.send("FETCH", 12, body, sessionEpoch=1)
    second = reader.bench.send("FETCH", 12, body, sessionEpoch=2)
    reader.fill()
    overtaken = reader.bench.responses[first]["response"]
    assert overtaken["errorCode"] == Error.INVALID_FETCH_SESSION_EPOCH
    assert (overtaken["sessionId"], overtaken["responses"]) == (session, [])
    assert shown(reader.bench.responses[second]["response"]) == {0: 1}


@pytest.mark.parametrize("version", [4, 5, 7, 9, 11, 12])
def test_response_has_the_fields_of_its_version(version: int) -> None:
    reader = Reader()
    reader.fill(2)
    response = reader.fetch([(0, 0)], version)
    partition = response["responses"][0]["partitions"][0]
    assert ("sessionId" in response) == (version >= 7)
    assert ("logStartOffset" in partition) == (version >= 5)
    assert ("preferredReadReplica" in partition) == (version >= 11)
    assert partition["recordsSizeInBytes"] == BATCH_BYTES
