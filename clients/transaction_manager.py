"""The idempotent producer's id, epoch and sequences, and what an error means for them.

Source: seed 002; KIP-98, KIP-360; `TransactionManager` in Kafka (its idempotent half). One
InitProducerId is under way at a time; INITIALIZING says that it is.

    state              input              next state
    UNINITIALIZED      asked              INITIALIZING
    INITIALIZING       id received        READY
    INITIALIZING       to be retried      UNINITIALIZED, asks again after the backoff
    INITIALIZING       not authorized     ABORTABLE_ERROR
    ABORTABLE_ERROR    batches aborted    UNINITIALIZED
    READY              id dropped         UNINITIALIZED
    any                fatal error        FATAL_ERROR, for good

A bump makes the epoch one greater, on the client alone; the partitions that need it begin again at
sequence 0, and their batches in flight are renumbered. Kafka does so at once, whatever is known of
those batches. Where an attempt of one ended without an answer, its records may already be in the
log, or come into it from a connection that is closed: written under the new epoch they are there
twice. And a broker takes any first sequence of a producer that it does not know: where the first
batch was refused, a later one can be in the log before it, and renumbered it would follow. Here a
bump waits until no batch of the partitions concerned is on the wire, and then fails those whose
outcome is unknown and those that something later has overtaken, in place of renumbering them.
`rewrites_unanswered` takes Kafka's rule; the tests show the schedules that it loses.

A batch that is given up after it was sent leaves its sequence unresolved here also where its
retries are used up and where it has never been retried; Kafka marks only a retried batch whose
delivery timeout has passed. Where retries end in UNKNOWN_PRODUCER_ID, the epoch is bumped; Kafka
forgets the partition's sequences, also those of batches in flight.

`TransactionalManager` is that of a transactional producer.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple

from brokertwin.clients.partition_sequences import PartitionSequences
from brokertwin.clients.partitions import TopicPartition
from brokertwin.clients.producer_batch import NO_ID, IdAndEpoch, ProducerBatch
from brokertwin.state.core.errors import RETRIABLE, Error

EPOCH_MAX = 2**15 - 1


class IdState(StrEnum):
    """Where the producer stands with its id."""

    UNINITIALIZED = "uninitialized"
    INITIALIZING = "initializing"
    READY = "ready"
    ABORTABLE_ERROR = "abortable error"
    FATAL_ERROR = "fatal error"


class ProducerInput(StrEnum):
    """What moves it."""

    ASKED = "asked"
    ID_RECEIVED = "id received"
    TO_BE_RETRIED = "to be retried"
    NOT_AUTHORIZED = "not authorized"
    BATCHES_ABORTED = "batches aborted"
    ID_DROPPED = "id dropped"
    FATAL = "fatal"


TRANSITIONS: dict[tuple[IdState, ProducerInput], IdState] = {
    (IdState.UNINITIALIZED, ProducerInput.ASKED): IdState.INITIALIZING,
    (IdState.INITIALIZING, ProducerInput.ID_RECEIVED): IdState.READY,
    (IdState.INITIALIZING, ProducerInput.TO_BE_RETRIED): IdState.UNINITIALIZED,
    (IdState.INITIALIZING, ProducerInput.NOT_AUTHORIZED): IdState.ABORTABLE_ERROR,
    (IdState.ABORTABLE_ERROR, ProducerInput.BATCHES_ABORTED): IdState.UNINITIALIZED,
    (IdState.READY, ProducerInput.ID_DROPPED): IdState.UNINITIALIZED,
    **{(state, ProducerInput.FATAL): IdState.FATAL_ERROR for state in IdState},
}

INIT_ANSWERS: dict[Error, ProducerInput] = {
    Error.NONE: ProducerInput.ID_RECEIVED,
    Error.CLUSTER_AUTHORIZATION_FAILED: ProducerInput.NOT_AUTHORIZED,
    Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: ProducerInput.NOT_AUTHORIZED,
    **dict.fromkeys(RETRIABLE, ProducerInput.TO_BE_RETRIED),
}
"""What an InitProducerId answer means; every error that is not here is fatal."""

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
"""Errors of a batch after which the producer sends nothing more."""


SEQUENCE_ERRORS = frozenset({Error.OUT_OF_ORDER_SEQUENCE_NUMBER, Error.UNKNOWN_PRODUCER_ID})
"""Errors that say how the broker sees the producer's sequences."""


class FailedBatch(NamedTuple):
    """A batch's error with what decides over it. `log_start_offset` is -1 where not given."""

    batch: ProducerBatch
    sequences: PartitionSequences
    log_start_offset: int

    @property
    def waits_for_earlier(self) -> bool:
        """An earlier batch is missing, or the answer is to sequences that are no longer its own."""
        batch, sequences = self.batch, self.sequences
        is_next = batch.base_sequence == sequences.expected
        return sequences.unresolved is None and (batch.is_renumbered or not is_next)

    @property
    def follows_the_hole(self) -> bool:
        """The batch just before is lost to the broker: no retry will ever fit."""
        unresolved = self.sequences.unresolved
        return unresolved is None or self.batch.base_sequence == unresolved

    @property
    def is_log_unknown(self) -> bool:
        """The answer does not say where the log begins: nothing can be told from it."""
        return self.log_start_offset == -1

    @property
    def is_renumbered(self) -> bool:
        """The answer is to sequences that are no longer the batch's own."""
        return self.batch.is_renumbered


class Retry(StrEnum):
    """What becomes of a batch that got an error."""

    RETRY = "retry"
    BUMP_AND_RETRY = "bump the epoch and retry"
    FAIL = "fail"


def always(_refused: FailedBatch) -> bool:
    """The rule for what no rule above has taken."""
    return True


class RetryRule(NamedTuple):
    """A row of `RETRY_RULES`: this error, where this holds, means that."""

    error: Error
    holds: Callable[[FailedBatch], bool]
    action: Retry


RETRY_RULES: tuple[RetryRule, ...] = (
    RetryRule(Error.OUT_OF_ORDER_SEQUENCE_NUMBER, lambda r: r.waits_for_earlier, Retry.RETRY),
    RetryRule(
        Error.OUT_OF_ORDER_SEQUENCE_NUMBER, lambda r: r.follows_the_hole, Retry.BUMP_AND_RETRY
    ),
    RetryRule(Error.OUT_OF_ORDER_SEQUENCE_NUMBER, always, Retry.RETRY),
    RetryRule(Error.UNKNOWN_PRODUCER_ID, lambda r: r.is_log_unknown, Retry.RETRY),
    RetryRule(Error.UNKNOWN_PRODUCER_ID, lambda r: r.is_renumbered, Retry.RETRY),
    RetryRule(Error.UNKNOWN_PRODUCER_ID, always, Retry.BUMP_AND_RETRY),
)
"""Errors about sequences: the first row that holds decides. Every other error is retried if it is
retriable. The last row is two of Kafka's: records that expired, and an id that the broker lost."""


class TransactionManager:
    """A producer's id and its sequences on every partition.

    Attributes:
        state: where it stands with its id.
        id_and_epoch: what new batches get; (-1, -1) while there is none.
        error: why it is in an error state.
        retry_at: InitProducerId is not sent before this time (ms).
        failed_attempts: InitProducerId attempts since the last that succeeded.
    """

    def __init__(
        self, rewrites_unanswered: bool = False, reset_pid_on_unresolved: bool = False
    ) -> None:
        self.state = IdState.UNINITIALIZED
        self.id_and_epoch: IdAndEpoch = NO_ID
        self.error = Error.NONE
        self.retry_at = 0
        self.failed_attempts = 0
        self._partitions: dict[TopicPartition, PartitionSequences] = {}
        self._to_rewrite: dict[TopicPartition, None] = {}
        self._has_new_id = False
        self._rewrites_unanswered = rewrites_unanswered
        self._resets_id = reset_pid_on_unresolved

    def sequences(self, partition: TopicPartition) -> PartitionSequences:
        """What is known of one partition."""
        return self._partitions.setdefault(partition, PartitionSequences())

    def move(self, what: ProducerInput) -> None:
        """Goes to the next state. Raises KeyError where there is no such transition."""
        self.state = TRANSITIONS[self.state, what]

    # The producer id

    def wants_id(self, now: int) -> bool:
        """Whether InitProducerId is to be sent."""
        return self.state is IdState.UNINITIALIZED and now >= self.retry_at

    def init_answered(self, error: Error, id_and_epoch: IdAndEpoch, retry_at: int) -> None:
        """The answer to InitProducerId; where it is to be sent again, not before `retry_at`."""
        what = INIT_ANSWERS.get(error, ProducerInput.FATAL)
        self.failed_attempts = 0 if what is ProducerInput.ID_RECEIVED else self.failed_attempts + 1
        self.retry_at = 0 if what is ProducerInput.ID_RECEIVED else retry_at
        if what is ProducerInput.ID_RECEIVED:
            self.id_and_epoch = id_and_epoch
        elif what is not ProducerInput.TO_BE_RETRIED:
            self.error = Error.PRODUCER_FENCED if error in FENCED else error
        self.move(what)

    def fail_for_good(self, error: Error) -> None:
        """Nothing is sent any more."""
        self.error = error
        self.move(ProducerInput.FATAL)

    def drop_id(self) -> None:
        """A new id is asked for; partitions to be rewritten wait for it."""
        self.id_and_epoch = NO_ID
        self.move(ProducerInput.ID_DROPPED)

    # Draining

    def may_drain(self, batch: ProducerBatch) -> bool:
        """Whether the first batch of its queue may be sent now, and with it the partition."""
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
        """Gives a batch its sequences unless it has them; closes it."""
        if not batch.has_sequence:
            sequences = self.sequences(batch.topic_partition)
            if sequences.id_and_epoch != self.id_and_epoch:
                sequences.restart(self.id_and_epoch)
            sequences.assign(batch)
        batch.is_renumbered = False

    # Answers

    def completed(self, batch: ProducerBatch, base_offset: int) -> None:
        """A batch was acknowledged, perhaps after its delivery timeout."""
        sequences = self.sequences(batch.topic_partition)
        sequences.acked(batch, base_offset)
        sequences.remove(batch)

    def decide(self, batch: ProducerBatch, error: Error, log_start_offset: int) -> Retry:
        """Whether a batch that got `error` is sent again; notes the partitions to be rewritten.

        A batch whose sequences were forgotten with its producer id is not.
        """
        refused = FailedBatch(batch, self.sequences(batch.topic_partition), log_start_offset)
        if batch not in refused.sequences.in_flight:
            return Retry.FAIL
        for rule in RETRY_RULES:
            if rule.error is error and rule.holds(refused):
                if rule.action is Retry.BUMP_AND_RETRY:
                    self.request_bump(batch.topic_partition)
                return rule.action
        return Retry.RETRY if error in RETRIABLE else Retry.FAIL

    def failed(self, batch: ProducerBatch, error: Error, is_given_up: bool) -> None:
        """A batch failed: refused for good, or given up (timeout, retries) though it was sent."""
        if error in FATAL:
            self.fail_for_good(error)
        if is_given_up and error not in SEQUENCE_ERRORS:
            self.given_up(batch)
        elif batch in self.sequences(batch.topic_partition).in_flight:
            self.sequences(batch.topic_partition).remove(batch)
            self.request_bump(batch.topic_partition)

    def given_up(self, batch: ProducerBatch) -> None:
        """Nothing more is done for a batch; if it was sent, its sequence stays unresolved."""
        sequences = self.sequences(batch.topic_partition)
        if batch in sequences.in_flight:
            sequences.remove(batch)
            sequences.mark_unresolved(batch)

    # Epochs

    def request_bump(self, partition: TopicPartition) -> None:
        """The partition begins again at 0 with the next epoch."""
        self._to_rewrite[partition] = None

    def resolve(self) -> None:
        """Looks whether what was given up has been written after all; if not, bumps the epoch.

        Only where nothing else of the partition is in flight. By the rule of Kafka 2.0 the id goes
        and with it all that is known of every partition.
        """
        for partition, sequences in list(self._partitions.items()):
            if sequences.unresolved is None or sequences.in_flight:
                continue
            sequences.unresolved = None
            if sequences.is_all_acked:
                continue
            if self._resets_id and self.state is IdState.READY:
                self.drop_id()
                self._partitions.clear()
                self._to_rewrite.clear()
                return
            self.request_bump(partition)

    def bump(self) -> list[ProducerBatch]:
        """Bumps the epoch if partitions wait for it, and rewrites them.

        Gives back the batches that fail by it, because they cannot be written once and in order any
        more. After epoch 32767 comes a new id; the rewriting waits for it.
        """
        if not self._to_rewrite or self.state is not IdState.READY or self._waits_for_answers():
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
            if not self._rewrites_unanswered:
                lost += sequences.give_up_unsafe()
            sequences.restart(self.id_and_epoch)
        self._to_rewrite.clear()
        return lost

    def _waits_for_answers(self) -> bool:
        if self._rewrites_unanswered:
            return False
        concerned = (self.sequences(partition) for partition in self._to_rewrite)
        return any(batch.is_on_wire for sequences in concerned for batch in sequences.in_flight)


class TransactionalManager(TransactionManager):
    """The same under an id and epoch that a transaction coordinator gave, and that it alone bumps.

    Attributes:
        is_in_doubt: whether only another epoch would let some partition go on.
    """

    def __init__(self, id_and_epoch: IdAndEpoch) -> None:
        super().__init__()
        self.id_and_epoch = id_and_epoch
        self.state = IdState.READY
        self.is_in_doubt = False

    def wants_id(self, now: int) -> bool:
        """Its coordinator is asked, by `transactions.py`."""
        return False

    def request_bump(self, partition: TopicPartition) -> None:
        """The transaction has to be aborted."""
        self.is_in_doubt = True

    def bump(self) -> list[ProducerBatch]:
        """Nothing is bumped here."""
        return []
