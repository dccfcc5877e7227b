"""The records of share coordinators: what Kafka writes to `__share_group_state`.

Source: `ShareSnapshotValue` in Kafka. Each record is a snapshot; Kafka's deltas between two of
them (`ShareUpdateValue`) come to the same state.
"""

import msgspec

from brokerstream.state.core.schema import Uuid


class ShareStateBatch(msgspec.Struct, array_like=True, frozen=True):
    """Records of one state, both offsets inclusive; `delivery_state` is Kafka's code."""

    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int


class ShareSnapshot(msgspec.Struct, rename="camel"):
    """Kafka's ShareSnapshotValue; a start offset -1 is one that nobody has settled yet."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int = 0
    batches: list[ShareStateBatch] = []


class ShareStateWritten(msgspec.Struct, tag=True, rename="camel"):
    """What a share group has done with a partition; None is the tombstone."""

    group_id: str
    topic_id: Uuid
    partition: int
    snapshot: ShareSnapshot | None
