"""A consumer's membership in a consumer group (KIP-848): the coordinator assigns, heartbeats tell.

Source: KIP-848, KIP-1082; `ConsumerMembershipManager`, `ConsumerHeartbeatRequestManager`,
`AbstractHeartbeatRequestManager` in Kafka. It is driven like `consumer_coordinator.py`, whose
lookup, commits and committed offsets it has.

    phase           heartbeat                           leaves it
    JOINING         at once, epoch 0, says all          an answer: RECONCILING or STABLE
    RECONCILING     each interval                       a poll: what goes is stored and given back,
                                                        what comes is read: ACKNOWLEDGING
    ACKNOWLEDGING   at once, says what is owned         sent: STABLE
    STABLE          each interval, says what changed    another assignment: RECONCILING
    FENCED, STALE   none                                the next poll: all is lost; JOINING

    error of a heartbeat           what becomes of it
    14, 15, 16, no answer          again after a pause; 15 and 16 look for the coordinator
    25, 110                        FENCED: all is lost, and the member joins anew under its id
    anything else                  the end

Who has not polled for max.poll.interval.ms leaves (epoch -1) and is STALE. An assignment names
topics by their ids: one whose name metadata does not know yet waits. After a heartbeat without an
answer everything is said again. A pattern (`SubscribedTopicRegex`) the coordinator matches; one
that is none of RE2 ends the member (128).
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import ClassVar

from brokertwin.clients.consumer_config import ConsumerConfig
from brokertwin.clients.consumer_coordinator import (
    RETRIABLE,
    Commit,
    ConsumerCoordinator,
    MemberState,
)
from brokertwin.clients.consumer_events import (
    Assigned,
    Revoked,
)
from brokertwin.clients.consumer_requests import Generation
from brokertwin.clients.partitions import TopicPartition
from brokertwin.clients.subscription_state import SubscriptionState
from brokertwin.state.core.errors import Error, error_of
from brokertwin.state.core.schema import Body, Uuid
from brokertwin.state.core.wire.generated.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    ConsumerGroupHeartbeatResponseAssignment,
    ConsumerGroupHeartbeatTopicPartitions,
)
from brokertwin.state.core.wire.generated.share_group_heartbeat import (
    ShareGroupHeartbeatResponse,
    ShareGroupHeartbeatResponseAssignment,
)
from brokertwin.state.groups.consumer_group import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
)

FENCES = frozenset({Error.UNKNOWN_MEMBER_ID, Error.FENCED_MEMBER_EPOCH})
NO_TIMEOUT = -1


class Phase(StrEnum):
    """Where a member stands, by Kafka's names (`MemberState`)."""

    JOINING = "JOINING"
    RECONCILING = "RECONCILING"
    ACKNOWLEDGING = "ACKNOWLEDGING"
    STABLE = "STABLE"
    FENCED = "FENCED"
    STALE = "STALE"
    LEAVING = "LEAVING"


SILENT = frozenset({Phase.FENCED, Phase.STALE, Phase.LEAVING})
AT_ONCE = frozenset({Phase.JOINING, Phase.ACKNOWLEDGING})

Heartbeat = ConsumerGroupHeartbeatResponse | ShareGroupHeartbeatResponse
"""What a coordinator answers to a heartbeat, in a consumer group or in a share group."""

Said = tuple[frozenset[str], frozenset[TopicPartition]]
"""What the coordinator was last told: topics and owned partitions."""


class ConsumerMembership(ConsumerCoordinator):
    """One member. `member_id` is drawn by its owner and kept for good.

    Attributes:
        phase: where it stands.
        topic_ids: the ids of topics, as metadata has them.
    """

    heartbeat_api: ClassVar[str] = "CONSUMER_GROUP_HEARTBEAT"

    def __init__(
        self, config: ConsumerConfig, subscription: SubscriptionState, member_id: str
    ) -> None:
        super().__init__(config, subscription)
        self.phase = Phase.JOINING
        self.topic_ids: Mapping[str, Uuid] = {}
        self._member_id = member_id
        self.generation = Generation(JOIN_EPOCH, member_id)
        self._target: (
            ConsumerGroupHeartbeatResponseAssignment | ShareGroupHeartbeatResponseAssignment | None
        ) = None
        self._said: Said | None = None

    # The application's side

    def poll(self, now: int, partition_counts: Mapping[str, int]) -> None:
        """The application polls: what was assigned is taken over."""
        self._poll_until = now + self.config.max_poll_interval_ms
        if self.fatal is not None:
            return
        if self.phase in (Phase.FENCED, Phase.STALE):
            self._give_back(self.subscription.assigned, is_lost=True)
            self.phase = Phase.JOINING
        self._reconcile(now)
        self._commit_automatically(now)
        self.tick(now)

    def tick(self, now: int) -> None:
        """What is due without the application."""
        if self.fatal is not None:
            return
        if self.coordinator is None:
            self._find(now)
            return
        if self.phase not in SILENT and now >= self._poll_until:
            self.leave(now, "")
            self.phase = Phase.STALE
        self._beat(now)
        self._send_commits(now)
        if self.state is MemberState.STABLE:
            self._ask_for_offsets(now)

    @property
    def assigned_ids(self) -> frozenset[Uuid]:
        """The ids of the topics that it has, or is to have."""
        told = self._target.topic_partitions if self._target is not None else []
        owned = {topic for topic, _ in self.subscription.positions} & self.topic_ids.keys()
        return frozenset({each.topic_id for each in told} | {self.topic_ids[at] for at in owned})

    def deadlines(self) -> list[int]:
        """When `tick` may have something to do, also times that are past."""
        times = [self._retry_at, *(each.retry_at for each in self._commits)]
        return times if self.phase in SILENT else [*times, self._heartbeat_at, self._poll_until]

    def leave(self, now: int, reason: str) -> None:
        """Leaves the group; a static member says that it comes back. A reason goes nowhere."""
        is_static = self.config.group_instance_id is not None
        if self.state is MemberState.STABLE and self.coordinator is not None:
            epoch = STATIC_LEAVE_EPOCH if is_static else LEAVE_EPOCH
            self._send(self.heartbeat_api, self._request(epoch))
        self._reset(reason, keeps_member_id=True)
        self.phase = Phase.LEAVING

    @property
    def _reads_as(self) -> Generation:
        return self.generation

    # What becomes of requests

    def answered(self, now: int, request_id: int, response: Body) -> None:
        """The answer to a request."""
        if not isinstance(response, Heartbeat):
            super().answered(now, request_id, response)
            return
        pending = self._pending.pop(request_id)
        error = error_of(response.error_code)
        if self.phase in SILENT:
            return
        if error is Error.NONE:
            self._heard_of(now, response)
        elif error in RETRIABLE:
            self._lose_coordinator(error)
            self._said = None
            self._back_off(now)
        elif error not in FENCES:
            self._end(error)
        elif pending.generation == self.generation:
            self._reset_on(error, pending)

    def failed(self, now: int, request_id: int) -> None:
        """No answer comes."""
        if self._pending[request_id].api == self.heartbeat_api:
            self._said = None
        super().failed(now, request_id)

    def _commit_failed(self, now: int, commit: Commit, error: Error) -> None:
        """As of a classic member; a topic that is gone holds up no rebalance."""
        if commit is self._prepare_commit and error is Error.UNKNOWN_TOPIC_OR_PARTITION:
            self._give_up(commit, error)
        else:
            super()._commit_failed(now, commit, error)

    def _heard_of(self, now: int, response: Heartbeat) -> None:
        self._attempts = 0
        self.state = MemberState.STABLE
        self.generation = Generation(response.member_epoch, self._member_id)
        self._heartbeat_at = now + response.heartbeat_interval_ms
        if response.assignment is not None:
            self._target = response.assignment
        if self.phase in AT_ONCE or self._target is not None:
            self.phase = Phase.STABLE if self._target is None else Phase.RECONCILING

    def _reset(self, reason: str, *, keeps_member_id: bool) -> None:
        """Fenced: what is owned is lost, as the next poll finds out."""
        self.state = MemberState.UNJOINED
        self.phase = Phase.FENCED
        self.generation = Generation(JOIN_EPOCH, self._member_id)
        self._target = self._said = self._prepare_until = self._prepare_commit = None
        self._heartbeat_at = 0

    # Heartbeats

    def _beat(self, now: int) -> None:
        is_due = self.phase in AT_ONCE or now >= self._heartbeat_at
        if self.phase in SILENT or not is_due or now < self._retry_at:
            return
        if self._is_under_way(self.heartbeat_api):
            return
        self._send(self.heartbeat_api, self._request(self.generation.id))
        self._heartbeat_at = max(self._heartbeat_at, now + self.config.heartbeat_interval_ms)
        if self.phase is Phase.ACKNOWLEDGING:
            self.phase = Phase.STABLE if self._target is None else Phase.RECONCILING

    def _request(self, epoch: int) -> Body:
        """What has changed since it was last said; everything, where nothing was."""
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.config.group_id,
            member_id=self._member_id,
            member_epoch=epoch,
            instance_id=self.config.group_instance_id,
        )
        if epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH):
            if not self.subscription.positions:  # it is closed, and wants nothing any more
                request.subscribed_topic_names = []
                request.topic_partitions = []
                request.subscribed_topic_regex = self.subscription.pattern and ""
            return request
        topics, owned = self._said if self._said is not None else (None, None)
        self._said = self.subscription.topics, frozenset(self.subscription.positions)
        if topics is None:
            request.rebalance_timeout_ms = self.config.max_poll_interval_ms
            request.rack_id = self.config.client_rack or None
            request.server_assignor = self.config.group_remote_assignor
            request.subscribed_topic_regex = self.subscription.pattern
        if topics != self.subscription.topics:
            request.subscribed_topic_names = sorted(self.subscription.topics)
        if owned != self._said[1]:
            request.topic_partitions = self._by_id()
        return request

    def _by_id(self) -> list[ConsumerGroupHeartbeatTopicPartitions]:
        partitions: dict[Uuid, list[int]] = {}
        for topic, partition in self.subscription.assigned:
            if topic in self.topic_ids:  # not one that is deleted
                partitions.setdefault(self.topic_ids[topic], []).append(partition)
        return [
            ConsumerGroupHeartbeatTopicPartitions(topic_id=key, partitions=at)
            for key, at in partitions.items()
        ]

    # Reconciling

    def _reconcile(self, now: int) -> None:
        """Takes over the assignment, as far as its topics' names are known."""
        if self._target is None or self.phase is not Phase.RECONCILING:
            return
        names = {topic_id: name for name, topic_id in self.topic_ids.items()}
        wanted = {
            TopicPartition(names[topic.topic_id], partition)
            for topic in self._target.topic_partitions
            if topic.topic_id in names
            for partition in topic.partitions
        }
        unknown = [each for each in self._target.topic_partitions if each.topic_id not in names]
        self.needs_metadata = bool(unknown)
        owned = set(self.subscription.positions)
        if owned - wanted and not self._is_stored(now):
            return
        self._prepare_until = self._prepare_commit = None
        if not unknown:
            self._target = None
        if wanted == owned and self._commit_at is not None:
            self.phase = Phase.STABLE if self._target is None else Phase.RECONCILING
            return
        if owned - wanted:
            self.events.append(Revoked(sorted(owned - wanted)))
        self.subscription.assign(sorted(wanted))
        self._commit_at = self._commit_at or now + self.config.auto_commit_interval_ms
        self.events.append(Assigned(sorted(wanted - owned)))
        self.phase = Phase.ACKNOWLEDGING

    def _is_stored(self, now: int) -> bool:
        """Whether what was read is stored, or needs not be, before partitions are given back."""
        if self._prepare_until is None:
            self._prepare_until = now + self.config.max_poll_interval_ms
            consumed = self.subscription.all_consumed()
            if self.config.enable_auto_commit and consumed:
                self.subscription.is_pending_revocation = True
                self._prepare_commit = self._queue_commit(now, consumed, self._prepare_until)
        return self._prepare_commit not in self._commits or now >= self._prepare_until
