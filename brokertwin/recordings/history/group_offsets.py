"""Committed offsets of a group: the last one of each partition, and those of open transactions."""

from collections.abc import Iterator

import msgspec
from msgspec import field

from brokertwin.protocol.errors import Error
from brokertwin.recordings.history import bodies
from brokertwin.recordings.history.bodies import NO_PRODUCER
from brokertwin.recordings.history.exchange import KnownFacts, RecordedExchange, RecordedRequest
from brokertwin.recordings.history.finding import EntityFinding, Severity
from brokertwin.recordings.rules import Rule

COMMIT_APIS = ("OFFSET_COMMIT", "TXN_OFFSET_COMMIT")

OFFSETS_MAX = 10_000
"""Maximum number of partitions of a group whose offsets are kept, pending ones apart."""

STALE = frozenset(
    {
        *(Error.ILLEGAL_GENERATION, Error.UNKNOWN_MEMBER_ID, Error.REBALANCE_IN_PROGRESS),
        *(Error.FENCED_INSTANCE_ID, Error.FENCED_MEMBER_EPOCH, Error.UNRELEASED_INSTANCE_ID),
        *(Error.UNSUPPORTED_ASSIGNOR, Error.STALE_MEMBER_EPOCH),
    }
)
"""Errors of a commit whose member, generation or epoch is not valid any more."""

BACK = Rule(
    "A group's committed offset is the last one, whether it is greater or not.",
    "OffsetMetadataManager.commitOffset",
    "Records from there on are read again. Look at who committed: a reset by hand, an older member"
    " that came late, or a consumer that began again by auto.offset.reset.",
)


class CommittedOffset(msgspec.Struct, frozen=True):
    """An offset that a broker accepted.

    Attributes:
        topic: topic name, or id if no response shows the name.
        partition: its number.
        offset: the committed offset.
        member: member id; "" if the request has none.
        metadata: metadata of the commit.
        line: the commit.
        producer: producer id and epoch of a transactional commit; -1 otherwise.
    """

    topic: str
    partition: int
    offset: int
    member: str
    metadata: str
    line: RecordedRequest
    producer: tuple[int, int] = (NO_PRODUCER, -1)

    @property
    def place(self) -> str:
        """Topic and partition."""
        return f"{self.topic}-{self.partition}"


class ObservedOffsets(msgspec.Struct):
    """The committed offsets of a group.

    Attributes:
        group: the group id.
        offsets: topic and partition to its committed offset.
        pending: offsets of transactions that have not ended.
    """

    group: str
    offsets: dict[str, CommittedOffset] = field(default_factory=dict)
    pending: list[CommittedOffset] = field(default_factory=list)

    @property
    def newest(self) -> dict[str, CommittedOffset]:
        """Topic and partition to the offset that was committed last, pending ones included."""
        return {**self.offsets, **{each.place: each for each in self.pending}}

    def commit(self, exchange: RecordedExchange, known: KnownFacts) -> Iterator[EntityFinding]:
        """Take the accepted offsets of a commit."""
        is_pending = exchange.line.api == "TXN_OFFSET_COMMIT"
        pending = {each.place: each for each in self.pending}
        for each in _accepted(exchange, known):
            former = pending.get(each.place) or self.offsets.get(each.place)
            if former is not None and each.offset < former.offset:
                said = (
                    f"{each.place} goes back from {former.offset} ({former.line.words}) to"
                    f" {each.offset}"
                )
                yield self._finding("offset-moved-back", Severity.NOTE, each, said)
            if is_pending:
                self.pending.append(each)
            else:
                yield from self._take(each)
        del self.pending[:-OFFSETS_MAX]

    def end_transaction(self, exchange: RecordedExchange) -> Iterator[EntityFinding]:
        """Take or drop the pending offsets of a producer."""
        body = exchange.request
        producer = body.get("producerId", NO_PRODUCER), body.get("producerEpoch", -1)
        ended = [each for each in self.pending if each.producer == producer]
        self.pending = [each for each in self.pending if each.producer != producer]
        if body.get("committed") and not exchange.code:
            for each in ended:
                yield from self._take(each)

    def delete(self, exchange: RecordedExchange, known: KnownFacts) -> Iterator[EntityFinding]:
        """Drop deleted offsets."""
        for topic in exchange.response.get("topics") or ():
            for partition in topic["partitions"]:
                if not partition["errorCode"]:
                    name, number = known.topic(topic), partition["partitionIndex"]
                    gone = CommittedOffset(name, number, -1, "", "", exchange.line)
                    self.offsets.pop(gone.place, None)
                    said = f"the offset of {gone.place} is deleted"
                    yield self._finding("offset-deleted", Severity.NOTE, gone, said)

    def _take(self, new: CommittedOffset) -> Iterator[EntityFinding]:
        """Take an offset; two commits at once have no order."""
        former = self.offsets.pop(new.place, None)
        self.offsets[new.place] = new
        while len(self.offsets) > OFFSETS_MAX:
            del self.offsets[next(iter(self.offsets))]
        yield self._finding("offset-committed", Severity.NOTE, new, "")
        is_later = former is not None and former.line.end <= new.line.time
        if former is not None and is_later and new.offset < former.offset:
            said = f"{new.place} from {former.offset} ({former.line.words}) to {new.offset}"
            yield self._finding("offset-back", Severity.WARNING, new, said)

    def _finding(
        self, kind: str, severity: Severity, shown: CommittedOffset, said: str
    ) -> EntityFinding:
        facts = {"topic": shown.topic, "partition": shown.partition, "offset": shown.offset}
        return EntityFinding(
            kind=kind,
            severity=severity,
            subject=f"group {self.group}",
            line=shown.line,
            part=shown.place,
            said=said,
            by=(shown.line.name,) if severity > Severity.NOTE else (),
            rule=BACK if severity > Severity.NOTE else None,
            facts={**facts, "group": self.group},
        )


def of_partition(
    exchange: RecordedExchange, topic: str, number: int, known: KnownFacts
) -> RecordedExchange:
    """An exchange about offsets with one partition, given by name or id of its topic."""

    def narrowed(body: object) -> object:
        if not isinstance(body, dict):
            return body
        topics = [
            {**each, "partitions": [p for p in each["partitions"] if p["partitionIndex"] == number]}
            for each in body.get("topics") or ()
            if known.topic(each) == topic
        ]
        return {**body, "topics": topics}

    request, response = narrowed(exchange.request), narrowed(exchange.response)
    return RecordedExchange(exchange.line, request, response, exchange.has_response)


def _accepted(exchange: RecordedExchange, known: KnownFacts) -> Iterator[CommittedOffset]:
    """The offsets of a commit that the broker accepted; all if its response is not recorded."""
    body = exchange.request
    accepted = {
        (bodies.topic_of(topic), partition["partitionIndex"])
        for topic in exchange.response.get("topics") or ()
        for partition in topic["partitions"]
        if not partition["errorCode"]
    }
    member = body.get("memberId") or ""
    producer = body.get("producerId", NO_PRODUCER), body.get("producerEpoch", -1)
    for topic in body.get("topics") or ():
        for partition in topic["partitions"]:
            number, offset = partition["partitionIndex"], partition["committedOffset"]
            if (bodies.topic_of(topic), number) in accepted or not exchange.has_response:
                metadata = partition.get("committedMetadata") or ""
                name = known.topic(topic)
                yield CommittedOffset(
                    name, number, offset, member, metadata, exchange.line, producer
                )
