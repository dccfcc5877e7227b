"""A reader of whole topics, of no group: every partition from its beginning, and up to its end.

Source: `KafkaBasedLog` in Kafka Connect, `KafkaConsumer.assign`. `read_to_end` asks leaders where
the partitions end now, and `is_at_end` says whether all before that has been taken.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from brokertwin.clients.client_loop import Answered, UnderWay, Wanted
from brokertwin.clients.consumer_client import ConsumerClient, Coordination
from brokertwin.clients.consumer_config import ConsumerConfig
from brokertwin.clients.consumer_coordinator import ConsumerCoordinator
from brokertwin.clients.fetcher import (
    FetchSettings,
    OffsetReset,
    has_leader,
    list_offsets,
)
from brokertwin.clients.network import Draw
from brokertwin.clients.partitions import TopicPartition
from brokertwin.clients.subscription_state import SubscriptionState
from brokertwin.state.core.errors import Error
from brokertwin.state.core.schema import Body
from brokertwin.state.core.wire.generated.list_offsets import (
    ListOffsetsRequest,
    ListOffsetsResponse,
)

NO_GROUP = ConsumerConfig(group_id="", enable_auto_commit=False)


def assign_all(subscription: SubscriptionState, partition_counts: Mapping[str, int]) -> None:
    """Every partition that is known; a new one is read from where `auto.offset.reset` says."""
    known = {
        TopicPartition(topic, at) for topic in subscription.topics
        for at in range(partition_counts.get(topic, 0))
    }  # fmt: skip
    new = known - subscription.positions.keys()
    if new:
        subscription.assign(sorted(known | subscription.positions.keys()))
        subscription.without_offset |= new


class WholeTopics(ConsumerCoordinator):
    """In the place of a membership."""

    def __init__(self, subscription: SubscriptionState) -> None:
        super().__init__(NO_GROUP, subscription)

    def poll(self, now: int, partition_counts: Mapping[str, int]) -> None:
        """The application polls: partitions that are new are read, too."""
        assign_all(self.subscription, partition_counts)

    def tick(self, now: int) -> None:
        """There is nobody to be heard by."""

    def deadlines(self) -> list[int]:
        """None."""
        return []

    def close(self, now: int) -> None:
        """There is nothing to leave."""


class _Ends(NamedTuple):
    """A question for the ends of partitions, of the `number`th reading."""

    number: int
    request: ListOffsetsRequest


class LogClient(ConsumerClient):
    """One reader; the other side of its `coordinator` may be a membership of its own kind."""

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
        self._reading = 0
        self._unasked: set[TopicPartition] = set()
        self._asking: dict[TopicPartition, int] = {}
        self._ends: dict[TopicPartition, int] = {}
        self.read_to_end()

    def read_to_end(self) -> None:
        """From now on `is_at_end` is about the ends as they are after this call."""
        self._reading += 1
        self._ends.clear()
        self._asking.clear()

    @property
    def is_at_end(self) -> bool:
        """Whether everything before the ends has been taken."""
        positions = self.subscription.positions
        topics = {partition.topic for partition in positions}
        return topics == self.subscription.topics and all(
            at in self._ends and position is not None and position >= self._ends[at]
            for at, position in positions.items()
        )

    def _work(self, now: int) -> None:
        known = self.subscription.positions.keys()
        self._unasked |= known - self._ends.keys() - self._asking.keys()
        super()._work(now)
        self._ask_for_ends()

    def _answered(self, now: int, request: UnderWay, response: Body, event: Answered) -> None:
        if not isinstance(request.tag, _Ends):
            super()._answered(now, request, response, event)
            return
        assert isinstance(response, ListOffsetsResponse)
        self._no_longer_asked(request.tag)
        for topic in response.topics:
            for answer in topic.partitions:
                if answer.error_code != Error.NONE:
                    self.metadata.request_update()
                elif request.tag.number == self._reading:
                    self._ends[TopicPartition(topic.name, answer.partition_index)] = answer.offset

    def _failed(self, now: int, tag: Any) -> None:
        if isinstance(tag, _Ends):
            self._no_longer_asked(tag)
            self.metadata.request_update()
        else:
            super()._failed(now, tag)

    def _no_longer_asked(self, tag: _Ends) -> None:
        for topic in tag.request.topics:
            for asked in topic.partitions:
                at = TopicPartition(topic.name, asked.partition_index)
                if self._asking.get(at) == tag.number:
                    del self._asking[at]

    def _ask_for_ends(self) -> None:
        snapshot = self.metadata.snapshot
        known = {at for at in self._unasked if has_leader(snapshot, at)}
        if known != self._unasked:
            self.metadata.request_update()
        self._unasked -= known
        self._asking |= dict.fromkeys(known, self._reading)
        for node, request in list_offsets(
            snapshot, known, OffsetReset.LATEST, self._isolation_level
        ):
            tag = _Ends(self._reading, request)
            self._want(Wanted(snapshot.nodes[node], "LIST_OFFSETS", request, tag))
