"""A classic group: members, generation, who waits for what.

Source: KIP-62, KIP-134, KIP-345, KIP-394; `ClassicGroup`, `ClassicGroupMember`, `ClassicGroupState`
in Kafka. `PREVIOUS` says which state may follow which; `group_coordinator.py` has the transitions,
`groups.py` keeps the group.

What a request asks of a group costs the same however many members there are: like Kafka the group
counts who waits in a join and which protocol how many members support, and knows its static
members by their instance ids (`_count`). Looks at all members are left to rebalances.

Kafka keeps members in a Java `HashMap` and takes "the first" of them in three places: who leads
after a leader has gone, who leads where the leader has not come back, and which of two protocols
with as many votes wins. `hash_order` gives the same order, so the same member leads here, and a
leader gets to know the members in the same order.
"""

import base64
from collections.abc import Iterable
from enum import StrEnum

import msgspec

from brokertwin.state.core.errors import NONE, Error
from brokertwin.state.core.java_hashes import hash_order
from brokertwin.state.groups import consumer_protocol

CONSUMER = "consumer"
"""The protocol type of consumers; their subscriptions can be read."""

NO_TIME = -1


class ClassicGroupState(StrEnum):
    """The states of a classic group, under Kafka's names."""

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
"""State to the states that it may follow."""


class JoinParameters(msgspec.Struct, frozen=True):
    """What a join says of its member. Time-outs are ms.

    `protocols` are name and metadata in base64, the most wanted first; `join_id` is the id of the
    request, which waits for its answer in `join_version`.
    """

    protocols: list[tuple[str, str]]
    rebalance_timeout_ms: int
    session_timeout_ms: int
    join_id: str
    join_version: int


class ClassicMember(msgspec.Struct):
    """A member. Time-outs are ms; metadata and assignment are base64.

    `protocols`, `join_id` and `join_version` are those of its last `JoinParameters`; `join_id` and `sync_id`
    are "" where no request waits. A member is new until it has come through its first join.
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
        """Whether a request of the member waits: then it needs no heartbeat, unless it is new."""
        return not self.is_new and bool(self.join_id or self.sync_id)

    def metadata(self, protocol_name: str) -> str:
        """What the member says under a protocol, "" where it does not support it."""
        return dict(self.protocols).get(protocol_name, "")

    def take_over(self, wish: JoinParameters) -> None:
        """Notes what a join says; of a member that is in a group, `ClassicGroup.wishes` does."""
        self.protocols = wish.protocols
        self.rebalance_timeout_ms = wish.rebalance_timeout_ms
        self.session_timeout_ms = wish.session_timeout_ms
        self.join_id, self.join_version = wish.join_id, wish.join_version


class ClassicGroup(msgspec.Struct, tag_field="type", tag="classic"):
    """A group. Times are ms since 1970.

    `pending` are ids that were given away and have not joined yet, `pending_sync` members that have
    not synced in this generation. `join_remaining_ms` is what is left of the initial delay, -1 when
    the join timer is that of an ordinary rebalance. `most_members` sizes the hash order.

    `joining`, `supporters` and `static_members` follow from the members (`_count`): how many wait
    in a join, protocol name to how many support it, instance id to member id.

    `subscribed` are the topics that the members of this generation said they read, when it began;
    None where that is not known. It is not set in a group of an older checkpoint.

    `is_kept` is a group that a commit has made which stored nothing: it lives without anybody.
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
        """Goes over into another state."""
        assert self.state in PREVIOUS[state], (self.state, state)
        self.previous_state, self.state, self.state_timestamp = self.state, state, now

    def add(self, member: ClassicMember, protocol_type: str) -> None:
        """Takes a member in; the first one leads and says of which protocol type the group is."""
        if not self.members:
            self.protocol_type = protocol_type
        self.leader_id = self.leader_id or member.member_id
        self.members[member.member_id] = member
        self._count(member, 1)
        self.most_members = max(self.most_members, len(self.members))
        self.pending.pop(member.member_id, None)

    def remove(self, member_id: str) -> None:
        """Forgets a member, or an id that was given away; another member leads where it led."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._count(member, -1)
        if self.leader_id == member_id:
            self.leader_id = next((m.member_id for m in self.in_hash_order()), None)
        self.pending.pop(member_id, None)
        self.pending_sync.pop(member_id, None)

    def replace(self, former: ClassicMember, member: ClassicMember) -> None:
        """Gives the place of a static member to itself under another id."""
        del self.members[former.member_id]
        self._count(former, -1)
        self.members[member.member_id] = member
        self._count(member, 1)
        if self.leader_id == former.member_id:
            self.leader_id = member.member_id

    def wishes(self, member: ClassicMember, wish: JoinParameters) -> None:
        """Notes what a member's join says; the member waits for its answer."""
        self._count(member, -1)
        member.take_over(wish)
        self._count(member, 1)

    def end_join(self, member: ClassicMember) -> str:
        """Lets a member wait no more; gives back the id of its request, "" where none waited."""
        join_id = member.join_id
        self.joining -= bool(join_id)
        member.join_id = ""
        return join_id

    def _count(self, member: ClassicMember, by: int) -> None:
        """Keeps what follows from the members as one comes (1) or goes (-1)."""
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
        """Why a request is not one of a member's: 25, 82 for a fenced instance, or NONE."""
        if group_instance_id is not None:
            known = self.static_members.get(group_instance_id)
            if known is None:
                return Error.UNKNOWN_MEMBER_ID
            if known != member_id:
                return Error.FENCED_INSTANCE_ID
        return NONE if member_id in self.members else Error.UNKNOWN_MEMBER_ID

    def has_all_joined(self) -> bool:
        """Whether every member waits in a join, and no given id is still to come."""
        return not self.pending and self.joining == len(self.members)

    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance time-out of the members."""
        return max((m.rebalance_timeout_ms for m in self.members.values()), default=0)

    def supports(self, protocol_type: str, protocols: Iterable[str]) -> bool:
        """Whether somebody with these protocols can be a member beside those there are."""
        if self.state is ClassicGroupState.EMPTY:
            return bool(protocol_type) and bool(list(protocols))
        return self.protocol_type == protocol_type and any(map(self._all_support, protocols))

    def chosen_protocol(self) -> str:
        """The protocol with the most votes: each member's first one that all support."""
        votes: dict[str, int] = {}
        for member in self.members.values():
            vote = next(name for name, _ in member.protocols if self._all_support(name))
            votes[vote] = votes.get(vote, 0) + 1
        return max(hash_order(votes, len(votes)), key=lambda name: votes[name])

    def subscriptions(self) -> list[str] | None:
        """The topics that members of a group of consumers say they read; None: not known."""
        if self.protocol_type != CONSUMER:
            return None
        if self.members and self.protocol_name is None:
            return None
        name = self.protocol_name or ""
        try:
            said = {member.metadata(name) for member in self.members.values()}
            read = [consumer_protocol.topics_of(base64.b64decode(each)) for each in said]
        except ValueError:
            return None
        return sorted({topic for topics in read for topic in topics})

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

    def in_hash_order(self) -> list[ClassicMember]:
        """The members in the order in which Kafka goes through them."""
        return [self.members[each] for each in hash_order(self.members, self.most_members)]

    def _all_support(self, protocol_name: str) -> bool:
        return self.supporters.get(protocol_name, 0) == len(self.members)
