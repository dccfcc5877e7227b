"""What the auditor says of share groups: holders, acknowledgements, deliveries."""

from typing import Any

import pytest

from brokertwin.clients.client_loop import Send
from brokertwin.clients.partitions import TopicPartition
from brokertwin.clients.share_session import AcknowledgeType
from brokertwin.simulation.audit_records import Outcome, RecordsSeen, Sent
from brokertwin.simulation.audit_shares import Shares
from brokertwin.simulation.edge import Asked, Connection
from brokertwin.state.core.errors import Error
from brokertwin.state.core.wire.generated.share_acknowledge import ShareAcknowledgeRequest
from brokertwin.state.core.wire.generated.share_fetch import ShareFetchRequest
from brokertwin.state.core.wire.generated.shared import (
    AcknowledgementBatch,
    ShareFetchPartition,
    ShareFetchTopic,
)

LOCK_MS, DELIVERIES_MAX = 100, 3
ACCEPT, RELEASE, REJECT = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT


class Told:
    """Members of the group `parcels` that read partition 0 of the topic `t`."""

    def __init__(self) -> None:
        self.violations: list[str] = []
        self.shares = Shares(self.violations.append, DELIVERIES_MAX)
        self.shares.ids = {"orders": "t"}
        self.shares.gives("parcels", TopicPartition("orders", 0), 7)
        self.connections: dict[str, Connection] = {}
        self._count = 0

    def connection(self, member: str) -> Connection:
        made = Connection(member, 1, 1, lambda _: None, lambda _: None)
        return self.connections.setdefault(member, made)

    def fetch(self, member: str, sent: int, heard: int, count: int = 1, epoch: int = 1) -> None:
        """A member gets record 7; `heard` 0: it hears nothing."""
        body = ShareFetchRequest(
            group_id="parcels", member_id=member, share_session_epoch=epoch, max_wait_ms=0,
            min_bytes=1, max_records=1, batch_size=1, topics=[], forgotten_topics_data=[],
        )  # fmt: skip
        asked = self._ask(member, "SHARE_FETCH", body, sent)
        if heard:
            acquired = {"firstOffset": 7, "lastOffset": 7, "deliveryCount": count}
            part = {"partitionIndex": 0, "acknowledgeErrorCode": 0, "acquiredRecords": [acquired]}
            self._answer(asked, part, heard)

    def say(
        self, member: str, kind: AcknowledgeType, sent: int, heard: int, error: int = 0
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
        asked = self._ask(member, "SHARE_ACKNOWLEDGE", body, sent)
        if heard:
            self._answer(asked, {"partitionIndex": 0, "errorCode": error}, heard)

    def _ask(self, member: str, api: str, body: Any, now: int) -> Asked:
        self._count += 1
        send = Send(1, self._count, api, 2, body)
        asked = Asked(f"{member}/{self._count}", send, self.connection(member), {})
        self.shares.asks(asked, now)
        return asked

    def _answer(self, asked: Asked, part: dict[str, Any], now: int) -> None:
        topics = [{"topicId": "t", "partitions": [part]}]
        body = {"errorCode": 0, "acquisitionLockTimeoutMs": LOCK_MS, "responses": topics}
        self.shares.told(asked, body, now)

    def unsettled(self) -> set[str]:
        records = RecordsSeen(self.violations.append)
        at = TopicPartition("orders", 0)
        records.sent["first"] = Sent("p", "", at, Outcome.ACKED, 7)
        return self.shares.unsettled("parcels", records)


@pytest.mark.parametrize(("sent", "heard", "count"), [(20, 30, 1), (20, 109, 2), (5, 15, 1)])
def test_two_members_have_a_record_at_a_time(sent: int, heard: int, count: int) -> None:
    told = Told()
    told.fetch("one", 10, 12)
    told.fetch("two", sent, heard, count)
    assert "is had by" in told.violations[0]


def test_whose_lock_may_be_over_has_it_no_more() -> None:
    told = Told()
    told.fetch("one", 10, 12)
    told.fetch("two", 20, 110, 2)
    assert told.violations == []


@pytest.mark.parametrize("ends", ["says", "closes", "is cut off", "brokers were away"])
def test_who_has_given_it_back_has_it_no_more(ends: str) -> None:
    told = Told()
    told.fetch("one", 10, 12)
    if ends == "says":
        told.say("one", RELEASE, 13, 0)
    elif ends == "closes":
        told.fetch("one", 13, 0, epoch=-1)
    elif ends == "is cut off":
        told.connections["one"].is_open = False
    else:
        told.shares.is_steady = False
    told.fetch("two", 20, 30, 2)
    assert told.violations == []


@pytest.mark.parametrize("kind", [ACCEPT, REJECT])
def test_what_is_accepted_or_rejected_does_not_come_again(kind: AcknowledgeType) -> None:
    told = Told()
    told.fetch("one", 10, 12)
    told.say("one", kind, 13, 20)
    told.fetch("two", 20, 30, 2)
    assert told.violations == []
    told.fetch("two", 21, 31, 3)
    assert "it was accepted or rejected before" in told.violations[0]


def test_who_does_not_have_a_record_says_nothing_of_it() -> None:
    told = Told()
    told.fetch("one", 10, 12)
    told.fetch("two", 120, 130, 2)
    told.say("one", RELEASE, 131, 140, Error.INVALID_RECORD_STATE)
    assert told.violations == []
    told.say("one", RELEASE, 141, 150)
    assert "is acknowledged by one; two has it" in told.violations[0]


def test_what_is_accepted_an_application_had() -> None:
    told = Told()
    told.shares._given.clear()
    told.say("one", ACCEPT, 13, 14)
    assert "no application had it" in told.violations[0]


def test_what_was_refused_may_come_again() -> None:
    told = Told()
    told.fetch("one", 10, 12)
    told.say("one", ACCEPT, 13, 20, Error.INVALID_RECORD_STATE)
    told.fetch("two", 121, 131, 2)
    assert told.violations == []


def test_deliveries_are_bounded() -> None:
    told = Told()
    told.fetch("one", 10, 12, DELIVERIES_MAX)
    assert told.violations == []
    told.fetch("one", 210, 212, DELIVERIES_MAX + 1)
    assert "for the 4th time" in told.violations[0]


def test_each_record_is_settled_or_was_delivered_as_often_as_may_be() -> None:
    told = Told()
    assert told.unsettled() == {"first"}
    told.fetch("one", 10, 12)
    told.say("one", RELEASE, 13, 14)
    assert told.unsettled() == {"first"}
    told.fetch("one", 20, 0)
    told.fetch("one", 30, 0)
    assert told.unsettled() == set()
    accepted = Told()
    accepted.say("one", ACCEPT, 13, 14, Error.INVALID_RECORD_STATE)
    assert accepted.unsettled() == {"first"}
    accepted.say("one", ACCEPT, 15, 0)
    assert accepted.unsettled() == set()
