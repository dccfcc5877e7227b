"""Fetch sessions in the cache of a broker (KIP-227).

The entity is the broker's cache, because a session is evicted for another one. A state has a row
for each session.
"""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec import field

from brokertwin.protocol.errors import Error
from brokertwin.recordings.history.entity import EntityKey, EntityKind, ObservedEntity, Parts
from brokertwin.recordings.history.exchange import KnownFacts, RecordedExchange, RecordedRequest
from brokertwin.recordings.history.findings import (
    Cause,
    Certainty,
    Finding,
    SessionClosed,
    SessionDenied,
    SessionEnded,
    SessionEpochExpected,
    SessionEvicted,
    SessionForgot,
    SessionLost,
    SessionOpened,
    SessionOutOfTurn,
    Severity,
)

NONE = 0
"""Id of no session."""

SESSION_CODES = frozenset({Error.FETCH_SESSION_ID_NOT_FOUND, Error.INVALID_FETCH_SESSION_EPOCH})

INITIAL_EPOCH, FINAL_EPOCH = 0, -1
EPOCH_MAX = 2**31 - 1

SESSIONS_MAX = 2_000
"""Maximum number of sessions of a broker that are kept; Kafka's cache has 1,000 slots."""

OPENINGS_MAX = 2_000
"""Maximum number of openings that are kept as possible causes of an eviction."""

EVICTION_MS = 120_000
"""Kafka's min.incremental.fetch.session.eviction.ms: no other session takes the slot before."""

WINDOW_MS = 60_000
"""Span in which frequent events are counted."""


class ObservedSession(msgspec.Struct):
    """A fetch session.

    Attributes:
        epoch: the epoch of its next request.
        client: client id of the request that used it last.
        partitions: partitions named at its opening, less those forgotten since; -1 if unknown.
        used: the last request that the broker accepted; None if it is closed, or not seen in use.
    """

    epoch: int = INITIAL_EPOCH
    client: str = ""
    partitions: int = -1
    used: RecordedRequest | None = None
    closed: RecordedRequest | None = None


class ObservedSessionCache(ObservedEntity, kw_only=True):
    """The sessions of a broker.

    Attributes:
        sessions: session id to session; the last one was used last.
        opened: the newest openings, in the order of their responses.
    """

    sessions: dict[int, ObservedSession] = field(default_factory=dict)
    opened: list[RecordedRequest] = field(default_factory=list)

    def take(self, exchange: RecordedExchange, known: KnownFacts) -> Iterable[Finding]:
        body = exchange.request
        number, epoch = session_of(body)
        if number != NONE and epoch not in (FINAL_EPOCH, INITIAL_EPOCH) and not exchange.code:
            return self._used(exchange.line, number, epoch, body)
        return self._other(exchange, number, epoch)

    def _other(self, exchange: RecordedExchange, number: int, epoch: int) -> Iterator[Finding]:
        """Take a Fetch that is refused, or opens or ends a session, or has none."""
        line, body, code = exchange.line, exchange.request, exchange.code
        opened = opened_by(exchange) if epoch == INITIAL_EPOCH else NONE
        if code == Error.FETCH_SESSION_ID_NOT_FOUND:
            yield self._lost(line, number)
        elif code == Error.INVALID_FETCH_SESSION_EPOCH:
            yield self._out_of_turn(line, number, epoch)
        elif number != NONE and epoch in (FINAL_EPOCH, INITIAL_EPOCH):
            other = int(exchange.response.get("sessionId", NONE))
            yield SessionEnded(line=line, session=number, other=other)
            self._session(number).used = None
            self._session(number).closed = line
        if opened != NONE:
            self.sessions.pop(opened, None)
            self.sessions[opened] = ObservedSession(1, line.client, body["named"], line)
            insort(self.opened, line, key=lambda each: each.end)
            yield SessionOpened(line=line, session=opened)
        elif epoch == INITIAL_EPOCH and is_denied(exchange) and not line.is_own:
            yield SessionDenied(line=line, severity=Severity.WARNING, holders=self._holders(line))
        self._bound()

    def _holders(self, line: RecordedRequest) -> dict[str, int]:
        """Clients with sessions that are too new to be evicted, and how many."""
        since = line.time - EVICTION_MS
        in_use = (each.used for each in self.sessions.values() if each.used is not None)
        return dict(Counter(used.name for used in in_use if used.time >= since))

    def _session(self, number: int) -> ObservedSession:
        """The session of an id, now the one that was used last."""
        session = self.sessions.pop(number, None) or ObservedSession()
        self.sessions[number] = session
        return session

    def _used(self, line: RecordedRequest, number: int, epoch: int, body: Any) -> Iterable[Finding]:
        session = self._session(number)
        session.used, session.client, session.epoch = line, line.client, next_epoch(epoch)
        self._bound()
        forgotten = body["forgotten"]
        if not forgotten:
            return ()
        session.partitions = max(-1, session.partitions - forgotten)
        return (SessionForgot(line=line, session=number, count=forgotten),)

    def _lost(self, line: RecordedRequest, number: int) -> Finding:
        """A session that the broker does not know any more."""
        session = self.sessions.get(number, ObservedSession())
        used, closed, causes = session.used, session.closed, tuple[Cause, ...]()
        if closed is not None:
            causes = (SessionClosed(by=closed),)
        elif used is not None:
            first = bisect_left(self.opened, used.end, key=lambda each: each.end)
            openers = tuple(each.name for each in self.opened[first:] if each.time >= used.end)
            if line.connection != used.connection:
                openers = ()  # the broker may have been started again, which ends all sessions
            causes = (SessionEvicted(used=used, openers=openers),)
        is_evicted = used is not None and closed is None
        session.used = None
        known = Certainty.DERIVED if is_evicted else Certainty.SEEN
        return SessionLost(
            line=line,
            severity=Severity.WARNING if is_evicted else Severity.INFO,
            causes=causes,
            certainty=known if causes else Certainty.UNKNOWN,
            session=number,
            code=Error.FETCH_SESSION_ID_NOT_FOUND,
        )

    def _out_of_turn(self, line: RecordedRequest, number: int, epoch: int) -> Finding:
        session, causes = self.sessions.get(number), tuple[Cause, ...]()
        if session is not None and session.used is not None and session.epoch != epoch:
            expected, used = session.epoch, session.used
            causes = (SessionEpochExpected(requested=epoch, expected=expected, used=used),)
        return SessionOutOfTurn(
            line=line,
            severity=Severity.WARNING,
            causes=causes,
            certainty=Certainty.SEEN if causes else Certainty.UNKNOWN,
            session=number,
            code=Error.INVALID_FETCH_SESSION_EPOCH,
            epoch=epoch,
        )

    def _bound(self) -> None:
        if len(self.opened) > OPENINGS_MAX:
            del self.opened[:-OPENINGS_MAX]
        while len(self.sessions) > SESSIONS_MAX:
            del self.sessions[next(iter(self.sessions))]


def session_of(body: Any) -> tuple[int, int]:
    """Session id and epoch of a Fetch request."""
    return body.get("sessionId", NONE), body.get("sessionEpoch", FINAL_EPOCH)


def opened_by(exchange: RecordedExchange) -> int:
    """The session that a Fetch opened; `NONE` if it opened none."""
    _, epoch = session_of(exchange.request)
    opens = epoch == INITIAL_EPOCH and not exchange.code
    return int(exchange.response.get("sessionId", NONE)) if opens else NONE


def is_denied(exchange: RecordedExchange) -> bool:
    """Return whether a Fetch wanted a new session and the broker had no room for it."""
    if session_of(exchange.request)[1] != INITIAL_EPOCH:
        return False
    is_held_back = exchange.response.get("throttleTimeMs") or exchange.code
    return not is_held_back and exchange.response.get("sessionId") == NONE


def size_of(body: Any) -> int:
    """Number of partitions that a Fetch request names."""
    return sum(len(each["partitions"]) for each in body.get("topics") or ())


_KEPT = ("errorCode", "sessionId", "throttleTimeMs")
"""The fields of a response that the machine uses."""


def without_partitions(exchange: RecordedExchange) -> RecordedExchange:
    """A Fetch with the numbers of its partitions in their place."""
    body, (number, epoch) = exchange.request, session_of(exchange.request)
    gone = body.get("forgottenTopicsData")
    forgotten = sum(len(each["partitions"]) for each in gone) if gone else 0
    request = {"sessionId": number, "sessionEpoch": epoch}
    request |= {"named": size_of(body), "forgotten": forgotten}
    response = {name: exchange.response[name] for name in _KEPT if name in exchange.response}
    return RecordedExchange(exchange.line, request, response)


def next_epoch(epoch: int) -> int:
    """The epoch of a session's next request; the first epoch is never used again."""
    if epoch < 0:
        return FINAL_EPOCH
    return 1 if epoch == EPOCH_MAX else epoch + 1


def _caches_in(exchange: RecordedExchange, known: KnownFacts) -> Parts:
    yield EntityKey("session-cache", str(exchange.line.broker)), without_partitions(exchange)


CACHES = EntityKind(
    "session-cache", frozenset({"FETCH"}), _caches_in, lambda _: ObservedSessionCache()
)
