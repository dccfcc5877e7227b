"""The coordinator of a classic group: rebalances, and the timers that drive them.

Source: `GroupMetadataManager.classicGroup…` in Kafka; KIP-134 (initial delay), KIP-345 (static
members), KIP-394 (member ids).

    Empty --join--> PreparingRebalance --all joined, or time is up--> CompletingRebalance
    CompletingRebalance --the leader syncs--> Stable
    CompletingRebalance, Stable --join, leave, silence, no sync--> PreparingRebalance
    PreparingRebalance --nobody is left--> Empty

A timer of the group is one of the cell's deadlines: join (the rebalance time-out, or the initial
delay), sync, and each member's heartbeat. No request looks at those of other members.
"""

from brokertwin.state.cluster.coordinators import GROUP_TOPIC, has_followers
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core import pending
from brokertwin.state.core.decision import Condition, Decision, Resumed
from brokertwin.state.core.errors import NONE, Error
from brokertwin.state.core.group_records import GroupMetadataWritten
from brokertwin.state.core.records import (
    Record,
)
from brokertwin.state.core.schema import Body
from brokertwin.state.groups import groups
from brokertwin.state.groups.classic_group import NO_TIME, ClassicGroup, GroupState, Member
from brokertwin.state.groups.group_answers import SyncGroupResponse, join_refused, joined, synced
from brokertwin.state.groups.group_metadata import metadata_of

NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000
"""How long a new member may wait in its first join (not a setting)."""


class GroupCoordinator:
    """One group at the broker that coordinates it, for the time of one request or timer.

    Attributes:
        group: the group; a new one is in no table before `save`.
        is_new: whether neither a table nor a record knows it.
        records: what is written of it.
        answers: to requests that wait.
    """

    def __init__(
        self, broker: Broker, group_id: str, converted: ClassicGroup | None = None
    ) -> None:
        """Finds the group; `converted` is one that a consumer group becomes."""
        self._broker = broker
        self._settings = broker.settings
        self.now = broker.now
        self.records: list[Record] = []
        self.answers: list[Resumed] = []
        is_living = groups.living(broker.tables, broker.id, group_id) is not None
        known = converted or groups.change(broker.tables, broker.id, group_id)
        self.is_new = known is None
        self.group = known or ClassicGroup(group_id, state_timestamp=broker.now, subscribed=None)
        if self.group.members and not is_living:
            self._take_over()

    def _take_over(self) -> None:
        """Lets a group live that only records knew; its members have their time-outs from now."""
        self._save()
        for member in self.group.members.values():
            self.expect_heartbeat(member.member_id, member.session_timeout_ms)

    def decision(self, response: Body | None) -> Decision:
        """What becomes of the request: an answer, or a wait until `answers` of later ones."""
        condition = Condition(pending.NO_DEADLINE, [], b"") if response is None else None
        decision = self.outcome()
        decision.response, decision.condition = response, condition
        return decision

    def outcome(self) -> Decision:
        """What becomes of the group where nobody has asked."""
        self._save()
        return Decision(records=self.records, resumed=self.answers)

    def _save(self) -> None:
        groups.save(self._broker.tables, self._broker.id, self.group)

    def _set_timer(self, timer: str, deadline: int | None) -> None:
        group_id = self.group.group_id
        groups.set_timer(self._broker.tables, self._broker.id, group_id, timer, deadline)

    def fire(self, timer: str) -> Decision:
        """Does what a timer of the group asks for."""
        member_id = groups.silent_member(timer)
        if member_id is not None:
            self.miss(member_id)
        elif timer == groups.SYNC:
            self._sync_missed()
        elif self.group.join_remaining_ms != NO_TIME:
            self._extend_or_complete_join()
        else:
            self.complete_join()
        return self.outcome()

    # Heartbeats

    def expect_heartbeat(self, member_id: str, within_ms: int) -> None:
        """Gives a member that long until it is believed to be gone."""
        self._set_timer(groups.heartbeat(member_id), self.now + within_ms)

    def remove(self, member_id: str) -> None:
        """Forgets a member, or an id that was given away, and expects nothing more of it."""
        self.group.remove(member_id)
        self._set_timer(groups.heartbeat(member_id), None)

    def replace(self, former: Member, member: Member) -> None:
        """Gives the place of a static member to itself under another id."""
        self.group.replace(former, member)
        self._set_timer(groups.heartbeat(former.member_id), None)
        self.expect_heartbeat(member.member_id, former.session_timeout_ms)

    def miss(self, member_id: str) -> None:
        """A member has been silent for too long, unless a request of it waits."""
        member = self.group.members.get(member_id)
        if member is None:
            self.remove_pending(member_id)
        elif not member.is_waiting:
            self.remove_member(member)
            self.after_removal()

    # Joining

    def add_member(self, member: Member, protocol_type: str) -> None:
        """Takes a new member in, which waits for its join; rebalances."""
        group = self.group
        is_initial = group.previous_state is GroupState.EMPTY
        if group.state is GroupState.PREPARING_REBALANCE and is_initial:
            group.new_member_added = True
        member.is_new = True
        group.add(member, protocol_type)
        self.expect_heartbeat(member.member_id, NEW_MEMBER_JOIN_TIMEOUT_MS)
        self.rebalance()

    def rebalance(self) -> None:
        """Begins a rebalance, or ends the one that runs where it can end."""
        if self.group.state is GroupState.PREPARING_REBALANCE:
            self._complete_join_if_ready()
        else:
            self.prepare_rebalance()

    def prepare_rebalance(self) -> None:
        """Asks all members to join; the first rebalance of a group waits for more of them."""
        group = self.group
        if group.state is GroupState.COMPLETING_REBALANCE:
            self._refuse_syncs(Error.REBALANCE_IN_PROGRESS)
        group.pending_sync = {}
        self._set_timer(groups.SYNC, None)
        is_initial = group.state is GroupState.EMPTY
        group.move_to(GroupState.PREPARING_REBALANCE, self.now)
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
        """The initial delay is over: once more where members have come, within the time-out."""
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
        if group.previous_state is not GroupState.EMPTY and group.has_all_joined():
            self.complete_join()

    def complete_join(self) -> None:
        """The next generation: of those who have joined, and of the static members."""
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
            group.move_to(GroupState.EMPTY, self.now)
            self.write_metadata()
            return
        group.protocol_name = group.chosen_protocol()
        group.subscribed = group.subscriptions()
        group.move_to(GroupState.COMPLETING_REBALANCE, self.now)
        for member in group.members.values():
            self._answer_join(member)
        group.pending_sync = dict.fromkeys(group.members, True)
        self._set_timer(groups.SYNC, self.now + group.rebalance_timeout_ms())

    def _answer_join(self, member: Member) -> None:
        is_leader = member.member_id == self.group.leader_id
        self.end_join(member, joined(self.group, member, is_leader))
        self.expect_heartbeat(member.member_id, member.session_timeout_ms)
        member.is_new = False

    def end_join(self, member: Member, response: Body) -> None:
        """Answers a member's join, if it waits in one."""
        join_id = self.group.end_join(member)
        if join_id:
            self.answers.append(Resumed(join_id, response))

    def overtake(self, event_id: str) -> None:
        """Forgets a join or sync that its member has sent again: nobody will answer the first."""
        if event_id:
            self.answers.append(Resumed(event_id, None))

    def end_sync(self, member: Member, response: SyncGroupResponse) -> bool:
        """Answers a member's sync; says whether one was waiting."""
        if not member.sync_id:
            return False
        self.answers.append(Resumed(member.sync_id, response))
        member.sync_id = ""
        return True

    # Leaving

    def remove_member(self, member: Member) -> None:
        """Forgets a member; a join of it that waits is answered, so that it may try again.

        A sync that waits is not answered (nor is it by Kafka): who sent it has left meanwhile.
        """
        unknown = join_refused(Error.UNKNOWN_MEMBER_ID, "", member.join_version)
        self.end_join(member, unknown)
        self.overtake(member.sync_id)
        self.remove(member.member_id)

    def after_removal(self) -> None:
        """Rebalances without a member that has gone, or ends the join that waited for it."""
        if self.group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            self.prepare_rebalance()
        elif self.group.state is GroupState.PREPARING_REBALANCE and self.group.has_all_joined():
            self.complete_join()

    def remove_pending(self, member_id: str) -> None:
        """Forgets an id that was given away and has not joined in time."""
        self.remove(member_id)
        if self.group.state is GroupState.PREPARING_REBALANCE and self.group.has_all_joined():
            self.complete_join()

    def leave(self, has_left: bool) -> None:
        """After a LeaveGroup: what follows where at least one member has left."""
        if not has_left or self.group.state is GroupState.EMPTY:
            return
        self.rebalance()

    # Syncing

    def note_sync(self, member_id: str) -> None:
        """A member has synced in this generation; after the last one there is no hurry."""
        group = self.group
        group.pending_sync.pop(member_id, None)
        if not group.pending_sync:
            self._set_timer(groups.SYNC, None)

    def assign(self, assignments: dict[str, str]) -> None:
        """The leader's assignment is written; where followers have to take it, that is all for now.

        Args:
            assignments: member id to assignment in base64; others are assigned nothing.
        """
        group = self.group
        for member in group.members.values():
            member.assignment = assignments.get(member.member_id, "")
        self.write_metadata()
        if not has_followers(self._broker, GROUP_TOPIC, group.group_id):
            self.assigned()

    def assigned(self) -> None:
        """What the leader has assigned is told to all who wait for it, and the group is stable."""
        group = self.group
        for member in group.members.values():
            if self.end_sync(member, synced(group, member)):
                self.expect_heartbeat(member.member_id, member.session_timeout_ms)
        group.move_to(GroupState.STABLE, self.now)

    def not_assigned(self, error: Error) -> None:
        """What the leader has assigned was not committed in time: who waits is told, and joins."""
        self._refuse_syncs(error)
        self.prepare_rebalance()

    def end_waits(self, error: Error) -> None:
        """Whoever waits in a join or a sync is told an error and given time to come again."""
        for member in self.group.members.values():
            if member.join_id:
                refused = join_refused(error, member.member_id, member.join_version)
                self.end_join(member, refused)
                if not member.is_new:
                    self.expect_heartbeat(member.member_id, member.session_timeout_ms)
            if self.end_sync(member, SyncGroupResponse(error_code=error)):
                self.expect_heartbeat(member.member_id, member.session_timeout_ms)

    def _refuse_syncs(self, error: Error) -> None:
        for member in self.group.members.values():
            member.assignment = ""
            if self.end_sync(member, SyncGroupResponse(error_code=error)):
                self.expect_heartbeat(member.member_id, member.session_timeout_ms)

    def _sync_missed(self) -> None:
        """Removes the members that have not synced in time."""
        for member_id in list(self.group.pending_sync):
            self.remove(member_id)
        self.prepare_rebalance()

    # Records

    def write_metadata(self) -> None:
        """Writes the group as it is now."""
        self.records.append(GroupMetadataWritten(self.group.group_id, metadata_of(self.group)))


def expect_heartbeat(broker: Broker, group_id: str, member: Member) -> None:
    """A member is there: it has its session time-out from now on."""
    if groups.living(broker.tables, broker.id, group_id) is None:
        load(broker, group_id)
    deadline = broker.now + member.session_timeout_ms
    timer = groups.heartbeat(member.member_id)
    groups.set_timer(broker.tables, broker.id, group_id, timer, deadline)


def fire(broker: Broker, group_id: str, timer: str) -> Decision:
    """Does what a timer of a group asks for."""
    coordinator = GroupCoordinator(broker, group_id)
    assert not coordinator.is_new, f"a timer of a group that is not there: {group_id} {timer}"
    return coordinator.fire(timer)


def expire(broker: Broker, group_id: str, member_ids: list[str]) -> Decision:
    """Takes members for gone, as when their session time-outs are over."""
    coordinator = GroupCoordinator(broker, group_id)
    for member_id in member_ids:
        coordinator.miss(member_id)
    return coordinator.outcome()


def assignment_written(broker: Broker, group_id: str, generation_id: int, error: Error) -> Decision:
    """What becomes of an assignment that followers have taken, or have not (`assign`).

    Nothing where the group has gone on meanwhile.
    """
    group = groups.living(broker.tables, broker.id, group_id)
    is_awaited = group is not None and group.state is GroupState.COMPLETING_REBALANCE
    if group is None or not is_awaited or group.generation_id != generation_id:
        return Decision()
    coordinator = GroupCoordinator(broker, group_id)
    if error is NONE:
        coordinator.assigned()
    else:
        coordinator.not_assigned(error)
    return coordinator.outcome()


def unload(broker: Broker, group_id: str) -> list[Resumed]:
    """Lets go of a group that another broker coordinates now; who waits, learns of it."""
    group = groups.living(broker.tables, broker.id, group_id)
    if group is None:
        return []
    error = Error.NOT_COORDINATOR
    answers = []
    for member in group.members.values():
        if member.join_id:
            refused = join_refused(error, member.member_id, member.join_version)
            answers.append(Resumed(member.join_id, refused))
        if member.sync_id:
            answers.append(Resumed(member.sync_id, SyncGroupResponse(error_code=error)))
    groups.unload(broker.tables, broker.id, group_id)
    return answers


def load(broker: Broker, group_id: str) -> None:
    """Takes over a group as it was last written; its members have their time-outs from now on."""
    GroupCoordinator(broker, group_id)
