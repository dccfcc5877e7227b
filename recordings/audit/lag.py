"""Findings about lag: groups whose committed offsets fall behind the high watermark.

The lag at a commit is between two bounds: from the last high watermark (HW) before it, and from the
first HW after it. If both are negative, the group committed beyond the log end. The lag has grown
if the lower bound of a later commit is above the upper bound of an earlier one. So a HW that is not
recorded never makes the lag greater.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

from brokertwin.recordings.audit.commits import AcceptedCommit, commits
from brokertwin.recordings.audit.finding import AuditFinding, Evidence, Severity
from brokertwin.recordings.audit.history import History
from brokertwin.recordings.history.exchange import RecordedRequest
from brokertwin.recordings.rules import Rule

GROWTH = 1_000
"""Records by which a lag has to grow for a finding."""

LATEST = -1
"""The timestamp of ListOffsets for the end of the log."""

RULE = Rule(
    "The lag of a group is the high watermark less the committed offset.",
    "Metrics records-lag-max; kafka-consumer-groups --describe",
    "Consumers commit less than is written: add some (up to the partitions), look at how long they"
    " take for a poll, and at rebalances.",
)

BEYOND_END = Rule(
    "A group may commit any offset; a broker does not compare it with the log end.",
    "OffsetMetadataManager.commitOffset",
    "Consumers that start there apply auto.offset.reset, or skip records. Look for an offset that"
    " was set by hand, and for a log that was truncated or created again.",
)


class WatermarkRun:
    """The high watermarks of a partition in responses, none less than one before it.

    Attributes:
        asked: arrivals of the requests, in ms since 1970.
        answered: times of the responses, in order.
        told: the HWs.
    """

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.answered: list[int] = []
        self.told: list[int] = []

    def add(self, line: RecordedRequest, high_watermark: int) -> None:
        """Add a high watermark."""
        self.asked.append(line.time)
        self.answered.append(line.end)
        self.told.append(high_watermark)

    def before(self, time: int) -> int | None:
        """The last HW in a response before a time."""
        count = bisect_right(self.answered, time)
        return self.told[count - 1] if count else None

    def after(self, time: int) -> int | None:
        """The first HW whose request arrived after a time."""
        for number in range(bisect_left(self.answered, time), len(self.told)):
            if self.asked[number] >= time:
                return self.told[number]
        return None


class LagPoint(NamedTuple):
    """A commit with the bounds of the lag; None if no HW is recorded."""

    commit: AcceptedCommit
    least: int | None
    most: int | None


def runs(history: History) -> dict[tuple[str, int], list[WatermarkRun]]:
    """The HWs of each partition; a HW that goes back, with a new leader, begins a run."""
    found: dict[tuple[str, int], list[WatermarkRun]] = defaultdict(lambda: [WatermarkRun()])
    for line, place, value in _told(history):
        run = found[place][-1]
        if run.told and value < run.told[-1]:
            if line.time <= run.answered[-1]:
                continue  # two responses at once have no order
            found[place].append(WatermarkRun())
        found[place][-1].add(line, value)
    return found


def _told(history: History) -> Iterator[tuple[RecordedRequest, tuple[str, int], int]]:
    """The high watermarks in responses, with their partitions."""
    for exchange in history.of("FETCH", "LIST_OFFSETS"):
        answer, is_fetch = exchange.response, exchange.line.api == "FETCH"
        latest = None if is_fetch else _latest(history, exchange.request)
        for topic in answer.get("responses" if is_fetch else "topics") or ():
            for each in topic["partitions"]:
                place = history.topic(topic), each["partitionIndex"]
                value = each.get("highWatermark" if is_fetch else "offset", -1)
                if not each["errorCode"] and value >= 0 and (latest is None or place in latest):
                    yield exchange.line, place, value


def _latest(history: History, body: Any) -> set[tuple[str, int]]:
    """The partitions of a ListOffsets for the high watermark."""
    if body.get("isolationLevel"):
        return set()
    return {
        (history.topic(topic), each["partitionIndex"])
        for topic in body.get("topics") or ()
        for each in topic["partitions"]
        if each["timestamp"] == LATEST
    }


def points(history: History) -> dict[tuple[str, str, int], list[list[LagPoint]]]:
    """The lag at each commit, by group and partition, and by run of the partition's HWs."""
    high_watermarks = runs(history)
    found: dict[tuple[str, str, int], list[list[LagPoint]]] = {}
    for commit in commits(history):
        of_place = high_watermarks.get((commit.topic, commit.partition), [WatermarkRun()])
        time = commit.line.time
        begun = [n for n, run in enumerate(of_place) if run.told and run.asked[0] <= time]
        number = begun[-1] if begun else 0
        run = of_place[number]
        least, most = run.before(time), run.after(commit.line.end)
        point = LagPoint(
            commit,
            least - commit.offset if least is not None else None,
            most - commit.offset if most is not None else None,
        )
        found.setdefault(commit.place, [[] for _ in of_place])[number].append(point)
    return found


def grown(history: History) -> Iterator[AuditFinding]:
    """Groups whose lag in a partition grew by `GROWTH` records."""
    for (group, topic, partition), found in points(history).items():
        evidence: list[Evidence] = []
        worst = (0, 0, 0)
        for run in found:
            lowest: int | None = None
            for point in run:
                if lowest is not None and point.least is not None:
                    worst = max(worst, (point.least - lowest, lowest, point.least))
                    if point.least - lowest >= GROWTH:
                        said = f"committed {point.commit.offset}, at least {point.least} behind"
                        evidence.append(Evidence.at(point.commit.line, said))
                if point.most is not None and (lowest is None or point.most < lowest):
                    lowest = point.most
        if evidence:
            grew, low, high = worst
            yield AuditFinding(
                "lag-growing",
                Severity.WARNING,
                f"group {group} in {topic}-{partition}",
                f"The lag grew by {grew} records, from {low} to {high}.",
                RULE,
                evidence,
            )


def beyond_end(history: History) -> Iterator[AuditFinding]:
    """Groups that committed beyond the log end: the lag is negative by both bounds."""
    for (group, topic, partition), found in points(history).items():
        evidence: list[Evidence] = []
        lowest = 0
        for point in (point for run in found for point in run):
            if point.least is None or point.most is None or point.most >= 0:
                continue
            lowest = min(lowest, point.most)
            said = f"committed {point.commit.offset}, {-point.most} beyond the log end"
            evidence.append(Evidence.at(point.commit.line, said))
        if evidence:
            yield AuditFinding(
                "commit-beyond-end",
                Severity.WARNING,
                f"group {group} in {topic}-{partition}",
                f"Committed beyond the log end; the lag was {lowest}.",
                BEYOND_END,
                evidence,
            )


FINDERS = (grown, beyond_end)
