"""Members of a share group against the broker model."""

from typing import Any

import pytest

from brokertwin.clients.consumer_events import ConsumerFailed, ShareAcknowledged
from brokertwin.clients.fetcher import Records
from brokertwin.clients.metadata_snapshot import MetadataSnapshot
from brokertwin.clients.partitions import Node, TopicPartition
from brokertwin.clients.share_client import ShareClient
from brokertwin.clients.share_fetcher import (
    RECORD_LIMIT,
    LeaderShareRequest,
    ShareFetcher,
    ShareRecord,
    ShareSettings,
)
from brokertwin.clients.share_session import AcknowledgeType, batches_of
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.share_acknowledge import (
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeResponsePartitionData,
    ShareAcknowledgeTopicResponse,
)
from brokertwin.protocol.generated.share_fetch import (
    AcquiredRecords,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
    ShareFetchResponsePartitionData,
)
from tests.support.bench_network import World
from tests.support.machine import header

GROUP, TOPIC = "parcels", "orders"
AT = TopicPartition(TOPIC, 0)
ACCEPT, RELEASE, REJECT = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT
RENEW = AcknowledgeType.RENEW
LOCK_MS = 15_000


class Shared(World):
    """One partition, a share group that begins with its first record, and its members."""

    def __init__(self, partitions: int = 1, brokers: tuple[int, ...] = (1,)) -> None:
        super().__init__(brokers)
        self.bench.topic(TOPIC, partitions)
        self.of_group(share_auto_offset_reset="earliest")
        self.got: dict[ShareClient, list[ShareRecord]] = {}

    def of_group(self, **configs: str) -> None:
        changes = [
            {"name": name.replace("_", "."), "value": value, "configOperation": 0}
            for name, value in configs.items()
        ]
        resource = {"resourceType": 32, "resourceName": GROUP, "configs": changes}
        response = self.bench.request("INCREMENTAL_ALTER_CONFIGS", 1, {"resources": [resource]})
        assert response["responses"][0]["errorCode"] == 0, response

    def member(self, **settings: Any) -> ShareClient:
        return self.sharer(GROUP, TOPIC, **settings)

    def known(self) -> MetadataSnapshot:
        client = self.log_client(frozenset([TOPIC]))
        self.run(500)
        return client.metadata.snapshot

    def write(self, *names: str, partition: int = 0) -> None:
        for name in names:
            response = self.bench.append(TOPIC, header(1, locator=name), partition=partition)
            assert response["errorCode"] == 0

    def poll(self, client: ShareClient, milliseconds: int = 2_000) -> list[tuple[int, Any, int]]:
        """Return the records of the first poll with any in that time."""
        self.stalled.add(client)
        until = self.now + milliseconds
        while self.now < until:
            if taken := client.poll_records(self.now):
                self.turn()
                return [(offset, record, count) for _, offset, record, count in taken]
            self.turn()
        return []

    def reported(self, client: ShareClient) -> list[tuple[list[int], Error]]:
        return [
            (each.offsets, each.error)
            for each in client.events()
            if isinstance(each, ShareAcknowledged)
        ]

    def requested(self, client: ShareClient, api: str) -> int:
        return self.networks[client].requested[api]


def joined(*names: str, **settings: Any) -> tuple[Shared, ShareClient]:
    world = Shared()
    client = world.member(**settings)
    world.run(8_000)
    assert client.subscription.assigned == [AT]
    client.events()
    world.write(*names)
    return world, client


def test_example_47_returned_records_are_accepted_with_the_next_poll() -> None:
    world, client = joined("a", "b")
    assert world.poll(client) == [(0, "a", 1), (1, "b", 1)]
    assert world.reported(client) == []
    world.write("c")
    assert world.poll(client) == [(2, "c", 1)]
    assert world.reported(client) == [([0, 1], Error.NONE)]
    assert world.requested(client, "SHARE_ACKNOWLEDGE") == 0


def test_example_48_nothing_is_fetched_while_the_application_processes() -> None:
    world, client = joined("a")
    assert world.poll(client) == [(0, "a", 1)]
    fetches = world.requested(client, "SHARE_FETCH")
    world.write("b")
    world.run(5_000)
    assert world.requested(client, "SHARE_FETCH") == fetches


def test_example_49_each_record_is_acknowledged_separately() -> None:
    world, client = joined("a", "b", "c", is_explicit=True)
    assert [name for _, name, _ in world.poll(client)] == ["a", "b", "c"]
    with pytest.raises(ValueError, match="3 records are not acknowledged"):
        client.poll(world.now)
    for offset, kind in enumerate((ACCEPT, RELEASE, REJECT)):
        client.acknowledge(AT, offset, kind)
    with pytest.raises(ValueError, match="orders-0 1 is not held"):
        client.acknowledge(AT, 1, ACCEPT)
    assert world.poll(client) == [(1, "b", 2)]
    assert world.reported(client) == [([0, 1, 2], Error.NONE)]


def test_example_50_a_commit_sends_acknowledgements_at_once() -> None:
    world, client = joined("a", "b")
    world.poll(client)
    client.commit()
    assert not client.is_acknowledged
    world.run(200)
    assert client.is_acknowledged
    assert world.requested(client, "SHARE_ACKNOWLEDGE") == 1
    assert world.reported(client) == [([0, 1], Error.NONE)]


def test_example_51_a_record_with_an_expired_lock_is_redelivered() -> None:
    world, first = joined("a", is_explicit=True)
    assert world.poll(first) == [(0, "a", 1)]
    second = world.member()
    assert world.poll(second, LOCK_MS) == []
    assert world.poll(second, 3 * LOCK_MS) == [(0, "a", 2)]
    first.acknowledge(AT, 0, ACCEPT)
    first.commit()
    world.run(200)
    assert world.reported(first) == [([0], Error.INVALID_RECORD_STATE)]


def test_example_52_a_disconnect_releases_the_members_records() -> None:
    world, first = joined("a", is_explicit=True)
    assert world.poll(first) == [(0, "a", 1)]
    second = world.member()
    world.run(8_000)
    connection = world.networks[first].connection(1)
    world.networks[first].cut(1)
    world.bench.disconnect(connection)
    assert world.poll(second) == [(0, "a", 2)]
    first.acknowledge(AT, 0, ACCEPT)
    assert world.reported(first) == [([0], Error.INVALID_SHARE_SESSION_EPOCH)]


def test_example_53_buffered_records_are_dropped_at_lock_expiry() -> None:
    world, client = joined(max_poll_records=1)
    world.of_group(share_record_lock_duration_ms=str(LOCK_MS))
    world.bench.append(TOPIC, header(2, locator="a,b"))
    assert world.poll(client) == [(0, "a", 1)]
    client.commit()
    world.run(2 * LOCK_MS)
    assert world.poll(client) == [(1, "b", 2)]


def test_example_54_a_leaving_member_releases_unacknowledged_records() -> None:
    world, first = joined("a", "b", is_explicit=True)
    world.poll(first)
    first.acknowledge(AT, 0, ACCEPT)
    second = world.member()
    first.close(world.now)
    world.run(1_000)
    assert first.is_quiet
    world.run(10_000)
    assert world.read[second] == [(AT, 1, "b")]


def test_example_55_after_an_error_of_its_session_another_one_is_opened() -> None:
    world, client = joined("a")
    world.poll(client)
    session = client.sharing.sessions[1]
    session.epoch += 5
    world.write("b")
    assert world.poll(client) == [(1, "b", 1)]
    assert client.sharing.sessions[1] is not session
    assert world.reported(client) == [([0], Error.INVALID_SHARE_SESSION_EPOCH)]


def test_example_56_a_session_without_partitions_is_closed() -> None:
    world = Shared(partitions=2, brokers=(1, 2))
    snapshot = world.known()
    sharing = ShareFetcher(ShareSettings(), GROUP, "member")

    def requested(*assigned: TopicPartition) -> list[LeaderShareRequest]:
        return sharing.requests(assigned, snapshot, world.now, lambda _: True)

    sharing.poll([], world.now)
    both = requested(AT, TopicPartition(TOPIC, 1))
    assert sorted((each.node, each.body.share_session_epoch) for each in both) == [(1, 0), (2, 0)]
    for each in both:
        sharing.fetched(each, ShareFetchResponse(), {}, world.now)
    stays, goes = sorted(requested(AT), key=lambda each: each.is_last)
    assert isinstance(stays.body, ShareFetchRequest)
    assert isinstance(goes.body, ShareAcknowledgeRequest)
    assert (stays.body.share_session_epoch, goes.body.share_session_epoch) == (1, -1)
    sharing.acknowledged(goes, ShareAcknowledgeResponse(), world.now)
    assert list(sharing.sessions) == [stays.node]


def test_example_57_record_limit_fetches_from_one_leader_at_a_time() -> None:
    world = Shared(partitions=2, brokers=(1, 2))
    snapshot = world.known()
    sharing = ShareFetcher(ShareSettings(acquire_mode=RECORD_LIMIT), GROUP, "member")
    both = (AT, TopicPartition(TOPIC, 1))
    nodes = []
    for _ in range(4):
        sharing.poll(both, world.now)
        (request,) = sharing.requests(both, snapshot, world.now, lambda _: True)
        assert sharing.requests(both, snapshot, world.now, lambda _: True) == []
        sharing.fetched(request, ShareFetchResponse(), {}, world.now)
        nodes.append(request.node)
    assert sorted(nodes[:2]) == [1, 2]
    assert nodes[:2] == nodes[2:]


def member_with(world: Shared, last: int, items: Records) -> tuple[ShareFetcher, Any]:
    """A member that has acquired the offsets up to `last`, with these records, and the place."""
    sharing = ShareFetcher(ShareSettings(), GROUP, "member")
    sharing.poll([AT], world.now)
    (request,) = sharing.requests([AT], world.known(), world.now, lambda _: True)
    place = request.topics[0].topic_id, 0
    acquired = [AcquiredRecords(first_offset=0, last_offset=last, delivery_count=1)]
    found = ShareFetchResponsePartitionData(partition_index=0, acquired_records=acquired)
    response = ShareFetchResponse(
        acquisition_lock_timeout_ms=LOCK_MS,
        responses=[ShareFetchableTopicResponse(topic_id=place[0], partitions=[found])],
    )
    sharing.fetched(request, response, {place: items}, world.now)
    return sharing, place


def holding(world: Shared) -> tuple[ShareFetcher, Any]:
    """Return a member that holds the records at offsets 0 to 1, and the partition's key."""
    sharing, place = member_with(world, 1, Records([(0, "a"), (1, "b")], 2, [(2, 0)]))
    assert len(sharing.poll([AT], world.now)) == 2
    return sharing, place


@pytest.mark.parametrize(
    ("error", "is_reported_again"),
    [
        (Error.COORDINATOR_LOAD_IN_PROGRESS, True),
        (Error.NOT_LEADER_OR_FOLLOWER, False),
        (Error.INVALID_RECORD_STATE, False),
    ],
)
def test_example_58_a_commit_is_retried_at_a_leader(error: Error, is_reported_again: bool) -> None:
    world = Shared()
    sharing, place = holding(world)
    snapshot = world.known()
    sharing.acknowledge(AT, 0, RELEASE)
    sharing.commit()

    def result(now: int) -> list[LeaderShareRequest]:
        return sharing.requests([AT], snapshot, now, lambda _: True)

    (request,) = result(world.now)
    refused = ShareAcknowledgeResponsePartitionData(partition_index=0, error_code=error)
    response = ShareAcknowledgeResponse(
        responses=[ShareAcknowledgeTopicResponse(topic_id=place[0], partitions=[refused])]
    )
    sharing.acknowledged(request, response, world.now)
    if not is_reported_again:
        assert sharing.events == [ShareAcknowledged(AT, [0, 1], error)]
        return
    assert (sharing.events, sharing.is_acknowledged, result(world.now)) == ([], False, [])
    (again,) = result(max(sharing.deadlines()))
    assert again.topics == request.topics
    assert again.body.share_session_epoch == request.body.share_session_epoch + 1
    taken = ShareAcknowledgeResponsePartitionData(partition_index=0)
    sharing.acknowledged(
        again,
        ShareAcknowledgeResponse(
            responses=[ShareAcknowledgeTopicResponse(topic_id=place[0], partitions=[taken])]
        ),
        world.now,
    )
    assert sharing.events == [ShareAcknowledged(AT, [0, 1], Error.NONE)]


def test_example_59_a_leader_that_has_left_the_cluster_is_not_waited_for() -> None:
    world = Shared()
    sharing, _ = holding(world)
    sharing.commit()
    other = MetadataSnapshot(nodes={2: Node(2, "other", 9092)})
    assert sharing.requests([AT], other, world.now, lambda _: False) == []
    assert sharing.events == [ShareAcknowledged(AT, [0, 1], Error.NOT_LEADER_OR_FOLLOWER)]
    assert (sharing.is_acknowledged, sharing.is_closed) == (True, True)


def test_example_60_a_renewed_record_is_returned_with_the_next_poll() -> None:
    world, first = joined("a", "b", is_explicit=True)
    assert world.poll(first) == [(0, "a", 1), (1, "b", 1)]
    assert first.sharing.lock_ms == 2 * LOCK_MS
    second = world.member()
    for _ in range(3):
        world.run(LOCK_MS)
        first.acknowledge(AT, 0, RENEW)
        if (AT, 1) in first.sharing.held:
            first.acknowledge(AT, 1, ACCEPT)
        world.write("c")
        assert world.poll(first) == [(0, "a", 1)], "and no other record"
    first.acknowledge(AT, 0, ACCEPT)
    assert world.reported(first)[:2] == [([0, 1], Error.NONE), ([0], Error.NONE)]
    first.close(world.now)
    world.run(5_000)
    assert [record for _, _, record in world.read[second]] == ["c", "c", "c"]


def test_example_61_a_late_renewal_loses_the_record() -> None:
    world, first = joined("a", is_explicit=True)
    world.poll(first)
    world.run(3 * LOCK_MS)
    first.acknowledge(AT, 0, RENEW)
    assert world.poll(first) == [(0, "a", 2)], "nobody else had asked for it"
    assert world.reported(first) == [([0], Error.INVALID_RECORD_STATE)]


def test_implicit_acknowledgement_does_not_renew() -> None:
    world, client = joined("a")
    world.poll(client)
    with pytest.raises(ValueError, match="explicit mode"):
        client.acknowledge(AT, 0, RENEW)
    assert client.sharing.held


def test_a_renewal_of_a_closed_session_returns_no_records() -> None:
    world, first = joined("a", is_explicit=True)
    world.poll(first)
    first.acknowledge(AT, 0, RENEW)
    first.sharing.lost(1)
    assert first.poll(world.now) == []
    assert world.reported(first) == [([0], Error.NETWORK_EXCEPTION)]


def test_missing_partitions_wait_and_request_metadata() -> None:
    world = Shared()
    snapshot = world.known()
    sharing = ShareFetcher(ShareSettings(), GROUP, "member")
    sharing.poll([AT], world.now)
    (request,) = sharing.requests([AT], snapshot, world.now, lambda _: True)
    topic = request.topics[0].topic_id
    moved = ShareFetchResponsePartitionData(
        partition_index=0, error_code=Error.NOT_LEADER_OR_FOLLOWER
    )
    response = ShareFetchResponse(
        responses=[ShareFetchableTopicResponse(topic_id=topic, partitions=[moved])]
    )
    sharing.fetched(request, response, {}, world.now)
    assert sharing.needs_metadata
    assert sharing.requests([AT], snapshot, world.now, lambda _: True) == []
    (later,) = sharing.deadlines()
    assert len(sharing.requests([AT], snapshot, later, lambda _: True)) == 1


def test_acquired_offsets_without_records_are_gaps() -> None:
    world = Shared()
    sharing, _ = member_with(world, 2, Records([(1, "b")], 3, [(3, 0)]))
    (result,) = sharing.requests([AT], world.known(), world.now, lambda _: True)
    (batch, last) = result.topics[0].partitions[0].acknowledgement_batches
    assert (batch.first_offset, batch.acknowledge_types) == (0, [AcknowledgeType.GAP])
    assert (last.first_offset, last.acknowledge_types) == (2, [AcknowledgeType.GAP])
    assert sharing.poll([AT], world.now) == [ShareRecord(AT, 1, "b", 1)]


def test_a_missing_group_permission_is_fatal_for_share_groups() -> None:
    world = Shared()
    sharing = ShareFetcher(ShareSettings(), GROUP, "member")
    sharing.poll([AT], world.now)
    (request,) = sharing.requests([AT], world.known(), world.now, lambda _: True)
    refused = ShareFetchResponse(error_code=Error.GROUP_AUTHORIZATION_FAILED)
    sharing.fetched(request, refused, {}, world.now)
    assert sharing.events == [ConsumerFailed(Error.GROUP_AUTHORIZATION_FAILED)]
    assert sharing.requests([AT], world.known(), world.now, lambda _: True) == []


def test_acknowledgements_are_batched_in_runs() -> None:
    def result(*kinds: AcknowledgeType | None) -> list[tuple[int, int, list[int]]]:
        offsets = {at: kind for at, kind in enumerate(kinds) if kind is not None}
        return [(b.first_offset, b.last_offset, b.acknowledge_types) for b in batches_of(offsets)]

    assert result(ACCEPT, ACCEPT, None, REJECT) == [(0, 1, [ACCEPT]), (3, 3, [REJECT])]
    assert result(ACCEPT, RELEASE) == [(0, 1, [ACCEPT, RELEASE])]
