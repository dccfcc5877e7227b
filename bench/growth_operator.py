"""The Python worker's time per micro-batch, by size of the cell's state.

    python bench/growth_operator.py [--kind producers] [--sizes 1000 100000 1000000]

The load of `growth_spark.py` without Kafka and Spark: calls the operator's function as Spark does,
with its previous state row as bytes. The sizes take turns in each round; the first two are omitted.
Figures are medians of processor time in ms; `state` is the size of the row.
"""

import argparse
import gc
import itertools
import statistics
import time
from collections.abc import Iterable
from typing import Any

import pandas as pd
from growth_spark import (
    CLUSTER,
    ERROR,
    FIRST_BATCH,
    WARM_UP,
    arguments,
    load_of,
    made,
    opening,
)

from brokertwin.state.core.murmur2 import partition_of
from brokertwin.state.core.outputs import RESPONSES
from brokertwin.state.core.settings import CellSettings
from brokertwin.streaming.job.operator import INPUT_COLUMNS, group_function

KEY = 0


class OperatorState:
    """A state row as Spark passes it: binary columns are byte arrays."""

    def __init__(self) -> None:
        self._row: tuple[Any, ...] = ()

    @property
    def exists(self) -> bool:
        """Whether there is a row."""
        return bool(self._row)

    @property
    def get(self) -> tuple[Any, ...]:
        """Return the row."""
        return self._row

    @property
    def size(self) -> int:
        """Return the bytes of its columns."""
        return sum(map(len, self._row[1:]))

    def update(self, newValue: tuple[Any, ...]) -> None:  # noqa: N803 (Spark's name)
        """Replace the row."""
        version, *columns = newValue
        self._row = (version, *map(bytearray, columns))


class OperatorBed:
    """A cell whose state has `size` objects of a kind.

    Raises:
        ValueError: a response has an error.
    """

    def __init__(self, size: int, given: argparse.Namespace) -> None:
        self._size, self._given = size, given
        settings = CellSettings(
            name=f"{CLUSTER}-{size}", cluster=CLUSTER, event_time="recorded", writes_records=False
        )
        self._key = settings.name.encode()
        self._home = partition_of(self._key, settings.requests_partitions)
        self._function = group_function({KEY: settings})
        self._offset = 0
        self.state = OperatorState()
        self.call(opening(), may_fail=True)
        making = made(size, given)
        while events := list(itertools.islice(making, FIRST_BATCH)):
            self.call(events)

    def call(self, events: Iterable[bytes], may_fail: bool = False) -> float:
        """Run one micro-batch; return its processor time in ms."""
        rows = [
            (self._home, self._offset + at, 0, self._key, event) for at, event in enumerate(events)
        ]
        self._offset += len(rows)
        frame = pd.DataFrame(rows, columns=list(INPUT_COLUMNS))
        begun = time.process_time()
        found = list(self._function((KEY,), [frame], self.state))
        taken = (time.process_time() - begun) * 1000
        written = pd.concat(found)
        answers = written["value"][written["topic"] == RESPONSES]
        if len(answers) != len(rows) or (not may_fail and any(map(ERROR.search, answers))):
            raise ValueError(f"{len(answers)} answers to {len(rows)} requests, or one has an error")
        return taken

    def turn(self, number: int) -> float:
        """Run the load of one micro-batch."""
        return self.call(load_of(self._size, number, self._given))


def main() -> None:
    """Measures and prints."""
    parser = arguments(__doc__)
    parser.add_argument("--turns", type=int, default=12)
    given = parser.parse_args()
    given.rounds = 1
    beds = {size: OperatorBed(size, given) for size in given.sizes}
    taken: dict[int, list[float]] = {size: [] for size in beds}
    for number in range(given.turns):
        for size, bed in beds.items():
            gc.collect()
            taken[size].append(bed.turn(number))
    medians = {size: statistics.median(each[WARM_UP:]) for size, each in taken.items()}
    print(f"{given.kind:>9}  micro-batch  ratio         state")
    for size, median in medians.items():
        ratio = median / medians[min(medians)]
        print(f"{size:>9,} {median:>9.0f} ms {ratio:>6.2f} {beds[size].state.size:>13,}")


if __name__ == "__main__":
    main()
