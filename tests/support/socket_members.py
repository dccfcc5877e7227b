"""A member of a group over sockets: our consumer beside other clients, as their tests poll them."""

import random
from typing import Any

from brokertwin.clients.assignors.assign import AssignorName
from brokertwin.clients.consumer_config import ConsumerConfig
from brokertwin.clients.fetcher import FetchSettings, OffsetReset
from brokertwin.clients.io.consumer import Consumer

POLL_MS = 20


class OurMember:
    """A member of the group that is named like its topic; it reads from the beginning on."""

    def __init__(self, bootstrap: str, topic: str, *assignors: AssignorName, **config: Any) -> None:
        settings = ConsumerConfig(
            group_id=topic,
            assignors=assignors,
            heartbeat_interval_ms=random.randint(80, 120),
            auto_commit_interval_ms=100,
            **config,
        )
        fetches = FetchSettings(
            auto_offset_reset=OffsetReset.EARLIEST, fetch_max_wait_ms=50, max_poll_records=7
        )
        self.consumer = Consumer(bootstrap, settings, [topic], fetches)
        self.coordinator = self.consumer.client.coordinator
        self.events: list[str] = []

    def poll(self) -> list[bytes]:
        """Records that it has read, as `partition@offset`."""
        taken = self.consumer.poll(POLL_MS)
        self.events += [type(event).__name__ for event in self.consumer.events()]
        return [b"%d@%d" % (at.partition, offset) for at, offset, _ in taken]

    def assigned(self) -> set[int]:
        return {partition.partition for partition in self.consumer.assigned}

    def positions(self) -> set[int | None]:
        return set(self.consumer.client.subscription.positions.values())

    def close(self) -> None:
        self.consumer.close()
        self.events += [type(event).__name__ for event in self.consumer.events()]
