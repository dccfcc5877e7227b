"""Checks after a fault: the topics, the state, and the remaining processes."""

import time
from collections import Counter
from typing import NamedTuple

from brokertwin.state.cell.cell import Cell
from brokertwin.state.core import outputs
from brokertwin.streaming.checkpoint import state_reader
from brokertwin.streaming.job import runner
from tests.support.jobs import JobBench
from tests.support.patience import wait_until

ATTEMPTS = 5
"""The clock may write while the topics are read: then they are read again."""


class Found(NamedTuple):
    """Findings in the topics.

    Attributes:
        repeated: rows of responses written again with the same ids.
    """

    requests: int
    repeated: int


def topics_and_state(bench: JobBench, *cells: str) -> Found:
    """Every request answered as one process does, once to a reader who drops ids; the same state.

    Raises:
        AssertionError: it is not so.
    """
    for attempt in range(1, ATTEMPTS + 1):
        wait_until(lambda: runner.is_at_end(bench.client, bench.settings), "the job lags")
        try:
            return _compared(bench, cells)
        except AssertionError:
            if attempt == ATTEMPTS:
                raise
            time.sleep(1)
    raise AssertionError("unreachable")


def _compared(bench: JobBench, cells: tuple[str, ...]) -> Found:
    taken = bench.taken()
    bench.assert_live_run_equals_replay(*cells, is_done=False)
    stored = state_reader.read_cells(bench.checkpoint)
    for cell in cells:
        rows = [row for row in taken if row.key == cell.encode() and row.value is not None]
        if not rows:
            continue
        fresh = Cell(bench.cell_settings(cell))
        for row in rows:
            fresh.handle(row.value or b"", row.position)
        columns = fresh.columns()
        others = {name for name in columns if columns[name] != stored[cell][name]}
        assert others == set(), f"another state of {cell}"
    responses = Counter(row.id for row in bench.all_rows(outputs.RESPONSES))
    return Found(len(taken), responses.total() - len(responses))
