"""A producer's transactions: what it asks the coordinator, and in which order.

Source: KIP-98, KIP-360, KIP-447, KIP-588; `TransactionManager` in Kafka (its transactional half,
the protocol before KIP-890). One request is under way at a time:

    state             asks, in this order                                           then
    INITIALIZING      FindCoordinator, InitProducerId                               READY
    READY             -                                                             begin: IN_
    IN_TRANSACTION    AddPartitionsToTxn before the first batch of each partition,  commit, abort
                      AddOffsetsToTxn, FindCoordinator (group), TxnOffsetCommit
    COMMITTING        the same, and when all batches are acknowledged EndTxn        READY
    ABORTING          when nothing is on the wire EndTxn; after an error            READY
                      InitProducerId with what it holds, for the next epoch
    ABORTABLE_ERROR   -                                                             abort
    FATAL_ERROR       -                                                             -

    error                                what becomes of it
    15, 16, no answer                    the coordinator is looked for, the request comes again
    14, 51, 3, 7, 5, 6                   the request comes again after a pause
    47, 90                               FATAL_ERROR: another producer has the transactional id
    TxnOffsetCommit 22, 25, 82, 110, 113,
    topics' and groups' 29, 30           ABORTABLE_ERROR
    a batch that failed                  ABORTABLE_ERROR
    anything else                        FATAL_ERROR

A transaction that nothing was added to ends without EndTxn.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple

import msgspec

from brokerstream.clients.backoff import ExponentialBackoff, retry_backoff
from brokerstream.clients.consumer_requests import Generation
from brokerstream.clients.partitions import Node, TopicPartition
from brokerstream.clients.producer_batch import NO_ID, IdAndEpoch
from brokerstream.state.apis.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from brokerstream.state.apis.end_txn import EndTxnRequest, EndTxnResponse
from brokerstream.state.apis.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    KeyType,
)
from brokerstream.state.apis.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from brokerstream.state.apis.txn_offset_commit import (
    TxnCommitPartition,
    TxnCommitTopic,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from brokerstream.state.core.errors import Error, error_of
from brokerstream.state.core.schema import Body
from brokerstream.state.transactions.transaction_verification import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    TxnTopic,
)

LOST = frozenset({Error.COORDINATOR_NOT_AVAILABLE, Error.NOT_COORDINATOR})
AGAIN = LOST | {
    Error.COORDINATOR_LOAD_IN_PROGRESS,
    Error.CONCURRENT_TRANSACTIONS,
    Error.UNKNOWN_TOPIC_OR_PARTITION,
    Error.REQUEST_TIMED_OUT,
    Error.LEADER_NOT_AVAILABLE,
    Error.NOT_LEADER_OR_FOLLOWER,
}
FENCED = frozenset({Error.INVALID_PRODUCER_EPOCH, Error.PRODUCER_FENCED})
ABORTABLE = frozenset(
    {
        Error.ILLEGAL_GENERATION,
        Error.UNKNOWN_MEMBER_ID,
        Error.FENCED_INSTANCE_ID,
        Error.FENCED_MEMBER_EPOCH,
        Error.STALE_MEMBER_EPOCH,
        Error.TOPIC_AUTHORIZATION_FAILED,
        Error.GROUP_AUTHORIZATION_FAILED,
        Error.OPERATION_NOT_ATTEMPTED,
        Error.TRANSACTION_ABORTABLE,
    }
)


class TransactionState(StrEnum):
    """By Kafka's names."""

    UNINITIALIZED = "UNINITIALIZED"
    INITIALIZING = "INITIALIZING"
    READY = "READY"
    IN_TRANSACTION = "IN_TRANSACTION"
    COMMITTING = "COMMITTING_TRANSACTION"
    ABORTING = "ABORTING_TRANSACTION"
    ABORTABLE_ERROR = "ABORTABLE_ERROR"
    FATAL_ERROR = "FATAL_ERROR"


class WrongStateError(RuntimeError):
    """The application asked for what is not possible now; the text says why."""


class Request(NamedTuple):
    """A request; to a coordinator, or to any node where `to` is None."""

    to: Node | None
    api: str
    body: Body


class GroupOffsets(msgspec.Struct):
    """Offsets that a transaction is to commit for a group, and the member that has read them."""

    group_id: str
    member: Generation
    group_instance_id: str | None
    offsets: dict[TopicPartition, int]
    is_added: bool = False


class Transactions:
    """The transactions of one producer. Times in ms.

    Attributes:
        state: where it stands.
        id_and_epoch: the producer id and epoch that it holds.
        error: why it is in an error state.
    """

    def __init__(
        self, transactional_id: str, timeout_ms: int, backoff: ExponentialBackoff | None = None
    ) -> None:
        self.transactional_id = transactional_id
        self.state = TransactionState.UNINITIALIZED
        self.id_and_epoch: IdAndEpoch = NO_ID
        self.error = Error.NONE
        self._timeout_ms = timeout_ms
        self._backoff = backoff or retry_backoff()
        self._coordinators: dict[tuple[KeyType, str], Node] = {}
        self._looked_for: tuple[KeyType, str] | None = None
        self._to_add: dict[TopicPartition, None] = {}
        self._added: set[TopicPartition] = set()
        self._offsets: list[GroupOffsets] = []
        self._has_begun = self._must_bump = self._is_under_way = False
        self._attempts = 0
        self.retry_at = 0

    # The application's side

    def init(self) -> None:
        """Gets the id; whoever had it before is fenced. Raises WrongStateError."""
        self._expect(TransactionState.UNINITIALIZED)
        self.state = TransactionState.INITIALIZING

    def begin(self) -> None:
        """Begins a transaction. Raises WrongStateError."""
        self._expect(TransactionState.READY)
        self.state = TransactionState.IN_TRANSACTION

    def send_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, int],
        member: Generation,
        group_instance_id: str | None = None,
    ) -> None:
        """Has the transaction commit a group's offsets. Raises WrongStateError."""
        self._expect(TransactionState.IN_TRANSACTION)
        if offsets:
            self._offsets.append(GroupOffsets(group_id, member, group_instance_id, dict(offsets)))

    def commit(self) -> None:
        """Ends the transaction with all that is in it. Raises WrongStateError."""
        self._expect(TransactionState.IN_TRANSACTION)
        self.state = TransactionState.COMMITTING

    def abort(self) -> None:
        """Ends the transaction with nothing of it. Raises WrongStateError."""
        self._expect(TransactionState.IN_TRANSACTION, TransactionState.ABORTABLE_ERROR)
        self.state = TransactionState.ABORTING
        self.error = Error.NONE
        self._to_add.clear()
        self._offsets.clear()

    def _expect(self, *states: TransactionState) -> None:
        if self.state not in states:
            why = f" ({self.error.name})" if self.error is not Error.NONE else ""
            raise WrongStateError(f"the producer is {self.state}{why}, not {states[0]}")

    # The sender's side

    @property
    def is_committing(self) -> bool:
        """Whether nothing lingers any more."""
        return self.state is TransactionState.COMMITTING

    @property
    def is_aborting(self) -> bool:
        """Whether what has not been sent is not to be sent."""
        return self.state is TransactionState.ABORTING

    @property
    def is_over(self) -> bool:
        """Whether the producer can do nothing any more."""
        return self.state is TransactionState.FATAL_ERROR

    @property
    def may_drain(self) -> bool:
        """Whether batches may be sent at all."""
        return self.state in (TransactionState.IN_TRANSACTION, TransactionState.COMMITTING)

    def may_write(self, partition: TopicPartition) -> bool:
        """Whether a partition's batches may be sent; it is added to the transaction if not."""
        if not self.may_drain:
            return False
        if partition in self._added:
            return True
        self._to_add[partition] = None
        return False

    def doubt_sequences(self) -> None:
        """Only another epoch lets some partition go on: the transaction can but be aborted."""
        self._must_bump = True
        if not self.is_aborting:
            self.batch_failed(Error.OUT_OF_ORDER_SEQUENCE_NUMBER)

    def batch_failed(self, error: Error) -> None:
        """A record of the transaction is not in the log for certain: it can but be aborted."""
        if error is Error.PRODUCER_FENCED:
            self._end(error)
        elif self.state in (TransactionState.IN_TRANSACTION, TransactionState.COMMITTING):
            self._abortable(error)

    # Requests

    def next_request(self, now: int, *, is_flushed: bool) -> Request | None:
        """What is to be asked now; `is_flushed`: no record is without its outcome."""
        if self._is_under_way or now < self.retry_at:
            return None
        request = self._next(is_flushed)
        self._is_under_way = request is not None
        return request

    def _next(self, is_flushed: bool) -> Request | None:
        match self.state:
            case TransactionState.INITIALIZING:
                return self._to_own("INIT_PRODUCER_ID", self._init_body())
            case TransactionState.IN_TRANSACTION | TransactionState.COMMITTING:
                return self._next_of_transaction(is_flushed)
            case TransactionState.ABORTING if is_flushed:
                return self._end_or_bump(committed=False)
        return None

    def _next_of_transaction(self, is_flushed: bool) -> Request | None:
        if self._to_add:
            return self._to_own("ADD_PARTITIONS_TO_TXN", self._add_body(self._to_add))
        if self._offsets:
            return self._offsets_request(self._offsets[0])
        if self.state is TransactionState.COMMITTING and is_flushed:
            return self._end_or_bump(committed=True)
        return None

    def _offsets_request(self, group: GroupOffsets) -> Request | None:
        pid, epoch = self.id_and_epoch
        if not group.is_added:
            body = AddOffsetsToTxnRequest(
                transactional_id=self.transactional_id,
                producer_id=pid,
                producer_epoch=epoch,
                group_id=group.group_id,
            )
            return self._to_own("ADD_OFFSETS_TO_TXN", body)
        commit = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group.group_id,
            producer_id=pid,
            producer_epoch=epoch,
            generation_id=group.member.id,
            member_id=group.member.member_id,
            group_instance_id=group.group_instance_id,
            topics=_by_topic(group.offsets),
        )
        return self._to(KeyType.GROUP, group.group_id, "TXN_OFFSET_COMMIT", commit)

    def _end_or_bump(self, *, committed: bool) -> Request | None:
        if self._has_begun:
            pid, epoch = self.id_and_epoch
            body = EndTxnRequest(
                transactional_id=self.transactional_id,
                producer_id=pid,
                producer_epoch=epoch,
                committed=committed,
            )
            return self._to_own("END_TXN", body)
        if self._must_bump:
            self.state = TransactionState.INITIALIZING
            return self._to_own("INIT_PRODUCER_ID", self._init_body())
        self._ended()
        return None

    def _init_body(self) -> InitProducerIdRequest:
        return InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self._timeout_ms,
            producer_id=self.id_and_epoch.producer_id,
            producer_epoch=self.id_and_epoch.epoch,
        )

    def _add_body(self, partitions: Iterable[TopicPartition]) -> AddPartitionsToTxnRequest:
        topics: dict[str, TxnTopic] = {}
        for topic, partition in partitions:
            topics.setdefault(topic, TxnTopic(name=topic, partitions=[])).partitions.append(
                partition
            )
        pid, epoch = self.id_and_epoch
        return AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=pid,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=list(topics.values()),
        )

    def _to_own(self, api: str, body: Body) -> Request:
        return self._to(KeyType.TRANSACTION, self.transactional_id, api, body)

    def _to(self, kind: KeyType, key: str, api: str, body: Body) -> Request:
        """The request, or the lookup that comes before it."""
        coordinator = self._coordinators.get((kind, key))
        if coordinator is not None:
            return Request(coordinator, api, body)
        self._looked_for = kind, key
        lookup = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
        return Request(None, "FIND_COORDINATOR", lookup)

    # Answers

    def answered(self, now: int, response: Body) -> None:
        """The answer to the request under way."""
        self._is_under_way = False
        match response:
            case FindCoordinatorResponse():
                self._found(now, response)
            case InitProducerIdResponse() if self._is_good(now, response.error_code):
                self.id_and_epoch = IdAndEpoch(response.producer_id, response.producer_epoch)
                self._ended()
            case AddPartitionsToTxnResponse():
                self._partitions_added(now, response)
            case AddOffsetsToTxnResponse() if self._is_good(now, response.error_code):
                self._has_begun = True
                for group in self._offsets[:1]:
                    group.is_added = True
            case TxnOffsetCommitResponse():
                errors = [each.error_code for topic in response.topics for each in topic.partitions]
                if all(self._is_good(now, code) for code in errors):
                    del self._offsets[:1]
            case EndTxnResponse() if self._is_good(now, response.error_code):
                self._has_begun = False
                if not (self._must_bump and self.state is TransactionState.ABORTING):
                    self._ended()

    def failed(self, now: int) -> None:
        """No answer comes: coordinators are looked for again."""
        self._is_under_way = False
        self._coordinators.clear()
        self._back_off(now)

    def _found(self, now: int, response: FindCoordinatorResponse) -> None:
        assert self._looked_for is not None, "a coordinator was looked for"
        found = response.coordinators[0]
        if self._is_good(now, found.error_code):
            self._coordinators[self._looked_for] = Node(found.node_id, found.host, found.port)

    def _partitions_added(self, now: int, response: AddPartitionsToTxnResponse) -> None:
        for topic in response.results_by_topic_v3_and_below:
            for result in topic.results_by_partition:
                if self._is_good(now, result.partition_error_code):
                    partition = TopicPartition(topic.name, result.partition_index)
                    self._has_begun = True
                    self._added.add(partition)
                    self._to_add.pop(partition, None)

    def _is_good(self, now: int, code: int) -> bool:
        """Whether there is no error; what there is is acted on."""
        error = error_of(code)
        if error is Error.NONE:
            self._attempts = 0
        elif error in AGAIN:
            if error in LOST:
                self._coordinators.clear()
            self._back_off(now)
        elif error in FENCED:
            self._end(Error.PRODUCER_FENCED)
        elif error in ABORTABLE and self.may_drain:
            self._abortable(error)
        elif self.state is not TransactionState.ABORTABLE_ERROR:
            self._end(error)
        return error is Error.NONE

    def _back_off(self, now: int) -> None:
        self.retry_at = now + self._backoff.backoff(self._attempts, 0.5)
        self._attempts += 1

    def _abortable(self, error: Error) -> None:
        self.state = TransactionState.ABORTABLE_ERROR
        self.error = error

    def _end(self, error: Error) -> None:
        self.state = TransactionState.FATAL_ERROR
        self.error = error

    def _ended(self) -> None:
        self.state = TransactionState.READY
        self._has_begun = self._must_bump = False
        self._added.clear()
        self._to_add.clear()


def _by_topic(offsets: Mapping[TopicPartition, int]) -> list[TxnCommitTopic]:
    topics: dict[str, TxnCommitTopic] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        at = topics.setdefault(topic, TxnCommitTopic(name=topic, partitions=[]))
        at.partitions.append(
            TxnCommitPartition(
                partition_index=partition, committed_offset=offset, committed_metadata=""
            )
        )
    return list(topics.values())
