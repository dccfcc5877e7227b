"""Writes of coordinators to their internal topics, if these have followers.

Source: seed 003; `CoordinatorRuntime`, `CoordinatorPartitionWriter`, `TransactionStateManager` in
Kafka. Records of one decision for one partition become one batch at its log end
(`Batch.written`). The response waits until the high watermark has passed the batch
(`state/cell/committing.py`).

    __consumer_offsets   records are applied to the coordinator's state at once; in-sync replicas
                         are not counted, but the high watermark does not move with too few
    __share_group_state  the same
    __transaction_state  records are applied when committed, until then the id returns
                         51 CONCURRENT_TRANSACTIONS; with fewer in-sync replicas than
                         min.insync.replicas nothing is written: 19 NOT_ENOUGH_REPLICAS

The end marker of a transaction contains the records that the group coordinator writes for it.

In a partition with one replica a decision is committed at once. No other broker could read it, so
with `brokertwin.internal.logs` it is only written for readers of the topic, in a batch after the
change; nothing is loaded from it.
"""

from itertools import accumulate
from typing import NamedTuple

import msgspec

from brokertwin.protocol.batch_headers import Batch
from brokertwin.protocol.bodies import Uuid
from brokertwin.protocol.errors import Error
from brokertwin.state.cluster.coordinators import (
    GROUP_TOPIC,
    SHARE_TOPIC,
    TRANSACTION_TOPIC,
    coordinator_key,
    partition_for,
)
from brokertwin.state.cluster.machines import Broker, Machine
from brokertwin.state.core.group_records import GroupRecord
from brokertwin.state.core.records import (
    BatchAppended,
    OffsetCommitted,
    OffsetDeleted,
    PartitionTaken,
    Record,
    TransactionalIdExpired,
    TransactionalOffsetsEnded,
    TransactionalOffsetsWritten,
    TransactionMetadataWritten,
)
from brokertwin.state.core.share_records import ShareStateWritten
from brokertwin.state.logs.log import StoredBatch
from brokertwin.state.replication import copying
from brokertwin.state.replication.copying import Place

OF_TRANSACTIONS = (TransactionMetadataWritten, TransactionalIdExpired)
OF_GROUPS = (
    OffsetCommitted,
    OffsetDeleted,
    TransactionalOffsetsWritten,
    TransactionalOffsetsEnded,
    GroupRecord,
)

OVERHEAD = 61
"""Size of a batch without records (`DefaultRecordBatch.RECORD_BATCH_OVERHEAD`)."""


class CleanedRecords(msgspec.Struct):
    """Records that remain of a cleaned batch, and their offset deltas."""

    records: list[Record]
    deltas: list[int]


encode = msgspec.msgpack.Encoder().encode
"""Encodes `Batch.written`: a list of records, or `CleanedRecords`."""

_decoder = msgspec.msgpack.Decoder(list[Record] | CleanedRecords)


class Required(NamedTuple):
    """A partition, and the offset that its high watermark must reach."""

    topic_id: Uuid
    partition: int
    offset: int


class WrittenRecords(NamedTuple):
    """A decision's records, divided by when they are applied.

    Attributes:
        records: applied at once, in order.
        late: applied once committed.
        required: must be committed before the response is sent.
        error: why nothing was written to a log.
    """

    records: list[Record]
    late: list[Record]
    required: list[Required]
    error: Error = Error.NONE


def in_batch(written: bytes | None) -> list[Record]:
    """A coordinator's records in a batch; other batches have none."""
    records = _decoder.decode(written) if written is not None else []
    return records.records if isinstance(records, CleanedRecords) else records


def placed(written: bytes | None, last_offset_delta: int) -> list[tuple[int, Record]]:
    """The records of a batch with their offset deltas.

    In batches of older versions, cleaned records have the last offsets, and a batch that used one
    offset for many records may start below its base offset.
    """
    records = _decoder.decode(written) if written is not None else []
    if isinstance(records, CleanedRecords):
        return list(zip(records.deltas, records.records, strict=True))
    ends = list(accumulate(map(_size, records), initial=0))
    first = last_offset_delta + 1 - ends[-1]
    return [(first + end, record) for end, record in zip(ends, records, strict=False)]


def without_dropped(batch: StoredBatch, remaining: list[tuple[int, Record]]) -> StoredBatch:
    """A batch reduced to some of its `placed` records."""
    records = [record for _, record in remaining]
    if batch.end_marker is not None:
        written = encode(records) if records else None
        return msgspec.structs.replace(batch, written=written)
    written = encode(CleanedRecords(records, [delta for delta, _ in remaining]))
    return msgspec.structs.replace(
        batch,
        written=written,
        record_count=sum(map(_size, records)),
        size_in_bytes=OVERHEAD + len(written),
    )


def place_of(machine: Machine, record: Record) -> Place | None:
    if isinstance(record, OF_TRANSACTIONS):
        name, key = TRANSACTION_TOPIC, record.transactional_id
    elif isinstance(record, TransactionalOffsetsEnded):
        name, key = GROUP_TOPIC, record.group_ids[0]
    elif isinstance(record, OF_GROUPS):
        name, key = GROUP_TOPIC, record.group_id
    elif isinstance(record, ShareStateWritten):
        name = SHARE_TOPIC
        key = coordinator_key(record.group_id, record.topic_id, record.partition)
    else:
        return None
    topic = machine.topic_by_name(name)
    if topic is None:
        return None
    return topic.topic_id, partition_for(key, len(topic.partitions))


def group_place(machine: Machine, group_id: str) -> Place | None:
    return _followed(machine, GROUP_TOPIC, group_id)


def state_place(machine: Machine, group_id: str, topic_id: Uuid, partition: int) -> Place | None:
    return _followed(machine, SHARE_TOPIC, coordinator_key(group_id, topic_id, partition))


def _followed(machine: Machine, name: str, key: str) -> Place | None:
    topic = machine.topic_by_name(name)
    if topic is None:
        return None
    place = (topic.topic_id, partition_for(key, len(topic.partitions)))
    return place if has_followers(machine, place) else None


def has_followers(machine: Machine, place: Place) -> bool:
    partition = copying.partition_of(machine, place)
    return partition is not None and len(partition.replicas) > 1


def whole(broker: Broker, place: Place, record: PartitionTaken) -> BatchAppended:
    """A coordinator's whole state, for a log that gets its first follower."""
    batch = _batch(broker, place, record)
    _fill(batch, [record])
    return BatchAppended(*place, batch)


def write(broker: Broker, records: list[Record]) -> WrittenRecords | None:
    """Divide records for writing; None if no internal log with followers takes any.

    A log in a failed directory is an error, with or without followers.
    """
    places = [_followed_place(broker, each) or _lost_place(broker, each) for each in records]
    if not any(places):
        return None
    required = dict.fromkeys(place for place in places if place is not None)
    error = next((error for place in required if (error := _error(broker, place))), Error.NONE)
    if error is not Error.NONE:
        others = zip(records, places, strict=True)
        return WrittenRecords([record for record, place in others if place is None], [], [], error)
    return _appended(broker, records, places)


def with_rows(broker: Broker, records: list[Record]) -> list[Record]:
    """Records, followed by their batches in logs without followers.

    Records after a transaction's end marker are already in the marker.
    """
    contents: dict[Place, list[Record]] = {}
    ended: set[Place] = set()
    for record in records:
        if isinstance(record, BatchAppended):
            ended.add((record.topic_id, record.partition))
            continue
        place = place_of(broker, record)
        if place is not None and place not in ended and _is_alone(broker, place):
            contents.setdefault(place, []).append(record)
    result = list(records)
    for place, written in contents.items():
        batch = _batch(broker, place, written[0])
        _fill(batch, written)
        result.append(BatchAppended(*place, batch))
    return result


def _is_alone(broker: Broker, place: Place) -> bool:
    partition = copying.partition_of(broker, place)
    is_led = partition is not None and partition.replicas == [broker.id] == [partition.leader]
    return is_led and broker.log(*place) is not None


def _appended(broker: Broker, records: list[Record], places: list[Place | None]) -> WrittenRecords:
    at_once: list[Record] = []
    late: list[Record] = []
    batches: dict[Place, Batch] = {}
    contents: list[tuple[Batch, list[Record]]] = []
    for record, place in zip(records, places, strict=True):
        if place is None:
            at_once.append(record)
            continue
        if isinstance(record, BatchAppended):  # an end marker
            batches[place] = record.batch
            contents.append((record.batch, []))
            at_once.append(record)
            continue
        if place not in batches:
            batches[place] = _batch(broker, place, record)
            contents.append((batches[place], []))
            at_once.append(BatchAppended(*place, batches[place]))
        next(found for batch, found in contents if batch is batches[place]).append(record)
        (late if isinstance(record, OF_TRANSACTIONS) else at_once).append(record)
    for batch, found in contents:
        _fill(batch, found)
    required = [Required(*place, batch.last_offset + 1) for place, batch in batches.items()]
    return WrittenRecords(at_once, late, required)


def _followed_place(broker: Broker, record: Record) -> Place | None:
    """The partition of a coordinator's record or end marker, if it has followers.

    A marker copied by a follower is not written again.
    """
    place = place_of(broker, record)
    if isinstance(record, BatchAppended) and record.batch.end_marker is not None:
        place = (record.topic_id, record.partition)
        partition = copying.partition_of(broker, place)
        if partition is None or partition.leader != broker.id:
            return None
    return place if place is not None and has_followers(broker, place) else None


def _lost_place(broker: Broker, record: Record) -> Place | None:
    """The partition of a coordinator's record, if its directory has failed."""
    place = place_of(broker, record) if broker.failed_dirs else None
    return place if place is not None and broker.has_lost(*place) else None


def _error(broker: Broker, place: Place) -> Error:
    """Why a partition cannot be written."""
    topic = broker.topic_by_id(place[0])
    assert topic is not None, place
    if broker.has_lost(*place):
        return Error.KAFKA_STORAGE_ERROR
    if topic.partitions[place[1]].leader != broker.id:
        return Error.NOT_LEADER_OR_FOLLOWER
    is_checked = topic.name == TRANSACTION_TOPIC
    if is_checked and copying.has_too_few_in_sync(broker, topic, place[1]):
        return Error.NOT_ENOUGH_REPLICAS
    return Error.NONE


def _batch(broker: Broker, place: Place, first: Record) -> Batch:
    """An empty batch at the log end; transactional offsets make it transactional."""
    log = broker.log(*place)
    assert log is not None, place
    batch = Batch(
        base_offset=log.log_end_offset,
        last_offset_delta=0,
        partition_leader_epoch=log.leader_epoch,
        base_timestamp=broker.now,
        max_timestamp=broker.now,
    )
    if isinstance(first, TransactionalOffsetsWritten) and first.producer_id >= 0:
        batch.producer_id, batch.producer_epoch = first.producer_id, first.producer_epoch
        batch.is_transactional = True
    return batch


def _size(record: Record) -> int:
    """Number of Kafka's records for a record: one for each offset."""
    return len(record.offsets) if isinstance(record, TransactionalOffsetsWritten) else 1


def _fill(batch: Batch, records: list[Record]) -> None:
    """Put a coordinator's records into their batch; a marker counts as one record."""
    if not records:
        return
    batch.written = encode(records)
    if batch.end_marker is None:
        batch.record_count = sum(map(_size, records))
        batch.last_offset_delta = batch.record_count - 1
        batch.size_in_bytes = OVERHEAD + len(batch.written)
