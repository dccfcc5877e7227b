"""Findings about members that left and came back, and joins that wait for a member id.

A client that exceeds `max.poll.interval.ms` leaves its group, and joins again with its next poll.
Newer Java clients give that as the reason of LeaveGroup (KIP-800). Others give none: then it shows
only that the member left and came back.
"""

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from brokertwin.recordings.audit.finding import (
    Evidence,
    Finding,
    Severity,
    client_of,
    counted,
    names_of,
    times,
)
from brokertwin.recordings.audit.groups import BEATS
from brokertwin.recordings.audit.history import History
from brokertwin.recordings.explain.rules import Rule
from brokertwin.recordings.explain.story import sentence, words
from brokertwin.recordings.replay.recording import Exchange
from brokertwin.state.core.errors import Error

POLL_TIMEOUT = re.compile(r"poll timeout has expired|max\.poll\.interval", re.IGNORECASE)
"""In the reason of a LeaveGroup: AbstractCoordinator.HeartbeatThread."""

NEAR_MS = 3_000
"""How far a join may be answered from when a member id expires, generously."""

BACK_MS = 600_000
"""A client that joins later than this after it left has not come back but begun again."""

MAX_POLL = Rule(
    "A consumer that does not poll for max.poll.interval.ms leaves its group. Its next poll joins"
    " again.",
    "KIP-62, KIP-800; AbstractCoordinator.HeartbeatThread",
    "Its records take too long: lower max.poll.records, make the processing faster, or raise"
    " max.poll.interval.ms.",
)
CAME_BACK = Rule(
    "A member that leaves and joins again begins two rebalances.",
    "KIP-62, KIP-345; AbstractCoordinator.maybeLeaveGroup",
    "It is the same process, because it uses the same connection or member id. Look whether it"
    " exceeded max.poll.interval.ms or subscribes anew: only newer Java clients give a reason.",
)
UNUSED_ID = Rule(
    "A client without a member id is given one and has to join with it. Until it does, or"
    " session.timeout.ms is over, a rebalance waits for it.",
    "KIP-394; ClassicGroup.addPendingMember, hasAllMembersJoined",
    "Look at the client that asked for the id: it was stopped between its two requests, or its"
    " request timed out. A shorter session.timeout.ms shortens the wait.",
)


class Left(NamedTuple):
    """A member that left its group, by itself."""

    group: str
    member: str
    exchange: Exchange
    reason: str


class Pending(NamedTuple):
    """A member id that was handed out, and how long it is kept."""

    member: str
    exchange: Exchange
    session_timeout_ms: int


def exceeded(history: History) -> Iterator[Finding]:
    """Members that left because they did not poll for max.poll.interval.ms, by group."""
    found: dict[str, list[Evidence]] = defaultdict(list)
    for left in _left(history):
        if POLL_TIMEOUT.search(left.reason):
            said = f"member {left.member} left: {left.reason}"
            found[left.group].append(Evidence.of(left.exchange, said))
    for group, evidence in found.items():
        who = names_of(each.client for each in evidence)
        said = f"{who} exceeded max.poll.interval.ms {times(len(evidence))} and left the group"
        yield Finding(
            "max-poll-exceeded",
            Severity.WARNING,
            f"group {group}",
            sentence(said),
            MAX_POLL,
            evidence,
        )


def came_back(history: History) -> Iterator[Finding]:
    """Members that left and joined again, by group and client."""
    left: dict[tuple[str, str, str], list[Left]] = defaultdict(list)
    for each in _left(history):
        left[each.group, *_client(each.exchange)].append(each)
    found: dict[tuple[str, str], list[Evidence]] = defaultdict(list)
    without_reason = set()
    for group, exchange, member in _joined(history):
        before = left[group, *_client(exchange)]
        gone = [
            each
            for each in before
            if each.exchange.end <= exchange.time <= each.exchange.end + BACK_MS
            and (each.exchange.connection == exchange.connection or each.member == member)
        ]  # over another connection another instance of the client id may have joined
        if not gone:
            continue
        last = gone[-1]
        before.remove(last)
        key = group, client_of(exchange)
        seconds = (exchange.time - last.exchange.end) / 1000
        reason = f" ({last.reason})" if last.reason else ""
        said = f"left by {last.exchange.id}{reason}, and came back after {seconds:.1f} s"
        limit_ms = exchange.body().get("rebalanceTimeoutMs", -1)
        if limit_ms >= 0 and not last.reason:
            said += f"; its rebalance timeout (max.poll.interval.ms) is {limit_ms} ms"
        found[key].append(Evidence.of(exchange, said))
        if not last.reason:
            without_reason.add(key)
    for (group, client), evidence in found.items():
        often = counted(len(evidence), "time")
        yield Finding(
            "member-came-back",
            Severity.WARNING if (group, client) in without_reason else Severity.INFO,
            f"group {group}",
            sentence(f"client {client} left and came back {often}; first: {evidence[0].said}"),
            CAME_BACK,
            evidence,
        )


def waiting(history: History) -> Iterator[Finding]:
    """Joins that waited for a member id that was handed out and never used, by group."""
    pending: dict[str, list[Pending]] = defaultdict(list)
    used: dict[tuple[str, str], Exchange] = {}
    found: dict[str, dict[str, Evidence]] = defaultdict(dict)
    for exchange, body in history.of("JOIN_GROUP"):
        if body.get("memberId"):
            used.setdefault((str(body["groupId"]), body["memberId"]), exchange)
    for exchange, body in history.of("JOIN_GROUP"):
        answer, group = exchange.response or {}, str(body.get("groupId"))
        if answer.get("errorCode") == Error.MEMBER_ID_REQUIRED:
            kept_ms = body.get("sessionTimeoutMs", 0)
            pending[group].append(Pending(answer["memberId"], exchange, kept_ms))
        elif not answer.get("errorCode"):
            pending[group] = [
                each
                for each in pending[group]
                if each.exchange.end + each.session_timeout_ms + NEAR_MS >= exchange.end
            ]
            for each in pending[group]:
                user = used.get((group, each.member))
                expires = each.exchange.end + each.session_timeout_ms
                if (
                    (user is None or user.time > exchange.end)
                    and exchange.time + NEAR_MS < expires
                    and abs(exchange.end - expires) <= NEAR_MS
                    and history.span[1] >= exchange.end + NEAR_MS
                ):
                    waited = (exchange.end - max(exchange.time, each.exchange.end)) / 1000
                    said = (
                        f"waited {waited:.1f} s for member id {each.member}, handed out to"
                        f" {words(each.exchange)} and never used"
                    )
                    by = [client_of(each.exchange)]
                    found[group][exchange.id] = Evidence.of(exchange, said, by)
    for group, by_id in found.items():
        evidence = list(by_id.values())
        who = names_of(each.client for each in evidence)
        yield Finding(
            "join-waits-for-member-id",
            Severity.WARNING,
            f"group {group}",
            sentence(f"{counted(len(evidence), 'join')} of {who} {evidence[0].said}"),
            UNUSED_ID,
            evidence,
        )


def _left(history: History) -> Iterator[Left]:
    """The members that left by themselves, in the order of the responses."""
    clients: dict[str, tuple[str, str]] = {}
    for exchange, body in history.of("JOIN_GROUP", "LEAVE_GROUP", *BEATS):
        answer, group = exchange.response or {}, str(body.get("groupId"))
        if exchange.api != "LEAVE_GROUP":
            member = body.get("memberId") or answer.get("memberId") or ""
            clients[member] = _client(exchange)
            if body.get("memberEpoch", 0) < 0 and not answer.get("errorCode"):
                yield Left(group, member, exchange, "")
            continue
        refused = {
            each.get("memberId") for each in answer.get("members") or () if each["errorCode"]
        }
        for each in (body.get("members") or [body]) if not answer.get("errorCode") else ():
            member = each.get("memberId") or ""
            is_own = clients.get(member, _client(exchange)) == _client(exchange)
            if member not in refused and is_own:
                yield Left(group, member, exchange, each.get("reason") or "")


def _joined(history: History) -> Iterator[tuple[str, Exchange, str]]:
    """The members that are new in their group: its id, the request, and the member id."""
    told: set[str] = set()
    for exchange, body in history.of("JOIN_GROUP", *BEATS):
        answer, group = exchange.response or {}, str(body.get("groupId"))
        member = body.get("memberId") or answer.get("memberId") or ""
        if exchange.api != "JOIN_GROUP":
            if body.get("memberEpoch") == 0 and not answer.get("errorCode"):
                yield group, exchange, member
        elif answer.get("errorCode") == Error.MEMBER_ID_REQUIRED:
            told.add(member)
        elif answer and not answer["errorCode"] and (not body.get("memberId") or member in told):
            yield group, exchange, member


def _client(exchange: Exchange) -> tuple[str, str]:
    return client_of(exchange), exchange.host


FINDERS = (exceeded, came_back, waiting)
