"""The transactions of a producer: requests to coordinators, in order.

Source: KIP-98, KIP-360, KIP-447, KIP-588, KIP-890; `TransactionManager` in Kafka 4.3 (its
transactional half). The protocol (`transaction_rules.py`) can change between transactions. At most
one request is in flight:

    state             requests, in this order                                        next
    INITIALIZING      FindCoordinator, InitProducerId                                READY
    READY             -                                                              begin
    IN_TRANSACTION    AddPartitionsToTxn before the first batch of each partition,   commit, abort
                      AddOffsetsToTxn (neither with KIP-890),
                      FindCoordinator (group), TxnOffsetCommit
    COMMITTING        the same; once all batches are acknowledged EndTxn             READY
    ABORTING          once nothing is on the wire EndTxn                             READY
    ABORTABLE_ERROR   -                                                              abort
    FATAL_ERROR       -                                                              -

Before KIP-890, EndTxn is followed by an InitProducerId for the next epoch if sequences are in
doubt. At the switch to KIP-890 it always is, so that nothing of the last transaction counts in the
next. With KIP-890 the EndTxn response has the next epoch.

    error                                         effect
    15 COORDINATOR_NOT_AVAILABLE,                 coordinator lookup, then a retry
    16 NOT_COORDINATOR, no response,
    TxnOffsetCommit: 7 REQUEST_TIMED_OUT
    any other retriable error                     a retry after a backoff
    47 INVALID_PRODUCER_EPOCH,                    FATAL_ERROR: fenced by another producer
    90 PRODUCER_FENCED
    120 TRANSACTION_ABORTABLE                     ABORTABLE_ERROR
    59 UNKNOWN_PRODUCER_ID in EndTxn, AddOffsetsToTxn, AddPartitionsToTxn
                                                  ABORTABLE_ERROR, and the next epoch
    AddPartitionsToTxn: all but `FATAL_OF_PARTITIONS`
                                                  ABORTABLE_ERROR
    FindCoordinator, AddOffsetsToTxn: 30 GROUP_AUTHORIZATION_FAILED
                                                  ABORTABLE_ERROR
    TxnOffsetCommit: see `ABORTABLE`              ABORTABLE_ERROR
    a batch: see `FATAL_OF_BATCHES`               FATAL_ERROR
    a batch: other failures                       ABORTABLE_ERROR; 120 TRANSACTION_ABORTABLE for
                                                  48 INVALID_TXN_STATE and used-up retries
    any other error                               FATAL_ERROR

An abortable error is ignored while the transaction is being aborted. A transaction to which nothing
was added ends without EndTxn. With KIP-890, sending batches or offsets adds them.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple

import msgspec

from brokertwin.clients.backoff import ExponentialBackoff, retry_backoff
from brokertwin.clients.consumer_requests import Generation
from brokertwin.clients.partitions import Node, TopicPartition, grouped
from brokertwin.clients.producer_batch import NO_ID, IdAndEpoch
from brokertwin.clients.transaction_manager import FATAL as FATAL_OF_BATCHES
from brokertwin.clients.transaction_rules import BEFORE_KIP_890, TransactionRules
from brokertwin.protocol.bodies import Body
from brokertwin.protocol.errors import RETRIABLE, Error, error_of
from brokertwin.protocol.generated.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from brokertwin.protocol.generated.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from brokertwin.protocol.generated.end_txn import EndTxnRequest, EndTxnResponse
from brokertwin.protocol.generated.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from brokertwin.protocol.generated.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from brokertwin.protocol.generated.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from brokertwin.state.apis.find_coordinator import KeyType

LOST = frozenset({Error.COORDINATOR_NOT_AVAILABLE, Error.NOT_COORDINATOR})
FENCED = frozenset({Error.INVALID_PRODUCER_EPOCH, Error.PRODUCER_FENCED})
FATAL_OF_PARTITIONS = frozenset(
    {
        Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        Error.INVALID_TXN_STATE,
        Error.INVALID_PRODUCER_ID_MAPPING,
    }
)
"""Errors of AddPartitionsToTxn that leave nothing to abort."""

ABORTABLE: dict[type[Body], frozenset[Error]] = {
    InitProducerIdResponse: frozenset({Error.TRANSACTION_ABORTABLE}),
    FindCoordinatorResponse: frozenset(
        {Error.TRANSACTION_ABORTABLE, Error.GROUP_AUTHORIZATION_FAILED}
    ),
    AddPartitionsToTxnResponse: frozenset(Error) - FATAL_OF_PARTITIONS,
    AddOffsetsToTxnResponse: frozenset(
        {
            Error.TRANSACTION_ABORTABLE,
            Error.UNKNOWN_PRODUCER_ID,
            Error.GROUP_AUTHORIZATION_FAILED,
        }
    ),
    TxnOffsetCommitResponse: frozenset(
        {
            Error.TRANSACTION_ABORTABLE,
            Error.ILLEGAL_GENERATION,
            Error.UNKNOWN_MEMBER_ID,
            Error.FENCED_INSTANCE_ID,
            Error.FENCED_MEMBER_EPOCH,
            Error.STALE_MEMBER_EPOCH,
            Error.TOPIC_AUTHORIZATION_FAILED,
            Error.GROUP_AUTHORIZATION_FAILED,
        }
    ),
    EndTxnResponse: frozenset({Error.TRANSACTION_ABORTABLE, Error.UNKNOWN_PRODUCER_ID}),
}
"""Abortable errors by response."""


class TransactionManagerState(StrEnum):
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
    """A call that the current state does not allow; the text says why."""


class TransactionRequest(NamedTuple):
    """A request to a coordinator, or to any node if `to` is None."""

    to: Node | None
    api: str
    body: Body


class OffsetsToCommit(msgspec.Struct):
    """Offsets to commit for a group, and the member that consumed them."""

    group_id: str
    member: Generation
    offsets: dict[TopicPartition, int]
    is_added: bool = False


class ProducerTransactions:
    """The transactions of one producer. Times in ms.

    Attributes:
        id_and_epoch: the current producer id and epoch.
        error: the cause of an error state.
        rules: the protocol of the current or next transaction.
    """

    def __init__(
        self, transactional_id: str, timeout_ms: int, backoff: ExponentialBackoff | None = None
    ) -> None:
        self.transactional_id = transactional_id
        self.state = TransactionManagerState.UNINITIALIZED
        self.id_and_epoch: IdAndEpoch = NO_ID
        self.error = Error.NONE
        self.rules = self._offered = BEFORE_KIP_890
        self._timeout_ms = timeout_ms
        self._backoff = backoff or retry_backoff()
        self._coordinators: dict[tuple[KeyType, str], Node] = {}
        self._lookup: tuple[KeyType, str] | None = None
        self._to_add: dict[TopicPartition, None] = {}
        self._added: set[TopicPartition] = set()
        self._offsets: list[OffsetsToCommit] = []
        self._has_begun = self._must_bump = self._is_in_flight = False
        self._attempts = 0
        self.retry_at = 0

    # API

    def init(self) -> None:
        """Request the id, fencing earlier producers. Raises WrongStateError."""
        self._expect(TransactionManagerState.UNINITIALIZED)
        self.state = TransactionManagerState.INITIALIZING

    def begin(self) -> None:
        """Begin a transaction. Raises WrongStateError."""
        self._expect(TransactionManagerState.READY)
        self.state = TransactionManagerState.IN_TRANSACTION

    def send_offsets(
        self, group_id: str, offsets: Mapping[TopicPartition, int], member: Generation
    ) -> None:
        """Add a group's offsets to the transaction. Raises WrongStateError."""
        self._expect(TransactionManagerState.IN_TRANSACTION)
        if offsets:
            self._offsets.append(OffsetsToCommit(group_id, member, dict(offsets)))

    def commit(self) -> None:
        """Commit the transaction. Raises WrongStateError."""
        self._expect(TransactionManagerState.IN_TRANSACTION)
        self.state = TransactionManagerState.COMMITTING

    def abort(self) -> None:
        """Abort the transaction. Raises WrongStateError."""
        self._expect(
            TransactionManagerState.IN_TRANSACTION, TransactionManagerState.ABORTABLE_ERROR
        )
        self.state = TransactionManagerState.ABORTING
        self.error = Error.NONE
        self._to_add.clear()
        self._offsets.clear()

    def _expect(self, *states: TransactionManagerState) -> None:
        if self.state not in states:
            why = f" ({self.error.name})" if self.error is not Error.NONE else ""
            raise WrongStateError(f"the producer is {self.state}{why}, not {states[0]}")

    # Sender

    def offer(self, rules: TransactionRules) -> None:
        """Set the cluster's protocol; an open transaction keeps its own."""
        self._offered = rules

    @property
    def is_committing(self) -> bool:
        """Whether batches must not linger."""
        return self.state is TransactionManagerState.COMMITTING

    @property
    def is_aborting(self) -> bool:
        """Whether unsent batches are dropped."""
        return self.state is TransactionManagerState.ABORTING

    @property
    def is_over(self) -> bool:
        return self.state is TransactionManagerState.FATAL_ERROR

    @property
    def may_drain(self) -> bool:
        return self.state in (
            TransactionManagerState.IN_TRANSACTION,
            TransactionManagerState.COMMITTING,
        )

    def may_write(self, partition: TopicPartition) -> bool:
        """Whether a partition may be written; otherwise it will be added."""
        if not self.may_drain:
            return False
        if not self.rules.adds_partitions_first:
            self._has_begun = True
            return True
        if partition in self._added:
            return True
        self._to_add[partition] = None
        return False

    def doubt_sequences(self) -> None:
        """Require a new epoch; the transaction can only be aborted."""
        self._must_bump = True
        if not self.is_aborting:
            self.batch_failed(Error.OUT_OF_ORDER_SEQUENCE_NUMBER)

    def batch_failed(self, error: Error) -> None:
        """Fail the transaction because a record may not be in the log.

        48 INVALID_TXN_STATE and used-up retries become 120 TRANSACTION_ABORTABLE.
        """
        if error in FATAL_OF_BATCHES:
            self._end(error)
        elif self.may_drain:
            is_abortable = error in RETRIABLE or error is Error.INVALID_TXN_STATE
            self._abortable(Error.TRANSACTION_ABORTABLE if is_abortable else error)

    # Requests

    def next_request(self, now: int, *, is_flushed: bool) -> TransactionRequest | None:
        """Return the next request; `is_flushed`: all records are finished."""
        if self._is_in_flight or now < self.retry_at:
            return None
        request = self._next(is_flushed)
        self._is_in_flight = request is not None
        return request

    def _next(self, is_flushed: bool) -> TransactionRequest | None:
        match self.state:
            case TransactionManagerState.INITIALIZING:
                return self._to_own("INIT_PRODUCER_ID", self._init_body())
            case TransactionManagerState.IN_TRANSACTION | TransactionManagerState.COMMITTING:
                if self._to_add:
                    return self._to_own("ADD_PARTITIONS_TO_TXN", self._add_body(self._to_add))
                if self._offsets:
                    return self._offsets_request(self._offsets[0])
                if self.state is TransactionManagerState.COMMITTING and is_flushed:
                    return self._end_or_bump(committed=True)
                return None
            case TransactionManagerState.ABORTING if is_flushed:
                return self._end_or_bump(committed=False)
        return None

    def _offsets_request(self, group: OffsetsToCommit) -> TransactionRequest | None:
        pid, epoch = self.id_and_epoch
        if self.rules.adds_partitions_first and not group.is_added:
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
            topics=_by_topic(group.offsets),
        )
        self._has_begun = True
        return self._to(KeyType.GROUP, group.group_id, "TXN_OFFSET_COMMIT", commit)

    def _end_or_bump(self, *, committed: bool) -> TransactionRequest | None:
        if self._has_begun:
            pid, epoch = self.id_and_epoch
            body = EndTxnRequest(
                transactional_id=self.transactional_id,
                producer_id=pid,
                producer_epoch=epoch,
                committed=committed,
            )
            return self._to_own("END_TXN", body)
        if self._needs_epoch:
            self.state = TransactionManagerState.INITIALIZING
            return self._to_own("INIT_PRODUCER_ID", self._init_body())
        self._ended()
        return None

    @property
    def _needs_epoch(self) -> bool:
        is_step = self.rules.adds_partitions_first and not self._offered.adds_partitions_first
        return self._must_bump or is_step

    def _init_body(self) -> InitProducerIdRequest:
        return InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self._timeout_ms,
            producer_id=self.id_and_epoch.producer_id,
            producer_epoch=self.id_and_epoch.epoch,
        )

    def _add_body(self, partitions: Iterable[TopicPartition]) -> AddPartitionsToTxnRequest:
        topics = [
            AddPartitionsToTxnTopic(name=topic, partitions=at)
            for topic, at in grouped(partitions).items()
        ]
        pid, epoch = self.id_and_epoch
        return AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=pid,
            v3_and_below_producer_epoch=epoch,
            v3_and_below_topics=topics,
        )

    def _to_own(self, api: str, body: Body) -> TransactionRequest:
        return self._to(KeyType.TRANSACTION, self.transactional_id, api, body)

    def _to(self, kind: KeyType, key: str, api: str, body: Body) -> TransactionRequest:
        """Return the request, or the coordinator lookup that it needs."""
        coordinator = self._coordinators.get((kind, key))
        if coordinator is not None:
            return TransactionRequest(coordinator, api, body)
        self._lookup = kind, key
        lookup = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
        return TransactionRequest(None, "FIND_COORDINATOR", lookup)

    # Responses

    def on_response(self, now: int, response: Body) -> None:
        """Handle the response of the request in flight."""
        self._is_in_flight = False
        match response:
            case FindCoordinatorResponse():
                self._found(now, response)
            case InitProducerIdResponse() if self._is_good(now, response, response.error_code):
                self.id_and_epoch = IdAndEpoch(response.producer_id, response.producer_epoch)
                self._ended()
            case AddPartitionsToTxnResponse():
                self._partitions_added(now, response)
            case AddOffsetsToTxnResponse() if self._is_good(now, response, response.error_code):
                self._has_begun = True
                for group in self._offsets[:1]:
                    group.is_added = True
            case TxnOffsetCommitResponse():
                codes = [each.error_code for topic in response.topics for each in topic.partitions]
                if self._is_good(now, response, _decisive(codes)):
                    del self._offsets[:1]
            case EndTxnResponse() if self._is_good(now, response, response.error_code):
                self._txn_ended(response)

    def failed(self, now: int, *, is_unsupported: bool = False) -> None:
        """Handle a request without a response; looks coordinators up again."""
        self._is_in_flight = False
        self._coordinators.clear()
        if is_unsupported:
            self._end(Error.UNSUPPORTED_VERSION)
        else:
            self._back_off(now)

    def _found(self, now: int, response: FindCoordinatorResponse) -> None:
        assert self._lookup is not None, "a lookup is in flight"
        coordinator = response.coordinators[0]
        if self._is_good(now, response, coordinator.error_code):
            self._coordinators[self._lookup] = Node(
                coordinator.node_id, coordinator.host, coordinator.port
            )

    def _partitions_added(self, now: int, response: AddPartitionsToTxnResponse) -> None:
        codes = []
        for topic in response.results_by_topic_v3_and_below:
            for result in topic.results_by_partition:
                codes.append(result.partition_error_code)
                if result.partition_error_code == Error.NONE:
                    partition = TopicPartition(topic.name, result.partition_index)
                    self._has_begun = True
                    self._added.add(partition)
                    self._to_add.pop(partition, None)
        self._is_good(now, response, _decisive(codes))

    def _txn_ended(self, response: EndTxnResponse) -> None:
        """End the transaction; with KIP-890 the response has the next epoch."""
        self._has_begun = False
        if response.producer_id != NO_ID.producer_id:
            self.id_and_epoch = IdAndEpoch(response.producer_id, response.producer_epoch)
            self._must_bump = False
        if self._needs_epoch:
            self.state = TransactionManagerState.INITIALIZING
        else:
            self._ended()

    def _is_good(self, now: int, response: Body, code: int) -> bool:
        """Whether there is no error; handles the error otherwise."""
        error = error_of(code)
        is_commit = isinstance(response, TxnOffsetCommitResponse)
        if error is Error.NONE:
            self._attempts = 0
        elif error in RETRIABLE:
            if error in LOST or (is_commit and error is Error.REQUEST_TIMED_OUT):
                self._coordinators.clear()
            self._back_off(now)
        elif error in FENCED:
            self._end(Error.PRODUCER_FENCED)
        elif error in ABORTABLE[type(response)]:
            self._can_be_aborted(response, error)
        else:
            self._end(error)
        return error is Error.NONE

    def _can_be_aborted(self, response: Body, error: Error) -> None:
        self._must_bump |= error is Error.UNKNOWN_PRODUCER_ID
        if self.may_drain:
            self._abortable(error)
        elif self.state is TransactionManagerState.INITIALIZING:
            self._must_bump = True
            self._abortable(error)
        elif self.is_aborting and self._is_needed(response):
            self._end(error)

    def _is_needed(self, response: Body) -> bool:
        is_of_group = self._lookup is not None and self._lookup[0] is KeyType.GROUP
        is_lookup = isinstance(response, FindCoordinatorResponse) and not is_of_group
        return is_lookup or isinstance(response, EndTxnResponse)

    def _back_off(self, now: int) -> None:
        self.retry_at = now + self._backoff.backoff(self._attempts, 0.5)
        self._attempts += 1

    def _abortable(self, error: Error) -> None:
        self.state = TransactionManagerState.ABORTABLE_ERROR
        self.error = error

    def _end(self, error: Error) -> None:
        self.state = TransactionManagerState.FATAL_ERROR
        self.error = error

    def _ended(self) -> None:
        self.state = TransactionManagerState.READY
        self.rules = self._offered
        self._has_begun = self._must_bump = False
        self._added.clear()
        self._to_add.clear()


def _decisive(codes: Iterable[int]) -> Error:
    """The error that decides: the first that a retry would not solve."""
    errors = [error for error in map(error_of, codes) if error is not Error.NONE]
    later = (Error.OPERATION_NOT_ATTEMPTED, *RETRIABLE)
    return min(errors, key=lambda error: error in later, default=Error.NONE)


def _by_topic(offsets: Mapping[TopicPartition, int]) -> list[TxnOffsetCommitRequestTopic]:
    topics: dict[str, TxnOffsetCommitRequestTopic] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        at = topics.setdefault(topic, TxnOffsetCommitRequestTopic(name=topic, partitions=[]))
        at.partitions.append(
            TxnOffsetCommitRequestPartition(
                partition_index=partition, committed_offset=offset, committed_metadata=""
            )
        )
    return list(topics.values())
