"""Reads whole topics without a group, from the beginning to the end.

Source: `KafkaBasedLog` in Kafka Connect, `KafkaConsumer.assign`. A client requests the end offset
of each partition once; `is_at_end` is true once all earlier records are taken.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from brokertwin.clients.client_loop import InFlightRequest, ResponseReceived, UnsentRequest
from brokertwin.clients.consumer_client import ConsumerClient, Coordination
from brokertwin.clients.consumer_config import ConsumerConfig
from brokertwin.clients.consumer_coordinator import ClassicMembership
from brokertwin.clients.fetcher import FetchSettings, OffsetReset, has_leader, list_offsets
from brokertwin.clients.network import Draw
from brokertwin.clients.partitions import TopicPartition
from brokertwin.clients.subscription_state import SubscriptionState
from brokertwin.protocol.bodies import Body
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsResponse,
)

NO_GROUP = ConsumerConfig(group_id="", enable_auto_commit=False)


def assign_all(subscription: SubscriptionState, partition_counts: Mapping[str, int]) -> None:
    """Assign all known partitions; new ones start at `auto.offset.reset`."""
    partitions = {
        TopicPartition(topic, at) for topic in subscription.topics
        for at in range(partition_counts.get(topic, 0))
    }  # fmt: skip
    new = partitions - subscription.positions.keys()
    if new:
        subscription.assign(sorted(partitions | subscription.positions.keys()))
        subscription.without_offset |= new


class WholeTopics(ClassicMembership):
    def __init__(self, subscription: SubscriptionState) -> None:
        super().__init__(NO_GROUP, subscription)

    def poll(self, now: int, partition_counts: Mapping[str, int]) -> None:
        """Assign new partitions; called when the application polls."""
        assign_all(self.subscription, partition_counts)

    def tick(self, now: int) -> None:
        """Do nothing: there is no coordinator."""

    def deadlines(self) -> list[int]:
        return []

    def close(self, now: int) -> None:
        """Do nothing: there is no group to leave."""


class _EndsRequest(NamedTuple):
    request: ListOffsetsRequest


class LogClient(ConsumerClient):
    """One reader; `coordinator` may create another kind of membership."""

    def __init__(
        self,
        topics: frozenset[str],
        draw: Draw,
        *,
        isolation_level: int = 0,
        fetch_max_wait_ms: int = 500,
        coordinator: Coordination = WholeTopics,
    ) -> None:
        fetches = FetchSettings(
            auto_offset_reset=OffsetReset.EARLIEST,
            isolation_level=isolation_level,
            fetch_max_wait_ms=fetch_max_wait_ms,
        )
        super().__init__(
            NO_GROUP, fetches, topics, draw, may_create_topics=False, coordinator=coordinator
        )
        self._isolation_level = isolation_level
        self._requested: set[TopicPartition] = set()
        self._ends: dict[TopicPartition, int] = {}

    @property
    def is_at_end(self) -> bool:
        """Whether every record before the first end offsets is taken."""
        positions = self.subscription.positions
        topics = {partition.topic for partition in positions}
        return topics == self.subscription.topics and all(
            at in self._ends and position is not None and position >= self._ends[at]
            for at, position in positions.items()
        )

    def _work(self, now: int) -> None:
        super()._work(now)
        self._fetch_ends()

    def _on_response(
        self, now: int, request: InFlightRequest, response: Body, event: ResponseReceived
    ) -> None:
        if not isinstance(request.tag, _EndsRequest):
            super()._on_response(now, request, response, event)
            return
        assert isinstance(response, ListOffsetsResponse)
        self._clear_requested(request.tag)
        for topic in response.topics:
            for result in topic.partitions:
                if result.error_code != Error.NONE:
                    self.metadata.request_update()
                else:
                    self._ends[TopicPartition(topic.name, result.partition_index)] = result.offset

    def _failed(self, now: int, tag: Any) -> None:
        if isinstance(tag, _EndsRequest):
            self._clear_requested(tag)
            self.metadata.request_update()
        else:
            super()._failed(now, tag)

    def _clear_requested(self, tag: _EndsRequest) -> None:
        for topic in tag.request.topics:
            for listed in topic.partitions:
                self._requested.discard(TopicPartition(topic.name, listed.partition_index))

    def _fetch_ends(self) -> None:
        snapshot = self.metadata.snapshot
        partitions = self.subscription.positions.keys() - self._ends.keys() - self._requested
        with_leader = {at for at in partitions if has_leader(snapshot, at)}
        if with_leader != partitions:
            self.metadata.request_update()
        self._requested |= with_leader
        for node, request in list_offsets(
            snapshot, with_leader, OffsetReset.LATEST, self._isolation_level
        ):
            tag = _EndsRequest(request)
            self._want(UnsentRequest(snapshot.nodes[node], "LIST_OFFSETS", request, tag))
