"""A consumer on sockets: subscribe, poll, close.

    with Consumer("localhost:9092", "billing", ["orders"]) as consumer:
        for at, offset, message in consumer.poll(1_000):
            ...

Source: `KafkaConsumer` in Kafka.
"""

import random
from collections.abc import Iterable

from brokertwin.clients.consumer_client import ConsumerClient
from brokertwin.clients.consumer_config import ConsumerConfig
from brokertwin.clients.driver import Clock, Network
from brokertwin.clients.fetcher import FetchSettings
from brokertwin.clients.io.group_member import GroupMember
from brokertwin.clients.io.security import Kafka
from brokertwin.clients.io.sockets import monotonic_ms
from brokertwin.clients.messages import Message
from brokertwin.clients.partitions import TopicPartition


class Consumer(GroupMember[ConsumerClient]):
    """One member of a group. `network` and `clock` may be given; times in ms.

    `pattern`: a regular expression in the place of topics (`clients/consumer_client.py`).
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
        network: Network | None = None,
        clock: Clock = monotonic_ms,
    ) -> None:
        client = ConsumerClient(
            config,
            fetches or FetchSettings(),
            frozenset(topics),
            random.random,
            may_create_topics=may_create_topics,
            pattern=pattern,
        )
        super().__init__(client, kafka, client_id, network, clock)

    def poll(self, timeout_ms: int) -> list[tuple[TopicPartition, int, Message]]:
        """Records to work on: partition, offset and message; nothing after `timeout_ms`.

        Raises AuthenticationError where a broker has not let the consumer in.
        """
        return self._poll(self.client.poll, timeout_ms)
