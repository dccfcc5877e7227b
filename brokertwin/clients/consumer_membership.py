"""Membership in a consumer group (KIP-848): heartbeats and reconciliation.

Source: KIP-848, KIP-1082; `ConsumerMembershipManager`, `ConsumerHeartbeatRequestManager`,
`AbstractHeartbeatRequestManager` in Kafka. It is driven like `consumer_coordinator.py` and shares
its lookup, commits and committed offsets.

    phase           heartbeat                         ends with
    JOINING         at once, epoch 0, all fields      a response: RECONCILING or STABLE
    RECONCILING     each interval                     a poll: removed partitions are committed and
                                                      revoked, added ones are read: ACKNOWLEDGING
    ACKNOWLEDGING   at once, with owned partitions    sent: STABLE
    STABLE          each interval, changed fields     a new assignment: RECONCILING
    FENCED, STALE   none                              the next poll: partitions are lost; JOINING

    error of a heartbeat                   effect
    14 COORDINATOR_LOAD_IN_PROGRESS,       retried after a backoff; 15 and 16 cause a lookup
    15 COORDINATOR_NOT_AVAILABLE,
    16 NOT_COORDINATOR, no response
    25 UNKNOWN_MEMBER_ID,                  FENCED: partitions are lost; rejoins with its member id
    110 FENCED_MEMBER_EPOCH
    any other error                        fatal

A member that has not polled for max.poll.interval.ms leaves (epoch -1) and is STALE. An assignment
has topic ids; topics that the metadata does not know yet wait. A heartbeat after one without a
response has all fields. The coordinator matches a pattern (`SubscribedTopicRegex`); 128
INVALID_REGULAR_EXPRESSION is fatal.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import ClassVar

from brokertwin.clients.consumer_config import ConsumerConfig
from brokertwin.clients.consumer_coordinator import (
    RETRIABLE,
    ClassicMembership,
    ClientMemberState,
    UnackedCommit,
)
from brokertwin.clients.consumer_events import PartitionsAssigned, PartitionsRevoked
from brokertwin.clients.consumer_requests import Generation
from brokertwin.clients.partitions import TopicPartition, grouped
from brokertwin.clients.subscription_state import SubscriptionState
from brokertwin.protocol.bodies import Body, Uuid
from brokertwin.protocol.errors import Error, error_of
from brokertwin.protocol.generated.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseAssignment,
    ConsumerGroupHeartbeatTopicPartitions,
)
from brokertwin.protocol.generated.share_group_heartbeat import (
    ShareGroupHeartbeatResponse,
    ShareGroupHeartbeatResponseAssignment,
)
from brokertwin.state.groups.consumer_group import JOIN_EPOCH, LEAVE_EPOCH, STATIC_LEAVE_EPOCH

FENCES = frozenset({Error.UNKNOWN_MEMBER_ID, Error.FENCED_MEMBER_EPOCH})


class MembershipPhase(StrEnum):
    """Phase of the membership, by Kafka's names (`MemberState`)."""

    JOINING = "JOINING"
    RECONCILING = "RECONCILING"
    ACKNOWLEDGING = "ACKNOWLEDGING"
    STABLE = "STABLE"
    FENCED = "FENCED"
    STALE = "STALE"
    LEAVING = "LEAVING"


SILENT = frozenset({MembershipPhase.FENCED, MembershipPhase.STALE, MembershipPhase.LEAVING})
AT_ONCE = frozenset({MembershipPhase.JOINING, MembershipPhase.ACKNOWLEDGING})

Heartbeat = ConsumerGroupHeartbeatResponse | ShareGroupHeartbeatResponse
"""The heartbeat response of a consumer group or a share group."""

ReportedState = tuple[frozenset[str], frozenset[TopicPartition]]
"""Last reported state: topics and owned partitions."""


class ConsumerMembership(ClassicMembership):
    """The membership of one consumer; the owner generates `member_id`.

    Attributes:
        topic_ids: topic ids from the metadata.
    """

    heartbeat_api: ClassVar[str] = "CONSUMER_GROUP_HEARTBEAT"

    def __init__(
        self, config: ConsumerConfig, subscription: SubscriptionState, member_id: str
    ) -> None:
        super().__init__(config, subscription)
        self.phase = MembershipPhase.JOINING
        self.topic_ids: Mapping[str, Uuid] = {}
        self._member_id = member_id
        self.generation = Generation(JOIN_EPOCH, member_id)
        self._target: (
            ConsumerGroupHeartbeatResponseAssignment | ShareGroupHeartbeatResponseAssignment | None
        ) = None
        self._reported: ReportedState | None = None

    # API

    def poll(self, now: int, partition_counts: Mapping[str, int]) -> None:
        """Take over the assignment; called when the application polls."""
        self._poll_until = now + self.config.max_poll_interval_ms
        if self.fatal is not None:
            return
        if self.phase in (MembershipPhase.FENCED, MembershipPhase.STALE):
            self._give_back(self.subscription.assigned, is_lost=True)
            self.phase = MembershipPhase.JOINING
        self._reconcile(now)
        self._commit_automatically(now)
        self.tick(now)

    def tick(self, now: int) -> None:
        """Run lookup, heartbeats and commits, without the application."""
        if self.fatal is not None:
            return
        if self.coordinator is None:
            self._find(now)
            return
        if self.phase not in SILENT and now >= self._poll_until:
            self.leave("")
            self.phase = MembershipPhase.STALE
        self._beat(now)
        self._send_commits(now)
        if self.state is ClientMemberState.STABLE:
            self._fetch_offsets(now)

    @property
    def assigned_ids(self) -> frozenset[Uuid]:
        target = self._target.topic_partitions if self._target is not None else []
        owned = {topic for topic, _ in self.subscription.positions} & self.topic_ids.keys()
        return frozenset({each.topic_id for each in target} | {self.topic_ids[at] for at in owned})

    def deadlines(self) -> list[int]:
        """Return when `tick` may have something to do; may be in the past."""
        times = [self._retry_at, *(each.retry_at for each in self._commits)]
        return times if self.phase in SILENT else [*times, self._heartbeat_at, self._poll_until]

    def leave(self, reason: str) -> None:
        """Leave the group; a static member announces that it returns. The reason is not sent."""
        is_static = self.config.group_instance_id is not None
        if self.state is ClientMemberState.STABLE and self.coordinator is not None:
            epoch = STATIC_LEAVE_EPOCH if is_static else LEAVE_EPOCH
            self._send(self.heartbeat_api, self._request(epoch))
        self._reset(reason, keeps_member_id=True)
        self.phase = MembershipPhase.LEAVING

    @property
    def _reads_as(self) -> Generation:
        return self.generation

    # Results of requests

    def on_response(self, now: int, request_id: int, response: Body) -> None:
        if not isinstance(response, Heartbeat):
            super().on_response(now, request_id, response)
            return
        pending = self._pending.pop(request_id)
        error = error_of(response.error_code)
        is_of_leave = error is Error.NONE and response.member_epoch < 0
        if self.phase in SILENT or is_of_leave:  # the member may be joining again by now
            return
        if error is Error.NONE:
            self._accept_heartbeat(now, response)
        elif error in RETRIABLE:
            self._lose_coordinator(error)
            self._reported = None
            self._back_off(now)
        elif error not in FENCES:
            self._end(error)
        elif pending.generation == self.generation:
            self._reset_on(error, pending)

    def failed(self, now: int, request_id: int) -> None:
        """Handle a request without a response."""
        if self._pending[request_id].api == self.heartbeat_api:
            self._reported = None
        super().failed(now, request_id)

    def _commit_failed(self, now: int, commit: UnackedCommit, error: Error) -> None:
        """Fail a commit; a deleted topic does not block a rebalance."""
        if commit is self._prepare_commit and error is Error.UNKNOWN_TOPIC_OR_PARTITION:
            self._give_up(commit, error)
        else:
            super()._commit_failed(now, commit, error)

    def _accept_heartbeat(self, now: int, response: Heartbeat) -> None:
        self._attempts = 0
        self.state = ClientMemberState.STABLE
        self.generation = Generation(response.member_epoch, self._member_id)
        self._heartbeat_at = now + response.heartbeat_interval_ms
        if response.assignment is not None:
            self._target = response.assignment
        if self.phase in AT_ONCE or self._target is not None:
            self._reconciled()

    def _reconciled(self) -> None:
        is_stable = self._target is None
        self.phase = MembershipPhase.STABLE if is_stable else MembershipPhase.RECONCILING

    def _reset(self, reason: str, *, keeps_member_id: bool) -> None:
        """Leave the generation; the next poll reports the partitions as lost."""
        self.state = ClientMemberState.UNJOINED
        self.phase = MembershipPhase.FENCED
        self.generation = Generation(JOIN_EPOCH, self._member_id)
        self._target = self._reported = self._prepare_until = self._prepare_commit = None
        self._heartbeat_at = 0

    # Heartbeats

    def _beat(self, now: int) -> None:
        is_due = self.phase in AT_ONCE or now >= self._heartbeat_at
        if self.phase in SILENT or not is_due or now < self._retry_at:
            return
        if self._is_in_flight(self.heartbeat_api):
            return
        self._send(self.heartbeat_api, self._request(self.generation.id))
        self._heartbeat_at = max(self._heartbeat_at, now + self.config.heartbeat_interval_ms)
        if self.phase is MembershipPhase.ACKNOWLEDGING:
            self._reconciled()

    def _request(self, epoch: int) -> Body:
        """Return a heartbeat with changed fields; with all after a reset."""
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.config.group_id,
            member_id=self._member_id,
            member_epoch=epoch,
            instance_id=self.config.group_instance_id,
        )
        if epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH):
            if not self.subscription.positions:  # closed: it no longer subscribes
                request.subscribed_topic_names = []
                request.topic_partitions = []
                request.subscribed_topic_regex = self.subscription.pattern and ""
            return request
        topics, owned = self._reported if self._reported is not None else (None, None)
        self._reported = self.subscription.topics, frozenset(self.subscription.positions)
        if topics is None:
            request.rebalance_timeout_ms = self.config.max_poll_interval_ms
            request.rack_id = self.config.client_rack or None
            request.server_assignor = self.config.group_remote_assignor
            request.subscribed_topic_regex = self.subscription.pattern
        if topics != self.subscription.topics:
            request.subscribed_topic_names = sorted(self.subscription.topics)
        if owned != self._reported[1]:
            request.topic_partitions = self._by_id()
        return request

    def _by_id(self) -> list[ConsumerGroupHeartbeatTopicPartitions]:
        ids = self.topic_ids  # without deleted topics
        owned = ((ids[topic], at) for topic, at in self.subscription.assigned if topic in ids)
        return [
            ConsumerGroupHeartbeatTopicPartitions(topic_id=key, partitions=at)
            for key, at in grouped(owned).items()
        ]

    # Reconciliation

    def _reconcile(self, now: int) -> None:
        """Take over the assignment, as far as topic names are known."""
        if self._target is None or self.phase is not MembershipPhase.RECONCILING:
            return
        names = {topic_id: name for name, topic_id in self.topic_ids.items()}
        assigned = {
            TopicPartition(names[topic.topic_id], partition)
            for topic in self._target.topic_partitions
            if topic.topic_id in names
            for partition in topic.partitions
        }
        unknown = [each for each in self._target.topic_partitions if each.topic_id not in names]
        self.needs_metadata = bool(unknown)
        owned = set(self.subscription.positions)
        if owned - assigned and not self._commit_first(now, stops_reading=True):
            return
        self._prepare_until = self._prepare_commit = None
        if not unknown:
            self._target = None
        if assigned == owned and self._commit_at is not None:
            self._reconciled()
            return
        if owned - assigned:
            self.events.append(PartitionsRevoked(sorted(owned - assigned)))
        self.subscription.assign(sorted(assigned))
        self._commit_at = self._commit_at or now + self.config.auto_commit_interval_ms
        self.events.append(PartitionsAssigned(sorted(assigned - owned)))
        self.phase = MembershipPhase.ACKNOWLEDGING
