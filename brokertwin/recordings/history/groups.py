"""Groups: members, generations and committed offsets."""

from collections.abc import Iterator
from typing import ClassVar

from brokertwin.protocol.errors import Error
from brokertwin.recordings.history import bodies
from brokertwin.recordings.history.entity import EntityKey, EntityKind, ObservedEntity, Parts
from brokertwin.recordings.history.exchange import KnownFacts, RecordedExchange
from brokertwin.recordings.history.findings import (
    CommitRefused,
    Finding,
    OffsetsPending,
    Severity,
)
from brokertwin.recordings.history.group_offsets import (
    COMMIT_APIS,
    OFFSET_APIS,
    STALE,
    ObservedOffsets,
    deleted_by,
    groups_of,
    producer_of,
)
from brokertwin.recordings.history.memberships import (
    AWAY,
    MEMBER_APIS,
    NEAR_MS,
    Membership,
    certainty_of,
)

APIS = frozenset({*MEMBER_APIS, *OFFSET_APIS})


class ObservedGroup(ObservedEntity, kw_only=True):
    """A group. Judgements wait because a join explains refusals before its response."""

    LOOKAHEAD_MS: ClassVar[int] = NEAR_MS

    membership: Membership
    offsets: ObservedOffsets

    def expire(self, now: float, known: KnownFacts) -> list[Finding]:
        """Also count the members."""
        findings, of = super().expire(now, known), self.membership
        alive = of.alive_at(known.last, known)
        of.alive, of.silent = len(alive), len(of.silent_at(known.last).keys() & alive)
        return findings

    @property
    def ends_ms(self) -> int | None:
        """After how long without requests the session of a member ends, or it is silent."""
        of = self.membership
        if of.is_modern:
            away = sum(each.epoch == AWAY for each in of.members.values())
            is_over = of.silent + away >= (of.alive or 0)
            return None if is_over or not of.silence_ms else of.silence_ms
        sessions = [each.session_timeout_ms for each in of.members.values()]
        known = [each for each in sessions if each >= 0] if of.alive and of.has_beats else []
        return min(known, default=None)

    def take(self, exchange: RecordedExchange, known: KnownFacts) -> Iterator[Finding]:
        """Note the joins of an exchange in its turn."""
        self.membership.index(exchange)
        yield from ()

    def judge(self, exchange: RecordedExchange, known: KnownFacts) -> Iterator[Finding]:
        """Report refusals of an exchange and their causes, then take its changes."""
        api = exchange.line.api
        self.membership.late_ms = known.late_ms
        if api in OFFSET_APIS:
            yield from self._refused(exchange, known)
            member = exchange.request.get("memberId")
            if api == "OFFSET_COMMIT" and member:
                self.membership.clients[member] = exchange.line
                if not bodies.errors(exchange.response):
                    self.membership.seen(member, -1, exchange.line)
            yield from self.offsets.take(exchange, known)
            if api == "DELETE_GROUPS" and self.membership.group in deleted_by(exchange):
                group, clients = self.membership.group, self.membership.clients
                self.membership = Membership(group, clients=clients, deleted=exchange.line)
        elif exchange.has_response:
            yield from self.membership.refused(exchange)
            yield from self.membership.take(exchange, known)

    def _refused(self, exchange: RecordedExchange, known: KnownFacts) -> Iterator[Finding]:
        line, body, group = exchange.line, exchange.request, self.membership.group
        if line.api not in (*COMMIT_APIS, "OFFSET_DELETE", "OFFSET_FETCH"):
            return
        for code in sorted({*bodies.errors(exchange.response)}):
            if code == Error.UNSTABLE_OFFSET_COMMIT:
                pending = self.offsets.pending[-1:] if not known.is_coarse else []
                causes = tuple(
                    OffsetsPending(producer=producer_of(each, known), by=each.line)
                    for each in pending
                )
                if causes:
                    yield self.membership.explained(line, code, causes)
                continue
            found = self.membership.causes(code, exchange)
            if code in STALE and line.api in COMMIT_APIS:
                epoch = body.get("generationIdOrMemberEpoch", body.get("generationId", -1))
                yield CommitRefused(
                    group=group,
                    line=line,
                    severity=Severity.WARNING,
                    causes=found,
                    certainty=certainty_of(found),
                    code=code,
                    member=body.get("memberId") or "",
                    epoch=epoch,
                )
            elif found:
                yield self.membership.explained(line, code, found)


def _groups_in(exchange: RecordedExchange, known: KnownFacts) -> Parts:
    if exchange.line.api in OFFSET_APIS:
        return [(EntityKey("group", each), exchange) for each in groups_of(exchange, known)]
    return [(EntityKey("group", str(exchange.request.get("groupId"))), exchange)]


def group_of(group: str) -> ObservedGroup:
    """The state of a group that is not seen yet."""
    return ObservedGroup(membership=Membership(group), offsets=ObservedOffsets(group))


GROUPS = EntityKind("group", APIS, _groups_in, lambda key: group_of(key.id))
