"""What a group forgets as time passes: offsets that are too old, and then the group itself.

Source: KIP-211; `OffsetMetadataManager.cleanupExpiredOffsets`, `OffsetExpirationConditionImpl`,
`GroupCoordinatorShard.cleanupGroupMetadata`, `Group.shouldExpire` in Kafka. An offset goes

    that was given a retention (OffsetCommit 2 to 4)   when that is over
    any other                                          offsets.retention.minutes after its base

and the base is that of the group's kind (`Kind.kept_since`):

    a classic group that only commits        when the offset was committed
    a classic group without members          when the last member went
    a stable group of consumers              when it was committed
    a consumer group (KIP-848)               when it was committed
    any other                                none: nothing expires

An offset of a topic that a member subscribes to stays, and so does one that a transaction is about
to replace. A group that has no offsets left, no open transaction and no member goes, too; but for a
share group, which stays until it is deleted: what its members have read is in no offsets.
"""

from collections.abc import Iterator

from brokertwin.state.cluster.machines import Broker, Controller, Machine
from brokertwin.state.core.errors import Error
from brokertwin.state.core.records import OffsetDeleted, Record
from brokertwin.state.groups import committed_offsets, groups
from brokertwin.state.groups.committed_offsets import Offset
from brokertwin.state.groups.groups import Group
from brokertwin.state.groups.kinds import kind_of
from brokertwin.state.groups.offset_records import NO_TIMESTAMP

_MINUTE_MS = 60_000


def expired(broker: Broker, group: Group, unstable: set[tuple[str, int]]) -> list[Record]:
    """The tombstones of what a group forgets now.

    Args:
        broker: the coordinator.
        group: one of its groups.
        unstable: the topics and partitions for which a transaction has an offset.
    """
    kind = kind_of(group)
    if not kind.may_expire:
        return []
    subscribed = kind.subscribed_topics(group)
    gone: list[Record] = []
    stays = bool(unstable)
    for topic, partition, offset in _offsets(broker, group.group_id):
        is_read = subscribed is None or topic in subscribed
        is_free = not is_read and (topic, partition) not in unstable
        since = kind.kept_since(group, offset.commit_timestamp)
        if since is not None and broker.settings.brokertwin_offset_age_from_fetch:
            since = max(since, offset.commit_timestamp)
        if is_free and _is_over(broker, offset, since):
            gone.append(OffsetDeleted(group.group_id, topic, partition))
        else:
            stays = True
    if not stays and kind.delete_error(group) is Error.NONE:
        gone += kind.tombstones(group)
    return gone


def expired_nodes(controller: Controller) -> list[Record]:
    """The tombstones of the offsets in ZooKeeper that are too old; it knows no members."""
    return [
        OffsetDeleted(group_id, topic, partition)
        for group_id in groups.stored_ids(controller.tables, controller.id)
        for topic, partition, offset in _offsets(controller, group_id)
        if _is_over(controller, offset, offset.commit_timestamp)
    ]


def _offsets(broker: Machine, group_id: str) -> Iterator[tuple[str, int, Offset]]:
    table = broker.tables.groups
    for topic, partitions in committed_offsets.partitions_of(table, broker.id, group_id):
        for partition in partitions:
            offset = committed_offsets.offset(table, broker.id, group_id, topic, partition)
            assert offset is not None, (group_id, topic, partition)
            yield topic, partition, offset


def _is_over(broker: Machine, offset: Offset, since: int | None) -> bool:
    """Whether an offset has been kept for long enough; `since` None: it is kept for ever."""
    if since is None:
        return False
    if offset.expire_timestamp != NO_TIMESTAMP:
        return broker.now >= offset.expire_timestamp
    return broker.now - since >= broker.settings.offsets_retention_minutes * _MINUTE_MS
