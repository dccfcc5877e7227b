"""Topics in the metadata requests of a consumer.

Source: `ConsumerMetadata` in Kafka.

    subscription                       requested topics
    topics                             these, and those of the group on its leader
    pattern, classic group             all; the client matches the pattern
    pattern, consumer group            the assigned topic ids (KIP-848); brokers match the pattern
"""

import re
from collections.abc import Iterable

from brokertwin.clients.metadata import Metadata, MetadataSettings
from brokertwin.protocol.bodies import Uuid
from brokertwin.protocol.generated.metadata import MetadataRequest, MetadataRequestTopic


class ConsumerMetadata(Metadata):
    """The metadata of a consumer.

    Attributes:
        topics: topics of the consumer or its group.
        may_create: `allow.auto.create.topics`.
    """

    def __init__(
        self, topics: frozenset[str], settings: MetadataSettings | None, may_create: bool
    ) -> None:
        super().__init__(settings)
        self.topics = topics
        self.may_create = may_create
        self.request_update()  # as `subscribe` does; before Kafka 2.2 the bootstrap did not

    def want(self, topics: frozenset[str]) -> None:
        """Request these topics; new ones at once."""
        if topics - self.topics:
            self.request_update_for_new_topics()
        self.topics = topics

    def counts(self) -> dict[str, int]:
        """Partition counts of the topics in responses; 0 if nonexistent."""
        named = self.topics & (self.snapshot.by_topic.keys() | self.topic_errors.keys())
        return {topic: self.snapshot.partition_count(topic) or 0 for topic in named}

    def retains(self, topic: str, is_internal: bool, now: int) -> bool:
        return topic in self.topics

    def _request_for_all(self) -> MetadataRequest:
        request_topics = [MetadataRequestTopic(name=topic) for topic in sorted(self.topics)]
        return MetadataRequest(topics=request_topics, allow_auto_topic_creation=self.may_create)


class PatternMetadata(ConsumerMetadata):
    """The metadata of a pattern subscription without internal topics.

    Raises re.error for an invalid pattern.
    """

    def __init__(self, pattern: str, settings: MetadataSettings | None) -> None:
        super().__init__(frozenset(), settings, may_create=True)
        self._pattern = re.compile(pattern)

    def matching(self) -> frozenset[str] | None:
        """The matching topics; None before the first response."""
        if self.snapshot.cluster_id is None:
            return None
        topics = self.snapshot.by_topic.keys() - self.snapshot.internal_topics
        return frozenset(topic for topic in topics if self._pattern.fullmatch(topic))

    def counts(self) -> dict[str, int]:
        """As in the base class; topics missing from a full response count 0."""
        if self.is_update_for_new_topics_requested:
            return super().counts()
        return {topic: self.snapshot.partition_count(topic) or 0 for topic in self.topics}

    def retains(self, topic: str, is_internal: bool, now: int) -> bool:
        does_match = not is_internal and self._pattern.fullmatch(topic) is not None
        return does_match or topic in self.topics

    def _request_for_all(self) -> MetadataRequest:
        return MetadataRequest(topics=None)


class AssignedMetadata(ConsumerMetadata):
    """The metadata of a pattern subscription that brokers match."""

    def __init__(self, settings: MetadataSettings | None) -> None:
        super().__init__(frozenset(), settings, may_create=False)
        self._ids: frozenset[Uuid] = frozenset()

    def want_ids(self, ids: Iterable[Uuid]) -> None:
        """Request these topics; new ones at once."""
        topic_ids = frozenset(ids)
        if topic_ids - self._ids:
            self.request_update_for_new_topics()
        self._ids = topic_ids

    def retains(self, topic: str, is_internal: bool, now: int) -> bool:
        """Always true: only assigned topics are requested."""
        return True

    def _request_for_all(self) -> MetadataRequest:
        request_topics = [
            MetadataRequestTopic(topic_id=topic_id, name="") for topic_id in sorted(self._ids)
        ]
        return MetadataRequest(topics=request_topics, allow_auto_topic_creation=False)
