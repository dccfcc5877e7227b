"""Validate positions against leader epochs (KIP-320)."""

from typing import Any

from brokertwin.clients.consumer_client import ConsumerClient
from brokertwin.clients.consumer_events import Truncated
from brokertwin.clients.fetcher import Fetcher, FetchSettings, OffsetReset, PendingFetch, Records
from brokertwin.clients.fetching_client import ReaderClient
from brokertwin.clients.metadata import Metadata, RequestAndVersion
from brokertwin.clients.partitions import TopicPartition
from brokertwin.clients.position_validation import PositionValidator, ValidationRequest
from brokertwin.clients.subscription_state import SubscriptionState
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.fetch import (
    FetchableTopicResponse,
    FetchResponse,
    FetchResponsePartitionData,
)
from brokertwin.protocol.generated.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from brokertwin.protocol.generated.offset_for_leader_epoch import (
    OffsetForLeaderEpochResponse,
    OffsetForLeaderEpochResponseEpochEndOffset,
    OffsetForLeaderTopicResult,
)
from tests.support.bench_network import FIRST_PORT, World
from tests.support.replicas import BROKERS, TOPIC, Replicas

T0 = TopicPartition("t", 0)
ORDERS = TopicPartition(TOPIC, 0)
TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
VERSION, NOW, LAG_MS = 12, 1_700_000_000_000, 1_000


class Reader:
    """A consumer's fetching side with t-0, and metadata with its leader."""

    def __init__(self, leader: int = 1, epoch: int = 5) -> None:
        self.subscription = SubscriptionState(["t"])
        self.subscription.assign([T0])
        self.fetcher = Fetcher(FetchSettings(), self.subscription)
        self.metadata = Metadata()
        self.requests: list[ValidationRequest] = []
        self.led_by(leader, epoch)

    @property
    def validator(self) -> PositionValidator:
        return self.fetcher.validator

    def led_by(self, leader: int, epoch: int, topic_id: str = TOPIC_ID) -> None:
        partition = MetadataResponsePartition(
            partition_index=0, leader_id=leader, leader_epoch=epoch, replica_nodes=[], isr_nodes=[]
        )
        topic = MetadataResponseTopic(name="t", topic_id=topic_id, partitions=[partition])
        brokers = [MetadataResponseBroker(node_id=each, host="h", port=each) for each in (1, 2)]
        requested = RequestAndVersion(MetadataRequest(), self.metadata.request_version, False)
        self.metadata.update(requested, MetadataResponse(brokers=brokers, topics=[topic]), 13, NOW)

    def requested(self) -> list[tuple[int, int, int]]:
        """Return the queried leaders, their epochs and the validated epochs."""
        self.validator.look(self.metadata)
        requests = self.validator.requests()
        for request in requests:
            self.validator.on_sent(request)
        self.requests = requests or self.requests
        return [_rendered(request) for request in requests]

    def receive(self, epoch: int = -1, end: int = -1, error: Error = Error.NONE) -> None:
        reported = OffsetForLeaderEpochResponseEpochEndOffset(
            error_code=int(error), leader_epoch=epoch, end_offset=end
        )
        response = OffsetForLeaderEpochResponse(
            topics=[OffsetForLeaderTopicResult(topic="t", partitions=[reported])]
        )
        self.validator.on_response(self.requests[0], response)

    def fetches(self) -> dict[int, int]:
        wanted = self.fetcher.wanted(self.metadata.snapshot, NOW)
        return {node: at[T0].fetch_offset for node, at in wanted.items()}

    def fetch(self) -> PendingFetch:
        ((node, wanted),) = self.fetcher.wanted(self.metadata.snapshot, NOW).items()
        return self.fetcher.fetch(node, wanted, VERSION)

    def reads(self, records: Records) -> list[int]:
        fetch = self.fetch()
        topic = FetchableTopicResponse(
            topic="t", partitions=[FetchResponsePartitionData(partition_index=0)]
        )
        self.fetcher.on_response(
            fetch.node, FetchResponse(responses=[topic]), VERSION, {T0: records}, NOW
        )
        return [offset for _, offset, _ in self.fetcher.take()]


def _rendered(query: ValidationRequest) -> tuple[int, int, int]:
    (topic,) = query.request.topics
    (request,) = topic.partitions
    assert (topic.topic, request.partition) == T0
    return query.node.id, request.current_leader_epoch, request.leader_epoch


def committed(leader: int = 1, epoch: int = 5, at: int = 5) -> Reader:
    """One that begins at 10, which was committed with the epoch `at`."""
    reader = Reader(leader, epoch)
    reader.subscription.seek(T0, 10, at)
    return reader


def test_example_36_a_committed_epoch_is_validated_before_fetching() -> None:
    reader = committed(at=4)
    assert reader.requested() == [(1, 5, 4)]
    assert reader.requested() == [], "it is under way"
    assert reader.fetches() == {}
    reader.receive(epoch=4, end=12)
    assert reader.fetches() == {1: 10}
    assert reader.validator.truncations == []


def test_example_37_a_truncated_log_continues_at_the_epochs_end() -> None:
    reader = committed(at=4)
    reader.requested()
    reader.receive(epoch=3, end=7)
    assert reader.validator.truncations == [Truncated(T0, 10, 7)]
    assert reader.fetches() == {1: 7}
    assert reader.subscription.epochs == {T0: 3}
    assert reader.requested() == [], "this leader has said so"


def test_example_38_an_unknown_epoch_applies_the_reset_policy() -> None:
    reader = committed()
    reader.requested()
    reader.receive(epoch=-1, end=-1)
    assert reader.subscription.without_offset == {T0}
    assert reader.fetches() == {}


def test_example_39_a_new_leader_validates_the_last_batch_read() -> None:
    reader = Reader()
    reader.subscription.seek(T0, 0)
    assert reader.requested() == [], "a position without an epoch is read as it is"
    batches = Records([(0, "a"), (1, "b"), (4, "c")], 6, [(2, 3), (5, 5), (6, 5)])
    assert reader.reads(batches) == [0, 1, 4]
    assert reader.requested() == []
    reader.led_by(2, 6)
    assert reader.requested() == [(2, 6, 5)]
    assert reader.fetches() == {}
    reader.receive(epoch=5, end=6)
    assert reader.fetches() == {2: 6}


def test_example_40_a_committed_epoch_newer_than_metadata_waits_for_newer_metadata() -> None:
    reader = committed(epoch=5, at=6)
    assert reader.requested() == []
    assert (reader.validator.needs_metadata, reader.fetches()) == (True, {})
    reader.led_by(1, 5)
    assert reader.requested() == [], "a broker of the past has answered"
    reader.led_by(2, 6)
    assert reader.requested() == [(2, 6, 6)]


def test_a_recreated_topic_is_not_waited_for() -> None:
    reader = committed(epoch=5, at=6)
    reader.requested()
    reader.led_by(1, 0, topic_id="AAAAAAAAAAAAAAAAAAAAAg")
    assert reader.requested() == [(1, 0, 6)]


def test_the_epoch_is_that_of_the_batch_before_the_position() -> None:
    reader = Reader()
    reader.fetcher.settings = FetchSettings(max_poll_records=2)
    reader.subscription.seek(T0, 0)
    reader.requested()
    reader.reads(Records([(0, "a"), (1, "b"), (2, "c")], 4, [(1, 3), (3, 4), (4, 5)]))
    assert (reader.subscription.positions[T0], reader.subscription.epochs) == (2, {T0: 4})
    reader.fetcher.take()
    assert (reader.subscription.positions[T0], reader.subscription.epochs) == (4, {T0: 5})


def test_buffered_records_are_dropped_during_validation() -> None:
    reader = committed()
    reader.requested()
    reader.receive(epoch=5, end=20)
    fetch = reader.fetch()
    topic = FetchableTopicResponse(
        topic="t", partitions=[FetchResponsePartitionData(partition_index=0)]
    )
    found = {T0: Records([(10, "a")], 11, [(11, 5)])}
    reader.fetcher.on_response(1, FetchResponse(responses=[topic]), VERSION, found, NOW)
    reader.led_by(2, 6)
    assert reader.requested() == [(2, 6, 5)]
    assert (fetch.node, reader.fetcher.take()) == (1, [])


def test_validation_is_retried_with_new_metadata() -> None:
    reader = committed()
    reader.requested()
    reader.receive(error=Error.NOT_LEADER_OR_FOLLOWER)
    assert (reader.validator.needs_metadata, reader.requested()) == (True, [])
    reader.led_by(1, 5)
    assert reader.requested() == [(1, 5, 5)]
    reader.validator.failed(reader.requests[0])
    assert reader.requested() == []
    reader.led_by(1, 5)
    assert reader.requested() == [(1, 5, 5)]


def test_a_response_for_another_position_or_leader_is_ignored() -> None:
    reader = committed()
    reader.requested()
    former = reader.requests
    reader.subscription.seek(T0, 40)
    assert (reader.requested(), reader.fetches()) == ([], {1: 40})
    reader.requests = former
    reader.receive(epoch=5, end=3)
    assert reader.subscription.positions == {T0: 40}
    reader.subscription.seek(T0, 10, 5)
    reader.requested()
    former = reader.requests
    reader.led_by(2, 6)
    assert reader.requested() == [(2, 6, 5)]
    reader.requests = former
    reader.receive(epoch=5, end=3)
    assert (reader.subscription.positions, reader.fetches()) == ({T0: 10}, {})


def test_a_revoked_partition_is_not_validated() -> None:
    reader = committed()
    reader.requested()
    reader.subscription.assign([])
    assert (reader.requested(), reader.validator.waiting) == ([], {})
    reader.receive(epoch=5, end=3)
    assert reader.subscription.positions == {}


def test_validation_is_skipped_without_broker_support() -> None:
    reader = committed()
    reader.requested()
    reader.validator.skip(reader.requests[0])
    assert reader.fetches() == {1: 10}


def cut_log(world: World) -> tuple[Replicas, Any]:
    """`orders` on three brokers; its leader, 1, alone has the last three of five records."""
    replicas = Replicas(
        bench=world.bench, unclean_leader_election_enable="true", min_insync_replicas="1"
    )
    producer = world.producer()
    produce(world, producer, 2)
    replicas.isolate(2, 3)
    world.run(3 * LAG_MS)
    produce(world, producer, 3)
    return replicas, producer


def produce(world: World, producer: Any, count: int) -> None:
    for _ in range(count):
        producer.send(world.now, ORDERS, 10)
    world.run(500)


def leader_is_lost(world: World, replicas: Replicas) -> None:
    """2 leads, without the last three records; its log goes on with another one."""
    replicas.stop(1)
    for network in world.networks.values():
        network.is_down.add(1)
        for node in network.nodes:
            if network.broker_of(node) == 1:
                network.cut(node)
    replicas.rejoin(2, 3)
    assert replicas.leader()[0] == 2
    world.run(1_000)


def test_example_41_an_unclean_election_rewinds_the_position() -> None:
    world = World(BROKERS, replica_lag_time_max_ms=LAG_MS)
    replicas, _ = cut_log(world)
    reader: ReaderClient = world.reader()
    reader.metadata.bootstrap([("localhost", FIRST_PORT + 2)], world.now)
    reader.read({ORDERS: None})
    world.run(1_000)
    assert [offset for _, offset, _ in world.read[reader]] == [0, 1, 2, 3, 4]
    leader_is_lost(world, replicas)
    assert reader.position(ORDERS) == 2
    producer = world.producer()
    producer.metadata.bootstrap([("localhost", FIRST_PORT + 2)], world.now)
    produce(world, producer, 1)
    assert [offset for _, offset, _ in world.read[reader]][5:] == [2]
    assert reader.truncations() == [Truncated(ORDERS, 5, 2)]


def test_example_46_a_former_leader_names_the_new_leader() -> None:
    world = World(BROKERS)
    replicas = Replicas((2, 1, 3), world.bench)
    replicas.stop(2)
    replicas.start(2)
    assert replicas.leader()[0] == 1
    produce(world, world.producer(), 3)
    reader: ReaderClient = world.reader()
    reader.read({ORDERS: None})
    world.run(1_000)
    requested = world.networks[reader].requested
    world.bench.request(
        "ELECT_LEADERS", 2, electionType=0, topic=TOPIC, partitions=[0], timeoutMs=1_000
    )
    assert replicas.leader()[0] == 2
    before = requested["METADATA"]
    while reader.metadata.snapshot.partitions[ORDERS].leader_id == 1:
        world.turn()
    assert requested["METADATA"] == before, "it was not asked"
    produce(world, world.producer(), 1)
    assert [offset for _, offset, _ in world.read[reader]] == [0, 1, 2, 3]
    assert (requested["OFFSET_FOR_LEADER_EPOCH"], reader.truncations()) == (1, [])


def test_commits_include_the_epoch_of_the_last_record() -> None:
    world = World()
    world.bench.topic(TOPIC, 1)
    producer = world.producer()
    produce(world, producer, 3)
    member: ConsumerClient = world.consumer("g", TOPIC)
    world.run(3_000)
    assert member.subscription.epochs == {ORDERS: 0}
    member.close(world.now)
    world.run(500)
    response = world.bench.request("OFFSET_FETCH", 9, groupId="g", topics=None, requireStable=False)
    (partition,) = response["groups"][0]["topics"][0]["partitions"]
    assert (partition["committedOffset"], partition["committedLeaderEpoch"]) == (3, 0)
    world.remove(member)
    other: ConsumerClient = world.consumer("g", TOPIC)
    world.run(3_000)
    assert (other.subscription.positions, other.subscription.epochs) == ({ORDERS: 3}, {ORDERS: 0})
    assert world.networks[other].requested["OFFSET_FOR_LEADER_EPOCH"] == 1


def test_the_reset_after_an_unknown_epoch_is_the_consumers() -> None:
    reader = committed()
    reader.fetcher.settings = FetchSettings(auto_offset_reset=OffsetReset.EARLIEST)
    reader.requested()
    reader.receive()
    ((_, request),) = reader.fetcher.lookups(reader.metadata.snapshot)
    assert request.topics[0].partitions[0].timestamp == OffsetReset.EARLIEST
