"""Group membership of a worker.

Source: KIP-415; `WorkerCoordinator`, `DistributedHerder.RebalanceListener` in Kafka Connect. It
shares lookup, join, heartbeats and leave with `clients/consumer_coordinator.py`.

    rebalance begins          eager: all work is stopped first; otherwise it continues
    rebalance is over         revoked work is stopped and the worker rejoins; new work starts once
                              the config topic is read up to the leader's offset
    delay                     the worker rejoins when it is over
    CONFIG_MISMATCH           the worker reads on and rejoins
    other connectors or       the worker rejoins
    tasks are configured
    session expires           all work is stopped before the worker rejoins

A worker joins only after its work has stopped, so it never runs work that it does not report.
Kafka's worker keeps running after its session expires, although others may run the same work.
"""

import base64
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from brokertwin.clients import consumer_requests as requests
from brokertwin.clients.assignors.group import NO_GENERATION
from brokertwin.clients.connect.connect_protocol import (
    Assignment,
    ConnectProtocol,
    WorkerState,
    decode_assignment,
    encode_state,
)
from brokertwin.clients.connect.leader import ConnectLeader, KnownConfigs
from brokertwin.clients.connect.work import ConnectTaskId
from brokertwin.clients.connect.worker_config import WorkerConfig
from brokertwin.clients.consumer_coordinator import ClassicMembership, ClientMemberState
from brokertwin.clients.log_client import assign_all
from brokertwin.clients.subscription_state import SubscriptionState
from brokertwin.protocol.bodies import Body
from brokertwin.protocol.generated.join_group import JoinGroupRequest

PROTOCOL_TYPE = "connect"
REJOINS = "connect worker requested rejoin"


class WorkerCoordinator(ClassicMembership):
    """The membership of one worker.

    Attributes:
        known: read from the config topic; set by the owner.
        assignment: its work and config offset; None before the first.
        stopping: work that has to stop before the worker may join.
        is_ready: whether the config topic was read to its end once.
        taken: work that the owner has to stop now.
    """

    def __init__(self, settings: WorkerConfig, url: str, subscription: SubscriptionState) -> None:
        super().__init__(settings.membership, subscription)
        self._url = url
        self._connect_protocol = settings.connect_protocol
        self.known = KnownConfigs()
        self.assignment: Assignment | None = None
        self.stopping: set[ConnectTaskId] = set()
        self.is_ready = False
        self.taken: list[ConnectTaskId] = []
        self._leader = ConnectLeader(settings.scheduled_rebalance_max_delay_ms)
        self._joined_with = KnownConfigs()
        self._completed = NO_GENERATION
        self._rejoin_at: int | None = None
        self._now = 0

    # API

    def poll(self, now: int, partition_counts: Mapping[str, int]) -> None:
        """Take over the assignment; called while the herder is alive."""
        self._now = now
        self._poll_until = now + self.config.max_poll_interval_ms
        assign_all(self.subscription, partition_counts)
        if self.fatal is not None:
            return
        is_over = self.coordinator is None and now >= self._session_until
        if self.assignment is not None and (self.generation.id == NO_GENERATION or is_over):
            self._stop_all()
        self._take_given(now)
        self._look_for_reasons(now)
        self._rejoin(now)
        self.tick(now)

    def stopped(self, items: Iterable[ConnectTaskId]) -> None:
        self.stopping.difference_update(items)

    def deadlines(self) -> list[int]:
        """Return when `tick` or `poll` may have something to do."""
        return [*super().deadlines(), *([self._rejoin_at] if self._rejoin_at else [])]

    def close(self, now: int) -> None:
        """Give up all work and leave; the owner has stopped it."""
        self._stop_all()
        self.leave("the worker is being closed")

    def on_response(self, now: int, request_id: int, response: Body) -> None:
        self._now = now
        super().on_response(now, request_id, response)

    # Reasons to rejoin

    def _look_for_reasons(self, now: int) -> None:
        if self.state is not ClientMemberState.STABLE:
            return
        is_time = self._rejoin_at is not None and now >= self._rejoin_at
        has_changed = self.known.task_counts != self._joined_with.task_counts
        if is_time or has_changed or self.assignment is None:
            self._request_rejoin(REJOINS)

    def _rejoin(self, now: int) -> None:
        if self.is_ready:
            super()._rejoin(now)

    def _prepare(self, now: int) -> bool:
        if self.generation.protocol == ConnectProtocol.EAGER:
            self._stop_all()
        self._rejoin_at = None
        return not self.stopping

    def _stop_all(self) -> None:
        if self.assignment is not None:
            self._stop(self.assignment.assigned)
        self.assignment = None

    def _stop(self, items: Iterable[ConnectTaskId]) -> None:
        wanted = list(items)
        if wanted:
            self.stopping.update(wanted)
            self._must_prepare = True
            self.taken += wanted

    # Join

    def _join_request(self) -> JoinGroupRequest:
        self._joined_with = self.known
        state = WorkerState(self._url, self.known.offset, self.assignment)
        protocols = {
            str(protocol): encode_state(state, protocol)
            for protocol in self._connect_protocol.supported
        }
        reason = self._rejoin_reason
        return requests.join_group_of(
            PROTOCOL_TYPE, self.config, self.generation, protocols, reason
        )

    def _assign(self) -> None:
        """Assign as the leader, once the JoinGroup response has arrived."""
        joined, self._to_assign = self._to_assign, None
        if joined is None:
            return
        assignments = self._leader.assign(
            self._now,
            ConnectProtocol(self.generation.protocol),
            self.generation.member_id,
            {each.member_id: base64.b64decode(each.metadata) for each in joined.members},
            self.known,
            generation=self.generation.id,
            last_completed=self._completed,
        )
        self._sync(assignments)

    def _sync(self, assignment: Mapping[str, Any]) -> None:
        body = requests.sync_group(self.config, self.generation, assignment, PROTOCOL_TYPE)
        self._send("SYNC_GROUP", body)

    def _take_given(self, now: int) -> None:
        encoded, self._assignment = self._assignment, None
        if encoded is None or self.state is not ClientMemberState.STABLE:
            return
        assignment = decode_assignment(encoded)
        self._must_prepare = True
        self._completed = self.generation.id
        had = self.assignment.assigned if self.assignment else ()
        revoked = set(assignment.revoked)
        if revoked:
            self._stop(assignment.revoked)
            self._request_rejoin(REJOINS)
        if assignment.has_failed:
            self._request_rejoin(REJOINS)
            self._back_off(now)
        kept = [item for item in had if item not in revoked]
        items = tuple(dict.fromkeys([*assignment.assigned, *kept]))
        self.assignment = msgspec.structs.replace(assignment, assigned=items, revoked=())
        self._rejoin_at = now + assignment.delay_ms if assignment.delay_ms else None
