"""The stateful operator: a Spark group is a cell with one state row.

Spark passes the rows of a group in unordered chunks. They are collected and sorted by partition and
offset, and handled by `Cell.handle`. Outputs are bytes, and the state is written once. Rows without
a cell form stateless groups by source partition and become dead letters.

This module runs in Spark's Python workers.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import astuple, replace

from brokertwin.state.cell.cell import STATE_VERSION, Cell, state_columns
from brokertwin.state.cell.upgrades import can_upgrade, upgraded
from brokertwin.state.core.dead_letters import refused_event
from brokertwin.state.core.events import Reason, Refusal, identity_of
from brokertwin.state.core.murmur2 import partition_of
from brokertwin.state.core.outputs import Output, Position
from brokertwin.state.core.packs import is_packed, unpacked
from brokertwin.state.core.settings import CellSettings
from brokertwin.state.fetch.fetch_session_counts import cache_counts
from brokertwin.streaming.job import measures, tallies
from brokertwin.streaming.job.kept_bases import KeptBases
from brokertwin.streaming.job.measures import Counts

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql.streaming.state import GroupState

INPUT_COLUMNS = ("partition", "offset", "timestamp", "key", "value")
GROUP_COLUMN = "cell"
OUTPUT_COLUMNS = {
    "topic": "STRING",
    "partition": "INT",
    "key": "BINARY",
    "value": "BINARY",
    "id": "STRING",
}
OUTPUT_SCHEMA = ", ".join(f"{name} ARRAY<{kind}>" for name, kind in OUTPUT_COLUMNS.items())
"""Many output rows are one row of arrays between Python and Spark. Otherwise Spark would copy each
of them several times.
"""

STATE_SCHEMA = ", ".join(["version INT", *(f"{name} BINARY" for name in state_columns())])
NO_PARTITION = -1
"""In an output row: partition by key."""

FRAME_BYTES = 32 * 1024 * 1024
"""An output frame is passed on at this size to bound memory."""

STRAY_CELL = "stray"
REQUESTS = "requests"
"""Name of the count of events."""

BETWEEN_CELLS = "between cells"
"""Name of the count of messages between cells."""

_bases = KeptBases()
"""Cached column bases of this worker."""


class OperatorEvent(msgspec.Struct, frozen=True):
    """A row of the request topic, or one event of a packed row."""

    position: Position
    value: bytes | None


Frames = Iterable["pd.DataFrame"]
GroupFunction = Callable[[tuple[Any, ...], Frames, "GroupState"], Iterator["pd.DataFrame"]]


Count = Callable[[Counts], None]


def group_function(cells: dict[int, CellSettings], count: Count | None = None) -> GroupFunction:
    """Create the function that Spark calls for each group of a micro-batch.

    Args:
        cells: cell settings by grouping key; other keys are stray rows.
        count: called with the number of rows by topic and the cell's measures.
    """
    encoded = {key: msgspec.msgpack.encode(settings) for key, settings in cells.items()}
    some_cell = next(iter(encoded.values()))

    def handle_group(
        key: tuple[Any, ...], frames: Frames, state: "GroupState"
    ) -> "Iterator[pd.DataFrame]":
        begun_ns = time.process_time_ns()
        encoded_settings = encoded.get(int(key[0]))
        settings = _decode_settings(encoded_settings or some_cell)
        counts: Counts = {}
        events = events_of(collect(frames), counts)
        if encoded_settings is None:
            yield from frames_of(handle_strays(settings, set(encoded.values()), events), counts)
        else:
            yield from frames_of(handle_cell(settings, events, state, counts), counts)
            taken_us = (time.process_time_ns() - begun_ns) // 1000
            counts[measures.of_cell(measures.LOAD, settings.name)] = taken_us
        if count is not None:
            count(counts)

    return handle_group


def _decode_settings(encoded: bytes) -> CellSettings:
    return msgspec.msgpack.decode(encoded, type=CellSettings)


def collect(frames: Frames) -> list[OperatorEvent]:
    """Return all rows of a group, ordered by partition and offset."""
    events = [
        OperatorEvent(Position(partition, offset, timestamp, key), value)
        for frame in frames
        for partition, offset, timestamp, key, value in zip(
            *(frame[column].tolist() for column in INPUT_COLUMNS), strict=True
        )
    ]
    events.sort(key=lambda event: (event.position.partition, event.position.offset))
    return events


def events_of(rows: Iterable[OperatorEvent], counts: Counts) -> Iterator[OperatorEvent]:
    """Yield the events of rows in order, and count them.

    One pack is unpacked at a time, to bound memory.
    """
    number = 0
    for row in rows:
        if row.value is None or not is_packed(row.value):
            number += 1
            yield row
            continue
        for index, document in enumerate(unpacked(row.value)):
            number += 1
            yield OperatorEvent(replace(row.position, pack_index=index), document)
    counts[REQUESTS] = number


def handle_cell(
    settings: CellSettings, events: Iterable[OperatorEvent], state: "GroupState", counts: Counts
) -> Iterator[Output]:
    """Process a cell's events, write its state, and add to `counts`.

    Raises:
        RuntimeError: the version of the state row is unknown.
    """
    read_base = partial(_bases.read, settings.name)
    cell = Cell(settings, _columns_of(state), read_base=read_base)
    home = partition_of(settings.name.encode(), settings.requests_partitions)
    for event in events:
        refusal = _refusal_of(event, home)
        if refusal is not None:
            yield from refused_event(settings, event.value or b"", event.position, refusal)
        elif event.value is not None:
            yield from cell.handle(event.value, event.position)
    columns = cell.stored()
    _measure(cell, sum(map(len, columns.values())), counts)
    state.update((STATE_VERSION, *(columns[name] for name in state_columns())))


def _measure(cell: Cell, state_bytes: int, counts: Counts) -> None:
    sessions = cache_counts(cell.tables.fetch_sessions, cell.settings.brokers_here)
    measured = {
        measures.STATE: state_bytes,
        measures.SESSIONS: sessions.sessions,
        measures.PARTITIONS_CACHED: sessions.partitions_cached,
        measures.EVICTIONS: sessions.evictions,
    }
    for measure, value in measured.items():
        counts[measures.of_cell(measure, cell.settings.name)] = value


def _columns_of(state: "GroupState") -> dict[str, bytes] | None:
    if not state.exists:
        return None
    version, *columns = state.get
    stored = {name: bytes(column) for name, column in zip(state_columns(), columns, strict=True)}
    if version == STATE_VERSION:
        return stored
    if version > STATE_VERSION or not can_upgrade(version):
        raise RuntimeError(
            f"the state row has version {version}, but this program needs {STATE_VERSION}"
        )
    found = upgraded(version, stored)
    if isinstance(found, str):
        raise RuntimeError(f"the cell {found}")
    return found


def _refusal_of(event: OperatorEvent, home: int) -> Refusal | None:
    """Return why a row with a cell's key is invalid, if it is."""
    if event.position.partition != home:
        return Refusal(
            Reason.WRONG_PARTITION,
            f"the row is in partition {event.position.partition}, its key belongs to {home}"
            " (murmur2, as in Kafka's Java producer)",
        )
    if event.value is None:
        return Refusal(Reason.NOT_JSON, "the row has no value")
    return None


def handle_strays(
    some_cell: CellSettings, cells: set[bytes], events: Iterable[OperatorEvent]
) -> Iterator[Output]:
    """Refuse rows without a key, or with an unknown one."""
    clusters = {_decode_settings(encoded).cluster for encoded in cells}
    settings = replace(some_cell, name=STRAY_CELL, cluster="")
    for event in events:
        document = event.value or b""
        refusal = _stray_refusal(event, identity_of(document).cluster, clusters)
        yield from refused_event(settings, document, event.position, refusal)


def _stray_refusal(event: OperatorEvent, cluster: str, clusters: set[str]) -> Refusal:
    if cluster and cluster not in clusters:
        return Refusal(
            Reason.UNKNOWN_CLUSTER,
            f"this job has the clusters {', '.join(sorted(clusters))}, not {cluster!r}",
        )
    if event.position.key is None:
        return Refusal(Reason.WRONG_KEY, "the row has no key; it must be the name of a cell")
    key = event.position.key[:100].decode("utf-8", "backslashreplace")
    return Refusal(Reason.WRONG_KEY, f"no cell of this job has the key {key!r}")


def frames_of(outputs: Iterable[Output], counts: Counts) -> "Iterator[pd.DataFrame]":
    """Yield output rows as pandas frames of OUTPUT_SCHEMA, each with one row.

    Counts the rows by topic and for `tallies`.
    """
    rows: list[Output] = []
    size = 0
    for output in outputs:
        rows.append(output)
        size += len(output.value or b"")
        if size >= FRAME_BYTES:
            yield _counted_frame(rows, counts)
            rows, size = [], 0
    if rows:
        yield _counted_frame(rows, counts)


def _counted_frame(rows: list[Output], counts: Counts) -> "pd.DataFrame":
    import pandas as pd

    topics, partitions, keys, values, ids = zip(*map(astuple, rows), strict=True)
    for topic, number in Counter(topics).items():
        name = BETWEEN_CELLS if topic == REQUESTS else topic
        counts[name] = counts.get(name, 0) + number
        if topic in tallies.TOPICS:
            tallies.count(topic, [row.value for row in rows if row.topic == topic], counts)
    numbers = [NO_PARTITION if number is None else number for number in partitions]
    columns = (topics, numbers, keys, values, ids)
    return pd.DataFrame(
        {
            name: pd.Series([list(column)], dtype=object)
            for name, column in zip(OUTPUT_COLUMNS, columns, strict=True)
        },
        copy=False,
    )
