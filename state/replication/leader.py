"""A leader's view of its followers: the high watermark and the in-sync set.

Source: seed 004; `Partition`, `Replica` in Kafka. A follower's fetch at offset f shows that it has
all records below f. At time t, while the leader's log ends at L, the fetch updates

    log end offset          f
    last caught up          f >= L: t
                            f >= L at the fetch before: the time of that fetch
                            otherwise unchanged (it never goes back)

The *high watermark* is the least log end offset of the leader and all replicas of the maximal
in-sync set, and of a replica outside it that is caught up and may join. It does not move while the
in-sync set is smaller than min.insync.replicas, and never goes back on a leader.

A replica joins the in-sync set at the high watermark, if that is past the start of the leader
epoch. It is removed if its log end differs from the leader's and it was not caught up for more than
replica.lag.time.max.ms. The controller decides (AlterPartition): until its response the change is
*pending*, one at a time. The *maximal* in-sync set includes a pending replica that joins, and still
one that leaves. It counts for the high watermark, not for min.insync.replicas.

All times are ms since 1970.
"""

from collections.abc import Callable
from enum import Enum

import msgspec

from brokertwin.protocol.errors import Error

UNKNOWN = -1
"""Log end offset of a replica that has not fetched from this leader yet."""


class Replica(msgspec.Struct, array_like=True):
    """A leader's view of a follower; offsets are -1 before its first fetch.

    With a pending fetch it has read everything, or `is_held` by a throttle.
    `sent_high_watermark` is that of the last response.
    """

    log_end_offset: int = UNKNOWN
    log_start_offset: int = UNKNOWN
    last_fetch_time: int = 0
    last_fetch_leader_end: int = 0
    last_caught_up: int = 0
    has_pending_fetch: bool = False
    sent_high_watermark: int = UNKNOWN
    is_held: bool = False

    def is_caught_up(self, end: int, now: int, lag_time_max_ms: int) -> bool:
        """True if the follower has all records, or had them recently."""
        return self.log_end_offset == end or now - self.last_caught_up <= lag_time_max_ms


class Leadership(msgspec.Struct):
    """A replicated partition on its leader.

    `isr` and `partition_epoch` are the controller's last; `pending` is the requested in-sync set;
    `retries` if that request failed for now.
    """

    leader: int
    leader_epoch: int
    epoch_start_offset: int
    isr: list[int]
    partition_epoch: int
    replicas: dict[int, Replica]
    pending: list[int] | None = None
    retries: bool = False

    @property
    def maximal_isr(self) -> frozenset[int]:
        """In-sync replicas, with pending ones that join and leave."""
        return frozenset(self.isr) | frozenset(self.pending or ())


class AlterPartitionOutcome(Enum):
    """Effect of a response to AlterPartition."""

    COMMITTED = "committed"
    RESET = "reset"
    PENDING = "pending"
    RETRY = "retry"


_RESETS = frozenset({Error.OPERATION_NOT_ATTEMPTED, Error.INELIGIBLE_REPLICA})
_WAITS_FOR_METADATA = frozenset(
    {
        Error.UNKNOWN_TOPIC_OR_PARTITION,
        Error.UNKNOWN_TOPIC_ID,
        Error.FENCED_LEADER_EPOCH,
        Error.INVALID_UPDATE_VERSION,
        Error.INVALID_REQUEST,
        Error.NEW_LEADER_ELECTED,
    }
)


def begin_epoch(leadership: Leadership, former: Leadership | None, end: int, now: int) -> None:
    """Start a leader epoch at the log end; `leadership` has the replicas without state.

    A broker that led before keeps the state of its replicas from `former`.
    """
    leadership.epoch_start_offset = end
    for broker, replica in leadership.replicas.items():
        caught_up = now if broker in leadership.isr else 0
        known = former.replicas.get(broker) if former is not None else None
        replica.last_caught_up = caught_up
        if known is not None:
            replica.log_end_offset = known.log_end_offset
            replica.log_start_offset = known.log_start_offset
            replica.last_fetch_leader_end = end
            replica.last_fetch_time = caught_up


def update_follower(
    replica: Replica, offset: int, log_start_offset: int, end: int, now: int
) -> None:
    """Update a follower after its fetch at `offset`; `end` is the leader's log end then."""
    if offset >= end:
        replica.last_caught_up = max(replica.last_caught_up, now)
    elif offset >= replica.last_fetch_leader_end:
        replica.last_caught_up = max(replica.last_caught_up, replica.last_fetch_time)
    replica.log_end_offset = offset
    replica.log_start_offset = log_start_offset
    replica.last_fetch_leader_end = max(end, replica.last_fetch_leader_end)
    replica.last_fetch_time = now


def high_watermark(
    leadership: Leadership,
    end: int,
    min_in_sync: int,
    now: int,
    lag_time_max_ms: int,
    may_join: Callable[[int], bool],
) -> int | None:
    """Return the high watermark: the end offset that all counted replicas have reached.

    Source: `Partition.maybeIncrementLeaderHW` in Kafka. The caller checks that it rises.
    Counted are the maximal ISR and caught-up replicas that may join it. None if the ISR is below
    `min_in_sync`.
    """
    if len(leadership.isr) < min_in_sync:
        return None
    maximal = leadership.maximal_isr
    return min(
        (
            replica.log_end_offset
            for broker, replica in leadership.replicas.items()
            if broker in maximal
            or (replica.is_caught_up(end, now, lag_time_max_ms) and may_join(broker))
        ),
        default=end,
    )


def may_expand(leadership: Leadership, broker: int, high_watermark_now: int) -> bool:
    """True if a follower's log is long enough to join; it may still be fenced."""
    offset = leadership.replicas[broker].log_end_offset
    return (
        leadership.pending is None
        and broker not in leadership.isr
        and offset >= max(high_watermark_now, leadership.epoch_start_offset)
    )


def out_of_sync(
    leadership: Leadership, end: int, now: int, lag_time_max_ms: int, by_time_only: bool = False
) -> list[int]:
    """Replicas to remove from the in-sync set; none while a change is pending.

    `by_time_only` is the rule of Kafka 0.10 (`brokertwin.isr.by.time.only`): replicas that have
    everything are removed, too, if they did not fetch. A pending fetch counts as one.
    """
    if leadership.pending is not None:
        return []
    return [
        broker
        for broker in leadership.isr
        if broker != leadership.leader
        and _is_behind(leadership.replicas[broker], end, by_time_only)
        and now - leadership.replicas[broker].last_caught_up > lag_time_max_ms
    ]


def _is_behind(replica: Replica, end: int, by_time_only: bool) -> bool:
    return replica.log_end_offset != end or (by_time_only and not replica.has_pending_fetch)


def has_lagging_replica(leadership: Leadership, end: int, by_time_only: bool = False) -> bool:
    """True if an in-sync replica is behind or did not fetch, so that it may be removed later.

    While a change is pending: true if it must be sent again.
    """
    if leadership.pending is not None:
        return leadership.retries
    return any(
        _is_behind(leadership.replicas[broker], end, by_time_only)
        for broker in leadership.isr
        if broker != leadership.leader
    )


def handle_alter_partition(
    leadership: Leadership, error: Error, leader_epoch: int, partition_epoch: int, isr: list[int]
) -> AlterPartitionOutcome:
    """Handle the controller's response; after an error only the error counts."""
    if error in _RESETS:
        leadership.pending = None
        return AlterPartitionOutcome.RESET
    if error in _WAITS_FOR_METADATA:
        return AlterPartitionOutcome.PENDING
    if error is not Error.NONE:
        leadership.retries = True
        return AlterPartitionOutcome.RETRY
    is_stale = partition_epoch < leadership.partition_epoch
    if leader_epoch != leadership.leader_epoch or is_stale:
        return AlterPartitionOutcome.PENDING
    set_isr(leadership, partition_epoch, isr)
    return AlterPartitionOutcome.COMMITTED


def set_isr(leadership: Leadership, partition_epoch: int, isr: list[int]) -> None:
    """Take the controller's in-sync set; no change is pending then."""
    leadership.isr = list(isr)
    leadership.partition_epoch = partition_epoch
    leadership.pending = None
    leadership.retries = False
