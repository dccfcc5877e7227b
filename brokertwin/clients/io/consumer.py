"""A consumer on sockets: subscribe, poll, close.

    with Consumer("localhost:9092", "billing", ["orders"]) as consumer:
        for at, offset, message in consumer.poll(1_000):
            ...

Source: `KafkaConsumer` in Kafka.
"""

import random
from collections.abc import Callable, Iterable

import msgspec

from brokertwin.clients.consumer_client import ConsumerClient
from brokertwin.clients.consumer_config import ConsumerConfig
from brokertwin.clients.driver import ClientNetwork, Clock
from brokertwin.clients.fetcher import FetchSettings
from brokertwin.clients.io.group_member import ClientGroupMember
from brokertwin.clients.io.security import Kafka
from brokertwin.clients.io.sockets import monotonic_ms
from brokertwin.clients.messages import ProducerRecord
from brokertwin.clients.partitions import TopicPartition


class Consumer(ClientGroupMember[ConsumerClient]):
    """One group member; times in ms. `network` and `clock` are for tests.

    `pattern`: a regular expression instead of topics (`clients/consumer_client.py`). `make` creates
    the client, for example one that writes lines (`clients/traced.py`).
    """

    def __init__(
        self,
        kafka: Kafka,
        config: ConsumerConfig,
        topics: Iterable[str] = (),
        fetches: FetchSettings | None = None,
        *,
        client_id: str = "brokertwin-consumer",
        may_create_topics: bool = True,
        pattern: str | None = None,
        make: Callable[..., ConsumerClient] = ConsumerClient,
        network: ClientNetwork | None = None,
        clock: Clock = monotonic_ms,
    ) -> None:
        client = make(
            config,
            fetches or FetchSettings(),
            frozenset(topics),
            random.random,
            may_create_topics=may_create_topics,
            pattern=pattern,
        )
        super().__init__(client, kafka, client_id, network, clock)

    def poll(self, timeout_ms: int) -> list[tuple[TopicPartition, int, ProducerRecord]]:
        """Return (partition, offset, record) tuples, waiting at most `timeout_ms`.

        Raises SaslAuthenticationError if a broker rejected the consumer.
        """
        return self._poll(self.client.poll, timeout_ms)


def numbered_consumer(
    kafka: Kafka,
    settings: ConsumerConfig,
    topics: list[str],
    include: str | None,
    fetches: FetchSettings,
    make: Callable[..., ConsumerClient],
    number: int,
) -> Consumer:
    """Create a member; only the first one has the instance id without a suffix."""
    instance_id = settings.group_instance_id
    static = f"{instance_id}-{number}" if instance_id and number > 1 else instance_id
    return Consumer(
        kafka,
        msgspec.structs.replace(settings, group_instance_id=static),
        topics,
        fetches,
        client_id=f"brokertwin-{number}",
        may_create_topics=False,
        pattern=include,
        make=make,
    )
