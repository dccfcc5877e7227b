"""Synthetic recorded exchanges: requests with clients and times, and their responses."""

from typing import Any

import msgspec

from brokertwin.protocol.kafka_apis import API_KEYS
from brokertwin.recordings.audit.finding import AuditFinding
from brokertwin.recordings.audit.history import History
from brokertwin.recordings.replay.recording import Exchange
from brokertwin.state.core.events import RequestHeader
from tests.support.machine import header

START = 1_772_366_400_000
"""12:00:00 in UTC."""

TOOK_MS = 5
TOPIC, GROUP, PRODUCER = "orders", "billing", 7


def exchange(
    at: int, client: str, api: str, requested: Any, response: Any, end: int = 0, broker: int = 1
) -> Exchange:
    """One exchange; `at` and `end` are ms after `START`, and `h:AT` is its place."""
    head = RequestHeader(API_KEYS[api], 12, correlation_id=at, client_id=client)
    raw = msgspec.Raw(msgspec.json.encode(requested))
    times = START + at, START + (end or at + TOOK_MS)
    return Exchange(f"h:{at}", *times, broker, head, raw, response, True, "c", "User:ANONYMOUS")


class SyntheticRecording:
    """A synthetic recording, with an exchange each second by default."""

    def __init__(self) -> None:
        self.exchanges: list[Exchange] = []

    def add(
        self, client: str, api: str, requested: Any, response: Any, at: int = -1, end: int = 0
    ) -> None:
        when = at if at >= 0 else 1000 * len(self.exchanges)
        self.exchanges.append(exchange(when, client, api, requested, response, end))

    def found(self, finder: Any) -> list[AuditFinding]:
        return list(finder(History(self.exchanges)))

    def init(
        self, client: str, epoch: int, error: int = 0, timeout_ms: int | None = None, **when: int
    ) -> None:
        request = {"transactionalId": "tx", "producerId": -1, "producerEpoch": -1}
        request |= {"transactionTimeoutMs": timeout_ms} if timeout_ms is not None else {}
        response = {"errorCode": error, "producerId": PRODUCER, "producerEpoch": epoch}
        self.add(client, "INIT_PRODUCER_ID", request, response, **when)

    def end_txn(
        self, client: str, epoch: int, error: int = 0, committed: bool = True, **when: int
    ) -> None:
        request = {"transactionalId": "tx", "producerId": PRODUCER, "producerEpoch": epoch}
        self.add(
            client, "END_TXN", request | {"committed": committed}, {"errorCode": error}, **when
        )

    def take_in(self, client: str, epoch: int, error: int = 0, **when: int) -> None:
        """An AddPartitionsToTxn of version 4 or later."""
        producer = {"transactionalId": "tx", "producerId": PRODUCER, "producerEpoch": epoch}
        topics = [{"name": TOPIC, "partitions": [0]}]
        result = {"partitionIndex": 0, "partitionErrorCode": error}
        became = [{"name": TOPIC, "resultsByPartition": [result]}]
        request = {"transactions": [{**producer, "verifyOnly": False, "topics": topics}]}
        response = {"resultsByTransaction": [{"transactionalId": "tx", "topicResults": became}]}
        self.add(client, "ADD_PARTITIONS_TO_TXN", request, {"errorCode": 0, **response}, **when)

    def abort_marker(self, epoch: int, broker: int = 1, **when: int) -> None:
        topics = [{"name": TOPIC, "partitionIndexes": [0]}]
        marker = {"producerId": PRODUCER, "producerEpoch": epoch, "transactionResult": False}
        client = f"broker-{broker}-txn-marker-sender"
        request = {"markers": [{**marker, "topics": topics, "coordinatorEpoch": 0}]}
        self.add(client, "WRITE_TXN_MARKERS", request, {"markers": []}, **when)

    def write(self, client: str, error: int = 0, name: str | None = "tx", **when: int) -> None:
        """A Produce as a request log has it: without batch headers."""
        sent = {"name": TOPIC, "partitionData": [{"index": 0, "recordsSizeInBytes": 70}]}
        became = {"index": 0, "errorCode": error, "baseOffset": -1 if error else 4}
        response = {"responses": [{"name": TOPIC, "partitionResponses": [became]}]}
        self.add(
            client, "PRODUCE", {"transactionalId": name, "topicData": [sent]}, response, **when
        )

    def produce(
        self, first: int, offset: int, count: int = 1, error: int = 0, topic_id: str = ""
    ) -> None:
        name = {"topicId": topic_id} if topic_id else {"name": TOPIC}
        batch = header(count, PRODUCER, 0, first)
        sent = {**name, "partitionData": [{"index": 0, "batches": [batch]}]}
        became = {"index": 0, "errorCode": error, "baseOffset": -1 if error else offset}
        response = {"responses": [{**name, "partitionResponses": [became]}]}
        self.add("a", "PRODUCE", {"transactionalId": None, "topicData": [sent]}, response)

    def fetch(self, client: str, session: int, epoch: int, response: int, error: int = 0) -> None:
        """A Fetch of a session; `response` is the session that it gets."""
        request = {"sessionId": session, "sessionEpoch": epoch, "topics": []}
        fields = {"errorCode": error, "sessionId": response, "responses": []}
        self.add(client, "FETCH", request, fields)

    def high_watermark(self, value: int, **when: int) -> None:
        read = {"partitionIndex": 0, "errorCode": 0, "highWatermark": value}
        response = {"errorCode": 0, "responses": [{"topic": TOPIC, "partitions": [read]}]}
        self.add("reader", "FETCH", {"sessionId": 0, "sessionEpoch": -1}, response, **when)

    def join(
        self,
        member: str,
        generation: int,
        members: list[str] | None = None,
        is_new: bool = False,
        instance: str | None = None,
        session_ms: int = -1,
        **when: int,
    ) -> None:
        """A JoinGroup of a client of the member's name; who gets a list of members leads."""
        request = {"groupId": GROUP, "memberId": "" if is_new else member}
        request |= {"groupInstanceId": instance, "sessionTimeoutMs": session_ms}
        response = {
            "errorCode": 0,
            "generationId": generation,
            "memberId": member,
            "leader": member if members is not None else "",
            "members": [{"memberId": each, "groupInstanceId": None} for each in members or ()],
        }
        self.add(member, "JOIN_GROUP", request, response, **when)

    def leave(self, member: str) -> None:
        self.add(member, "LEAVE_GROUP", {"groupId": GROUP, "memberId": member}, {"errorCode": 0})

    def commit(
        self,
        offset: int,
        client: str = "a",
        error: int = 0,
        api: str = "OFFSET_COMMIT",
        **when: int,
    ) -> None:
        place = [{"partitionIndex": 0, "committedOffset": offset}]
        request = {"groupId": GROUP, "memberId": client, "topics": [{"name": TOPIC}]}
        request |= {"topics": [{"name": TOPIC, "partitions": place}]}
        if api != "OFFSET_COMMIT":
            request |= {"transactionalId": "tx", "producerId": PRODUCER, "producerEpoch": 0}
        items = [{"partitionIndex": 0, "errorCode": error}]
        self.add(client, api, request, {"topics": [{"name": TOPIC, "partitions": items}]}, **when)
