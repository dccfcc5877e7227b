"""Rows of `__consumer_offsets`: encodes the records of groups, and applies them.

Source: `GroupCoordinatorRecordHelpers`, `GroupMetadataManager.replay` in Kafka 4.3's
group-coordinator. A null value is a tombstone. `group_records` reads rows of real brokers.
"""

from collections.abc import Callable
from typing import Any, get_args

from brokertwin.protocol.generated import consumer_group_rows, share_group_rows, streams_group_rows
from brokertwin.protocol.generated.group_rows import GroupMetadataKey, GroupMetadataValue
from brokertwin.protocol.rows import Encoded, RowKey
from brokertwin.state.core.applying import applies
from brokertwin.state.core.group_records import GroupRecord
from brokertwin.state.core.records import OffsetCommitted, OffsetDeleted, Record
from brokertwin.state.core.tables import MachineTables
from brokertwin.state.groups import (
    consumer_group_records,
    groups,
    offset_records,
    share_group_records,
    streams_group_records,
    streams_live,
)
from brokertwin.state.groups.consumer_group import ConsumerGroup
from brokertwin.state.groups.share_group import ShareGroup
from brokertwin.state.groups.streams_group import StreamsGroup

CLASSIC_VERSION = 3
"""The version of a classic group's value; all others have version 0."""

GROUP_RECORD_TYPES = frozenset({OffsetCommitted, OffsetDeleted, GroupRecord})
"""The records that have a row."""


def encode(record: Record) -> Encoded | None:
    """The row of a record; None if it is not a record of groups and offsets.

    Raises ValueError for an id of more than 32,767 bytes.
    """
    match record:
        case OffsetCommitted():
            return offset_records.committed(record)
        case OffsetDeleted():
            return offset_records.deleted(record)
        case GroupRecord(key, value):
            version = CLASSIC_VERSION if isinstance(key, GroupMetadataKey) else 0
            return key.encoded(), None if value is None else value.encoded(version)
    return None


_RULES: dict[type[RowKey], tuple[type, Callable[[Any, Any, Any], None]]] = {
    **dict.fromkeys(
        get_args(consumer_group_rows.Key), (ConsumerGroup, consumer_group_records.replay)
    ),
    **dict.fromkeys(get_args(share_group_rows.Key), (ShareGroup, share_group_records.replay)),
    **dict.fromkeys(get_args(streams_group_rows.Key), (StreamsGroup, streams_group_records.replay)),
}
"""The kind of group that has rows with a key, and the function that changes it."""

KINDS = {GroupMetadataKey.KIND} | {key.KIND for key in _RULES}
"""Kafka's numbers of the kinds of keys."""

_OF_WHOLE_GROUPS = (
    consumer_group_rows.ConsumerGroupMetadataKey,
    share_group_rows.ShareGroupMetadataKey,
    streams_group_rows.StreamsGroupMetadataKey,
)
_WITHOUT_EFFECT = (
    consumer_group_rows.ConsumerGroupPartitionMetadataKey,
    streams_group_rows.StreamsGroupTopologyKey,
)
"""Keys whose tombstones change nothing; that of a topology follows that of its group."""


@applies(GroupRecord)
def replay(at: MachineTables, record: GroupRecord) -> None:
    """Change, create or delete a group. A consumer group may have become a live classic group."""
    key, value = record.key, record.value
    if isinstance(key, GroupMetadataKey):
        if value is None:
            groups.drop(at, key.group)
        else:
            assert isinstance(value, GroupMetadataValue), value
            groups.store_classic(at, key.group, value)
    elif value is None and isinstance(key, _OF_WHOLE_GROUPS):
        if isinstance(key, streams_group_rows.StreamsGroupMetadataKey):
            groups.set_timer(at, key.group_id, groups.INITIAL, None)
            streams_live.drop(at, key.group_id)
        groups.drop_stored(at, key.group_id)
    elif value is not None or not isinstance(key, _WITHOUT_EFFECT):
        kind, change = _RULES[type(key)]
        change(groups.change_stored(at, key.group_id, kind), key, value)
