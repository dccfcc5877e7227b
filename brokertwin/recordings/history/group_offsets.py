"""Committed offsets of a group: the last one of each partition, and those of open transactions.

OffsetCommit                the offset is committed
TxnOffsetCommit             it is pending until the transaction ends
EndTxn                      ends the transaction of its producer id and epoch, if not refused
InitProducerId              aborts a transaction of an older epoch or producer id
WriteTxnMarkers             ends the transaction of a producer id, also after a time-out
OffsetDelete, DeleteGroups, DeleteTopics   the offset is gone
OffsetFetch                 shows an offset that is gone, expired ones too
"""

from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Any

import msgspec
from msgspec import field

from brokertwin.protocol.errors import Error
from brokertwin.recordings.history import bodies
from brokertwin.recordings.history.bodies import MARKERS, NO_PRODUCER
from brokertwin.recordings.history.exchange import KnownFacts, RecordedExchange, RecordedRequest
from brokertwin.recordings.history.findings import (
    Finding,
    OffsetAborted,
    OffsetCommitted,
    OffsetMovedBack,
    OffsetPending,
    OffsetVanished,
    OffsetWentBack,
    PartitionId,
    ProducerKey,
    Severity,
    Vanishing,
)

COMMIT_APIS = ("OFFSET_COMMIT", "TXN_OFFSET_COMMIT")
ENDING_APIS = ("END_TXN", "INIT_PRODUCER_ID", MARKERS)
"""The APIs that end a transaction; they name a producer and no group."""

OFFSET_APIS = frozenset(
    {*COMMIT_APIS, *ENDING_APIS, "OFFSET_DELETE", "DELETE_GROUPS", "OFFSET_FETCH"}
)
OFFSETS_TOPIC = "__consumer_offsets"

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


class Outcome(StrEnum):
    """The end of a transaction."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


class CommittedOffset(msgspec.Struct, frozen=True):
    """An offset that a broker accepted.

    Attributes:
        topic: topic name, or id if no response shows the name.
        member: member id; "" if the request has none.
        metadata: metadata of the commit.
        line: the commit.
        producer: producer id and epoch of a transactional commit; -1 otherwise.
        is_superseded: whether a later commit without transaction took its place.
        ended: when its transaction had committed, in ms; 0 without one.
        is_last: whether it certainly came after all earlier commits and deletions.
    """

    topic: str
    partition: int
    offset: int
    member: str
    metadata: str
    line: RecordedRequest
    producer: tuple[int, int] = (NO_PRODUCER, -1)
    is_superseded: bool = False
    ended: float = 0.0
    is_last: bool = True

    @property
    def at(self) -> PartitionId:
        return PartitionId(self.topic, self.partition)

    @property
    def place(self) -> str:
        return f"{self.topic}-{self.partition}"


class ObservedOffsets(msgspec.Struct):
    """The committed offsets of a group.

    Attributes:
        offsets: topic and partition to its committed offset.
        pending: offsets of transactions that have not ended.
        deleted: topic and partition to the last deletion of its offset; "" to that of the group.
    """

    group: str
    offsets: dict[str, CommittedOffset] = field(default_factory=dict)
    pending: list[CommittedOffset] = field(default_factory=list)
    deleted: dict[str, RecordedRequest] = field(default_factory=dict)

    def take(self, exchange: RecordedExchange, known: KnownFacts) -> Iterator[Finding]:
        api = exchange.line.api
        if api in ENDING_APIS:
            yield from self.end_transaction(exchange, known)
        elif api in COMMIT_APIS:
            yield from self._commit(exchange, known)
        elif api == "OFFSET_FETCH":
            yield from self._fetched(exchange, known)
        else:
            yield from self._delete(exchange, known)

    def _commit(self, exchange: RecordedExchange, known: KnownFacts) -> Iterator[Finding]:
        is_pending = exchange.line.api == "TXN_OFFSET_COMMIT"
        pending = {each.place: each for each in self.pending}
        for each in _accepted(exchange, known):
            former = pending.get(each.place) or self._former(each, known)
            if former is not None and each.offset < former.offset:
                yield OffsetMovedBack(
                    group=self.group,
                    line=each.line,
                    partition=each.at,
                    offset=each.offset,
                    former=former.offset,
                    former_line=former.line,
                )
            if is_pending:
                self.pending.append(each)
                yield OffsetPending(
                    group=self.group,
                    line=each.line,
                    partition=each.at,
                    offset=each.offset,
                    producer=producer_of(each, known),
                )
            else:
                self._supersede(each)
                yield from self._take(each, known)
        del self.pending[:-OFFSETS_MAX]

    def _supersede(self, new: CommittedOffset) -> None:
        """Note that a marker does not commit the earlier pending offsets of a partition."""
        for number, each in enumerate(self.pending):
            if each.place == new.place and each.line.time <= new.line.end:
                self.pending[number] = msgspec.structs.replace(each, is_superseded=True)

    def _may_be_superseded(self, pending: CommittedOffset, known: KnownFacts) -> bool:
        """Whether a commit without transaction may have come after a pending offset."""
        taken = self.offsets.get(pending.place)
        if pending.is_superseded or taken is None or taken.producer[0] != NO_PRODUCER:
            return False
        return not known.is_before(taken.line, pending.line)

    def _former(self, new: CommittedOffset, known: KnownFacts) -> CommittedOffset | None:
        """The offset before a commit; None if that is unknown, or its topic was deleted."""
        former = self.offsets.get(new.place)
        if (
            former is None
            or not former.is_last
            or known.was_deleted(former.topic, former.line.time, new.line.end)
        ):
            return None
        return former

    def end_transaction(self, exchange: RecordedExchange, known: KnownFacts) -> Iterator[Finding]:
        outcomes = [(each, _outcome(each, exchange, known)) for each in self.pending]
        self.pending = [each for each, outcome in outcomes if outcome is None]
        for each, outcome in outcomes:
            if outcome is Outcome.UNKNOWN or (outcome is not None and known.is_coarse):
                self.offsets.pop(each.place, None)  # it may be of another transaction
            elif outcome is Outcome.COMMITTED and self._may_be_superseded(each, known):
                self.offsets.pop(each.place, None)
            elif outcome is Outcome.COMMITTED and not each.is_superseded:
                yield from self._take(msgspec.structs.replace(each, ended=exchange.line.end), known)
            elif outcome is Outcome.ABORTED:
                yield OffsetAborted(
                    group=self.group,
                    line=exchange.line,
                    partition=each.at,
                    offset=each.offset,
                    producer=producer_of(each, known),
                )

    def _delete(self, exchange: RecordedExchange, known: KnownFacts) -> Iterator[Finding]:
        """Take a deletion of offsets, or of the group."""
        response = exchange.response
        if exchange.line.api == "DELETE_GROUPS":
            is_deleted = self.group in deleted_by(exchange)
            if is_deleted:
                self._note_deletion("", exchange.line)
            for each in list(self.offsets.values()) if is_deleted else ():
                yield self._vanished(each, exchange.line, Vanishing.GROUP_DELETED)
            return
        for topic in (response.get("topics") or ()) if not exchange.code else ():
            for part in topic["partitions"]:
                if not part["errorCode"]:
                    name, number = known.topic(topic), part["partitionIndex"]
                    self._note_deletion(f"{name}-{number}", exchange.line)
                    offset = self.offsets.get(f"{name}-{number}")
                    gone = offset or CommittedOffset(name, number, -1, "", "", exchange.line)
                    yield self._vanished(gone, exchange.line, Vanishing.OFFSET_DELETE)

    def _note_deletion(self, place: str, line: RecordedRequest) -> None:
        self.deleted.pop(place, None)
        self.deleted[place] = line
        while len(self.deleted) > OFFSETS_MAX:
            del self.deleted[next(iter(self.deleted))]

    def _fetched(self, exchange: RecordedExchange, known: KnownFacts) -> Iterator[Finding]:
        """Note the offsets that an OffsetFetch no longer returns."""
        for name, number, offset in _fetched_offsets(exchange, self.group, known):
            former = self.offsets.get(f"{name}-{number}")
            is_later = former is not None and known.is_before(former.line, exchange.line)
            if offset < 0 and former is not None and is_later:
                why = Vanishing.NOT_FETCHED
                if known.was_deleted(name, former.line.time, exchange.line.end):
                    why = Vanishing.TOPIC_DELETED
                yield self._vanished(former, exchange.line, why)

    def _vanished(
        self, gone: CommittedOffset, line: RecordedRequest, why: Vanishing
    ) -> OffsetVanished:
        self.offsets.pop(gone.place, None)
        return OffsetVanished(
            group=self.group, line=line, partition=gone.at, offset=gone.offset, why=why
        )

    def _take(self, new: CommittedOffset, known: KnownFacts) -> Iterator[Finding]:
        """Take an offset; two commits at once have no order."""
        former, before = self._former(new, known), self.offsets.pop(new.place, None)
        lines = [self.deleted.get(new.place), self.deleted.get("")]
        lines += [before.line] if before is not None else []
        is_last = all(each is None or known.is_before(each, new.line) for each in lines)
        self.offsets[new.place] = msgspec.structs.replace(new, is_last=is_last)
        while len(self.offsets) > OFFSETS_MAX:
            del self.offsets[next(iter(self.offsets))]
        yield OffsetCommitted(group=self.group, line=new.line, partition=new.at, offset=new.offset)
        if former is None or new.offset >= former.offset:
            return
        # a commit that was under way while the transaction ended may have come before its marker
        is_later = former.ended + known.late_ms <= new.line.time
        if is_later and known.is_before(former.line, new.line):
            yield OffsetWentBack(
                group=self.group,
                line=new.line,
                severity=Severity.WARNING,
                partition=new.at,
                offset=new.offset,
                former=former.offset,
                former_line=former.line,
            )


def deleted_by(exchange: RecordedExchange) -> set[str]:
    results = exchange.response.get("results") or ()
    return {each["groupId"] for each in results if not each["errorCode"]}


def groups_of(exchange: RecordedExchange, known: KnownFacts) -> list[str]:
    """The groups whose offsets an exchange of `OFFSET_APIS` changes or shows."""
    api, body = exchange.line.api, exchange.request
    if api in ENDING_APIS:
        places = places_of(exchange, known)
        return list(dict.fromkeys(group for group, _, _ in places))
    if api == "DELETE_GROUPS":
        return list(dict.fromkeys(map(str, body.get("groupsNames") or ())))
    if api == "OFFSET_FETCH" and "groups" in body:
        return list(dict.fromkeys(str(each.get("groupId")) for each in body["groups"] or ()))
    group = body.get("groupId")  # a client's log may leave it out
    return [str(group)] if group is not None else []


def places_of(exchange: RecordedExchange, known: KnownFacts) -> Iterable[tuple[str, str, int]]:
    """Group, topic and partition of pending offsets that an exchange of `ENDING_APIS` may end."""
    api, body = exchange.line.api, exchange.request
    if api == MARKERS:
        ids = [
            each["producerId"]
            for each in body.get("markers") or ()
            if any(topic["name"] == OFFSETS_TOPIC for topic in each.get("topics") or ())
        ]
    elif api == "INIT_PRODUCER_ID":
        name = body.get("transactionalId")
        ids = [e for e in known.places if name and known.producers.get(e) == name]
    else:
        ids = [body.get("producerId", NO_PRODUCER)]
    return list(dict.fromkeys(place for each in ids for place in known.places.get(each, ())))


def _outcome(
    pending: CommittedOffset, exchange: RecordedExchange, known: KnownFacts
) -> Outcome | None:
    """What an exchange did to a pending offset; None if its transaction is still open."""
    api, body, response = exchange.line.api, exchange.request, exchange.response
    producer_id, epoch = pending.producer
    if api == MARKERS and pending.line.time < exchange.line.time:
        for marker in body.get("markers") or ():
            is_here = any(topic["name"] == OFFSETS_TOPIC for topic in marker.get("topics") or ())
            if is_here and marker["producerId"] == producer_id and marker["producerEpoch"] >= epoch:
                return Outcome.COMMITTED if marker["transactionResult"] else Outcome.ABORTED
        return None
    if api == MARKERS or bodies.errors(response) or pending.line.time > exchange.line.time:
        return None
    if api == "END_TXN":
        if pending.producer != (body.get("producerId"), body.get("producerEpoch")):
            return None
        return Outcome.COMMITTED if body.get("committed") else Outcome.ABORTED
    name = body.get("transactionalId")
    given = response.get("producerId", NO_PRODUCER), response.get("producerEpoch", -1)
    is_newer = given[0] != producer_id or given[1] > epoch
    is_own = bool(name) and known.producers.get(producer_id) == name
    # a marker shows an abort; without one, an EndTxn may have had no line before its broker ended
    return Outcome.UNKNOWN if is_own and is_newer and given[0] != NO_PRODUCER else None


def producer_of(offset: CommittedOffset, known: KnownFacts) -> ProducerKey:
    producer_id, _ = offset.producer
    return ProducerKey.of(known.producers.get(producer_id), producer_id)


def commits_in(
    exchange: RecordedExchange, known: KnownFacts
) -> dict[tuple[str, int], RecordedExchange]:
    commits: dict[tuple[str, int], tuple[list[Any], list[Any]]] = {}
    for at, body in enumerate((exchange.request, exchange.response)):
        for topic in body.get("topics") or ():
            name = known.topic(topic)
            for part in topic["partitions"]:
                of = commits.setdefault((name, part["partitionIndex"]), ([], []))
                of[at].append({**topic, "partitions": [part]})
    return {
        place: RecordedExchange(
            exchange.line,
            {**exchange.request, "topics": asked},
            {**exchange.response, "topics": given},
            exchange.has_response,
        )
        for place, (asked, given) in commits.items()
        if asked
    }


def of_partition(
    exchange: RecordedExchange, topic: str, number: int, known: KnownFacts
) -> RecordedExchange:
    """An exchange about offsets with one partition, given by name or id of its topic."""
    own = (topic, number, known)
    request, response = _narrowed(exchange.request, *own), _narrowed(exchange.response, *own)
    return RecordedExchange(exchange.line, request, response, exchange.has_response)


def _narrowed(body: Any, topic: str, number: int, known: KnownFacts) -> Any:
    if not isinstance(body, dict):
        return body
    if body.get("groups"):
        narrowed = [_narrowed(each, topic, number, known) for each in body["groups"]]
        return {**body, "groups": narrowed}
    if body.get("topics") is None:
        return body
    topics = [
        {**each, **{name: _at(each[name], number) for name in PARTS if name in each}}
        for each in body["topics"]
        if known.topic(each) == topic
    ]
    return {**body, "topics": topics}


def _at(parts: list[Any], number: int) -> list[Any]:
    """Those of partitions, or of their numbers, that have a number."""
    return [
        each
        for each in parts
        if (each["partitionIndex"] if isinstance(each, dict) else each) == number
    ]


PARTS = ("partitions", "partitionIndexes")


def _returned(exchange: RecordedExchange) -> Iterator[tuple[Any, Any, Any]]:
    """Group, topic and part of each partition in an OffsetFetch response of any version."""
    response = exchange.response
    groups = response.get("groups")
    if groups is None:
        groups = [{**response, "groupId": exchange.request.get("groupId")}]
    for each in groups:
        for topic in each.get("topics") or ():
            for part in topic["partitions"]:
                if "partitionIndex" in part:  # a client's log may have a part of the body only
                    yield each, topic, part


def _fetched_offsets(
    exchange: RecordedExchange, group: str, known: KnownFacts
) -> Iterator[tuple[str, int, int]]:
    """Topic, partition and offset of each part of an OffsetFetch response without an error."""
    for each, topic, part in _returned(exchange):
        is_mine = each.get("groupId") == group and not each.get("errorCode")
        if is_mine and "committedOffset" in part and not part.get("errorCode"):
            yield known.topic(topic), part["partitionIndex"], part["committedOffset"]


def fetched_places(exchange: RecordedExchange) -> Iterator[tuple[str, str, int]]:
    """Group, topic (as in the response) and partition of an OffsetFetch response."""
    for each, topic, part in _returned(exchange):
        yield str(each.get("groupId")), bodies.topic_of(topic), part["partitionIndex"]


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
