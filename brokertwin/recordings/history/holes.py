"""Holes: stretches of a broker's log that are missing between others, as a lost rotated file.

Some requests are numbered without gaps, and the broker shows that it had each of them: it accepts a
fetch of a session only with the next epoch (KIP-227), and a broker's connection for heartbeats to
the controller has no other requests. So a jump between two accepted numbers proves that lines are
missing between the two responses. A fetcher's new session whose first fetches are missing shows the
same. If the log is silent for most of that time, all lines of the silence are missing; otherwise
some of all lines are, as in a sampled log. A silent log has a hole, too, if followers fetched from
its broker until then, while the broker's heartbeats went on.

What was open before a hole may have ended in it.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import pairwise
from statistics import median
from typing import NamedTuple

import msgspec

from brokertwin.recordings.history.bodies import follower_of
from brokertwin.recordings.history.exchange import RecordedExchange
from brokertwin.recordings.history.words import moment

HEARTBEAT = "BROKER_HEARTBEAT"

DENSE_S = 10
"""A log that had lines in each of so many seconds does not fall silent for long by itself."""

MISSED_MIN = 3
"""Numbers that are missing in a hole; fewer are some illegible lines, not a lost stretch."""

HEARTBEAT_MS = 2_600
"""In such a span, a broker that is there sends a heartbeat (`broker.heartbeat.interval.ms`, 2 s),
and a follower fetches (`replica.fetch.wait.max.ms`, 0.5 s)."""

RUNS_MAX = 1_000
"""Maximum number of runs of a sequence that are kept; more are a sampled log, all holes."""

NEAR = 20
"""Lines before and behind a silence that show how long others are."""

RARE = 6
"""How many times as long as the median one a silence without lines is at least."""

LINES_MAX = 4_000_000
"""Maximum number of lines of a log whose times are kept, 8 bytes each; the older half goes."""

SEQUENCES_MAX = 10_000
"""Maximum number of sequences that are followed; the oldest ones are forgotten."""


class Hole(NamedTuple):
    """A hole of the log of a broker, from the last response before it to the first one behind it.

    Times are in ms since 1970.
    """

    begin: int
    end: int
    broker: int

    def overlaps(self, others: "Iterable[Hole]") -> bool:
        """Whether it is in part one of others of the same log."""
        return any(
            each.broker == self.broker and each.begin < self.end and self.begin < each.end
            for each in others
        )


class Numbered(NamedTuple):
    """A request with a number.

    Attributes:
        sequence: the fetch session, or the connection for heartbeats.
        number: the place in it.
        fetcher: the client id of a follower's fetcher, which has one session at a time; else "".
        sender: the broker that sent a heartbeat, and is not shutting down; else below 0.
    """

    sequence: str
    number: int
    fetcher: str = ""
    sender: int = -1


def number_of(exchange: RecordedExchange, correlation_id: int) -> Numbered | None:
    """The number of a request; None if it has none."""
    line, request = exchange.line, exchange.request
    if line.api == HEARTBEAT:
        sender = -1 if request.get("wantShutDown") else request.get("brokerId", -1)
        return Numbered(line.connection, correlation_id, sender=sender)
    if line.api == "FETCH" and not exchange.response.get("errorCode"):
        session, epoch = request.get("sessionId", 0), request.get("sessionEpoch", -1)
        return session_number(session, epoch, line.client, follower_of(request))
    return None


def session_number(session: int, epoch: int, client: str, follower: int) -> Numbered | None:
    """The same of an accepted fetch; one that begins or ends a session has no number."""
    if not session or epoch <= 0:
        return None
    return Numbered(str(session), epoch, client if follower >= 0 else "")


class _Run(msgspec.Struct):
    """Numbers without gaps: the first and the last, and when their responses were sent."""

    first: int
    last: int
    begin: int
    end: int


class HoleFinder:
    """Finds holes from the numbers of requests, which may come in any order and several times."""

    def __init__(self) -> None:
        self._runs: dict[tuple[int, str], list[_Run]] = {}
        self._sessions: dict[tuple[int, str], dict[str, None]] = {}  # of a fetcher
        self._lines: dict[int, array[int]] = {}  # when a broker's responses were sent
        self._heartbeats: dict[int, array[int]] = {}  # of a broker, in any order
        self._jumps: set[Hole] = set()  # of forgotten sequences

    @classmethod
    def of(cls, exchanges: Iterable[tuple[RecordedExchange, int]]) -> "HoleFinder":
        """Take a whole recording: exchanges of clients and brokers, with correlation ids."""
        found = cls()
        for each, correlation_id in exchanges:
            found.note_line(each.line.broker, each.line.end)
            if numbered := number_of(each, correlation_id):
                found.note(each.line.broker, numbered, each.line.end)
        return found

    def note_line(self, broker: int, end: int) -> None:
        """Take a line of a broker's log; `end` is when the response was sent, in ms since 1970."""
        lines = self._lines.get(broker)
        if lines is None:
            lines = self._lines[broker] = array("q")
        lines.append(end)
        if len(lines) > LINES_MAX:
            del lines[: LINES_MAX // 2]

    def note(self, broker: int, numbered: Numbered, end: int) -> None:
        """Take a request with a number in the log of a broker."""
        key = broker, numbered.sequence
        runs = self._runs.get(key)
        if runs is None:
            runs = self._runs[key] = []
            if numbered.fetcher:
                self._sessions.setdefault((broker, numbered.fetcher), {})[numbered.sequence] = None
            if len(self._runs) > SEQUENCES_MAX:
                oldest = next(iter(self._runs))
                self._jumps.update(_between(oldest[0], self._runs.pop(oldest)))
        _add(runs, numbered.number, end)
        if len(runs) > RUNS_MAX:
            self._jumps.update(_between(broker, runs[:2]))
            del runs[0]
        if numbered.sender >= 0:
            self._heartbeats.setdefault(numbered.sender, array("q")).append(end)

    def holes(self) -> list[Hole]:
        """The holes so far, by their beginnings."""
        found: set[Hole] = set()
        jumps: dict[int, set[Hole]] = {}
        for each in self._jumps_so_far():
            jumps.setdefault(each.broker, set()).add(each)
        fetched: dict[int, list[int]] = {}
        for (broker, _), names in self._sessions.items():
            ends = (self._runs[broker, e][-1].end for e in names if (broker, e) in self._runs)
            fetched.setdefault(broker, []).extend(ends)
        for broker in jumps.keys() | fetched.keys() & self._heartbeats.keys():
            times = sorted(self._lines.get(broker, ()))
            found.update(filter(None, (_silence(times, each) for each in jumps.get(broker, ()))))
            found.update(self._silent(broker, times, fetched.get(broker, [])))
        return sorted(found)

    def _jumps_so_far(self) -> Iterator[Hole]:
        yield from self._jumps
        for (broker, _), runs in self._runs.items():
            yield from _between(broker, runs)
        for (broker, _), names in self._sessions.items():
            kept = [self._runs[broker, name] for name in names if (broker, name) in self._runs]
            for before, after in pairwise(sorted(kept, key=lambda runs: runs[0].begin)):
                last = _Run(0, 0, 0, before[-1].end)  # a session begins with 0
                yield from _between(broker, [last, after[0]])

    def _silent(
        self, broker: int, times: Sequence[int], fetched: Collection[int]
    ) -> Iterator[Hole]:
        """Silences of a broker that had followers, while its heartbeats went on."""
        for at, (begin, end) in enumerate(pairwise(times)):
            if end - begin <= 2 * HEARTBEAT_MS:
                continue
            is_fetched = any(begin - 1_000 <= each <= begin for each in fetched)
            since = bisect_left(times, begin - 1_000 * DENSE_S)
            seconds = {(begin - each) // 1_000 for each in times[since : at + 1]}
            beats = {(each - begin) // HEARTBEAT_MS for each in self._heartbeats.get(broker, ())}
            if is_fetched and len(seconds) >= DENSE_S and {0, 1} <= beats:
                yield Hole(begin, end, broker)


def _silence(times: Sequence[int], jump: Hole) -> Hole | None:
    """The silence in a jump of numbers; None if it is not most of it, or like others near it."""
    first, last = bisect_left(times, jump.begin), bisect_right(times, jump.end)
    begin, end = max(pairwise(times[first:last]), key=lambda span: span[1] - span[0])
    usual = [b - a for a, b in pairwise(times[max(0, first - NEAR) : last + NEAR])]
    is_most = 2 * (end - begin) >= jump.end - jump.begin
    is_rare = len(usual) >= NEAR // 2 and end - begin >= RARE * median(usual)
    return Hole(begin, end, jump.broker) if is_most and is_rare else None


def _add(runs: list[_Run], number: int, end: int) -> None:
    """Add a number to runs in order."""
    if runs and number - runs[-1].last in (0, 1):
        runs[-1].last, runs[-1].end = number, max(runs[-1].end, end)
        return
    at = bisect_right(runs, number, key=lambda run: run.first)
    before = runs[at - 1] if at else None
    if before is not None and number <= before.last + 1:
        if number >= before.last:
            before.last, before.end = number, max(before.end, end) if number == before.last else end
    elif at < len(runs) and number == runs[at].first - 1:
        runs[at].first, runs[at].begin = number, end
        return
    else:
        runs.insert(at, _Run(number, number, end, end))
        return
    if at < len(runs) and before.last == runs[at].first - 1:
        before.last, before.end = runs[at].last, runs[at].end
        del runs[at]


def _between(broker: int, runs: list[_Run]) -> Iterator[Hole]:
    for before, after in pairwise(runs):
        if after.first - before.last > MISSED_MIN and before.end < after.begin:
            yield Hole(before.end, after.begin, broker)


def spans_of(holes: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join holes that overlap: their beginnings and ends in order."""
    spans: list[tuple[int, int]] = []
    for begin, end in sorted(holes):
        if spans and begin <= spans[-1][1]:
            spans[-1] = spans[-1][0], max(spans[-1][1], end)
        else:
            spans.append((begin, end))
    return spans


def sentences(holes: Iterable[Hole]) -> list[str]:
    """What is not judged, and why: a sentence for each joined hole of a broker's log."""
    found: dict[int, list[tuple[int, int]]] = {}
    for begin, end, broker in holes:
        found.setdefault(broker, []).append((begin, end))
    return [
        f"The log of broker {broker} lacks lines from {moment(begin)} to {moment(end)}: it had"
        " requests then. Nothing of this time is judged, and all begins anew behind it."
        for broker, of_broker in sorted(found.items())
        for begin, end in spans_of(of_broker)
    ]
