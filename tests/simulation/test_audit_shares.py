"""Audit of share groups: acquired records, acknowledgements, deliveries."""

from typing import Any

import pytest

from brokertwin.clients.client_loop import Send
from brokertwin.clients.partitions import TopicPartition
from brokertwin.clients.record_audit import RecordAudit, SendOutcome, SentRecord
from brokertwin.clients.share_session import AcknowledgeType
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.share_acknowledge import ShareAcknowledgeRequest
from brokertwin.protocol.generated.share_fetch import ShareFetchRequest
from brokertwin.protocol.generated.shared import (
    AcknowledgementBatch,
    ShareFetchPartition,
    ShareFetchTopic,
)
from brokertwin.simulation.audit_shares import Shares
from brokertwin.simulation.edge import SimulatedConnection, SimulatedRequest

LOCK_MS, DELIVERIES_MAX = 100, 3
ACCEPT, RELEASE, REJECT = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT


class AuditedShareGroup:
    """Members of the group `parcels` that read partition 0 of the topic `t`."""

    def __init__(self) -> None:
        self.violations: list[str] = []
        self.shares = Shares(self.violations.append, DELIVERIES_MAX)
        self.shares.ids = {"orders": "t"}
        self.shares.gives("parcels", TopicPartition("orders", 0), 7)
        self.connections: dict[str, SimulatedConnection] = {}
        self._count = 0

    def connection(self, member: str) -> SimulatedConnection:
        made = SimulatedConnection(member, 1, 1, lambda _: None, lambda _: None)
        return self.connections.setdefault(member, made)

    def fetch(self, member: str, sent: int, received: int, count: int = 1, epoch: int = 1) -> None:
        """Deliver record 7 to a member; with `received` 0 it gets no response."""
        body = ShareFetchRequest(
            group_id="parcels", member_id=member, share_session_epoch=epoch, max_wait_ms=0,
            min_bytes=1, max_records=1, batch_size=1, topics=[], forgotten_topics_data=[],
        )  # fmt: skip
        request = self._send(member, "SHARE_FETCH", body, sent)
        if received:
            acquired = {"firstOffset": 7, "lastOffset": 7, "deliveryCount": count}
            part = {"partitionIndex": 0, "acknowledgeErrorCode": 0, "acquiredRecords": [acquired]}
            self._respond(request, part, received)

    def say(
        self, member: str, kind: AcknowledgeType, sent: int, received: int, error: int = 0
    ) -> None:
        batch = AcknowledgementBatch(first_offset=7, last_offset=7, acknowledge_types=[kind])
        topics = [
            ShareFetchTopic(
                topic_id="t",
                partitions=[
                    ShareFetchPartition(partition_index=0, acknowledgement_batches=[batch])
                ],
            )
        ]
        body = ShareAcknowledgeRequest(
            group_id="parcels", member_id=member, share_session_epoch=2, topics=topics
        )
        request = self._send(member, "SHARE_ACKNOWLEDGE", body, sent)
        if received:
            self._respond(request, {"partitionIndex": 0, "errorCode": error}, received)

    def _send(self, member: str, api: str, body: Any, now: int) -> SimulatedRequest:
        self._count += 1
        send = Send(1, self._count, api, 2, body)
        request = SimulatedRequest(f"{member}/{self._count}", send, self.connection(member), {})
        self.shares.on_request(request, now)
        return request

    def _respond(self, request: SimulatedRequest, part: dict[str, Any], now: int) -> None:
        topics = [{"topicId": "t", "partitions": [part]}]
        body = {"errorCode": 0, "acquisitionLockTimeoutMs": LOCK_MS, "responses": topics}
        self.shares.on_response(request, body, now)

    def unsettled(self) -> set[str]:
        records = RecordAudit(self.violations.append)
        at = TopicPartition("orders", 0)
        records.sent["first"] = SentRecord("p", "", at, SendOutcome.ACKED, 7)
        return self.shares.unsettled("parcels", records)


@pytest.mark.parametrize(("sent", "received", "count"), [(20, 30, 1), (20, 109, 2), (5, 15, 1)])
def test_two_members_with_the_same_record_are_a_violation(
    sent: int, received: int, count: int
) -> None:
    on_response = AuditedShareGroup()
    on_response.fetch("one", 10, 12)
    on_response.fetch("two", sent, received, count)
    assert "is had by" in on_response.violations[0]


def test_an_expired_lock_releases_a_record() -> None:
    on_response = AuditedShareGroup()
    on_response.fetch("one", 10, 12)
    on_response.fetch("two", 20, 110, 2)
    assert on_response.violations == []


@pytest.mark.parametrize("ends", ["says", "closes", "is cut off", "brokers were away"])
def test_releasing_a_record_frees_it(ends: str) -> None:
    on_response = AuditedShareGroup()
    on_response.fetch("one", 10, 12)
    if ends == "says":
        on_response.say("one", RELEASE, 13, 0)
    elif ends == "closes":
        on_response.fetch("one", 13, 0, epoch=-1)
    elif ends == "is cut off":
        on_response.connections["one"].is_open = False
    else:
        on_response.shares.is_steady = False
    on_response.fetch("two", 20, 30, 2)
    assert on_response.violations == []


@pytest.mark.parametrize("kind", [ACCEPT, REJECT])
def test_redelivering_an_accepted_or_rejected_record_is_a_violation(kind: AcknowledgeType) -> None:
    on_response = AuditedShareGroup()
    on_response.fetch("one", 10, 12)
    on_response.say("one", kind, 13, 20)
    on_response.fetch("two", 20, 30, 2)
    assert on_response.violations == []
    on_response.fetch("two", 21, 31, 3)
    assert "it was accepted or rejected before" in on_response.violations[0]


def test_acknowledging_a_record_of_another_member_is_a_violation() -> None:
    on_response = AuditedShareGroup()
    on_response.fetch("one", 10, 12)
    on_response.fetch("two", 120, 130, 2)
    on_response.say("one", RELEASE, 131, 140, Error.INVALID_RECORD_STATE)
    assert on_response.violations == []
    on_response.say("one", RELEASE, 141, 150)
    assert "is acknowledged by one; two has it" in on_response.violations[0]


def test_accepting_an_undelivered_record_is_a_violation() -> None:
    on_response = AuditedShareGroup()
    on_response.shares._given.clear()
    on_response.say("one", ACCEPT, 13, 14)
    assert "no application had it" in on_response.violations[0]


def test_a_record_with_a_rejected_acknowledgement_may_be_redelivered() -> None:
    on_response = AuditedShareGroup()
    on_response.fetch("one", 10, 12)
    on_response.say("one", ACCEPT, 13, 20, Error.INVALID_RECORD_STATE)
    on_response.fetch("two", 121, 131, 2)
    assert on_response.violations == []


def test_deliveries_are_bounded() -> None:
    on_response = AuditedShareGroup()
    on_response.fetch("one", 10, 12, DELIVERIES_MAX)
    assert on_response.violations == []
    on_response.fetch("one", 210, 212, DELIVERIES_MAX + 1)
    assert "for the 4th time" in on_response.violations[0]


def test_each_record_is_settled_or_exhausted() -> None:
    on_response = AuditedShareGroup()
    assert on_response.unsettled() == {"first"}
    on_response.fetch("one", 10, 12)
    on_response.say("one", RELEASE, 13, 14)
    assert on_response.unsettled() == {"first"}
    on_response.fetch("one", 20, 0)
    on_response.fetch("one", 30, 0)
    assert on_response.unsettled() == set()
    accepted = AuditedShareGroup()
    accepted.say("one", ACCEPT, 13, 14, Error.INVALID_RECORD_STATE)
    assert accepted.unsettled() == {"first"}
    accepted.say("one", ACCEPT, 15, 0)
    assert accepted.unsettled() == set()
