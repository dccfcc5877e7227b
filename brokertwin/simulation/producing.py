"""Applications that write: an idempotent and a transactional producer."""

from brokertwin.clients.partitions import TopicPartition
from brokertwin.clients.producer_client import ProducerClient
from brokertwin.clients.producer_config import ProducerConfig
from brokertwin.clients.producer_events import RecordAcked
from brokertwin.clients.record_audit import SendOutcome, SentRecord
from brokertwin.clients.transactions import ProducerTransactions, TransactionManagerState
from brokertwin.protocol.errors import Error
from brokertwin.simulation.actors import REQUEST_MS, Actor, ActorContext
from brokertwin.simulation.cluster import TRANSACTION_MS
from brokertwin.simulation.plan import PASSING, ClientPlan, FaultKind
from brokertwin.simulation.sockets import Sockets

SIZE_IN_BYTES = 100
BUFFERED_BATCHES = 20
"""`buffer.memory` in batches: a full buffer blocks new records."""
PAUSE_MIN_MS, PAUSE_MAX_MS = 40, 300
RECORDS_MAX = 3
TO_PASSING = 0.3
"""Probability that a record goes to the temporary topic, if there is one."""

ABORTS = 0.25
"""Probability that a transaction is aborted without an error."""

CONTINUES = 0.5
"""Probability that a transaction continues with more records."""

WITHOUT_TRANSACTIONS = frozenset({Error.REQUEST_TIMED_OUT})
IN_TRANSACTIONS = WITHOUT_TRANSACTIONS | {
    *(Error.OPERATION_NOT_ATTEMPTED, Error.INVALID_PRODUCER_EPOCH, Error.PRODUCER_FENCED),
    *(Error.ILLEGAL_GENERATION, Error.UNKNOWN_MEMBER_ID, Error.REBALANCE_IN_PROGRESS),
}
ABORTED_BY_OTHERS = frozenset({Error.INVALID_TXN_STATE})
WITH_A_RIVAL = ABORTED_BY_OTHERS | {Error.OUT_OF_ORDER_SEQUENCE_NUMBER}
WITH_OTHER_LEADERS = frozenset({Error.OUT_OF_ORDER_SEQUENCE_NUMBER})
WHERE_DENIED = frozenset({Error.TOPIC_AUTHORIZATION_FAILED, Error.OUT_OF_ORDER_SEQUENCE_NUMBER})
"""Accepted errors of a record or transaction.

- A timeout, another producer with the id, an aborted transaction, or a reader that has left its
  group.
- Since KIP-890, the coordinator rejects the end of a transaction that it has aborted. A leader with
  records of the older producer accepts only the first sequence of the newer one
  (`ProducerAppendInfo.checkSequence`).
- A leader without state of a producer accepts any first sequence, so earlier requests in flight
  then fail for good; so do requests to a recreated topic.
- Requests in flight after a batch that an ACL rejected are out of order.
- A severed coordinator does not know transactions of another one, and rejects their end.
"""


class RecordProducer:
    def __init__(
        self, actor: Actor, sockets: Sockets, transactional_id: str | None, batch_records: int = 2
    ) -> None:
        config = ProducerConfig(
            request_timeout_ms=REQUEST_MS,
            delivery_timeout_ms=20_000,
            transactional_id=transactional_id,
            transaction_timeout_ms=TRANSACTION_MS,
            batch_size=batch_records * SIZE_IN_BYTES,
            buffer_memory=BUFFERED_BATCHES * batch_records * SIZE_IN_BYTES,
        )
        draw = actor.draw("producer")
        self.client = ProducerClient(config, draw, may_create_topics=False)
        self.driver = actor.driver_of(self.client, sockets)
        self.transaction = ""
        self._actor = actor
        self._has_passing = actor.place.plan.has(FaultKind.TOPIC)
        self._sockets = sockets
        self._records = actor.place.auditor.records
        self._count = self._transactions = 0
        self._began_at = 0

    @property
    def transactions(self) -> ProducerTransactions:
        assert self.client.transactions is not None, "it has one"
        return self.client.transactions

    @property
    def has_acked(self) -> bool:
        """True if a record of the open transaction was acknowledged."""
        return any(
            each.transaction == self.transaction and each.outcome is SendOutcome.ACKED
            for each in self._records.sent.values()
        )

    def write(self, topic: str, partition: int, what: str = "") -> bool:
        """Send a record with content; returns False for an unknown partition."""
        now = self._actor.place.clock.now
        record = self.client.offer(now, topic, None, SIZE_IN_BYTES, partition=partition)
        if record is None:
            return False
        self._count += 1
        name = f"{self._actor.name}.{self._count}" + (f"={what}" if what else "")
        self._sockets.names[record] = name
        at = TopicPartition(topic, partition)
        sent = self._records.sent[name] = SentRecord(self._actor.name, self.transaction, at)
        sent.written_at = now
        return True

    def begin(self) -> None:
        self._transactions += 1
        self.transactions.begin()
        self._began_at = self._actor.place.clock.now
        self.transaction = f"{self._actor.name}/{self._transactions}"
        self._records.transactions[self.transaction] = SendOutcome.IN_DOUBT
        self._records.running.add(self.transaction)

    def end(self, wants: SendOutcome) -> None:
        """Commit or abort the transaction; an aborted one is never seen."""
        if wants is SendOutcome.ACKED:
            self._records.running.discard(self.transaction)
            self.transactions.commit()
        else:
            self.transactions.abort()

    def ended(self, outcome: SendOutcome) -> None:
        self._actor.place.auditor.say(f"{self._actor.name}: {self.transaction} is {outcome}")
        self._records.transactions[self.transaction] = outcome
        self.transaction = ""

    def on_events(self) -> None:
        for event in self.client.events():
            name = self._sockets.names[event.record_id]
            if isinstance(event, RecordAcked):
                self._records.acked(name, event.offset)
                self._hold_acked(name)
            else:
                self._records.given_up(name, event.may_be_written)
                self._hold(f"{name} was given up", event.error)
        if self.client.transactions is not None:
            self._hold(f"{self._actor.name} ends", self.transactions.error)

    def _hold_acked(self, name: str) -> None:
        """Check that denied writes are not acknowledged, while all brokers know the ACLs."""
        auditor, sent = self._actor.place.auditor, self._records.sent[name]
        if not auditor.has_lost_brokers:
            now = self._actor.place.clock.now
            auditor.losses.acked(sent.producer, sent.partition, sent.written_at, now, name)

    def _hold(self, what: str, error: Error) -> None:
        """Check that a record or producer failed with an accepted error."""
        auditor = self._actor.place.auditor
        may_be = WITHOUT_TRANSACTIONS if self.client.transactions is None else IN_TRANSACTIONS
        may_be |= auditor.denials.errors
        if auditor.losses.may_be_denied(self._actor.name):
            may_be |= WHERE_DENIED
        if auditor.has_lost_brokers or self._has_passing:
            may_be |= WITH_OTHER_LEADERS
        if auditor.has_severed_brokers:
            may_be |= ABORTED_BY_OTHERS
        if self.transaction and self._actor.place.clock.now >= self._began_at + TRANSACTION_MS:
            may_be |= ABORTED_BY_OTHERS
        if auditor.epochs.has_rivals(self._actor.plan.name):
            may_be |= WITH_A_RIVAL
        if error is not Error.NONE and error not in may_be:
            auditor.violate(f"{what} for {error.name}")


class ProducerActor(Actor):
    """Writes records repeatedly."""

    def __init__(self, place: ActorContext, plan: ClientPlan, name: str) -> None:
        super().__init__(place, plan, name)
        self._writer = RecordProducer(self, self.sockets, None)
        self._has_passing = place.plan.has(FaultKind.TOPIC)
        self._next_at = 0

    @property
    def is_at_rest(self) -> bool:
        return self._writer.client.producer.is_idle

    def _work(self, now: int) -> int:
        self._writer.on_events()
        if self.is_ending:
            return REQUEST_MS
        if now >= self._next_at:
            if self._has_passing and self.chance.random() < TO_PASSING:
                self._writer.write(PASSING, 0)
            for _ in range(self.chance.randint(1, RECORDS_MAX)):
                self._writer.write("orders", self.chance.randrange(self.place.plan.partitions))
            self._next_at = now + self.chance.randint(PAUSE_MIN_MS, PAUSE_MAX_MS)
        return self._next_at - now

    def _turn(self) -> int:
        self._writer.driver.turn(REQUEST_MS)
        self._writer.on_events()
        return self.sockets.wait_ms


class TransactionsActor(Actor):
    """Writes in transactions and commits most of them; ends if fenced."""

    def __init__(self, place: ActorContext, plan: ClientPlan, name: str) -> None:
        super().__init__(place, plan, name)
        self._writer = RecordProducer(self, self.sockets, plan.name)
        self._next_at = 0
        self._wants = SendOutcome.OPEN
        self._writer.transactions.init()

    @property
    def is_over(self) -> bool:
        return self._writer.transactions.is_over

    @property
    def is_at_rest(self) -> bool:
        return self._writer.transactions.state is TransactionManagerState.READY or self.is_over

    @property
    def may_stall(self) -> bool:
        """True if a transaction has a record: it is open until its timeout then."""
        state = self._writer.transactions.state
        is_open = state is TransactionManagerState.IN_TRANSACTION
        return self.is_over or (is_open and self._writer.has_acked)

    def _work(self, now: int) -> int:
        self._writer.on_events()
        state = self._writer.transactions.state
        if state is TransactionManagerState.ABORTABLE_ERROR:
            self._end(SendOutcome.GIVEN_UP)
        elif state is TransactionManagerState.IN_TRANSACTION and now >= self._next_at:
            self._go_on(now)
        elif state is TransactionManagerState.READY:
            if self._writer.transaction:
                self._writer.ended(self._wants)
            if now >= self._next_at and not self.is_ending:
                self._writer.begin()
                self._write(now)
        return max(self._next_at - now, PAUSE_MIN_MS) if self._has_work else REQUEST_MS

    @property
    def _has_work(self) -> bool:
        """True if it continues by itself; otherwise its producer's events wake it."""
        state = self._writer.transactions.state
        is_ready = state is TransactionManagerState.READY and not self.is_ending
        return is_ready or state is TransactionManagerState.IN_TRANSACTION

    def _go_on(self, now: int) -> None:
        """Write more records or end the transaction: a zombie writes to added partitions."""
        if self.chance.random() < CONTINUES:
            self._write(now)
        else:
            aborts = self.chance.random() < ABORTS
            self._end(SendOutcome.GIVEN_UP if aborts else SendOutcome.ACKED)

    def _write(self, now: int) -> None:
        for _ in range(self.chance.randint(1, RECORDS_MAX)):
            topic = self.chance.choice(("orders", "payments"))
            self._writer.write(topic, self.chance.randrange(self.place.plan.partitions))
        self._next_at = now + self.chance.randint(PAUSE_MIN_MS, PAUSE_MAX_MS)

    def _end(self, wants: SendOutcome) -> None:
        self._wants = wants
        self._writer.end(wants)

    def _turn(self) -> int:
        self._writer.driver.turn(REQUEST_MS)
        self._writer.on_events()
        return self.sockets.wait_ms
