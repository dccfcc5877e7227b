"""Bytes of one producer, fetch session, group, offset and logged batch.

    python bench/memory.py [--count 4000]

A cell gets `--count` objects of a kind. The table shows, per object:

    decoded   Python objects and encoded items in memory (tracemalloc), after a commit
    encoded   the items as a table keeps them: what is in memory if they are not used
    stored    the columns of the state row; large ones are compressed, and these objects are alike

A producer has written one batch, which is subtracted. A session has ten partitions, a group one
member and its timer.
"""

import argparse
import gc
import tracemalloc
from collections.abc import Callable

from growth import GrowthBed, group

from brokertwin.state.cell.cell import Cell
from brokertwin.state.core.outputs import Position
from brokertwin.state.core.records import OffsetCommitted

PARTITIONS = 10


def batch(bed: GrowthBed, count: int) -> None:
    bed.batches(count)


def producer(bed: GrowthBed, count: int) -> None:
    bed.batches(count, producers=count)


def session(bed: GrowthBed, count: int) -> None:
    """Fetch sessions of ten partitions without records."""
    bed.topic("many", 3, PARTITIONS)
    wanted = [
        {"partition": each, "fetchOffset": 0, "partitionMaxBytes": 1000}
        for each in range(PARTITIONS)
    ]
    topics = [{"topic": "many", "partitions": wanted}]
    body = {"maxBytes": 1000, "sessionEpoch": 0, "topics": topics}
    for _ in range(count):
        bed.cell.handle(bed.event(1, 12, body), Position(0, 0))


def classic_group(bed: GrowthBed, count: int) -> None:
    for number in range(count):
        group(bed, f"group-{number}", 1)


def offset(bed: GrowthBed, count: int) -> None:
    for number in range(count):
        bed.put(OffsetCommitted("group", "topic", number, number, -1, "", 1_700_000_000_000))


KINDS: dict[str, Callable[[GrowthBed, int], None]] = {
    "batch": batch,
    "producer": producer,
    "session": session,
    "group": classic_group,
    "offset": offset,
}


def sizes(kind: Callable[[GrowthBed, int], None], count: int) -> list[float]:
    """Return the bytes per object: decoded, encoded and stored."""
    bed = GrowthBed()
    bed.settings.broker_settings.max_incremental_fetch_session_cache_slots = 2 * count
    before = [_traced(bed.cell), *_columns(bed.cell)]
    kind(bed, count)
    after = [_traced(bed.cell), *_columns(bed.cell)]
    return [(end - start) / count for start, end in zip(before, after, strict=True)]


def _traced(cell: Cell) -> int:
    cell.commit()
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


def _columns(cell: Cell) -> tuple[int, int]:
    """Return the sizes of all columns, without layers and in layers."""
    columns, stored = cell.copy().columns(), cell.copy().stored()
    return sum(map(len, columns.values())), sum(map(len, stored.values()))


def main() -> None:
    """Measures and prints a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=4000)
    count = parser.parse_args().count
    tracemalloc.start()
    found = {name: sizes(kind, count) for name, kind in KINDS.items()}
    pairs = zip(found["producer"], found["batch"], strict=True)
    found["producer"] = [both - one for both, one in pairs]
    print(f"{'bytes of one':14}{'decoded':>9}{'encoded':>9}{'stored':>9}")
    for name, figures in found.items():
        print(f"{name:14}" + "".join(f"{figure:9,.0f}" for figure in figures))


if __name__ == "__main__":
    main()
