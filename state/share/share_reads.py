"""Reading and acquiring records for a ShareFetch.

Source: `DelayedShareFetch` in Kafka. Only partitions with acquirable records are read. The request
completes if they have `min_bytes`, if one of them cannot be read, or after its max wait.
"""

import msgspec

from brokertwin.protocol.additions import SealedRead
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.share_fetch import (
    AcquiredRecords,
    ShareFetchResponsePartitionData,
)
from brokertwin.protocol.generated.shared import ShareLeaderIdAndEpoch
from brokertwin.state.cluster import group_configs
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.logs import log as logs
from brokertwin.state.logs.aborted_transactions import TransactionOffsets, offsets_in
from brokertwin.state.logs.log import Log
from brokertwin.state.share import share_partitions
from brokertwin.state.share.acquisition import Acquisition
from brokertwin.state.share.in_flight import RecordState
from brokertwin.state.share.share_partition import (
    Acquired,
    AcquireRequest,
    LogBatch,
    ShareLimits,
    SharePartition,
    ShareStatus,
)
from brokertwin.state.share.share_sessions import TopicPartitionId

RECORD_LIMIT = 1
"""The acquire mode with a hard limit of records."""

ALL_BYTES = 2**31 - 1


class ShareRead(msgspec.Struct, array_like=True):
    """Parameters of a fetch; `places` are in reading order."""

    group_id: str
    member_id: str
    places: list[TopicPartitionId]
    min_bytes: int
    max_bytes: int
    max_records: int
    batch_size: int
    mode: int


PartitionResponses = dict[TopicPartitionId, ShareFetchResponsePartitionData]


class _ReadablePartition(msgspec.Struct):
    """A partition with acquirable records and the position to read."""

    place: TopicPartitionId
    share: SharePartition
    log: Log
    offset: int
    end: int
    max_bytes: int

    @property
    def is_out_of_range(self) -> bool:
        """True if the log does not contain the offset."""
        return not self.log.log_start_offset <= self.offset <= self.log.log_end_offset


def error_response(
    broker: Broker, place: TopicPartitionId, error: Error
) -> ShareFetchResponsePartitionData:
    response = ShareFetchResponsePartitionData(partition_index=place[1], error_code=int(error))
    topic = broker.topic_by_id(place[0])
    if error is Error.NOT_LEADER_OR_FOLLOWER and topic is not None:
        partition = topic.partitions[place[1]]
        response.current_leader = ShareLeaderIdAndEpoch(
            leader_id=partition.leader, leader_epoch=partition.leader_epoch
        )
    return response


def is_ready(broker: Broker, read: ShareRead) -> bool:
    """True if a fetch can complete.

    Otherwise the log positions of the partitions are known from then on.
    """
    readable = _acquirable(broker, read)
    is_enough = _is_enough(broker, read, readable)
    if not is_enough:
        _remember_offsets(readable)
    return is_enough


def _is_enough(broker: Broker, read: ShareRead, readable: list[_ReadablePartition]) -> bool:
    if any(broker.topic_by_id(topic_id) is None for topic_id, _ in read.places):
        return True
    if not readable:
        return False
    if any(each.is_out_of_range or each.offset > each.end for each in readable):
        return True
    sizes = (
        min(logs.bytes_between(broker, each.log, each.offset, each.end), each.max_bytes)
        for each in readable
    )
    return sum(sizes) >= read.min_bytes


def acquire(broker: Broker, read: ShareRead, is_late: bool) -> PartitionResponses:
    """Read and acquire records, and return responses in reading order.

    Partitions with a known log position come first, then those whose next fetch offset has changed
    since the position was looked up. For the latter, Kafka has read the data during the lookup and
    appends it to the rest (`DelayedShareFetch.combineLogReadResponse`). A request after its max
    wait (`is_late`) does not look up positions. Share partitions that failed to load return their
    error and are removed.
    """
    responses: PartitionResponses = {}
    limits = share_partitions.limits_of(broker, read.group_id)
    count, room = 0, read.max_bytes
    acquirable = _acquirable(broker, read)
    if not is_late:
        acquirable.sort(key=lambda each: each.share.found_offset != each.offset)
        _remember_offsets(acquirable)
    for each in acquirable:
        response = ShareFetchResponsePartitionData(partition_index=each.place[1])
        responses[each.place] = response
        if each.is_out_of_range:
            each.share.advance_to_log_start(each.log.log_start_offset)
            continue
        is_first = room == read.max_bytes
        max_bytes = min(room, each.max_bytes)
        data = logs.read(broker, each.log, each.offset, each.end, max_bytes, is_first)
        room = max(0, room - data.size_in_bytes)
        acquired = _acquire(broker, read, each, data, limits, read.max_records - count)
        count += sum(one.last - one.first + 1 for one in acquired)
        share_partitions.set_timer(broker, (read.group_id, *each.place))
        if acquired:
            _put_records(response, each, data, acquired)
    for place in read.places:
        share = share_partitions.find(broker, (read.group_id, *place))
        if share is not None and share.status == ShareStatus.FAILED:
            responses[place] = error_response(broker, place, Error(share.error))
            share_partitions.forget(broker, (read.group_id, *place))
        elif share is None and place not in responses and not _is_led_elsewhere(broker, place):
            is_deleted = broker.topic_by_id(place[0]) is None
            error = Error.UNKNOWN_TOPIC_OR_PARTITION if is_deleted else Error.NONE
            responses[place] = error_response(broker, place, error)
    return responses


def _remember_offsets(readable: list[_ReadablePartition]) -> None:
    for each in readable:
        each.share.found_offset = each.offset


def _is_led_elsewhere(broker: Broker, place: TopicPartitionId) -> bool:
    """True if another broker leads now.

    The partition is then omitted, and the next fetch of it fails.
    """
    topic = broker.topic_by_id(place[0])
    return topic is not None and topic.partitions[place[1]].leader != broker.id


def _acquirable(broker: Broker, read: ShareRead) -> list[_ReadablePartition]:
    limits = share_partitions.limits_of(broker, read.group_id)
    isolation = group_configs.share_isolation(broker, read.group_id)
    readable = []
    for place in read.places:
        share = share_partitions.find(broker, (read.group_id, *place))
        log = broker.log(*place)
        if share is None or log is None or share.status != ShareStatus.ACTIVE:
            continue
        if share.can_acquire(limits):
            end = log.readable_end(isolation)
            readable.append(
                _ReadablePartition(place, share, log, share.next_fetch_offset(), end, 0)
            )
    for number, each in enumerate(readable):
        rest = 1 if number < read.max_bytes % len(readable) else 0
        each.max_bytes = read.max_bytes // len(readable) + rest
    return readable


def _acquire(
    broker: Broker,
    read: ShareRead,
    source: _ReadablePartition,
    data: logs.Slice,
    limits: ShareLimits,
    records: int,
) -> list[Acquired]:
    batches = [LogBatch(each.base_offset, each.last_offset) for each in data.batches]
    if data.segment is not None:
        batches = [
            LogBatch(data.segment.base_offset, min(data.segment.last_offset, source.end - 1))
        ]
    if not batches:
        return []
    is_limit = read.mode == RECORD_LIMIT
    request = AcquireRequest(read.member_id, records, read.batch_size, is_limit)
    locked_until = broker.now + limits.lock_ms
    acquired = Acquisition(
        source.share, request, limits, batches, source.offset, locked_until
    ).acquire()
    if group_configs.share_isolation(broker, read.group_id) != logs.READ_COMMITTED:
        return acquired
    for each in _aborted(broker, source, data):
        end = each.last_offset + 1
        state = RecordState.ACQUIRED
        source.share.done_count += source.share.archive(each.first_offset, end, state)
        acquired = [part for one in acquired for part in _without(one, each.first_offset, end)]
    return acquired


def _aborted(
    broker: Broker, source: _ReadablePartition, data: logs.Slice
) -> list[TransactionOffsets]:
    aborted = logs.aborted_in(broker, source.log, source.offset, data)
    if not aborted:
        return []
    in_index = offsets_in(data.batches)
    written = data.segment.uncommitted if data.segment is not None else in_index
    return [each for each in written if any(map(each.is_of, aborted))]


def _without(each: Acquired, first: int, end: int) -> list[Acquired]:
    """Return acquired records without these offsets."""
    before = Acquired(each.first, min(each.last, first - 1), each.delivery_count)
    after = Acquired(max(each.first, end), each.last, each.delivery_count)
    return [part for part in (before, after) if part.first <= part.last]


def _put_records(
    response: ShareFetchResponsePartitionData,
    source: _ReadablePartition,
    data: logs.Slice,
    acquired: list[Acquired],
) -> None:
    """Add acquired records and the log batches that contain them."""
    response.acquired_records = [
        AcquiredRecords(
            first_offset=each.first, last_offset=each.last, delivery_count=each.delivery_count
        )
        for each in acquired
    ]
    first, last = acquired[0].first, acquired[-1].last
    if data.segment is not None:
        response.records_size_in_bytes = data.size_in_bytes
        base = data.segment.base_offset
        response.sealed = SealedRead(source.place[0], base, first, last + 1, ALL_BYTES)
        return
    shown = [each for each in data.batches if each.last_offset >= first]
    shown = [each for each in shown if each.base_offset <= last]
    response.batches = [each.header() for each in shown]
    response.records_size_in_bytes = sum(each.size_in_bytes for each in shown)
