"""Metadata updates and their responses (worked examples)."""

from typing import Any

import pytest

from brokertwin.clients.backoff import constant_backoff, retry_backoff
from brokertwin.clients.era import Era
from brokertwin.clients.metadata import (
    ClusterChanged,
    Metadata,
    MetadataSettings,
    RequestAndVersion,
    VersionAdvanced,
)
from brokertwin.clients.partitions import Node, TopicPartition
from brokertwin.protocol.bodies import ZERO_UUID
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

V8, LATEST = 8, 13
TOPIC_0 = TopicPartition("topic", 0)
A, B, C = ("A" * 21 + end for end in "Qgw")


def partition(index: int = 0, **fields: Any) -> MetadataResponsePartition:
    given = {"leader_id": 0, "leader_epoch": 100, "replica_nodes": [0], "isr_nodes": [0]}
    return MetadataResponsePartition(partition_index=index, **(given | fields))


def topic(
    name: str = "topic", *partitions: MetadataResponsePartition, **fields: Any
) -> MetadataResponseTopic:
    return MetadataResponseTopic(name=name, partitions=list(partitions), **fields)


def metadata_response(
    *topics: MetadataResponseTopic, nodes: tuple[int, ...] = (0, 1)
) -> MetadataResponse:
    brokers = [
        MetadataResponseBroker(node_id=node, host="host", port=9092 + node) for node in nodes
    ]
    return MetadataResponse(
        brokers=brokers, cluster_id="cluster", controller_id=0, topics=list(topics)
    )


def with_epoch(epoch: int, topic_id: str = ZERO_UUID, **fields: Any) -> MetadataResponse:
    return metadata_response(
        topic("topic", partition(leader_epoch=epoch, **fields), topic_id=topic_id)
    )


def constant(backoff_ms: int = 100, max_age_ms: int = 1000) -> Metadata:
    return Metadata(
        MetadataSettings(
            refresh_backoff=constant_backoff(backoff_ms), metadata_max_age_ms=max_age_ms
        )
    )


def update(
    metadata: Metadata,
    response: MetadataResponse | None = None,
    now: int = 0,
    version: int = LATEST,
) -> None:
    metadata.update(metadata.new_request(now), response or metadata_response(), version, now)


def test_example_1_the_next_update_is_due_when_the_last_one_expires() -> None:
    metadata = constant(100, MetadataSettings().metadata_max_age_ms)
    update(metadata, now=15_467)
    times = {15_628: 299_839, 15_700: 299_767, 15_706: 299_761, 15_720: 299_747, 15_741: 299_726}
    assert {now: metadata.time_to_next_update(now) for now in times} == times


@pytest.mark.parametrize(
    ("backoff_ms", "max_age_ms", "untouched", "requested"),
    [(100, 1000, 1000, 100), (1000, 100, 1000, 1000)],
)
def test_example_2_back_off_holds_a_request_back(
    backoff_ms: int, max_age_ms: int, untouched: int, requested: int
) -> None:
    metadata = constant(backoff_ms, max_age_ms)
    update(metadata, now=10_000)
    assert metadata.time_to_next_update(10_000) == untouched
    assert metadata.request_update() == metadata.update_version
    assert metadata.time_to_next_update(10_000) == requested
    assert metadata.time_to_next_update(11_000) == 0


def test_example_3_a_failure_counts_as_a_refresh_but_not_as_a_successful_one() -> None:
    metadata = Metadata(MetadataSettings(refresh_backoff=retry_backoff(), metadata_max_age_ms=1000))
    update(metadata, now=100)
    assert metadata.time_to_next_update(1000) == 100
    metadata.failed_update(1100)
    assert metadata.time_to_next_update(1100) == 100
    assert (metadata.last_refresh_ms, metadata.last_successful_refresh_ms) == (1100, 100)


def test_example_4_failures_wait_longer_each_time_and_a_request_does_not_shorten_it() -> None:
    metadata = Metadata()
    waits = []
    for now in (10_000, 10_100, 10_300, 10_700):
        metadata.failed_update(now)
        waits.append(metadata.time_to_allow_update(now))
        metadata.request_update()
        assert metadata.time_to_next_update(now) == waits[-1]
    assert waits == [100, 200, 400, 800]
    assert metadata.attempts == 4
    assert metadata.time_to_next_update(10_700, unit=0.0) == 640


def test_example_5_equivalent_responses_increase_the_backoff() -> None:
    metadata = Metadata()
    update(metadata, with_epoch(7), now=-1000)
    assert metadata.equivalent_response_count == 0
    allowed = []
    for now in (0, 100, 300):
        metadata.request_update()
        update(metadata, with_epoch(7), now=now)
        metadata.request_update()
        allowed.append(now + metadata.time_to_next_update(now))
    assert metadata.equivalent_response_count == 3
    assert allowed == [100, 300, 700]


def test_an_expired_update_resets_the_equivalent_response_count() -> None:
    metadata = Metadata(MetadataSettings(metadata_max_age_ms=1000))
    update(metadata, with_epoch(7), now=0)
    for now in (10, 20, 30, 40, 50):
        update(metadata, with_epoch(7), now=now)
    assert metadata.equivalent_response_count == 5
    assert metadata.time_to_next_update(1049) == 1
    assert metadata.time_to_next_update(1050) == 0
    assert metadata.equivalent_response_count == 0


def test_examples_9_to_10_only_a_newer_epoch_updates_a_known_partition() -> None:
    metadata = Metadata()
    assert not metadata.update_last_seen_epoch_if_newer(TOPIC_0, 99)
    update(metadata, with_epoch(0))
    fed = [42, 42, 41, 41, 42, 43, 43, 42, 41, 44]
    news = [metadata.update_last_seen_epoch_if_newer(TOPIC_0, epoch) for epoch in fed]
    assert [epoch for epoch, is_news in zip(fed, news, strict=True) if is_news] == [42, 43, 44]
    assert news == [True, False, False, False, False, True, False, False, False, True]
    with pytest.raises(ValueError, match="must not be negative"):
        metadata.update_last_seen_epoch_if_newer(TOPIC_0, -1)


def test_example_11_an_older_response_does_not_overwrite() -> None:
    metadata = Metadata()
    update(metadata, with_epoch(100))
    update(metadata, with_epoch(99, isr_nodes=[]))
    assert metadata.snapshot.partitions[TOPIC_0].isr_ids == (0,)
    update(metadata, with_epoch(100, isr_nodes=[]))
    assert metadata.snapshot.partitions[TOPIC_0].isr_ids == ()
    update(metadata, metadata_response())
    assert metadata.snapshot.partitions == {}
    assert metadata.last_seen_leader_epochs.get(TOPIC_0) == 100
    update(metadata, with_epoch(99))
    assert metadata.snapshot.partitions == {}


def test_example_12_a_newer_epoch_from_elsewhere_invalidates_the_leader() -> None:
    metadata = Metadata()
    update(metadata, with_epoch(100))
    assert metadata.current_leader(TOPIC_0).epoch == 100
    assert metadata.update_last_seen_epoch_if_newer(TOPIC_0, 101)
    assert metadata.is_update_requested
    assert TOPIC_0 in metadata.snapshot.partitions
    assert metadata.partition_if_current(TOPIC_0) is None
    assert metadata.current_leader(TOPIC_0).leader is None
    update(metadata, with_epoch(100))
    assert metadata.partition_if_current(TOPIC_0) is None
    update(metadata, with_epoch(101))
    assert metadata.partition_if_current(TOPIC_0) is not None
    assert metadata.current_leader(TOPIC_0).epoch == 101


def test_example_13_another_topic_id_counts_from_its_own_epoch() -> None:
    metadata = Metadata()
    seen = []
    for epoch, topic_id in ((100, ZERO_UUID), (10, A), (12, A), (3, B), (20, C)):
        update(metadata, with_epoch(epoch, topic_id))
        seen.append(metadata.last_seen_leader_epochs.get(TOPIC_0))
    assert seen == [100, 10, 12, 3, 20]
    missing = topic("topic", error_code=Error.UNKNOWN_TOPIC_OR_PARTITION)
    update(metadata, metadata_response(missing))
    assert metadata.last_seen_leader_epochs.get(TOPIC_0) == 20
    assert metadata.snapshot.partitions == {}
    update(metadata, with_epoch(1, C))
    assert metadata.last_seen_leader_epochs.get(TOPIC_0) == 1


def test_example_14_a_partial_response_is_merged() -> None:
    class Retaining(Metadata):
        retained = frozenset({"keep-valid", "keep-new-partitions", "old", "new-valid"})

        def retains(self, topic: str, is_internal: bool, now: int) -> bool:
            return topic in self.retained

    metadata = Retaining()
    old = [
        topic("keep-valid", partition(0), partition(1)),
        topic("keep-new-partitions", partition(0)),
        topic("old", partition(0), partition(1), topic_id=B),
    ]
    update(metadata, metadata_response(*old))
    assert metadata.snapshot.by_topic.keys() == {"keep-valid", "keep-new-partitions", "old"}
    metadata.retained -= {"old"}
    new = [
        topic("keep-new-partitions", *(partition(index) for index in range(3)), topic_id=A),
        topic("new-valid", *(partition(index) for index in range(4))),
        topic("unwanted", partition(0)),
    ]
    partial = RequestAndVersion(MetadataRequest(topics=[]), metadata.request_version, True)
    metadata.update(partial, metadata_response(*new), LATEST, 0)
    counts = {name: len(found) for name, found in metadata.snapshot.by_topic.items()}
    assert counts == {"keep-valid": 2, "keep-new-partitions": 3, "new-valid": 4}
    assert metadata.snapshot.topic_ids == {"keep-new-partitions": A}
    assert metadata.last_seen_leader_epochs.get(TopicPartition("old", 0)) is None


def test_example_20_a_partition_without_leader_is_stored_and_requested_again() -> None:
    metadata = Metadata()
    leaderless = partition(leader_id=-1, error_code=Error.LEADER_NOT_AVAILABLE)
    update(metadata, metadata_response(topic("topic", partition(1), leaderless)), now=50)
    assert metadata.snapshot.partitions[TOPIC_0].leader_id is None
    assert metadata.snapshot.partitions[TOPIC_0].leader_epoch == 100
    assert [p.partition.partition for p in metadata.snapshot.available_partitions("topic")] == [1]
    assert metadata.is_update_requested
    assert metadata.time_to_next_update(50) == 100


def test_example_21_the_bootstrap_requests_an_update_at_once() -> None:
    today = Metadata()
    today.bootstrap([("localhost", 9092), ("other", 9093)])
    assert today.time_to_next_update(1000) == 0
    assert today.update_version == 1
    assert today.snapshot.nodes == {-1: Node(-1, "localhost", 9092), -2: Node(-2, "other", 9093)}
    seed = Metadata(MetadataSettings(refresh_backoff=constant_backoff(), era=Era.KAFKA_0_10))
    seed.bootstrap([("localhost", 9092)], 1000)
    assert (seed.update_version, seed.time_to_next_update(1000)) == (1, 300_000)


def test_example_22_a_leader_from_another_response_applies_at_once() -> None:
    metadata = Metadata()
    update(metadata, with_epoch(7))
    version = metadata.update_version
    two = Node(2, "host", 9094)
    for epoch in (6, 7):
        metadata.update_partition_leadership({TOPIC_0: (2, epoch)}, [two])
        assert metadata.snapshot.partitions[TOPIC_0].leader_id == 0
    metadata.update_partition_leadership({TOPIC_0: (2, 8)}, [two])
    assert metadata.current_leader(TOPIC_0).leader == two
    assert metadata.snapshot.by_node[2][0].leader_epoch == 8
    assert metadata.update_version == version
    update(metadata, with_epoch(7))
    assert metadata.snapshot.partitions[TOPIC_0].leader_id == 2


@pytest.mark.parametrize(
    ("where", "leader"),
    [(TOPIC_0, (9, 8)), (TopicPartition("else", 0), (0, 8)), (TOPIC_0, (0, -1))],
)
def test_a_leader_of_an_unknown_node_partition_or_epoch_is_ignored(
    where: TopicPartition, leader: tuple[int, int]
) -> None:
    metadata = Metadata()
    update(metadata, with_epoch(7))
    before = metadata.snapshot
    metadata.update_partition_leadership({where: leader}, [])
    assert metadata.snapshot is before


def test_an_update_increments_the_version_and_notifies_listeners_first() -> None:
    metadata = Metadata()
    assert metadata.request_update() == 0
    events = metadata.update(metadata.new_request(0), with_epoch(1), LATEST, 5)
    assert events == [ClusterChanged("cluster", metadata.snapshot), VersionAdvanced(1)]
    assert metadata.request_update() == 1


def test_a_partial_update_does_not_restart_the_expiry() -> None:
    metadata = Metadata()
    update(metadata, now=1000)
    partial = RequestAndVersion(MetadataRequest(topics=[]), 0, True)
    metadata.update(partial, metadata_response(), LATEST, 2000)
    assert metadata.last_successful_refresh_ms == 1000
    assert metadata.last_refresh_ms == 2000


def test_epochs_of_old_brokers_are_not_trusted() -> None:
    metadata = Metadata()
    update(metadata, with_epoch(10))
    update(metadata, with_epoch(5), version=V8)
    assert metadata.last_seen_leader_epochs.get(TOPIC_0) is None
    assert metadata.snapshot.partitions[TOPIC_0].leader_epoch is None
    assert metadata.partition_if_current(TOPIC_0) is not None


@pytest.mark.parametrize(
    ("code", "requests_again"),
    [
        (Error.UNKNOWN_TOPIC_OR_PARTITION, True),
        (Error.LEADER_NOT_AVAILABLE, True),
        (72, True),
        (Error.INVALID_TOPIC_EXCEPTION, False),
        (Error.TOPIC_AUTHORIZATION_FAILED, False),
        (Error.NONE, False),
    ],
)
def test_retriable_errors_request_an_update(code: int, requests_again: bool) -> None:
    metadata = Metadata()
    metadata.request_update()
    update(metadata, metadata_response(topic("topic", error_code=code)))
    assert metadata.is_update_requested is requests_again


def test_error_is_returned_once_and_clears_the_others() -> None:
    metadata = Metadata()
    bad = topic("b@d", error_code=Error.INVALID_TOPIC_EXCEPTION)
    secret = topic("secret", error_code=Error.TOPIC_AUTHORIZATION_FAILED)
    update(metadata, metadata_response(bad, secret))
    assert metadata.take_error_of("topic") is None
    assert metadata.take_error_of("b@d") is None
    update(metadata, metadata_response(bad, secret))
    assert metadata.take_error_of("b@d") is Error.INVALID_TOPIC_EXCEPTION
    update(metadata, metadata_response(bad, secret))
    assert metadata.take_error_of("secret") is Error.TOPIC_AUTHORIZATION_FAILED
    assert metadata.take_error_of("secret") is None


def test_a_closed_metadata_takes_no_update() -> None:
    metadata = Metadata()
    metadata.close()
    with pytest.raises(RuntimeError, match="closed"):
        update(metadata)


def test_the_snapshot_finds_leaders_by_node_and_by_topic() -> None:
    metadata = Metadata()
    led = [partition(0), partition(1, leader_id=1), partition(2, leader_id=9)]
    secret = topic("secret", partition(0), error_code=Error.TOPIC_AUTHORIZATION_FAILED)
    internal = topic("__consumer_offsets", is_internal=True)
    update(metadata, metadata_response(topic("topic", *led), secret, internal))
    snapshot = metadata.snapshot
    assert (snapshot.unauthorized_topics, snapshot.partition_count("secret")) == ({"secret"}, None)
    assert [p.partition.partition for p in snapshot.by_node[1]] == [1]
    assert snapshot.leader(TopicPartition("topic", 2)) is None
    assert snapshot.leader(TopicPartition("topic", 1)) == Node(1, "host", 9093)
    assert (snapshot.partition_count("topic"), snapshot.partition_count("none")) == (3, None)
    assert snapshot.internal_topics == {"__consumer_offsets"}
