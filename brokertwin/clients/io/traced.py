"""A shared producer that writes the log lines of seed 001."""

import random
from typing import Any

from brokertwin.clients.io.shared_producer import SharedProducer
from brokertwin.clients.messages import ProducerRecord
from brokertwin.clients.metadata import MetadataSettings
from brokertwin.clients.metadata_wait import MetadataKnown
from brokertwin.clients.producer_config import ProducerConfig
from brokertwin.clients.traced import TracedProducerClient, Write


class TracedProducer(SharedProducer):
    """A shared producer; its threads call `write` with each line."""

    client: TracedProducerClient

    def __init__(self, *given: Any, write: Write, **named: Any) -> None:
        """Raises ProducerConfigError."""
        self._write = write
        super().__init__(*given, **named)
        write("DEBUG Kafka producer started")

    def _make_client(
        self, config: ProducerConfig, metadata: MetadataSettings | None
    ) -> TracedProducerClient:
        return TracedProducerClient(
            config, random.random, write=self._write, metadata=metadata, may_create_topics=False
        )

    def wait_on_metadata(self, topic: str, partition: int | None = None) -> MetadataKnown:
        """Wait as `SharedProducer.wait_on_metadata`."""
        known = super().wait_on_metadata(topic, partition)
        if not known.waited_ms:
            self._write("TRACE [KafkaProducer] waitedOnMetadataMs: 0")
        return known

    def _await_update(self, topic: str, last_version: int, max_wait_ms: int) -> None:
        self._write(f"TRACE Requesting metadata update for topic {topic}.")
        self._write("TRACE Waking up Sender thread for metadata update.")
        self._write("INFO [Metadata] awaitUpdate begin...")
        super()._await_update(topic, last_version, max_wait_ms)
        self._write("INFO [Metadata] awaitUpdate end...")

    def _offer(self, now: int, topic: str, message: ProducerRecord, *given: Any) -> int | None:
        self.client.record = message
        return super()._offer(now, topic, message, *given)
