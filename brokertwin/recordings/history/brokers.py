"""Brokers at the controller: when one was fenced or shut down, from its heartbeats.

The controller removes such a broker from the in-sync sets by itself. No leader requests that, and
leaders learn it from the metadata log.

    wantShutDown               a controlled shutdown: removed when the controller takes the request
    isFenced, a registration   removed at that time or before
    no heartbeat for a time    possibly fenced since the last one

Source: `ReplicationControlManager.processBrokerHeartbeat`, `ClusterControlManager.registerBroker`
in Kafka; KIP-631, KIP-966.
"""

from bisect import bisect_right
from enum import IntEnum
from typing import Any

import msgspec

from brokertwin.recordings.history.bodies import errors

SILENT_MS = 2_500.0
"""How long a broker may be silent without being fenced (`broker.heartbeat.interval.ms`, 2 s)."""

APPLY_MS = 2_000.0
"""How long a leader may take to apply a change of the controller."""

REJOIN_MS = 5_000.0
"""How long a broker that was silent may take to join the in-sync sets that it has left."""

SPANS_MAX = 1_000
"""Maximum number of spans of a broker that are kept."""


class BrokerState(IntEnum):
    ACTIVE = 0
    LEAVING = 1
    FENCED = 2


class Absence(IntEnum):
    """Whether a broker has left the in-sync sets."""

    NO = 0
    POSSIBLE = 1
    """It was silent."""
    DECIDED = 2
    """The controller has removed it; leaders may not know yet."""
    CERTAIN = 3


class BrokerSpan(msgspec.Struct):
    """From the first to the last heartbeat with a state, in ms since 1970."""

    state: BrokerState
    begin: float
    end: float


class BrokerPresence(msgspec.Struct):
    spans: list[BrokerSpan] = []

    def add(self, new: BrokerSpan) -> None:
        """Add the span of one or more heartbeats, in any order."""
        at = bisect_right(self.spans, new.begin, key=lambda each: each.begin)
        former = self.spans[at - 1] if at else None
        begin, end = new.begin, new.end
        if former is not None and former.state == new.state and begin <= former.end + SILENT_MS:
            begin, end = former.begin, max(former.end, end)
            at -= 1
            del self.spans[at]
        elif former is not None and former.end > end:
            self.spans.insert(at, BrokerSpan(former.state, end, former.end))
            former.end = begin
        later = self.spans[at] if at < len(self.spans) else None
        if later is not None and later.state == new.state and later.begin <= end + SILENT_MS:
            end = max(end, later.end)
            del self.spans[at]
        self.spans.insert(at, BrokerSpan(new.state, begin, end))
        del self.spans[:-SPANS_MAX]

    def active_since(self, time: float) -> float:
        """Return when it became active last before a time; the time if it is not active; or 0."""
        since, is_active = 0.0, True
        for span in self.spans:
            if span.begin <= time:
                since = span.begin if not is_active else since
                is_active = span.state is BrokerState.ACTIVE
        return since if is_active else time

    def absence(self, since: float, time: float, log_end: float) -> Absence:
        """Return whether the broker has left the in-sync sets between two times.

        Args:
            since: when it was in sync.
            time: the time in question, after `since`.
            log_end: the end of the controller's log.
        """
        found = Absence.NO
        for span, after in zip(self.spans, [*self.spans[1:], None], strict=True):
            is_active = span.state is BrokerState.ACTIVE
            last = max(log_end, span.end) if is_active else float("inf")
            until = after.begin if after is not None else last
            if span.begin > time or until <= since:
                continue
            if not is_active:
                is_applied = time - span.begin > APPLY_MS
                found = max(found, Absence.CERTAIN if is_applied else Absence.DECIDED)
                continue
            is_fenced = after is not None and after.state is BrokerState.FENCED
            is_gap = is_fenced or until - span.end > SILENT_MS
            if is_gap and span.end < time < until + REJOIN_MS:
                found = max(found, Absence.POSSIBLE)
        return found


def heartbeat(api: str, request: Any, response: Any) -> tuple[int, BrokerState] | None:
    """The broker of a heartbeat or a registration, and its state then; None without success."""
    if errors(response):
        return None
    broker = int(request.get("brokerId", -1))
    if api == "BROKER_REGISTRATION":
        return broker, BrokerState.FENCED
    if request.get("wantShutDown"):
        return broker, BrokerState.LEAVING
    return broker, BrokerState.FENCED if response.get("isFenced") else BrokerState.ACTIVE
