"""A consumer in a rack fetches from the leader's preferred read replica."""

from typing import Any

import pytest

from brokertwin.clients.fetcher import Fetcher, FetchSettings, Records
from brokertwin.clients.metadata_snapshot import MetadataSnapshot, PartitionInfo
from brokertwin.clients.partitions import Node, TopicPartition
from brokertwin.clients.subscription_state import SubscriptionState
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.fetch import (
    FetchableTopicResponse,
    FetchResponse,
    FetchResponsePartitionData,
)

VERSION, NOW, AGE_MS = 12, 1_700_000_000_000, 300_000
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
LEADER, NEARBY = 1, 3


def snapshot(*offline: int) -> MetadataSnapshot:
    partitions = {
        each: PartitionInfo(each, LEADER, 5, (1, 2, 3), (1, 2, 3), offline) for each in (T0, T1)
    }
    nodes = {each: Node(each, "localhost", 9092) for each in (1, 2, 3)}
    return MetadataSnapshot(nodes=nodes, partitions=partitions)


class Reader:
    """A consumer of two partitions at offset 5."""

    def __init__(self) -> None:
        self.subscription = SubscriptionState(["t"])
        self.subscription.assign([T0, T1])
        for partition in (T0, T1):
            self.subscription.seek(partition, 5)
        self.fetcher = Fetcher(FetchSettings(client_rack="west"), self.subscription)
        self.now = NOW

    def requested(self, *offline: int) -> dict[int, list[int]]:
        wanted = self.fetcher.wanted(snapshot(*offline), self.now)
        fetches = [self.fetcher.fetch(node, parts, VERSION) for node, parts in wanted.items()]
        assert {each.body.rack_id for each in fetches} <= {"west"}
        return {each.node: sorted(at.partition for at in each.data.to_send) for each in fetches}

    def receive(
        self, node: int, *parts: FetchResponsePartitionData, offset: int | None = None
    ) -> None:
        response = FetchResponse(
            responses=[FetchableTopicResponse(topic="t", partitions=list(parts))]
        )
        found = {T0: Records([(offset, "r")], offset + 1)} if offset is not None else {}
        self.fetcher.on_response(node, response, VERSION, found, self.now)

    def is_sent_nearby(self) -> None:
        """The leader names a replica for t-0, and has t-1 itself."""
        assert self.requested() == {LEADER: [0, 1]}
        self.receive(LEADER, part(0, preferred_read_replica=NEARBY), part(1))


def part(number: int, **fields: Any) -> FetchResponsePartitionData:
    return FetchResponsePartitionData(partition_index=number, **fields)


def test_the_next_fetch_of_the_partition_goes_to_the_replica() -> None:
    reader = Reader()
    reader.is_sent_nearby()
    assert reader.requested() == {NEARBY: [0], LEADER: [1]}
    reader.receive(NEARBY, part(0), offset=5)
    assert [record for *_, record in reader.fetcher.take()] == ["r"]
    assert reader.subscription.positions[T0] == 6
    assert list(reader.requested()) == [NEARBY], "the leader's fetch is under way"


def test_a_preferred_replica_expires_with_metadata_age() -> None:
    reader = Reader()
    reader.is_sent_nearby()
    reader.now += AGE_MS - 1
    assert NEARBY in reader.requested()
    reader.receive(NEARBY, part(0))
    reader.receive(LEADER, part(1))
    reader.now += 1
    assert reader.requested() == {LEADER: [0, 1]}


def test_renaming_a_replica_does_not_extend_it() -> None:
    reader = Reader()
    reader.is_sent_nearby()
    reader.now += AGE_MS // 2
    reader.fetcher._preferred.name(T0, NEARBY, reader.now)
    reader.now += AGE_MS // 2
    assert reader.requested() == {LEADER: [0, 1]}


def test_an_offline_replica_is_not_used() -> None:
    reader = Reader()
    reader.is_sent_nearby()
    assert reader.requested(NEARBY) == {LEADER: [0, 1]}
    assert reader.fetcher.needs_metadata


def test_out_of_range_at_a_replica_returns_to_the_leader() -> None:
    reader = Reader()
    reader.is_sent_nearby()
    reader.requested()
    reader.receive(NEARBY, part(0, error_code=int(Error.OFFSET_OUT_OF_RANGE)))
    reader.receive(LEADER, part(1))
    assert reader.subscription.without_offset == set()
    assert reader.requested() == {LEADER: [0, 1]}
    codes = [part(0, error_code=int(Error.OFFSET_OUT_OF_RANGE)), part(1)]
    reader.receive(LEADER, *codes)
    assert reader.subscription.without_offset == {T0}, "nobody has it"


@pytest.mark.parametrize("error", [Error.NOT_LEADER_OR_FOLLOWER, Error.FENCED_LEADER_EPOCH])
def test_other_errors_return_to_the_leader_and_request_metadata(error: Error) -> None:
    reader = Reader()
    reader.is_sent_nearby()
    reader.requested()
    reader.receive(NEARBY, part(0, error_code=int(error)))
    reader.receive(LEADER, part(1))
    assert reader.fetcher.needs_metadata
    assert reader.requested() == {LEADER: [0, 1]}


def test_a_missing_response_returns_to_the_leader() -> None:
    reader = Reader()
    reader.is_sent_nearby()
    reader.requested()
    reader.fetcher.failed(NEARBY)
    reader.receive(LEADER, part(1))
    assert reader.requested() == {LEADER: [0, 1]}


def test_a_reassigned_partition_starts_at_its_leader() -> None:
    reader = Reader()
    reader.is_sent_nearby()
    reader.subscription.assign([T1])
    reader.requested()
    reader.receive(LEADER, part(1))
    reader.subscription.assign([T0, T1])
    for partition in (T0, T1):
        reader.subscription.seek(partition, 5)
    assert reader.requested() == {LEADER: [0, 1]}
