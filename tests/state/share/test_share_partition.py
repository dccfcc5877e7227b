"""State machine of a share partition, in steps and random order.

Responses of a real broker are in the capture `share_fetch`.
"""

import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.shared import StateBatch
from brokertwin.state.share.acquisition import Acquisition
from brokertwin.state.share.in_flight import TERMINAL, RecordState
from brokertwin.state.share.share_partition import (
    ACCEPT,
    GAP,
    REJECT,
    RELEASE,
    RENEW,
    AcknowledgedRecords,
    AcquireRequest,
    LogBatch,
    ShareLimits,
    SharePartition,
)
from brokertwin.state.share.state_store import ShareStateError

LOCK_MS = 1_000
LOG = [LogBatch(0, 2), LogBatch(3, 4), LogBatch(5, 9), LogBatch(10, 13)]
LIMITS = ShareLimits(lock_ms=LOCK_MS, records=200, deliveries=5)


class Partition:
    """A share partition, its log, a clock and explicit responses."""

    def __init__(
        self, limits: ShareLimits = LIMITS, result: list[StateBatch] | None = None
    ) -> None:
        self.share = SharePartition("g", "t", 0, 0)
        self.share.load(1, 0, result or [])
        self.limits, self.now = limits, 0
        self.unanswered: list[list[StateBatch]] = []

    def fetch(self, member: str, records: int = 500, size: int = 500, exact: bool = False) -> Any:
        """Return acquired records as first offset, last offset, delivery count."""
        if not self.share.can_acquire(self.limits):
            return []
        offset = self.share.next_fetch_offset()
        runs = [run for run in LOG if run.last >= offset]
        if not runs:
            return []
        wish = AcquireRequest(member, records, size, exact)
        locked_until = self.now + self.limits.lock_ms
        got = Acquisition(self.share, wish, self.limits, runs, offset, locked_until).acquire()
        return [(each.first, each.last, each.delivery_count) for each in got]

    def acknowledge(self, member: str, first: int, last: int, *types: int) -> Error:
        """Acknowledge; the share coordinator's response is pending."""
        given_now = [AcknowledgedRecords(first, last, types)]
        reported = self.share.acknowledge(member, given_now, self.limits, self.now)
        if isinstance(reported, ShareStateError):
            return reported.error
        self.unanswered.append(reported)
        return Error.NONE

    def respond(self, is_written: bool = True) -> None:
        """Deliver the first pending response of the share coordinator."""
        if self.unanswered:
            self.share.complete_write(self.unanswered.pop(0), is_written, self.now)

    def states(self) -> dict[int, tuple[RecordState, str, int]]:
        """Return state, member and delivery count in flight by offset."""
        return {
            offset: (RecordState(record.state), record.member_id, record.delivery_count)
            for batch in self.share.batches
            for first, last, record in batch.states()
            for offset in range(first, last + 1)
        }


def test_acquired_record_is_not_delivered_to_others() -> None:
    partition = Partition()
    assert partition.fetch("a", records=4) == [(0, 4, 1)]
    assert partition.fetch("b") == [(5, 13, 1)]
    assert partition.fetch("a") == []
    assert partition.acknowledge("a", 5, 9, ACCEPT) is Error.INVALID_RECORD_STATE


def test_start_offset_advances_after_the_share_coordinator_has_stored_it() -> None:
    partition = Partition()
    partition.fetch("a")
    assert partition.acknowledge("a", 0, 4, ACCEPT) is Error.NONE
    assert partition.share.start_offset == 0
    partition.respond()
    assert partition.share.start_offset == 5


def test_rejected_write_undoes_its_changes() -> None:
    partition = Partition()
    partition.fetch("a", records=1)
    partition.acknowledge("a", 0, 2, ACCEPT)
    partition.respond(is_written=False)
    assert partition.states()[0] == (RecordState.ACQUIRED, "a", 1)
    assert (partition.share.start_offset, partition.share.done_count) == (0, 0)


def test_expired_lock_makes_records_available() -> None:
    partition = Partition()
    partition.fetch("a", records=1)
    partition.now = LOCK_MS - 1
    assert partition.share.expire(partition.limits, partition.now) == []
    assert partition.acknowledge("a", 0, 0, RENEW) is Error.NONE
    partition.now = LOCK_MS
    reported = partition.share.expire(partition.limits, partition.now)
    assert [(each.first_offset, each.delivery_state) for each in reported] == [(1, 0), (2, 0)]
    assert partition.fetch("b", records=2) == [(1, 2, 2)]


def test_failed_write_of_an_expired_lock_does_not_affect_later_changes() -> None:
    """As in Kafka (`releaseAcquisitionLockOnTimeout`)."""
    partition = Partition()
    partition.fetch("a", records=1)
    partition.now = LOCK_MS
    partition.unanswered.append(partition.share.expire(partition.limits, partition.now))
    assert partition.fetch("b", records=3) == [(0, 2, 2)]
    assert partition.acknowledge("b", 0, 2, ACCEPT) is Error.NONE
    partition.respond(is_written=False)
    assert partition.states()[0] == (RecordState.ACKNOWLEDGED, "", 2)
    partition.respond(is_written=True)
    assert partition.share.start_offset == 3


def test_never_accepted_record_is_archived() -> None:
    """From half of its deliveries on, it is acquired in smaller parts."""
    partition = Partition()
    seen = []
    for _ in range(40):
        got = partition.fetch("a", records=1)
        seen.append(got)
        for first, last, _ in got:
            if first > 2:
                return_all = partition.share.release("a", partition.limits)
                partition.share.complete_write(return_all, True, partition.now)
                break
            partition.acknowledge("a", first, last, RELEASE)
            partition.respond()
        if partition.share.start_offset > 2:
            break
    assert seen[:3] == [[(0, 2, 1)], [(0, 2, 2)], [(0, 2, 3)]]
    assert [(0, 0, 5)] in seen
    assert partition.share.start_offset == 3


def give_back(partition: Partition, how: str) -> None:
    """Member `a` loses the records 0 to 2 without accepting them."""
    if how == "released":
        assert partition.acknowledge("a", 0, 2, RELEASE) is Error.NONE
    elif how == "session closed":
        partition.unanswered.append(partition.share.release("a", partition.limits))
    else:
        partition.now += LOCK_MS
        partition.unanswered.append(partition.share.expire(partition.limits, partition.now))
    partition.respond()


@pytest.mark.parametrize("limit", [1, 2])
@pytest.mark.parametrize("how", ["released", "session closed", "lock expired"])
def test_delivery_count_does_not_exceed_the_limit(how: str, limit: int) -> None:
    partition = Partition(ShareLimits(LOCK_MS, records=200, deliveries=limit))
    for count in range(1, limit + 1):
        assert partition.fetch("a", records=1, size=1) == [(0, 2, count)]
        give_back(partition, how)
    assert partition.share.start_offset == 3, "the records are archived"
    assert partition.fetch("a", records=1, size=1) == [(3, 4, 1)]


@pytest.mark.parametrize("how", ["released", "session closed", "lock expired"])
def test_delivery_count_of_single_records_does_not_exceed_the_limit(how: str) -> None:
    partition = Partition(ShareLimits(LOCK_MS, records=200, deliveries=4))
    counts: dict[int, list[int]] = {0: [], 1: [], 2: []}
    while partition.share.start_offset < 3:
        for first, last, count in partition.fetch("a", records=1, size=1):
            for offset in range(first, min(last, 2) + 1):
                counts[offset].append(count)
        if how == "released":
            for offset in range(3):
                partition.acknowledge("a", offset, offset, RELEASE)
                partition.respond()
        else:
            give_back(partition, how)
    assert counts == {offset: [1, 2, 3, 4] for offset in range(3)}


def calls_of(work: Callable[[], object]) -> int:
    """Count calls of Python functions, which do not vary like seconds."""
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
def test_cost_of_an_acknowledgement_is_independent_of_the_records_in_flight(size: int) -> None:
    def cost(count: int) -> int:
        limits = ShareLimits(LOCK_MS, records=count, deliveries=5)
        partition = Partition(limits)
        runs = [LogBatch(each, each) for each in range(count)]
        wish = AcquireRequest("a", count, size, False)
        Acquisition(partition.share, wish, limits, runs, 0, LOCK_MS).acquire()
        one_by_one = [AcknowledgedRecords(each, each, (ACCEPT,)) for each in range(count)]

        def work() -> None:
            reported = partition.share.acknowledge("a", one_by_one, limits, 0)
            assert not isinstance(reported, ShareStateError)
            assert partition.share.complete_write(reported, True, 0)

        return calls_of(work)

    assert cost(400) <= 2.5 * cost(200)


def test_number_of_records_in_flight_is_limited() -> None:
    partition = Partition(ShareLimits(LOCK_MS, records=4, deliveries=5))
    assert partition.fetch("a") == [(0, 4, 1)]
    assert partition.fetch("b") == []
    partition.acknowledge("a", 0, 2, ACCEPT)
    partition.respond()
    assert partition.fetch("b", records=1) == [(5, 9, 1)]


def test_record_limit_is_exact() -> None:
    partition = Partition()
    assert partition.fetch("a", records=2, exact=True) == [(0, 1, 1)]
    assert partition.fetch("b", records=2, exact=True) == [(2, 2, 1), (3, 3, 1)]


def test_offsets_missing_in_the_share_coordinators_state_are_fetched() -> None:
    reported = [
        StateBatch(first_offset=3, last_offset=4, delivery_state=2, delivery_count=1),
        StateBatch(first_offset=10, last_offset=13, delivery_state=0, delivery_count=2),
    ]
    partition = Partition(result=reported)
    assert partition.share.next_fetch_offset() == 0
    assert partition.fetch("a") == [(0, 2, 1), (5, 9, 1), (10, 13, 3)]


def test_batch_ends_with_the_log_batch_that_reaches_the_requested_size() -> None:
    assert Partition().fetch("a", size=3) == [(0, 2, 1), (3, 9, 1), (10, 13, 1)]
    assert Partition().fetch("a", size=4) == [(0, 4, 1), (5, 9, 1), (10, 13, 1)]


def test_new_records_start_after_the_last_record_that_is_not_done() -> None:
    partition = Partition()
    partition.fetch("a", records=1)
    partition.acknowledge("a", 0, 1, ACCEPT)
    partition.respond()
    assert (partition.share.start_offset, partition.share.next_fetch_offset()) == (2, 3)


def test_single_done_record_advances_the_start_offset() -> None:
    partition = Partition(
        result=[
            StateBatch(first_offset=0, last_offset=0, delivery_state=2, delivery_count=1),
            StateBatch(first_offset=1, last_offset=4, delivery_state=0, delivery_count=1),
        ]
    )
    assert partition.share.start_offset == 1
    assert partition.fetch("a", records=1) == [(1, 4, 2)]
    partition.acknowledge("a", 1, 4, ACCEPT)
    partition.respond()
    assert partition.share.start_offset == 5


@pytest.mark.parametrize(
    ("count", "got"),
    [(4, (0, 9, 5)), (5, (0, 4, 6)), (6, (0, 1, 7)), (7, (0, 0, 8)), (9, (0, 0, 10))],
)
def test_suspect_batch_is_acquired_in_halves_quarters_and_single_records(
    count: int, got: tuple[int, int, int]
) -> None:
    """Ten records with at most ten deliveries, suspect from five on."""
    limits = ShareLimits(LOCK_MS, records=200, deliveries=10)
    partition = Partition(
        limits,
        result=[StateBatch(first_offset=0, last_offset=9, delivery_state=0, delivery_count=count)],
    )
    assert partition.fetch("a")[0] == got


def test_done_records_are_counted_from_the_start_offset() -> None:
    partition = Partition(
        result=[
            StateBatch(first_offset=0, last_offset=2, delivery_state=0, delivery_count=1),
            StateBatch(first_offset=3, last_offset=4, delivery_state=2, delivery_count=1),
        ]
    )
    assert partition.share.done_count == 2
    partition.share.advance_to_log_start(4)
    assert (partition.share.start_offset, partition.share.done_count) == (4, 1)


def test_records_deleted_from_the_log_are_not_delivered() -> None:
    partition = Partition()
    partition.fetch("a", records=1)
    partition.acknowledge("a", 0, 2, RELEASE)
    partition.respond()
    partition.share.advance_to_log_start(2)
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
def test_invariants_hold_for_random_operations(steps: list[Any]) -> None:
    """Offsets ascend, done records are not delivered, owners are unique."""
    partition = Partition(ShareLimits(LOCK_MS, records=200, deliveries=3))
    done: set[int] = set()
    counts: dict[int, int] = {}
    start = 0
    for what, member, first, more, kind, is_exact in steps:
        before = partition.states()
        if what == "fetch":
            for low, high, count in partition.fetch(member, more + 1, more + 1, is_exact):
                for offset in range(low, high + 1):
                    assert before.get(offset, (RecordState.AVAILABLE,))[0] == RecordState.AVAILABLE
                    assert offset not in done, "done records were delivered again"
                    assert count == counts.get(offset, 0) + 1 <= 3
                    counts[offset] = count
        elif what == "say":
            partition.acknowledge(member, first, min(first + more, 13), kind)
        elif what in ("answer", "refuse"):
            partition.respond(what == "answer")
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
