"""Leaders, retries and outcomes of admin calls (KIP-699), without a network."""

from typing import Any

import pytest

from brokertwin.clients.admin_client import LeaderRequest, PendingDeletion
from brokertwin.clients.backoff import retry_backoff
from brokertwin.clients.metadata_snapshot import MetadataSnapshot, PartitionInfo
from brokertwin.clients.partitions import Node, TopicPartition
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

NOW, TIMEOUT_MS = 1_700_000_000_000, 60_000
BACKOFF_MS = retry_backoff().backoff(0, 0.5)
T0, T1, T2 = (TopicPartition("t", number) for number in range(3))
LEADERS = {T0: 1, T1: 2, T2: 1}
OFFSET = 7


def snapshot(leaders: dict[TopicPartition, int] | None = None) -> MetadataSnapshot:
    partitions = {
        each: PartitionInfo(each, leader, 3)
        for each, leader in (LEADERS if leaders is None else leaders).items()
    }
    nodes = {each: Node(each, "localhost", 9092) for each in (1, 2, 3)}
    return MetadataSnapshot(nodes=nodes, partitions=partitions)


class Caller:
    def __init__(self, partitions: dict[TopicPartition, int] | None = None) -> None:
        self.now = NOW
        offsets = dict.fromkeys(LEADERS if partitions is None else partitions, OFFSET)
        self.call = PendingDeletion(offsets, NOW + TIMEOUT_MS, lambda: 0.5)

    def requests(self, known: MetadataSnapshot | None = None) -> list[LeaderRequest]:
        return self.call.requests(self.now, snapshot() if known is None else known)

    def respond(self, request: LeaderRequest, error: Error = Error.NONE) -> None:
        parts = [
            DeleteRecordsPartitionResult(
                partition_index=each.partition, error_code=int(error), low_watermark=OFFSET
            )
            for each in request.partitions
        ]
        topics = [DeleteRecordsTopicResult(name="t", partitions=parts)]
        self.call.on_response(self.now, request, DeleteRecordsResponse(topics=topics))


def by_node(requests: list[LeaderRequest]) -> dict[int, set[Any]]:
    return {each.node: set(each.partitions) for each in requests}


def test_partitions_with_the_same_leader_share_a_request() -> None:
    caller = Caller()
    first, second = caller.requests()
    assert by_node([first, second]) == {1: {T0, T2}, 2: {T1}}
    assert caller.requests() == [], "both are in flight"
    caller.respond(first)
    assert not caller.call.is_done
    caller.respond(second)
    assert caller.call.is_done
    assert caller.call.results == dict.fromkeys(LEADERS, Error.NONE)


@pytest.mark.parametrize(
    "error",
    [Error.NOT_LEADER_OR_FOLLOWER, Error.UNKNOWN_TOPIC_OR_PARTITION, Error.LEADER_NOT_AVAILABLE],
)
def test_partition_whose_leader_moved_is_retried_at_the_new_leader(error: Error) -> None:
    caller = Caller()
    first, second = caller.requests()
    caller.respond(first)
    caller.respond(second, error)
    assert caller.call.needs_metadata
    assert set(caller.call.results) == {T0, T2}
    assert caller.requests() == []
    caller.now += BACKOFF_MS
    (again,) = caller.requests(snapshot({T1: 3}))
    assert by_node([again]) == {3: {T1}}


def test_other_retriable_errors_are_retried_at_the_same_leader() -> None:
    caller = Caller()
    first, second = caller.requests()
    caller.respond(first, Error.OFFSET_NOT_AVAILABLE)
    caller.respond(second)
    assert not caller.call.is_done
    assert not caller.call.needs_metadata
    caller.now += BACKOFF_MS
    (again,) = caller.requests()
    assert by_node([again]) == {1: {T0, T2}}


def test_partition_without_a_leader_waits_for_metadata() -> None:
    caller = Caller()
    assert caller.requests(snapshot({})) == []
    assert caller.call.needs_metadata
    assert len(caller.requests()) == 2


def test_fatal_error_ends_a_partition() -> None:
    caller = Caller()
    first, second = caller.requests()
    caller.respond(first, Error.OFFSET_OUT_OF_RANGE)
    caller.respond(second)
    assert caller.call.is_done
    assert caller.call.results[T0] is Error.OFFSET_OUT_OF_RANGE


def test_request_without_a_response_is_retried_with_new_metadata() -> None:
    caller = Caller()
    first, _ = caller.requests()
    caller.call.on_failure(caller.now, first)
    assert caller.call.needs_metadata
    caller.now += BACKOFF_MS
    assert by_node(caller.requests(snapshot({T0: 3, T1: 2, T2: 3}))) == {3: {T0, T2}}


def test_timeout_ends_the_open_partitions() -> None:
    caller = Caller()
    first, second = caller.requests()
    caller.respond(first)
    caller.now += TIMEOUT_MS
    assert caller.requests() == []
    assert caller.call.is_done
    assert caller.call.results[T1] is Error.REQUEST_TIMED_OUT
    caller.respond(second)
    assert caller.call.results[T1] is Error.REQUEST_TIMED_OUT


def test_call_without_partitions_is_done_at_once() -> None:
    assert Caller({}).call.is_done


def test_backoff_grows_with_each_failure() -> None:
    caller = Caller()
    waited = []
    for _ in range(4):
        requests = caller.requests(snapshot({T0: 1}))
        caller.call.on_failure(caller.now, next(each for each in requests if T0 in each.partitions))
        waited.append(min(at for at in caller.call.deadlines() if at > caller.now) - caller.now)
        caller.now += waited[-1]
    assert waited == sorted(set(waited))
