"""Expiry of committed offsets and of groups without offsets.

Source: KIP-211; `OffsetMetadataManager.cleanupExpiredOffsets`, `OffsetExpirationConditionImpl`,
`GroupCoordinatorShard.cleanupGroupMetadata`, `Group.shouldExpire` in Kafka.

    offset                                        expires
    with an expire timestamp (OffsetCommit 2..4)  at that time
    other                                         offsets.retention.minutes after its base

The base (`GroupKind.kept_since`):

    simple group                            commit time
    classic group without members           time when the last member left
    stable classic group of consumers       commit time
    consumer group (KIP-848)                commit time
    other classic groups                    none: offsets do not expire

Offsets of subscribed topics and of partitions with a pending transactional offset are kept. A group
without offsets, pending transactional offsets and members is deleted. Share groups do not expire,
because their progress is not stored as offsets.
"""

from collections.abc import Iterator

from brokertwin.protocol.errors import Error
from brokertwin.state.cluster.machines import Broker, Controller, Machine
from brokertwin.state.core.records import OffsetDeleted, Record
from brokertwin.state.groups import committed_offsets, groups
from brokertwin.state.groups.committed_offsets import Offset
from brokertwin.state.groups.groups import Group
from brokertwin.state.groups.kinds import kind_of
from brokertwin.state.groups.offset_records import NO_TIMESTAMP

_MINUTE_MS = 60_000


def expired(broker: Broker, group: Group, unstable: set[tuple[str, int]]) -> list[Record]:
    """Return tombstones for a group's expired offsets and for the group.

    Args:
        broker: the coordinator.
        group: one of its groups.
        unstable: topics and partitions with a pending transactional offset.
    """
    kind = kind_of(group)
    if not kind.may_expire:
        return []
    subscribed = kind.subscribed_topics(group)
    tombstones: list[Record] = []
    has_offsets = bool(unstable)
    for topic, partition, offset in _offsets(broker, group.group_id):
        is_subscribed = subscribed is None or topic in subscribed
        may_expire = not is_subscribed and (topic, partition) not in unstable
        since = kind.kept_since(group, offset.commit_timestamp)
        if since is not None and broker.settings.brokertwin_offset_age_from_fetch:
            since = max(since, offset.commit_timestamp)
        if may_expire and _is_expired(broker, offset, since):
            tombstones.append(OffsetDeleted(group.group_id, topic, partition))
        else:
            has_offsets = True
    if not has_offsets and kind.delete_error(group) is Error.NONE:
        tombstones += kind.tombstones(group)
    return tombstones


def expired_nodes(controller: Controller) -> list[Record]:
    """Return tombstones for expired offsets in ZooKeeper, without members."""
    return [
        OffsetDeleted(group_id, topic, partition)
        for group_id in groups.stored_ids(controller)
        for topic, partition, offset in _offsets(controller, group_id)
        if _is_expired(controller, offset, offset.commit_timestamp)
    ]


def _offsets(broker: Machine, group_id: str) -> Iterator[tuple[str, int, Offset]]:
    for topic, partitions in committed_offsets.partitions_of(broker, group_id):
        for partition in partitions:
            offset = committed_offsets.offset(broker, group_id, topic, partition)
            assert offset is not None, (group_id, topic, partition)
            yield topic, partition, offset


def _is_expired(broker: Machine, offset: Offset, since: int | None) -> bool:
    """True if an offset has expired; it never does if `since` is None."""
    if since is None:
        return False
    if offset.expire_timestamp != NO_TIMESTAMP:
        return broker.now >= offset.expire_timestamp
    return broker.now - since >= broker.settings.offsets_retention_minutes * _MINUTE_MS
