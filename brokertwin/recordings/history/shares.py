"""Share groups: deliveries of records, acknowledgements, and share sessions (KIP-932).

It follows the responses of ShareFetch and ShareAcknowledge. No response shows a release by
the broker, when a lock expires or a connection closes: it shows when records are delivered again.
"""

from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple

import msgspec
from msgspec import field

from brokertwin.protocol.errors import Error
from brokertwin.recordings.history.entity import EntityKey, EntityKind, ObservedEntity
from brokertwin.recordings.history.exchange import KnownFacts, RecordedExchange, RecordedRequest
from brokertwin.recordings.history.finding import EntityFinding, Severity
from brokertwin.recordings.history.sessions import FINAL_EPOCH, INITIAL_EPOCH
from brokertwin.recordings.rules import Rule

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

AGAIN = Rule(
    "Records that a member gives back, or does not acknowledge within"
    " group.share.record.lock.duration.ms, are given again, group.share.delivery.count.limit times"
    " in all; then the group has done with them and no member gets them.",
    "KIP-932; SharePartition",
    "Look at the member that had them: a member that is slower than its lock needs a longer one,"
    " or to renew it; records that are given back again and again belong in another topic.",
)
REJECTED = Rule(
    "Records that a member rejects are done with: no member of the group gets them again.",
    "KIP-932; SharePartition",
    "Keep elsewhere what cannot be worked on before it is rejected: the group does not.",
)


class SharePlace(NamedTuple):
    """A partition as one broker leads it; `topic` is the topic id."""

    broker: int
    topic: str
    partition: int


class RecordedAcknowledgement(msgspec.Struct, frozen=True):
    """The outcome of records that a member reported.

    Attributes:
        place: the partition; topic "" for all records of a session that ends.
        member: member id.
        line: the request.
        first: first offset.
        last: last offset.
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
        last: last offset.
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
        group: the group id.
        deliveries: deliveries, in the order of the responses.
        releases: acknowledgements that gave records back, in the same order.
        sessions: broker and member to the share session.
    """

    LOOKAHEAD_MS: ClassVar[int] = 2_000

    group: str
    deliveries: list[Delivery] = field(default_factory=list)
    releases: list[RecordedAcknowledgement] = field(default_factory=list)
    sessions: dict[str, RecordedShareSession] = field(default_factory=dict)

    def take(self, exchange: RecordedExchange, known: KnownFacts) -> Iterator[EntityFinding]:
        """Note releases, whose responses may come after those of the fetches that they allow."""
        self.releases += [
            each
            for each in acknowledgements(exchange)
            if each.outcome == RELEASE and not each.error
        ]
        del self.releases[:-DELIVERIES_MAX]
        yield from ()

    def judge(self, exchange: RecordedExchange, known: KnownFacts) -> Iterator[EntityFinding]:
        """Report acknowledgements, repeated deliveries and events of the session."""
        for each in acknowledgements(exchange):
            yield from self._acknowledged(each, known)
        for delivery in deliveries(exchange):
            for before in self._before(delivery):
                yield self._again(delivery, before, known)
            self.deliveries.append(delivery)
        del self.deliveries[:-DELIVERIES_MAX]
        yield from self._session(exchange)

    def _acknowledged(
        self, each: RecordedAcknowledgement, known: KnownFacts
    ) -> Iterator[EntityFinding]:
        place = _named(known, each.place)
        all_of = f"{place} {each.first} to {each.last}"
        shown = f"{place} {_span(each.first, each.last)}"
        if each.error == Error.INVALID_RECORD_STATE:
            held = [
                (first, last, now)
                for first, last, now in self._holders(each.place, each.first, each.last)
                if now is not None and now.member != each.member
            ]
            said = f"{all_of} of {each.member}" + "".join(
                f"; {now.member} got {first} to {last} at {now.line.place}"
                for first, last, now in held
            )
            cause = " ".join(
                f"{place} {_span(first, last)} went to member {now.member}: {now.line.words}."
                for first, last, now in held
            )
            yield self._finding(
                "acknowledge-refused",
                each.line,
                said,
                Severity.WARNING,
                cause=cause,
                by=tuple(now.line.name for _, _, now in held),
                code=each.error,
            )
        elif each.outcome == REJECT and not each.error:
            yield self._finding(
                "records-rejected",
                each.line,
                f"{all_of} by {each.member}",
                Severity.WARNING,
                cause=f"rejects {shown}",
                rule=REJECTED,
                facts={"records": each.last - each.first + 1},
            )
        elif each.outcome == RELEASE and not each.error and each.place.topic:
            yield self._finding("records-released", each.line, f"gives back {shown}")

    def _again(self, new: Delivery, before: FormerDelivery, known: KnownFacts) -> EntityFinding:
        """Records that were delivered again."""
        records = f"{_named(known, new.place)} {_span(before.first, before.last)}"
        said = f"{records} to {new.member}"
        said += f" for the {new.count}th time" if new.count > 3 else ""
        cause, former, is_kept = f"{records}: delivery {new.count}", before.delivery, False
        if former is not None:
            released, is_kept = before.released, before.released is None
            became = f"given back by {released.words}" if released else "not acknowledged"
            said += f"; before, {former.member} got them at {former.line.place}, {became}"
            cause += f"; before, {former.member} got it by {former.line.words}"
            in_time = ", and did not acknowledge it in time"
            cause += f", and gave it back by {released.words}" if released else in_time
        return self._finding(
            "records-redelivered",
            new.line,
            said,
            Severity.WARNING if is_kept else Severity.INFO,
            cause=cause,
            by=(former.line.name,) if former is not None else (),
            rule=AGAIN,
            facts={
                "records": before.last - before.first + 1,
                "deliveries": new.count,
                "was": "unknown" if former is None else "kept" if is_kept else "released",
            },
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

    def _session(self, exchange: RecordedExchange) -> Iterator[EntityFinding]:
        line, body = exchange.line, exchange.request
        member, epoch = str(body.get("memberId")), body.get("shareSessionEpoch")
        session = self.sessions.setdefault(f"{line.broker} {member}", RecordedShareSession())
        if exchange.code in SESSION_ERRORS:
            has_room = exchange.code != Error.SHARE_SESSION_LIMIT_REACHED
            yield self._finding(
                "share-session-lost" if has_room else "share-session-denied",
                line,
                f"group {self.group}, member {member}, epoch {epoch}",
                Severity.INFO if has_room else Severity.WARNING,
                cause=_because(session) if exchange.code == Error.SHARE_SESSION_NOT_FOUND else "",
                code=exchange.code,
            )
        elif not exchange.code and epoch == INITIAL_EPOCH:
            session.opened, session.closed = line, None
            yield self._finding("share-session-opened", line, "opens a share session")
        elif not exchange.code and epoch == FINAL_EPOCH:
            session.opened, session.closed = None, line
            said = "closes its share session, and gives back what it has"
            yield self._finding("share-session-closed", line, said)
        while len(self.sessions) > MEMBERS_MAX:
            del self.sessions[next(iter(self.sessions))]

    def _finding(
        self,
        kind: str,
        line: RecordedRequest,
        said: str,
        severity: Severity = Severity.NOTE,
        *,
        cause: str = "",
        by: tuple[str, ...] = (),
        code: int = Error.NONE,
        rule: Rule | None = None,
        facts: dict[str, Any] | None = None,
    ) -> EntityFinding:
        return EntityFinding(
            kind=kind,
            severity=severity,
            subject=f"group {self.group}",
            line=line,
            part=said,
            said=said,
            cause=cause,
            by=by,
            code=code,
            rule=rule,
            facts=facts or {},
        )


def _because(session: RecordedShareSession) -> str:
    """Why a share session is unknown to its broker."""
    if session.closed is not None:
        return f"The member has closed it: {session.closed.words}."
    if session.opened is not None:
        return (
            f"It was opened by {session.opened.words}, and has ended since: its connection is gone,"
            " or its broker was started again."
        )
    return "The recording has no answer that opened it."


def deliveries(exchange: RecordedExchange) -> Iterator[Delivery]:
    """The records that a ShareFetch delivered."""
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


def _named(known: KnownFacts, place: SharePlace) -> str:
    return f"{known.named(place.topic)}-{place.partition}"


def _span(first: int, last: int) -> str:
    """`7`, `7 to 9`."""
    return str(first) if first == last else f"{first} to {last}"


def _groups_of(exchange: RecordedExchange, known: KnownFacts) -> Iterator[EntityKey]:
    yield EntityKey("share-group", str(exchange.request.get("groupId")))


SHARE_GROUPS = EntityKind(
    "share-group", frozenset(SHARE_APIS), _groups_of, lambda key: ObservedShareGroup(group=key.id)
)
