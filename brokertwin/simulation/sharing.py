"""Members of a share group (KIP-932), which acknowledge records.

Most records are accepted, some released, few rejected. Some are kept for a while, sometimes beyond
their lock. Half of the members acknowledge implicitly with the next poll, Kafka's default.
"""

import msgspec

from brokertwin.clients.consumer_config import ConsumerConfig
from brokertwin.clients.consumer_events import ConsumerFailed
from brokertwin.clients.fetching_client import CONSUMER_NETWORK
from brokertwin.clients.share_client import ShareClient
from brokertwin.clients.share_fetcher import ShareRecord, ShareSettings
from brokertwin.clients.share_session import AcknowledgeType
from brokertwin.protocol.errors import Error
from brokertwin.simulation.actors import REQUEST_MS, Actor, ActorContext
from brokertwin.simulation.audit_shares import SHARED
from brokertwin.simulation.closing import LogReader
from brokertwin.simulation.cluster import SESSION_MS, SHARE_LOCK_MS
from brokertwin.simulation.plan import ClientPlan, Role, RunPlan

POLL_MS = 200
EXPLICIT = 0.5
"""Probability of explicit acknowledgements."""

RELEASES, REJECTS, KEEPS = 0.15, 0.05, 0.2
NETWORK = msgspec.structs.replace(CONSUMER_NETWORK, request_timeout_ms=REQUEST_MS)
GROUP_RESOURCE = 32


def begin_share_groups(reader: LogReader, plan: RunPlan) -> None:
    """Configure the plan's share groups: first offset, and isolation level."""
    levels = {
        each.group: each.is_read_committed for each in plan.clients if each.role is Role.SHARER
    }
    for group, is_committed in levels.items():
        level = "read_committed" if is_committed else "read_uncommitted"
        settings = {"share.auto.offset.reset": "earliest", "share.isolation.level": level}
        configs = [{"name": k, "value": v, "configOperation": 0} for k, v in settings.items()]
        resource = {"resourceType": GROUP_RESOURCE, "resourceName": group, "configs": configs}
        response = reader.request("INCREMENTAL_ALTER_CONFIGS", 1, {"resources": [resource]})
        assert response["responses"][0]["errorCode"] == Error.NONE, response


class ShareActor(Actor):
    def __init__(self, place: ActorContext, plan: ClientPlan, name: str) -> None:
        super().__init__(place, plan, name)
        config = ConsumerConfig(
            group_id=plan.group, enable_auto_commit=False, max_poll_interval_ms=2 * SESSION_MS
        )
        self._is_explicit = self.chance.random() < EXPLICIT
        settings = ShareSettings(
            is_explicit=self._is_explicit,
            max_poll_records=self.chance.choice((5, 500)),
            acquire_mode=self.chance.choice((0, 1)),
        )
        draw = self.draw("sharer")
        self.client = ShareClient(config, settings, frozenset(SHARED), draw, network=NETWORK)
        self._driver = self.driver_of(self.client, self.sockets)
        self._next_at = 0
        self._kept: list[ShareRecord] = []
        self._keeps_until = 0

    @property
    def is_at_rest(self) -> bool:
        return not self.client.sharing.held and self.client.is_acknowledged

    def _work(self, now: int) -> int:
        if now < self._next_at:
            return self._next_at - now
        self._next_at = now + POLL_MS
        for event in self.client.events():
            self.place.auditor.say(f"{self.name}: {event}")
            if isinstance(event, ConsumerFailed):
                self.place.auditor.violate(f"{self.name} ends with {event.error.name}")
        if now < self._keeps_until and not self.is_ending:
            return POLL_MS
        self._acknowledge()
        auditor = self.place.auditor
        auditor.shares.ids = self.client.metadata.snapshot.topic_ids or auditor.shares.ids
        taken = self.client.poll_records(now)
        for at, offset, name, _ in taken:
            is_committed = self.plan.is_read_committed
            auditor.shares.gives(self.plan.group, at, offset)
            auditor.records.read(self.plan.group, at, offset, name, is_committed)
        self._kept = taken
        if self.chance.random() < KEEPS:
            self._keeps_until = now + self.chance.randint(POLL_MS, 2 * SHARE_LOCK_MS)
        return POLL_MS

    def close(self) -> None:
        """Close the consumer: it acknowledges, and leaves its group."""
        self.is_closing = True
        self.client.close(self.place.clock.now)
        self.wake()

    @property
    def is_closed(self) -> bool:
        return self.client.is_quiet

    def _acknowledge(self) -> None:
        kept, self._kept = self._kept, []
        for each in kept if self._is_explicit else ():
            self.client.acknowledge(each.partition, each.offset, self._kind())

    def _kind(self) -> AcknowledgeType:
        drawn = self.chance.random()
        if self.is_ending or drawn >= RELEASES + REJECTS:
            return AcknowledgeType.ACCEPT
        return AcknowledgeType.RELEASE if drawn < RELEASES else AcknowledgeType.REJECT

    def _turn(self) -> int:
        self._driver.turn(REQUEST_MS)
        return self.sockets.wait_ms
