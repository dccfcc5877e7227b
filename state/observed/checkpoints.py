"""High watermarks that a broker wrote to its disk, held against those that the rule gives.

A broker writes `replication-offset-checkpoint` every few seconds
(`replica.high.watermark.checkpoint.interval.ms`), so an entry is a HW that it had shortly before. A
follower learns a leader's HW one fetch later. So an entry has to be one of the HWs that the rule
has given for the partition.

Followers fetch by topic id, so a recording may show a topic whose name nobody asked for. Where
there is just one, and just one name that is only in the checkpoints, that is its name.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from brokertwin.state.logs.checkpoint_files import Offsets
from brokertwin.state.observed.replication import WatermarkSample


class CheckedEntry(NamedTuple):
    """An entry of a broker's checkpoint; `why` is empty where the rule gives its HW."""

    broker: int
    topic: str
    partition: int
    offset: int
    why: str


def check(
    samples: Iterable[WatermarkSample],
    nameless: Collection[str],
    found: Sequence[tuple[int, Offsets]],
) -> list[CheckedEntry]:
    """Holds the entries of brokers' checkpoints against the HWs that were derived.

    Args:
        samples: what the observer found.
        nameless: the ids of topics whose names it has not found.
        found: broker and entries of each checkpoint.
    """
    had: dict[tuple[str, int], set[int]] = defaultdict(set)
    for sample in samples:
        had[sample.topic, sample.partition].add(sample.high_watermark)
    unseen = {topic for _, entries in found for topic, _ in entries} - {topic for topic, _ in had}
    ids = dict(zip(unseen, nameless, strict=True)) if len(unseen) == len(nameless) == 1 else {}
    return [
        CheckedEntry(
            broker,
            topic,
            partition,
            offset,
            _why(had.get((ids.get(topic, topic), partition)), offset),
        )
        for broker, entries in found
        for (topic, partition), offset in entries.items()
    ]


def _why(had: set[int] | None, offset: int) -> str:
    if offset == 0:
        return ""
    if had is None:
        return "nothing of the partition is in the recording"
    if offset in had:
        return ""
    return "beyond the recording" if offset > max(had) else "no high watermark by the rule"
