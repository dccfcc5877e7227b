"""Statements that a whole log allows, made of facts: who looks for them finds what is missing."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from brokertwin.recordings.history import findings as f
from brokertwin.simulation.truth import (
    MemberChanged,
    OffsetRemoved,
    OffsetStored,
    TransactionMoved,
)
from tests.score.damage import Lines
from tests.score.known_truth import KnownTruth

MARGIN_MS = 3_000
"""What happens so short before the end of the logs need not show."""


class Expected(NamedTuple):
    """A statement that should be made: its kind, its subject, and whether a finding makes it."""

    kind: str
    what: str
    is_by: Callable[[f.Finding], bool]

    def __str__(self) -> str:
        return f"{self.kind}: {self.what}"


def expected(truth: KnownTruth, lines: Lines) -> Iterator[Expected]:
    """The statements that logs allow."""
    end = max(each.time for of_broker in lines.values() for each in of_broker) - MARGIN_MS
    for fact in truth.all:
        if fact.time > end:
            continue
        match fact:
            case MemberChanged(change="expired"):
                is_shown = _is_classic(fact) and not _is_replaced(truth, fact)
                is_shown = is_shown and not _is_back(truth, fact) and not _has_moved(truth, fact)
                if is_shown and _was_in(truth, fact) and _is_followed(truth, fact, end):
                    yield Expected("member expired", f"{fact.group} {fact.member}", _of_gone(fact))
            case MemberChanged(change="left", is_refused=False) if _is_logged(truth, fact, lines):
                yield Expected("member left", f"{fact.group} {fact.member}", _of_left(fact))
            case MemberChanged(change="joined"):
                is_doubtful = _is_restart(truth, fact) or _has_moved(truth, fact)
                is_shown = not (fact.instance and is_doubtful)
                if is_shown and _was_in(truth, fact) and _is_followed(truth, fact, end):
                    what = f"{fact.group} {fact.member}"
                    yield Expected("member joined", what, _of_joined(fact))
            case TransactionMoved(is_timeout=True):
                yield Expected("transaction timed out", fact.id, _of_timeout(fact))
            case OffsetStored() if fact.former > fact.offset and fact.api == "OFFSET_COMMIT":
                what = f"{fact.group} {fact.topic} {fact.former} to {fact.offset}"
                yield Expected("offset went back", what, _of_back(fact))
            case OffsetRemoved(is_refused=False) if fact.api in ("OFFSET_DELETE", "DELETE_GROUPS"):
                what = f"{fact.group} {fact.topic} by {fact.api}"
                yield Expected("offset removed", what, _of_removed(fact))


def _is_followed(truth: KnownTruth, fact: MemberChanged, end: float) -> bool:
    """Whether a later generation began, which a member saw."""
    return any(
        each.time >= fact.time and each.time <= end and each.members
        for each in truth.generations[fact.group]
    )


def _is_restart(truth: KnownTruth, fact: MemberChanged) -> bool:
    """Whether a static member joined as one that is restarted does: it begins no generation."""
    begun = truth.generations[fact.group]
    before = [each for each in begun if each.time < fact.time]
    return not before or _has_instance(before[-1].members, fact)


def _is_replaced(truth: KnownTruth, fact: MemberChanged) -> bool:
    later = [each for each in truth.generations[fact.group] if each.time >= fact.time]
    return bool(later) and _has_instance(later[0].members, fact)


def _is_back(truth: KnownTruth, fact: MemberChanged) -> bool:
    """Whether another coordinator took over the group with a member that had gone before."""
    own = [each for each in truth.changes[fact.group] if each.member == fact.member]
    return any(each.change == "joined" and not each.request for each in own)


def _has_moved(truth: KnownTruth, fact: MemberChanged) -> bool:
    """Whether the coordinator stopped between two generations.

    Then a member may have left without a response, and its session may have begun anew.
    """
    begun = [each for each in truth.generations[fact.group] if each.members]
    before = next((each for each in reversed(begun) if each.time < fact.time), None)
    after = next((each for each in begun if each.time >= fact.time), None)
    if before is None or after is None:
        return False
    return truth.is_broker_restarted(before.broker, before.time, after.time)


def _is_logged(truth: KnownTruth, fact: MemberChanged, lines: Lines) -> bool:
    """Whether the LeaveGroup has a line: a broker that stops writes none."""
    since = fact.time - truth.tolerance_ms
    texts = (each.text for of in lines.values() for each in of if each.time >= since)
    return any(fact.api in each and fact.client in each for each in texts)


def _has_instance(members: tuple[str, ...], fact: MemberChanged) -> bool:
    return bool(fact.instance) and any(each.startswith(f"{fact.instance}-") for each in members)


def _is_classic(fact: MemberChanged) -> bool:
    """Whether a leader's response has the members: a coordinator of KIP-848 sends no list."""
    return fact.member.startswith(f"{fact.instance or fact.of}-")


def _was_in(truth: KnownTruth, fact: MemberChanged) -> bool:
    """Whether a generation began with the member: no other response shows one that joins."""
    return any(fact.member in each.members for each in truth.generations[fact.group])


def _of_gone(fact: MemberChanged) -> Callable[[f.Finding], bool]:
    def is_by(found: f.Finding) -> bool:
        if isinstance(found, f.MemberNotInNext):
            return (found.group, found.member) == (fact.group, fact.member)
        return any(
            isinstance(cause, f.MemberDropped | f.MemberExpired) and cause.member == fact.member
            for cause in found.causes
        )

    return is_by


def _of_left(fact: MemberChanged) -> Callable[[f.Finding], bool]:
    def is_by(found: f.Finding) -> bool:
        if isinstance(found, f.MemberGone):
            return (found.group, found.member) == (fact.group, fact.member)
        return any(
            isinstance(cause, f.MemberLeft) and cause.member == fact.member
            for cause in found.causes
        )

    return is_by


def _of_joined(fact: MemberChanged) -> Callable[[f.Finding], bool]:
    def is_by(found: f.Finding) -> bool:
        if isinstance(found, f.MemberCame):
            return (found.group, found.member) == (fact.group, fact.member)
        return any(
            isinstance(cause, f.MemberJoined) and cause.member == fact.member
            for cause in found.causes
        )

    return is_by


def _of_timeout(fact: TransactionMoved) -> Callable[[f.Finding], bool]:
    def is_by(found: f.Finding) -> bool:
        if isinstance(found, f.TransactionTimedOut | f.CoordinatorAborted):
            return found.producer.transactional_id == fact.id
        return isinstance(found, f.ProducerFenced) and any(
            isinstance(cause, f.TransactionOverdue | f.TransactionAborted) for cause in found.causes
        )

    return is_by


def _of_back(fact: OffsetStored) -> Callable[[f.Finding], bool]:
    def is_by(found: f.Finding) -> bool:
        return (
            isinstance(found, f.OffsetWentBack)
            and found.group == fact.group
            and (found.former, found.offset) == (fact.former, fact.offset)
        )

    return is_by


def _of_removed(fact: OffsetRemoved) -> Callable[[f.Finding], bool]:
    def is_by(found: f.Finding) -> bool:
        return isinstance(found, f.OffsetVanished) and found.group == fact.group

    return is_by
