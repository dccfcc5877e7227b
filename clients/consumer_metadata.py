"""What a consumer asks of metadata: topics by name, all of them, or those it is assigned by id.

Source: `ConsumerMetadata` in Kafka.

    subscribes to                            asks for
    topics                                   these, and those of its group while it leads
    a pattern, in a classic group            all topics; those that match it are its subscription
    a pattern, in a consumer group           the ids that it is assigned (KIP-848): brokers match
"""

import re
from collections.abc import Iterable

from brokertwin.clients.metadata import Metadata, MetadataSettings
from brokertwin.state.core.schema import Uuid
from brokertwin.state.core.wire.generated.metadata import MetadataRequest, MetadataRequestTopic


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
        wanted = [MetadataRequestTopic(name=topic) for topic in sorted(self.topics)]
        return MetadataRequest(topics=wanted, allow_auto_topic_creation=self.may_create)


class PatternMetadata(ConsumerMetadata):
    """That of one that subscribes to what matches a pattern, internal topics left out.

    Raises re.error where that is no regular expression.
    """

    def __init__(self, pattern: str, settings: MetadataSettings | None) -> None:
        super().__init__(frozenset(), settings, may_create=True)
        self._pattern = re.compile(pattern)

    def matching(self) -> frozenset[str] | None:
        """The topics that match; None as long as no broker has told of any."""
        if not self.last_successful_refresh_ms:
            return None
        known = self.snapshot.by_topic.keys() - self.snapshot.internal_topics
        return frozenset(topic for topic in known if self._pattern.fullmatch(topic))

    def counts(self) -> dict[str, int]:
        """As above; an answer names all topics that there are, so the others have no partitions."""
        if self.is_update_for_new_topics_requested:
            return super().counts()
        return {topic: self.snapshot.partition_count(topic) or 0 for topic in self.topics}

    def retains(self, topic: str, is_internal: bool, now: int) -> bool:
        """Whether the topic matches, or the group subscribes to it."""
        does_match = not is_internal and self._pattern.fullmatch(topic) is not None
        return does_match or topic in self.topics

    def _request_for_all(self) -> MetadataRequest:
        return MetadataRequest(topics=None)


class AssignedMetadata(ConsumerMetadata):
    """That of one whose brokers match the pattern: the topics that it is assigned."""

    def __init__(self, settings: MetadataSettings | None) -> None:
        super().__init__(frozenset(), settings, may_create=False)
        self._ids: frozenset[Uuid] = frozenset()

    def want_ids(self, ids: Iterable[Uuid]) -> None:
        """Asks for these topics; for new ones at once."""
        wanted = frozenset(ids)
        if wanted - self._ids:
            self.request_update_for_new_topics()
        self._ids = wanted

    def retains(self, topic: str, is_internal: bool, now: int) -> bool:
        """Always: nothing else is asked for."""
        return True

    def _request_for_all(self) -> MetadataRequest:
        wanted = [
            MetadataRequestTopic(topic_id=topic_id, name="") for topic_id in sorted(self._ids)
        ]
        return MetadataRequest(topics=wanted, allow_auto_topic_creation=False)
