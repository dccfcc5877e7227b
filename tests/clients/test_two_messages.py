"""The seed's example by rows: a producer sends two messages a second apart.

Times are those of the seed's log in ms after 18:00:00; responses come from a real cell. For a
logged timeout, `now` is its own clock, slightly before the line's. The batches (created, lingering
0 ms, drained, freed) are the test's own.
"""

from typing import NamedTuple

import msgspec

from brokertwin.clients.backoff import constant_backoff
from brokertwin.clients.era import Era
from brokertwin.clients.metadata import MetadataSettings, ProducerMetadata, RequestAndVersion
from brokertwin.clients.metadata_wait import MetadataKnown, MetadataWait, WaitFor
from brokertwin.clients.network import Connect, NetworkClient, Poll, SendMetadata
from brokertwin.clients.node_connections import UNLIMITED_MS
from brokertwin.clients.partitions import Node, TopicPartition
from brokertwin.protocol.generated.metadata import MetadataResponse
from tests.support.machine import Bench, header

V1, LATEST = 1, 13
MAX_BLOCK_MS = 60_000
IN_FLIGHT = 2**31 - 1
M1, M2 = TopicPartition("test", 0), TopicPartition("test", 2)

SEED = MetadataSettings(refresh_backoff=constant_backoff(), era=Era.KAFKA_0_10)


class SenderPass(NamedTuple):
    """The nodes to drain batches for now, and the time-out to poll with after it, in ms."""

    nodes: list[int]
    poll_timeout_ms: int


class Producer:
    """A producer's metadata and network, and the cell of broker 0 that answers them."""

    def __init__(self, settings: MetadataSettings, version: int) -> None:
        self.bench = Bench(brokers=(0,))
        self.bench.topic("test", 3)
        for _ in range(11):  # the example's message gets offset 11
            self.produce(M1)
        self.version = version
        self.metadata = ProducerMetadata(settings)
        self.client = NetworkClient(self.metadata, lambda: 0.5)
        self.queue: list[TopicPartition] = []

    def node(self, node: int) -> Node:
        return self.metadata.snapshot.nodes[node]

    def sender(self, now: int) -> SenderPass:
        """One turn of the sender: a batch of each queued partition is ready, as nothing lingers."""
        leaders = {self.metadata.snapshot.leader(partition) for partition in self.queue}
        nodes = [node.id for node in leaders if node is not None and self.client.ready(node, now)]
        return SenderPass(nodes, 0 if nodes else UNLIMITED_MS - now)

    def poll(self, turn: SenderPass, now: int) -> Poll:
        return self.client.poll(turn.poll_timeout_ms, now)

    def respond_with_metadata(self, sent: RequestAndVersion, node: int, now: int) -> None:
        body = msgspec.to_builtins(sent.request)
        reply = self.bench.request("METADATA", self.version, body)
        response = msgspec.convert(reply, MetadataResponse)
        self.client.on_metadata_response(node, response, self.version, now)

    def produce(self, partition: TopicPartition) -> int:
        batch = header(size=36)
        responded = self.bench.append(partition.topic, batch, partition=partition.partition)
        assert responded["errorCode"] == 0
        return int(responded["baseOffset"])


def names(sent: RequestAndVersion) -> list[str | None]:
    return [topic.name for topic in sent.request.topics or []]


def test_the_two_messages_of_the_seed() -> None:
    producer = Producer(SEED, V1)
    metadata, client = producer.metadata, producer.client

    # 04.939 the bootstrap: version 1, node -1, no partitions
    metadata.bootstrap([("localhost", 9092)], 4_939)
    assert (metadata.update_version, list(metadata.snapshot.nodes)) == (1, [-1])
    assert metadata.snapshot.partitions == {}
    # 05.079 the sender has nothing to do: the request time-out is the shortest
    idle = producer.sender(5_079)
    assert producer.poll(idle, 5_079) == ([], 299_860, 30_000)

    # 15.109 [1] m1: its partitions are unknown, so the user waits for a version above 1
    wait = MetadataWait(metadata, "test", None, MAX_BLOCK_MS)
    assert wait.start(15_109) == WaitFor(version=1, remaining_ms=MAX_BLOCK_MS)
    assert metadata.is_update_requested
    # 15.118 [2] the sender wakes: no connection yet, so it opens one to node -1
    turn = producer.sender(15_117)
    assert turn.nodes == []
    assert producer.poll(turn, 15_118) == ([Connect(producer.node(-1))], 0, 0)
    # 15.246 connected
    client.connected(-1)
    # 15.443 [3] the request for {test} goes to node -1
    actions, metadata_timeout, select = producer.poll(producer.sender(15_246), 15_247)
    assert (metadata_timeout, select) == (0, 0)
    assert isinstance(actions[0], SendMetadata) and len(actions) == 1
    assert (names(actions[0].sent), actions[0].node.id) == (["test"], -1)
    # 15.449 it is under way
    assert producer.poll(producer.sender(15_448), 15_449) == ([], IN_FLIGHT, 30_000)
    # 15.628 [4] the response: version 2, three partitions on node 0, the user goes on
    producer.respond_with_metadata(actions[0].sent, -1, 15_467)
    assert metadata.update_version == 2
    assert list(metadata.snapshot.nodes) == [0]
    led = {found.partition: found.leader_id for found in metadata.snapshot.by_topic["test"]}
    assert led == {TopicPartition("test", partition): 0 for partition in range(3)}
    assert not metadata.is_update_requested
    assert wait.resume(15_628) == MetadataKnown(partition_count=3, waited_ms=519)
    # 15.629 nothing is due for a while
    assert producer.poll(producer.sender(15_628), 15_628) == ([], 299_839, 30_000)

    # 15.636 [5] [6] m1 is put into a new batch of test-0, and the sender is woken
    producer.queue.append(M1)
    # 15.703 [7] the batch is ready (linger 0), node 0 is not connected: it is left out of this turn
    turn = producer.sender(15_700)
    assert turn == ([], UNLIMITED_MS - 15_700)
    assert producer.poll(turn, 15_700) == ([Connect(producer.node(0))], 299_767, 30_000)
    # 15.706 [8] connected: the batch is drained into a produce request
    client.connected(0)
    turn = producer.sender(15_706)
    assert turn == ([0], 0)
    sent = producer.queue.pop()
    client.sent(0, request_id=1, now=15_706)
    assert producer.poll(turn, 15_706) == ([], 299_761, 0)
    # 15.721 nothing else to send
    turn = producer.sender(15_720)
    assert turn.nodes == []
    assert producer.poll(turn, 15_720) == ([], 299_747, 30_000)
    # 15.740 [9] the response, with base offset 11
    assert producer.produce(sent) == 11
    client.on_response(0, request_id=1)
    assert producer.poll(producer.sender(15_741), 15_741) == ([], 299_726, 30_000)

    # 16.706 m2: no wait, no metadata request; the sender is woken for a new batch of test-2
    again = MetadataWait(metadata, "test", None, MAX_BLOCK_MS)
    assert again.start(16_706) == MetadataKnown(partition_count=3, waited_ms=0)
    producer.queue.append(M2)
    turn = producer.sender(16_706)
    assert turn == ([0], 0)
    assert producer.poll(turn, 16_706).actions == []
    assert metadata.update_version == 2


def test_differences_from_todays_protocol() -> None:
    producer = Producer(MetadataSettings(), LATEST)
    metadata, client = producer.metadata, producer.client
    metadata.bootstrap([("localhost", 9092)], 4_939)
    # 05.079 the bootstrap itself asks for metadata: of the brokers only, no topic is known yet
    assert producer.poll(producer.sender(5_079), 5_079) == ([Connect(producer.node(-1))], 50, 50)
    client.connected(-1)
    poll = producer.poll(producer.sender(5_090), 5_090)
    assert isinstance(poll.actions[0], SendMetadata)
    first = poll.actions[0].sent
    assert (names(first), first.is_partial, poll.metadata_timeout_ms) == ([], False, 30_000)
    assert producer.poll(producer.sender(5_091), 5_091).metadata_timeout_ms == 30_000
    producer.respond_with_metadata(first, -1, 5_100)
    assert (metadata.update_version, list(metadata.snapshot.nodes)) == (2, [0])
    # 15.109 m1 asks for its topic alone, of the broker itself
    wait = MetadataWait(metadata, "test", None, MAX_BLOCK_MS)
    assert wait.start(15_109) == WaitFor(version=2, remaining_ms=MAX_BLOCK_MS)
    assert producer.poll(producer.sender(15_118), 15_118).actions == [Connect(producer.node(0))]
    client.connected(0)
    poll = producer.poll(producer.sender(15_246), 15_246)
    assert isinstance(poll.actions[0], SendMetadata)
    sent = poll.actions[0].sent
    assert (names(sent), sent.is_partial) == (["test"], True)
    producer.respond_with_metadata(sent, 0, 15_467)
    assert wait.resume(15_467) == MetadataKnown(partition_count=3, waited_ms=358)
    # a partial response does not restart the 300 s
    assert producer.poll(producer.sender(15_628), 15_628).metadata_timeout_ms == 289_472
    assert metadata.last_seen_leader_epochs.get(M1) == 0
