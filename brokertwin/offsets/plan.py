"""Verdicts on offsets before they are committed to another cluster.

They cover known causes of loss. A consumer with an offset outside of the log starts at
`auto.offset.reset`. A lower offset repeats records. A group with members overwrites the offset.
"""

from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import NamedTuple

from brokertwin.state.groups.offset_records import OffsetKey


class OffsetVerdict(StrEnum):
    FINE = "fine"
    THERE = "there already"
    BACK = "goes back"
    BEFORE_START = "before the log's start"
    PAST_END = "past the log's end"
    UNKNOWN = "no such partition"
    UNTRANSLATED = "no record at the source offset"
    BEGINS_LATER = "the target begins after the record"
    HAS_MEMBERS = "the group has members"
    SHARES = "a share group"


WRITTEN = frozenset({OffsetVerdict.FINE, OffsetVerdict.BACK})


class ClusterOffsets(NamedTuple):
    """State of the target cluster.

    Attributes:
        logs: start and end of each log, by existing partition.
        sharing: share groups, which have no committed offsets (KIP-932).
    """

    logs: Mapping[tuple[str, int], tuple[int, int]]
    committed: Mapping[OffsetKey, int]
    with_members: frozenset[str]
    sharing: frozenset[str] = frozenset()


class OffsetStep(NamedTuple):
    """One partition's offset, with the target's state and a verdict.

    `wanted` is None if no offset of the target corresponds to the given one.
    """

    key: OffsetKey
    given: int
    wanted: int | None
    committed: int | None
    log: tuple[int, int] | None
    verdict: OffsetVerdict


def plan(
    targets: Mapping[OffsetKey, tuple[int, int | None]],
    offsets: ClusterOffsets,
    skipping: Collection[OffsetKey] = (),
) -> list[OffsetStep]:
    """A step for each offset, in the order of groups, topics and partitions.

    Args:
        targets: the given offset and its counterpart in the target cluster, by key.
        offsets: those of the target cluster.
        skipping: keys whose next record is older than the first one of the target.
    """
    steps = []
    for key in sorted(targets):
        target, offset = targets[key]
        log, committed = offsets.logs.get((key.topic, key.partition)), offsets.committed.get(key)
        verdict = _verdict(offset, committed, log, key.group in offsets.with_members)
        if key in skipping and verdict in WRITTEN:
            verdict = OffsetVerdict.BEGINS_LATER
        if key.group in offsets.sharing:
            verdict = OffsetVerdict.SHARES
        steps.append(OffsetStep(key, target, offset, committed, log, verdict))
    return steps


def _verdict(
    offset: int | None, committed: int | None, log: tuple[int, int] | None, has_members: bool
) -> OffsetVerdict:
    if log is None:
        return OffsetVerdict.UNKNOWN
    if offset is None:
        return OffsetVerdict.UNTRANSLATED
    if offset == committed:
        return OffsetVerdict.THERE
    if has_members:
        return OffsetVerdict.HAS_MEMBERS
    start, end = log
    if not start <= offset <= end:
        return OffsetVerdict.BEFORE_START if offset < start else OffsetVerdict.PAST_END
    return (
        OffsetVerdict.BACK if committed is not None and offset < committed else OffsetVerdict.FINE
    )


def to_write(steps: list[OffsetStep], may_go_back: bool) -> list[OffsetStep]:
    allowed = WRITTEN if may_go_back else {OffsetVerdict.FINE}
    return [step for step in steps if step.verdict in allowed]
