"""A producer on sockets that writes the log lines of seed 001, or has the rules of an era."""

import random

from brokertwin.clients.era import Era
from brokertwin.clients.eras import metadata_settings
from brokertwin.clients.io.producer import Producer
from brokertwin.clients.io.security import Kafka
from brokertwin.clients.messages import ProducerRecord
from brokertwin.clients.producer_client import ProducerClient
from brokertwin.clients.producer_config import ProducerConfig
from brokertwin.clients.traced import TracedProducerClient, Write


class EraProducer(Producer):
    """One producer; `write` receives its lines, None writes none."""

    def __init__(
        self,
        kafka: Kafka,
        config: ProducerConfig,
        era: Era | None,
        write: Write | None,
        *,
        compression: str = "none",
    ) -> None:
        """Raises ProducerConfigError."""
        metadata = metadata_settings(era)
        client = ProducerClient(config, random.random, metadata=metadata, may_create_topics=False)
        if write is not None:
            client = TracedProducerClient(
                config, random.random, write=write, metadata=metadata, may_create_topics=False
            )
        super().__init__(kafka, config, compression=compression, client=client)
        if isinstance(client, TracedProducerClient):
            self._driver.turn(0)
            client.started()

    def send(self, topic: str, message: ProducerRecord, partition: int | None = None) -> int:
        """Add a record, as `Producer.send`."""
        if isinstance(self.client, TracedProducerClient):
            self.client.record = message
        return super().send(topic, message, partition)
