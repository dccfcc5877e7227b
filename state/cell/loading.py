"""A coordinator loads or unloads its partition of an internal topic.

The log is read from start to end, and the last record of each key wins. Durable state is loaded and
unloaded with the records PartitionLoaded and PartitionUnloaded; `handover.py` is about timers and
pending requests. A partition with a single replica has no such log: its leader keeps the state.

Source: `CoordinatorLoaderImpl`, `GroupMetadataManager.onLoaded`, `onUnloaded`,
`TransactionStateManager.loadTransactionsForTxnTopicPartition` in Kafka.
"""

from collections.abc import Callable

from brokertwin.protocol.bodies import Uuid
from brokertwin.state.cluster import image
from brokertwin.state.cluster.coordinators import (
    GROUP_TOPIC,
    SHARE_TOPIC,
    TRANSACTION_TOPIC,
    partition_for,
)
from brokertwin.state.core.applying import applies
from brokertwin.state.core.records import PartitionLoaded, PartitionTaken, PartitionUnloaded, Record
from brokertwin.state.core.tables import MachineTables
from brokertwin.state.groups import committed_offsets
from brokertwin.state.logs.log import Log, batches_from, log_key
from brokertwin.state.replication import internal_logs
from brokertwin.state.share import state_store
from brokertwin.state.transactions import transactional_ids, transactional_offsets

Apply = Callable[[MachineTables, Record], object]


def apply_loaded(at: MachineTables, record: PartitionLoaded, apply: Apply) -> None:
    """Replace a coordinator's state of a partition by the content of the log."""
    forget(at, record.topic_id, record.partition)
    log = at.tables.logs.get(log_key(at.id, record.topic_id, record.partition), Log)
    assert log is not None, record
    for batch in batches_from(at, log, log.log_start_offset):
        for written in internal_logs.in_batch(batch.written):
            if isinstance(written, PartitionTaken):  # with the first follower
                forget(at, record.topic_id, record.partition)
            apply(at, written)


@applies(PartitionUnloaded)
def apply_unloaded(at: MachineTables, record: PartitionUnloaded) -> None:
    """Drop a coordinator's state of a partition."""
    forget(at, record.topic_id, record.partition)


def forget(at: MachineTables, topic_id: Uuid, partition: int) -> None:
    """Drop a coordinator's state of a partition."""
    keys = coordinated_keys(at, topic_id, partition)
    for key in keys.get("groups", []):
        transactional_offsets.unindex(at, key)
    for name, of_table in keys.items():
        for key in of_table:
            at.tables[name].drop(key)


def knows_any(at: MachineTables, topic_id: Uuid, partition: int) -> bool:
    return any(coordinated_keys(at, topic_id, partition).values())


def coordinated_keys(at: MachineTables, topic_id: Uuid, partition: int) -> dict[str, list[str]]:
    """Return the keys of a coordinator's state of a partition, by table."""
    topic = image.topic_by_id(at, topic_id)
    assert topic is not None, topic_id

    def is_of(name: str) -> bool:
        return partition_for(name, len(topic.partitions)) == partition

    prefix = f"{at.id}/"
    if topic.name == GROUP_TOPIC:
        keys = [
            key
            for key in at.tables.groups.keys(prefix)
            if not transactional_offsets.is_index(key)
            and not state_store.is_state(key)
            and is_of(committed_offsets.group_of(key))
        ]
        return {"groups": keys}
    if topic.name == TRANSACTION_TOPIC:
        ids = at.tables.transactions.keys(prefix)
        return {"transactions": [k for k in ids if is_of(transactional_ids.transactional_id_of(k))]}
    if topic.name == SHARE_TOPIC:
        states = state_store.keys(at)
        return {"groups": [k for k in states if is_of(state_store.coordinator_key_of(k))]}
    return {}
