"""Audit of groups: committed offsets as a register, and owners of partitions."""

import base64
from typing import Any

import pytest

from brokertwin.clients.consumer_protocol import encode_assignment
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
)
from brokertwin.protocol.generated.end_txn import EndTxnRequest
from brokertwin.protocol.generated.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from brokertwin.protocol.generated.sync_group import SyncGroupRequest
from brokertwin.protocol.generated.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from brokertwin.simulation.audit_groups import GroupAudit

SESSION_MS, TRANSACTION_MS = 100, 400


class AuditedGroup:
    """Commits and fetches of a group in sequence."""

    def __init__(self) -> None:
        self.violations: list[str] = []
        self.has_rivals = False
        self.groups = GroupAudit(
            self.violations.append, SESSION_MS, TRANSACTION_MS, lambda _: self.has_rivals
        )

    def commit(
        self, offset: int, start: int, end: int = 0, error: int = Error.NONE, generation: int = -1
    ) -> None:
        """Commit an offset; with `end` 0 there is no response."""
        part = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        topic = OffsetCommitRequestTopic(name="orders", partitions=[part])
        body = OffsetCommitRequest(
            group_id="billing", generation_id_or_member_epoch=generation, topics=[topic]
        )
        self.groups.commits(f"commit-{offset}", start, body)
        if end:
            responses = [{"partitionIndex": 0, "errorCode": error}]
            response = {"topics": [{"name": "orders", "partitions": responses}]}
            self.groups.committed(f"commit-{offset}", end, response)

    def write(self, offset: int, start: int, end: int, generation: int = -1) -> None:
        """Commit an offset in the transaction `t`."""
        part = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        topic = TxnOffsetCommitRequestTopic(name="orders", partitions=[part])
        body = TxnOffsetCommitRequest(
            transactional_id="t",
            group_id="billing",
            producer_id=7,
            producer_epoch=0,
            generation_id=generation,
            topics=[topic],
        )
        self.groups.in_transaction(f"write-{offset}", "TXN_OFFSET_COMMIT", start, body)
        responses = [{"partitionIndex": 0, "errorCode": Error.NONE}]
        response = {"topics": [{"name": "orders", "partitions": responses}]}
        self.groups.committed(f"write-{offset}", end, response)

    def end(self, now: int, *, is_committed: bool = True) -> None:
        body = EndTxnRequest(
            transactional_id="t", producer_id=7, producer_epoch=0, committed=is_committed
        )
        self.groups.in_transaction("end", "END_TXN", now, body)
        self.groups.ended("end", now, {"errorCode": Error.NONE})

    def sync(self, generation: int) -> None:
        assignment = base64.b64encode(encode_assignment([])).decode()
        body = SyncGroupRequest(group_id="billing", generation_id=generation, member_id="first")
        self.groups.classic(body, {"errorCode": 0, "assignment": assignment})

    def fetch(self, offset: int, start: int, end: int) -> list[str]:
        self.groups.fetches("fetch", start)
        part = {"partitionIndex": 0, "committedOffset": offset, "errorCode": 0}
        topics = [{"name": "orders", "partitions": [part]}]
        response = {"groups": [{"groupId": "billing", "topics": topics, "errorCode": 0}]}
        self.groups.fetched("fetch", end, response)
        return self.violations

    def beat(
        self,
        member: str,
        epoch: int,
        now: int,
        *owned: int,
        given: bool = False,
        late: bool = False,
    ) -> None:
        """Send a member's heartbeat and its response; `given`: the owned partitions it reports.

        Only the response, if it is `late`.
        """
        parts = [{"topicId": "t", "partitions": list(owned)}]
        body: Any = ConsumerGroupHeartbeatRequest(
            group_id="billing",
            member_id=member,
            member_epoch=epoch,
            topic_partitions=[] if given else None,
        )
        if not late:
            self.groups.beats(body)
        response = {"errorCode": 0, "memberId": member, "memberEpoch": epoch}
        assigned = {"topicPartitions": parts} if owned else None
        self.groups.heartbeat_responded(now, now, body, {**response, "assignment": assigned})


def test_the_last_stored_offset_is_returned() -> None:
    audited = AuditedGroup()
    assert audited.fetch(-1, 1, 2) == []
    audited.commit(5, 3, 4)
    audited.commit(9, 5, 6)
    assert audited.fetch(9, 7, 8) == []
    assert "returned as 5, and can only be [9]" in audited.fetch(5, 7, 8)[0]


@pytest.mark.parametrize("offset", [5, 9])
def test_a_commit_in_flight_may_be_returned(offset: int) -> None:
    audited = AuditedGroup()
    audited.commit(5, 1, 2)
    audited.commit(9, 3)
    assert audited.fetch(offset, 4, 5) == []


def test_a_rejected_commit_is_not_returned_but_an_ambiguous_one_may_be() -> None:
    audited = AuditedGroup()
    audited.commit(5, 1, 2, Error.ILLEGAL_GENERATION)
    audited.commit(7, 1, 2, Error.COORDINATOR_NOT_AVAILABLE)
    assert audited.fetch(7, 4, 5) == []
    assert "can only be [-1, 7]" in audited.fetch(5, 4, 5)[0]


def test_a_former_generation_cannot_commit() -> None:
    audited = AuditedGroup()
    audited.sync(3)
    audited.commit(5, 1, 2, generation=3)
    audited.commit(6, 3, 4, Error.ILLEGAL_GENERATION, generation=2)
    assert audited.violations == []
    audited.commit(7, 5, 6, generation=2)
    assert "commit-7 of a former generation" in audited.violations[0]


def test_the_order_of_writes_counts_with_and_without_transactions() -> None:
    audited = AuditedGroup()
    audited.write(5, 1, 2)
    audited.commit(9, 3, 4)
    audited.end(5)
    assert audited.fetch(9, 6, 7) == []
    assert "returned as 5, and can only be [9]" in audited.fetch(5, 6, 7)[0]


def test_an_offset_of_a_committed_transaction_is_returned() -> None:
    audited = AuditedGroup()
    audited.commit(5, 1, 2)
    audited.write(9, 3, 4)
    audited.end(5)
    assert audited.fetch(9, 6, 7) == []
    assert "returned as 5, and can only be [9]" in audited.fetch(5, 6, 7)[0]


def test_an_offset_of_an_aborted_transaction_is_not_returned() -> None:
    audited = AuditedGroup()
    audited.commit(5, 1, 2)
    audited.write(9, 3, 4)
    audited.end(5, is_committed=False)
    assert audited.fetch(5, 6, 7) == []
    assert "returned as 9, and can only be [5]" in audited.fetch(9, 6, 7)[0]


def test_no_offset_is_returned_while_a_transaction_with_it_is_open() -> None:
    audited = AuditedGroup()
    audited.commit(5, 1, 2)
    audited.write(9, 3, 4)
    assert audited.fetch(5, 6, 3 + TRANSACTION_MS) == []
    assert "while a transaction with it is open" in audited.fetch(5, 6, 7)[0]


def test_a_rival_may_have_aborted_an_open_transaction() -> None:
    audited = AuditedGroup()
    audited.has_rivals = True
    audited.commit(5, 1, 2)
    audited.write(9, 3, 4)
    assert audited.fetch(5, 6, 7) == []


def test_a_former_generation_cannot_commit_in_a_transaction() -> None:
    audited = AuditedGroup()
    audited.sync(3)
    audited.write(5, 1, 2, generation=3)
    assert audited.violations == []
    audited.write(7, 5, 6, generation=2)
    assert "write-7 of a former generation" in audited.violations[0]


def test_a_lost_offset_is_a_violation() -> None:
    audited = AuditedGroup()
    audited.commit(5, 1, 2)
    assert audited.fetch(-1, 3, 4) != []


def test_a_partition_has_one_owner_in_an_epoch() -> None:
    audited = AuditedGroup()
    audited.beat("first", 1, 10, 0, 1)
    audited.beat("second", 1, 10 + SESSION_MS, 0)
    assert audited.violations == ["t-0 is given to first and second in 1 of group billing"]


def test_a_partition_of_a_live_member_is_not_reassigned() -> None:
    audited = AuditedGroup()
    audited.beat("first", 1, 10, 0)
    audited.beat("first", 1, 50)
    audited.beat("second", 2, 50 + SESSION_MS - 1, 0)
    assert audited.violations == ["t-0 of billing is given to second; first has it"]


def test_a_silent_or_revoking_member_loses_its_partition() -> None:
    audited = AuditedGroup()
    audited.beat("first", 1, 10, 0, 1)
    audited.beat("second", 2, 10 + SESSION_MS, 0)
    audited.beat("first", 2, 20, given=True)
    audited.beat("second", 3, 30, 1)
    assert audited.violations == []


def test_a_member_that_left_owns_nothing_by_a_late_response() -> None:
    audited = AuditedGroup()
    audited.beat("first", 1, 10)
    audited.beat("first", -1, 20)
    audited.beat("first", 1, 30, 0, late=True)
    audited.beat("second", 3, 40, 0)
    assert audited.violations == []
