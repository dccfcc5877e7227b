"""Membership in a classic group: find, join, sync, heartbeat, commit, leave.

Source: seed 001; KIP-62, KIP-345, KIP-394, KIP-429; `AbstractCoordinator`, `ConsumerCoordinator`,
`Heartbeat` in Kafka. The caller has the clock and the connections. It calls `poll` when the
application polls, and `tick` in between, as Kafka's heartbeat thread does. It sends the requests of
`take` and reports results with `on_response` and `failed`.

    error             14 COORDINATOR_LOAD_    22 ILLEGAL_    25 UNKNOWN_   82 FENCED_INSTANCE_ID,
                      IN_PROGRESS, 15, 16     GENERATION     MEMBER_ID     others
    JoinGroup         retried                 -              new member    fatal
    SyncGroup         rejoins                 rejoins        new member    fatal
    Heartbeat         retried later           rejoins        new member    fatal
    OffsetCommit      retried until timeout   fails, rejoins new member    fatal, or fails

27 REBALANCE_IN_PROGRESS causes a rejoin. 15 COORDINATOR_NOT_AVAILABLE, 16 NOT_COORDINATOR, 7
REQUEST_TIMED_OUT and a closed connection cause a new coordinator lookup. 79 MEMBER_ID_REQUIRED has
the member id to join with. A response to a request of an earlier generation resets nothing.

Before a rejoin the member commits if commits are automatic, until max.poll.interval.ms is over.
Then it revokes all partitions; in a cooperative group only those of topics that it no longer
subscribes to. If its generation is over, all partitions are lost.
`consumer_membership.py` is the counterpart for `group.protocol=consumer` (KIP-848).
"""

import base64
from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

import msgspec

from brokertwin.clients import consumer_requests as requests
from brokertwin.clients.assignors.group import NO_GENERATION
from brokertwin.clients.assignors.member import ConsumersOwn, MembersAssignor
from brokertwin.clients.consumer_config import ConsumerConfig
from brokertwin.clients.consumer_events import (
    CommitFailed,
    ConsumerFailed,
    Event,
    OffsetsCommitted,
    PartitionsAssigned,
    PartitionsLost,
    PartitionsRevoked,
)
from brokertwin.clients.consumer_protocol import decode_assignment
from brokertwin.clients.consumer_requests import CoordinatorRequest, Generation
from brokertwin.clients.partitions import Node, TopicPartition
from brokertwin.clients.subscription_state import SubscriptionState
from brokertwin.protocol.bodies import Body
from brokertwin.protocol.errors import Error, error_name, error_of
from brokertwin.protocol.generated.find_coordinator import FindCoordinatorResponse
from brokertwin.protocol.generated.heartbeat import HeartbeatResponse
from brokertwin.protocol.generated.join_group import JoinGroupRequest, JoinGroupResponse
from brokertwin.protocol.generated.offset_commit import OffsetCommitResponse
from brokertwin.protocol.generated.offset_fetch import OffsetFetchResponse
from brokertwin.protocol.generated.sync_group import SyncGroupResponse

COORDINATOR_GONE = frozenset(
    {Error.COORDINATOR_NOT_AVAILABLE, Error.NOT_COORDINATOR, Error.REQUEST_TIMED_OUT}
)
RETRIABLE = COORDINATOR_GONE | {Error.COORDINATOR_LOAD_IN_PROGRESS}
RETRIABLE_COMMIT = RETRIABLE | {
    Error.UNKNOWN_TOPIC_OR_PARTITION,
    Error.NETWORK_EXCEPTION,
    Error.STALE_MEMBER_EPOCH,
}
NEW_GENERATION = frozenset({Error.ILLEGAL_GENERATION, Error.UNKNOWN_MEMBER_ID})
NOT_A_MEMBER = frozenset({Error.UNKNOWN_MEMBER_ID, Error.STALE_MEMBER_EPOCH})
"""Errors of OffsetFetch that are retried: the next heartbeat resolves them."""

JOIN_ALLOWANCE_MS = 5_000
"""A JoinGroup response may take this long beyond the rebalance timeout."""


class ClientMemberState(StrEnum):
    """State of the membership, by Kafka's names."""

    UNJOINED = "Unjoined"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"


JOINED = frozenset({ClientMemberState.COMPLETING_REBALANCE, ClientMemberState.STABLE})


class UnackedCommit(msgspec.Struct):
    """An unacknowledged commit; retried until `until`, in ms."""

    id: int
    offsets: dict[TopicPartition, int]
    until: int
    epochs: dict[TopicPartition, int]
    retry_at: int = 0
    is_in_flight: bool = False


class _Pending(NamedTuple):
    """A request in flight, and the generation it was sent in."""

    api: str
    generation: Generation
    commit: UnackedCommit | None = None


class ClassicMembership:
    """The membership of one consumer; `assignor` replaces Kafka's.

    Attributes:
        generation: generation id (-1 if none), member id and protocol.
        coordinator: the group's coordinator if known.
        is_leader: whether it assigned in this generation.
        group_topics: topics whose partition counts it needs.
        fatal: the error that ended the membership.
        needs_metadata: an assigned topic is missing from the metadata.
        is_held: the application has to finish something before the next join.
        holds_revoked: each `PartitionsRevoked` sets `is_held`, as Kafka waits for its listener.
    """

    def __init__(
        self,
        config: ConsumerConfig,
        subscription: SubscriptionState,
        assignor: MembersAssignor | None = None,
    ) -> None:
        self.config = config
        self.subscription = subscription
        self.state = ClientMemberState.UNJOINED
        self.generation = Generation()
        self.coordinator: Node | None = None
        self.is_leader = False
        self.group_topics = subscription.topics
        self.events: list[Event] = []
        self.fatal: Error | None = None
        self.needs_metadata = False
        self.is_held = self.holds_revoked = False
        self._outgoing: list[CoordinatorRequest] = []
        self._pending: dict[int, _Pending] = {}
        self._last_id = 0
        self._counts: dict[str, int] = {}
        self._assigned_counts: dict[str, int | None] | None = None
        self._joined_topics: frozenset[str] | None = None
        self._assignor = assignor or ConsumersOwn(config.assignors)
        self._to_assign: JoinGroupResponse | None = None
        self._assignment: bytes | None = None
        self._must_rejoin = self._must_prepare = True
        self._rejoin_reason = ""
        self._prepare_until: int | None = None
        self._prepare_commit: UnackedCommit | None = None
        self._commits: list[UnackedCommit] = []
        self._attempts = 0
        self._retry_at = self._heartbeat_at = self._session_until = self._poll_until = 0
        self._commit_at: int | None = None

    # API

    def poll(self, now: int, partition_counts: Mapping[str, int]) -> None:
        """Take over assignments; called when the application polls.

        `partition_counts` is by topic, 0 for a nonexistent topic.
        """
        self._poll_until = now + self.config.max_poll_interval_ms
        self._counts = dict(partition_counts)
        if self.fatal is not None:
            return
        self._take_assignment(now)
        self._assign()
        self._look_at_topics()
        self._rejoin(now)
        self._commit_automatically(now)
        self.tick(now)

    def tick(self, now: int) -> None:
        """Run lookup, heartbeats and commits, without the application."""
        if self.fatal is None and self.coordinator is None:
            self._find(now)
        if self.fatal is not None or self.coordinator is None:
            return
        if self.state in JOINED:
            self._stay_alive(now)
        self._send_commits(now)
        self._fetch_offsets(now)

    def take(self) -> list[CoordinatorRequest]:
        outgoing, self._outgoing = self._outgoing, []
        return outgoing

    def deadlines(self) -> list[int]:
        """Return when `tick` may have something to do; may be in the past."""
        times = [self._retry_at, *(each.retry_at for each in self._commits)]
        if self.state in JOINED:
            times += [self._heartbeat_at, self._session_until, self._poll_until]
        return times

    def commit(self, now: int, offsets: Mapping[TopicPartition, int], *, is_sync: bool) -> int:
        """Commit offsets; events have the returned id.

        `is_sync` retries for `default.api.timeout.ms`, as `commitSync`.
        """
        until = now + self.config.default_api_timeout_ms if is_sync else 0
        return self._queue_commit(now, dict(offsets), until).id

    def close(self, now: int) -> None:
        """Commit if automatic, revoke all partitions, and leave."""
        is_stable = self.state is ClientMemberState.STABLE
        if self.config.enable_auto_commit and is_stable:
            self._queue_commit(now, self.subscription.all_consumed(), 0)
        self._give_back(self.subscription.assigned, is_lost=not is_stable)
        self.leave("the consumer is being closed")
        for commit in [each for each in self._commits if not each.is_in_flight]:
            self._give_up(commit, Error.COORDINATOR_NOT_AVAILABLE)

    def leave(self, reason: str) -> None:
        """Leave the group; a static member only stops."""
        is_dynamic = self.config.group_instance_id is None
        is_member = self.state is not ClientMemberState.UNJOINED and self.generation.member_id != ""
        if is_dynamic and is_member and self.coordinator is not None:
            self._send("LEAVE_GROUP", requests.leave_group(self.config, self.generation, reason))
        self._reset("consumer pro-actively leaving the group", keeps_member_id=False)

    # Results of requests

    def on_response(self, now: int, request_id: int, response: Body) -> None:
        pending = self._pending.pop(request_id)
        match response:
            case FindCoordinatorResponse():
                self._found(now, response)
            case JoinGroupResponse():
                self._joined(now, pending, response)
            case SyncGroupResponse():
                self._synced(now, pending, response)
            case HeartbeatResponse():
                self._on_heartbeat(now, pending, error_of(response.error_code))
            case OffsetCommitResponse():
                self._stored(now, pending, response)
            case OffsetFetchResponse():
                self._read(now, response)

    def failed(self, now: int, request_id: int) -> None:
        """Handle a request without a response: the connection is closed."""
        pending = self._pending.pop(request_id)
        if self._is_bound(pending.api):
            self.coordinator = None
        if pending.commit is not None:
            self._commit_failed(now, pending.commit, Error.NETWORK_EXCEPTION)
        self._back_off(now)

    def disconnected(self, now: int) -> None:
        self.coordinator = None
        self._back_off(now)

    # Coordinator lookup

    def _find(self, now: int) -> None:
        if now >= self._retry_at and not self._is_in_flight("FIND_COORDINATOR"):
            self._send("FIND_COORDINATOR", requests.find_coordinator(self.config))

    def _found(self, now: int, response: FindCoordinatorResponse) -> None:
        coordinator = response.coordinators[0]
        error = error_of(coordinator.error_code)
        if error is Error.NONE:
            self.coordinator = Node(coordinator.node_id, coordinator.host, coordinator.port)
            self._session_until = now + self.config.session_timeout_ms
            self._attempts = 0
        elif error in RETRIABLE:
            self._back_off(now)
        else:
            self._end(error)

    # Join

    def _rejoin(self, now: int) -> None:
        """Send JoinGroup if due and no rebalance request is in flight."""
        is_joining = self._is_in_flight("JOIN_GROUP") or self._is_in_flight("SYNC_GROUP")
        is_pending = is_joining or self._assignment is not None or self._to_assign is not None
        may_join = self.coordinator is not None and now >= self._retry_at and not self.is_held
        if is_pending or not (self._must_rejoin and may_join):
            return
        if self._must_prepare and not self._prepare(now):
            return
        self._must_prepare = False
        self.state = ClientMemberState.PREPARING_REBALANCE
        self.is_leader = False
        self._joined_topics = self.group_topics = self.subscription.topics
        timeout_ms = self.config.max_poll_interval_ms + JOIN_ALLOWANCE_MS
        self._send("JOIN_GROUP", self._join_request(), timeout_ms=timeout_ms)

    def _join_request(self) -> JoinGroupRequest:
        claims, reason = self.subscription, self._rejoin_reason
        return requests.join_group(self.config, self.generation, claims, self._assignor, reason)

    def _request_rejoin(self, reason: str) -> None:
        """Rejoin with a reason (KIP-800); a pattern is matched again."""
        self.needs_metadata = self.needs_metadata or self.subscription.pattern is not None
        self._must_rejoin = True
        self._rejoin_reason = reason

    def _prepare(self, now: int) -> bool:
        """Commit and revoke before a join; True when done."""
        if not self._commit_first(now, stops_reading=not self._assignor.is_cooperative):
            return False
        self._prepare_until = self._prepare_commit = None
        assigned = self.subscription.assigned
        if self.generation.id == NO_GENERATION:
            self._give_back(assigned, is_lost=True)
        elif not self._assignor.is_cooperative:
            self._give_back(assigned)
        else:
            topics = self.subscription.topics
            self._give_back([each for each in assigned if each.topic not in topics])
        return True

    def _commit_first(self, now: int, *, stops_reading: bool) -> bool:
        """Commit before partitions are revoked, if automatic; True when done."""
        if self._prepare_until is None:
            self._prepare_until = now + self.config.max_poll_interval_ms
            consumed = self.subscription.all_consumed()
            is_stable = self.state is ClientMemberState.STABLE
            if self.config.enable_auto_commit and is_stable and consumed:
                self.subscription.is_pending_revocation = stops_reading
                self._prepare_commit = self._queue_commit(now, consumed, self._prepare_until)
        return self._prepare_commit not in self._commits or now >= self._prepare_until

    def _give_back(self, partitions: list[TopicPartition], *, is_lost: bool = False) -> None:
        if partitions:
            event = PartitionsLost if is_lost else PartitionsRevoked
            self.events.append(event(partitions))
        kept = self.subscription.positions.keys() - set(partitions)
        self.subscription.assign(sorted(kept))

    def _joined(self, now: int, pending: _Pending, response: JoinGroupResponse) -> None:
        error = error_of(response.error_code)
        if error is Error.NONE and self.state is ClientMemberState.PREPARING_REBALANCE:
            self.state = ClientMemberState.COMPLETING_REBALANCE
            self.generation = Generation(
                response.generation_id, response.member_id, response.protocol_name or ""
            )
            self._heartbeat_at = now + self.config.heartbeat_interval_ms
            self._session_until = now + self.config.session_timeout_ms
            self._attempts = 0
            self.is_leader = response.leader == response.member_id
            if self.is_leader and not response.skip_assignment:
                self._to_assign = response
                self._assign()
            else:
                self._sync({})
        elif error is Error.MEMBER_ID_REQUIRED:
            self.generation = Generation(NO_GENERATION, response.member_id)
            self._request_rejoin(f"need to re-join with the given member-id: {response.member_id}")
        else:
            self._join_failed(now, pending, error)

    def _assign(self) -> None:
        """Assign as the leader, once all topics of the group are known."""
        if self._to_assign is None:
            return
        claims = requests.subscriptions(self._to_assign)
        self.group_topics = frozenset(t for each in claims.values() for t in each.topics)
        if not self.group_topics <= self._counts.keys():
            return
        self._to_assign = None
        self._assigned_counts = self._counts_of_group()
        self._sync(self._assignor.assign(self.generation.protocol, self._counts, claims))

    def _sync(self, assignment: Mapping[str, bytes]) -> None:
        self._send("SYNC_GROUP", requests.sync_group(self.config, self.generation, assignment))

    def _synced(self, now: int, pending: _Pending, response: SyncGroupResponse) -> None:
        error = error_of(response.error_code)
        is_current = pending.generation == self.generation
        is_completing = self.state is ClientMemberState.COMPLETING_REBALANCE
        if error is Error.NONE and is_current and is_completing:
            self.state = ClientMemberState.STABLE
            self._must_rejoin, self._rejoin_reason = False, ""
            self._assignment = base64.b64decode(response.assignment)
        else:
            self._join_failed(now, pending, error)

    def _join_failed(self, now: int, pending: _Pending, error: Error) -> None:
        """Handle a JoinGroup or SyncGroup error, or an outdated response."""
        self._request_rejoin(f"rebalance failed due to {error_name(error)}")
        if error in NEW_GENERATION and pending.generation == self.generation:
            self._reset_on(error, pending)
        elif error in RETRIABLE:
            self._lose_coordinator(error)
            self._back_off(now)
        elif error not in NEW_GENERATION | {Error.NONE, Error.REBALANCE_IN_PROGRESS}:
            self._end(error)

    def _take_assignment(self, now: int) -> None:
        """Take over the assignment at the application's poll."""
        if self._assignment is None or self.state is not ClientMemberState.STABLE:
            self._assignment = None
            return
        encoded, self._assignment = self._assignment, None
        assigned = decode_assignment(encoded)
        self._must_prepare = True
        if any(partition.topic not in self.subscription.topics for partition in assigned):
            self._request_rejoin("received assignment does not match the current subscription")
            return
        owned = self.subscription.positions.keys()
        revoked = sorted(owned - set(assigned))
        added = sorted(set(assigned) - owned)
        if revoked:
            self.events.append(PartitionsRevoked(revoked))
            self._request_rejoin("need to revoke partitions and re-join")
            self.is_held = self.holds_revoked
        self._assignor.assigned(self.generation.protocol, self.generation.id, encoded)
        self.subscription.assign(sorted(assigned))
        self._commit_at = now + self.config.auto_commit_interval_ms
        self.events.append(PartitionsAssigned(added))

    def _look_at_topics(self) -> None:
        has_changed = self.is_leader and self._counts_of_group() != self._assigned_counts
        if self._must_rejoin:
            return
        if self.state is ClientMemberState.STABLE and has_changed:
            self._request_rejoin("cached metadata has changed")
        if self._joined_topics is not None and self._joined_topics != self.subscription.topics:
            self._request_rejoin("subscription has changed")

    def _counts_of_group(self) -> dict[str, int | None]:
        return {topic: self._counts.get(topic) for topic in self.group_topics}

    # Heartbeats

    def _stay_alive(self, now: int) -> None:
        if now >= self._session_until:
            self.coordinator = None
        elif now >= self._poll_until:
            self.leave("consumer poll timeout has expired.")
        elif now >= self._heartbeat_at:
            self._heartbeat_at = now + self.config.heartbeat_interval_ms
            self._send("HEARTBEAT", requests.heartbeat(self.config, self.generation))

    def _on_heartbeat(self, now: int, pending: _Pending, error: Error) -> None:
        is_current = pending.generation == self.generation
        if error in {Error.NONE, Error.REBALANCE_IN_PROGRESS}:
            self._session_until = now + self.config.session_timeout_ms
            if error is not Error.NONE and self.state is ClientMemberState.STABLE:
                self._request_rejoin("group is already rebalancing")
        elif error in RETRIABLE:
            self._lose_coordinator(error)
            self._heartbeat_at = now + self._pause()
        elif error in NEW_GENERATION and is_current:
            self._reset_on(error, pending)
        elif error not in NEW_GENERATION and is_current:
            self._end(error)

    def _reset_on(self, error: Error, pending: _Pending) -> None:
        reason = f"encountered {error_name(error)} from {pending.api} response"
        self._reset(reason, keeps_member_id=error is Error.ILLEGAL_GENERATION)

    def _reset(self, reason: str, *, keeps_member_id: bool) -> None:
        """Leave the generation; the next poll reports the partitions as lost."""
        member_id = self.generation.member_id if keeps_member_id else ""
        self.generation = Generation(NO_GENERATION, member_id)
        self.state = ClientMemberState.UNJOINED
        self._must_prepare = True
        self._request_rejoin(reason)
        self._assignment = self._to_assign = None

    # Offsets

    def _commit_automatically(self, now: int) -> None:
        is_preparing = self._prepare_until is not None
        if not self.config.enable_auto_commit or self._commit_at is None or is_preparing:
            return
        if now >= self._commit_at and self.state is ClientMemberState.STABLE:
            self._commit_at = now + self.config.auto_commit_interval_ms
            self._queue_commit(now, self.subscription.all_consumed(), 0)

    def _queue_commit(
        self, now: int, offsets: dict[TopicPartition, int], until: int
    ) -> UnackedCommit:
        self._last_id += 1
        commit = UnackedCommit(self._last_id, offsets, until, self.subscription.epochs_of(offsets))
        if offsets:
            self._commits.append(commit)
            self._send_commits(now)
        else:
            self.events.append(OffsetsCommitted(commit.id, {}))
        return commit

    def _send_commits(self, now: int) -> None:
        if self.coordinator is None:
            return
        for commit in list(self._commits):
            if commit.is_in_flight or now < commit.retry_at:
                continue
            if self.state is ClientMemberState.STABLE:
                commit.is_in_flight = True
                offsets, epochs = commit.offsets, commit.epochs
                body = requests.offset_commit(self.config, self.generation, offsets, epochs)
                self._send("OFFSET_COMMIT", body, commit=commit)
            else:
                self._give_up(commit, Error.REBALANCE_IN_PROGRESS)

    def _stored(self, now: int, pending: _Pending, response: OffsetCommitResponse) -> None:
        commit = pending.commit
        assert commit is not None, "an OffsetCommit response belongs to a commit"
        errors = [error_of(p.error_code) for topic in response.topics for p in topic.partitions]
        error = next((each for each in errors if each is not Error.NONE), Error.NONE)
        if error is Error.NONE:
            self._commits.remove(commit)
            self.events.append(OffsetsCommitted(commit.id, commit.offsets))
            return
        self._lose_coordinator(error)
        if error is Error.REBALANCE_IN_PROGRESS:
            self._request_rejoin("offset commit failed since group is already rebalancing")
        elif error in NEW_GENERATION and pending.generation == self.generation:
            self._reset_on(error, pending)
        elif error is Error.FENCED_INSTANCE_ID and pending.generation == self.generation:
            self._end(error)
        self._commit_failed(now, commit, error)

    def _commit_failed(self, now: int, commit: UnackedCommit, error: Error) -> None:
        commit.is_in_flight = False
        commit.retry_at = now + self._pause()
        if error not in RETRIABLE_COMMIT or commit.retry_at >= commit.until:
            self._give_up(commit, error)

    def _give_up(self, commit: UnackedCommit, error: Error) -> None:
        self._commits.remove(commit)
        self.events.append(CommitFailed(commit.id, error))

    def _fetch_offsets(self, now: int) -> None:
        unknown = self.subscription.unknown()
        if unknown and now >= self._retry_at and not self._is_in_flight("OFFSET_FETCH"):
            member = self._reads_as
            self._send("OFFSET_FETCH", requests.offset_fetch(self.config, unknown, member))

    @property
    def _reads_as(self) -> Generation | None:
        """Identity in OffsetFetch; a classic member sends none."""
        return None

    def _read(self, now: int, response: OffsetFetchResponse) -> None:
        group = response.groups[0]
        error = error_of(group.error_code)
        if error in RETRIABLE | NOT_A_MEMBER:
            if self._is_bound("OFFSET_FETCH"):
                self._lose_coordinator(error)
            self._back_off(now)
        elif error is not Error.NONE:
            self._end(error)
        for topic in group.topics:
            for result in topic.partitions:
                partition = TopicPartition(topic.name, result.partition_index)
                if result.error_code != Error.NONE:
                    self._back_off(now)
                elif partition in self.subscription.unknown():
                    if result.committed_offset >= 0:
                        epoch = result.committed_leader_epoch
                        leader_epoch = epoch if epoch >= 0 else None
                        self.subscription.seek(partition, result.committed_offset, leader_epoch)
                    else:
                        self.subscription.without_offset.add(partition)

    # Requests

    def _send(
        self,
        api: str,
        body: Body,
        *,
        timeout_ms: int | None = None,
        commit: UnackedCommit | None = None,
    ) -> None:
        self._last_id += 1
        self._pending[self._last_id] = _Pending(api, self.generation, commit)
        is_bound = self._is_bound(api)
        self._outgoing.append(CoordinatorRequest(self._last_id, api, body, is_bound, timeout_ms))

    def _is_bound(self, api: str) -> bool:
        """Whether the request goes to the coordinator instead of any broker."""
        is_free = api == "OFFSET_FETCH" and self.config.fetches_offsets_from_any
        return api != "FIND_COORDINATOR" and not is_free

    def _is_in_flight(self, api: str) -> bool:
        return any(pending.api == api for pending in self._pending.values())

    def _lose_coordinator(self, error: Error) -> None:
        if error in COORDINATOR_GONE:
            self.coordinator = None

    def _back_off(self, now: int) -> None:
        self._retry_at = now + self._pause()
        self._attempts += 1

    def _pause(self) -> int:
        return self.config.retry_backoff.backoff(self._attempts, 0.5)

    def _end(self, error: Error) -> None:
        self.fatal = error
        self.events.append(ConsumerFailed(error))
