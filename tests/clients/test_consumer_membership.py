"""Members of consumer groups (KIP-848); `simulation/test_losses.py` has the losses."""

from typing import Any

import pytest

from brokertwin.clients.client_loop import ClientLoop
from brokertwin.clients.consumer_client import ConsumerClient
from brokertwin.clients.consumer_config import GroupProtocol
from brokertwin.clients.consumer_events import (
    Event,
    PartitionsAssigned,
    PartitionsLost,
    PartitionsRevoked,
)
from brokertwin.clients.consumer_membership import ConsumerMembership, MembershipPhase
from brokertwin.clients.partitions import TopicPartition
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)
from tests.support.bench_network import World

TOPIC = "orders"
HEARTBEAT_MS = 1_000


def world(partitions: int = 4) -> World:
    made = World(
        (1,),
        group_consumer_heartbeat_interval_ms=HEARTBEAT_MS,
        group_consumer_session_timeout_ms=6_000,
    )
    made.bench.topic(TOPIC, partitions)
    return made


def member(made: World, **config: Any) -> ConsumerClient:
    return made.consumer("billing", TOPIC, group_protocol=GroupProtocol.CONSUMER, **config)


def phase(client: ConsumerClient) -> MembershipPhase:
    assert isinstance(client.coordinator, ConsumerMembership)
    return client.coordinator.phase


def kinds(events: list[Event]) -> list[str]:
    return [
        type(event).__name__
        for event in events
        if isinstance(event, PartitionsAssigned | PartitionsRevoked | PartitionsLost)
    ]


def owned(client: ConsumerClient) -> list[int]:
    return [at.partition for at in client.subscription.assigned]


def request_count(made: World, client: ClientLoop) -> int:
    return made.networks[client].requested["CONSUMER_GROUP_HEARTBEAT"]


def test_example_27_a_member_joins_with_its_own_id_and_acknowledges() -> None:
    made = world()
    client = member(made)
    assert phase(client) is MembershipPhase.JOINING
    made.run(1_500)
    assert (phase(client), owned(client)) == (MembershipPhase.STABLE, [0, 1, 2, 3])
    assert kinds(client.events()) == ["PartitionsAssigned"]
    assert client.coordinator.generation.id > 0
    assert len(client.coordinator.generation.member_id) == 22
    before = request_count(made, client)
    made.run(10 * HEARTBEAT_MS)
    assert request_count(made, client) - before in (9, 10)


def test_example_28_a_second_member_gets_partitions_after_revocation_and_commit() -> None:
    made = world()
    first, producer = member(made), made.producer()
    made.run(2_000)
    for partition in range(4):
        producer.send(made.now, TopicPartition(TOPIC, partition), 10)
    made.run(1_000)
    first.events()
    second = member(made)
    while not owned(second):
        assert not set(owned(first)) & set(owned(second))
        made.turn()
    made.run(3_000)
    assert sorted(owned(first) + owned(second)) == [0, 1, 2, 3]
    assert (len(owned(first)), len(owned(second))) == (2, 2)
    assert kinds(first.events()) == ["PartitionsRevoked", "PartitionsAssigned"]
    assert made.read[second] == []


def test_example_29_a_member_without_polls_leaves_and_rejoins_with_the_same_id() -> None:
    made = world()
    client = member(made, max_poll_interval_ms=3_000)
    made.run(2_000)
    member_id = client.coordinator.generation.member_id
    made.stalled.add(client)
    made.run(4_000)
    assert phase(client) is MembershipPhase.STALE
    made.stalled.clear()
    client.events()
    made.run(2_000)
    assert kinds(client.events()) == ["PartitionsLost", "PartitionsAssigned"]
    assert (owned(client), client.coordinator.generation.member_id) == ([0, 1, 2, 3], member_id)


def test_late_response_to_the_leave_does_not_disturb_the_member_that_joins_again() -> None:
    """ConsumerMembershipManager ignores a response with a negative member epoch."""
    made = world()
    client = member(made, max_poll_interval_ms=3_000, group_instance_id="a")
    made.run(2_000)
    made.stalled.add(client)
    made.run(2_500)
    made.networks[client].is_mute = True
    while phase(client) is not MembershipPhase.STALE:
        made.turn()
    made.stalled.clear()
    made.turn()
    assert phase(client) is MembershipPhase.JOINING
    made.networks[client].is_mute = False
    before = request_count(made, client)
    made.run(3 * HEARTBEAT_MS)
    assert (phase(client), owned(client)) == (MembershipPhase.STABLE, [0, 1, 2, 3])
    assert request_count(made, client) - before <= 6


def test_example_30_a_member_is_fenced_after_its_session_and_rejoins() -> None:
    made = world()
    client = member(made)
    made.run(2_000)
    made.networks[client].is_down.add(1)
    for node in made.networks[client].nodes:
        made.networks[client].cut(node)
    made.run(8_000)
    made.networks[client].is_down.clear()
    client.events()
    made.run(4_000)
    assert kinds(client.events()) == ["PartitionsLost", "PartitionsAssigned"]
    assert phase(client) is MembershipPhase.STABLE


def test_example_31_a_returning_static_member_gets_its_partitions() -> None:
    made = world()
    static, other = member(made, group_instance_id="a"), member(made)
    made.run(5_000)
    had = owned(static)
    static.close(made.now)
    made.turn()
    made.turn()
    assert static.is_quiet
    made.remove(static)
    made.run(2_000)
    assert len(owned(other)) == 2
    again = member(made, group_instance_id="a")
    made.run(3_000)
    assert owned(again) == had


def test_example_32_an_unsupported_assignor_is_fatal() -> None:
    made = world()
    client = member(made, group_remote_assignor="none")
    made.run(2_000)
    assert client.coordinator.fatal is Error.UNSUPPORTED_ASSIGNOR


@pytest.mark.parametrize("error", [Error.STALE_MEMBER_EPOCH, Error.UNKNOWN_MEMBER_ID])
def test_offset_fetches_have_the_member_id_and_are_retried(error: Error) -> None:
    made = world()
    client = member(made)
    made.run(2_000)
    coordinator = client.coordinator
    client.subscription.positions = dict.fromkeys(client.subscription.positions)
    coordinator.tick(made.now)
    (request,) = coordinator.take()
    assert isinstance(request.body, OffsetFetchRequest)
    (group,) = request.body.groups
    generation = coordinator.generation
    assert (group.member_id, group.member_epoch) == (generation.member_id, generation.id)
    refused = OffsetFetchResponse(
        groups=[OffsetFetchResponseGroup(group_id="billing", error_code=error)]
    )
    coordinator.on_response(made.now, request.id, refused)
    assert (coordinator.fatal, coordinator.take()) == (None, [])
    made.run(1_000)
    assert None not in client.subscription.positions.values()


def test_a_leaving_member_is_removed_at_once() -> None:
    made = world()
    first, second = member(made), member(made)
    made.run(5_000)
    first.close(made.now)
    made.run(2_500)
    assert owned(second) == [0, 1, 2, 3]
    assert phase(first) is MembershipPhase.LEAVING
