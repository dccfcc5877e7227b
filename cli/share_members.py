"""Members of a share group for `brokertwin consume --protocol share`.

A record is acknowledged when it is printed, and no more are fetched before all are. What was not
printed when the command ends goes back to the group.
"""

from collections import deque
from typing import TYPE_CHECKING

from brokertwin.clients.consumer_events import Assigned, Event, ShareAcknowledged
from brokertwin.clients.partitions import TopicPartition
from brokertwin.clients.share_client import ShareClient
from brokertwin.clients.share_fetcher import ShareRecord, ShareSettings
from brokertwin.clients.share_session import AcknowledgeType
from brokertwin.drivers.share_consumer import ShareConsumer
from brokertwin.state.core.errors import Error

if TYPE_CHECKING:
    from brokertwin.clients.consumer_config import ConsumerConfig
    from brokertwin.kafka_io.kafka_clients import ClientProperties

COMMIT_MS = 10_000


class ShareMember:
    """One member, as `Reading` drives it; `printed` may be called by another thread."""

    def __init__(self, consumer: ShareConsumer, kind: AcknowledgeType) -> None:
        self._consumer = consumer
        self._kind = kind
        self._given = 0
        self._printed: deque[ShareRecord] = deque()

    @property
    def client(self) -> ShareClient:
        """The machine."""
        return self._consumer.client

    @property
    def assigned(self) -> list[TopicPartition]:
        """The partitions that it has, in order."""
        return self._consumer.assigned

    def partition_counts(self) -> dict[str, int]:
        """Of each topic that it reads; 0 where there is none."""
        return self._consumer.partition_counts()

    def poll(self, timeout_ms: int) -> list[ShareRecord]:
        """More records, once those of before are printed."""
        self._acknowledge()
        if self._given:
            return []
        taken = self._consumer.poll(timeout_ms)
        self._given = len(taken)
        return taken

    def printed(self, record: ShareRecord) -> None:
        """A record is where it should be."""
        self._printed.append(record)

    def events(self) -> list[Event]:
        """What has happened, but for what says nothing: no partitions yet, and what is told."""
        return [
            each
            for each in self._consumer.events()
            if not (isinstance(each, Assigned) and not each.partitions)
            and not (isinstance(each, ShareAcknowledged) and each.error is Error.NONE)
        ]

    def close(self) -> None:
        """Says what was printed, gives back what was not, and leaves."""
        self._acknowledge()
        self._consumer.commit(COMMIT_MS)
        self._consumer.close()

    def _acknowledge(self) -> None:
        while self._printed:
            self._consumer.acknowledge(self._printed.popleft(), self._kind)
            self._given -= 1


def share_member(
    kafka: "ClientProperties",
    settings: "ConsumerConfig",
    topics: list[str],
    kind: str,
    number: int,
) -> ShareMember:
    """One of the members; `kind` is the name of what it says of its records."""
    consumer = ShareConsumer(
        kafka,
        settings.group_id,
        topics,
        ShareSettings(is_explicit=True),
        client_rack=settings.client_rack,
        client_id=f"brokertwin-{number}",
    )
    return ShareMember(consumer, AcknowledgeType[kind])
