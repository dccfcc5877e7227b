"""Findings about lag: groups whose committed offsets fall behind the high watermark.

The lag at a commit lies between two bounds: by the high watermark (HW) that was told last before
it, and by the one that was told first after it. A group has committed beyond the log end if both
are negative. The lag has grown where the lower bound of a later
commit is above the upper bound of an earlier one; so a HW that is not recorded makes it smaller.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

from brokertwin.recordings.audit.commits import Commit, commits
from brokertwin.recordings.audit.finding import Evidence, Finding, Severity
from brokertwin.recordings.audit.history import History
from brokertwin.recordings.replay.recording import Exchange
from brokertwin.recordings.rules import Rule

GROWTH = 1_000
"""Records by which a lag has to grow to be a finding."""

LATEST = -1
"""The timestamp by which ListOffsets asks for the end."""

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
    " was set by hand, and for a log that was truncated or created anew.",
)


class Run:
    """The high watermarks of a partition that leaders told, none less than one before it.

    Attributes:
        asked: when each was asked for, in ms since 1970.
        answered: when it had been answered; in order.
        told: the HWs.
    """

    def __init__(self) -> None:
        self.asked: list[int] = []
        self.answered: list[int] = []
        self.told: list[int] = []

    def add(self, exchange: Exchange, high_watermark: int) -> None:
        """One more."""
        self.asked.append(exchange.time)
        self.answered.append(exchange.end)
        self.told.append(high_watermark)

    def before(self, time: int) -> int | None:
        """What was told last before a time."""
        count = bisect_right(self.answered, time)
        return self.told[count - 1] if count else None

    def after(self, time: int) -> int | None:
        """What was told first by an answer that was asked for after a time."""
        for number in range(bisect_left(self.answered, time), len(self.told)):
            if self.asked[number] >= time:
                return self.told[number]
        return None


class Point(NamedTuple):
    """A commit with the bounds of the lag, None where nobody told a HW."""

    commit: Commit
    least: int | None
    most: int | None


def runs(history: History) -> dict[tuple[str, int], list[Run]]:
    """The HWs of each partition; where one goes back, by a new leader, a new run begins."""
    found: dict[tuple[str, int], list[Run]] = defaultdict(lambda: [Run()])
    for exchange, place, value in _told(history):
        run = found[place][-1]
        if run.told and value < run.told[-1]:
            if exchange.time <= run.answered[-1]:
                continue  # two answers at once have no order
            found[place].append(Run())
        found[place][-1].add(exchange, value)
    return found


def _told(history: History) -> Iterator[tuple[Exchange, tuple[str, int], int]]:
    for exchange, body in history.of("FETCH", "LIST_OFFSETS"):
        answer, is_fetch = exchange.response or {}, exchange.api == "FETCH"
        latest = None if is_fetch else _latest(history, body)
        for topic in answer.get("responses" if is_fetch else "topics") or ():
            for each in topic["partitions"]:
                place = history.topic(topic), each["partitionIndex"]
                value = each.get("highWatermark" if is_fetch else "offset", -1)
                if not each["errorCode"] and value >= 0 and (latest is None or place in latest):
                    yield exchange, place, value


def _latest(history: History, body: Any) -> set[tuple[str, int]]:
    """The partitions whose end a ListOffsets asks for, up to the HW."""
    if body.get("isolationLevel"):
        return set()
    return {
        (history.topic(topic), each["partitionIndex"])
        for topic in body.get("topics") or ()
        for each in topic["partitions"]
        if each["timestamp"] == LATEST
    }


def points(history: History) -> dict[tuple[str, str, int], list[list[Point]]]:
    """The lag at each commit, by group and partition, and by run of the partition's HWs."""
    high_watermarks = runs(history)
    found: dict[tuple[str, str, int], list[list[Point]]] = {}
    for commit in commits(history):
        of_place = high_watermarks.get((commit.topic, commit.partition), [Run()])
        time = commit.line.time
        begun = [n for n, run in enumerate(of_place) if run.told and run.asked[0] <= time]
        number = begun[-1] if begun else 0
        run = of_place[number]
        least, most = run.before(time), run.after(commit.line.end)
        point = Point(
            commit,
            least - commit.offset if least is not None else None,
            most - commit.offset if most is not None else None,
        )
        found.setdefault(commit.place, [[] for _ in of_place])[number].append(point)
    return found


def grown(history: History) -> Iterator[Finding]:
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
            yield Finding(
                "lag-growing",
                Severity.WARNING,
                f"group {group} in {topic}-{partition}",
                f"The lag grew by {grew} records, from {low} to {high}.",
                RULE,
                evidence,
            )


def beyond_end(history: History) -> Iterator[Finding]:
    """Groups that committed more than the leader had: the lag is negative by both bounds."""
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
            yield Finding(
                "commit-beyond-end",
                Severity.WARNING,
                f"group {group} in {topic}-{partition}",
                f"Committed beyond the log end; the lag was {lowest}.",
                BEYOND_END,
                evidence,
            )


FINDERS = (grown, beyond_end)
