"""A consumer of a share group on sockets (KIP-932): poll, acknowledge, commit, close.

    with ShareConsumer("localhost:9092", "billing", ["orders"]) as consumer:
        for record in consumer.poll(1_000):             # these are accepted with the next poll
            ...

With `ShareSettings(is_explicit=True)` each record is acknowledged before the next poll:

    consumer.acknowledge(record, AcknowledgeType.RELEASE)       # it comes again, to whomever
    consumer.acknowledge(record, AcknowledgeType.RENEW)         # not done: it is polled again
    consumer.commit(1_000)                                      # leaders have heard of it

Source: `KafkaShareConsumer` in Kafka.
"""

import random
from collections.abc import Iterable

from brokertwin.clients.consumer_config import ConsumerConfig
from brokertwin.clients.driver import Clock, Network
from brokertwin.clients.io.group_member import GroupMember
from brokertwin.clients.io.security import Kafka
from brokertwin.clients.io.sockets import monotonic_ms
from brokertwin.clients.share_client import ShareClient
from brokertwin.clients.share_fetcher import ShareRecord, ShareSettings
from brokertwin.clients.share_session import AcknowledgeType


class ShareConsumer(GroupMember[ShareClient]):
    """One member of a share group. `network` and `clock` may be given; times in ms."""

    def __init__(
        self,
        kafka: Kafka,
        group_id: str,
        topics: Iterable[str],
        settings: ShareSettings | None = None,
        *,
        client_rack: str = "",
        client_id: str = "brokertwin-share-consumer",
        network: Network | None = None,
        clock: Clock = monotonic_ms,
    ) -> None:
        config = ConsumerConfig(
            group_id=group_id, client_rack=client_rack, enable_auto_commit=False
        )
        chosen = settings or ShareSettings()
        client = ShareClient(config, chosen, frozenset(topics), random.random)
        super().__init__(client, kafka, client_id, network, clock)

    def poll(self, timeout_ms: int) -> list[ShareRecord]:
        """Records to work on; nothing after `timeout_ms`. What was given before is accepted.

        Raises:
            AuthenticationError: a broker has not let the consumer in.
            ValueError: it acknowledges explicitly, and has not acknowledged all it has got.
        """
        return self._poll(self.client.poll_records, timeout_ms)

    def acknowledge(self, record: ShareRecord, kind: AcknowledgeType) -> None:
        """Says what became of a record, or that its lock is to be renewed.

        Raises ValueError where it does not have it, or renews and does not acknowledge explicitly.
        """
        with self._lock:
            self.client.acknowledge(record.partition, record.offset, kind)

    @property
    def acquisition_lock_timeout_ms(self) -> int | None:
        """How long a record is its member's; None before a leader has said it."""
        return self.client.sharing.lock_ms

    def commit(self, timeout_ms: int) -> bool:
        """Tells leaders now what is acknowledged; whether they have all answered in time.

        What they answered `events` tells. Raises AuthenticationError.
        """
        with self._lock:
            self.client.commit()
            return self._driver.turn_until(lambda: self.client.is_told, timeout_ms)
