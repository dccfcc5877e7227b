"""Which rows of the topic `data` nobody needs any more: the decision of `brokertwin gc`.

Kafka deletes the beginning of a partition (DeleteRecords), so each partition of `data` is cut at
the least offset that is still needed. A batch is needed

- while a log has it: an index entry in the state, or in a sealed segment that the state names;
- while its event is not decided: it lies behind what the job has read of `requests`;
- while its event may still come: a gateway writes the bytes first, so young rows are all kept.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from brokertwin.kafka_io.locators import Locator
from brokertwin.state.core.outputs import SegmentKey
from brokertwin.state.core.records import Batch
from brokertwin.state.core.tables import Tables
from brokertwin.state.logs import log as logs

NOT_DECIDED = "requests that the job has not read"
YOUNG = "rows that are too young"

_LOCATOR = re.compile(rb'"locator"\s*:\s*"([^"]*)"')


class Need(NamedTuple):
    """A row of `data` that is still needed, and by whom, in words."""

    locator: Locator
    by: str


class Extent(NamedTuple):
    """A partition of `data`: its first offset, the first one that is too young, its end."""

    start: int
    young: int
    end: int


class Cut(NamedTuple):
    """What becomes of a partition of `data`: rows from `start` to `below` go, the rest stays.

    `held_by` says what keeps the first row that stays.
    """

    partition: int
    start: int
    below: int
    end: int
    held_by: str

    @property
    def freed(self) -> int:
        """How many rows go."""
        return self.below - self.start

    @property
    def kept(self) -> int:
        """How many rows stay."""
        return self.end - self.below


class NamedSegment(NamedTuple):
    """A sealed segment that a log names: the log's start offset, and the log in words."""

    log_start_offset: int
    by: str


class _SegmentRow(msgspec.Struct):
    """What is read of a row of `segments`."""

    batches: list[Batch]


_segment_decoder = msgspec.json.Decoder(_SegmentRow)


def plan(extents: Mapping[int, Extent], needs: Iterable[Need]) -> list[Cut]:
    """Where to cut each partition, so that nothing goes that is needed."""
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


def needed_by_logs(cluster: str, tables: Tables) -> Iterator[Need]:
    """What the index entries in the state name."""
    for broker, log in _logs(tables):
        by = _words(cluster, log)
        for batch in logs.batches_from(tables.logs, broker, log, log.log_start_offset):
            locator = Locator.of(batch.locator or "")
            if locator is not None:
                yield Need(locator, by)


def named_segments(cluster: str, tables: Tables) -> dict[SegmentKey, NamedSegment]:
    """The sealed segments that the state names; of several replicas the least log start counts."""
    found: dict[SegmentKey, NamedSegment] = {}
    for broker, log in _logs(tables):
        for segment in logs.sealed_segments(tables.logs, broker, log):
            key = SegmentKey(cluster, log.topic_id, log.partition, segment.base_offset)
            named = NamedSegment(log.log_start_offset, _words(cluster, log))
            found[key] = min(named, found.get(key, named))
    return found


def needed_by_segment(named: NamedSegment, row: bytes) -> Iterator[Need]:
    """What a row of `segments` names above the log's start."""
    for batch in _segment_decoder.decode(row).batches:
        locator = Locator.of(batch.locator or "")
        if locator is not None and batch.last_offset >= named.log_start_offset:
            yield Need(locator, named.by)


def needed_by_event(document: bytes) -> Iterator[Need]:
    """What an event names that the job has not read: every locator in it, whatever its kind."""
    for text in _LOCATOR.findall(document):
        locator = Locator.of(text.decode("utf-8", "replace"))
        if locator is not None:
            yield Need(locator, NOT_DECIDED)


def _logs(tables: Tables) -> Iterator[tuple[int, logs.Log]]:
    """Every log in the state, with its broker."""
    for key in tables.logs.keys(prefix=""):
        broker, kind, _ = key.split("/", 2)
        if kind == "log":
            log = tables.logs.get(key, logs.Log)
            assert log is not None
            yield int(broker), log


def _words(cluster: str, log: logs.Log) -> str:
    return f"{log.topic}-{log.partition} of {cluster}"
