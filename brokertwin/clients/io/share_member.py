"""Members of a share group that acknowledge each record after their caller has printed it.

The next fetch follows after all are printed. If the command ends first, records that were not
printed are released.
"""

from collections import deque
from typing import TYPE_CHECKING

from brokertwin.clients.consumer_events import Event, PartitionsAssigned, ShareAcknowledged
from brokertwin.clients.io.group_member import CLOSE_MS
from brokertwin.clients.io.share_consumer import ShareConsumer
from brokertwin.clients.share_fetcher import ShareRecord, ShareSettings
from brokertwin.clients.share_session import AcknowledgeType
from brokertwin.protocol.errors import Error

if TYPE_CHECKING:
    from brokertwin.clients.consumer_config import ConsumerConfig
    from brokertwin.kafka_io.kafka_clients import ClientProperties

COMMIT_MS = 10_000


class ShareMember(ShareConsumer):
    """A member; another thread may call `printed`."""

    def __init__(
        self,
        kafka: "ClientProperties",
        settings: "ConsumerConfig",
        topics: list[str],
        kind: str,
        number: int,
    ) -> None:
        super().__init__(
            kafka,
            settings.group_id,
            topics,
            ShareSettings(is_explicit=True),
            client_rack=settings.client_rack,
            client_id=f"brokertwin-{number}",
        )
        self._kind = AcknowledgeType[kind]
        self._given = 0
        self._printed: deque[ShareRecord] = deque()

    def poll(self, timeout_ms: int) -> list[ShareRecord]:
        """Fetch more records after the last ones were printed."""
        self._acknowledge()
        if self._given:
            return []
        taken = super().poll(timeout_ms)
        self._given = len(taken)
        return taken

    def printed(self, record: ShareRecord) -> None:
        self._printed.append(record)

    def events(self) -> list[Event]:
        """Return the events, except for empty assignments and successful acknowledgements."""
        return [
            each
            for each in super().events()
            if not (isinstance(each, PartitionsAssigned) and not each.partitions)
            and not (isinstance(each, ShareAcknowledged) and each.error is Error.NONE)
        ]

    def close(self, timeout_ms: int = CLOSE_MS) -> None:
        """Acknowledge printed records, release the others, and leave the group."""
        self._acknowledge()
        self.commit(COMMIT_MS)
        super().close(timeout_ms)

    def _acknowledge(self) -> None:
        while self._printed:
            self.acknowledge(self._printed.popleft(), self._kind)
            self._given -= 1
