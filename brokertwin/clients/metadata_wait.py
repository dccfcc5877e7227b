"""A wait for the metadata of a topic (`KafkaProducer.waitOnMetadata`).

The machine returns what to wait for. The caller waits and calls again:

    start ----------------------------> MetadataKnown | MetadataUnavailable | WaitFor
    resume, at the version -----------> MetadataKnown | MetadataUnavailable | WaitFor
    resume, after the timeout --------> MetadataUnavailable

The caller wakes the sender's thread before it waits. Source: seed 001.
"""

import msgspec

from brokertwin.clients.metadata import ProducerMetadata
from brokertwin.protocol.errors import Error, error_name


class MetadataKnown(msgspec.Struct, frozen=True):
    """The topic and the partition are known, after `waited_ms`."""

    partition_count: int
    waited_ms: int


class WaitFor(msgspec.Struct, frozen=True):
    """Wake the sender; resume above `version` or after the time."""

    version: int
    remaining_ms: int


class MetadataUnavailable(msgspec.Struct, frozen=True):
    code: Error
    message: str


Step = MetadataKnown | WaitFor | MetadataUnavailable


class MetadataWait:
    """One wait; `max_wait_ms` is max.block.ms. `partition` may be None."""

    def __init__(
        self, metadata: ProducerMetadata, topic: str, partition: int | None, max_wait_ms: int
    ) -> None:
        self._metadata = metadata
        self._topic = topic
        self._partition = partition
        self._max_wait_ms = max_wait_ms
        self._begin = 0
        self._version = -1

    def start(self, now: int) -> Step:
        """Return the first step; there is no wait if the topic is known."""
        self._begin = now
        if self._topic in self._metadata.snapshot.invalid_topics:
            return MetadataUnavailable(
                Error.INVALID_TOPIC_EXCEPTION, f"invalid topic name {self._topic!r}"
            )
        self._metadata.add(self._topic, now)
        return self._known(now) or self._request_update(now)

    def resume(self, now: int) -> Step:
        """Return the next step, at the version or after the timeout."""
        if self._metadata.is_closed:
            return MetadataUnavailable(Error.UNKNOWN_SERVER_ERROR, "the producer was closed")
        if now - self._begin >= self._max_wait_ms:
            return self._timed_out()
        if self._metadata.update_version <= self._version:
            return WaitFor(self._version, self._begin + self._max_wait_ms - now)
        error = self._metadata.take_error_of(self._topic)
        if error is not None:
            return MetadataUnavailable(error, f"{error_name(error)}: {self._topic!r}")
        return self._known(now) or self._request_update(now)

    def _known(self, now: int) -> MetadataKnown | None:
        count = self._metadata.snapshot.partition_count(self._topic)
        if count is None or (self._partition is not None and self._partition >= count):
            return None
        return MetadataKnown(count, now - self._begin)

    def _request_update(self, now: int) -> WaitFor:
        self._metadata.add(self._topic, now)
        self._version = self._metadata.request_update_for_topic(self._topic)
        return WaitFor(self._version, self._begin + self._max_wait_ms - now)

    def _timed_out(self) -> MetadataUnavailable:
        count = self._metadata.snapshot.partition_count(self._topic)
        subject = f"topic {self._topic!r}"
        if count is not None:
            subject = f"partition {self._partition} of {subject}, which has {count},"
        message = f"{subject} is not in the metadata after {self._max_wait_ms} ms"
        return MetadataUnavailable(Error.REQUEST_TIMED_OUT, message)
