"""A classic group as its coordinator holds it: members, generation, who waits for what.

Source: KIP-62, KIP-134, KIP-345, KIP-394; `ClassicGroup`, `ClassicGroupMember`, `ClassicGroupState`
in Kafka. Items of the table `sessions` (a broker that restarts reads groups from their records; who
was waiting, and for how long, it forgets):

    <broker>/live-group/<group>          ClassicGroup
    <broker>/heartbeat/<group>/<member>  Heartbeat: until when a member is believed to be there

A heartbeat writes one small item, however large the group is. `PREVIOUS` says which state may
follow which; `group_coordinator.py` has the transitions.

Kafka keeps members in a Java `HashMap` and takes "the first" of them in three places: who leads
after a leader has gone, who leads where the leader has not come back, and which of two protocols
with as many votes wins. `hash_order` gives the same order, so the same member leads here, and a
leader gets to know the members in the same order.
"""

from collections.abc import Iterable
from enum import StrEnum

import msgspec

from brokerstream.state.core.errors import Error
from brokerstream.state.core.java_hashes import hash_order
from brokerstream.state.core.tables import Table, escape

CONSUMER = "consumer"
"""The protocol type of consumers; their subscriptions can be read."""

NO_TIME = -1


class GroupState(StrEnum):
    """The states of a classic group, under Kafka's names."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"


PREVIOUS: dict[GroupState, frozenset[GroupState]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.PREPARING_REBALANCE: frozenset(
        {GroupState.STABLE, GroupState.COMPLETING_REBALANCE, GroupState.EMPTY}
    ),
    GroupState.COMPLETING_REBALANCE: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.STABLE: frozenset({GroupState.COMPLETING_REBALANCE}),
}
"""State to the states that it may follow."""


class Member(msgspec.Struct):
    """A member. Time-outs are ms; metadata and assignment are base64.

    `protocols` are name and metadata, the most wanted first. `join_id` and `sync_id` are the ids of
    the requests that wait for an answer. A member is new until it has come through its first join.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: list[tuple[str, str]]
    assignment: str = ""
    join_id: str = ""
    join_version: int = 0
    sync_id: str = ""
    is_new: bool = False

    @property
    def is_waiting(self) -> bool:
        """Whether a request of the member waits: then it needs no heartbeat, unless it is new."""
        return not self.is_new and bool(self.join_id or self.sync_id)

    def metadata(self, protocol_name: str) -> str:
        """What the member says under a protocol, "" where it does not support it."""
        return dict(self.protocols).get(protocol_name, "")


class Heartbeat(msgspec.Struct, array_like=True):
    """Until when (ms since 1970) a member, or one that has only been given its id, is there."""

    deadline: int


class ClassicGroup(msgspec.Struct):
    """A group. Times are ms since 1970, -1 where a timer does not run.

    `pending` are ids that were given away and have not joined yet, `pending_sync` members that have
    not synced in this generation. `join_remaining_ms` is what is left of the initial delay, -1 when
    the join timer is that of an ordinary rebalance. `most_members` sizes the hash order.
    """

    group_id: str
    state: GroupState = GroupState.EMPTY
    previous_state: GroupState = GroupState.EMPTY
    state_timestamp: int = NO_TIME
    generation_id: int = 0
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader_id: str | None = None
    members: dict[str, Member] = {}
    pending: list[str] = []
    pending_sync: list[str] = []
    new_member_added: bool = False
    join_deadline: int = NO_TIME
    join_remaining_ms: int = NO_TIME
    sync_deadline: int = NO_TIME
    most_members: int = 0

    def move_to(self, state: GroupState, now: int) -> None:
        """Goes over into another state."""
        assert self.state in PREVIOUS[state], (self.state, state)
        self.previous_state, self.state, self.state_timestamp = self.state, state, now

    def add(self, member: Member, protocol_type: str) -> None:
        """Takes a member in; the first one leads and says of which protocol type the group is."""
        if not self.members:
            self.protocol_type = protocol_type
        self.leader_id = self.leader_id or member.member_id
        self.members[member.member_id] = member
        self.most_members = max(self.most_members, len(self.members))
        self.pending = [other for other in self.pending if other != member.member_id]

    def remove(self, member_id: str) -> None:
        """Forgets a member, or an id that was given away; another member leads where it led."""
        self.members.pop(member_id, None)
        if self.leader_id == member_id:
            self.leader_id = next((m.member_id for m in self.in_hash_order()), None)
        self.pending = [other for other in self.pending if other != member_id]
        self.pending_sync = [other for other in self.pending_sync if other != member_id]

    def static_member_id(self, group_instance_id: str | None) -> str | None:
        """The member that goes by an instance id."""
        for member in self.members.values():
            if group_instance_id is not None and member.group_instance_id == group_instance_id:
                return member.member_id
        return None

    def member_error(self, member_id: str, group_instance_id: str | None) -> Error:
        """Why a request is not one of a member's: 25, 82 for a fenced instance, or NONE."""
        if group_instance_id is not None:
            known = self.static_member_id(group_instance_id)
            if known is None:
                return Error.UNKNOWN_MEMBER_ID
            if known != member_id:
                return Error.FENCED_INSTANCE_ID
        return Error.NONE if member_id in self.members else Error.UNKNOWN_MEMBER_ID

    def has_all_joined(self) -> bool:
        """Whether every member waits in a join, and no given id is still to come."""
        return not self.pending and all(member.join_id for member in self.members.values())

    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance time-out of the members."""
        return max((m.rebalance_timeout_ms for m in self.members.values()), default=0)

    def supports(self, protocol_type: str, protocols: Iterable[str]) -> bool:
        """Whether somebody with these protocols can be a member beside those there are."""
        if self.state is GroupState.EMPTY:
            return bool(protocol_type) and bool(list(protocols))
        common = self._common_protocols()
        return self.protocol_type == protocol_type and any(name in common for name in protocols)

    def chosen_protocol(self) -> str:
        """The protocol with the most votes: each member's first one that all support."""
        common = self._common_protocols()
        votes: dict[str, int] = {}
        for member in self.members.values():
            vote = next(name for name, _ in member.protocols if name in common)
            votes[vote] = votes.get(vote, 0) + 1
        return max(hash_order(votes, len(votes)), key=lambda name: votes[name])

    def elect_among_joined(self) -> bool:
        """Lets a member that has joined lead; says whether one does."""
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

    def in_hash_order(self) -> list[Member]:
        """The members in the order in which Kafka goes through them."""
        return [self.members[each] for each in hash_order(self.members, self.most_members)]

    def _common_protocols(self) -> set[str]:
        names = [{name for name, _ in member.protocols} for member in self.members.values()]
        return set.intersection(*names) if names else set()


def group_key(broker: int, group_id: str) -> str:
    """The key of a group in the table `sessions`."""
    return f"{broker}/live-group/{escape(group_id)}"


def heartbeat_key(broker: int, group_id: str, member_id: str) -> str:
    """The key of a member's heartbeat in the table `sessions`."""
    return f"{broker}/heartbeat/{escape(group_id)}/{escape(member_id)}"


def group(table: Table, broker: int, group_id: str) -> ClassicGroup | None:
    """The group as its coordinator holds it, to be read only."""
    return table.get(group_key(broker, group_id), ClassicGroup)
