"""A job's state for data checks: its tables, and one list of violated invariants.

A violation is a sentence: of `check(cell)`, of a comparison between cells, with an earlier state,
with a snapshot's offsets, or with the compacted topic.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from brokertwin.kafka_io.topic_reader import TopicRow
from brokertwin.sinks.offsets_snapshot import SnapshotRow
from brokertwin.state.cell.cell import Cell
from brokertwin.state.cell.check import check
from brokertwin.state.core.check import machine_of
from brokertwin.state.core.decision import CONTROLLER
from brokertwin.state.core.settings import BrokerSettings, CellSettings, cluster_of
from brokertwin.state.core.tables import TABLE_NAMES, CellTables, Table, machine_prefix
from brokertwin.state.groups import offset_records
from brokertwin.state.transactions.producer_ids import INT64_MAX, NextBlock, ProducerIds
from brokertwin.streaming.checks import suites
from brokertwin.streaming.checks.checked_rows import Flat, distinct
from brokertwin.tables import state_rows
from brokertwin.tables.state_rows import Columns, ItemKind

Cells = Mapping[str, Columns]

SLOTS_UNKNOWN = 2**31 - 1
"""A job's limit of fetch sessions is not in its state."""


class Violation(NamedTuple):
    """A violated invariant: the cell or cluster, and a sentence."""

    cell: str
    violation: str


def of_kind(kind: str, cells: Cells, before: Cells | None = None) -> list[Flat]:
    """Return the rows for a suite.

    Args:
        kind: one of `suites.OF_STATE`.
        cells: the state.
        before: an earlier state of the same job, for values that must not go back.
    """
    if kind == suites.VIOLATIONS["name"]:
        return [each._asdict() for each in violations(cells, before or {})]
    return state_rows.rows(ItemKind(suites.TABLE_OF[kind]), cells)


def violations(cells: Cells, before: Cells) -> Iterator[Violation]:
    """Yield the violations of a state; `before` is an earlier one of the same job."""
    for name in sorted(cells):
        cell = Cell(_settings(name, cells), cells[name])
        try:
            found = check(cell)
        except (AssertionError, LookupError, ValueError, msgspec.MsgspecError) as error:
            found = [f"its items contradict each other: {type(error).__name__}: {error}"]
        yield from (Violation(name, each) for each in found)
    yield from _overlapping_ids(cells)
    yield from _moved_back(cells, before)


def _settings(name: str, cells: Cells) -> CellSettings:
    """Return the settings of a cell, with the brokers that its items name."""
    cluster = cluster_of(name)
    machines = {each: _machines(cells[each]) for each in cells if cluster_of(each) == cluster}
    first = sorted(machines, key=lambda each: CONTROLLER not in machines[each])
    brokers = {each: sorted(machines[each] - {CONTROLLER}) for each in first}
    return CellSettings(
        name=name,
        cluster=cluster,
        brokers=sorted({broker for some in brokers.values() for broker in some}),
        cells=brokers if len(brokers) > 1 else {},
        broker_settings=BrokerSettings(max_incremental_fetch_session_cache_slots=SLOTS_UNKNOWN),
    )


def _machines(columns: Columns) -> set[int]:
    tables, controller = CellTables(columns), machine_prefix(CONTROLLER)
    keys = [key for name in TABLE_NAMES for key in tables[name].keys("")]
    machines = {machine for key in keys if (machine := machine_of(key)) is not None}
    is_controller = any(key.partition("/")[0] == controller for key in keys)
    return machines | ({CONTROLLER} if is_controller else set())


class _Span(NamedTuple):
    """Producer ids from `first` to `end` (exclusive), and what has them."""

    first: int
    end: int
    holder: str


def _overlapping_ids(cells: Cells) -> Iterator[Violation]:
    """Yield producer ids that two transactional ids, brokers or the controller have."""
    by_cluster: dict[str, set[_Span]] = defaultdict(set)  # a follower has its coordinator's ids
    for cell, columns in cells.items():
        by_cluster[cluster_of(cell)].update(_spans(columns))
    for row in state_rows.rows(ItemKind.TRANSACTIONAL_IDS, cells):
        first = row["producerId"]
        span = _Span(first, first + 1, f"the transactional id {row['transactionalId']}")
        by_cluster[cluster_of(row["cell"])].add(span)
    for cluster, spans in sorted(by_cluster.items()):
        open_spans: list[_Span] = []
        for span in sorted(spans):
            open_spans = [each for each in open_spans if each.end > span.first]
            for each in open_spans:
                what = f"{span.holder} has the producer id {span.first}, and so has {each.holder}"
                yield Violation(cluster, what)
            open_spans.append(span)


def _spans(columns: Columns) -> Iterator[_Span]:
    """Yield the unissued ids of brokers and the unallocated ids of the controller."""
    table = Table(columns.get("metadata", b""))
    controller = machine_prefix(CONTROLLER)
    for key in table.keys(""):
        machine, _, kind = key.partition("/")
        if kind != "producer-ids":
            continue
        if machine == controller:
            unallocated = table.get(key, NextBlock) or NextBlock()
            yield _Span(unallocated.first, INT64_MAX, "the controller's unallocated range")
            continue
        ids = table.get(key, ProducerIds)
        assert ids is not None, key
        blocks = [(ids.next_id, ids.current.end)]
        if ids.following is not None:
            blocks.append((ids.following.first, ids.following.end))
        for first, end in blocks:
            if first < end:
                yield _Span(first, end, f"the block of broker {machine}")


def _moved_back(cells: Cells, before: Cells) -> Iterator[Violation]:
    """Yield high watermarks that are lower than before in the same leader epoch."""
    names = ("cell", "broker", "topicId", "partition", "leaderEpoch")
    former = {
        tuple(row[name] for name in names): row["highWatermark"]
        for row in state_rows.rows(ItemKind.LOGS, before)
    }
    for row in state_rows.rows(ItemKind.LOGS, cells):
        was = former.get(tuple(row[name] for name in names), row["highWatermark"])
        if row["highWatermark"] < was:
            yield Violation(
                row["cell"],
                f"the high watermark of {row['topic']}-{row['partition']} on broker"
                f" {row['broker']} went back from {was} to {row['highWatermark']}",
            )


COMPARED = ("offset", "leader_epoch", "metadata", "commit_timestamp")


def snapshot_and_state(
    snapshot: Iterable[SnapshotRow], state: Iterable[SnapshotRow]
) -> Iterator[Violation]:
    """Yield the differences between the offsets of a snapshot and those in its state."""
    own = {_place(each): each for each in snapshot}
    stored = {_place(each): each for each in state}
    for place in sorted(own.keys() | stored.keys()):
        one, other = own.get(place), stored.get(place)
        if one != other:
            cluster, *key = place
            yield Violation(cluster, _difference(key, one, other, "the snapshot", "the state"))


def _place(row: SnapshotRow) -> tuple[str, str, str, int]:
    return row.cluster, row.group, row.topic, row.partition


def state_and_topic(
    cluster: str, state: Iterable[SnapshotRow], topic: Iterable[TopicRow], ends: Mapping[int, int]
) -> Iterator[Violation]:
    """Yield the differences between committed offsets and the compacted topic of their cluster.

    A key whose rows up to the state have been compacted away is left out.

    Args:
        cluster: name of the cluster.
        state: offsets of a state or snapshot; those of other clusters are ignored.
        topic: rows of `offsets.<cluster>`, from its beginning.
        ends: by partition of `requests` the offset of the first event after the state.
    """
    stored = {
        offset_records.OffsetKey(row.group, row.topic, row.partition): row
        for row in state
        if row.cluster == cluster
    }
    written: dict[offset_records.OffsetKey, Any] = {}
    later = set()
    for row in distinct(topic):
        place = f"row {row.offset} of partition {row.partition} of the topic"
        try:
            key = offset_records.decode_key(row.key or b"")
            value = None if row.value is None else offset_records.decode_value(row.value)
            is_later = _is_later(row.id, ends)
        except ValueError:
            yield Violation(cluster, f"{place} was not written by the job: its id is {row.id!r}")
            continue
        if key is None:
            yield Violation(cluster, f"{place} has no key of a committed offset")
        elif is_later:
            later.add(key)
        else:
            written[key] = value
    for key in sorted(stored.keys() | written.keys()):
        one, other = stored.get(key), written.get(key)
        is_compacted = key not in written and key in later
        if not is_compacted and _compared(one) != _compared(other):
            names = [key.group, key.topic, key.partition]
            yield Violation(cluster, _difference(names, one, other, "the state", "the topic"))


def _compared(row: Any) -> tuple[Any, ...] | None:
    return None if row is None else tuple(getattr(row, name) for name in COMPARED)


def _difference(key: list[Any], one: Any, other: Any, of_one: str, of_other: str) -> str:
    group, topic, partition = key
    what = f"the offset of group {group} in {topic}-{partition}"
    if one is None or other is None:
        return f"{what} is only in {of_one if other is None else of_other}"
    differ = [name for name in COMPARED if getattr(one, name) != getattr(other, name)]
    values = ", ".join(f"{name} {getattr(one, name)!r}" for name in differ)
    others = ", ".join(f"{name} {getattr(other, name)!r}" for name in differ)
    return f"{what} has {values} in {of_one}, and {others} in {of_other}"


def _is_later(row_id: str, ends: Mapping[int, int]) -> bool:
    """Whether the event of a row with an id `<cell>/<Position.place>/<ordinal>` is later.

    Raises ValueError for another id.
    """
    _cell, partition, offset, ordinal = row_id.rsplit("/", 3)
    int(ordinal)
    return int(offset.partition(".")[0]) >= ends.get(int(partition), 0)
