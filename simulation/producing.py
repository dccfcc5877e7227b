"""Applications that write: an idempotent producer, and one whose records are in transactions."""

from brokertwin.clients.partitions import TopicPartition
from brokertwin.clients.producer_client import ProducerClient
from brokertwin.clients.producer_config import ProducerConfig
from brokertwin.clients.producer_events import RecordAcked
from brokertwin.clients.transactions import ProducerTransactions, TransactionState
from brokertwin.simulation.actors import REQUEST_MS, Actor, Place
from brokertwin.simulation.audit_records import Outcome, Sent
from brokertwin.simulation.cluster import TRANSACTION_MS
from brokertwin.simulation.plan import PASSING, ClientPlan, Fault
from brokertwin.simulation.sockets import Sockets
from brokertwin.state.core.errors import Error

SIZE_IN_BYTES = 100
BUFFERED_BATCHES = 20
"""`buffer.memory` in batches: who does not get rid of records writes no more of them."""
PAUSE_MIN_MS, PAUSE_MAX_MS = 40, 300
RECORDS_MAX = 3
TO_PASSING = 0.3
"""How often a record goes to the topic that comes and goes, where there is one."""

ABORTS = 0.25
"""How often a transaction is aborted though nothing is wrong."""

GOES_ON = 0.5
"""How often more records come, after a while, before it ends."""

WITHOUT_TRANSACTIONS = frozenset({Error.REQUEST_TIMED_OUT})
IN_TRANSACTIONS = WITHOUT_TRANSACTIONS | {
    *(Error.OPERATION_NOT_ATTEMPTED, Error.INVALID_PRODUCER_EPOCH, Error.PRODUCER_FENCED),
    *(Error.ILLEGAL_GENERATION, Error.UNKNOWN_MEMBER_ID, Error.REBALANCE_IN_PROGRESS),
}
ABORTED_BY_OTHERS = frozenset({Error.INVALID_TXN_STATE})
WITH_A_RIVAL = ABORTED_BY_OTHERS | {Error.OUT_OF_ORDER_SEQUENCE_NUMBER}
WITH_OTHER_LEADERS = frozenset({Error.OUT_OF_ORDER_SEQUENCE_NUMBER})
WHERE_DENIED = frozenset({Error.TOPIC_AUTHORIZATION_FAILED, Error.OUT_OF_ORDER_SEQUENCE_NUMBER})
"""Why a record may be given up, and a transaction may fail.

Its time was over, another producer has the id, the transaction was aborted, or its reader is no
member of the group any more. Since KIP-890 a transaction that the coordinator has aborted, for its
time was over or for another producer, is refused its end by state; and a leader where the older
producer has begun to write takes only its first sequence, of the newer one too
(`ProducerAppendInfo.checkSequence`). A leader that knows nothing of a producer takes any sequence
as its first one: what was under way to the leader before it then comes too late for good; so does
what was under way to a topic that has gone and come again. What was under way behind a batch that
was refused by an ACL does not follow the last one any more. And a coordinator that is severed knows
nothing of a transaction of another one, and refuses its end.
"""


class Writer:
    """A producer and the names of its records."""

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
        self._has_passing = actor.place.plan.has(Fault.TOPIC)
        self._sockets = sockets
        self._records = actor.place.auditor.records
        self._count = self._transactions = 0
        self._began_at = 0

    @property
    def transactions(self) -> ProducerTransactions:
        """Those of a producer that has a transactional id."""
        assert self.client.transactions is not None, "it has one"
        return self.client.transactions

    def write(self, topic: str, partition: int, what: str = "") -> bool:
        """Sends a record, with what it says; not where the partition is not known yet."""
        now = self._actor.place.clock.now
        record = self.client.offer(now, topic, None, SIZE_IN_BYTES, partition=partition)
        if record is None:
            return False
        self._count += 1
        name = f"{self._actor.name}.{self._count}" + (f"={what}" if what else "")
        self._sockets.names[record] = name
        at = TopicPartition(topic, partition)
        sent = self._records.sent[name] = Sent(self._actor.name, self.transaction, at)
        sent.written_at = now
        return True

    def begin(self) -> None:
        """Begins a transaction."""
        self._transactions += 1
        self.transactions.begin()
        self._began_at = self._actor.place.clock.now
        self.transaction = f"{self._actor.name}/{self._transactions}"
        self._records.transactions[self.transaction] = Outcome.IN_DOUBT

    def ended(self, outcome: Outcome) -> None:
        """The transaction is over, as its producer was told."""
        self._actor.place.auditor.say(f"{self._actor.name}: {self.transaction} is {outcome}")
        self._records.transactions[self.transaction] = outcome
        self.transaction = ""

    def hear(self) -> None:
        """What has become of records."""
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
        """What is denied is not acknowledged, as long as brokers hear of what is."""
        auditor, sent = self._actor.place.auditor, self._records.sent[name]
        if not auditor.has_lost_brokers:
            now = self._actor.place.clock.now
            auditor.losses.acked(sent.producer, sent.partition, sent.written_at, now, name)

    def _hold(self, what: str, error: Error) -> None:
        """A record, or a producer, is given up only for what may be."""
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
    """Writes some records again and again."""

    def __init__(self, place: Place, plan: ClientPlan, name: str) -> None:
        super().__init__(place, plan, name)
        self._writer = Writer(self, self.sockets, None)
        self._has_passing = place.plan.has(Fault.TOPIC)
        self._next_at = 0

    @property
    def is_at_rest(self) -> bool:
        """Whether nothing is without its outcome."""
        return self._writer.client.producer.is_idle

    def _work(self, now: int) -> int:
        self._writer.hear()
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
        self._writer.hear()
        return self.sockets.wait_ms


class TransactionsActor(Actor):
    """Writes in transactions, and commits most of them; one that is fenced ends."""

    def __init__(self, place: Place, plan: ClientPlan, name: str) -> None:
        super().__init__(place, plan, name)
        self._writer = Writer(self, self.sockets, plan.name)
        self._next_at = 0
        self._wants = Outcome.OPEN
        self._writer.transactions.init()

    @property
    def is_over(self) -> bool:
        """Whether the producer can do nothing any more."""
        return self._writer.transactions.is_over

    @property
    def is_at_rest(self) -> bool:
        """Whether no transaction is open."""
        return self._writer.transactions.state is TransactionState.READY or self.is_over

    def _work(self, now: int) -> int:
        self._writer.hear()
        state = self._writer.transactions.state
        if state is TransactionState.ABORTABLE_ERROR:
            self._end(Outcome.GIVEN_UP)
        elif state is TransactionState.IN_TRANSACTION and now >= self._next_at:
            self._go_on(now)
        elif state is TransactionState.READY:
            if self._writer.transaction:
                self._writer.ended(self._wants)
            if now >= self._next_at and not self.is_ending:
                self._begin(now)
        return max(self._next_at - now, PAUSE_MIN_MS) if self._has_work else REQUEST_MS

    @property
    def _has_work(self) -> bool:
        """Whether it goes on by itself; else what its producer hears wakes it."""
        state = self._writer.transactions.state
        is_ready = state is TransactionState.READY and not self.is_ending
        return is_ready or state is TransactionState.IN_TRANSACTION

    def _begin(self, now: int) -> None:
        self._writer.begin()
        self._write(now)

    def _go_on(self, now: int) -> None:
        """One more round of records, or the end: a zombie writes to partitions it has added."""
        if self.chance.random() < GOES_ON:
            self._write(now)
        else:
            aborts = self.chance.random() < ABORTS
            self._end(Outcome.GIVEN_UP if aborts else Outcome.ACKED)

    def _write(self, now: int) -> None:
        for _ in range(self.chance.randint(1, RECORDS_MAX)):
            topic = self.chance.choice(("orders", "payments"))
            self._writer.write(topic, self.chance.randrange(self.place.plan.partitions))
        self._next_at = now + self.chance.randint(PAUSE_MIN_MS, PAUSE_MAX_MS)

    def _end(self, wants: Outcome) -> None:
        self._wants = wants
        transactions = self._writer.transactions
        (transactions.commit if wants is Outcome.ACKED else transactions.abort)()

    def _turn(self) -> int:
        self._writer.driver.turn(REQUEST_MS)
        self._writer.hear()
        return self.sockets.wait_ms
