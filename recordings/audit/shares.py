"""Findings about share groups: records that are given again, rejected or not held any more."""

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
    rule_of,
    times,
)
from brokertwin.recordings.audit.history import History
from brokertwin.recordings.explain import deliveries
from brokertwin.recordings.explain.deliveries import Before, Deliveries, Given
from brokertwin.recordings.explain.rules import Rule
from brokertwin.recordings.explain.story import sentence, words
from brokertwin.state.core.errors import Error, error_name
from brokertwin.state.share.share_partition import REJECT

OF_SESSIONS = frozenset(
    {
        Error.SHARE_SESSION_NOT_FOUND,
        Error.INVALID_SHARE_SESSION_EPOCH,
        Error.SHARE_SESSION_LIMIT_REACHED,
    }
)
CODES = OF_SESSIONS | {Error.INVALID_RECORD_STATE}

AGAIN = Rule(
    "Records that a member gives back, or does not acknowledge within"
    " group.share.record.lock.duration.ms, are given again, group.share.delivery.count.limit times"
    " in all; then the group has done with them and nobody gets them.",
    "KIP-932; SharePartition",
    "Look at who had them: a member that is slower than its lock needs a longer one, or to renew"
    " it; records that are given back again and again are for a place of their own.",
)
REJECTED = Rule(
    "Records that a member rejects are done with: nobody in the group gets them again.",
    "KIP-932; SharePartition",
    "Keep elsewhere what cannot be worked on before it is rejected: the group does not.",
)


class Again(NamedTuple):
    """Records that were given again, with who had them before."""

    given: Given
    before: list[Before]


def redelivered(history: History) -> Iterator[Finding]:
    """Records that were given more than once, by group: a warning where a lock was over."""
    found: dict[str, list[Again]] = defaultdict(list)
    asked = [*history.of(*deliveries.APIS)]
    seen = Deliveries(asked)
    for exchange, body in asked:
        for given in deliveries.given(exchange, body):
            if given.deliveries > 1:
                found[given.place.group].append(Again(given, [*seen.before(given)]))
            seen.take(given)
    for group, again in found.items():
        stretches = [(each.given, before) for each in again for before in each.before]
        kept = [before for _, before in stretches if before.given and not before.released]
        back = [before for _, before in stretches if before.released]
        records = sum(each.given.last - each.given.first + 1 for each in again)
        most = max(each.given.deliveries for each in again)
        said = [f"{counted(records, 'redelivery', 'redeliveries')}, of one record up to {most - 1}"]
        said += [f"{_records(back)} because {_clients(back)} gave records back"] if back else []
        said += [f"{_records(kept)} because {_clients(kept)} kept them too long"] if kept else []
        yield Finding(
            "records-redelivered",
            Severity.WARNING if kept else Severity.INFO,
            f"group {group}",
            sentence("; ".join(said)),
            AGAIN,
            [_evidence(history, given, before) for given, before in stretches],
            often=records,
        )


def _records(before: list[Before]) -> int:
    return sum(each.last - each.first + 1 for each in before)


def _clients(before: list[Before]) -> str:
    return names_of(client_of(each.given.exchange) for each in before if each.given)


def _evidence(history: History, given: Given, before: Before) -> Evidence:
    said = f"{_named(history, given, before.first, before.last)} to {given.member}"
    said += f" for the {given.deliveries}th time" if given.deliveries > 3 else ""
    if before.given is None:
        return Evidence.of(given.exchange, said)
    former = before.given
    became = f"given back by {words(before.released)}" if before.released else "not acknowledged"
    said += f"; before, {former.member} got them at {former.exchange.id}, {became}"
    return Evidence.of(given.exchange, said, [client_of(former.exchange)])


def _named(history: History, given: Given, first: int, last: int) -> str:
    place = f"{history.named(given.place.topic)}-{given.place.partition}"
    return f"{place} {first}" if first == last else f"{place} {first} to {last}"


def rejected(history: History) -> Iterator[Finding]:
    """Records that members rejected, by group and client."""
    found: dict[tuple[str, str], list[Evidence]] = defaultdict(list)
    counts: dict[tuple[str, str], int] = defaultdict(int)
    for exchange, body in history.of(*deliveries.APIS):
        for each in deliveries.acknowledged(exchange, body):
            if each.outcome == REJECT and not each.error:
                key = each.place.group, client_of(exchange)
                counts[key] += int(each.last) - each.first + 1
                place = f"{history.named(each.place.topic)}-{each.place.partition}"
                said = f"{place} {each.first} to {each.last} by {each.member}"
                found[key].append(Evidence.of(exchange, said))
    for (group, client), evidence in found.items():
        many = counted(counts[group, client], "record")
        what = f"Client {client} rejected {many}: nobody gets them again."
        yield Finding(
            "records-rejected",
            Severity.WARNING,
            f"group {group}, client {client}",
            what,
            REJECTED,
            evidence,
            often=counts[group, client],
        )


def not_held(history: History) -> Iterator[Finding]:
    """Acknowledgements of records that the member does not hold (121), by group."""
    found: dict[str, list[Evidence]] = defaultdict(list)
    seen = Deliveries([])
    for exchange, body in history.of(*deliveries.APIS):
        for each in deliveries.acknowledged(exchange, body):
            if each.error == Error.INVALID_RECORD_STATE:
                now = [*seen.holders(each)]
                place = f"{history.named(each.place.topic)}-{each.place.partition}"
                said = f"{place} {each.first} to {each.last} of {each.member}"
                said += "".join(
                    f"; {g.member} got {a} to {b} at {g.exchange.id}" for a, b, g in now
                )
                by = [client_of(holder.exchange) for _, _, holder in now]
                found[each.place.group].append(Evidence.of(exchange, said, by))
        for given in deliveries.given(exchange, body):
            seen.take(given)
    for group, evidence in found.items():
        by = [name for each in evidence for name in each.by]
        since = f"; they were given to {names_of(by)} since" if by else ""
        yield Finding(
            "acknowledge-refused",
            Severity.WARNING,
            f"group {group}",
            f"{counted(len(evidence), 'acknowledgement')} of"
            f" {names_of(e.client for e in evidence)} refused: the member did not hold the records"
            f"{since}.",
            rule_of(Error.INVALID_RECORD_STATE),
            evidence,
            Error.INVALID_RECORD_STATE,
        )


def sessions(history: History) -> Iterator[Finding]:
    """Share sessions that were not known any more, out of turn, or had no room, by client."""
    found: dict[tuple[str, int], list[Evidence]] = defaultdict(list)
    for exchange, body in history.of(*deliveries.APIS):
        code = (exchange.response or {}).get("errorCode", Error.NONE)
        if code in OF_SESSIONS:
            said = f"group {body.get('groupId')}, member {body.get('memberId')}"
            said += f", epoch {body.get('shareSessionEpoch')}"
            found[client_of(exchange), code].append(Evidence.of(exchange, said))
    for (client, code), evidence in found.items():
        has_room = code != Error.SHARE_SESSION_LIMIT_REACHED
        yield Finding(
            "share-session-lost" if has_room else "share-session-denied",
            Severity.INFO if has_room else Severity.WARNING,
            f"client {client}",
            f"{error_name(code)} was answered {times(len(evidence))} to client {client}."
            f" {rule_of(code).why}",
            rule_of(code),
            evidence,
            code,
        )


FINDERS = (redelivered, rejected, not_held, sessions)
