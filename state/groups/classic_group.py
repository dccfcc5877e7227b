"""A classic group: members, generation, pending requests.

Source: KIP-62, KIP-134, KIP-345, KIP-394; `ClassicGroup`, `ClassicGroupMember`, `ClassicGroupState`
in Kafka. `PREVIOUS` lists the valid transitions. `classic_coordinator.py` makes them.

Like Kafka, the group maintains counters (`_count`): pending joins, the number of members that
support each protocol, and static members by instance id. So the cost of a request does not depend
on the number of members. Only rebalances iterate over the members.

Kafka keeps members in a Java `HashMap` and takes its first entry in three places: the leader after
the leader has left, the leader if the old one has not rejoined, and the winner among protocols with
equal votes. The leader also receives the members in this order. `hash_order` reproduces it.
"""

import base64
from collections.abc import Iterable
from enum import StrEnum

import msgspec

from brokertwin.protocol.errors import NONE, Error
from brokertwin.state.core.java_hashes import hash_order
from brokertwin.state.groups import consumer_protocol

CONSUMER = "consumer"
"""The protocol type of consumers, whose subscriptions can be read."""

NO_TIME = -1


class ClassicGroupState(StrEnum):
    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"


PREVIOUS: dict[ClassicGroupState, frozenset[ClassicGroupState]] = {
    ClassicGroupState.EMPTY: frozenset({ClassicGroupState.PREPARING_REBALANCE}),
    ClassicGroupState.PREPARING_REBALANCE: frozenset(
        {ClassicGroupState.STABLE, ClassicGroupState.COMPLETING_REBALANCE, ClassicGroupState.EMPTY}
    ),
    ClassicGroupState.COMPLETING_REBALANCE: frozenset({ClassicGroupState.PREPARING_REBALANCE}),
    ClassicGroupState.STABLE: frozenset({ClassicGroupState.COMPLETING_REBALANCE}),
}
"""Valid predecessors of each state."""


class JoinParameters(msgspec.Struct, frozen=True):
    """The protocols and timeouts (ms) of a JoinGroup.

    `protocols` are pairs of name and metadata (base64), the preferred one first. `join_id` is the
    id of the pending request, `join_version` its version.
    """

    protocols: list[tuple[str, str]]
    rebalance_timeout_ms: int
    session_timeout_ms: int
    join_id: str
    join_version: int


class ClassicMember(msgspec.Struct):
    """A member. Timeouts are in ms; metadata and assignment are base64.

    `protocols`, `join_id` and `join_version` are from its last JoinGroup. `join_id` and `sync_id`
    are "" without a pending request. A member is new until its first join is complete.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int = 0
    session_timeout_ms: int = 0
    protocols: list[tuple[str, str]] = []
    assignment: str = ""
    join_id: str = ""
    join_version: int = 0
    sync_id: str = ""
    is_new: bool = False

    @property
    def is_waiting(self) -> bool:
        """True if a request of the member is pending.

        Such a member needs no heartbeat, unless it is new.
        """
        return not self.is_new and bool(self.join_id or self.sync_id)

    def metadata(self, protocol_name: str) -> str:
        """Return the member's metadata for a protocol; "" if unsupported."""
        return dict(self.protocols).get(protocol_name, "")

    def take_over(self, parameters: JoinParameters) -> None:
        """Store join parameters. For a member of a group, use `ClassicGroup.update_join`."""
        self.protocols = parameters.protocols
        self.rebalance_timeout_ms = parameters.rebalance_timeout_ms
        self.session_timeout_ms = parameters.session_timeout_ms
        self.join_id, self.join_version = parameters.join_id, parameters.join_version


class ClassicGroup(msgspec.Struct, tag_field="type", tag="classic"):
    """A group. Times are in ms since 1970.

    Attributes:
        pending: member ids that were assigned but have not joined yet.
        pending_sync: members that have not synced in this generation.
        join_remaining_ms: remaining initial delay; -1 if the join timer is that of an ordinary
            rebalance.
        most_members: highest member count so far; it determines the hash order.
        joining: number of members with a pending join.
        supporters: number of members that support each protocol.
        static_members: member id by instance id.
        subscribed: subscribed topics of this generation; None if unknown, unset in groups of older
            checkpoints.
        is_kept: the group was created by a commit that stored nothing, and exists without members.
    """

    group_id: str
    state: ClassicGroupState = ClassicGroupState.EMPTY
    previous_state: ClassicGroupState = ClassicGroupState.EMPTY
    state_timestamp: int = NO_TIME
    generation_id: int = 0
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader_id: str | None = None
    members: dict[str, ClassicMember] = {}
    pending: dict[str, bool] = {}
    pending_sync: dict[str, bool] = {}
    new_member_added: bool = False
    join_remaining_ms: int = NO_TIME
    most_members: int = 0
    joining: int = 0
    supporters: dict[str, int] = {}
    static_members: dict[str, str] = {}
    subscribed: list[str] | msgspec.UnsetType | None = msgspec.UNSET
    is_kept: bool = False

    def move_to(self, state: ClassicGroupState, now: int) -> None:
        assert self.state in PREVIOUS[state], (self.state, state)
        self.previous_state, self.state, self.state_timestamp = self.state, state, now

    def add(self, member: ClassicMember, protocol_type: str) -> None:
        """Add a member. The first one becomes leader and sets the protocol type."""
        if not self.members:
            self.protocol_type = protocol_type
        self.leader_id = self.leader_id or member.member_id
        self.members[member.member_id] = member
        self._count(member, 1)
        self.most_members = max(self.most_members, len(self.members))
        self.pending.pop(member.member_id, None)

    def remove(self, member_id: str) -> None:
        """Remove a member or pending member id; elect a new leader if it led."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._count(member, -1)
        if self.leader_id == member_id:
            self.leader_id = next((m.member_id for m in self.in_hash_order()), None)
        self.pending.pop(member_id, None)
        self.pending_sync.pop(member_id, None)

    def replace(self, former: ClassicMember, member: ClassicMember) -> None:
        """Replace a static member by its new incarnation."""
        del self.members[former.member_id]
        self._count(former, -1)
        self.members[member.member_id] = member
        self._count(member, 1)
        if self.leader_id == former.member_id:
            self.leader_id = member.member_id

    def update_join(self, member: ClassicMember, parameters: JoinParameters) -> None:
        """Store a member's join parameters; its join is pending from now on."""
        self._count(member, -1)
        member.take_over(parameters)
        self._count(member, 1)

    def end_join(self, member: ClassicMember) -> str:
        """Clear a pending join and return its request id; "" if there was none."""
        join_id = member.join_id
        self.joining -= bool(join_id)
        member.join_id = ""
        return join_id

    def _count(self, member: ClassicMember, by: int) -> None:
        """Update the counters for an added (1) or removed (-1) member."""
        self.joining += by if member.join_id else 0
        for name in {name for name, _ in member.protocols}:
            self.supporters[name] = self.supporters.get(name, 0) + by
            if not self.supporters[name]:
                del self.supporters[name]
        if member.group_instance_id is not None and by > 0:
            self.static_members[member.group_instance_id] = member.member_id
        elif member.group_instance_id is not None:
            self.static_members.pop(member.group_instance_id, None)

    def member_error(self, member_id: str, group_instance_id: str | None) -> Error:
        """Return 25 UNKNOWN_MEMBER_ID, 82 FENCED_INSTANCE_ID, or NONE.

        Static fencing (`group.instance.id`): an instance id belongs to its last member id.
        """
        if group_instance_id is not None:
            owner_id = self.static_members.get(group_instance_id)
            if owner_id is None:
                return Error.UNKNOWN_MEMBER_ID
            if owner_id != member_id:
                return Error.FENCED_INSTANCE_ID
        return NONE if member_id in self.members else Error.UNKNOWN_MEMBER_ID

    def has_all_joined(self) -> bool:
        return not self.pending and self.joining == len(self.members)

    def rebalance_timeout_ms(self) -> int:
        return max((m.rebalance_timeout_ms for m in self.members.values()), default=0)

    def supports(self, protocol_type: str, protocols: Iterable[str]) -> bool:
        """True if a member with these protocols can join."""
        if self.state is ClassicGroupState.EMPTY:
            return bool(protocol_type) and bool(list(protocols))
        return self.protocol_type == protocol_type and any(map(self._all_support, protocols))

    def chosen_protocol(self) -> str:
        votes: dict[str, int] = {}
        for member in self.members.values():
            vote = next(name for name, _ in member.protocols if self._all_support(name))
            votes[vote] = votes.get(vote, 0) + 1
        return max(hash_order(votes, len(votes)), key=lambda name: votes[name])

    def subscriptions(self) -> list[str] | None:
        """Return the subscribed topics; None if they cannot be read."""
        if self.protocol_type != CONSUMER:
            return None
        if self.members and self.protocol_name is None:
            return None
        name = self.protocol_name or ""
        try:
            encoded = {member.metadata(name) for member in self.members.values()}
            topics = [consumer_protocol.topics_of(base64.b64decode(each)) for each in encoded]
        except ValueError:
            return None
        return sorted({name for names in topics for name in names})

    def elect_among_joined(self) -> bool:
        """Elect a leader among joined members if needed; True if there is one."""
        leader = self.members.get(self.leader_id or "")
        if leader is None:
            return False
        if leader.join_id:
            return True
        for member in self.in_hash_order():
            if member.join_id:
                self.leader_id = member.member_id
                return True
        return False

    def in_hash_order(self) -> list[ClassicMember]:
        """Return the members in Kafka's iteration order."""
        return [self.members[each] for each in hash_order(self.members, self.most_members)]

    def _all_support(self, protocol_name: str) -> bool:
        return self.supporters.get(protocol_name, 0) == len(self.members)
