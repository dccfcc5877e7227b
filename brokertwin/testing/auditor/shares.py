"""Promises of share consumers (KIP-932), from ShareFetch and ShareAcknowledge.

The broker keeps most of them. A client can lose a record if it acknowledges one that its
application did not get, or does not acknowledge one as the application wants.
"""

from collections.abc import Iterable, Iterator, Mapping
from math import inf

from brokertwin.clients.partitions import TopicPartition
from brokertwin.recordings.history.exchange import RecordedExchange, RecordedRequest
from brokertwin.recordings.history.shares import SHARE_APIS, acknowledgements, deliveries
from brokertwin.state.share.share_partition import ACCEPT, GAP, REJECT
from brokertwin.testing.auditor.exchanges import SeenExchange, Violation, some_records
from brokertwin.testing.auditor.workload import Log, RunEvidence, WorkKind

DELIVERIES_MAX = 5
"""Default of group.share.delivery.count.limit."""

Place = tuple[int, int]
"""Partition and offset in the run's only topic."""


def by_place(logs: Mapping[TopicPartition, Log]) -> dict[Place, str]:
    return {(at.partition, offset): name for at, log in logs.items() for offset, name in log}


def ended(seen: Iterable[SeenExchange], outcomes: Iterable[int] = (ACCEPT,)) -> dict[Place, float]:
    """Return records that are acknowledged with an outcome, and when the broker responded."""
    ends: dict[Place, float] = {}
    for exchange in _recorded(seen):
        for each in acknowledgements(exchange):
            if each.outcome in outcomes and not each.error:
                for offset in range(each.first, each.last + 1):
                    ends.setdefault((each.place.partition, offset), exchange.line.end)
    return ends


def judge_shares(evidence: RunEvidence, seen: list[SeenExchange]) -> Iterator[Violation]:
    """Report records that are delivered too often, or not accepted as the application said."""
    if not any(role.work is WorkKind.SHARE for role in evidence.roles):
        return
    visible = by_place(evidence.committed)
    accepted = ended(seen)
    yield from _again(visible, accepted, seen)
    lines = [line for lines_of_member in evidence.statements.values() for line in lines_of_member]
    received = {words[-1] for verb, words in lines if verb == "received"}
    reported = {words[-1] for verb, words in lines if verb == "accepted"}
    dropped = ended(seen, (GAP, REJECT))
    missing = []
    for place, name in visible.items():
        record = f"{name} at {place[1]} of partition {place[0]}"
        if place in dropped:
            yield Violation("shares", f"{record} is acknowledged as rejected or missing")
        elif place in accepted and name not in received:
            yield Violation("shares", f"{record} was accepted, but no application received it")
        elif place not in accepted and name in reported:
            yield Violation("shares", f"{record} was reported as accepted, but was not")
        elif place not in accepted:
            missing.append(name)
    if missing:
        yield Violation("progress", f"{some_records(missing)} are visible, but were not accepted")


def _again(
    visible: dict[Place, str], accepted: dict[Place, float], seen: list[SeenExchange]
) -> Iterator[Violation]:
    for exchange in _recorded(seen):
        for each in deliveries(exchange):
            for offset in range(each.first, each.last + 1):
                place = each.place.partition, offset
                if place not in visible:
                    continue
                record, client = f"{visible[place]} at {offset}", exchange.line.client
                if exchange.line.time > accepted.get(place, inf):
                    yield Violation("shares", f"{record} is delivered to {client} after its end")
                if each.count > DELIVERIES_MAX:
                    text = f"{record} is delivered to {client} for the {each.count}th time"
                    yield Violation("shares", text)


def _recorded(seen: Iterable[SeenExchange]) -> Iterator[RecordedExchange]:
    for each in seen:
        if each.api in SHARE_APIS:
            times = each.time, int(each.end)
            line = RecordedRequest("", *times, 0, each.client, "", "", each.api, 0)
            yield RecordedExchange(line, each.request, each.response)
