"""Producer id, epoch and sequences of an idempotent producer.

Source: seed 002; KIP-98, KIP-360; `TransactionManager` in Kafka (its idempotent half). At most one
InitProducerId is in flight (INITIALIZING).

    state              input              next state
    UNINITIALIZED      requested          INITIALIZING
    INITIALIZING       id received        READY
    INITIALIZING       to be retried      UNINITIALIZED, retried after the backoff
    INITIALIZING       not authorized     ABORTABLE_ERROR
    ABORTABLE_ERROR    batches aborted    UNINITIALIZED
    READY              id dropped         UNINITIALIZED
    any                fatal error        FATAL_ERROR, final

A bump increments the epoch on the client. The partitions that need it restart at sequence 0, and
their in-flight batches are renumbered. Kafka bumps at once. That can write records twice: an
attempt without a response may be in the log or reach it from a closed connection. It can also
reorder records: a broker accepts any first sequence of an unknown producer, so a later batch can be
in the log before a rejected one. Here a bump waits until no batch of these partitions is on the
wire. It then fails the batches with unknown outcome and those that a later batch overtook.
`rewrites_unacknowledged` applies Kafka's rule; the tests show schedules that lose order.

A batch that is given up after it was sent leaves its sequence unresolved, also if its retries are
used up or it was never retried. Kafka marks only a retried batch after its delivery timeout. If
retries end in 59 UNKNOWN_PRODUCER_ID, the epoch is bumped; Kafka forgets the partition's sequences,
including those of in-flight batches.

`TransactionalManager` is for a transactional producer, `clients/producer_id_reset.py` has the
manager of Kafka 2.0.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple

from brokertwin.clients.partition_sequences import PartitionSequences
from brokertwin.clients.partitions import TopicPartition
from brokertwin.clients.producer_batch import NO_ID, IdAndEpoch, ProducerBatch
from brokertwin.protocol.errors import RETRIABLE, Error

EPOCH_MAX = 2**15 - 1


class IdState(StrEnum):
    UNINITIALIZED = "uninitialized"
    INITIALIZING = "initializing"
    READY = "ready"
    ABORTABLE_ERROR = "abortable error"
    FATAL_ERROR = "fatal error"


class ProducerInput(StrEnum):
    """Inputs of the state machine."""

    REQUESTED = "requested"
    ID_RECEIVED = "id received"
    TO_BE_RETRIED = "to be retried"
    NOT_AUTHORIZED = "not authorized"
    BATCHES_ABORTED = "batches aborted"
    ID_DROPPED = "id dropped"
    FATAL = "fatal"


TRANSITIONS: dict[tuple[IdState, ProducerInput], IdState] = {
    (IdState.UNINITIALIZED, ProducerInput.REQUESTED): IdState.INITIALIZING,
    (IdState.INITIALIZING, ProducerInput.ID_RECEIVED): IdState.READY,
    (IdState.INITIALIZING, ProducerInput.TO_BE_RETRIED): IdState.UNINITIALIZED,
    (IdState.INITIALIZING, ProducerInput.NOT_AUTHORIZED): IdState.ABORTABLE_ERROR,
    (IdState.ABORTABLE_ERROR, ProducerInput.BATCHES_ABORTED): IdState.UNINITIALIZED,
    (IdState.READY, ProducerInput.ID_DROPPED): IdState.UNINITIALIZED,
    **{(state, ProducerInput.FATAL): IdState.FATAL_ERROR for state in IdState},
}

INIT_RESPONSES: dict[Error, ProducerInput] = {
    Error.NONE: ProducerInput.ID_RECEIVED,
    Error.CLUSTER_AUTHORIZATION_FAILED: ProducerInput.NOT_AUTHORIZED,
    Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: ProducerInput.NOT_AUTHORIZED,
    **dict.fromkeys(RETRIABLE, ProducerInput.TO_BE_RETRIED),
}
"""The meaning of an InitProducerId error; others are fatal."""

FENCED = frozenset({Error.INVALID_PRODUCER_EPOCH, Error.PRODUCER_FENCED})

FATAL = frozenset(
    {
        Error.CLUSTER_AUTHORIZATION_FAILED,
        Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        Error.PRODUCER_FENCED,
        Error.UNSUPPORTED_VERSION,
        Error.INVALID_PRODUCER_ID_MAPPING,
    }
)
"""Batch errors after which the producer stops."""


SEQUENCE_ERRORS = frozenset({Error.OUT_OF_ORDER_SEQUENCE_NUMBER, Error.UNKNOWN_PRODUCER_ID})
"""Errors about the producer's sequences."""


class FailedBatch(NamedTuple):
    """A failed batch and its context. `log_start_offset` is -1 if not given."""

    batch: ProducerBatch
    sequences: PartitionSequences
    log_start_offset: int

    @property
    def waits_for_earlier(self) -> bool:
        """An earlier batch is missing, or the sequences have changed since."""
        batch, sequences = self.batch, self.sequences
        is_next = batch.base_sequence == sequences.expected
        return sequences.unresolved is None and (batch.is_renumbered or not is_next)

    @property
    def follows_the_hole(self) -> bool:
        """The preceding batch is lost, so no retry can succeed."""
        unresolved = self.sequences.unresolved
        return unresolved is None or self.batch.base_sequence == unresolved

    @property
    def is_log_unknown(self) -> bool:
        return self.log_start_offset == -1


class Retry(StrEnum):
    RETRY = "retry"
    BUMP_AND_RETRY = "bump the epoch and retry"
    FAIL = "fail"


class RetryRule(NamedTuple):
    """A row of `RETRY_RULES`: error, condition and action."""

    error: Error
    holds: Callable[[FailedBatch], bool]
    action: Retry


RETRY_RULES: tuple[RetryRule, ...] = (
    RetryRule(Error.OUT_OF_ORDER_SEQUENCE_NUMBER, lambda r: r.waits_for_earlier, Retry.RETRY),
    RetryRule(
        Error.OUT_OF_ORDER_SEQUENCE_NUMBER, lambda r: r.follows_the_hole, Retry.BUMP_AND_RETRY
    ),
    RetryRule(Error.OUT_OF_ORDER_SEQUENCE_NUMBER, lambda _: True, Retry.RETRY),
    RetryRule(Error.UNKNOWN_PRODUCER_ID, lambda r: r.is_log_unknown, Retry.RETRY),
    RetryRule(Error.UNKNOWN_PRODUCER_ID, lambda r: r.batch.is_renumbered, Retry.RETRY),
    RetryRule(Error.UNKNOWN_PRODUCER_ID, lambda _: True, Retry.BUMP_AND_RETRY),
)
"""Rules for sequence errors: the first match decides.

Other errors are retried if retriable. The last row merges two of Kafka's: expired records, and an
id that the broker lost.
"""


class TransactionManager:
    """A producer's id, and its sequences on every partition.

    Attributes:
        id_and_epoch: of new batches; (-1, -1) if there is none.
        error: the cause of an error state.
        retry_at: no InitProducerId before this time (ms).
        failed_attempts: InitProducerId failures since the last success.
    """

    retry_rules = RETRY_RULES

    def __init__(self, rewrites_unacknowledged: bool = False) -> None:
        self.state = IdState.UNINITIALIZED
        self.id_and_epoch: IdAndEpoch = NO_ID
        self.error = Error.NONE
        self.retry_at = 0
        self.failed_attempts = 0
        self._partitions: dict[TopicPartition, PartitionSequences] = {}
        self._to_rewrite: dict[TopicPartition, None] = {}
        self._has_new_id = False
        self._rewrites_unacknowledged = rewrites_unacknowledged

    def sequences(self, partition: TopicPartition) -> PartitionSequences:
        return self._partitions.setdefault(partition, PartitionSequences())

    def move(self, input: ProducerInput) -> None:
        """Move to the next state. Raises KeyError without a transition."""
        self.state = TRANSITIONS[self.state, input]

    # Producer id

    def needs_id(self, now: int) -> bool:
        return self.state is IdState.UNINITIALIZED and now >= self.retry_at

    def on_init_response(self, error: Error, id_and_epoch: IdAndEpoch, retry_at: int) -> None:
        """Handle an InitProducerId response; a retry waits until `retry_at`."""
        input = INIT_RESPONSES.get(error, ProducerInput.FATAL)
        self.failed_attempts = 0 if input is ProducerInput.ID_RECEIVED else self.failed_attempts + 1
        self.retry_at = 0 if input is ProducerInput.ID_RECEIVED else retry_at
        if input is ProducerInput.ID_RECEIVED:
            self.id_and_epoch = id_and_epoch
        elif input is not ProducerInput.TO_BE_RETRIED:
            self.error = Error.PRODUCER_FENCED if error in FENCED else error
        self.move(input)

    def drop_id(self) -> None:
        """Request a new id; partitions to rewrite wait for it."""
        self.id_and_epoch = NO_ID
        self.move(ProducerInput.ID_DROPPED)

    # Draining

    def may_drain(self, batch: ProducerBatch) -> bool:
        """Whether the first batch of a queue, and so its partition, may be sent."""
        partition = batch.topic_partition
        if self.state is not IdState.READY or partition in self._to_rewrite:
            return False
        sequences = self.sequences(partition)
        if batch.has_sequence:
            in_flight = sequences.in_flight
            return not in_flight or batch is in_flight[0]
        is_stale = sequences.id_and_epoch != self.id_and_epoch
        return sequences.unresolved is None and not (is_stale and sequences.in_flight)

    def drained(self, batch: ProducerBatch) -> None:
        """Assign sequences to a drained batch, unless it has some."""
        if not batch.has_sequence:
            sequences = self.sequences(batch.topic_partition)
            if sequences.id_and_epoch != self.id_and_epoch:
                sequences.restart(self.id_and_epoch)
            sequences.assign(batch)
        batch.is_renumbered = False

    # Results

    def completed(self, batch: ProducerBatch, base_offset: int) -> None:
        """Record an acknowledged batch, possibly after its delivery timeout."""
        sequences = self.sequences(batch.topic_partition)
        sequences.acked(batch, base_offset)
        sequences.remove(batch)

    def decide(self, batch: ProducerBatch, error: Error, log_start_offset: int) -> Retry:
        """Decide on a retry; marks partitions to rewrite.

        A batch whose sequences were dropped with its id is not retried.
        """
        failed_batch = FailedBatch(batch, self.sequences(batch.topic_partition), log_start_offset)
        if batch not in failed_batch.sequences.in_flight:
            return Retry.FAIL
        for rule in self.retry_rules:
            if rule.error is error and rule.holds(failed_batch):
                if rule.action is Retry.BUMP_AND_RETRY:
                    self.request_bump(batch.topic_partition)
                return rule.action
        return Retry.RETRY if error in RETRIABLE else Retry.FAIL

    def failed(self, batch: ProducerBatch, error: Error, is_given_up: bool) -> None:
        """Record a failed batch: rejected, or given up after it was sent."""
        if error in FATAL:
            self.error = error
            self.move(ProducerInput.FATAL)
        if is_given_up and error not in SEQUENCE_ERRORS:
            self.given_up(batch)
        elif batch in self.sequences(batch.topic_partition).in_flight:
            self.sequences(batch.topic_partition).remove(batch)
            self.request_bump(batch.topic_partition)

    def given_up(self, batch: ProducerBatch) -> None:
        """Give up a batch; if it was sent, its sequence stays unresolved."""
        sequences = self.sequences(batch.topic_partition)
        if batch in sequences.in_flight:
            sequences.remove(batch)
            sequences.mark_unresolved(batch)

    # Epochs

    def request_bump(self, partition: TopicPartition) -> None:
        """Restart the partition at 0 with the next epoch."""
        self._to_rewrite[partition] = None

    def resolve(self) -> None:
        """Bump the epoch if a batch that was given up was not written.

        Only if nothing else of the partition is in flight.
        """
        for partition, sequences in list(self._partitions.items()):
            if sequences.unresolved is None or sequences.in_flight:
                continue
            sequences.unresolved = None
            if not sequences.is_all_acked:
                self.request_bump(partition)

    def bump(self) -> list[ProducerBatch]:
        """Bump the epoch and rewrite the waiting partitions.

        Returns the batches that fail, because they can no longer be written once and in order.
        After epoch 32767 a new id is needed first.
        """
        if not self._to_rewrite or self.state is not IdState.READY or self._has_batches_on_wire():
            return []
        if not self._has_new_id and self.id_and_epoch.epoch == EPOCH_MAX:
            self._has_new_id = True
            self.drop_id()
            return []
        if not self._has_new_id:
            self.id_and_epoch = IdAndEpoch(
                self.id_and_epoch.producer_id, self.id_and_epoch.epoch + 1
            )
        self._has_new_id = False
        lost = []
        for partition in self._to_rewrite:
            sequences = self.sequences(partition)
            if not self._rewrites_unacknowledged:
                lost += sequences.give_up_unsafe()
            sequences.restart(self.id_and_epoch)
        self._to_rewrite.clear()
        return lost

    def _has_batches_on_wire(self) -> bool:
        if self._rewrites_unacknowledged:
            return False
        concerned = (self.sequences(partition) for partition in self._to_rewrite)
        return any(batch.is_on_wire for sequences in concerned for batch in sequences.in_flight)


class TransactionalManager(TransactionManager):
    """The manager of a transactional producer; only the coordinator bumps.

    Attributes:
        is_in_doubt: a partition needs a new epoch to continue.
    """

    def __init__(self, id_and_epoch: IdAndEpoch) -> None:
        super().__init__()
        self.id_and_epoch = id_and_epoch
        self.state = IdState.READY
        self.is_in_doubt = False

    def needs_id(self, now: int) -> bool:
        """Return False: `transactions.py` requests the id."""
        return False

    def request_bump(self, partition: TopicPartition) -> None:
        self.is_in_doubt = True

    def bump(self) -> list[ProducerBatch]:
        """Return nothing: the coordinator bumps."""
        return []
