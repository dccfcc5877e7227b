"""Checkpoints without Spark: of a cell on the bench, as a job would have left them."""

from pathlib import Path
from typing import Any

import msgspec

from brokertwin.sinks.snapshot_store import Published
from brokertwin.state.cell.cell import STATE_VERSION, state_columns
from brokertwin.streaming.checkpoint import facts, snapshots, state_reader, store_writer
from brokertwin.streaming.checkpoint.facts import JobFacts
from brokertwin.streaming.checkpoint.store_writer import StorePlan
from brokertwin.tables.stored_states import Cells
from tests.support.machine import Bench
from tests.support.snapshots import NOON_MS

PLAN = StorePlan(
    configuration={"spark.sql.shuffle.partitions": "9"},
    schema=b"columns",
    operators=b'v1\n{"stateStoreInfo":[{"numPartitions":9}]}',
    offsets={"p.requests": {"0": 7, "1": 4}},
    at_ms=NOON_MS,
    shuffle_partitions=2,
)
FACTS = JobFacts(
    format=1,
    state_version=STATE_VERSION,
    prefix="p",
    cells=1,
    groups={"default": 3},
    requests_partitions=2,
    requests_topic_id="2Hc0xWmGQnO7jX6cHJhC3A",
    shuffle_partitions=2,
    brokers={"default": [1]},
    incarnation=5,
)


def bench() -> Bench:
    cell = Bench(offsets_topic_replication_factor=1)
    cell.topic("orders", 2)
    partition = {"partition": 0, "fetchOffset": 0, "partitionMaxBytes": 1000}
    body = {"maxWaitMs": 2500, "minBytes": 1, "maxBytes": 1000}
    cell.send("FETCH", 12, {**body, "topics": [{"topic": "orders", "partitions": [partition]}]})
    return cell


def made(checkpoint: Path, columns: dict[str, bytes] | None = None, **changes: Any) -> Cells:
    """A checkpoint with the state of a bench, or with these columns; gives back its cells."""
    known = msgspec.structs.replace(FACTS, **changes)
    stored = columns or bench().cell.columns()
    row = store_writer.state_row(known.state_version, [stored[name] for name in state_columns()])
    checkpoint.mkdir(parents=True)
    store_writer.write(checkpoint, {known.groups[name]: row for name in known.groups}, PLAN)
    facts.write(checkpoint, known)
    return state_reader.read_cells(checkpoint)


def taken(directory: Path, **changes: Any) -> Published:
    made(directory / "former", **changes)
    return snapshots.take(directory / "former", directory / "snapshots")
