"""A consumer: coordinator, fetcher and metadata on one event loop.

Source: seed 001's consumer; `KafkaConsumer`, `ConsumerNetworkClient` in Kafka. It does no I/O (see
`clients/client_loop.py`):

    records = client.poll(now)       membership, then the fetched records
    turn, take                       in between, also while the application works

The coordinator has its own connection, as in Kafka, so a heartbeat is never delayed by a fetch. A
leader has at most one fetch in flight. Records are (partition, offset, record).
"""

import base64
from collections.abc import Callable
from typing import Any

from brokertwin.clients.assignors.member import MembersAssignor
from brokertwin.clients.client_loop import InFlightRequest, ResponseReceived, UnsentRequest
from brokertwin.clients.consumer_config import ConsumerConfig, GroupProtocol
from brokertwin.clients.consumer_coordinator import ClassicMembership
from brokertwin.clients.consumer_events import Event
from brokertwin.clients.consumer_membership import ConsumerMembership
from brokertwin.clients.consumer_metadata import AssignedMetadata, ConsumerMetadata, PatternMetadata
from brokertwin.clients.consumer_requests import CoordinatorRequest
from brokertwin.clients.fetcher import FetchSettings
from brokertwin.clients.fetching_client import CONSUMER_NETWORK, FetchingClient
from brokertwin.clients.metadata import MetadataSettings
from brokertwin.clients.network import Draw, NetworkSettings
from brokertwin.clients.partitions import Node, TopicPartition
from brokertwin.clients.subscription_state import SubscriptionState
from brokertwin.protocol.bodies import Body

COORDINATOR_NODE = 2**31 - 1
"""Node id of a coordinator's connection is this minus the broker id."""

UUID_BYTES = 16


Coordination = Callable[[SubscriptionState], ClassicMembership]
"""Creates a membership over a subscription."""


def drawn_member_id(draw: Draw) -> str:
    """A client-generated member id (KIP-1082) in Kafka's text form of 16 bytes."""
    octets = bytes(int(draw() * 256) for _ in range(UUID_BYTES))
    return base64.urlsafe_b64encode(octets).decode().rstrip("=")


def _membership(
    config: ConsumerConfig,
    subscription: SubscriptionState,
    draw: Draw,
    assignor: MembersAssignor | None,
) -> ClassicMembership:
    if config.group_protocol is GroupProtocol.CLASSIC:
        return ClassicMembership(config, subscription, assignor)
    return ConsumerMembership(config, subscription, drawn_member_id(draw))


def _metadata(
    config: ConsumerConfig,
    topics: frozenset[str],
    pattern: str | None,
    settings: MetadataSettings | None,
    *,
    may_create: bool,
) -> ConsumerMetadata:
    if pattern is None:
        return ConsumerMetadata(topics, settings, may_create)
    if config.group_protocol is GroupProtocol.CLASSIC:
        return PatternMetadata(pattern, settings)
    return AssignedMetadata(settings)


class ConsumerClient(FetchingClient):
    """One consumer.

    Attributes:
        subscription: topics, assigned partitions and positions.
        coordinator: the group membership.
    """

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
        pattern: str | None = None,
        assignor: MembersAssignor | None = None,
        coordinator: Coordination | None = None,
    ) -> None:
        """Create a consumer.

        Optional arguments:
            assignor: replaces Kafka's assignors of the configuration.
            pattern: a regular expression for whole topic names instead of topics. It is Python's in
                a classic group (raises re.error) and RE2 in a consumer group.
            coordinator: replaces the membership of a consumer group.
        """
        consumer_metadata = _metadata(
            config, topics, pattern, metadata, may_create=may_create_topics
        )
        super().__init__(
            consumer_metadata, SubscriptionState(topics, pattern), fetches, draw, network
        )
        made = coordinator and coordinator(self.subscription)
        self.coordinator = made or _membership(config, self.subscription, draw, assignor)
        self._is_closing = False

    # API

    def poll(self, now: int) -> list[tuple[TopicPartition, int, Any]]:
        """Return fetched records, if any; called by the application."""
        if self._is_closing or not self._has_matched():
            return []
        self._share_topic_ids()
        self.coordinator.poll(now, self.metadata.counts())
        return self._fetcher.take()

    def close(self, now: int) -> None:
        """Commit if automatic, leave, and close the fetch sessions; done when `is_quiet`."""
        self._is_closing = True
        self.coordinator.close(now)
        self._close_sessions()

    def events(self) -> list[Event]:
        """Return the events since the last call, in order."""
        events, self.coordinator.events = [*self.coordinator.events, *self.truncations()], []
        return events

    # Event loop

    def _has_matched(self) -> bool:
        """Whether the matching topics are known; before that it does not join."""
        if isinstance(self.metadata, PatternMetadata):
            matching = self.metadata.matching()
            if matching is None:
                return False
            self.subscription.topics = matching
        return True

    def _share_topic_ids(self) -> None:
        if isinstance(self.coordinator, ConsumerMembership):
            self.coordinator.topic_ids = self.metadata.snapshot.topic_ids
            if isinstance(self.metadata, AssignedMetadata):
                self.metadata.want_ids(self.coordinator.assigned_ids)

    def _work(self, now: int) -> None:
        self._share_topic_ids()
        if not self._is_closing:
            self.coordinator.tick(now)
        for outgoing in self.coordinator.take():
            self._send_to_coordinator(now, outgoing)
        self.metadata.want(self.subscription.topics | self.coordinator.group_topics)
        if not self._is_closing:
            self._read(now)
        if self._fetcher.needs_metadata or self.coordinator.needs_metadata:
            self._fetcher.needs_metadata = self.coordinator.needs_metadata = False
            self.metadata.request_update()

    def _send_to_coordinator(self, now: int, outgoing: CoordinatorRequest) -> None:
        node = self._coordinator_node()
        if outgoing.to_coordinator and node is None:
            self.coordinator.failed(now, outgoing.id)
            return
        to = node if outgoing.to_coordinator else None
        self._want(UnsentRequest(to, outgoing.api, outgoing.body, outgoing, outgoing.timeout_ms))

    def _coordinator_node(self) -> Node | None:
        coordinator = self.coordinator.coordinator
        return coordinator and Node(
            COORDINATOR_NODE - coordinator.id, coordinator.host, coordinator.port
        )

    def _deadlines(self, now: int) -> list[int]:
        return [time for time in self.coordinator.deadlines() if time > now]

    def _on_response(
        self, now: int, request: InFlightRequest, response: Body, event: ResponseReceived
    ) -> None:
        if isinstance(request.tag, CoordinatorRequest):
            self.coordinator.on_response(now, request.tag.id, response)
        else:
            super()._on_response(now, request, response, event)

    def _failed(self, now: int, tag: Any) -> None:
        if isinstance(tag, CoordinatorRequest):
            self.coordinator.failed(now, tag.id)
        else:
            super()._failed(now, tag)

    def _lost(self, now: int, node: int) -> None:
        coordinator = self._coordinator_node()
        if coordinator is not None and coordinator.id == node:
            self.coordinator.disconnected(now)
