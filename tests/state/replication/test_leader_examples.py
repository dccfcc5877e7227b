"""Worked examples for leaders: in-sync set and high watermark."""

from collections.abc import Callable

from brokertwin.protocol.errors import Error
from brokertwin.state.replication import leader
from brokertwin.state.replication.leader import AlterPartitionOutcome, Leadership, Replica

T0 = 1_700_000_000_000
LAG_MS = 10_000


def leading(isr: list[int], *followers: int, end: int = 0, now: int = T0) -> Leadership:
    """Broker 1 starts to lead a log that ends at `end`."""
    replicas = {each: Replica() for each in followers}
    leadership = Leadership(1, 5, end, isr, 1, replicas)
    leader.begin_epoch(leadership, None, end, now)
    return leadership


def fetch(leadership: Leadership, broker: int, offset: int, end: int, now: int = T0) -> None:
    leader.update_follower(leadership.replicas[broker], offset, 0, end, now)


def watermark(
    leadership: Leadership,
    end: int,
    min_in_sync: int = 1,
    now: int = T0,
    may_join: Callable[[int], bool] = lambda _broker: True,
) -> int | None:
    return leader.high_watermark(leadership, end, min_in_sync, now, LAG_MS, may_join)


def test_example_5_high_watermark_does_not_move_below_min_in_sync() -> None:
    leadership = leading([1, 2], 2)
    fetch(leadership, 2, 10, end=10)
    assert watermark(leadership, 10, min_in_sync=2) == 10
    leader.set_isr(leadership, 2, [1])
    assert watermark(leadership, 20, min_in_sync=2) is None
    far_behind = T0 + LAG_MS + 1
    assert watermark(leadership, 20, min_in_sync=1, now=far_behind) == 20, "the seed's rule"


def test_example_8_caught_up_at_the_fetch_that_reached_the_end() -> None:
    leadership = leading([1, 2], 2, end=6)
    fetch(leadership, 2, 3, end=6, now=T0 + 500)
    replica = leadership.replicas[2]
    assert (replica.log_end_offset, replica.last_caught_up) == (3, T0)
    fetch(leadership, 2, 6, end=6, now=T0 + 1000)
    assert (replica.log_end_offset, replica.last_caught_up) == (6, T0 + 1000)


def test_example_9_caught_up_at_the_fetch_before() -> None:
    leadership = leading([1, 2], 2, end=10)
    fetch(leadership, 2, 5, end=10, now=T0 + 5000)
    assert watermark(leadership, 10) == 5
    fetch(leadership, 2, 10, end=15, now=T0 + 10_001)
    replica = leadership.replicas[2]
    assert (replica.log_end_offset, replica.last_caught_up) == (10, T0 + 5000)
    assert watermark(leadership, 15) == 10
    assert leader.out_of_sync(leadership, 15, T0 + 10_001, LAG_MS) == []


def test_example_10_caught_up_replica_may_be_idle() -> None:
    leadership = leading([1, 2], 2, end=10)
    fetch(leadership, 2, 10, end=10)
    late = T0 + 30_001
    assert leader.out_of_sync(leadership, 10, late, 30_000) == []
    assert leader.out_of_sync(leadership, 10, late, 30_000, by_time_only=True) == [2]
    assert leader.out_of_sync(leadership, 11, late, 30_000) == [2]
    assert leader.out_of_sync(leadership, 11, late - 1, 30_000) == [], "longer than, not as long as"


def test_example_11_replica_at_the_start_of_the_epoch_may_join() -> None:
    leadership = leading([1], 2, end=10)
    fetch(leadership, 2, 3, end=10)
    assert not leader.may_expand(leadership, 2, 0), "3 is before the start of the epoch"
    fetch(leadership, 2, 10, end=10)
    assert leader.may_expand(leadership, 2, 0)
    leadership.pending = [1, 2]
    assert leadership.maximal_isr == {1, 2}
    assert not leader.may_expand(leadership, 2, 0), "one change at a time"
    stale = leader.handle_alter_partition(leadership, Error.INVALID_UPDATE_VERSION, -1, -1, [])
    assert (stale, leadership.pending) == (AlterPartitionOutcome.PENDING, [1, 2])
    assert (
        leader.handle_alter_partition(leadership, Error.NONE, 5, 2, [1, 2])
        is AlterPartitionOutcome.COMMITTED
    )
    assert (leadership.isr, leadership.partition_epoch) == ([1, 2], 2)
    assert leadership.pending is None


def test_example_12_joining_replica_counts_for_the_high_watermark() -> None:
    leadership = leading([1], 2)
    fetch(leadership, 2, 4, end=10)
    leadership.pending = [1, 2]
    assert watermark(leadership, 10, now=T0 + LAG_MS + 1) == 4
    fetch(leadership, 2, 10, end=10)
    assert watermark(leadership, 10) == 10


def test_example_13_joining_replica_does_not_count_for_min_in_sync() -> None:
    leadership = leading([1, 2], 2, 3)
    fetch(leadership, 2, 10, end=10)
    fetch(leadership, 3, 10, end=10)
    leadership.pending = [1, 2, 3]
    assert watermark(leadership, 10, min_in_sync=3) is None
    leader.handle_alter_partition(leadership, Error.NONE, 5, 2, [1, 2, 3])
    assert watermark(leadership, 10, min_in_sync=3) == 10


def test_example_14_removed_replica_does_not_hold_the_high_watermark() -> None:
    leadership = leading([1, 2, 3], 2, 3)
    fetch(leadership, 2, 7, end=10)
    fetch(leadership, 3, 4, end=10)
    late = T0 + LAG_MS + 1
    assert watermark(leadership, 10, now=late) == 4
    leadership.pending = [1, 2]
    assert watermark(leadership, 10, now=late) == 4, "it counts until the controller has agreed"
    leader.handle_alter_partition(leadership, Error.NONE, 5, 2, [1, 2])
    assert watermark(leadership, 10, now=late) == 7
    assert watermark(leadership, 10) == 4, "it was caught up recently, so it may join again"
    assert watermark(leadership, 10, may_join=lambda _broker: False) == 7, "not if it is fenced"


def test_replica_without_a_fetch_holds_the_high_watermark() -> None:
    assert watermark(leading([1, 2], 2, end=10), 10) == leader.UNKNOWN


def test_leader_keeps_its_view_in_a_new_epoch() -> None:
    former = leading([1, 2], 2, 3)
    fetch(former, 2, 7, end=10)
    again = Leadership(1, 6, 10, [1, 2], 2, {2: Replica(), 3: Replica()})
    leader.begin_epoch(again, former, 10, T0 + 50)
    assert again.replicas[2] == Replica(7, 0, T0 + 50, 10, T0 + 50)
    assert again.replicas[3] == Replica(-1, -1, 0, 10, 0)


def test_errors_of_the_controller() -> None:
    for error, left in (
        (Error.OPERATION_NOT_ATTEMPTED, AlterPartitionOutcome.RESET),
        (Error.INELIGIBLE_REPLICA, AlterPartitionOutcome.RESET),
        (Error.UNKNOWN_TOPIC_OR_PARTITION, AlterPartitionOutcome.PENDING),
        (Error.UNKNOWN_TOPIC_ID, AlterPartitionOutcome.PENDING),
        (Error.FENCED_LEADER_EPOCH, AlterPartitionOutcome.PENDING),
        (Error.INVALID_UPDATE_VERSION, AlterPartitionOutcome.PENDING),
        (Error.INVALID_REQUEST, AlterPartitionOutcome.PENDING),
        (Error.NEW_LEADER_ELECTED, AlterPartitionOutcome.PENDING),
        (Error.STALE_BROKER_EPOCH, AlterPartitionOutcome.RETRY),
        (Error.NOT_CONTROLLER, AlterPartitionOutcome.RETRY),
    ):
        leadership = leading([1], 2)
        leadership.pending = [1, 2]
        assert leader.handle_alter_partition(leadership, error, -1, -1, []) is left, error
        assert leadership.pending == (None if left is AlterPartitionOutcome.RESET else [1, 2])


def test_stale_response_changes_nothing() -> None:
    leadership = leading([1], 2)
    leadership.pending = [1, 2]
    for leader_epoch, partition_epoch in ((4, 2), (6, 2), (5, 0)):
        outcome = leader.handle_alter_partition(
            leadership, Error.NONE, leader_epoch, partition_epoch, [1, 2]
        )
        assert (outcome, leadership.isr) == (AlterPartitionOutcome.PENDING, [1])
