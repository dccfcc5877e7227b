"""A share group of KIP-932: members, epochs, assigned partitions.

Source: `ShareGroup`, `ModernGroup`, `ShareGroupMember` in Kafka. The whole state is durable and
changed by records only (`share_group_records.py`). The timers of the members are in `groups.py`.
Members share partitions, so nothing is revoked first: a member reaches its target with its next
heartbeat.
"""

from collections.abc import Iterable
from enum import StrEnum

import msgspec

from brokertwin.protocol.bodies import Uuid
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.share_group_rows import TopicPartitionsInfo
from brokertwin.state.core.java_hashes import JavaMap, java_hash, timeline_order
from brokertwin.state.groups.assignments import Target
from brokertwin.state.groups.consumer_group import FIRST_EPOCH, NO_EPOCH

SHARE = "share"
"""Protocol type and name of the kind."""


class ShareGroupState(StrEnum):
    EMPTY = "Empty"
    STABLE = "Stable"


class ShareGroupMember(msgspec.Struct, frozen=True):
    """A member; names are sorted, `assigned` is in Kafka's order."""

    member_id: str
    member_epoch: int = 0
    previous_member_epoch: int = NO_EPOCH
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: list[str] = []
    assigned: Target = {}

    def topics_in_order(self) -> list[str]:
        """Return the subscribed names in the order of a Java `HashSet`."""
        return list(JavaMap.holding(java_hash, dict.fromkeys(self.subscribed_topic_names)))


class ShareGroup(msgspec.Struct, tag_field="type", tag="share"):
    """A group. Times are in ms since 1970.

    Attributes:
        target: target assignment by member id.
        most_members: highest member count so far; it determines Kafka's iteration order.
        subscribers: number of subscribing members by topic name (`put`, `remove`).
        initializing: partitions whose share state is being initialized, by topic id.
        initialized: partitions with share state, by topic id.
        deleting: topics whose share state is being deleted, with their names.
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
    initializing: dict[Uuid, TopicPartitionsInfo] = {}
    initialized: dict[Uuid, TopicPartitionsInfo] = {}
    deleting: dict[Uuid, str] = {}

    @property
    def protocol_type(self) -> str:
        return SHARE

    @property
    def state(self) -> ShareGroupState:
        return ShareGroupState.STABLE if self.members else ShareGroupState.EMPTY

    def member_error(self, _member_id: str, _instance_id: str | None) -> Error:
        """Return 25 UNKNOWN_MEMBER_ID: there are no classic members."""
        return Error.UNKNOWN_MEMBER_ID

    def in_order(self) -> list[ShareGroupMember]:
        """Return the members in Kafka's iteration order."""
        return [self.members[each] for each in timeline_order(self.members, self.most_members)]

    def put(self, member: ShareGroupMember) -> None:
        former = self.members.get(member.member_id)
        self.members[member.member_id] = member
        self.most_members = max(self.most_members, len(self.members))
        self.subscribers = updated_subscribers(self.subscribers, former, member)

    def remove(self, member_id: str) -> None:
        former = self.members.pop(member_id)
        self.subscribers = updated_subscribers(self.subscribers, former, None)


def updated_subscribers(
    counts: dict[str, int], former: ShareGroupMember | None, new: ShareGroupMember | None
) -> dict[str, int]:
    changed = dict(counts)
    _count(changed, former.subscribed_topic_names if former is not None else [], -1)
    _count(changed, new.subscribed_topic_names if new is not None else [], 1)
    return changed


def _count(counts: dict[str, int], names: Iterable[str], by: int) -> None:
    for name in names:
        counts[name] = counts.get(name, 0) + by
        if not counts[name]:
            del counts[name]
