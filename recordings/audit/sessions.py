"""Findings about fetch sessions: those that were lost, and clients that open many."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from brokertwin.recordings.audit.finding import (
    Evidence,
    Finding,
    Severity,
    client_of,
    counted,
    names_of,
    rule_of,
    times,
)
from brokertwin.recordings.audit.history import History
from brokertwin.recordings.explain.own_clients import is_brokers_own
from brokertwin.recordings.explain.rules import Rule
from brokertwin.recordings.explain.sessions import NONE
from brokertwin.recordings.explain.story import sentence, words
from brokertwin.recordings.replay.recording import Exchange
from brokertwin.state.core.errors import Error
from brokertwin.state.fetch.fetch_session import FINAL_EPOCH, INITIAL_EPOCH

CODES = frozenset({Error.FETCH_SESSION_ID_NOT_FOUND, Error.INVALID_FETCH_SESSION_EPOCH})

WINDOW_MS = 60_000
MANY = 10
"""A client that opens so many sessions within `WINDOW_MS` churns."""

CHURN = Rule(
    "A session is opened once, by a full fetch, and used until its client goes: the broker has"
    " room for max.incremental.fetch.session.cache.slots of them, 1,000 if nothing is said.",
    "KIP-227; FetchSessionCache",
    "Let consumers live longer than a poll; one that is made anew for each poll drives out those of"
    " others.",
)
NO_ROOM = Rule(
    "Who asks for a session gets none while all slots are taken by sessions that are in use.",
    "KIP-227; FetchSessionCache.maybeCreateSession",
    "Such a client names all its partitions in every fetch: raise"
    " max.incremental.fetch.session.cache.slots, or look at clients that open many.",
)


class Event(NamedTuple):
    """What happened to a session: `opened`, `closed`, `lost` or `out of turn`.

    `evicted` holds of one that is lost, had been used and had not been closed.
    """

    what: str
    exchange: Exchange
    session: int
    evicted: bool = False
    said: str = ""
    by: tuple[str, ...] = ()


def events(history: History) -> list[Event]:
    """What happened to the sessions of a recording, in the order of the answers."""
    found: list[Event] = []
    used: dict[tuple[int, int], Exchange] = {}
    closed: dict[tuple[int, int], Exchange] = {}
    opened: dict[int, list[Exchange]] = defaultdict(list)
    for exchange, body in history.of("FETCH"):
        answer, broker = exchange.response or {}, exchange.broker
        session, epoch = body.get("sessionId", NONE), body.get("sessionEpoch", FINAL_EPOCH)
        key, code = (broker, session), answer.get("errorCode", Error.NONE)
        if code == Error.FETCH_SESSION_ID_NOT_FOUND:
            found.append(_lost(exchange, session, used.get(key), closed.get(key), opened[broker]))
            used.pop(key, None)
        elif code == Error.INVALID_FETCH_SESSION_EPOCH:
            found.append(Event("out of turn", exchange, session, said=f"sends epoch {epoch}"))
        elif session != NONE and epoch in (FINAL_EPOCH, INITIAL_EPOCH):
            found.append(Event("closed", exchange, session))
            used.pop(key, None)
            closed[key] = exchange
        elif session != NONE and not code:
            used[key] = exchange
        if epoch == INITIAL_EPOCH and not code and answer.get("sessionId", NONE) != NONE:
            new = broker, answer["sessionId"]
            used[new] = exchange
            closed.pop(new, None)
            opened[broker].append(exchange)
            found.append(Event("opened", exchange, answer["sessionId"]))
    return found


def _lost(
    exchange: Exchange,
    session: int,
    used: Exchange | None,
    closed: Exchange | None,
    opened: Sequence[Exchange],
) -> Event:
    """A session that the broker does not know any more."""
    if closed is not None:
        said = f"session {session} was closed by {words(closed)}"
        return Event("lost", exchange, session, False, said)
    if used is None:
        return Event("lost", exchange, session, False, f"session {session}, seen here first")
    first = bisect_left(opened, used.end, key=lambda each: each.end)
    by = tuple(client_of(each) for each in opened[first:] if each.time >= used.end)
    said = f"session {session}, used last at {used.id}; {len(by)} were opened since"
    return Event("lost", exchange, session, True, said, by)


def lost(history: History) -> Iterator[Finding]:
    """Sessions that were not known any more (70) or asked out of turn (71), by client."""
    found: dict[tuple[str, str], list[Event]] = defaultdict(list)
    for event in events(history):
        if event.what in ("lost", "out of turn") and not is_brokers_own(event.exchange):
            found[event.what, client_of(event.exchange)].append(event)
    for (what, client), group in found.items():
        evidence = [Evidence.of(each.exchange, each.said, each.by) for each in group]
        evicted = sum(each.evicted for each in group)
        code = (
            Error.FETCH_SESSION_ID_NOT_FOUND
            if what == "lost"
            else Error.INVALID_FETCH_SESSION_EPOCH
        )
        said = f"{times(len(group))} a fetch session of client {client} was {_participle(what)}"
        if evicted:
            said += f", {times(evicted)} though it had been in use"
        by = [name for each in group for name in each.by]
        said += f"; in between {names_of(by)} opened {counted(len(by), 'session')}" if by else ""
        yield Finding(
            "session-lost" if what == "lost" else "session-out-of-turn",
            Severity.WARNING if evicted or what != "lost" else Severity.INFO,
            f"client {client}",
            sentence(said),
            rule_of(code),
            evidence,
            code,
        )


def _participle(what: str) -> str:
    return "not known any more" if what == "lost" else "asked out of turn"


def churn(history: History) -> Iterator[Finding]:
    """Clients that open many sessions a minute."""
    opened: dict[str, list[Exchange]] = defaultdict(list)
    for event in events(history):
        if event.what == "opened" and not is_brokers_own(event.exchange):
            opened[client_of(event.exchange)].append(event.exchange)
    for client, exchanges in opened.items():
        most, members = busiest([(each.end, each) for each in exchanges], MANY, WINDOW_MS)
        if most >= MANY:
            connections = len({each.connection for each in exchanges})
            yield Finding(
                "session-churn",
                Severity.WARNING,
                f"client {client}",
                f"Client {client} opened {most} fetch sessions within a minute, {len(exchanges)} in"
                f" all, over {counted(connections, 'connection')}.",
                CHURN,
                [Evidence.of(each) for each in members],
                often=most,
            )


def busiest(
    timed: Sequence[tuple[float, Any]], least: int, window_ms: float
) -> tuple[int, list[Any]]:
    """The most that come within a window, and all that are in one with at least `least`.

    Args:
        timed: what comes, each with its time in ms, in order.
        least: how many make a window count.
        window_ms: how long it is.
    """
    most, first, members = 0, 0, dict[int, Any]()
    for number, (time, _) in enumerate(timed):
        while timed[first][0] < time - window_ms:
            first += 1
        most = max(most, number + 1 - first)
        if number + 1 - first >= least:
            members |= {n: timed[n][1] for n in range(first, number + 1) if n not in members}
    return most, list(members.values())


def without_room(history: History) -> Iterator[Finding]:
    """Clients that asked for a session and got none."""
    found: dict[str, list[Evidence]] = defaultdict(list)
    for exchange, body in history.of("FETCH"):
        answer = exchange.response or {}
        asks = body.get("sessionEpoch", FINAL_EPOCH) == INITIAL_EPOCH
        is_held_back = answer.get("throttleTimeMs") or answer.get("errorCode")
        is_without = asks and not is_held_back and answer.get("sessionId") == NONE
        if is_without and not is_brokers_own(exchange):
            found[client_of(exchange)].append(Evidence.of(exchange))
    for client, evidence in found.items():
        said = f"Client {client} asked for a fetch session {times(len(evidence))} and got none."
        subject = f"client {client}"
        yield Finding("session-denied", Severity.WARNING, subject, said, NO_ROOM, evidence)


FINDERS = (lost, churn, without_room)
