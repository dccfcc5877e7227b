"""What would become of committed offsets that are to be written to a cluster, before they are.

A verdict for each partition, after what people have lost records to. An offset below the log's
start or past its end makes the consumer begin where `auto.offset.reset` says; one that goes back
has records read twice; a group with members overwrites what was written for it.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from brokertwin.state.groups.offset_records import OffsetKey


class OffsetVerdict(StrEnum):
    """What is said of one partition's offset."""

    FINE = "fine"
    THERE = "there already"
    BACK = "goes back"
    BEFORE_START = "before the log's start"
    PAST_END = "past the log's end"
    UNKNOWN = "no such partition"
    UNTRANSLATED = "no record to go by"
    HAS_MEMBERS = "the group has members"
    SHARES = "a share group"


class ClusterOffsets(NamedTuple):
    """What the target cluster has.

    Attributes:
        logs: partition to the start and the end of its log; those that it lacks are not in it.
        committed: what is committed there.
        with_members: groups that somebody is a member of.
        sharing: share groups, for which nobody can commit an offset (KIP-932).
    """

    logs: Mapping[tuple[str, int], tuple[int, int]]
    committed: Mapping[OffsetKey, int]
    with_members: frozenset[str]
    sharing: frozenset[str] = frozenset()


class OffsetStep(NamedTuple):
    """One partition's offset: what is wanted, what is there, and what is said of it.

    `wanted` is None where no offset of the target corresponds to the one given.
    """

    key: OffsetKey
    given: int
    wanted: int | None
    committed: int | None
    log: tuple[int, int] | None
    verdict: OffsetVerdict


def plan(
    wanted: Mapping[OffsetKey, tuple[int, int | None]], found: ClusterOffsets
) -> list[OffsetStep]:
    """A step for each offset, in the order of groups, topics and partitions.

    Args:
        wanted: whose offset it is, to the offset given and what that is in the target cluster.
        found: what the target cluster has.
    """
    steps = []
    for key in sorted(wanted):
        given, offset = wanted[key]
        log, committed = found.logs.get((key.topic, key.partition)), found.committed.get(key)
        verdict = _verdict(offset, committed, log, key.group in found.with_members)
        if key.group in found.sharing:
            verdict = OffsetVerdict.SHARES
        steps.append(OffsetStep(key, given, offset, committed, log, verdict))
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
    """Those that are written."""
    allowed = {OffsetVerdict.FINE, OffsetVerdict.BACK} if may_go_back else {OffsetVerdict.FINE}
    return [step for step in steps if step.verdict in allowed]
