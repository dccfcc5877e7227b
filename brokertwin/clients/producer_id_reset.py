"""A producer that replaces its id after a lost sequence (Kafka 0.11 to 2.4).

Source: seed 002; `shouldResetProducerStateAfterResolvingSequences`, `canRetry` and
`resetProducerId` of `TransactionManager` in Kafka 2.0. KIP-360 replaced this rule by an epoch bump.
Enabled by `ProducerConfig(reset_pid_on_unresolved=True)`.

    event                                              effect
    a batch expires after it was sent                  its sequence is unresolved
    ... and nothing else of the partition is in
    flight, and not all sequences are acknowledged     reset
    45 OUT_OF_ORDER_SEQUENCE_NUMBER, and an earlier
    batch of the partition can still be retried        retried
    any other 45 or 59 UNKNOWN_PRODUCER_ID             the batch fails, reset

A reset forgets the id and the sequences of all partitions. A batch in flight keeps the former id
and fails with its next error, because the id has changed. It may be in the log by then, so an
application that sends its record again writes it twice. A batch that waits for a retry is sent once
more under the former id.

Kafka 2.0 lowers the sequences of later batches if a batch is rejected for another reason, and
restarts them if 59 UNKNOWN_PRODUCER_ID reports deleted records. Here both cases reset the id.
"""

from brokertwin.clients.partitions import TopicPartition
from brokertwin.clients.transaction_manager import IdState, Retry, RetryRule, TransactionManager
from brokertwin.protocol.errors import Error


class ResettingManager(TransactionManager):
    """The manager of an idempotent producer that never bumps its epoch."""

    retry_rules = (
        RetryRule(Error.OUT_OF_ORDER_SEQUENCE_NUMBER, lambda r: r.waits_for_earlier, Retry.RETRY),
        RetryRule(Error.UNKNOWN_PRODUCER_ID, lambda r: r.is_log_unknown, Retry.RETRY),
    )

    def request_bump(self, partition: TopicPartition) -> None:
        """Reset: drop the id and the sequences of every partition."""
        if self.state is IdState.READY:
            self.drop_id()
            self._partitions.clear()
