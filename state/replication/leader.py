"""What a leader knows of its followers, and what follows: the high watermark and the in-sync set.

Source: seed 004; `Partition`, `Replica` in Kafka. A follower's fetch at offset f proves that it has
all below f. At time t, while the leader's log ends at L, it says of the follower:

    log end offset          f
    last caught up          f >= L: t; else f >= L at the fetch before: the time of that fetch;
                            else as before (it never goes back)

The *high watermark* is the least log end offset of the leader and of every replica of the maximal
in-sync set; a replica outside counts, too, if it is caught up and may join. It does not move while
the in-sync set is smaller than min.insync.replicas, and it never goes back on a leader.

A replica joins the in-sync set when it has reached the high watermark and the start of the leader's
epoch. It leaves when its log ends elsewhere than the leader's and it was not caught up for more
than replica.lag.time.max.ms. The controller has the last word (AlterPartition): until it answers,
the change is *pending*, one at a time. The *maximal* in-sync set has a replica that is joining and
still one that is leaving; it counts for the high watermark, not for min.insync.replicas.

All times are ms since 1970.
"""

from collections.abc import Callable
from enum import Enum

import msgspec

from brokertwin.state.core.errors import Error

UNKNOWN = -1
"""The log end offset of a replica that has not fetched from this leader yet."""


class Replica(msgspec.Struct, array_like=True):
    """A follower as its leader knows it; -1 where it has not fetched yet.

    `waits` while its last fetch lies at the leader: all was read, it is answered when there is
    more. So does one that is behind and `is_held` back by a throttle. `told_high_watermark` is what
    the leader's last answer said.
    """

    log_end_offset: int = UNKNOWN
    log_start_offset: int = UNKNOWN
    last_fetch_time: int = 0
    last_fetch_leader_end: int = 0
    last_caught_up: int = 0
    waits: bool = False
    told_high_watermark: int = UNKNOWN
    is_held: bool = False

    def is_caught_up(self, end: int, now: int, lag_time_max_ms: int) -> bool:
        """Whether it has all, or has had all not too long ago."""
        return self.log_end_offset == end or now - self.last_caught_up <= lag_time_max_ms


class Leadership(msgspec.Struct):
    """A partition with followers on the broker that leads it.

    `isr` and `partition_epoch` are the last that the controller has confirmed; `pending` is the
    in-sync set that it was asked for.
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
        """The in-sync replicas, with the one that joins and the one that leaves."""
        return frozenset(self.isr) | frozenset(self.pending or ())


class AlterPartitionOutcome(Enum):
    """What an answer to AlterPartition leaves behind."""

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


def begin(leadership: Leadership, former: Leadership | None, end: int, now: int) -> None:
    """Begins a leader epoch at the end of the log: `leadership` has the replicas, all unknown.

    A broker that has led before keeps what it knows of them; then `former` is what that was.
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


def fetched(replica: Replica, offset: int, log_start_offset: int, end: int, now: int) -> None:
    """Notes a follower's fetch at `offset`, read while the leader's log ended at `end`."""
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
    """Up to where all replicas that count have the log; None while too few are in sync."""
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
    """Whether a follower has what it takes to join; whether it is alive is not looked at."""
    offset = leadership.replicas[broker].log_end_offset
    return (
        leadership.pending is None
        and broker not in leadership.isr
        and offset >= max(high_watermark_now, leadership.epoch_start_offset)
    )


def out_of_sync(
    leadership: Leadership, end: int, now: int, lag_time_max_ms: int, by_time_only: bool = False
) -> list[int]:
    """Who has to leave; nobody while a change is pending.

    `by_time_only` is the rule of Kafka 0.10 (`brokertwin.isr.by.time.only`): there, a replica
    that has all but is silent leaves. One whose fetch waits is not silent.
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
    return replica.log_end_offset != end or (by_time_only and not replica.waits)


def is_anyone_behind(leadership: Leadership, end: int, by_time_only: bool = False) -> bool:
    """Whether an in-sync replica does not have all, or is silent: it may have to leave one day.

    Nobody has while a change is pending, unless that has to be asked for again.
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
    """Takes the controller's answer; with an error the other fields say nothing."""
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
    """The in-sync set is what the controller says; nothing is pending any more."""
    leadership.isr = list(isr)
    leadership.partition_epoch = partition_epoch
    leadership.pending = None
    leadership.retries = False
