"""A share group of KIP-932: members, their epochs, and the partitions that they share.

Source: `ShareGroup`, `ModernGroup`, `ShareGroupMember` in Kafka. All of it is durable: records
change it (`share_group_records.py`), nothing else does. What lives beside it are the timers of its
members (`groups.py`). A partition may be several members'; nobody gives one back before another
gets it, so a member is at its target with the first heartbeat after it.
"""

from collections.abc import Iterable
from enum import StrEnum

import msgspec

from brokertwin.state.core.errors import Error
from brokertwin.state.core.group_records import StatePartitions
from brokertwin.state.core.java_hashes import JavaMap, java_hash, timeline_order
from brokertwin.state.core.schema import Uuid
from brokertwin.state.groups.assignments import Target
from brokertwin.state.groups.consumer_group import FIRST_EPOCH, NO_EPOCH

SHARE = "share"
"""The protocol type, and the name of the kind."""


class ShareGroupState(StrEnum):
    """The states of a share group, under Kafka's names."""

    EMPTY = "Empty"
    STABLE = "Stable"


class ShareGroupMember(msgspec.Struct, frozen=True):
    """A member; `subscribed_topic_names` are sorted, `assigned` is in Kafka's order."""

    member_id: str
    member_epoch: int = 0
    previous_member_epoch: int = NO_EPOCH
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: list[str] = []
    assigned: Target = {}

    def topics_in_order(self) -> list[str]:
        """The names that it subscribes to, as Kafka goes through them (a `HashSet`)."""
        return list(JavaMap.holding(java_hash, dict.fromkeys(self.subscribed_topic_names)))


class ShareGroup(msgspec.Struct, tag_field="type", tag="share"):
    """A group. Times are ms since 1970.

    `target` is by member id. `subscribers` follows from the members (`put`, `remove`): topic name
    to how many want it. `most_members` sizes the order in which Kafka goes through the members.
    `initializing` and `initialized` are the partitions whose share state is to be made, and is
    there, by topic id. `deleting` are the topics whose state is to go, with their names.
    """

    group_id: str
    group_epoch: int = FIRST_EPOCH
    metadata_hash: int = 0
    assignment_epoch: int = FIRST_EPOCH
    assignment_timestamp: int = 0
    members: dict[str, ShareGroupMember] = {}
    target: dict[str, Target] = {}
    most_members: int = 0
    subscribers: dict[str, int] = {}
    initializing: dict[Uuid, StatePartitions] = {}
    initialized: dict[Uuid, StatePartitions] = {}
    deleting: dict[Uuid, str] = {}

    @property
    def protocol_type(self) -> str:
        """The protocol type, as ListGroups shows it."""
        return SHARE

    @property
    def state(self) -> ShareGroupState:
        """The group's state: whether somebody is in it."""
        return ShareGroupState.STABLE if self.members else ShareGroupState.EMPTY

    def member_error(self, _member_id: str, _instance_id: str | None) -> Error:
        """A share group has no members of other protocols."""
        return Error.UNKNOWN_MEMBER_ID

    def in_order(self) -> list[ShareGroupMember]:
        """The members in the order in which Kafka goes through them."""
        return [self.members[each] for each in timeline_order(self.members, self.most_members)]

    def put(self, member: ShareGroupMember) -> None:
        """Takes a member in, or what is new of it."""
        former = self.members.get(member.member_id)
        self.members[member.member_id] = member
        self.most_members = max(self.most_members, len(self.members))
        self.subscribers = updated_subscribers(self.subscribers, former, member)

    def remove(self, member_id: str) -> None:
        """Forgets a member."""
        former = self.members.pop(member_id)
        self.subscribers = updated_subscribers(self.subscribers, former, None)


def updated_subscribers(
    counts: dict[str, int], former: ShareGroupMember | None, new: ShareGroupMember | None
) -> dict[str, int]:
    """The subscribers of each topic once a member has taken the place of another, or of none."""
    changed = dict(counts)
    _count(changed, former.subscribed_topic_names if former is not None else [], -1)
    _count(changed, new.subscribed_topic_names if new is not None else [], 1)
    return changed


def _count(counts: dict[str, int], names: Iterable[str], by: int) -> None:
    for name in names:
        counts[name] = counts.get(name, 0) + by
        if not counts[name]:
            del counts[name]
