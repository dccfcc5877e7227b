"""The consumer's coordinator, step by step."""

from typing import Any

import msgspec
import pytest

from brokertwin.clients.assignors.assign import AssignorName
from brokertwin.clients.assignors.member import ConsumersOwn
from brokertwin.clients.consumer_config import ConsumerConfig
from brokertwin.clients.consumer_coordinator import ClassicMembership, ClientMemberState
from brokertwin.clients.consumer_events import CommitFailed, ConsumerFailed, PartitionsRevoked
from brokertwin.clients.consumer_requests import offset_fetch
from brokertwin.clients.partitions import TopicPartition
from brokertwin.clients.subscription_state import SubscriptionState
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.find_coordinator import (
    Coordinator,
    FindCoordinatorResponse,
)
from brokertwin.protocol.generated.heartbeat import HeartbeatResponse
from brokertwin.protocol.generated.join_group import JoinGroupResponse
from brokertwin.protocol.generated.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponseTopic,
)
from brokertwin.protocol.generated.shared import (
    OffsetCommitResponsePartition,
)
from tests.support.group_network import (
    GROUP,
    HEARTBEAT_MS,
    PARTITIONS,
    REBALANCE_MS,
    SESSION_MS,
    TOPIC,
    GroupNetwork,
    Member,
)

RANGE, COOPERATIVE = AssignorName.RANGE, AssignorName.COOPERATIVE_STICKY


def config(*assignors: AssignorName) -> ConsumerConfig:
    return ConsumerConfig(
        group_id=GROUP,
        assignors=assignors or (RANGE,),
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
        max_poll_interval_ms=REBALANCE_MS,
        auto_commit_interval_ms=5_000,
    )


def group_of(count: int, *assignors: AssignorName) -> tuple[GroupNetwork, list[Member]]:
    net = GroupNetwork(config(*assignors))
    for _ in range(count):
        net.start()
    net.settle()
    net.events.clear()
    return net, list(net.members)


def numbers(member: Member) -> list[int]:
    return [partition.partition for partition in member.subscription.assigned]


def sent(member: Member) -> list[str]:
    return [outgoing.api for outgoing in member.requests]


def test_example_10_a_member_finds_joins_twice_and_syncs() -> None:
    net = GroupNetwork(config())
    member = net.start()
    assert member is not None
    seen = []
    began = net.now
    while member.coordinator.state is not ClientMemberState.STABLE and net.now - began < SESSION_MS:
        seen += [api for api in sent(member) if api != "HEARTBEAT"]
        net._request(member)
        net._respond(member)
        net.wait(100)
        net.poll(member)
    joins = ["JOIN_GROUP", "JOIN_GROUP", "SYNC_GROUP"]
    assert [api for api in seen if api != "FIND_COORDINATOR"][:3] == joins
    assert member.coordinator.generation.id == 1
    assert member.coordinator.is_leader
    assert numbers(member) == list(range(PARTITIONS))


def test_join_and_leave_requests_have_a_reason() -> None:
    """KIP-800."""
    net, (first,) = group_of(1, AssignorName.RANGE)
    coordinator = first.coordinator

    def requested(api: str) -> Any:
        (result,) = [each for each in coordinator.take() if each.api == api]
        return result

    def why(error: Error) -> str:
        net.wait(HEARTBEAT_MS)
        coordinator.tick(net.now)
        response = HeartbeatResponse(error_code=error)
        coordinator.on_response(net.now, requested("HEARTBEAT").id, response)
        while not coordinator._is_in_flight("JOIN_GROUP"):
            net.wait(100)
            coordinator.poll(net.now, {TOPIC: PARTITIONS})
        return str(requested("JOIN_GROUP").body.reason)

    coordinator.config = msgspec.structs.replace(coordinator.config, enable_auto_commit=False)
    assert why(Error.REBALANCE_IN_PROGRESS) == "group is already rebalancing"
    net, (first,) = group_of(1, AssignorName.RANGE)
    coordinator = first.coordinator
    assert why(Error.UNKNOWN_MEMBER_ID) == "encountered UNKNOWN_MEMBER_ID from HEARTBEAT response"
    (join,) = [each for each in coordinator._pending if coordinator._is_in_flight("JOIN_GROUP")]
    given = JoinGroupResponse(error_code=Error.MEMBER_ID_REQUIRED, member_id="a")
    coordinator.on_response(net.now, join, given)
    coordinator.poll(net.now, {TOPIC: PARTITIONS})
    again = "need to re-join with the given member-id: a"
    assert requested("JOIN_GROUP").body.reason == again
    coordinator.close(net.now)
    (leaving,) = requested("LEAVE_GROUP").body.members
    assert leaving.reason == "the consumer is being closed"


def test_example_11_a_crashed_members_partitions_move_to_the_others() -> None:
    """The seed's figure 6."""
    net, (first, second) = group_of(2)
    assert sorted(numbers(first) + numbers(second)) == list(range(PARTITIONS))
    net.crash(second)
    took = net.settle()
    assert SESSION_MS - HEARTBEAT_MS <= took <= SESSION_MS + 2 * HEARTBEAT_MS + 4_000
    assert numbers(first) == list(range(PARTITIONS))


def test_example_12_eager_revokes_all_and_cooperative_only_moved_partitions() -> None:
    net, (first,) = group_of(1, RANGE)
    before = first.coordinator.generation.id
    net.start()
    net.settle()
    assert ("m1", "PartitionsRevoked") in net.events
    assert first.coordinator.generation.id == before + 1
    net, (first,) = group_of(1, COOPERATIVE)
    kept = set(numbers(first))
    net.start()
    while set(numbers(first)) == kept:
        net.flow()
        assert len(numbers(first)) in (3, 5)
    net.settle()
    assert first.coordinator.generation.id == before + 2
    assert [len(numbers(member)) for member in net.members] == [3, 2]


def test_example_13_a_member_without_polls_leaves_and_loses_its_partitions() -> None:
    net, (first, second) = group_of(2)
    polled = net.now
    while (
        first.coordinator.state is ClientMemberState.STABLE and net.now - polled < 2 * REBALANCE_MS
    ):
        net.wait(500)
        first.coordinator.tick(net.now)
        net._send(first)
        while first.requests and "LEAVE_GROUP" not in sent(first):
            net._request(first)
            net._respond(first)
        net.poll(second)
        while second.requests or second.responses:
            net._request(second)
            net._respond(second)
            net._send(second)
    assert sent(first) == ["LEAVE_GROUP"]
    assert net.now - polled in range(REBALANCE_MS - 1_000, REBALANCE_MS + 1_001)
    net.poll(first)
    assert ("m1", "PartitionsLost") in net.events
    assert numbers(first) == []
    assert net.violations == []


def test_example_14_offsets_are_committed_before_a_rejoin() -> None:
    net = GroupNetwork(msgspec.structs.replace(config(), auto_commit_interval_ms=600_000))
    first = net.start()
    assert first is not None
    net.settle()
    for partition in first.subscription.assigned:
        first.subscription.seek(partition, 40 + partition.partition)
    net.start()
    first.coordinator.poll(net.now, {TOPIC: PARTITIONS})
    net.settle()
    stored = net.committed()
    assert all(stored[TopicPartition(TOPIC, at)] >= 40 + at for at in range(PARTITIONS))
    second = net.members[1]
    assert all((second.subscription.positions[p] or 0) >= 40 for p in second.subscription.assigned)


def test_example_15_a_commit_during_a_join_fails_as_rebalance_in_progress() -> None:
    net, (first,) = group_of(1)
    first.coordinator.state = ClientMemberState.PREPARING_REBALANCE
    commit = first.coordinator.commit(net.now, {TopicPartition(TOPIC, 0): 5}, is_sync=True)
    assert first.coordinator.events == [CommitFailed(commit, Error.REBALANCE_IN_PROGRESS)]


def commit_sent(net: GroupNetwork, member: Member, *, is_sync: bool) -> tuple[int, int]:
    """A commit is under way: its own id, and its request's."""
    coordinator = member.coordinator
    number = coordinator.commit(net.now, {TopicPartition(TOPIC, 0): 5}, is_sync=is_sync)
    coordinator.tick(net.now)
    (request,) = [each for each in coordinator.take() if each.api == "OFFSET_COMMIT"]
    return number, request.id


def refused(error: Error) -> OffsetCommitResponse:
    part = OffsetCommitResponsePartition(partition_index=0, error_code=error)
    return OffsetCommitResponse(topics=[OffsetCommitResponseTopic(name=TOPIC, partitions=[part])])


@pytest.mark.parametrize("is_sync", [True, False])
def test_a_pending_commit_is_retried_after_backoff(is_sync: bool) -> None:
    net, (first,) = group_of(1)
    coordinator = first.coordinator
    number, request = commit_sent(net, first, is_sync=is_sync)
    coordinator.on_response(net.now, request, refused(Error.COORDINATOR_LOAD_IN_PROGRESS))
    failed = CommitFailed(number, Error.COORDINATOR_LOAD_IN_PROGRESS)
    assert coordinator.events == ([] if is_sync else [failed])
    net.wait(1_000)
    coordinator.tick(net.now)
    again = [each for each in coordinator.take() if each.api == "OFFSET_COMMIT"]
    assert len(again) == is_sync


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (Error.UNKNOWN_MEMBER_ID, ClientMemberState.UNJOINED),
        (Error.ILLEGAL_GENERATION, ClientMemberState.UNJOINED),
        (Error.OFFSET_METADATA_TOO_LARGE, ClientMemberState.STABLE),
    ],
)
def test_an_unknown_member_error_of_a_commit_causes_a_rejoin(
    error: Error, state: ClientMemberState
) -> None:
    net, (first,) = group_of(1)
    number, request = commit_sent(net, first, is_sync=False)
    first.coordinator.on_response(net.now, request, refused(error))
    assert first.coordinator.state is state
    assert CommitFailed(number, error) in first.coordinator.events


def test_offset_fetch_retries_while_transactional_offsets_are_pending() -> None:
    """KIP-447."""
    assert offset_fetch(config(), [TopicPartition(TOPIC, 0)]).require_stable


@pytest.mark.parametrize("from_any", [False, True])
def test_offsets_are_fetched_from_any_broker_if_the_option_is_on(from_any: bool) -> None:
    """Seed 003: an error costs the connection to that broker, not the coordinator."""
    net = GroupNetwork(msgspec.structs.replace(config(), fetches_offsets_from_any=from_any))
    member = net.start()
    assert member is not None
    while not (fetches := [each for each in member.requests if each.api == "OFFSET_FETCH"]):
        net._request(member)
        net._respond(member)
        net.wait(100)
        net.poll(member)
    assert fetches[0].to_coordinator is not from_any
    member.coordinator.failed(net.now, fetches[0].id)
    assert (member.coordinator.coordinator is not None) == from_any


def test_example_16_a_response_to_an_earlier_generation_is_ignored() -> None:
    net, (first,) = group_of(1)
    coordinator = first.coordinator
    net.wait(HEARTBEAT_MS)
    coordinator.tick(net.now)
    (beat,) = [each for each in coordinator.take() if each.api == "HEARTBEAT"]
    coordinator.generation = coordinator.generation._replace(id=7)
    coordinator.on_response(net.now, beat.id, HeartbeatResponse(error_code=Error.UNKNOWN_MEMBER_ID))
    assert coordinator.state is ClientMemberState.STABLE
    net.wait(HEARTBEAT_MS)
    coordinator.tick(net.now)
    (beat,) = [each for each in coordinator.take() if each.api == "HEARTBEAT"]
    coordinator.on_response(
        net.now, beat.id, HeartbeatResponse(error_code=Error.ILLEGAL_GENERATION)
    )
    assert coordinator.state is ClientMemberState.UNJOINED
    assert coordinator.generation.member_id != ""


def test_example_17_a_static_member_returns_without_a_rebalance() -> None:
    net, (first, _) = group_of(2)
    net.config = msgspec.structs.replace(net.config, group_instance_id="i")
    static = net.start()
    assert static is not None
    net.settle()
    generation, had = first.coordinator.generation.id, numbers(static)
    net.leave(static)
    again = net.start()
    assert again is not None
    net.settle()
    assert (again.coordinator.generation.id, numbers(again)) == (generation, had)


def test_example_18_a_moved_coordinator_is_looked_up() -> None:
    net, (first,) = group_of(1)
    coordinator = first.coordinator
    net.wait(HEARTBEAT_MS)
    coordinator.tick(net.now)
    (beat,) = [each for each in coordinator.take() if each.api == "HEARTBEAT"]
    coordinator.on_response(net.now, beat.id, HeartbeatResponse(error_code=Error.NOT_COORDINATOR))
    coordinator.tick(net.now)
    assert [outgoing.api for outgoing in coordinator.take()] == ["FIND_COORDINATOR"]
    assert coordinator.state is ClientMemberState.STABLE
    commit = coordinator.commit(net.now, {TopicPartition(TOPIC, 0): 5}, is_sync=True)
    coordinator.close(net.now)
    assert CommitFailed(commit, Error.COORDINATOR_NOT_AVAILABLE) in coordinator.events


def test_example_19_a_leader_waits_for_metadata_of_other_members_topics() -> None:
    subscription = SubscriptionState([TOPIC])
    coordinator = ClassicMembership(config(), subscription)
    coordinator.poll(0, {})
    (find,) = coordinator.take()
    found = FindCoordinatorResponse(coordinators=[Coordinator(key=GROUP, node_id=1)])
    coordinator.on_response(0, find.id, found)
    coordinator.poll(0, {})
    (join,) = coordinator.take()
    body = join.body
    metadata = body.protocols[0].metadata  # type: ignore[attr-defined]
    members = [{"memberId": "a", "metadata": metadata}]
    response = {"generationId": 1, "protocolName": "range", "leader": "a", "memberId": "a"}
    joined = msgspec.convert({**response, "members": members}, JoinGroupResponse)
    coordinator.on_response(0, join.id, joined)
    assert coordinator.take() == []
    assert coordinator.group_topics == {TOPIC}
    coordinator.poll(10, {TOPIC: 3})
    assert [outgoing.api for outgoing in coordinator.take()] == ["SYNC_GROUP"]


def test_example_20_range_is_not_cooperative() -> None:
    assert not ConsumersOwn(ConsumerConfig(group_id=GROUP).assignors).is_cooperative
    assert ConsumersOwn((COOPERATIVE,)).is_cooperative


def test_a_missing_group_permission_is_fatal() -> None:
    coordinator = ClassicMembership(config(), SubscriptionState([TOPIC]))
    coordinator.poll(0, {})
    (find,) = coordinator.take()
    refused = Coordinator(key=GROUP, error_code=Error.GROUP_AUTHORIZATION_FAILED)
    coordinator.on_response(0, find.id, FindCoordinatorResponse(coordinators=[refused]))
    assert coordinator.events == [ConsumerFailed(Error.GROUP_AUTHORIZATION_FAILED)]
    coordinator.poll(10_000, {TOPIC: 1})
    assert coordinator.take() == []


def test_new_partitions_make_the_leader_join_again() -> None:
    net = GroupNetwork(msgspec.structs.replace(config(), enable_auto_commit=False))
    first = net.start()
    assert first is not None
    net.settle()
    first.coordinator.poll(net.now, {TOPIC: PARTITIONS})
    assert "JOIN_GROUP" not in [outgoing.api for outgoing in first.coordinator.take()]
    first.coordinator.poll(net.now, {TOPIC: PARTITIONS + 1})
    assert "JOIN_GROUP" in [outgoing.api for outgoing in first.coordinator.take()]


@pytest.mark.parametrize(
    "wrong", [{"session_timeout_ms": 3_000}, {"assignors": ()}], ids=["heartbeat", "assignors"]
)
def test_invalid_settings_are_rejected(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"heartbeat.interval.ms|partition.assignment.strategy"):
        msgspec.convert({"group_id": GROUP, **wrong}, ConsumerConfig)


def test_consumer_events_name_the_partitions() -> None:
    net, (first,) = group_of(1)
    assigned = first.subscription.assigned
    first.coordinator.close(net.now)
    assert first.coordinator.events[-1] == PartitionsRevoked(assigned)
