"""The coordinator of a classic group: rebalances and their timers.

Source: `GroupMetadataManager.classicGroup…` in Kafka; KIP-134 (initial delay), KIP-345 (static
members), KIP-394 (member ids).

    Empty --join--> PreparingRebalance --all joined, or timeout--> CompletingRebalance
    CompletingRebalance --the leader syncs--> Stable
    CompletingRebalance, Stable --join, leave, session timeout, missing sync--> PreparingRebalance
    PreparingRebalance --no members left--> Empty

Timers: join (rebalance timeout or initial delay), sync, and a heartbeat timer for each member.
"""

from brokertwin.protocol.bodies import Body
from brokertwin.protocol.errors import NONE, Error
from brokertwin.protocol.generated.sync_group import SyncGroupResponse
from brokertwin.state.cluster.coordinators import GROUP_TOPIC, has_followers
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core import pending
from brokertwin.state.core.decision import Condition, Decision, Resumed
from brokertwin.state.core.records import Record
from brokertwin.state.groups import groups
from brokertwin.state.groups.classic_group import (
    NO_TIME,
    ClassicGroup,
    ClassicGroupState,
    ClassicMember,
)
from brokertwin.state.groups.classic_records import group_metadata
from brokertwin.state.groups.classic_responses import join_error, join_response, sync_response

NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000
"""Limit of a new member's first join (a constant in Kafka)."""


class ClassicGroupCoordinator:
    """A classic group at its coordinator, for one request or timer.

    Attributes:
        group: the group; a new one is stored by `save`.
        is_new: True if the group did not exist.
        records: records to write.
        responses: responses to pending requests.
    """

    def __init__(
        self, broker: Broker, group_id: str, converted: ClassicGroup | None = None
    ) -> None:
        """Find or create the group; `converted` is a former consumer group."""
        self._broker = broker
        self._settings = broker.settings
        self.now = broker.now
        self.records: list[Record] = []
        self.responses: list[Resumed] = []
        is_live = groups.find_live(broker, group_id) is not None
        existing = converted or groups.change(broker, group_id)
        self.is_new = existing is None
        self.group = existing or ClassicGroup(group_id, state_timestamp=broker.now, subscribed=None)
        if self.group.members and not is_live:
            self._take_over()

    def _take_over(self) -> None:
        """Make a restored group live and start its members' session timeouts."""
        self._save()
        for member in self.group.members.values():
            self.expect_heartbeat(member.member_id, member.session_timeout_ms)

    def decision(self, response: Body | None) -> Decision:
        """Return the result of a request; without a response it stays pending."""
        condition = Condition(pending.NO_DEADLINE, [], b"") if response is None else None
        decision = self.result()
        decision.response, decision.condition = response, condition
        return decision

    def result(self) -> Decision:
        """Return the result of a timer or an internal event."""
        self._save()
        return Decision(records=self.records, resumed=self.responses)

    def _save(self) -> None:
        groups.save(self._broker, self.group)

    def _set_timer(self, timer: str, deadline: int | None) -> None:
        group_id = self.group.group_id
        groups.set_timer(self._broker, group_id, timer, deadline)

    def fire(self, timer: str) -> Decision:
        member_id = groups.heartbeat_member(timer)
        if member_id is not None:
            self.session_expired(member_id)
        elif timer == groups.SYNC:
            self._sync_missed()
        elif self.group.join_remaining_ms != NO_TIME:
            self._extend_or_complete_join()
        else:
            self.complete_join()
        return self.result()

    # Heartbeats

    def expect_heartbeat(self, member_id: str, within_ms: int) -> None:
        """Restart a member's session timeout."""
        self._set_timer(groups.heartbeat(member_id), self.now + within_ms)

    def remove(self, member_id: str) -> None:
        self.group.remove(member_id)
        self._set_timer(groups.heartbeat(member_id), None)

    def replace(self, former: ClassicMember, member: ClassicMember) -> None:
        """Replace a static member by its new incarnation."""
        self.group.replace(former, member)
        self._set_timer(groups.heartbeat(former.member_id), None)
        self.expect_heartbeat(member.member_id, former.session_timeout_ms)

    def session_expired(self, member_id: str) -> None:
        """Remove a member whose session has expired.

        No-op while a request of the member is pending, unless the member is new.
        """
        member = self.group.members.get(member_id)
        if member is None:
            self.remove_pending(member_id)
        elif not member.is_waiting:
            self.remove_member(member)
            self.after_removal()

    # Joining

    def add_member(self, member: ClassicMember, protocol_type: str) -> None:
        """Add a new member with a pending join and start a rebalance."""
        group = self.group
        is_initial = group.previous_state is ClassicGroupState.EMPTY
        if group.state is ClassicGroupState.PREPARING_REBALANCE and is_initial:
            group.new_member_added = True
        member.is_new = True
        group.add(member, protocol_type)
        self.expect_heartbeat(member.member_id, NEW_MEMBER_JOIN_TIMEOUT_MS)
        self.rebalance()

    def rebalance(self) -> None:
        """Start a rebalance, or complete the current one if possible."""
        if self.group.state is ClassicGroupState.PREPARING_REBALANCE:
            self._complete_join_if_ready()
        else:
            self.prepare_rebalance()

    def prepare_rebalance(self) -> None:
        """Start a rebalance.

        The first rebalance of a group waits for more members (group.initial.rebalance.delay.ms).
        """
        group = self.group
        if group.state is ClassicGroupState.COMPLETING_REBALANCE:
            self._reject_syncs(Error.REBALANCE_IN_PROGRESS)
        group.pending_sync = {}
        self._set_timer(groups.SYNC, None)
        is_initial = group.state is ClassicGroupState.EMPTY
        group.move_to(ClassicGroupState.PREPARING_REBALANCE, self.now)
        timeout = group.rebalance_timeout_ms()
        if is_initial:
            delay = self._settings.group_initial_rebalance_delay_ms
            self._set_timer(groups.JOIN, self.now + delay)
            group.join_remaining_ms = max(timeout - delay, 0)
        elif group.has_all_joined():
            self.complete_join()
        else:
            self._expect_joins(timeout)

    def _expect_joins(self, timeout: int) -> None:
        self._set_timer(groups.JOIN, self.now + timeout)
        self.group.join_remaining_ms = NO_TIME

    def _extend_or_complete_join(self) -> None:
        """Handle the end of the initial delay.

        It is extended up to the rebalance timeout if members have joined meanwhile.
        """
        group = self.group
        if not group.new_member_added or group.join_remaining_ms == 0:
            self.complete_join()
            return
        group.new_member_added = False
        delay = min(self._settings.group_initial_rebalance_delay_ms, group.join_remaining_ms)
        self._set_timer(groups.JOIN, self.now + delay)
        group.join_remaining_ms -= delay

    def _complete_join_if_ready(self) -> None:
        group = self.group
        if group.previous_state is not ClassicGroupState.EMPTY and group.has_all_joined():
            self.complete_join()

    def complete_join(self) -> None:
        """Start the next generation with joined and static members."""
        group = self.group
        self._set_timer(groups.JOIN, None)
        group.join_remaining_ms = NO_TIME
        for member in list(group.members.values()):
            if not member.join_id and member.group_instance_id is None:
                self.remove(member.member_id)
        if group.members and not group.elect_among_joined():
            self._expect_joins(group.rebalance_timeout_ms())
            return
        group.generation_id += 1
        group.pending_sync = {}
        if not group.members:
            group.protocol_name = None
            group.subscribed = group.subscriptions()
            group.move_to(ClassicGroupState.EMPTY, self.now)
            self.write_metadata()
            return
        group.protocol_name = group.chosen_protocol()
        group.subscribed = group.subscriptions()
        group.move_to(ClassicGroupState.COMPLETING_REBALANCE, self.now)
        for member in group.members.values():
            self._complete_join(member)
        group.pending_sync = dict.fromkeys(group.members, True)
        self._set_timer(groups.SYNC, self.now + group.rebalance_timeout_ms())

    def _complete_join(self, member: ClassicMember) -> None:
        is_leader = member.member_id == self.group.leader_id
        self.end_join(member, join_response(self.group, member, is_leader))
        self.expect_heartbeat(member.member_id, member.session_timeout_ms)
        member.is_new = False

    def end_join(self, member: ClassicMember, response: Body) -> None:
        """Send the response to a member's pending join, if any."""
        join_id = self.group.end_join(member)
        if join_id:
            self.responses.append(Resumed(join_id, response))

    def drop_pending(self, event_id: str) -> None:
        """Drop a pending join or sync that the member has sent again."""
        if event_id:
            self.responses.append(Resumed(event_id, None))

    def end_sync(self, member: ClassicMember, response: SyncGroupResponse) -> bool:
        """Send the response to a member's pending sync; True if there was one."""
        if not member.sync_id:
            return False
        self.responses.append(Resumed(member.sync_id, response))
        member.sync_id = ""
        return True

    # Leaving

    def remove_member(self, member: ClassicMember) -> None:
        """Remove a member. Its pending join fails: 25 UNKNOWN_MEMBER_ID.

        A pending sync gets no response, as in Kafka.
        """
        response = join_error(Error.UNKNOWN_MEMBER_ID, "", member.join_version)
        self.end_join(member, response)
        self.drop_pending(member.sync_id)
        self.remove(member.member_id)

    def after_removal(self) -> None:
        """Rebalance, or complete the join that waited for the member."""
        if self.group.state in (ClassicGroupState.STABLE, ClassicGroupState.COMPLETING_REBALANCE):
            self.prepare_rebalance()
        elif (
            self.group.state is ClassicGroupState.PREPARING_REBALANCE
            and self.group.has_all_joined()
        ):
            self.complete_join()

    def remove_pending(self, member_id: str) -> None:
        """Remove a member id that was assigned but not used in time."""
        self.remove(member_id)
        if (
            self.group.state is ClassicGroupState.PREPARING_REBALANCE
            and self.group.has_all_joined()
        ):
            self.complete_join()

    def leave(self, has_left: bool) -> None:
        if not has_left or self.group.state is ClassicGroupState.EMPTY:
            return
        self.rebalance()

    # Syncing

    def note_sync(self, member_id: str) -> None:
        """Note a member's sync; stop the sync timer after the last one."""
        group = self.group
        group.pending_sync.pop(member_id, None)
        if not group.pending_sync:
            self._set_timer(groups.SYNC, None)

    def assign(self, assignments: dict[str, str]) -> None:
        """Store the leader's assignment.

        The group becomes Stable at once, or when followers have replicated the record.

        Args:
            assignments: assignment (base64) by member id; other members get none.
        """
        group = self.group
        for member in group.members.values():
            member.assignment = assignments.get(member.member_id, "")
        self.write_metadata()
        if not has_followers(self._broker, GROUP_TOPIC, group.group_id):
            self.assigned()

    def assigned(self) -> None:
        """Respond to pending syncs and make the group Stable."""
        group = self.group
        for member in group.members.values():
            if self.end_sync(member, sync_response(group, member)):
                self.expect_heartbeat(member.member_id, member.session_timeout_ms)
        group.move_to(ClassicGroupState.STABLE, self.now)

    def assignment_failed(self, error: Error) -> None:
        """Reject pending syncs and rebalance.

        The leader's assignment was not replicated in time.
        """
        self._reject_syncs(error)
        self.prepare_rebalance()

    def reject_pending(self, error: Error) -> None:
        """Reject pending joins and syncs and restart session timeouts."""
        for member in self.group.members.values():
            if member.join_id:
                rejected = join_error(error, member.member_id, member.join_version)
                self.end_join(member, rejected)
                if not member.is_new:
                    self.expect_heartbeat(member.member_id, member.session_timeout_ms)
            if self.end_sync(member, SyncGroupResponse(error_code=error)):
                self.expect_heartbeat(member.member_id, member.session_timeout_ms)

    def _reject_syncs(self, error: Error) -> None:
        for member in self.group.members.values():
            member.assignment = ""
            if self.end_sync(member, SyncGroupResponse(error_code=error)):
                self.expect_heartbeat(member.member_id, member.session_timeout_ms)

    def _sync_missed(self) -> None:
        """Remove members that have not synced in time."""
        for member_id in list(self.group.pending_sync):
            self.remove(member_id)
        self.prepare_rebalance()

    # Records

    def write_metadata(self) -> None:
        self.records.append(group_metadata(self.group))


def expect_heartbeat(broker: Broker, group_id: str, member: ClassicMember) -> None:
    if groups.find_live(broker, group_id) is None:
        ClassicGroupCoordinator(broker, group_id)
    deadline = broker.now + member.session_timeout_ms
    timer = groups.heartbeat(member.member_id)
    groups.set_timer(broker, group_id, timer, deadline)


def assignment_written(broker: Broker, group_id: str, generation_id: int, error: Error) -> Decision:
    """Continue after replication of an assignment (`assign`) or its failure.

    No-op if the group is in another generation or state.
    """
    group = groups.find_live(broker, group_id)
    is_awaited = group is not None and group.state is ClassicGroupState.COMPLETING_REBALANCE
    if group is None or not is_awaited or group.generation_id != generation_id:
        return Decision()
    coordinator = ClassicGroupCoordinator(broker, group_id)
    if error is NONE:
        coordinator.assigned()
    else:
        coordinator.assignment_failed(error)
    return coordinator.result()


def unload(broker: Broker, group_id: str) -> list[Resumed]:
    """Give up a group. Pending requests fail: 16 NOT_COORDINATOR."""
    group = groups.find_live(broker, group_id)
    if group is None:
        return []
    error = Error.NOT_COORDINATOR
    responses = []
    for member in group.members.values():
        if member.join_id:
            rejected = join_error(error, member.member_id, member.join_version)
            responses.append(Resumed(member.join_id, rejected))
        if member.sync_id:
            responses.append(Resumed(member.sync_id, SyncGroupResponse(error_code=error)))
    groups.unload(broker, group_id)
    return responses
