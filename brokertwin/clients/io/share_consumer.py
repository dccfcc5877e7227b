"""A consumer of a share group on sockets (KIP-932).

    with ShareConsumer("localhost:9092", "billing", ["orders"]) as consumer:
        for record in consumer.poll(1_000):             # accepted by the next poll
            ...

With `ShareSettings(is_explicit=True)` each record is acknowledged before the next poll:

    consumer.acknowledge(record, AcknowledgeType.RELEASE)       # delivered again, to any member
    consumer.acknowledge(record, AcknowledgeType.RENEW)         # returned again by a poll
    consumer.commit(1_000)                                      # leaders have responded

Source: `KafkaShareConsumer` in Kafka.
"""

import random
from collections.abc import Iterable

from brokertwin.clients.consumer_config import ConsumerConfig
from brokertwin.clients.driver import ClientNetwork, Clock
from brokertwin.clients.io.group_member import ClientGroupMember
from brokertwin.clients.io.security import Kafka
from brokertwin.clients.io.sockets import monotonic_ms
from brokertwin.clients.share_client import ShareClient
from brokertwin.clients.share_fetcher import ShareRecord, ShareSettings
from brokertwin.clients.share_session import AcknowledgeType


class ShareConsumer(ClientGroupMember[ShareClient]):
    """One share group member; times in ms. `network` and `clock` are for tests."""

    def __init__(
        self,
        kafka: Kafka,
        group_id: str,
        topics: Iterable[str],
        settings: ShareSettings | None = None,
        *,
        client_rack: str = "",
        client_id: str = "brokertwin-share-consumer",
        network: ClientNetwork | None = None,
        clock: Clock = monotonic_ms,
    ) -> None:
        config = ConsumerConfig(
            group_id=group_id, client_rack=client_rack, enable_auto_commit=False
        )
        chosen = settings or ShareSettings()
        client = ShareClient(config, chosen, frozenset(topics), random.random)
        super().__init__(client, kafka, client_id, network, clock)

    def poll(self, timeout_ms: int) -> list[ShareRecord]:
        """Return records, waiting at most `timeout_ms`; accepts earlier ones.

        Raises:
            SaslAuthenticationError: a broker rejected the consumer.
            ValueError: explicit mode, and records are unacknowledged.
        """
        return self._poll(self.client.poll_records, timeout_ms)

    def acknowledge(self, record: ShareRecord, kind: AcknowledgeType) -> None:
        """Acknowledge a record, or renew its lock.

        Raises ValueError if the record is not held, or for RENEW in implicit mode.
        """
        with self._lock:
            self.client.acknowledge(record.partition, record.offset, kind)

    @property
    def acquisition_lock_timeout_ms(self) -> int | None:
        """Acquisition lock timeout; None before the first response."""
        return self.client.sharing.lock_ms

    def commit(self, timeout_ms: int) -> bool:
        """Send acknowledgements; returns whether all leaders responded in time.

        `events` has the results. Raises SaslAuthenticationError.
        """
        with self._lock:
            self.client.commit()
            return self._driver.turn_until(lambda: self.client.is_acknowledged, timeout_ms)
