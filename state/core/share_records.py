"""Records of share coordinators in `__share_group_state`.

Source: `ShareSnapshotValue`, `ShareUpdateValue` in Kafka. Each record has the whole state. If Kafka
writes only the changes, the record has these, too.
"""

import msgspec

from brokertwin.protocol.bodies import Uuid


class ShareStateBatch(msgspec.Struct, array_like=True, frozen=True):
    """Records with the same state, both offsets inclusive. `delivery_state` is Kafka's code."""

    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int


class ShareSnapshot(msgspec.Struct, rename="camel"):
    """Kafka's ShareSnapshotValue.

    The start offset is `-1` until it is initialized. `snapshot_epoch` is the number of earlier
    snapshots.
    """

    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int = 0
    batches: list[ShareStateBatch] = []
    snapshot_epoch: int = 0


class ShareUpdate(msgspec.Struct, rename="camel"):
    """Kafka's ShareUpdateValue: the changes. A start offset of -1 leaves it unchanged."""

    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: list[ShareStateBatch] = []


class ShareStateWritten(msgspec.Struct, tag=True, rename="camel"):
    """The share state of a partition; None is the tombstone.

    With `update`, Kafka writes only the update.
    """

    group_id: str
    topic_id: Uuid
    partition: int
    snapshot: ShareSnapshot | None
    update: ShareUpdate | None = None
