"""What must hold after a fault: the topics, the state, and who is still there."""

import time
from collections import Counter
from typing import NamedTuple

from brokerstream.state.cell.cell import Cell
from brokerstream.state.core import outputs
from brokerstream.state.core.outputs import Position
from brokerstream.streaming import runner, state_reader
from tests.support.jobs import JobBench
from tests.support.patience import wait_until

ATTEMPTS = 5
"""The clock may write while the topics are read: then they are read again."""


class Found(NamedTuple):
    """What the topics show.

    Attributes:
        requests: how many events there are.
        repeated: rows of answers that were written again, under the ids that they had.
    """

    requests: int
    repeated: int


def topics_and_state(bench: JobBench, cell: str) -> Found:
    """Every request answered as one process does, once to a reader who drops ids; the same state.

    Raises:
        AssertionError: it is not so.
    """
    for attempt in range(1, ATTEMPTS + 1):
        wait_until(lambda: runner.is_at_end(bench.client, bench.settings), "the job lags")
        try:
            return _compared(bench, cell)
        except AssertionError:
            if attempt == ATTEMPTS:
                raise
            time.sleep(1)
    raise AssertionError("unreachable")


def _compared(bench: JobBench, cell: str) -> Found:
    taken = bench.taken()
    bench.assert_live_run_equals_replay(cell, is_done=False)
    fresh = Cell(bench.cell_settings(cell))
    for row in taken:
        if row.key == cell.encode() and row.value is not None:
            fresh.handle(row.value, Position(row.partition, row.offset, row.timestamp, row.key))
    stored = state_reader.read_cells(bench.checkpoint)[cell]
    columns = fresh.columns()
    assert {name for name in columns if columns[name] != stored[name]} == set(), "another state"
    answers = Counter(row.id for row in bench.all_rows(outputs.RESPONSES))
    return Found(len(taken), answers.total() - len(answers))
