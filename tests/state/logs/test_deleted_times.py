"""A deleted record can have the log's greatest timestamp while its segment exists."""

from hypothesis import given
from hypothesis import strategies as st

from brokertwin.state.core.records import LogStartMoved
from brokertwin.state.logs import deleted_times, retention, rolling, timestamp_index
from brokertwin.state.logs import log as logs
from brokertwin.state.logs.log import RollingRules
from tests.state.logs.test_log import TOPIC_ID, Partition
from tests.support.machine import START

CUTS = RollingRules(10**9, 250)
"""Two batches of 100 bytes fill a segment."""


def move(partition: Partition, start: int, deleted_to: int = -1) -> None:
    """Apply a `LogStartMoved`."""
    record = LogStartMoved(TOPIC_ID, 0, start, deleted_to)
    deleted_times.note(partition.at, record)
    moved = logs.move_start(partition.at, TOPIC_ID, 0, start)
    rolling.delete(partition.at, moved, deleted_to)


@given(
    st.lists(st.integers(0, 9), max_size=12),
    st.lists(st.tuples(st.integers(0, 12), st.booleans()), max_size=4),
)
def test_greatest_timestamp_is_that_of_existing_segments(
    times: list[int], moves: list[tuple[int, bool]]
) -> None:
    partition = Partition()
    for time in times:
        partition.append(1, 100, START + time, CUTS)
    for start, is_checked in moves:
        move(partition, min(start, len(times)))
        log = partition.log
        if is_checked:
            to = retention.deletable_end(partition.at, log, CUTS, None, START)
            move(partition, log.log_start_offset, to)
        actual = timestamp_index.greatest(partition.at, log, False)
        first = next(rolling.segments(partition.at, log, CUTS)).base_offset
        left = times[first:]
        if not left:
            assert actual is None
            continue
        assert actual is not None and actual.is_exact
        expected = first + left.index(max(left)), START + max(left)
        assert (actual.offset, actual.timestamp) == expected
        assert len(log.deleted) <= len(log.rolled) + 1
