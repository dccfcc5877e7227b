"""Whom an admin asks, and what it does with what it hears (KIP-699), without a network."""

from typing import Any

import pytest

from brokertwin.clients import admin_calls
from brokertwin.clients.admin_calls import AdminCall, Asked, Call, Outcome
from brokertwin.clients.backoff import retry_backoff
from brokertwin.clients.metadata_snapshot import MetadataSnapshot, PartitionMetadata
from brokertwin.clients.partitions import Node, TopicPartition
from brokertwin.state.apis.find_coordinator import KeyType
from brokertwin.state.core.errors import Error
from brokertwin.state.core.wire.generated.describe_groups import (
    DescribeGroupsResponse,
    DescribeGroupsResponseDescribedGroup,
)
from brokertwin.state.core.wire.generated.find_coordinator import (
    Coordinator,
    FindCoordinatorResponse,
)
from brokertwin.state.core.wire.generated.list_groups import ListedGroup, ListGroupsResponse
from brokertwin.state.core.wire.generated.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

NOW, TIMEOUT_MS = 1_700_000_000_000, 60_000
PAUSE_MS = retry_backoff().backoff(0, 0.5)
T0, T1, T2 = (TopicPartition("t", number) for number in range(3))
LEADERS = {T0: 1, T1: 2, T2: 1}
LATEST = -1


def snapshot(leaders: dict[TopicPartition, int] | None = None) -> MetadataSnapshot:
    partitions = {
        each: PartitionMetadata(each, 0, leader, 3)
        for each, leader in (LEADERS if leaders is None else leaders).items()
    }
    nodes = {each: Node(each, "localhost", 9092) for each in (1, 2, 3)}
    return MetadataSnapshot(nodes=nodes, partitions=partitions)


class Asking:
    """A call, and its clock."""

    def __init__(self, call: Call) -> None:
        self.now = NOW
        self.call = AdminCall.of(call, NOW + TIMEOUT_MS, lambda: 0.5)

    def asks(self, known: MetadataSnapshot | None = None) -> list[Asked]:
        return self.call.wants(self.now, snapshot() if known is None else known)

    def hears(self, asked: Asked, response: Any) -> None:
        self.call.answered(self.now, asked, response)


def whom(asked: list[Asked]) -> dict[int | None, set[Any]]:
    return {each.node: set(each.keys) for each in asked}


def offsets(asked: Asked, error: Error = Error.NONE) -> ListOffsetsResponse:
    parts = [
        ListOffsetsPartitionResponse(
            partition_index=each.partition, error_code=int(error), offset=7
        )
        for each in asked.keys
        if isinstance(each, TopicPartition)
    ]
    return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=parts)])


def ends() -> Asking:
    return Asking(admin_calls.list_offsets(dict.fromkeys(LEADERS, LATEST)))


def coordinators(asked: Asked, error: Error = Error.NONE, **nodes: int) -> FindCoordinatorResponse:
    return FindCoordinatorResponse(
        coordinators=[
            Coordinator(key=str(key), node_id=nodes.get(str(key), -1), error_code=int(error))
            for key in asked.keys
        ]
    )


def described(asked: Asked, error: Error = Error.NONE) -> DescribeGroupsResponse:
    groups = [
        DescribeGroupsResponseDescribedGroup(group_id=str(key), error_code=int(error))
        for key in asked.keys
    ]
    return DescribeGroupsResponse(groups=groups)


def test_each_leader_is_asked_once_for_all_of_its_partitions() -> None:
    asking = ends()
    first, second = asking.asks()
    assert whom([first, second]) == {1: {T0, T2}, 2: {T1}}
    assert asking.asks() == [], "both are under way"
    asking.hears(first, offsets(first))
    assert not asking.call.is_done
    asking.hears(second, offsets(second))
    assert asking.call.is_done
    assert {key: outcome.value.offset for key, outcome in asking.call.results.items()} == (
        dict.fromkeys(LEADERS, 7)
    )


@pytest.mark.parametrize(
    "error",
    [Error.NOT_LEADER_OR_FOLLOWER, Error.UNKNOWN_TOPIC_OR_PARTITION, Error.LEADER_NOT_AVAILABLE],
)
def test_a_partition_that_has_moved_is_looked_up_and_the_others_are_done(error: Error) -> None:
    asking = ends()
    first, second = asking.asks()
    asking.hears(first, offsets(first))
    asking.hears(second, offsets(second, error))
    assert asking.call.needs_metadata
    assert set(asking.call.results) == {T0, T2}
    assert asking.asks() == []
    asking.now += PAUSE_MS
    (again,) = asking.asks(snapshot({T1: 3}))
    assert whom([again]) == {3: {T1}}


def test_a_leader_that_has_just_begun_is_asked_again() -> None:
    """It does not know the high watermark yet."""
    asking = ends()
    first, second = asking.asks()
    asking.hears(first, offsets(first, Error.OFFSET_NOT_AVAILABLE))
    asking.hears(second, offsets(second))
    assert not asking.call.is_done
    assert not asking.call.needs_metadata
    asking.now += PAUSE_MS
    (again,) = asking.asks()
    assert whom([again]) == {1: {T0, T2}}


def test_a_partition_without_a_leader_waits_for_metadata() -> None:
    asking = ends()
    assert asking.asks(snapshot({})) == []
    assert asking.call.needs_metadata
    assert len(asking.asks()) == 2


def test_an_error_that_is_the_answer_ends_a_key() -> None:
    asking = ends()
    first, second = asking.asks()
    asking.hears(first, offsets(first, Error.OFFSET_OUT_OF_RANGE))
    asking.hears(second, offsets(second))
    assert asking.call.is_done
    assert asking.call.results[T0].error is Error.OFFSET_OUT_OF_RANGE


def test_where_no_answer_comes_leaders_are_looked_up() -> None:
    asking = ends()
    first, _ = asking.asks()
    asking.call.failed(asking.now, first)
    assert asking.call.needs_metadata
    asking.now += PAUSE_MS
    assert whom(asking.asks(snapshot({T0: 3, T1: 2, T2: 3}))) == {3: {T0, T2}}


def test_coordinators_are_looked_up_together_and_asked_apart() -> None:
    asking = Asking(admin_calls.describe_groups(["a", "b", "c"]))
    (lookup,) = asking.asks()
    assert lookup.node is None
    assert lookup.body.key_type == KeyType.GROUP  # type: ignore[attr-defined]
    asking.hears(lookup, coordinators(lookup, a=1, b=2, c=1))
    asked = asking.asks()
    assert whom(asked) == {1: {"a", "c"}, 2: {"b"}}
    for each in asked:
        asking.hears(each, described(each))
    assert asking.call.is_done


def test_a_transaction_has_a_coordinator_of_its_kind() -> None:
    (lookup,) = Asking(admin_calls.describe_transactions(["t"])).asks()
    assert lookup.body.key_type == KeyType.TRANSACTION  # type: ignore[attr-defined]


def test_a_coordinator_that_loads_is_asked_again_and_one_that_has_moved_looked_up() -> None:
    asking = Asking(admin_calls.describe_groups(["a"]))
    (lookup,) = asking.asks()
    asking.hears(lookup, coordinators(lookup, a=1))
    (asked,) = asking.asks()
    asking.hears(asked, described(asked, Error.COORDINATOR_LOAD_IN_PROGRESS))
    assert asking.asks() == []
    asking.now += PAUSE_MS
    (asked,) = asking.asks()
    assert asked.node == 1
    asking.hears(asked, described(asked, Error.NOT_COORDINATOR))
    asking.now += 10 * PAUSE_MS
    (lookup,) = asking.asks()
    assert lookup.is_lookup


def test_a_coordinator_that_there_is_not_yet_is_looked_up_again() -> None:
    asking = Asking(admin_calls.delete_groups(["a"]))
    (lookup,) = asking.asks()
    asking.hears(lookup, coordinators(lookup, Error.COORDINATOR_NOT_AVAILABLE))
    assert asking.asks() == []
    asking.now += PAUSE_MS
    (lookup,) = asking.asks()
    asking.hears(lookup, coordinators(lookup, Error.GROUP_AUTHORIZATION_FAILED))
    assert asking.call.results == {"a": Outcome(Error.GROUP_AUTHORIZATION_FAILED, -1)}


def test_each_broker_is_asked_once_the_cluster_is_known() -> None:
    asking = Asking(admin_calls.list_groups())
    assert asking.asks(MetadataSnapshot()) == []
    assert not asking.call.is_done
    asked = asking.asks()
    assert whom(asked) == {1: {1}, 2: {2}, 3: {3}}
    asking.call.failed(asking.now, asked[0])
    for each in asked[1:]:
        group = ListedGroup(group_id=f"g{each.node}", protocol_type="consumer")
        asking.hears(each, ListGroupsResponse(groups=[group]))
    assert not asking.call.is_done
    asking.now += PAUSE_MS
    (again,) = asking.asks()
    assert again.node == 1, "it is a key itself"


def test_when_the_time_is_over_what_is_left_has_timed_out() -> None:
    asking = ends()
    first, second = asking.asks()
    asking.hears(first, offsets(first))
    asking.now += TIMEOUT_MS
    assert asking.asks() == []
    assert asking.call.is_done
    assert asking.call.results[T1] == Outcome(Error.REQUEST_TIMED_OUT)
    asking.hears(second, offsets(second))
    assert asking.call.results[T1] == Outcome(Error.REQUEST_TIMED_OUT), "it comes too late"


def test_a_call_of_nothing_is_done_at_once() -> None:
    assert Asking(admin_calls.describe_groups([])).call.is_done


def test_pauses_grow() -> None:
    asking = ends()
    waited = []
    for _ in range(4):
        asked = asking.asks(snapshot({T0: 1}))
        asking.call.failed(asking.now, next(each for each in asked if T0 in each.keys))
        waited.append(min(at for at in asking.call.deadlines() if at > asking.now) - asking.now)
        asking.now += waited[-1]
    assert waited == sorted(set(waited))
