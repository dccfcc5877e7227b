"""What members do with the records of a partition, step by step and in any order.

What a real broker answers is in the capture `share_fetch`.
"""

import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokertwin.state.core.errors import Error
from brokertwin.state.core.wire.generated.shared import StateBatch
from brokertwin.state.share.acquisition import Acquisition
from brokertwin.state.share.in_flight import TERMINAL, RecordState
from brokertwin.state.share.share_partition import (
    ACCEPT,
    GAP,
    REJECT,
    RELEASE,
    RENEW,
    Acknowledgement,
    Limits,
    Run,
    SharePartition,
    Wish,
)
from brokertwin.state.share.state_store import Fault

LOCK_MS = 1_000
LOG = [Run(0, 2), Run(3, 4), Run(5, 9), Run(10, 13)]
LIMITS = Limits(lock_ms=LOCK_MS, records=200, deliveries=5)


class Partition:
    """A share partition, its log, and the clock; a share coordinator answers when it is told to."""

    def __init__(self, limits: Limits = LIMITS, told: list[StateBatch] | None = None) -> None:
        self.share = SharePartition("g", "t", 0, 0)
        self.share.load(1, 0, told or [])
        self.limits, self.now = limits, 0
        self.unanswered: list[list[StateBatch]] = []

    def fetch(self, member: str, records: int = 500, size: int = 500, exact: bool = False) -> Any:
        """What a member gets: first and last offset, and the delivery count."""
        if not self.share.can_acquire(self.limits):
            return []
        offset = self.share.next_fetch_offset()
        runs = [run for run in LOG if run.last >= offset]
        if not runs:
            return []
        wish = Wish(member, records, size, exact)
        locked_until = self.now + self.limits.lock_ms
        got = Acquisition(self.share, wish, self.limits, runs, offset, locked_until).run()
        return [(each.first, each.last, each.delivery_count) for each in got]

    def say(self, member: str, first: int, last: int, *types: int) -> Error:
        """Acknowledges; a share coordinator has yet to answer."""
        given_now = [Acknowledgement(first, last, types)]
        told = self.share.acknowledge(member, given_now, self.limits, self.now)
        if isinstance(told, Fault):
            return told.error
        self.unanswered.append(told)
        return Error.NONE

    def answer(self, is_written: bool = True) -> None:
        """The share coordinator answers what it was told first."""
        if self.unanswered:
            self.share.written(self.unanswered.pop(0), is_written, self.now)

    def states(self) -> dict[int, tuple[RecordState, str, int]]:
        """By offset, of what is in flight: state, member, delivery count."""
        return {
            offset: (RecordState(record.state), record.member_id, record.delivery_count)
            for batch in self.share.batches
            for first, last, record in batch.parts()
            for offset in range(first, last + 1)
        }


def test_what_one_has_nobody_else_gets() -> None:
    partition = Partition()
    assert partition.fetch("a", records=4) == [(0, 4, 1)]
    assert partition.fetch("b") == [(5, 13, 1)]
    assert partition.fetch("a") == []
    assert partition.say("a", 5, 9, ACCEPT) is Error.INVALID_RECORD_STATE


def test_the_start_offset_moves_once_the_share_coordinator_has_it() -> None:
    partition = Partition()
    partition.fetch("a")
    assert partition.say("a", 0, 4, ACCEPT) is Error.NONE
    assert partition.share.start_offset == 0
    partition.answer()
    assert partition.share.start_offset == 5


def test_what_the_share_coordinator_refuses_is_as_before() -> None:
    partition = Partition()
    partition.fetch("a", records=1)
    partition.say("a", 0, 2, ACCEPT)
    partition.answer(is_written=False)
    assert partition.states()[0] == (RecordState.ACQUIRED, "a", 1)
    assert (partition.share.start_offset, partition.share.done_count) == (0, 0)


def test_a_lock_ends_and_the_records_come_again() -> None:
    partition = Partition()
    partition.fetch("a", records=1)
    partition.now = LOCK_MS - 1
    assert partition.share.expire(partition.limits, partition.now) == []
    assert partition.say("a", 0, 0, RENEW) is Error.NONE
    partition.now = LOCK_MS
    told = partition.share.expire(partition.limits, partition.now)
    assert [(each.first_offset, each.delivery_state) for each in told] == [(1, 0), (2, 0)]
    assert partition.fetch("b", records=2) == [(1, 2, 2)]


def test_that_a_lock_was_over_and_is_not_written_says_nothing_of_what_came_after() -> None:
    """As in Kafka: `releaseAcquisitionLockOnTimeout` goes on whatever becomes of its write."""
    partition = Partition()
    partition.fetch("a", records=1)
    partition.now = LOCK_MS
    partition.unanswered.append(partition.share.expire(partition.limits, partition.now))
    assert partition.fetch("b", records=3) == [(0, 2, 2)]
    assert partition.say("b", 0, 2, ACCEPT) is Error.NONE
    partition.answer(is_written=False)
    assert partition.states()[0] == (RecordState.ACKNOWLEDGED, "", 2)
    partition.answer(is_written=True)
    assert partition.share.start_offset == 3


def test_a_record_that_nobody_accepts_is_a_dead_end() -> None:
    """After half of its deliveries it comes in smaller parts, the last time alone."""
    partition = Partition()
    seen = []
    for _ in range(40):
        got = partition.fetch("a", records=1)
        seen.append(got)
        for first, last, _ in got:
            if first > 2:
                return_all = partition.share.release("a", partition.limits)
                partition.share.written(return_all, True, partition.now)
                break
            partition.say("a", first, last, RELEASE)
            partition.answer()
        if partition.share.start_offset > 2:
            break
    assert seen[:3] == [[(0, 2, 1)], [(0, 2, 2)], [(0, 2, 3)]]
    assert [(0, 0, 5)] in seen
    assert partition.share.start_offset == 3


def give_back(partition: Partition, how: str) -> None:
    """Member `a` loses the records 0 to 2, which it has not accepted."""
    if how == "released":
        assert partition.say("a", 0, 2, RELEASE) is Error.NONE
    elif how == "session closed":
        partition.unanswered.append(partition.share.release("a", partition.limits))
    else:
        partition.now += LOCK_MS
        partition.unanswered.append(partition.share.expire(partition.limits, partition.now))
    partition.answer()


@pytest.mark.parametrize("limit", [1, 2])
@pytest.mark.parametrize("how", ["released", "session closed", "lock expired"])
def test_records_are_not_delivered_more_often_than_the_limit(how: str, limit: int) -> None:
    partition = Partition(Limits(LOCK_MS, records=200, deliveries=limit))
    for count in range(1, limit + 1):
        assert partition.fetch("a", records=1, size=1) == [(0, 2, count)]
        give_back(partition, how)
    assert partition.share.start_offset == 3, "the records are archived"
    assert partition.fetch("a", records=1, size=1) == [(3, 4, 1)]


@pytest.mark.parametrize("how", ["released", "session closed", "lock expired"])
def test_single_records_are_not_delivered_more_often_than_the_limit(how: str) -> None:
    partition = Partition(Limits(LOCK_MS, records=200, deliveries=4))
    counts: dict[int, list[int]] = {0: [], 1: [], 2: []}
    while partition.share.start_offset < 3:
        for first, last, count in partition.fetch("a", records=1, size=1):
            for offset in range(first, min(last, 2) + 1):
                counts[offset].append(count)
        if how == "released":
            for offset in range(3):
                partition.say("a", offset, offset, RELEASE)
                partition.answer()
        else:
            give_back(partition, how)
    assert counts == {offset: [1, 2, 3, 4] for offset in range(3)}


def calls_of(work: Callable[[], object]) -> int:
    """Count the calls of Python functions, which unlike seconds are the same in every run."""
    count = 0

    def note(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("size", [1, 10_000], ids=["a batch for each record", "one batch"])
def test_the_cost_of_an_acknowledgement_is_independent_of_the_records_in_flight(size: int) -> None:
    def cost(count: int) -> int:
        limits = Limits(LOCK_MS, records=count, deliveries=5)
        partition = Partition(limits)
        runs = [Run(each, each) for each in range(count)]
        wish = Wish("a", count, size, False)
        Acquisition(partition.share, wish, limits, runs, 0, LOCK_MS).run()
        one_by_one = [Acknowledgement(each, each, (ACCEPT,)) for each in range(count)]

        def work() -> None:
            told = partition.share.acknowledge("a", one_by_one, limits, 0)
            assert not isinstance(told, Fault)
            assert partition.share.written(told, True, 0)

        return calls_of(work)

    assert cost(400) <= 2.5 * cost(200)


def test_only_so_many_records_are_in_flight() -> None:
    partition = Partition(Limits(LOCK_MS, records=4, deliveries=5))
    assert partition.fetch("a") == [(0, 4, 1)]
    assert partition.fetch("b") == []
    partition.say("a", 0, 2, ACCEPT)
    partition.answer()
    assert partition.fetch("b", records=1) == [(5, 9, 1)]


def test_a_record_limit_is_kept_to_the_record() -> None:
    partition = Partition()
    assert partition.fetch("a", records=2, exact=True) == [(0, 1, 1)]
    assert partition.fetch("b", records=2, exact=True) == [(2, 2, 1), (3, 3, 1)]


def test_offsets_that_the_share_coordinator_did_not_tell_of_are_fetched() -> None:
    told = [
        StateBatch(first_offset=3, last_offset=4, delivery_state=2, delivery_count=1),
        StateBatch(first_offset=10, last_offset=13, delivery_state=0, delivery_count=2),
    ]
    partition = Partition(told=told)
    assert partition.share.next_fetch_offset() == 0
    assert partition.fetch("a") == [(0, 2, 1), (5, 9, 1), (10, 13, 3)]


def test_a_batch_ends_with_the_batch_of_the_log_that_reaches_the_size_asked_for() -> None:
    assert Partition().fetch("a", size=3) == [(0, 2, 1), (3, 9, 1), (10, 13, 1)]
    assert Partition().fetch("a", size=4) == [(0, 4, 1), (5, 9, 1), (10, 13, 1)]


def test_behind_the_last_record_that_is_not_done_begins_what_nobody_had() -> None:
    partition = Partition()
    partition.fetch("a", records=1)
    partition.say("a", 0, 1, ACCEPT)
    partition.answer()
    assert (partition.share.start_offset, partition.share.next_fetch_offset()) == (2, 3)


def test_a_single_record_that_is_done_with_lets_the_start_offset_go_on() -> None:
    partition = Partition(
        told=[
            StateBatch(first_offset=0, last_offset=0, delivery_state=2, delivery_count=1),
            StateBatch(first_offset=1, last_offset=4, delivery_state=0, delivery_count=1),
        ]
    )
    assert partition.share.start_offset == 1
    assert partition.fetch("a", records=1) == [(1, 4, 2)]
    partition.say("a", 1, 4, ACCEPT)
    partition.answer()
    assert partition.share.start_offset == 5


@pytest.mark.parametrize(
    ("count", "got"),
    [(4, (0, 9, 5)), (5, (0, 4, 6)), (6, (0, 1, 7)), (7, (0, 0, 8)), (9, (0, 0, 10))],
)
def test_a_batch_comes_in_half_a_quarter_and_single_records_the_more_often_it_came(
    count: int, got: tuple[int, int, int]
) -> None:
    """Ten records, of ten deliveries at most; from half of them on the batch is not trusted."""
    limits = Limits(LOCK_MS, records=200, deliveries=10)
    partition = Partition(
        limits,
        told=[StateBatch(first_offset=0, last_offset=9, delivery_state=0, delivery_count=count)],
    )
    assert partition.fetch("a")[0] == got


def test_what_is_done_is_counted_from_the_start_offset_on() -> None:
    partition = Partition(
        told=[
            StateBatch(first_offset=0, last_offset=2, delivery_state=0, delivery_count=1),
            StateBatch(first_offset=3, last_offset=4, delivery_state=2, delivery_count=1),
        ]
    )
    assert partition.share.done_count == 2
    partition.share.cut(4)
    assert (partition.share.start_offset, partition.share.done_count) == (4, 1)


def test_records_that_the_log_has_no_more_are_not_delivered() -> None:
    partition = Partition()
    partition.fetch("a", records=1)
    partition.say("a", 0, 2, RELEASE)
    partition.answer()
    partition.share.cut(2)
    assert partition.share.start_offset == 2
    assert partition.states()[0][0] is RecordState.ARCHIVED
    assert partition.fetch("b", records=1) == [(2, 2, 2)]


STEPS = st.tuples(
    st.sampled_from(
        ["fetch", "fetch", "say", "say", "answer", "answer", "refuse", "wait", "leave"]
    ),
    st.sampled_from(["a", "b"]),
    st.integers(0, 13),
    st.integers(0, 4),
    st.sampled_from([GAP, ACCEPT, RELEASE, REJECT, RENEW]),
    st.booleans(),
)


@given(st.lists(STEPS, max_size=40))
def test_whatever_members_do(steps: list[Any]) -> None:
    """The start offset and counts ascend; what is done with never comes again; one has a record."""
    partition = Partition(Limits(LOCK_MS, records=200, deliveries=3))
    done: set[int] = set()
    counts: dict[int, int] = {}
    start = 0
    for what, member, first, more, kind, is_exact in steps:
        before = partition.states()
        if what == "fetch":
            for low, high, count in partition.fetch(member, more + 1, more + 1, is_exact):
                for offset in range(low, high + 1):
                    assert before.get(offset, (RecordState.AVAILABLE,))[0] == RecordState.AVAILABLE
                    assert offset not in done, "what is done with came again"
                    assert count == counts.get(offset, 0) + 1 <= 3
                    counts[offset] = count
        elif what == "say":
            partition.say(member, first, min(first + more, 13), kind)
        elif what in ("answer", "refuse"):
            partition.answer(what == "answer")
            if what == "answer" and not partition.unanswered:
                done |= {o for o, state in partition.states().items() if state[0] in TERMINAL}
        elif what == "wait":
            partition.now += LOCK_MS // 2
            partition.share.expire(partition.limits, partition.now)
        else:
            partition.unanswered.append(partition.share.release(member, partition.limits))
        done |= set(range(start, partition.share.start_offset))
        assert partition.share.start_offset >= start
        start = partition.share.start_offset
