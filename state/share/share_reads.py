"""A fetch of a share group reads logs and acquires what it finds (`DelayedShareFetch`).

It looks at partitions of which something can be acquired. Where they have `min_bytes`, or one of
them cannot be read, or the wait is over, the records are acquired and there is an answer.
"""

import msgspec

from brokertwin.state.cluster import group_configs
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.errors import Error
from brokertwin.state.logs import log as logs
from brokertwin.state.logs.aborted_transactions import TransactionOffsets, offsets_in
from brokertwin.state.logs.log import Log
from brokertwin.state.share import share_partitions
from brokertwin.state.share.acquisition import Acquisition
from brokertwin.state.share.fetch_bodies import (
    AcquiredRecords,
    AnsweredPartition,
    Leader,
    SealedBatches,
)
from brokertwin.state.share.in_flight import RecordState
from brokertwin.state.share.share_partition import (
    Acquired,
    Limits,
    Run,
    SharePartition,
    Status,
    Wish,
)
from brokertwin.state.share.share_sessions import Place

RECORD_LIMIT = 1
"""The acquire mode in which a member gets no record more than it asked for."""

ALL_BYTES = 2**31 - 1


class ShareRead(msgspec.Struct, array_like=True):
    """What a member asks of partitions, in the order in which they are read."""

    group_id: str
    member_id: str
    places: list[Place]
    min_bytes: int
    max_bytes: int
    max_records: int
    batch_size: int
    mode: int


Answers = dict[Place, AnsweredPartition]


class _Found(msgspec.Struct):
    """A partition of which something can be acquired, and where it is read."""

    place: Place
    share: SharePartition
    log: Log
    offset: int
    end: int
    max_bytes: int

    @property
    def is_out_of_range(self) -> bool:
        """Whether the log has no such offset (any more)."""
        return not self.log.log_start_offset <= self.offset <= self.log.log_end_offset


def failed(broker: Broker, place: Place, error: Error) -> AnsweredPartition:
    """A partition that is refused, with its leader where somebody else leads it."""
    answer = AnsweredPartition(partition_index=place[1], error_code=int(error))
    topic = broker.topic_by_id(place[0])
    if error is Error.NOT_LEADER_OR_FOLLOWER and topic is not None:
        partition = topic.partitions[place[1]]
        answer.current_leader = Leader(partition.leader, partition.leader_epoch)
    return answer


def is_ready(broker: Broker, read: ShareRead) -> bool:
    """Whether there is enough to acquire, or something that cannot be read.

    Where there is not, the places of what is read next are known from then on.
    """
    found = _acquirable(broker, read)
    is_enough = _is_enough(broker, read, found)
    if not is_enough:
        _find_places(found)
    return is_enough


def _is_enough(broker: Broker, read: ShareRead, found: list[_Found]) -> bool:
    if any(broker.topic_by_id(topic_id) is None for topic_id, _ in read.places):
        return True
    if not found:
        return False
    if any(each.is_out_of_range or each.offset > each.end for each in found):
        return True
    table = broker.tables.logs
    sizes = (
        min(logs.bytes_between(table, broker.id, each.log, each.offset, each.end), each.max_bytes)
        for each in found
    )
    return sum(sizes) >= read.min_bytes


def acquire(broker: Broker, read: ShareRead, is_late: bool) -> Answers:
    """Reads, and acquires for the member what it finds; by partition, in the order of reading.

    First come partitions whose place in the log is known, behind them those of which something was
    acquired, or given back, since: Kafka has looked their places up beforehand, and puts what it
    has read by that last (`DelayedShareFetch.combineLogReadResponse`). A request that is late, at
    the end of its max wait, does not look beforehand. Share partitions that could not be loaded
    are told of, and forgotten.
    """
    answers: Answers = {}
    limits = share_partitions.limits_of(broker, read.group_id)
    count = room = 0
    room = read.max_bytes
    acquirable = _acquirable(broker, read)
    if not is_late:
        acquirable.sort(key=lambda each: each.share.found_offset != each.offset)
        _find_places(acquirable)
    for each in acquirable:
        answer = AnsweredPartition(partition_index=each.place[1])
        answers[each.place] = answer
        if each.is_out_of_range:
            each.share.cut(each.log.log_start_offset)
            continue
        is_first = room == read.max_bytes
        max_bytes = min(room, each.max_bytes)
        found = logs.read(
            broker.tables.logs, broker.id, each.log, each.offset, each.end, max_bytes, is_first
        )
        room = max(0, room - found.size_in_bytes)
        got = _acquire(broker, read, each, found, limits, read.max_records - count)
        count += sum(one.last - one.first + 1 for one in got)
        share_partitions.set_timer(broker, (read.group_id, *each.place))
        if got:
            _put_records(answer, each, found, got)
    for place in read.places:
        share = share_partitions.find(broker, (read.group_id, *place))
        if share is not None and share.status == Status.FAILED:
            answers[place] = failed(broker, place, Error(share.error))
            share_partitions.forget(broker, (read.group_id, *place))
        elif share is None and place not in answers and not _is_led_elsewhere(broker, place):
            is_gone = broker.topic_by_id(place[0]) is None
            error = Error.UNKNOWN_TOPIC_OR_PARTITION if is_gone else Error.NONE
            answers[place] = failed(broker, place, error)
    return answers


def _find_places(found: list[_Found]) -> None:
    for each in found:
        each.share.found_offset = each.offset


def _is_led_elsewhere(broker: Broker, place: Place) -> bool:
    """Whether another broker leads it by now: nothing is said of it, the next fetch is refused."""
    topic = broker.topic_by_id(place[0])
    return topic is not None and topic.partitions[place[1]].leader != broker.id


def _acquirable(broker: Broker, read: ShareRead) -> list[_Found]:
    limits = share_partitions.limits_of(broker, read.group_id)
    isolation = group_configs.share_isolation(broker, read.group_id)
    found = []
    for place in read.places:
        share = share_partitions.find(broker, (read.group_id, *place))
        log = broker.log(*place)
        if share is None or log is None or share.status != Status.ACTIVE:
            continue
        if share.can_acquire(limits):
            end = log.readable_end(isolation)
            found.append(_Found(place, share, log, share.next_fetch_offset(), end, 0))
    for number, each in enumerate(found):
        rest = 1 if number < read.max_bytes % len(found) else 0
        each.max_bytes = read.max_bytes // len(found) + rest
    return found


def _acquire(
    broker: Broker, read: ShareRead, at: _Found, found: logs.Slice, limits: Limits, records: int
) -> list[Acquired]:
    """What the member gets of what was read."""
    runs = [Run(each.base_offset, each.last_offset) for each in found.batches]
    if found.segment is not None:
        runs = [Run(found.segment.base_offset, min(found.segment.last_offset, at.end - 1))]
    if not runs:
        return []
    is_limit = read.mode == RECORD_LIMIT
    wish = Wish(read.member_id, records, read.batch_size, is_limit)
    locked_until = broker.now + limits.lock_ms
    got = Acquisition(at.share, wish, limits, runs, at.offset, locked_until).run()
    if group_configs.share_isolation(broker, read.group_id) != logs.READ_COMMITTED:
        return got
    for each in _aborted(broker, at, found):
        end = each.last_offset + 1
        acquired = RecordState.ACQUIRED
        at.share.done_count += at.share.archive(each.first_offset, end, acquired)
        got = [part for one in got for part in _without(one, each.first_offset, end)]
    return got


def _aborted(broker: Broker, at: _Found, found: logs.Slice) -> list[TransactionOffsets]:
    """The records of aborted transactions in what was read."""
    aborted = logs.aborted_in(broker.tables.logs, broker.id, at.log, at.offset, found)
    if not aborted:
        return []
    in_index = offsets_in(found.batches)
    written = found.segment.uncommitted if found.segment is not None else in_index
    return [each for each in written if any(map(each.is_of, aborted))]


def _without(each: Acquired, first: int, end: int) -> list[Acquired]:
    """What is left of acquired records outside of these offsets."""
    before = Acquired(each.first, min(each.last, first - 1), each.delivery_count)
    behind = Acquired(max(each.first, end), each.last, each.delivery_count)
    return [part for part in (before, behind) if part.first <= part.last]


def _put_records(
    answer: AnsweredPartition, at: _Found, found: logs.Slice, got: list[Acquired]
) -> None:
    """The acquired records, and the batches of the log that have them, and those between."""
    answer.acquired_records = [
        AcquiredRecords(each.first, each.last, each.delivery_count) for each in got
    ]
    first, last = got[0].first, got[-1].last
    if found.segment is not None:
        answer.records_size_in_bytes = found.size_in_bytes
        base = found.segment.base_offset
        answer.sealed = SealedBatches(at.place[0], base, first, last + 1, ALL_BYTES)
        return
    shown = [each for each in found.batches if each.last_offset >= first]
    shown = [each for each in shown if each.base_offset <= last]
    answer.batches = [each.header() for each in shown]
    answer.records_size_in_bytes = sum(each.size_in_bytes for each in shown)
