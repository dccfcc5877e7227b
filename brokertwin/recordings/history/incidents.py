"""Incidents: a broker that was gone, and the findings that follow from it.

A broker is gone if it left in-sync sets or its partitions got other leaders, and nothing was heard
of it for longer than usual. Signs of life of a broker are its heartbeats and registrations, its
fetches, and the responses in its own log. If the recording lacks these signs, no incident is
reported, and the findings stand for themselves.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, MutableSequence, Sequence
from itertools import pairwise
from typing import NamedTuple

from brokertwin.protocol.errors import Error
from brokertwin.recordings.history.bodies import follower_of
from brokertwin.recordings.history.exchange import RecordedExchange, RecordedRequest
from brokertwin.recordings.history.findings import (
    BrokerGone,
    Certainty,
    Finding,
    Incident,
    IsrGrew,
    IsrShrank,
    LeaderChanged,
    Refused,
    SessionEvicted,
    SessionLost,
    Severity,
    ShareSessionLost,
    UnderMinIsr,
)

HEARTBEATS = frozenset({"BROKER_HEARTBEAT", "BROKER_REGISTRATION"})

SILENT_MS = 2_500.0
"""How long nothing may be heard of a broker that is there (`broker.heartbeat.interval.ms`, 2 s)."""

USUAL_MS = 60_000.0
"""The span before a silence in which the usual ones are measured."""

USUAL = 2.0
"""A silence that is so many times as long as the median one shows that a broker was gone."""

BEFORE_MS = 30_000.0
"""How long after the last sign of a broker a change of its partitions may come: the controller's
`broker.session.timeout.ms` is 9 s, `replica.lag.time.max.ms` 30 s."""

EARLY_MS = 1_000.0
"""How much earlier than at the controller another broker's log may show what follows."""

AFTER_MS = 30_000.0
"""How long after the return of a broker refusals may follow from it."""

ELECTED_MS = 330_000.0
"""How long after that the preferred leader may be elected
(`leader.imbalance.check.interval.seconds`, 300 s)."""

SIGNS_MAX = 1_000_000
"""Maximum number of signs of a broker of each sort. Beyond it, those of the older half are left out
that are less than `THINNED_MS` from others, and then the oldest: earlier absences are unknown."""

THINNED_MS = 1_000.0
"""Less than `SILENT_MS`: no silence appears or disappears. Without heartbeats, the usual silence in
the older half is longer than it was."""

RESTART = frozenset(
    {
        *(Error.NOT_LEADER_OR_FOLLOWER, Error.FENCED_LEADER_EPOCH, Error.UNKNOWN_LEADER_EPOCH),
        *(Error.LEADER_NOT_AVAILABLE, Error.REPLICA_NOT_AVAILABLE, Error.BROKER_NOT_AVAILABLE),
        *(Error.COORDINATOR_LOAD_IN_PROGRESS, Error.COORDINATOR_NOT_AVAILABLE),
        *(Error.NOT_COORDINATOR, Error.NOT_CONTROLLER, Error.REQUEST_TIMED_OUT),
        *(Error.OFFSET_NOT_AVAILABLE, Error.NETWORK_EXCEPTION),
        *(Error.PREFERRED_LEADER_NOT_AVAILABLE, Error.ELIGIBLE_LEADERS_NOT_AVAILABLE),
    }
)
"""Errors that may follow from a broker that comes or goes."""


class BrokerSigns(NamedTuple):
    """When signs of a broker were seen, sorted, in ms since 1970.

    Attributes:
        heartbeats: those at the controller.
        shutdowns: heartbeats that wanted a controlled shutdown.
        registrations: when it registered.
        fenced: registrations, and heartbeats by which it learned that it is fenced.
    """

    all: MutableSequence[float]
    heartbeats: MutableSequence[float]
    shutdowns: MutableSequence[float]
    registrations: MutableSequence[float]
    fenced: MutableSequence[float]


class Signs:
    """Gathers the signs of life of all brokers, in any order."""

    def __init__(self) -> None:
        self._found: dict[int, BrokerSigns] = {}

    def take(self, exchange: RecordedExchange) -> None:
        """Take an exchange of a client, a broker or a controller."""
        api, line = exchange.line.api, exchange.line
        if api in HEARTBEATS:
            of = self._of(int(exchange.request.get("brokerId", -1)))
            of.all.append(line.time)
            of.heartbeats.append(line.time)
            if exchange.request.get("wantShutDown"):
                of.shutdowns.append(line.time)
            if not exchange.code:
                if api == "BROKER_REGISTRATION":
                    of.registrations.append(line.time)
                if api == "BROKER_REGISTRATION" or exchange.response.get("isFenced"):
                    of.fenced.append(line.time)
        elif api == "FETCH" and (follower := follower_of(exchange.request)) >= 0:
            self._of(follower).all.append(line.time)
        if not exchange.is_internal:
            self._of(line.broker).all.append(exchange.made or line.end)

    @property
    def by_broker(self) -> Mapping[int, BrokerSigns]:
        return {broker: BrokerSigns(*map(sorted, of)) for broker, of in self._found.items()}

    def _of(self, broker: int) -> BrokerSigns:
        signs = self._found.get(broker)
        if signs is None:
            signs = self._found[broker] = BrokerSigns(*(array("d") for _ in BrokerSigns._fields))
        if len(signs.all) >= SIGNS_MAX or len(signs.heartbeats) >= SIGNS_MAX:
            _bound(signs)
        return signs


def _bound(signs: BrokerSigns) -> None:
    bounded = [_thinned(sorted(times)) for times in signs]
    since = max((kept[0] for kept, is_cut in bounded if is_cut), default=0.0)
    for times, (kept, _) in zip(signs, bounded, strict=True):
        times[:] = array("d", (time for time in kept if time >= since))


def _thinned(times: Sequence[float]) -> tuple[Sequence[float], bool]:
    """Thin out the older half of too many times; return whether the oldest are left out, too."""
    if len(times) < SIGNS_MAX:
        return times, False
    middle = len(times) // 2
    old = [times[0]]
    for time, following in pairwise(times[: middle + 1]):
        if following - old[-1] >= THINNED_MS and time > old[-1]:
            old.append(time)
    kept = old[-(SIGNS_MAX // 4) :]
    return [*kept, *times[middle:]], len(kept) < len(old)


class _Absence(NamedTuple):
    last_sign: float
    back: float | None
    asked: float | None
    certainty: Certainty


class _Open(NamedTuple):
    root: BrokerGone
    consequences: list[Finding]


def incidents(
    findings: Sequence[Finding], signs: Mapping[int, BrokerSigns], end: float
) -> list[Incident]:
    """The incidents that findings show.

    Args:
        findings: of replication, clients, partitions and sessions.
        signs: of the brokers.
        end: the end of the recording, in ms since 1970.
    """
    found: dict[tuple[int, float], _Open] = {}
    beats = sorted(time for each in signs.values() for time in each.heartbeats)
    for each in sorted(findings, key=_time):
        for broker in _suspects(each):
            absence = _absence(_time(each), signs.get(broker), beats, end)
            if absence is None:
                continue
            key = broker, absence.last_sign
            if key not in found:
                root = BrokerGone(
                    line=each.line,
                    severity=Severity.WARNING if absence.asked is None else Severity.INFO,
                    certainty=absence.certainty,
                    client="",
                    broker=broker,
                    last_sign=absence.last_sign,
                    back=absence.back,
                    asked=absence.asked,
                )
                found[key] = _Open(root, [])
    opened = list(found.values())
    shrunk = {(e.partition, e.broker) for e in findings if isinstance(e, IsrShrank)}
    for each in findings:
        of = [one for one in opened if _follows(each, one.root, end)]
        if isinstance(each, UnderMinIsr):
            left = {broker for partition, broker in shrunk if partition == each.partition}
            of = [one for one in of if not left or one.root.broker in left]
        if of:
            max(of, key=lambda one: one.root.last_sign).consequences.append(each)
    return [Incident(root, tuple(sorted(more, key=_time))) for root, more in opened]


def _time(finding: Finding) -> float:
    if isinstance(finding, LeaderChanged | IsrShrank | IsrGrew):
        return finding.time
    return finding.line.time


def _suspects(finding: Finding) -> Iterator[int]:
    """The brokers whose absence may be the cause of a change."""
    if isinstance(finding, IsrShrank):
        yield finding.broker
    elif isinstance(finding, LeaderChanged) and finding.former >= 0:
        yield finding.former


def _absence(
    time: float, signs: BrokerSigns | None, beats: Sequence[float], end: float
) -> _Absence | None:
    """The silence of a broker about a change of its partitions; None if it was there.

    If the controller receives no heartbeats (`beats`) of any broker, other signs count.
    """
    if signs is None or not signs.all:
        return None
    stops = [each for each in signs.shutdowns if each - SILENT_MS <= time <= each + BEFORE_MS]
    if stops:
        return _shutdown(stops[0], signs)
    times = signs.heartbeats or signs.all
    at = bisect_left(times, time - BEFORE_MS)
    for number in range(max(at - 1, 0), len(times)):
        last = times[number]
        if last > time:
            return None
        if _has(signs.fenced, last):
            continue  # it is not back yet
        back = times[number + 1] if number + 1 < len(times) else None
        until = back if back is not None else end
        if until < time - SILENT_MS or until - last <= SILENT_MS:
            continue
        if not _has_any(beats, last, until) and _has_any(signs.all, last, until):
            continue
        first = bisect_left(times, last - USUAL_MS)
        silences = sorted(b - a for a, b in pairwise(times[first : number + 1]))
        if silences and until - last >= USUAL * silences[len(silences) // 2]:
            certainty = Certainty.SEEN if signs.heartbeats else Certainty.DERIVED
            return _Absence(_last_sign(signs, last, back), back, None, certainty)
    return None


def _has_any(times: Sequence[float], last: float, until: float) -> bool:
    """Return whether a time is well within a silence."""
    return bisect_right(times, last + SILENT_MS) < bisect_left(times, until - SILENT_MS)


def _has(times: Sequence[float], time: float) -> bool:
    at = bisect_left(times, time)
    return at < len(times) and times[at] == time


def _last_sign(signs: BrokerSigns, last: float, back: float | None) -> float:
    """The last of all signs before a silence of the heartbeats, if the others stop, too."""
    number = bisect_right(signs.all, last + SILENT_MS)
    later = signs.all[number - 1] if number else last
    return max(last, later) if back is None or later < back else last


def _shutdown(asked: float, signs: BrokerSigns) -> _Absence:
    """The absence after a request for a controlled shutdown; back is its next registration."""
    after = [each for each in signs.registrations if each > asked]
    back = after[0] if after else None
    until = back if back is not None else float("inf")
    first, number = bisect_left(signs.all, asked), bisect_right(signs.all, until)
    spans = [(b - a, a) for a, b in pairwise(signs.all[first:number])]
    last = max(spans)[1] if spans and back is not None else signs.all[number - 1]
    return _Absence(last, back, asked, Certainty.SEEN)


def _follows(finding: Finding, root: BrokerGone, end: float) -> bool:
    time, begin = _time(finding), root.last_sign if root.asked is None else root.asked - EARLY_MS
    back = root.back if root.back is not None else end
    if isinstance(finding, IsrShrank | IsrGrew):
        return finding.broker == root.broker and begin <= time <= back + AFTER_MS
    if isinstance(finding, LeaderChanged):
        if finding.leader == root.broker:
            return root.back is not None and root.back <= time <= back + ELECTED_MS
        return finding.former == root.broker and begin <= time <= back + AFTER_MS
    if isinstance(finding, UnderMinIsr):
        return root.last_sign <= time <= back + AFTER_MS
    if isinstance(finding, Refused):
        return finding.code in RESTART and begin <= time <= back + AFTER_MS
    if isinstance(finding, SessionLost):
        return _is_of_restart(finding.line, root) and any(
            isinstance(why, SessionEvicted) and why.used.time <= root.last_sign
            for why in finding.causes
        )
    return isinstance(finding, ShareSessionLost) and _is_of_restart(finding.line, root)


def _is_of_restart(line: RecordedRequest, root: BrokerGone) -> bool:
    return line.broker == root.broker and root.back is not None and line.time >= root.back
