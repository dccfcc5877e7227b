"""Committing offsets to a cluster: check each partition, write, read back."""

from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from brokertwin.cli.output import say, show_rows, warn
from brokertwin.wording import counted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from brokertwin.cli.offsets.offset_sources import OffsetSource
    from brokertwin.kafka_io.kafka_clients import ClientProperties
    from brokertwin.offsets.plan import OffsetStep
    from brokertwin.state.groups.offset_records import OffsetKey

INCOMPLETE = 1
BY_TIME = "--by-time HOST:PORT of the source cluster finds each record by its time."


class Restore(NamedTuple):
    """A commit of offsets to a cluster.

    Attributes:
        records_at: the cluster of the offsets, if they are translated by record timestamps.
        may_go_back: allow offsets below those already committed.
    """

    target: "ClientProperties"
    records_at: "ClientProperties | None"
    may_go_back: bool
    is_dry: bool

    def run(self, committed: "Mapping[OffsetKey, int]", as_json: bool) -> int:
        """Check and write the offsets; returns the exit code."""
        from brokertwin.offsets import group_offsets
        from brokertwin.offsets import plan as offset_plan

        found = group_offsets.found(self.target, committed)
        steps = offset_plan.plan(self._translated(committed, set(found.logs)), found)
        chosen = offset_plan.to_write(steps, self.may_go_back)
        wrong = {} if self.is_dry else self._write(chosen)
        _show(steps, wrong, as_json)
        refused = [
            step
            for step in steps
            if step not in chosen and step.verdict is not offset_plan.OffsetVerdict.THERE
        ]
        written = counted(len(chosen) - len(wrong), "offset")
        left = len(refused) + len(wrong)
        what = "would be written" if self.is_dry else "written"
        say(f"{written} {what}, {left} refused, {len(steps)} in total")
        for key, why in wrong.items():
            warn(f"{key.group} {key.topic}-{key.partition}: {why}")
        return INCOMPLETE if left else 0

    def _write(self, chosen: "list[OffsetStep]") -> "dict[OffsetKey, str]":
        from brokertwin.offsets import group_offsets

        wrong: dict[OffsetKey, str] = {}
        for group, steps in groupby(chosen, key=lambda step: step.key.group):
            wrong |= group_offsets.write(self.target, group, list(steps))
        return wrong

    def _translated(
        self, committed: "Mapping[OffsetKey, int]", there: "set[tuple[str, int]]"
    ) -> "dict[OffsetKey, tuple[int, int | None]]":
        """Return each offset as given and its value at the target.

        By time, it is the first record at the target that is not older than the next record to
        read, so that no record is skipped; records of the same millisecond can be read again.
        """
        from brokertwin.offsets import group_offsets

        if self.records_at is None:
            return {key: (offset, offset) for key, offset in committed.items()}
        wanted: dict[OffsetKey, tuple[int, int | None]] = {}
        for _, keys in groupby(sorted(committed), key=lambda key: key.group):
            places = {(key.topic, key.partition): key for key in keys}
            here = {at: committed[key] for at, key in places.items() if at in there}
            times = group_offsets.timestamps(self.records_at, here)
            found = group_offsets.at_timestamps(self.target, times)
            wanted |= {key: (committed[key], found.get(at)) for at, key in places.items()}
        return wanted


def warn_of_other_logs(
    source: "OffsetSource", target: "ClientProperties", committed: "Mapping[OffsetKey, int]"
) -> None:
    """Warn if offsets of one cluster are to be committed to another one whose logs differ.

    The cluster of a file's offsets is unknown. Raises UserError if a cluster does not respond.
    """
    from brokertwin.offsets import group_offsets

    cluster = source.cluster_id()
    if cluster is None or cluster == group_offsets.cluster_id(target):
        return
    if not source.is_cluster:
        warn(
            f"The offsets are of cluster {cluster}, and {target.bootstrap} is another one: the same"
            f" offset may be another record there. {BY_TIME}"
        )
        return
    places = {(key.topic, key.partition) for key in committed}
    here, there = (group_offsets.logs(each, places) for each in (source.client(), target))
    differing = sorted(place for place in here.keys() & there.keys() if here[place] != there[place])
    if differing:
        (topic, number), count = differing[0], len(differing)
        spans = [f"{first}..{last}" for first, last in (here[topic, number], there[topic, number])]
        warn(
            f"The logs of {count} partition{'s' * (count > 1)} differ: {topic}-{number} has offsets"
            f" {spans[0]} at {source.text} and {spans[1]} at {target.bootstrap}. The same offset"
            f" may be another record there. {BY_TIME}"
        )


def _show(steps: "list[OffsetStep]", wrong: "Mapping[OffsetKey, str]", as_json: bool) -> None:
    columns = ("group", "topic", "partition", "offset", "target", "committed", "log", "verdict")
    rows = [
        (
            *(step.key.group, step.key.topic, step.key.partition),
            *(step.given, step.wanted, step.committed),
            None if step.log is None else f"{step.log[0]}..{step.log[1]}",
            wrong.get(step.key, step.verdict.value),
        )
        for step in steps
    ]
    show_rows(columns, rows, as_json)
