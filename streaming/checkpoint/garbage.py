"""Finds rows of the topic `data` that `brokertwin gc` can delete.

Kafka deletes the beginning of a partition (DeleteRecords), so each partition of `data` is cut at
the lowest offset still needed. A batch is needed

- while a log has it: in an index entry of the state, or in a sealed segment of the state;
- while its event is not processed: after the job's position in `requests`;
- while its event may still arrive: a gateway writes the bytes first, so recent rows are kept.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from brokertwin.kafka_io.locators import Locator
from brokertwin.protocol.batch_headers import Batch
from brokertwin.state.core.outputs import SegmentKey
from brokertwin.state.core.tables import CellTables
from brokertwin.state.logs import log as logs

NOT_DECIDED = "requests that the job has not read"
YOUNG = "rows that are too young"

_LOCATOR = re.compile(rb'"locator"\s*:\s*"([^"]*)"')


class Need(NamedTuple):
    """A needed row of `data`, and a text about what needs it."""

    locator: Locator
    by: str


class Extent(NamedTuple):
    """A partition of `data`: start, first offset that is too recent, end."""

    start: int
    young: int
    end: int


class Cut(NamedTuple):
    """A partition of `data`: rows from `start` to `below` can be deleted.

    `held_by` describes what needs the first remaining row.
    """

    partition: int
    start: int
    below: int
    end: int
    held_by: str

    @property
    def freed(self) -> int:
        return self.below - self.start

    @property
    def kept(self) -> int:
        return self.end - self.below


class NamedSegment(NamedTuple):
    """A sealed segment of a log: the log's start offset and name."""

    log_start_offset: int
    by: str


class _SegmentRow(msgspec.Struct):
    """The used part of a row of `segments`."""

    batches: list[Batch]


_segment_decoder = msgspec.json.Decoder(_SegmentRow)


def plan(extents: Mapping[int, Extent], needs: Iterable[Need]) -> list[Cut]:
    """Return the cuts that keep every needed row."""
    least: dict[int, Need] = {}
    for need in needs:
        known = least.get(need.locator.partition)
        if known is None or need.locator.offset < known.locator.offset:
            least[need.locator.partition] = need
    return [_cut(number, extent, least.get(number)) for number, extent in sorted(extents.items())]


def _cut(partition: int, extent: Extent, need: Need | None) -> Cut:
    below, held_by = extent.young, YOUNG if extent.young < extent.end else ""
    if need is not None and need.locator.offset <= below:
        below, held_by = need.locator.offset, need.by
    return Cut(partition, extent.start, max(below, extent.start), extent.end, held_by)


def needed_by_logs(cluster: str, tables: CellTables) -> Iterator[Need]:
    """Yield the rows referenced by index entries of the state."""
    for broker, log in _logs(tables):
        by = _log_name(cluster, log)
        for batch in logs.batches_from(tables.of(broker), log, log.log_start_offset):
            locator = Locator.of(batch.locator or "")
            if locator is not None:
                yield Need(locator, by)


def named_segments(cluster: str, tables: CellTables) -> dict[SegmentKey, NamedSegment]:
    """The sealed segments of the state; uses the lowest log start of replicas."""
    segments: dict[SegmentKey, NamedSegment] = {}
    for broker, log in _logs(tables):
        for segment in logs.sealed_segments(tables.of(broker), log):
            key = SegmentKey(cluster, log.topic_id, log.partition, segment.base_offset)
            named = NamedSegment(log.log_start_offset, _log_name(cluster, log))
            segments[key] = min(named, segments.get(key, named))
    return segments


def needed_by_segment(named: NamedSegment, row: bytes) -> Iterator[Need]:
    """Yield the rows that a row of `segments` references above the log start."""
    for batch in _segment_decoder.decode(row).batches:
        locator = Locator.of(batch.locator or "")
        if locator is not None and batch.last_offset >= named.log_start_offset:
            yield Need(locator, named.by)


def needed_by_event(document: bytes) -> Iterator[Need]:
    """Yield the rows referenced by an unprocessed event of any kind."""
    for text in _LOCATOR.findall(document):
        locator = Locator.of(text.decode("utf-8", "replace"))
        if locator is not None:
            yield Need(locator, NOT_DECIDED)


def _logs(tables: CellTables) -> Iterator[tuple[int, logs.Log]]:
    """Yield every log in the state with its broker."""
    for key in tables.logs.keys(prefix=""):
        broker, kind, _ = key.split("/", 2)
        if kind == "log":
            log = tables.logs.get(key, logs.Log)
            assert log is not None
            yield int(broker), log


def _log_name(cluster: str, log: logs.Log) -> str:
    return f"{log.topic}-{log.partition} of {cluster}"
