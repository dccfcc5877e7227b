"""The log lines about fetch sessions of seed 000, of clients and of brokers."""

from typing import Any

import msgspec
import pytest

from brokertwin.clients.fetch_session import INITIAL, FetchMetadata, PartitionData
from brokertwin.clients.partitions import TopicPartition
from brokertwin.clients.traced import TracedSession, metadata_text
from brokertwin.protocol.generated.fetch import FetchResponse
from tests.support.fetching import FetchClient
from tests.support.machine import START, Bench, header

FOO_0, FOO_1 = TopicPartition("foo", 0), TopicPartition("foo", 1)
SESSION = 7


class Traced:
    """A client of broker 1 with the partitions foo-0 and foo-1, and the lines of both."""

    def __init__(self, **settings: Any) -> None:
        self.bench = Bench(brokertwin_trace_sessions=True, **settings)
        topic_id = self.bench.topic("foo", 2)
        self.lines: list[str] = []
        self.client = FetchClient(self.bench)
        self.client.handler = TracedSession(1, self.lines.append)
        self.client.wanted = {at: PartitionData(0, 0, 1 << 20, topic_id) for at in (FOO_0, FOO_1)}

    def exchange(self) -> tuple[list[str], list[str]]:
        """One request; the lines of the client and of the broker."""
        self.lines.clear()
        self.client.exchange(nonce="n")
        records = [entry["record"] for entry in self.bench.records_of(self.bench.last)]
        return self.lines, [each["line"] for each in records if each["type"] == "LineLogged"]

    def take(self, response: dict[str, Any]) -> list[str]:
        """The client's lines after a response that the broker has not sent."""
        self.lines.clear()
        self.client.handler.handle_response(msgspec.convert(response, FetchResponse), 12)
        return self.lines

    @property
    def session(self) -> int:
        return self.client.handler.session_id


def test_lines_of_a_full_request_that_creates_a_session() -> None:
    traced = Traced()
    client, broker = traced.exchange()
    made = traced.session
    assert client == [
        (
            "DEBUG Node 1 sent a full fetch response that created a new incremental fetch session"
            f" {made} with response=(foo-0, foo-1)"
        )
    ]
    assert traced.client.handler.next_metadata == FetchMetadata(made, 1)
    assert broker == [
        (
            f"Created fetch session FetchSession(id={made}, privileged=false, partitionMap.size=2,"
            f" creationMs={START}, lastUsedMs={START}, epoch=1)"
        ),
        f"Full fetch context with session id {made} returning (foo-0, foo-1)",
    ]


def test_lines_of_an_incremental_request_that_continues_the_session() -> None:
    traced = Traced()
    traced.exchange()
    traced.bench.append("foo", header(), partition=1)
    client, broker = traced.exchange()
    assert client == [
        (
            f"DEBUG Node 1 sent an incremental fetch response for session {traced.session}"
            " with response=(foo-1), implied=(foo-0)"
        )
    ]
    assert traced.client.handler.next_metadata == FetchMetadata(traced.session, 2)
    assert broker == []


def test_lines_without_room_for_a_session() -> None:
    traced = Traced(max_incremental_fetch_session_cache_slots=0)
    client, broker = traced.exchange()
    assert client == ["DEBUG Node 1 sent a full fetch response with response=(foo-0, foo-1)"]
    assert broker == [
        "No fetch session created for privileged=false, size=2.",
        "Full fetch context with session id 0 returning (foo-0, foo-1)",
    ]
    assert traced.client.handler.next_metadata == INITIAL


def test_line_of_a_response_that_closes_the_session() -> None:
    traced = Traced()
    traced.exchange()
    made = traced.session
    traced.client.next_request()
    assert traced.take({"sessionId": 0, "responses": []}) == [
        (
            f"DEBUG Node 1 sent an incremental fetch response closing session {made}"
            " with response=(), implied=(foo-0, foo-1)"
        )
    ]


@pytest.mark.parametrize(
    ("code", "name", "next_metadata"),
    [
        (70, "FETCH_SESSION_ID_NOT_FOUND", INITIAL),
        (71, "INVALID_FETCH_SESSION_EPOCH", FetchMetadata(SESSION, 0)),
    ],
)
def test_line_of_a_refused_request(code: int, name: str, next_metadata: FetchMetadata) -> None:
    traced = Traced()
    traced.client.handler.next_metadata = FetchMetadata(SESSION, 3)
    traced.client.next_request()
    assert traced.take({"errorCode": code, "sessionId": 0, "responses": []}) == [
        f"INFO Node 1 was unable to process the fetch request with (sessionId=7, epoch=3): {name}."
    ]
    assert traced.client.handler.next_metadata == next_metadata


def response_with(partition: int) -> dict[str, Any]:
    fields = {"partitionIndex": partition, "errorCode": 0, "highWatermark": 0}
    return {"sessionId": SESSION, "responses": [{"topic": "foo", "partitions": [fields]}]}


def test_lines_of_invalid_responses() -> None:
    traced = Traced()
    traced.client.next_request()
    assert traced.take(response_with(0)) == [
        "INFO Node 1 sent an invalid full fetch response with omits foo-1"
    ]
    traced.client.handler.next_metadata = FetchMetadata(SESSION, 3)
    traced.client.next_request()
    assert traced.take(response_with(9)) == [
        "INFO Node 1 sent an invalid incremental fetch response with has extra foo-9"
    ]


def test_metadata_is_written_as_in_kafka() -> None:
    shown = [metadata_text(FetchMetadata(*each)) for each in ((0, 0), (0, -1), (7, 0), (7, 2))]
    assert shown == [
        "(sessionId=INVALID, epoch=INITIAL)",
        "(sessionId=INVALID, epoch=FINAL)",
        "(sessionId=7, epoch=INITIAL)",
        "(sessionId=7, epoch=2)",
    ]
