"""Holes: missing stretches of a broker's log, such as a lost rotated file.

Some requests have consecutive numbers. A broker accepts a fetch of a session only with the next
epoch (KIP-227). A broker sends only heartbeats on its connection for heartbeats. So a jump between
two accepted numbers proves that lines are missing between the two responses. A new session of a
fetcher whose first fetches are missing proves it, too.

The hole is the silence of the log within the jump. If the log has lines in most of that time, it is
sampled, and has no hole. A silent log also has a hole if followers fetched from its broker until
then, and the broker went on to send heartbeats.

Transactions, sessions and generations that were open before a hole may have ended in it.
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
"""A log that had lines in each of so many seconds does not become silent by itself."""

MISSED_MIN = 3
"""Minimum of missing numbers; fewer are illegible lines, not a lost stretch."""

HEARTBEAT_MS = 2_600
"""A running broker sends a heartbeat in such a span (`broker.heartbeat.interval.ms`, 2 s), and a
follower fetches (`replica.fetch.wait.max.ms`, 0.5 s)."""

RUNS_MAX = 1_000
"""Maximum number of kept runs of a sequence; a sampled log has more."""

NEAR = 20
"""Number of lines before and after a silence that show the usual time between lines."""

RARE = 6
"""A hole is so many times as long as the median time between lines."""

LINES_MAX = 4_000_000
"""Maximum number of kept times of lines of a log, 8 bytes each; the older half is dropped."""

SEQUENCES_MAX = 10_000
"""Maximum number of sequences; the oldest one is dropped."""


class Hole(NamedTuple):
    """A hole in a broker's log: from the last response before it to the first one after it.

    Times are in ms since 1970.
    """

    begin: int
    end: int
    broker: int

    def overlaps(self, others: "Iterable[Hole]") -> bool:
        """Return whether it overlaps one of other holes in the same log."""
        return any(
            each.broker == self.broker and each.begin < self.end and self.begin < each.end
            for each in others
        )


class Numbered(NamedTuple):
    """A request with a number.

    Attributes:
        sequence: the fetch session, or the connection for heartbeats.
        number: the epoch, or the correlation id for heartbeats.
        fetcher: the client id of a follower's fetcher, which has one session at a time; else "".
        sender: the broker that sent a heartbeat without shutting down; else below 0.
    """

    sequence: str
    number: int
    fetcher: str = ""
    sender: int = -1


def number_of(exchange: RecordedExchange, correlation_id: int) -> Numbered | None:
    """Return the number of a request, or None."""
    line, request = exchange.line, exchange.request
    if line.api == HEARTBEAT:
        sender = -1 if request.get("wantShutDown") else request.get("brokerId", -1)
        return Numbered(line.connection, correlation_id, sender=sender)
    if line.api == "FETCH" and not exchange.response.get("errorCode"):
        session, epoch = request.get("sessionId", 0), request.get("sessionEpoch", -1)
        return session_number(session, epoch, line.client, follower_of(request))
    return None


def session_number(session: int, epoch: int, client: str, follower: int) -> Numbered | None:
    """Return the number of an accepted fetch, or None if it begins or ends a session."""
    if not session or epoch <= 0:
        return None
    return Numbered(str(session), epoch, client if follower >= 0 else "")


class _Run(msgspec.Struct):
    """Consecutive numbers: the first and the last, with the times of their responses in ms."""

    first: int
    last: int
    begin: int
    end: int


class HoleFinder:
    """Finds holes; requests may come in any order and several times."""

    def __init__(self) -> None:
        self._runs: dict[tuple[int, str], list[_Run]] = {}
        self._sessions: dict[tuple[int, str], dict[str, None]] = {}  # of a fetcher
        self._lines: dict[int, array[int]] = {}  # when a broker's responses were sent
        self._heartbeats: dict[int, array[int]] = {}  # of a broker, in any order
        self._jumps: set[Hole] = set()  # of forgotten sequences

    @classmethod
    def of(cls, exchanges: Iterable[tuple[RecordedExchange, int]]) -> "HoleFinder":
        """Take a whole recording: exchanges of clients and brokers with their correlation ids."""
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
        """Yield silences of a broker that had followers and continued to send heartbeats."""
        for at, (begin, end) in enumerate(pairwise(times)):
            is_long = end - begin > 2 * HEARTBEAT_MS
            if not is_long or not any(begin - 1_000 <= each <= begin for each in fetched):
                continue
            since = bisect_left(times, begin - 1_000 * DENSE_S)
            seconds = {(begin - each) // 1_000 for each in times[since : at + 1]}
            beats = {(each - begin) // HEARTBEAT_MS for each in self._heartbeats.get(broker, ())}
            if len(seconds) >= DENSE_S and {0, 1} <= beats:
                yield Hole(begin, end, broker)


def _silence(times: Sequence[int], jump: Hole) -> Hole | None:
    """Return the longest silence in a jump of numbers; None if it is short or usual."""
    first, last = bisect_left(times, jump.begin), bisect_right(times, jump.end)
    begin, end = max(  # there is none if the times of these lines were dropped
        pairwise(times[first:last]), key=lambda span: span[1] - span[0], default=(0, 0)
    )
    usual = [b - a for a, b in pairwise(times[max(0, first - NEAR) : last + NEAR])]
    is_most = 2 * (end - begin) >= jump.end - jump.begin
    is_rare = len(usual) >= NEAR // 2 and end - begin >= RARE * median(usual)
    return Hole(begin, end, jump.broker) if is_most and is_rare else None


def _add(runs: list[_Run], number: int, end: int) -> None:
    """Add a number to runs in order; a number of a run is a copy."""
    if runs and number == runs[-1].last + 1:
        runs[-1].last, runs[-1].end = number, end
        return
    at = bisect_right(runs, number, key=lambda run: run.first)
    before, after = runs[at - 1] if at else None, runs[at] if at < len(runs) else None
    if before is not None and number <= before.last:
        return
    if before is not None and number == before.last + 1:
        before.last, before.end = number, end
        if after is not None and number == after.first - 1:
            before.last, before.end = after.last, after.end
            del runs[at]
    elif after is not None and number == after.first - 1:
        after.first, after.begin = number, end
    else:
        runs.insert(at, _Run(number, number, end, end))


def _between(broker: int, runs: list[_Run]) -> Iterator[Hole]:
    for before, after in pairwise(runs):
        if after.first - before.last > MISSED_MIN and before.end < after.begin:
            yield Hole(before.end, after.begin, broker)


def spans_of(holes: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join overlapping holes; return their beginnings and ends in order."""
    spans: list[tuple[int, int]] = []
    for begin, end in sorted(holes):
        if spans and begin <= spans[-1][1]:
            spans[-1] = spans[-1][0], max(spans[-1][1], end)
        else:
            spans.append((begin, end))
    return spans


def sentences(holes: Iterable[Hole]) -> list[str]:
    """Return a sentence for each hole of a broker's log; overlapping ones are joined."""
    found: dict[int, list[tuple[int, int]]] = {}
    for begin, end, broker in holes:
        found.setdefault(broker, []).append((begin, end))
    return [
        f"The log of broker {broker} lacks lines from {moment(begin)} to {moment(end)}: it had"
        " requests then. Requests of this time are ignored, and all states start anew after it."
        for broker, of_broker in sorted(found.items())
        for begin, end in spans_of(of_broker)
    ]
