"""Groups: members, generations and committed offsets."""

from collections.abc import Iterator
from typing import ClassVar

from brokertwin.recordings.history import bodies
from brokertwin.recordings.history.entity import EntityKey, EntityKind, ObservedEntity
from brokertwin.recordings.history.exchange import KnownFacts, RecordedExchange
from brokertwin.recordings.history.finding import EntityFinding, Severity
from brokertwin.recordings.history.group_offsets import COMMIT_APIS, STALE, ObservedOffsets
from brokertwin.recordings.history.memberships import MEMBER_APIS, NEAR_MS, Membership

APIS = frozenset({*MEMBER_APIS, *COMMIT_APIS, "OFFSET_DELETE", "END_TXN"})


class ObservedGroup(ObservedEntity, kw_only=True):
    """A group. Judgements wait because a join explains refusals before its response."""

    LOOKAHEAD_MS: ClassVar[int] = NEAR_MS

    membership: Membership
    offsets: ObservedOffsets

    def take(self, exchange: RecordedExchange, known: KnownFacts) -> Iterator[EntityFinding]:
        """Note the joins of an exchange in its turn."""
        self.membership.index(exchange)
        yield from ()

    def judge(self, exchange: RecordedExchange, known: KnownFacts) -> Iterator[EntityFinding]:
        """Report refusals of an exchange and their causes, then take its changes."""
        api = exchange.line.api
        if api == "END_TXN":
            yield from self.offsets.end_transaction(exchange)
        elif api in COMMIT_APIS:
            yield from self._refused(exchange)
            if api == "OFFSET_COMMIT" and exchange.request.get("memberId"):
                self.membership.clients[exchange.request["memberId"]] = exchange.line
            yield from self.offsets.commit(exchange, known)
        elif api == "OFFSET_DELETE":
            yield from self._refused(exchange)
            yield from self.offsets.delete(exchange, known)
        elif exchange.has_response:
            yield from self.membership.refused(exchange)
            yield from self.membership.take(exchange, known.last)

    def _refused(self, exchange: RecordedExchange) -> Iterator[EntityFinding]:
        """Report the errors of a commit, or of a deletion of offsets."""
        line, body = exchange.line, exchange.request
        for code in sorted({*bodies.errors(exchange.response)}):
            cause = self.membership.because(code, exchange)
            if code in STALE and line.api in COMMIT_APIS:
                epoch = body.get("generationIdOrMemberEpoch", body.get("generationId", -1))
                yield EntityFinding(
                    kind="commit-refused",
                    severity=Severity.WARNING,
                    subject=f"group {self.membership.group}",
                    line=line,
                    part=str(code),
                    said=f"member {body.get('memberId') or '(none)'}, generation {epoch}",
                    cause=cause,
                    code=code,
                )
            elif cause:
                yield self.membership.explained(line, code, cause)


def _groups_of(exchange: RecordedExchange, known: KnownFacts) -> Iterator[EntityKey]:
    body = exchange.request
    if exchange.line.api == "END_TXN":
        places = known.places.get(body.get("producerId", bodies.NO_PRODUCER), ())
        groups = dict.fromkeys(group for group, _, _ in places)
        yield from (EntityKey("group", group) for group in groups)
    else:
        yield EntityKey("group", str(body.get("groupId")))


def group_of(group: str) -> ObservedGroup:
    """The state of a group that is not seen yet."""
    return ObservedGroup(membership=Membership(group), offsets=ObservedOffsets(group))


GROUPS = EntityKind("group", APIS, _groups_of, lambda key: group_of(key.id))
