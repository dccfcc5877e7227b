"""Fetching: what polls return and which fetches follow."""

from typing import Any

from brokertwin.clients.fetcher import Fetcher, FetchSettings, OffsetReset, PendingFetch, Records
from brokertwin.clients.metadata_snapshot import MetadataSnapshot, PartitionInfo
from brokertwin.clients.partitions import Node, TopicPartition
from brokertwin.clients.subscription_state import SubscriptionState
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.fetch import (
    FetchableTopicResponse,
    FetchResponse,
    FetchResponsePartitionData,
)
from brokertwin.protocol.generated.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)

VERSION = 12
NOW = 1_700_000_000_000
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def snapshot(leader: int | None = 1) -> MetadataSnapshot:
    partitions = {p: PartitionInfo(p, leader, 5, (1,), (1,), ()) for p in (T0, T1)}
    return MetadataSnapshot(nodes={1: Node(1, "localhost", 9092)}, partitions=partitions)


def reader(**settings: Any) -> tuple[Fetcher, SubscriptionState]:
    """Return a fetcher of two partitions at offset 0."""
    subscription = SubscriptionState(["t"])
    subscription.assign([T0, T1])
    for partition in (T0, T1):
        subscription.seek(partition, 0)
    return Fetcher(FetchSettings(**settings), subscription), subscription


def fetches(fetcher: Fetcher, leader: int | None = 1) -> list[PendingFetch]:
    wanted = fetcher.wanted(snapshot(leader), NOW)
    return [fetcher.fetch(node, parts, VERSION) for node, parts in wanted.items()]


def respond(fetcher: Fetcher, session: int, *offsets: int, code: int = 0) -> None:
    """t-0 is answered with these records, or an error; t-1, in a full response, with nothing."""
    parts = [FetchResponsePartitionData(partition_index=0, error_code=code)]
    if fetcher._sessions[1].next_metadata.is_full:
        parts.append(FetchResponsePartitionData(partition_index=1))
    response = FetchResponse(
        session_id=session, responses=[FetchableTopicResponse(topic="t", partitions=parts)]
    )
    items = [(each, f"r{each}") for each in offsets]
    found = {T0: Records(items, offsets[-1] + 1)} if offsets else {}
    fetcher.on_response(1, response, VERSION, found, NOW)


def test_example_21_the_next_fetch_is_sent_after_the_last_buffered_record() -> None:
    fetcher, subscription = reader(max_poll_records=2)
    (first,) = fetches(fetcher)
    assert fetches(fetcher) == []
    respond(fetcher, 9, 0, 1, 2, 3, 4)
    for expected, is_requested in ((["r0", "r1"], False), (["r2", "r3"], False), (["r4"], True)):
        assert [record for *_, record in fetcher.take()] == expected
        assert bool(fetches(fetcher)) is is_requested
    assert subscription.positions == {T0: 5, T1: 0}
    assert first.body.session_epoch == 0


def test_example_22_a_session_continues_with_changed_partitions() -> None:
    fetcher, _ = reader()
    fetches(fetcher)
    respond(fetcher, 9, 0, 1)
    fetcher.take()
    (second,) = fetches(fetcher)
    assert (second.body.session_id, second.body.session_epoch) == (9, 1)
    (topic,) = second.body.topics
    assert [(each.partition, each.fetch_offset) for each in topic.partitions] == [(0, 2)]


def test_example_23_records_of_a_revoked_partition_are_dropped() -> None:
    fetcher, subscription = reader()
    fetches(fetcher)
    respond(fetcher, 9, 0, 1)
    subscription.is_pending_revocation = True
    assert fetcher.take() == []
    assert subscription.positions[T0] == 0
    fetcher, subscription = reader()
    fetches(fetcher)
    respond(fetcher, 9, 0, 1)
    subscription.assign([T1])
    assert fetcher.take() == []


def test_example_24_records_for_another_position_are_dropped() -> None:
    fetcher, subscription = reader()
    fetches(fetcher)
    respond(fetcher, 9, 0, 1)
    subscription.seek(T0, 40)
    assert fetcher.take() == []
    (again,) = fetches(fetcher)
    assert again.body.topics[0].partitions[0].fetch_offset == 40


def test_example_25_offset_out_of_range_applies_the_reset_policy() -> None:
    fetcher, subscription = reader(auto_offset_reset=OffsetReset.EARLIEST)
    fetches(fetcher)
    respond(fetcher, 9, code=Error.OFFSET_OUT_OF_RANGE)
    ((node, request),) = fetcher.lookups(snapshot())
    assert fetcher.lookups(snapshot()) == []
    assert (node, request.topics[0].partitions[0].timestamp) == (1, -2)
    listed = ListOffsetsTopicResponse(
        name="t", partitions=[ListOffsetsPartitionResponse(partition_index=0, offset=30)]
    )
    fetcher.looked_up(ListOffsetsResponse(topics=[listed]))
    assert subscription.positions[T0] == 30


def test_example_26_a_missing_response_restarts_the_session_and_requests_metadata() -> None:
    fetcher, _ = reader()
    fetches(fetcher)
    respond(fetcher, 9, 0)
    fetcher.take()
    fetches(fetcher)
    fetcher.failed(1)
    assert fetcher.needs_metadata
    (again,) = fetches(fetcher)
    assert (again.body.session_id, again.body.session_epoch) == (9, 0)
    assert len(again.body.topics[0].partitions) == 2


def test_a_missing_leader_requests_metadata() -> None:
    fetcher, _ = reader()
    assert fetches(fetcher, None) == []
    assert fetcher.needs_metadata


def test_an_unanswered_lookup_is_repeated() -> None:
    fetcher, subscription = reader()
    subscription.positions[T0] = None
    subscription.without_offset.add(T0)
    ((_, request),) = fetcher.lookups(snapshot())
    fetcher.lookup_failed(request)
    assert len(fetcher.lookups(snapshot())) == 1


def test_another_leader_in_a_response_requests_metadata() -> None:
    fetcher, subscription = reader()
    fetches(fetcher)
    respond(fetcher, 9, code=Error.NOT_LEADER_OR_FOLLOWER)
    assert fetcher.needs_metadata
    assert subscription.positions[T0] == 0


def test_a_paused_partition_is_not_fetched_but_buffered_records_are_returned() -> None:
    fetcher, subscription = reader()
    fetches(fetcher)
    subscription.paused.add(T0)
    respond(fetcher, 9, 0, 1)
    assert [record for *_, record in fetcher.take()] == ["r0", "r1"]
    (second,) = fetches(fetcher)
    assert [(each.topic, each.partitions) for each in second.body.forgotten_topics_data] == [
        ("t", [0])
    ]
    fetcher.failed(1)
    assert set(fetcher.wanted(snapshot(), NOW)[1]) == {T1}
    subscription.paused.clear()
    assert set(fetcher.wanted(snapshot(), NOW)[1]) == {T0, T1}
