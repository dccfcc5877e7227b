"""Share groups: deliveries of records, acknowledgements, and share sessions (KIP-932).

It follows the responses of ShareFetch and ShareAcknowledge. No response shows a release by
the broker, when a lock expires or a connection closes: it shows when records are delivered again.
"""

from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple

import msgspec
from msgspec import field

from brokertwin.protocol.errors import Error
from brokertwin.recordings.history import bodies
from brokertwin.recordings.history.entity import EntityKey, EntityKind, ObservedEntity, Parts
from brokertwin.recordings.history.exchange import KnownFacts, RecordedExchange, RecordedRequest
from brokertwin.recordings.history.findings import (
    AcknowledgeRefused,
    Cause,
    Certainty,
    ConnectionEnded,
    DeliveredBefore,
    DeliveryLimitReached,
    Finding,
    PartitionId,
    RecordsArchived,
    RecordsDeliveredAgain,
    RecordsFinding,
    RecordsMoved,
    RecordsRejected,
    RecordsReleased,
    SessionClosed,
    Severity,
    ShareSessionClosed,
    ShareSessionDenied,
    ShareSessionLost,
    ShareSessionOpened,
)
from brokertwin.recordings.history.sessions import FINAL_EPOCH, INITIAL_EPOCH

SHARE_APIS = ("SHARE_FETCH", "SHARE_ACKNOWLEDGE")
RELEASE, REJECT = 2, 3
"""Types of acknowledgements."""

DELIVERIES_MAX = 5_000
"""Maximum number of deliveries and of releases of a group that are kept."""

MEMBERS_MAX = 1_000
"""Maximum number of share sessions of a group that are kept."""

SESSION_ERRORS = frozenset(
    {
        Error.SHARE_SESSION_NOT_FOUND,
        Error.INVALID_SHARE_SESSION_EPOCH,
        Error.SHARE_SESSION_LIMIT_REACHED,
    }
)
EVERYTHING = 2**63 - 1
"""Last offset of the records that the end of a session gives back."""

STATE_API = "WRITE_SHARE_GROUP_STATE"
"""Brokers store the states of records by it (KIP-932)."""

ARCHIVED = 4
"""The state of records that are not delivered again."""

DELIVERY_LIMIT = 5
"""The default of group.share.delivery.count.limit."""


class SharePlace(NamedTuple):
    """A partition as one broker leads it; `topic` is the topic id."""

    broker: int
    topic: str
    partition: int


class RecordedAcknowledgement(msgspec.Struct, frozen=True):
    """The outcome of records that a member reported.

    Attributes:
        place: the partition; topic "" for all records of a session that ends.
        outcome: Kafka's type of the acknowledgement.
        error: the error code of the response.
    """

    place: SharePlace
    member: str
    line: RecordedRequest
    first: int
    last: int
    outcome: int
    error: int


class Delivery(msgspec.Struct, frozen=True):
    """Records that a member got; `count` includes this delivery."""

    place: SharePlace
    member: str
    line: RecordedRequest
    first: int
    last: int
    count: int


class FormerDelivery(NamedTuple):
    """The delivery of records before they were delivered again.

    Attributes:
        first: first offset of these records.
        delivery: the delivery before; None if it is not recorded.
        released: the request that gave them back; None if there is none.
    """

    first: int
    last: int
    delivery: Delivery | None
    released: RecordedRequest | None


class RecordedShareSession(msgspec.Struct):
    """The requests that opened and closed the share session of a member at a broker."""

    opened: RecordedRequest | None = None
    closed: RecordedRequest | None = None


class ObservedShareGroup(ObservedEntity, kw_only=True):
    """The records of a share group.

    Attributes:
        deliveries: deliveries, in the order of the responses.
        releases: acknowledgements that gave records back, in the same order.
        sessions: broker and member to the share session.
        archived: topic id and partition to the archived records, from the first to the last.
    """

    LOOKAHEAD_MS: ClassVar[int] = 2_000

    group: str
    deliveries: list[Delivery] = field(default_factory=list)
    releases: list[RecordedAcknowledgement] = field(default_factory=list)
    sessions: dict[str, RecordedShareSession] = field(default_factory=dict)
    rejected: list[RecordedAcknowledgement] = field(default_factory=list)
    archived: dict[str, list[tuple[int, int]]] = field(default_factory=dict)

    def take(self, exchange: RecordedExchange, known: KnownFacts) -> Iterator[Finding]:
        """Note releases, whose responses may come after those of the fetches that they allow."""
        if exchange.line.api == STATE_API:
            return
        self.releases += [
            each
            for each in acknowledgements(exchange)
            if each.outcome == RELEASE and not each.error
        ]
        del self.releases[:-DELIVERIES_MAX]
        yield from ()

    def judge(self, exchange: RecordedExchange, known: KnownFacts) -> Iterator[Finding]:
        """Report acknowledgements, repeated deliveries and events of the session."""
        if exchange.line.api == STATE_API:
            yield from self._stored(exchange, known)
            return
        for each in acknowledgements(exchange):
            yield from self._acknowledged(each, known)
        for delivery in deliveries(exchange):
            for before in self._before(delivery):
                yield self._again(delivery, before, known)
            self.deliveries.append(delivery)
        del self.deliveries[:-DELIVERIES_MAX]
        yield from self._session(exchange)

    def _acknowledged(self, each: RecordedAcknowledgement, known: KnownFacts) -> Iterator[Finding]:
        if each.error == Error.INVALID_RECORD_STATE:
            causes = tuple(
                RecordsMoved(
                    partition=_partition(known, each.place),
                    first=first,
                    last=last,
                    member=now.member,
                    by=now.line,
                )
                for first, last, now in self._holders(each.place, each.first, each.last)
                if now is not None and now.member != each.member
            )
            yield AcknowledgeRefused(
                group=self.group,
                line=each.line,
                severity=Severity.WARNING,
                causes=causes,
                certainty=Certainty.SEEN if causes else Certainty.UNKNOWN,
                partition=_partition(known, each.place),
                first_offset=each.first,
                last_offset=each.last,
                member=each.member,
                code=each.error,
            )
        elif each.outcome == REJECT and not each.error:
            self.rejected = [*self.rejected, each][-DELIVERIES_MAX:]
            yield self._of(RecordsRejected, Severity.WARNING, each, known)
        elif each.outcome == RELEASE and not each.error and each.place.topic:
            yield self._of(RecordsReleased, Severity.NOTE, each, known)

    def _of(
        self,
        kind: type[RecordsRejected | RecordsReleased],
        severity: Severity,
        each: RecordedAcknowledgement,
        known: KnownFacts,
    ) -> RecordsFinding:
        return kind(
            group=self.group,
            line=each.line,
            severity=severity,
            partition=_partition(known, each.place),
            first_offset=each.first,
            last_offset=each.last,
            member=each.member,
        )

    def _stored(self, exchange: RecordedExchange, known: KnownFacts) -> Iterator[Finding]:
        """Report archived records that no member rejected, as the broker stores them."""
        if bodies.errors(exchange.response):
            return
        for topic in exchange.request.get("topics") or ():
            for part in topic["partitions"]:
                at = topic["topicId"], part["partition"]
                name = f"{at[0]} {at[1]}"
                for batch in part.get("stateBatches") or ():
                    count = batch["deliveryCount"]
                    if batch["deliveryState"] != ARCHIVED:
                        continue
                    if count < DELIVERY_LIMIT and not self._is_last(at, batch, count):
                        continue
                    for first, last in self._new(
                        name, at, batch["firstOffset"], batch["lastOffset"]
                    ):
                        yield self._archived(exchange.line, at, first, last, count, known)

    def _is_last(self, at: tuple[str, int], batch: Any, count: int) -> bool:
        """Return whether a member gave records back whose last delivery has this count.

        A release below the limit makes them available again. So the group's limit is the count.
        """
        first, last = batch["firstOffset"], batch["lastOffset"]
        given = [e for e in self.deliveries if e.place[1:] == at and e.first <= first <= e.last]
        released = [
            each
            for each in self.releases
            if each.place[1:] == at and each.first <= first and each.last >= last
        ]
        return bool(given and released) and given[-1].count == count

    def _new(self, name: str, at: tuple[str, int], first: int, last: int) -> list[tuple[int, int]]:
        """The records of a stretch that were not archived before, nor rejected by a member."""
        done = [*self.archived.get(name, ())]
        self.archived[name] = [*done, (first, last)][-DELIVERIES_MAX:]
        while len(self.archived) > MEMBERS_MAX:
            del self.archived[next(iter(self.archived))]
        done += [(e.first, e.last) for e in self.rejected if e.place[1:] == at]
        open_ = [(first, last)]
        for begin, end in done:
            left = []
            for low, high in open_:
                left += [(low, min(high, begin - 1)), (max(low, end + 1), high)]
            open_ = [each for each in left if each[0] <= each[1]]
        return open_

    def _archived(
        self,
        line: RecordedRequest,
        at: tuple[str, int],
        first: int,
        last: int,
        count: int,
        known: KnownFacts,
    ) -> Finding:
        same = [e for e in self.deliveries if e.place[1:] == at and e.first <= last]
        same = [e for e in same if e.last >= first and e.line.time <= line.end]
        delivery = same[-1] if same else None
        return RecordsArchived(
            group=self.group,
            line=line,
            severity=Severity.WARNING,
            causes=(
                DeliveryLimitReached(
                    count=count, last=delivery.line if delivery is not None else None
                ),
            ),
            certainty=Certainty.SEEN if delivery is not None else Certainty.DERIVED,
            client=delivery.line.name if delivery is not None else "",
            partition=PartitionId(known.named(at[0]), at[1]),
            first_offset=first,
            last_offset=last,
            member=delivery.member if delivery is not None else "",
            count=count,
        )

    def _again(self, new: Delivery, before: FormerDelivery, known: KnownFacts) -> Finding:
        causes: tuple[Cause, ...] = ()
        former, is_kept = before.delivery, False
        if former is not None:
            is_kept = before.released is None
            released = before.released
            causes = (DeliveredBefore(member=former.member, by=former.line, released=released),)
        known_by = Certainty.DERIVED if is_kept else Certainty.SEEN
        return RecordsDeliveredAgain(
            group=self.group,
            line=new.line,
            severity=Severity.WARNING if is_kept else Severity.INFO,
            causes=causes,
            certainty=known_by if causes else Certainty.UNKNOWN,
            partition=_partition(known, new.place),
            first_offset=before.first,
            last_offset=before.last,
            member=new.member,
            count=new.count,
        )

    def _before(self, new: Delivery) -> Iterator[FormerDelivery]:
        """The deliveries before a repeated one, by stretches of records."""
        if new.count > 1:
            for first, last, former in self._holders(new.place, new.first, new.last):
                is_next = former is not None and former.count == new.count - 1
                known = former if is_next else None
                by = self._release(known, first, last, new.line) if known is not None else None
                yield FormerDelivery(first, last, known, by)

    def _holders(
        self, place: SharePlace, first: int, last: int
    ) -> Iterator[tuple[int, int, Delivery | None]]:
        """The newest delivery of each stretch of records."""
        open_stretches = [(first, last)]
        for former in reversed(self.deliveries):
            if former.place != place:
                continue
            left: list[tuple[int, int]] = []
            for begin, end in open_stretches:
                low, high = max(begin, former.first), min(end, former.last)
                if low > high:
                    left.append((begin, end))
                    continue
                yield low, high, former
                left += [each for each in ((begin, low - 1), (high + 1, end)) if each[0] <= each[1]]
            open_stretches = left
            if not left:
                return
        yield from ((begin, end, None) for begin, end in open_stretches)

    def _release(
        self, former: Delivery, first: int, last: int, again: RecordedRequest
    ) -> RecordedRequest | None:
        """The request that gave records back between two deliveries of them."""
        for each in self.releases:
            is_own = (each.place.broker, each.member) == (former.place.broker, former.member)
            is_between = each.line.end >= former.line.end and each.line.time <= again.end
            is_here = each.place == former.place and each.first <= last and each.last >= first
            if is_own and is_between and (is_here or not each.place.topic):
                return each.line
        return None

    def _session(self, exchange: RecordedExchange) -> Iterator[Finding]:
        line, body = exchange.line, exchange.request
        member, epoch = str(body.get("memberId")), body.get("shareSessionEpoch")
        session = self.sessions.setdefault(f"{line.broker} {member}", RecordedShareSession())
        group, number = self.group, epoch if isinstance(epoch, int) else -1
        if exchange.code == Error.SHARE_SESSION_LIMIT_REACHED:
            yield ShareSessionDenied(
                group=group,
                line=line,
                severity=Severity.WARNING,
                member=member,
                epoch=number,
                code=exchange.code,
            )
        elif exchange.code in SESSION_ERRORS:
            is_unknown = exchange.code == Error.SHARE_SESSION_NOT_FOUND
            causes = _ended_by(session) if is_unknown else ()
            yield ShareSessionLost(
                group=group,
                line=line,
                severity=Severity.INFO,
                causes=causes,
                certainty=Certainty.SEEN if causes else Certainty.UNKNOWN,
                member=member,
                epoch=number,
                code=exchange.code,
            )
        elif not exchange.code and epoch == INITIAL_EPOCH:
            session.opened, session.closed = line, None
            yield ShareSessionOpened(group=group, line=line, member=member, epoch=number)
        elif not exchange.code and epoch == FINAL_EPOCH:
            session.opened, session.closed = None, line
            yield ShareSessionClosed(group=group, line=line, member=member, epoch=number)
        while len(self.sessions) > MEMBERS_MAX:
            del self.sessions[next(iter(self.sessions))]


def _ended_by(session: RecordedShareSession) -> tuple[Cause, ...]:
    """Why a share session is unknown to its broker."""
    if session.closed is not None:
        return (SessionClosed(by=session.closed),)
    return (ConnectionEnded(opened=session.opened),) if session.opened is not None else ()


def deliveries(exchange: RecordedExchange) -> Iterator[Delivery]:
    for topic in exchange.response.get("responses") or ():
        for part in topic["partitions"]:
            place = SharePlace(exchange.line.broker, topic["topicId"], part["partitionIndex"])
            for each in part.get("acquiredRecords") or ():
                member = str(exchange.request.get("memberId"))
                span = each["firstOffset"], each["lastOffset"], each["deliveryCount"]
                yield Delivery(place, member, exchange.line, *span)


def acknowledgements(exchange: RecordedExchange) -> Iterator[RecordedAcknowledgement]:
    """The acknowledgements of a request, with the errors of the response.

    The end of a session gives back all records of the member: its topic is "".
    """
    line, body, response = exchange.line, exchange.request, exchange.response
    if exchange.code:
        return
    member = str(body.get("memberId"))
    codes = {
        (topic["topicId"], part["partitionIndex"]): part.get(
            "acknowledgeErrorCode", part["errorCode"]
        )
        for topic in response.get("responses") or ()
        for part in topic["partitions"]
    }
    for topic in body.get("topics") or ():
        for part in topic["partitions"]:
            key = topic["topicId"], part["partitionIndex"]
            for batch in part.get("acknowledgementBatches") or ():
                if key in codes:
                    place = SharePlace(line.broker, *key)
                    for first, last, outcome in _stretches(batch):
                        yield RecordedAcknowledgement(
                            place, member, line, first, last, outcome, codes[key]
                        )
    if body.get("shareSessionEpoch") == FINAL_EPOCH:
        place = SharePlace(line.broker, "", -1)
        yield RecordedAcknowledgement(place, member, line, 0, EVERYTHING, RELEASE, Error.NONE)


def _stretches(batch: Any) -> Iterator[tuple[int, int, int]]:
    """The outcomes of a batch: one for all of its records, or one for each."""
    first, last, types = batch["firstOffset"], batch["lastOffset"], batch["acknowledgeTypes"]
    if len(types) == 1:
        yield first, last, types[0]
        return
    begin = 0
    for number in range(1, len(types) + 1):
        if number == len(types) or types[number] != types[begin]:
            yield first + begin, first + number - 1, types[begin]
            begin = number


def _partition(known: KnownFacts, place: SharePlace) -> PartitionId:
    return PartitionId(known.named(place.topic), place.partition)


def _groups_in(exchange: RecordedExchange, known: KnownFacts) -> Parts:
    yield EntityKey("share-group", str(exchange.request.get("groupId"))), exchange


SHARE_GROUPS = EntityKind(
    "share-group",
    frozenset({*SHARE_APIS, STATE_API}),
    _groups_in,
    lambda key: ObservedShareGroup(group=key.id),
)
