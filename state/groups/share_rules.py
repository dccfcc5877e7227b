"""What a share group takes of other requests than heartbeats.

Source: `ShareGroup.validateOffsetCommit`, `.validateOffsetDelete`, `.validateDeleteGroup` in Kafka;
KIP-932. A share group commits no offsets: to whoever would it is no group at all.
"""

from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.decision import Decision, Resumed
from brokertwin.state.core.errors import Error
from brokertwin.state.groups import groups
from brokertwin.state.groups.group_rules import Commit
from brokertwin.state.groups.share_group import ShareGroup
from brokertwin.state.groups.share_group_coordinator import ShareGroupCoordinator


def commit_error(_group: ShareGroup, _commit: Commit) -> Error:
    """Offsets are not taken."""
    return Error.GROUP_ID_NOT_FOUND


def fetch_error(_group: ShareGroup, _member_id: str | None, _member_epoch: int) -> Error:
    """There are no offsets: none are told."""
    return Error.NONE


def delete_error(group: ShareGroup) -> Error:
    """Why a group cannot be deleted: NON_EMPTY_GROUP, or NONE."""
    return Error.NON_EMPTY_GROUP if group.members else Error.NONE


def delete_offsets_error(_group: ShareGroup) -> Error:
    """There are no offsets to delete."""
    return Error.GROUP_ID_NOT_FOUND


def subscribed_topics(group: ShareGroup) -> set[str]:
    """The topics that members may be reading."""
    return set(group.subscribers)


def kept_since(_group: ShareGroup, _commit_timestamp: int) -> None:
    """A share group does not expire."""
    return


def fire(broker: Broker, group_id: str, timer: str) -> Decision:
    """A member was silent for too long."""
    return expire(broker, group_id, [groups.late_member(timer)])


def expire(broker: Broker, group_id: str, member_ids: list[str]) -> Decision:
    """Takes members for gone, as when their session time-outs are over."""
    coordinator = _coordinator(broker, group_id)
    members = coordinator.group.members
    coordinator.fence([members[each] for each in member_ids if each in members])
    return Decision(records=coordinator.records)


def load(broker: Broker, group_id: str) -> None:
    """Takes over a group; its members have their time-outs from now on."""
    _coordinator(broker, group_id).load()


def unload(broker: Broker, group_id: str) -> list[Resumed]:
    """Lets go of a group that another broker coordinates now; nobody waits in it."""
    groups.stop_timers(broker.tables, broker.id, group_id)
    return []


def _coordinator(broker: Broker, group_id: str) -> ShareGroupCoordinator:
    group = groups.find(broker, group_id)
    assert isinstance(group, ShareGroup), group_id
    return ShareGroupCoordinator(broker, group)
