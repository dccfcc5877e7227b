"""Records of groups in `__consumer_offsets`, except offsets: the rows of Kafka's coordinator.

Source: `GroupMetadataValue`, `ConsumerGroup…Value`, `ShareGroup…Value`, `StreamsGroup…Value` in
Kafka. `state/groups` says when they are written and applies them.
"""

import msgspec

from brokertwin.protocol.generated import consumer_group_rows, share_group_rows, streams_group_rows
from brokertwin.protocol.generated.group_rows import GroupMetadataKey, GroupMetadataValue

GroupKey = (
    GroupMetadataKey | consumer_group_rows.Key | share_group_rows.Key | streams_group_rows.Key
)
GroupValue = (
    GroupMetadataValue
    | consumer_group_rows.Value
    | share_group_rows.Value
    | streams_group_rows.Value
)


class GroupRecord(msgspec.Struct, tag=True):
    """A row of a group, its members or its assignments; a value None is a tombstone.

    Bytes are in base64 in the topic `records`. Beside Kafka's fields, partitions whose share state
    is being initialized have the time of the request, in ms since 1970. The `version` of a regular
    expression is the number of topics created by then; Kafka has the offset of its metadata.
    """

    key: GroupKey
    value: GroupValue | None = None

    @property
    def group_id(self) -> str:
        key = self.key
        return key.group if isinstance(key, GroupMetadataKey) else key.group_id


def tombstones(*keys: GroupKey) -> list[GroupRecord]:
    return [GroupRecord(key) for key in keys]
