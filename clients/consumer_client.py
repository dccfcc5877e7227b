"""A consumer: its coordinator, its fetcher and its metadata on one loop.

Source: seed 001's consumer; `KafkaConsumer`, `ConsumerNetworkClient` in Kafka. Pure
(`clients/client_loop.py` says who drives it):

    records = client.poll(now)       the application polls: membership, then what has come
    turn, take                       in between, also while the application works

The coordinator has a connection of its own, as in Kafka, so that no heartbeat waits behind a fetch;
a leader has at most one fetch under way. What is read is given as (partition, offset, record).
"""

import base64
from typing import Any, NamedTuple

from brokerstream.clients.client_loop import Answered, ClientLoop, UnderWay, Wanted
from brokerstream.clients.consumer_config import ConsumerConfig, GroupProtocol
from brokerstream.clients.consumer_coordinator import ConsumerCoordinator, Event, Outgoing
from brokerstream.clients.consumer_membership import ConsumerMembership
from brokerstream.clients.fetcher import Fetch, Fetcher, FetchSettings, Records
from brokerstream.clients.metadata import Metadata, MetadataSettings
from brokerstream.clients.network import Draw, NetworkSettings
from brokerstream.clients.partitions import Node, TopicPartition
from brokerstream.clients.subscription_state import SubscriptionState
from brokerstream.state.apis.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from brokerstream.state.apis.metadata import MetadataRequest, WantedTopic
from brokerstream.state.core.schema import Body
from brokerstream.state.fetch.fetch_bodies import FetchResponse

COORDINATOR_NODE = 2**31 - 1
"""A coordinator's connection goes by this less its id, beside that of the same broker's fetches."""

IN_FLIGHT_MAX = 100
UUID_BYTES = 16
CONSUMER_NETWORK = NetworkSettings(max_in_flight_requests_per_connection=IN_FLIGHT_MAX)


class ConsumerMetadata(Metadata):
    """The metadata of a consumer: the topics that it or its group subscribes to.

    Attributes:
        topics: those that it asks for.
        may_create: whether asking for a topic may create it (`allow.auto.create.topics`).
    """

    def __init__(
        self, topics: frozenset[str], settings: MetadataSettings | None, may_create: bool
    ) -> None:
        super().__init__(settings)
        self.topics = topics
        self.may_create = may_create

    def want(self, topics: frozenset[str]) -> None:
        """Asks for these topics; for new ones at once."""
        if topics - self.topics:
            self.request_update_for_new_topics()
        self.topics = topics

    def counts(self) -> dict[str, int]:
        """Partitions of each topic that an answer has named; 0 where there is no such topic."""
        named = self.topics & (self.snapshot.by_topic.keys() | self.topic_errors.keys())
        return {topic: self.snapshot.partition_count(topic) or 0 for topic in named}

    def retains(self, topic: str, is_internal: bool, now: int) -> bool:
        """Whether the topic is one of those."""
        return topic in self.topics

    def _request_for_all(self) -> MetadataRequest:
        wanted = [WantedTopic(name=topic) for topic in sorted(self.topics)]
        return MetadataRequest(topics=wanted, allow_auto_topic_creation=self.may_create)


def _membership(
    config: ConsumerConfig, subscription: SubscriptionState, draw: Draw
) -> ConsumerCoordinator:
    """By the group's protocol; a member of a consumer group draws its own id (KIP-1082)."""
    if config.group_protocol is GroupProtocol.CLASSIC:
        return ConsumerCoordinator(config, subscription)
    octets = bytes(int(draw() * 256) for _ in range(UUID_BYTES))
    member_id = base64.urlsafe_b64encode(octets).decode().rstrip("=")
    return ConsumerMembership(config, subscription, member_id)


class _Lookup(NamedTuple):
    """A ListOffsets under way."""

    request: ListOffsetsRequest


class ConsumerClient(ClientLoop):
    """One consumer.

    Attributes:
        subscription: its topics, what it is assigned, and how far it has read.
        coordinator: its membership.
    """

    metadata: ConsumerMetadata

    def __init__(
        self,
        config: ConsumerConfig,
        fetches: FetchSettings,
        topics: frozenset[str],
        draw: Draw,
        *,
        network: NetworkSettings = CONSUMER_NETWORK,
        metadata: MetadataSettings | None = None,
        may_create_topics: bool = True,
    ) -> None:
        super().__init__(ConsumerMetadata(topics, metadata, may_create_topics), draw, network)
        self.subscription = SubscriptionState(topics)
        self.coordinator = _membership(config, self.subscription, draw)
        self._fetcher = Fetcher(fetches, self.subscription)
        self._is_closing = False

    # The application's side

    def poll(self, now: int) -> list[tuple[TopicPartition, int, Any]]:
        """The application polls: what it gets to work on now, may be nothing."""
        if self._is_closing:
            return []
        self._tell_ids()
        self.coordinator.poll(now, self.metadata.counts())
        return self._fetcher.take()

    def close(self, now: int) -> None:
        """Commits, where that is automatic, and leaves; done when `is_quiet`."""
        self._is_closing = True
        self.coordinator.close(now)

    def events(self) -> list[Event]:
        """What has happened since the last call, in order."""
        events, self.coordinator.events = self.coordinator.events, []
        return events

    # The loop's

    def _tell_ids(self) -> None:
        if isinstance(self.coordinator, ConsumerMembership):
            self.coordinator.topic_ids = self.metadata.snapshot.topic_ids

    def _work(self, now: int) -> None:
        self._tell_ids()
        if not self._is_closing:
            self.coordinator.tick(now)
        for outgoing in self.coordinator.take():
            self._ask_coordinator(now, outgoing)
        self.metadata.want(self.subscription.topics | self.coordinator.group_topics)
        if not self._is_closing:
            self._read(now)
        if self._fetcher.needs_metadata or self.coordinator.needs_metadata:
            self._fetcher.needs_metadata = self.coordinator.needs_metadata = False
            self.metadata.request_update()

    def _ask_coordinator(self, now: int, outgoing: Outgoing) -> None:
        node = self._coordinator_node()
        if outgoing.to_coordinator and node is None:
            self.coordinator.failed(now, outgoing.id)
            return
        to = node if outgoing.to_coordinator else None
        self._want(Wanted(to, outgoing.api, outgoing.body, outgoing, outgoing.timeout_ms))

    def _coordinator_node(self) -> Node | None:
        found = self.coordinator.coordinator
        return found and Node(COORDINATOR_NODE - found.id, found.host, found.port)

    def _read(self, now: int) -> None:
        snapshot = self.metadata.snapshot
        for leader, request in self._fetcher.lookups(snapshot):
            node = snapshot.nodes[leader]
            self._want(Wanted(node, "LIST_OFFSETS", request, _Lookup(request)))
        for leader in self._fetcher.wanted(snapshot):
            node = snapshot.nodes[leader]
            version = self.version(leader, "FETCH")
            if not self.network.ready(node, now) or version is None:
                continue
            for fetch in self._fetcher.requests(snapshot, version, only=leader):
                self._want(Wanted(node, "FETCH", fetch.body, fetch))

    def _deadlines(self, now: int) -> list[int]:
        return [time for time in self.coordinator.deadlines() if time > now]

    def _answered(self, now: int, request: UnderWay, response: Body, event: Answered) -> None:
        match request.tag:
            case Outgoing(id=request_id):
                self.coordinator.answered(now, request_id, response)
            case _Lookup():
                assert isinstance(response, ListOffsetsResponse)
                self._fetcher.looked_up(response)
            case Fetch() as fetch:
                assert isinstance(response, FetchResponse)
                found = self._named(fetch, event)
                self._fetcher.answered(request.node, response, request.version, found)

    def _named(self, fetch: Fetch, event: Answered) -> dict[TopicPartition, Records]:
        names = {data.topic_id: at.topic for at, data in fetch.data.session_partitions.items()}
        return {
            TopicPartition(names.get(topic, topic), partition): records
            for (topic, partition), records in event.records.items()
        }

    def _failed(self, now: int, tag: Any) -> None:
        match tag:
            case Outgoing(id=request_id):
                self.coordinator.failed(now, request_id)
            case _Lookup(request):
                self._fetcher.lookup_failed(request)
            case Fetch(node=node):
                self._fetcher.failed(node)

    def _lost(self, now: int, node: int) -> None:
        coordinator = self._coordinator_node()
        if coordinator is not None and coordinator.id == node:
            self.coordinator.disconnected(now)
