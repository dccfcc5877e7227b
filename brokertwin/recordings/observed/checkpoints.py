"""Compares high watermarks in brokers' checkpoint files with derived ones.

A broker writes `replication-offset-checkpoint` every few seconds
(`replica.high.watermark.checkpoint.interval.ms`), so an entry is a recent HW. A follower gets a
leader's HW one fetch later. So an entry must be one of the HWs derived for the partition.

Followers fetch by topic id, so a recording may lack a topic's name. If there is one such topic, and
one name that only the checkpoints have, they belong together.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from brokertwin.recordings.history.findings import WatermarkSample
from brokertwin.state.logs.checkpoint_files import Offsets


class CheckedEntry(NamedTuple):
    """An entry of a broker's checkpoint; `why` is empty if the HW was derived, too."""

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
    """Compare checkpoint entries with derived HWs.

    Args:
        samples: the observer's samples.
        nameless: ids of topics without a name.
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
        return "the partition is not in the recording"
    if offset in had:
        return ""
    return "beyond the recording" if offset > max(had) else "not a derived high watermark"
