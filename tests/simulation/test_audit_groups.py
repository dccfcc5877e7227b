"""Audit of groups: committed offsets as a register, and owners of partitions."""

import base64
from typing import Any

import pytest

from brokertwin.clients.consumer_protocol import encode_assignment
from brokertwin.simulation.audit_groups import GroupAudit
from brokertwin.state.apis.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from brokertwin.state.apis.offset_commit import (
    CommitPartition,
    CommitTopic,
    OffsetCommitRequest,
)
from brokertwin.state.apis.sync_group import SyncGroupRequest
from brokertwin.state.core.errors import Error

SESSION_MS = 100


class AuditedGroup:
    """Commits and fetches of a group in sequence."""

    def __init__(self) -> None:
        self.violations: list[str] = []
        self.groups = GroupAudit(self.violations.append, SESSION_MS)

    def commit(
        self, offset: int, start: int, end: int = 0, error: int = Error.NONE, generation: int = -1
    ) -> None:
        """Commit an offset; with `end` 0 there is no response."""
        part = CommitPartition(partition_index=0, committed_offset=offset)
        topic = CommitTopic(name="orders", partitions=[part])
        body = OffsetCommitRequest(
            group_id="billing", generation_id_or_member_epoch=generation, topics=[topic]
        )
        self.groups.commits(f"commit-{offset}", start, body)
        if end:
            answered = [{"partitionIndex": 0, "errorCode": error}]
            response = {"topics": [{"name": "orders", "partitions": answered}]}
            self.groups.committed(f"commit-{offset}", end, response)

    def sync(self, generation: int) -> None:
        """Respond to a member of a classic group with an empty assignment."""
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

    def beat(self, member: str, epoch: int, now: int, *owned: int, said: bool = False) -> None:
        """Send a member's heartbeat and its response; `said`: the owned partitions it reports."""
        parts = [{"topicId": "t", "partitions": list(owned)}]
        body: Any = ConsumerGroupHeartbeatRequest(
            group_id="billing",
            member_id=member,
            member_epoch=epoch,
            topic_partitions=[] if said else None,
        )
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
    audited.beat("first", 2, 20, said=True)
    audited.beat("second", 3, 30, 1)
    assert audited.violations == []
