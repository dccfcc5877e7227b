"""Fetch sessions in the cache of a broker (KIP-227).

The entity is the broker's cache, because a session is evicted for another one. A state has a row
for each session.
"""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterator
from typing import Any

import msgspec
from msgspec import field

from brokertwin.protocol.errors import Error
from brokertwin.recordings.history.entity import EntityKey, EntityKind, ObservedEntity
from brokertwin.recordings.history.exchange import KnownFacts, RecordedExchange, RecordedRequest
from brokertwin.recordings.history.finding import EntityFinding, Severity, rule_of
from brokertwin.recordings.rules import Rule

NONE = 0
"""Id of no session."""

SESSION_CODES = frozenset({Error.FETCH_SESSION_ID_NOT_FOUND, Error.INVALID_FETCH_SESSION_EPOCH})

INITIAL_EPOCH, FINAL_EPOCH = 0, -1
EPOCH_MAX = 2**31 - 1

SESSIONS_MAX = 2_000
"""Maximum number of sessions of a broker that are kept; Kafka's cache has 1,000 slots."""

OPENINGS_MAX = 2_000
"""Maximum number of openings that are kept as possible causes of an eviction."""

WINDOW_MS = 60_000
"""Span in which frequent events are counted."""

CHURN = Rule(
    "A session is opened once, by a full fetch, and used until its client goes: the broker has"
    " room for max.incremental.fetch.session.cache.slots of them, 1,000 by default.",
    "KIP-227; FetchSessionCache",
    "Let consumers live longer than a poll; a consumer for each poll evicts the sessions"
    " of others.",
)
NO_ROOM = Rule(
    "A client gets no session while all slots are taken by sessions in use.",
    "KIP-227; FetchSessionCache.maybeCreateSession",
    "Such a client names all its partitions in every fetch: raise"
    " max.incremental.fetch.session.cache.slots, or look at clients that open many.",
)


class ObservedSession(msgspec.Struct):
    """A fetch session.

    Attributes:
        epoch: the epoch of its next request.
        client: client id of the request that used it last.
        partitions: partitions named at its opening, less those forgotten since; -1 if unknown.
        used: the last request that the broker accepted; None if it is closed, or not seen in use.
        closed: the request that closed it.
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

    def part_of(self, exchange: RecordedExchange, known: KnownFacts) -> RecordedExchange:
        """Return a Fetch with the numbers of its partitions in their place."""
        return _without_partitions(exchange)

    def take(self, exchange: RecordedExchange, known: KnownFacts) -> Iterator[EntityFinding]:
        """Take a Fetch in its turn."""
        line, body, code = exchange.line, exchange.request, exchange.code
        number, epoch = session_of(body)
        opened = opened_by(exchange)
        if code == Error.FETCH_SESSION_ID_NOT_FOUND:
            yield self._lost(line, number)
        elif code == Error.INVALID_FETCH_SESSION_EPOCH:
            yield self._out_of_turn(line, number, epoch)
        elif number != NONE and epoch in (FINAL_EPOCH, INITIAL_EPOCH):
            other = int(exchange.response.get("sessionId", NONE))
            also = f", and opens {other}" if other else ""
            yield _note("session-closed", line, number, f"closes the session{also}")
            self._session(number).used = None
            self._session(number).closed = line
        elif number != NONE and not code:
            yield from self._used(line, number, epoch, body)
        if opened != NONE:
            self.sessions.pop(opened, None)
            self.sessions[opened] = ObservedSession(1, line.client, body["named"], line)
            insort(self.opened, line, key=lambda each: each.end)
            yield _note("session-opened", line, opened, "opens the session")
        elif is_denied(exchange) and not line.is_own:
            severity, subject = Severity.WARNING, f"client {line.name}"
            yield EntityFinding(
                kind="session-denied", severity=severity, subject=subject, line=line, rule=NO_ROOM
            )
        self._bound()

    def _session(self, number: int) -> ObservedSession:
        """The session of an id, now the one that was used last."""
        found = self.sessions.pop(number, None) or ObservedSession()
        self.sessions[number] = found
        return found

    def _used(
        self, line: RecordedRequest, number: int, epoch: int, body: Any
    ) -> Iterator[EntityFinding]:
        session = self._session(number)
        session.used, session.client, session.epoch = line, line.client, next_epoch(epoch)
        forgotten = body["forgotten"]
        if forgotten:
            session.partitions = max(-1, session.partitions - forgotten)
            yield _note("session-forgot", line, number, f"forgets {forgotten} partitions")

    def _lost(self, line: RecordedRequest, number: int) -> EntityFinding:
        """A session that the broker does not know any more."""
        session = self.sessions.get(number, ObservedSession())
        used, closed, by = session.used, session.closed, tuple[str, ...]()
        if closed is not None:
            said = f"session {number} was closed by {closed.words}"
            cause = f"The session was closed: {closed.words}."
        elif used is None:
            said = f"session {number}, seen here first"
            cause = "The recording has no answer that opened it."
        else:
            first = bisect_left(self.opened, used.end, key=lambda each: each.end)
            by = tuple(each.name for each in self.opened[first:] if each.time >= used.end)
            said = f"session {number}, used last at {used.place}; {len(by)} were opened since"
            others = ", ".join(f"client {name} ({n})" for name, n in Counter(by).most_common())
            cause = (
                f"It was used last by {used.words}, and has made room for another since"
                " (max.incremental.fetch.session.cache.slots), or its broker was started again."
                + (f" Sessions that were opened in between: {others}." if others else "")
            )
        is_evicted = used is not None and closed is None
        session.used = None
        severity = Severity.WARNING if is_evicted else Severity.INFO
        code = Error.FETCH_SESSION_ID_NOT_FOUND
        return _finding("session-lost", severity, line, number, code, said, cause, by)

    def _out_of_turn(self, line: RecordedRequest, number: int, epoch: int) -> EntityFinding:
        session, cause = self.sessions.get(number), ""
        if session is not None and session.used is not None:
            last = session.used.words
            cause = f"The request has epoch {epoch}; after {last} it has to be {session.epoch}."
        code, said = Error.INVALID_FETCH_SESSION_EPOCH, f"sends epoch {epoch}"
        kind, severity = "session-out-of-turn", Severity.WARNING
        return _finding(kind, severity, line, number, code, said, cause)

    def _bound(self) -> None:
        del self.opened[:-OPENINGS_MAX]
        while len(self.sessions) > SESSIONS_MAX:
            del self.sessions[next(iter(self.sessions))]


def _note(kind: str, line: RecordedRequest, number: int, said: str) -> EntityFinding:
    """An ordinary event of a session."""
    return EntityFinding(
        kind=kind,
        severity=Severity.NOTE,
        subject=f"session {number}",
        line=line,
        said=said,
        facts={"session": number},
    )


def _finding(
    kind: str,
    severity: Severity,
    line: RecordedRequest,
    number: int,
    code: int,
    said: str,
    cause: str,
    by: tuple[str, ...] = (),
) -> EntityFinding:
    return EntityFinding(
        kind=kind,
        severity=severity,
        subject=f"client {line.name}",
        line=line,
        said=said,
        cause=cause,
        by=by,
        code=code,
        rule=rule_of(code),
        facts={"session": number},
    )


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
    is_held_back = exchange.response.get("throttleTimeMs") or exchange.code
    wants = session_of(exchange.request)[1] == INITIAL_EPOCH
    return wants and not is_held_back and exchange.response.get("sessionId") == NONE


def size_of(body: Any) -> int:
    """Number of partitions that a Fetch request names."""
    return sum(len(each["partitions"]) for each in body.get("topics") or ())


def _without_partitions(exchange: RecordedExchange) -> RecordedExchange:
    body, (number, epoch) = exchange.request, session_of(exchange.request)
    forgotten = sum(len(each["partitions"]) for each in body.get("forgottenTopicsData") or ())
    request = {"sessionId": number, "sessionEpoch": epoch}
    request |= {"named": size_of(body), "forgotten": forgotten}
    names = ("errorCode", "sessionId", "throttleTimeMs")
    response = {name: exchange.response[name] for name in names if name in exchange.response}
    return RecordedExchange(exchange.line, request, response)


def next_epoch(epoch: int) -> int:
    """The epoch of a session's next request; the first epoch is never used again."""
    if epoch < 0:
        return FINAL_EPOCH
    return 1 if epoch == EPOCH_MAX else epoch + 1


def _caches_of(exchange: RecordedExchange, known: KnownFacts) -> Iterator[EntityKey]:
    yield EntityKey("session-cache", str(exchange.line.broker))


CACHES = EntityKind(
    "session-cache", frozenset({"FETCH"}), _caches_of, lambda _: ObservedSessionCache()
)
