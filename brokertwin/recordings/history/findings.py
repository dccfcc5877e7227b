"""Findings and causes as types: one class for each kind. Machines emit them, renderers word them.

`recordings/sentences` has the sentences and `recordings/rules/findings` the rules. A finding is
compared by its fields, never by a sentence.
"""

from enum import IntEnum, StrEnum
from typing import NamedTuple

import msgspec
from msgspec import field

from brokertwin.protocol.errors import Error
from brokertwin.recordings.history.exchange import RecordedRequest

NO_ID = -1


class Severity(IntEnum):
    """Severity of a finding. A `NOTE` is an ordinary event, which only timelines show."""

    NOTE = -1
    INFO = 0
    WARNING = 1
    ERROR = 2

    @property
    def label(self) -> str:
        return self.name.lower()


class Certainty(StrEnum):
    """How a finding's causes are known.

    `seen`: an exchange shows them. `derived`: they follow from exchanges and a rule of Kafka.
    `unknown`: the recording does not show them, and none is named.
    """

    SEEN = "seen"
    DERIVED = "derived"
    UNKNOWN = "unknown"


# Subjects


class _Subject(msgspec.Struct, frozen=True, tag_field="type", tag=str.lower):
    @property
    def name(self) -> str:
        """Its kind and its id: `group billing`."""
        raise AssertionError(type(self).__name__)


class GroupId(_Subject, frozen=True, tag="group"):
    id: str

    @property
    def name(self) -> str:
        return f"group {self.id}"


class ProducerKey(_Subject, frozen=True, tag="producer"):
    """A transactional id; a producer id, if there is none; neither is known in `producer ?`."""

    transactional_id: str = ""
    producer_id: int = NO_ID

    @classmethod
    def of(cls, transactional_id: str | None, producer_id: int) -> "ProducerKey":
        return cls(transactional_id) if transactional_id else cls("", producer_id)

    @property
    def id(self) -> str:
        return self.transactional_id or (str(self.producer_id) if self.producer_id >= 0 else "?")

    @property
    def name(self) -> str:
        return f"producer {self.id}"


class PartitionId(_Subject, frozen=True, tag="partition"):
    """A partition; `topic` is the topic id if no response shows the name."""

    topic: str
    partition: int

    @property
    def place(self) -> str:
        """`orders-0`."""
        return f"{self.topic}-{self.partition}"

    @property
    def name(self) -> str:
        return f"partition {self.place}"


class ProducerInPartitionId(_Subject, frozen=True, tag="producer-in-partition"):
    """A producer in a partition; no partition if the batch headers are not recorded."""

    producer: str
    partition: PartitionId | None = None

    @property
    def name(self) -> str:
        place = f" in {self.partition.place}" if self.partition is not None else ""
        return f"producer {self.producer}{place}"


class GroupInPartition(_Subject, frozen=True, tag="group-in-partition"):
    group: str
    partition: PartitionId

    @property
    def name(self) -> str:
        return f"group {self.group} in {self.partition.place}"


class ClientId(_Subject, frozen=True, tag="client"):
    """A client id; `?` for requests without one."""

    id: str

    @property
    def name(self) -> str:
        return f"client {self.id}"


class BrokerId(_Subject, frozen=True, tag="broker"):
    id: int

    @property
    def name(self) -> str:
        return f"broker {self.id}"


class SessionId(_Subject, frozen=True, tag="session"):
    """A fetch session of a broker."""

    id: int

    @property
    def name(self) -> str:
        return f"session {self.id}"


class ApiName(_Subject, frozen=True, tag="api"):
    """An API whose exchanges have unexpected fields."""

    id: str

    @property
    def name(self) -> str:
        return self.id


Subject = (
    GroupId
    | ProducerKey
    | PartitionId
    | ProducerInPartitionId
    | GroupInPartition
    | ClientId
    | BrokerId
    | SessionId
    | ApiName
)


# Causes


class _Cause(msgspec.Struct, frozen=True, kw_only=True, tag_field="cause", tag=True):
    @property
    def blamed(self) -> tuple[str, ...]:
        """Client ids whose requests are the cause."""
        return ()

    @property
    def shown_by(self) -> tuple[RecordedRequest, ...]:
        found = (getattr(self, name) for name in self.__struct_fields__)
        return tuple(each for each in found if isinstance(each, RecordedRequest))


class _OfMember(_Cause, frozen=True):
    """Attributes: member id, and its client id; `?` if not recorded."""

    member: str
    client: str

    @property
    def blamed(self) -> tuple[str, ...]:
        return (self.client,)


class MemberJoined(_OfMember, frozen=True):
    """A new member joined a group."""


class MemberJoinedAgain(_OfMember, frozen=True):
    """A member joined again; `reason` is the client's (KIP-800), "" if it gave none."""

    reason: str = ""


class MemberLeft(_OfMember, frozen=True):
    """A member left, by its own request or by an operator's; `reason` as above."""

    by: RecordedRequest
    reason: str = ""


class MemberDropped(_OfMember, frozen=True):
    """A member of a generation is not in the next one, and did not leave."""


class MemberExpired(_OfMember, frozen=True):
    """A member whose session ended: nothing was heard of it after `last`.

    `silent_ms` is the time from then to the refusal, `session_timeout_ms` its limit; -1 if unknown.
    """

    last: RecordedRequest
    silent_ms: int = NO_ID
    session_timeout_ms: int = NO_ID

    @property
    def blamed(self) -> tuple[str, ...]:
        return ()


class MemberWentAway(_Cause, frozen=True):
    """A static member of the consumer protocol is away (epoch -2), and has not been replaced."""

    member: str
    by: RecordedRequest


class MemberIdUnused(_Cause, frozen=True):
    """A client got a member id to join with and never did; the rebalance waited for it."""

    member: str
    by: RecordedRequest

    @property
    def blamed(self) -> tuple[str, ...]:
        return (self.by.name,)


class GenerationChanged(_Cause, frozen=True):
    """The group reached a newer generation than that of the request."""

    requested: int
    number: int
    by: RecordedRequest


class EpochChanged(_Cause, frozen=True):
    """The member has another epoch than the request, by its heartbeat `by`."""

    requested: int
    number: int
    by: RecordedRequest


class RebalanceUnderWay(_Cause, frozen=True):
    """A rebalance had not ended: a join that waited for it, or a departure that began it."""

    by: RecordedRequest


class InstanceHeld(_Cause, frozen=True):
    """Another member has the group.instance.id."""

    instance: str
    member: str
    by: RecordedRequest

    @property
    def blamed(self) -> tuple[str, ...]:
        return (self.by.name,)


class MemberHasLeft(_Cause, frozen=True):
    """The member of the request has left; found by its id, or by client and connection."""

    member: str
    by: RecordedRequest
    reason: str = ""
    is_by_client: bool = False


class GroupHasMembers(_Cause, frozen=True):
    """A commit without a member id is refused while the group has members."""

    member: RecordedRequest


class OffsetsPending(_Cause, frozen=True):
    """An open transaction has pending offsets."""

    producer: ProducerKey
    by: RecordedRequest

    @property
    def blamed(self) -> tuple[str, ...]:
        return (self.by.name,)


class EpochBumped(_Cause, frozen=True):
    """A response gave a newer epoch of the producer id than that of the request (-1: unknown)."""

    own: int
    epoch: int
    by: RecordedRequest

    @property
    def blamed(self) -> tuple[str, ...]:
        return (self.by.name,)


class EpochNeverGiven(_Cause, frozen=True):
    """No response gave the epoch of the request; the last one gave `epoch`."""

    own: int
    epoch: int
    by: RecordedRequest


class BeingFenced(_Cause, frozen=True):
    """An InitProducerId waits for the abort of the open transaction."""

    by: RecordedRequest


class TransactionAborted(_Cause, frozen=True):
    """The coordinator aborted a transaction, shown by a marker.

    Attributes:
        marker: the first WriteTxnMarkers.
        coordinator: the broker that sent it; None if a tool did.
        requested: the request that made the coordinator abort; None if none is recorded.
        lasted_ms: from the begin of the transaction to the marker; None if not recorded.
        timeout_ms: its transaction.timeout.ms; None if not recorded.
        is_timeout: whether it certainly timed out.
    """

    marker: RecordedRequest
    coordinator: int | None = None
    requested: RecordedRequest | None = None
    lasted_ms: int | None = None
    timeout_ms: int | None = None
    is_timeout: bool = False


class TransactionOverdue(_Cause, frozen=True):
    """The transaction was open for longer than its time-out, and no marker is recorded."""

    open_ms: int
    timeout_ms: int


class ProducerIdReplaced(_Cause, frozen=True):
    """An InitProducerId gave the transactional id another producer id."""

    producer_id: int
    by: RecordedRequest

    @property
    def blamed(self) -> tuple[str, ...]:
        return (self.by.name,)


class ProducerUnused(_Cause, frozen=True):
    """A producer id was not used for `unused_ms`, so that its transactional id may have expired."""

    unused_ms: int
    last: RecordedRequest


class NewerEpochWrote(_Cause, frozen=True):
    partition: PartitionId
    own: int
    epoch: int
    by: RecordedRequest


class SequenceExpected(_Cause, frozen=True):
    """A batch does not follow the last one of its producer in the partition.

    Attributes:
        last: the last sequence before it; -1 if none is recorded.
        by: the request that wrote it.
    """

    partition: PartitionId
    producer_id: int
    epoch: int
    first: int
    last: int = NO_ID
    last_epoch: int = NO_ID
    by: RecordedRequest | None = None


class RepeatOf(_Cause, frozen=True):
    """An earlier request wrote the same batch."""

    by: RecordedRequest


class SessionClosed(_Cause, frozen=True):
    by: RecordedRequest


class SessionEvicted(_Cause, frozen=True):
    """A session made room for another one, or its broker was started again.

    `openers` are the client ids of sessions that were opened since its last use, one for each.
    """

    used: RecordedRequest
    openers: tuple[str, ...] = ()

    @property
    def blamed(self) -> tuple[str, ...]:
        return self.openers


class SessionEpochExpected(_Cause, frozen=True):
    requested: int
    expected: int
    used: RecordedRequest


class ConnectionEnded(_Cause, frozen=True):
    """A share session ended with its connection or its broker; `opened` opened it."""

    opened: RecordedRequest


class RecordsMoved(_Cause, frozen=True):
    """Records went to another member since."""

    partition: PartitionId
    first: int
    last: int
    member: str
    by: RecordedRequest

    @property
    def blamed(self) -> tuple[str, ...]:
        return (self.by.name,)


class DeliveredBefore(_Cause, frozen=True):
    """Records were delivered before; `released` gave them back, None if no request did."""

    member: str
    by: RecordedRequest
    released: RecordedRequest | None = None

    @property
    def blamed(self) -> tuple[str, ...]:
        return (self.by.name,)


class DeliveryLimitReached(_Cause, frozen=True):
    """Records were delivered as often as the group's limit allows."""

    count: int
    last: RecordedRequest | None = None

    @property
    def blamed(self) -> tuple[str, ...]:
        return (self.last.name,) if self.last is not None else ()


class OpenTransactionOf(_Cause, frozen=True):
    """The open transaction whose first record stands at the last stable offset."""

    producer: ProducerKey
    began: RecordedRequest

    @property
    def blamed(self) -> tuple[str, ...]:
        return (self.began.name,)


class ControllerRemoved(_Cause, frozen=True):
    """The controller removed a broker that shut down or was silent."""

    broker: int


Cause = (
    MemberJoined
    | MemberJoinedAgain
    | MemberLeft
    | MemberDropped
    | MemberExpired
    | MemberWentAway
    | MemberIdUnused
    | GenerationChanged
    | EpochChanged
    | RebalanceUnderWay
    | InstanceHeld
    | MemberHasLeft
    | GroupHasMembers
    | OffsetsPending
    | EpochBumped
    | EpochNeverGiven
    | BeingFenced
    | TransactionAborted
    | TransactionOverdue
    | ProducerIdReplaced
    | ProducerUnused
    | NewerEpochWrote
    | SequenceExpected
    | RepeatOf
    | SessionClosed
    | SessionEvicted
    | SessionEpochExpected
    | ConnectionEnded
    | RecordsMoved
    | DeliveredBefore
    | DeliveryLimitReached
    | OpenTransactionOf
    | ControllerRemoved
)
RebalanceCause = MemberJoined | MemberJoinedAgain | MemberLeft | MemberDropped | MemberExpired


# Findings


class Finding(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag=True):
    """A statement of a machine about one exchange.

    A machine emits it once. A later finding with the same `id` replaces it: it completes the
    causes, or withdraws the finding.

    Attributes:
        line: the exchange that shows it.
        severity: how bad it is.
        causes: what began it, as far as the recording shows.
        certainty: how the causes are known.
        is_withdrawn: whether later exchanges have disproved it.
        client: the client that is affected, if it did not send `line`; "" if unknown.
    """

    line: RecordedRequest
    severity: Severity = Severity.NOTE
    causes: tuple[Cause, ...] = ()
    certainty: Certainty = Certainty.SEEN
    is_withdrawn: bool = False
    client: str | None = None

    @property
    def kind(self) -> str:
        """`session-lost`."""
        return str(self.__struct_config__.tag)

    @property
    def subject(self) -> Subject:
        """The entity that is concerned."""
        raise AssertionError(type(self).__name__)

    @property
    def part(self) -> str:
        """Distinguishes findings of one kind about one exchange, for example a partition."""
        return ""

    @property
    def error(self) -> int:
        """The error code; 0 if it is not about an error."""
        return int(getattr(self, "code", Error.NONE))

    @property
    def first(self) -> RecordedRequest:
        """The exchange that identifies it."""
        return self.line

    @property
    def id(self) -> str:
        """Identity of the finding: the same in every run over the same exchanges."""
        parts = (self.kind, self.subject.name, self.first.place, self.part)
        return " ".join(filter(None, parts))

    @property
    def by(self) -> tuple[str, ...]:
        """Client ids whose requests caused it."""
        return tuple(name for cause in self.causes for name in cause.blamed)

    @property
    def affected(self) -> str:
        """The client that is affected; "" if unknown."""
        return self.line.name if self.client is None else self.client

    @property
    def evidence(self) -> tuple[str, ...]:
        shown = [self.line, *(line for cause in self.causes for line in cause.shown_by)]
        return tuple(dict.fromkeys(line.place for line in shown))


class _OfGroup(Finding, frozen=True, kw_only=True):
    group: str

    @property
    def subject(self) -> GroupId:
        return GroupId(self.group)


class GenerationBegan(_OfGroup, frozen=True, kw_only=True, tag="generation-began"):
    """A generation begins; `by_request` is the first request that began it, None if unknown."""

    number: int
    by_request: RecordedRequest | None = None

    @property
    def part(self) -> str:
        return str(self.number)


class Rebalance(_OfGroup, frozen=True, kw_only=True, tag="rebalances"):
    """A group reached a generation, or members reached an epoch.

    Attributes:
        line: the first response that shows it.
        number: the generation or epoch.
        former: the newest recorded one before it; -1 if none is. Members reach an epoch from it
            without those in between, so the causes are all of these.
        lines: the responses that show it, in their order.
        within: generations within the minute before one of them, at most.
    """

    number: int
    former: int = -1
    lines: tuple[RecordedRequest, ...]
    within: int

    @property
    def is_epoch(self) -> bool:
        """True if heartbeats of KIP-848 and its successors show it, which do not stop members."""
        return all(each.api.endswith("_GROUP_HEARTBEAT") for each in self.lines)

    @property
    def part(self) -> str:
        return str(self.number)

    @property
    def evidence(self) -> tuple[str, ...]:
        return tuple(each.place for each in self.lines)


class JoinWaited(_OfGroup, frozen=True, kw_only=True, tag="join-waits-for-member-id"):
    """A join waited `waited_ms` for a member id that no client used."""

    waited_ms: int


class MemberCameBack(_OfGroup, frozen=True, kw_only=True, tag="member-came-back"):
    """A client left and joined again.

    Attributes:
        left: the departure.
        reason: its reason; "" if the client gave none.
        max_poll_ms: max.poll.interval.ms (the rebalance timeout); -1 if unknown.
    """

    left: RecordedRequest
    reason: str
    max_poll_ms: int


class MemberGone(_OfGroup, frozen=True, kw_only=True, tag="member-left"):
    member: str
    reason: str = ""

    @property
    def part(self) -> str:
        return self.member


class MemberAway(_OfGroup, frozen=True, kw_only=True, tag="member-away"):
    """A static member is away (epoch -2): its partitions stay assigned to its instance id."""

    member: str
    instance: str

    @property
    def part(self) -> str:
        return self.member


class MaxPollExceeded(_OfGroup, frozen=True, kw_only=True, tag="max-poll-exceeded"):
    """A member left because it did not poll for max.poll.interval.ms."""

    member: str
    reason: str


class MemberCame(_OfGroup, frozen=True, kw_only=True, tag="member-joined"):
    """A member joins by its first heartbeat."""

    member: str
    epoch: int

    @property
    def part(self) -> str:
        return self.member


class MemberAdvanced(_OfGroup, frozen=True, kw_only=True, tag="member-advanced"):
    member: str
    former: int
    epoch: int

    @property
    def part(self) -> str:
        return f"{self.member} {self.epoch}"


class StreamsStatus(_OfGroup, frozen=True, kw_only=True, tag="streams-status"):
    code_of_status: int
    detail: str

    @property
    def part(self) -> str:
        return f"{self.code_of_status} {self.detail}"


class MemberNotInNext(_OfGroup, frozen=True, kw_only=True, tag="member-dropped"):
    """A member was in a generation, did not leave, and is not in the next one, `number`.

    An empty generation between the two does not show, and does not count.
    """

    member: str
    number: int

    @property
    def part(self) -> str:
        return self.member


class _OfRefusal(_OfGroup, frozen=True, kw_only=True):
    """Attributes: `code` is the error code, `member` and `epoch` those of the request."""

    code: int
    member: str = ""
    epoch: int = NO_ID

    @property
    def part(self) -> str:
        return str(self.code)


class MemberRefused(_OfRefusal, frozen=True, kw_only=True, tag="member-refused"):
    """A member has to begin again."""


class InstanceFenced(_OfRefusal, frozen=True, kw_only=True, tag="instance-fenced"):
    """Another member has taken the group.instance.id."""

    instance: str = ""


class GroupRefused(_OfRefusal, frozen=True, kw_only=True, tag="group-refused"):
    """The causes of an error that is ordinary, or that another finding reports."""


class CommitRefused(_OfRefusal, frozen=True, kw_only=True, tag="commit-refused"):
    """A commit with an old generation, epoch or member."""


class _OfOffset(_OfGroup, frozen=True, kw_only=True):
    partition: PartitionId
    offset: int

    @property
    def part(self) -> str:
        return self.partition.place


class OffsetCommitted(_OfOffset, frozen=True, kw_only=True, tag="offset-committed"):
    """An offset is committed."""


class OffsetMovedBack(_OfOffset, frozen=True, kw_only=True, tag="offset-moved-back"):
    """A commit is below the one before it, or below a pending one."""

    former: int
    former_line: RecordedRequest


class OffsetWentBack(_OfOffset, frozen=True, kw_only=True, tag="offset-back"):
    """A commit that came later is below the one before it."""

    former: int
    former_line: RecordedRequest

    @property
    def by(self) -> tuple[str, ...]:
        return (self.line.name,)


class OffsetVanished(_OfOffset, frozen=True, kw_only=True, tag="offset-deleted"):
    """A committed offset is gone; `why` is how that is known."""

    why: "Vanishing"


class Vanishing(StrEnum):
    """How an offset went."""

    OFFSET_DELETE = "offset-delete"
    GROUP_DELETED = "group-deleted"
    TOPIC_DELETED = "topic-deleted"
    NOT_FETCHED = "not-fetched"
    """An OffsetFetch did not return it: it expired, or what deleted it is not recorded."""


class OffsetPending(_OfOffset, frozen=True, kw_only=True, tag="offset-pending"):
    """A transaction took in an offset, which counts when it commits."""

    producer: ProducerKey


class OffsetAborted(_OfOffset, frozen=True, kw_only=True, tag="offset-aborted"):
    """A pending offset was dropped, because its transaction was aborted."""

    producer: ProducerKey


class _OfLag(Finding, frozen=True, kw_only=True):
    group: str
    partition: PartitionId
    offset: int

    @property
    def subject(self) -> GroupInPartition:
        return GroupInPartition(self.group, self.partition)


class LagSeen(_OfLag, frozen=True, kw_only=True, tag="lag"):
    lag: int


class LagGrew(_OfLag, frozen=True, kw_only=True, tag="lag-growing"):
    """The lag at a commit is at least `least`, after at most `former` before."""

    former: int
    least: int


class CommitBeyondEnd(_OfLag, frozen=True, kw_only=True, tag="commit-beyond-end"):
    """A commit `beyond` records after the log end."""

    beyond: int


class _OfProducer(Finding, frozen=True, kw_only=True):
    producer: ProducerKey

    @property
    def subject(self) -> ProducerKey:
        return self.producer


class EpochGiven(_OfProducer, frozen=True, kw_only=True, tag="epoch-given"):
    """A response gave an epoch; `former` is the one before, -1 if it did not grow."""

    producer_id: int
    epoch: int
    former: int = NO_ID


class EpochWentBack(_OfProducer, frozen=True, kw_only=True, tag="epoch-back"):
    """A producer id got a lower epoch than before."""

    epoch: int
    former: int
    former_line: RecordedRequest


class CoordinatorAborted(_OfProducer, frozen=True, kw_only=True, tag="transaction-aborted"):
    """A marker shows an abort that no recorded request made."""

    producer_id: int

    @property
    def part(self) -> str:
        return str(self.producer_id)


class TransactionTimedOut(_OfProducer, frozen=True, kw_only=True, tag="transaction-timed-out"):
    """A transaction timed out: a marker shows it, or a refusal with the error `code`.

    `counts` is False for a refusal after a marker that has been reported.
    """

    producer_id: int
    code: int = Error.NONE
    counts: bool = True

    @property
    def part(self) -> str:
        return str(self.producer_id)

    @property
    def error(self) -> int:
        return Error.NONE


class ProducerFenced(_OfProducer, frozen=True, kw_only=True, tag="producer-fenced"):
    """A request was refused for its epoch, which is -1 if not recorded.

    `newer` are the epochs above it that responses gave before.
    """

    producer_id: int
    epoch: int
    code: int
    newer: tuple[EpochBumped, ...] = ()

    @property
    def part(self) -> str:
        return f"{self.producer_id} {self.epoch}"

    @property
    def by(self) -> tuple[str, ...]:
        return tuple(each.by.name for each in self.newer)


class ProducerReplaced(_OfProducer, frozen=True, kw_only=True, tag="producer-replaced"):
    """A request was refused with 49 INVALID_PRODUCER_ID_MAPPING."""

    producer_id: int
    epoch: int
    code: int = Error.INVALID_PRODUCER_ID_MAPPING

    @property
    def part(self) -> str:
        return f"{self.producer_id} {self.epoch}"


class CommitTooLate(_OfProducer, frozen=True, kw_only=True, tag="commit-too-late"):
    """A commit of a transaction that has ended."""

    code: int = Error.INVALID_TXN_STATE


class SentForClient(_OfProducer, frozen=True, kw_only=True, tag="sent-for-client"):
    """A broker sent a request for a client, and it was refused."""


class _OfTransaction(_OfProducer, frozen=True, kw_only=True):
    """Attributes: `number` of the transaction in the recording, from 1; 0 if none is open."""

    number: int


class TransactionBegan(_OfTransaction, frozen=True, kw_only=True, tag="transaction-began"):
    part: str = "begins"


class TransactionTookIn(_OfTransaction, frozen=True, kw_only=True, tag="transaction-took-in"):
    """A transaction takes in a partition (`place`) or the offsets of a group."""

    place: str = ""
    group: str = ""

    @property
    def part(self) -> str:
        return f"{self.place} {self.group}"


class TransactionWaited(_OfTransaction, frozen=True, kw_only=True, tag="transaction-waited"):
    """The first InitProducerId that has to wait for the abort of the open transaction."""


class TransactionEnded(_OfTransaction, frozen=True, kw_only=True, tag="transaction-ended"):
    """A transaction ended; the certainty is `unknown` if it may have timed out before `line`.

    Attributes:
        is_requested: whether an EndTxn ended it.
        began: the request that began it; None if none is recorded.
        lasted_ms: from that request to the response that ended it.
        places: topic and partition to the number of known batches there.
        groups: the groups whose offsets belong to it.
    """

    is_committed: bool
    is_requested: bool = True
    producer_id: int = NO_ID
    epoch: int = NO_ID
    began: RecordedRequest | None = None
    lasted_ms: int = 0
    places: dict[str, int] = field(default_factory=dict)
    groups: list[str] = field(default_factory=list)


class BatchFinding(Finding, frozen=True, kw_only=True):
    """Attributes: the batch's sequences, epoch and offset; -1 if unknown."""

    producer: str
    partition: PartitionId | None = None
    epoch: int = NO_ID
    first_sequence: int = NO_ID
    last_sequence: int = NO_ID
    offset: int = NO_ID

    @property
    def subject(self) -> ProducerInPartitionId | PartitionId:
        return ProducerInPartitionId(self.producer, self.partition)

    @property
    def part(self) -> str:
        return str(self.offset)


class _OfRefusedBatch(BatchFinding, frozen=True, kw_only=True):
    code: int

    @property
    def part(self) -> str:
        return str(self.code) if self.partition is None else ""


class SequenceGap(_OfRefusedBatch, frozen=True, kw_only=True, tag="sequence-gap"):
    """A batch was refused because it does not follow the one before."""


class DuplicateRefused(_OfRefusedBatch, frozen=True, kw_only=True, tag="duplicate-refused"):
    """A batch was refused because it is older than the last five."""


class BatchRefused(_OfRefusedBatch, frozen=True, kw_only=True, tag="batch-refused"):
    """A batch was refused with another error."""


class BatchRepeated(BatchFinding, frozen=True, kw_only=True, tag="batch-repeated"):
    """A batch came again and was acknowledged with the same offset."""


class WrittenTwice(BatchFinding, frozen=True, kw_only=True, tag="written-twice"):
    """A batch was acknowledged at two offsets."""


class SequenceSkipped(BatchFinding, frozen=True, kw_only=True, tag="sequence-skipped"):
    """A batch was accepted although `expected` was due."""

    expected: int


class ProducerBegan(BatchFinding, frozen=True, kw_only=True, tag="producer-began"):
    """The first batch of a producer in a partition, or of an epoch after `former`."""

    former: int = NO_ID
    former_client: str = ""


class OffsetReused(BatchFinding, frozen=True, kw_only=True, tag="offset-reused"):
    """Two batches were acknowledged at one offset."""

    @property
    def subject(self) -> PartitionId:
        assert self.partition is not None
        return self.partition


class _OfPartition(Finding, frozen=True, kw_only=True):
    partition: PartitionId

    @property
    def subject(self) -> PartitionId:
        return self.partition


class UnderMinIsr(_OfPartition, frozen=True, kw_only=True, tag="under-min-isr"):
    """A Produce was refused because too few replicas were in sync."""

    code: int


class LsoHeldBack(_OfPartition, frozen=True, kw_only=True, tag="lso-held-back"):
    """An open transaction holds back the last stable offset.

    Attributes:
        since: the first exchange that shows it.
        stable: the last stable offset.
        behind: records between it and the high watermark, in the last response.
        readers: client ids that fetch with isolation.level=read_committed.
        ended: the marker that ended the transaction; None while it is open.
        held_ms: for how long it was held, as far as the recording shows.
    """

    since: RecordedRequest
    stable: int
    behind: int
    readers: tuple[str, ...] = ()
    ended: RecordedRequest | None = None
    held_ms: int = 0

    @property
    def first(self) -> RecordedRequest:
        return self.since


class LeaderChanged(_OfPartition, frozen=True, kw_only=True, tag="leader-changed"):
    """A partition has a new leader; `former` is -1 if unknown. `time` is in ms since 1970."""

    time: float
    leader: int
    former: int
    epoch: int


class IsrShrank(_OfPartition, frozen=True, kw_only=True, tag="isr-shrunk"):
    """A broker left the in-sync set."""

    time: float
    broker: int

    @property
    def part(self) -> str:
        return str(self.broker)


class IsrGrew(_OfPartition, frozen=True, kw_only=True, tag="isr-grown"):
    """A broker came back to the in-sync set."""

    time: float
    broker: int

    @property
    def part(self) -> str:
        return str(self.broker)


class _Move(msgspec.Struct, frozen=True, kw_only=True, tag_field="move", tag=True):
    """What changed the state of a partition."""


class LeaderNamed(_Move, frozen=True):
    """A request or a response names the leader of an epoch; leader -1 is none."""

    leader: int
    epoch: int
    by: "ShownBy"


class InSyncNamed(_Move, frozen=True):
    """A response shows the in-sync set, or the controller `removed` brokers from it."""

    isr: tuple[int, ...]
    by: "ShownBy"
    removed: tuple[int, ...] = ()


class ReplicaFetched(_Move, frozen=True):
    """A follower fetches from an offset, which is its LEO."""

    broker: int
    offset: int


class RecordsAppended(_Move, frozen=True):
    """A Produce wrote records, the first at an offset."""

    offset: int


class WatermarkReported(_Move, frozen=True):
    """A response has a high watermark; `is_adopted` if the rule could not derive one."""

    is_adopted: bool = False


SampleCause = LeaderNamed | InSyncNamed | ReplicaFetched | RecordsAppended | WatermarkReported


class ShownBy(StrEnum):
    """What shows a leader or an in-sync set."""

    FETCH = "a fetch"
    ERROR = "an error"
    METADATA = "metadata"
    ALTER_PARTITION = "AlterPartition"
    CONTROLLER = "the controller"


class WatermarkSample(NamedTuple):
    """State of a partition since a time, in ms since 1970.

    `why` is the cause of the change, `place` the line of the recording. `is_least` means that the
    leader's log may be longer than in `ends`, `is_hw_least` the same for the HW.
    """

    time: float
    topic: str
    partition: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    ends: dict[int, int]
    high_watermark: int
    is_assumed: bool
    why: SampleCause
    place: str
    is_least: bool = False
    is_hw_least: bool = False


class DifferenceCause(StrEnum):
    """Why a high watermark may differ from the rule."""

    RACE = "a race"
    CUT = "the next fetch of a follower is not in the recording"
    LEFT = "a follower may have left the in-sync set"
    ENDED = "a log ends"
    COARSE = "times are whole seconds"
    UNEXPLAINED = "unexplained"


class WatermarkDifference(NamedTuple):
    """A leader's HW that differs from the rule.

    `behind` has the LEOs of in-sync replicas that did not show this HW.
    """

    time: float
    topic: str
    partition: int
    reported: int
    derived: int
    why: DifferenceCause
    place: str
    leader: int
    behind: dict[int, int]


class JoinedBelow(msgspec.Struct, frozen=True, tag_field="breach", tag=True):
    """A follower is to join although its LEO `end` is below the high watermark."""

    end: int


class LeftEarly(msgspec.Struct, frozen=True, tag_field="breach", tag=True):
    """A follower is to leave although it was caught up `behind_ms` before."""

    behind_ms: float


class IsrChange(NamedTuple):
    """A requested change of an in-sync set; `why` is the broken rule, None if it follows them."""

    time: float
    topic: str
    partition: int
    leader: int
    broker: int
    is_added: bool
    why: JoinedBelow | LeftEarly | None
    place: str


class _OfSample(_OfPartition, frozen=True, kw_only=True):
    """Attributes: `number` of the sample of its partition."""

    sample: WatermarkSample
    number: int

    @property
    def part(self) -> str:
        return str(self.number)


class SampleTaken(_OfSample, frozen=True, kw_only=True, tag="replicas-changed"):
    """The state of a partition after a change."""


class IsrSampleTaken(_OfSample, frozen=True, kw_only=True, tag="isr-changed"):
    """The same after a change of the in-sync set."""


class WatermarkDiffers(_OfPartition, frozen=True, kw_only=True, tag="hw-differs"):
    """A HW differs from the rule without a reason."""

    difference: WatermarkDifference


class WatermarkDiffersBriefly(_OfPartition, frozen=True, kw_only=True, tag="hw-differs-briefly"):
    """A HW differs from the rule for a reason, such as a race."""

    difference: WatermarkDifference


class _OfIsrChange(_OfPartition, frozen=True, kw_only=True):
    change: IsrChange

    @property
    def part(self) -> str:
        return str(self.change.broker)


class IsrRequested(_OfIsrChange, frozen=True, kw_only=True, tag="isr-requested"):
    """A leader wants a broker in its in-sync set, or out."""


class IsrAgainstRule(_OfIsrChange, frozen=True, kw_only=True, tag="isr-against-rule"):
    """The same against the rule."""


class Unread(Finding, frozen=True, kw_only=True, tag="unread"):
    """An exchange with unexpected fields."""

    api: str

    @property
    def subject(self) -> ApiName:
        return ApiName(self.api)


class BrokerGone(Finding, frozen=True, kw_only=True, tag="broker-gone"):
    """A broker was gone: shut down, killed, or without connection to the others.

    Attributes:
        last_sign: last time that it sent or served a request, in ms since 1970.
        back: when it was back; None if the recording does not show it.
        asked: when it asked the controller for a controlled shutdown, in ms since 1970; None if
            the recording does not show that.
    """

    broker: int
    last_sign: float
    back: float | None = None
    asked: float | None = None

    @property
    def is_shutdown(self) -> bool:
        return self.asked is not None

    @property
    def subject(self) -> BrokerId:
        return BrokerId(self.broker)


class _OfClient(Finding, frozen=True, kw_only=True):
    name: str

    @property
    def subject(self) -> ClientId:
        return ClientId(self.name)


class Refused(_OfClient, frozen=True, kw_only=True, tag="refused"):
    """An error that no other finding reports."""

    code: int

    @property
    def part(self) -> str:
        return str(self.code)


class ClientThrottled(_OfClient, frozen=True, kw_only=True, tag="client-throttled"):
    """Responses told a client to wait for its quotas.

    Attributes:
        since: the first such exchange.
        count: number of such responses.
        total_ms: the sum of waits.
        apis: the APIs of the requests, in their order.
    """

    since: RecordedRequest
    count: int
    longest_ms: int
    total_ms: int
    apis: tuple[str, ...]

    @property
    def first(self) -> RecordedRequest:
        return self.since


class DeprecatedVersion(_OfClient, frozen=True, kw_only=True, tag="deprecated-api-version"):
    """A client uses an API version that Kafka 4 does not have any more (KIP-896)."""

    since: RecordedRequest
    api: str
    version: int
    count: int

    @property
    def first(self) -> RecordedRequest:
        return self.since

    @property
    def part(self) -> str:
        return f"{self.api} {self.version}"


class SessionChurn(_OfClient, frozen=True, kw_only=True, tag="session-churn"):
    """One of `most` fetch sessions that a client opened within a minute."""

    most: int


class _OfSession(Finding, frozen=True, kw_only=True):
    session: int

    @property
    def subject(self) -> SessionId | ClientId:
        return SessionId(self.session)


class SessionOpened(_OfSession, frozen=True, kw_only=True, tag="session-opened"):
    """A Fetch opens a session."""


class SessionEnded(_OfSession, frozen=True, kw_only=True, tag="session-closed"):
    """A Fetch closes a session, and may open `other`."""

    other: int = 0


class SessionForgot(_OfSession, frozen=True, kw_only=True, tag="session-forgot"):
    """A Fetch removes partitions from a session."""

    count: int


class _OfLostSession(_OfSession, frozen=True, kw_only=True):
    code: int

    @property
    def subject(self) -> ClientId:
        return ClientId(self.line.name)


class SessionLost(_OfLostSession, frozen=True, kw_only=True, tag="session-lost"):
    """A session is not known any more."""


class SessionOutOfTurn(_OfLostSession, frozen=True, kw_only=True, tag="session-out-of-turn"):
    epoch: int


class SessionDenied(Finding, frozen=True, kw_only=True, tag="session-denied"):
    """A client wanted a session while the cache had no room.

    Attributes: `holders`, clients that used sessions in the two minutes before, and how many.
    """

    holders: dict[str, int] = field(default_factory=dict)

    @property
    def subject(self) -> ClientId:
        return ClientId(self.line.name)


class RecordsFinding(_OfGroup, frozen=True, kw_only=True):
    """Attributes: records of a partition, from the first to the last offset, and the member."""

    partition: PartitionId
    first_offset: int
    last_offset: int
    member: str

    @property
    def records(self) -> int:
        return self.last_offset - self.first_offset + 1

    @property
    def part(self) -> str:
        return f"{self.partition.place} {self.first_offset} {self.last_offset}"


class AcknowledgeRefused(RecordsFinding, frozen=True, kw_only=True, tag="acknowledge-refused"):
    """A member acknowledged records that it does not hold."""

    code: int


class RecordsRejected(RecordsFinding, frozen=True, kw_only=True, tag="records-rejected"):
    """A member rejected records: no member gets them again."""


class RecordsReleased(RecordsFinding, frozen=True, kw_only=True, tag="records-released"):
    """A member gave records back."""


class RecordsDeliveredAgain(RecordsFinding, frozen=True, kw_only=True, tag="records-redelivered"):
    """Records were delivered again, for the `count`th time."""

    count: int


class RecordsArchived(RecordsFinding, frozen=True, kw_only=True, tag="records-archived"):
    """Records are not delivered again, because their deliveries reached the limit."""

    count: int


class _OfShareSession(_OfGroup, frozen=True, kw_only=True):
    member: str
    epoch: int = NO_ID

    @property
    def part(self) -> str:
        return f"{self.member} {self.epoch}"


class ShareSessionOpened(_OfShareSession, frozen=True, kw_only=True, tag="share-session-opened"):
    """A member opens a share session."""


class ShareSessionClosed(_OfShareSession, frozen=True, kw_only=True, tag="share-session-closed"):
    """A member closes its share session."""


class ShareSessionLost(_OfShareSession, frozen=True, kw_only=True, tag="share-session-lost"):
    """A share session is not known, or the request is out of turn."""

    code: int


class ShareSessionDenied(_OfShareSession, frozen=True, kw_only=True, tag="share-session-denied"):
    """A broker had no room for a share session."""

    code: int


class Incident(msgspec.Struct, frozen=True):
    """One thing that happened: a root finding, and what followed from it, in order of time."""

    root: Finding
    consequences: tuple[Finding, ...] = ()


def moment_of(finding: Finding) -> float:
    """When a finding about replicas happened, in ms since 1970; 0 for others."""
    of = finding
    if isinstance(of, _OfSample):
        return of.sample.time
    if isinstance(of, WatermarkDiffers | WatermarkDiffersBriefly):
        return of.difference.time
    if isinstance(of, _OfIsrChange):
        return of.change.time
    return of.time if isinstance(of, LeaderChanged | IsrShrank | IsrGrew) else 0.0
