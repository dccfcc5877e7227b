"""A consumer: its coordinator, its fetcher and its metadata on one loop.

Source: seed 001's consumer; `KafkaConsumer`, `ConsumerNetworkClient` in Kafka. Pure
(`clients/client_loop.py` says who drives it):

    records = client.poll(now)       the application polls: membership, then what has come
    turn, take                       in between, also while the application works

The coordinator has a connection of its own, as in Kafka, so that no heartbeat waits behind a fetch;
a leader has at most one fetch under way. What is read is given as (partition, offset, record).
"""

import base64
from collections.abc import Callable
from typing import Any

from brokertwin.clients.assignors.member import MembersAssignor
from brokertwin.clients.client_loop import InFlightRequest, PendingRequest, ResponseReceived
from brokertwin.clients.consumer_config import ConsumerConfig, GroupProtocol
from brokertwin.clients.consumer_coordinator import (
    ClassicMembership,
    CoordinatorRequest,
)
from brokertwin.clients.consumer_events import (
    Event,
)
from brokertwin.clients.consumer_membership import ConsumerMembership
from brokertwin.clients.consumer_metadata import (
    AssignedMetadata,
    ConsumerMetadata,
    PatternMetadata,
)
from brokertwin.clients.fetcher import FetchSettings
from brokertwin.clients.fetching_client import CONSUMER_NETWORK, FetchingClient
from brokertwin.clients.metadata import MetadataSettings
from brokertwin.clients.network import Draw, NetworkSettings
from brokertwin.clients.partitions import Node, TopicPartition
from brokertwin.clients.subscription_state import SubscriptionState
from brokertwin.state.core.schema import Body

COORDINATOR_NODE = 2**31 - 1
"""A coordinator's connection goes by this less its id, beside that of the same broker's fetches."""

UUID_BYTES = 16


Coordination = Callable[[SubscriptionState], ClassicMembership]
"""Makes a coordinator over what is subscribed to and assigned."""


def drawn_member_id(draw: Draw) -> str:
    """A member's id, as it draws it itself (KIP-1082): Kafka's letters for 16 bytes."""
    octets = bytes(int(draw() * 256) for _ in range(UUID_BYTES))
    return base64.urlsafe_b64encode(octets).decode().rstrip("=")


def _membership(
    config: ConsumerConfig,
    subscription: SubscriptionState,
    draw: Draw,
    assignor: MembersAssignor | None,
) -> ClassicMembership:
    """By the group's protocol; a member of a consumer group draws its own id."""
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
        subscription: its topics, what it is assigned, and how far it has read.
        coordinator: its membership.
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
        """`assignor`: without one, Kafka's own that the configuration names.

        `pattern`: in the place of topics, a regular expression that whole names of topics match, in
        a classic group one of Python (raises re.error), in a consumer group one of RE2.

        `coordinator`: its membership, where that is none of a group of consumers.
        """
        wanted = _metadata(config, topics, pattern, metadata, may_create=may_create_topics)
        super().__init__(wanted, SubscriptionState(topics, pattern), fetches, draw, network)
        made = coordinator and coordinator(self.subscription)
        self.coordinator = made or _membership(config, self.subscription, draw, assignor)
        self._is_closing = False

    # The application's side

    def poll(self, now: int) -> list[tuple[TopicPartition, int, Any]]:
        """The application polls: what it gets to work on now, may be nothing."""
        if self._is_closing or not self._has_matched():
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
        events, self.coordinator.events = [*self.coordinator.events, *self.truncations()], []
        return events

    # The loop's

    def _has_matched(self) -> bool:
        """Whether what it subscribes to is known; who waits for that does not join."""
        if isinstance(self.metadata, PatternMetadata):
            matching = self.metadata.matching()
            if matching is None:
                return False
            self.subscription.topics = matching
        return True

    def _tell_ids(self) -> None:
        if isinstance(self.coordinator, ConsumerMembership):
            self.coordinator.topic_ids = self.metadata.snapshot.topic_ids
            if isinstance(self.metadata, AssignedMetadata):
                self.metadata.want_ids(self.coordinator.assigned_ids)

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

    def _ask_coordinator(self, now: int, outgoing: CoordinatorRequest) -> None:
        node = self._coordinator_node()
        if outgoing.to_coordinator and node is None:
            self.coordinator.failed(now, outgoing.id)
            return
        to = node if outgoing.to_coordinator else None
        self._want(PendingRequest(to, outgoing.api, outgoing.body, outgoing, outgoing.timeout_ms))

    def _coordinator_node(self) -> Node | None:
        found = self.coordinator.coordinator
        return found and Node(COORDINATOR_NODE - found.id, found.host, found.port)

    def _deadlines(self, now: int) -> list[int]:
        return [time for time in self.coordinator.deadlines() if time > now]

    def _answered(
        self, now: int, request: InFlightRequest, response: Body, event: ResponseReceived
    ) -> None:
        if isinstance(request.tag, CoordinatorRequest):
            self.coordinator.answered(now, request.tag.id, response)
        else:
            super()._answered(now, request, response, event)

    def _failed(self, now: int, tag: Any) -> None:
        if isinstance(tag, CoordinatorRequest):
            self.coordinator.failed(now, tag.id)
        else:
            super()._failed(now, tag)

    def _lost(self, now: int, node: int) -> None:
        coordinator = self._coordinator_node()
        if coordinator is not None and coordinator.id == node:
            self.coordinator.disconnected(now)
