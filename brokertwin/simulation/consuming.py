"""Applications that read: group members, and one that copies transactionally.

The copier reads, writes and commits offsets in one transaction (KIP-447), so each record is copied
exactly once. After a failed transaction it continues at the group's committed offsets.
"""

import msgspec

from brokertwin.clients.assignors.group import NO_GENERATION
from brokertwin.clients.consumer_client import ConsumerClient
from brokertwin.clients.consumer_config import ConsumerConfig, GroupProtocol
from brokertwin.clients.consumer_events import (
    ConsumerFailed,
    Event,
    PartitionsAssigned,
    PartitionsLost,
    PartitionsRevoked,
)
from brokertwin.clients.fetcher import FetchSettings, OffsetReset
from brokertwin.clients.fetching_client import CONSUMER_NETWORK
from brokertwin.clients.partitions import TopicPartition
from brokertwin.clients.record_audit import SendOutcome
from brokertwin.clients.transactions import TransactionManagerState
from brokertwin.simulation.actors import REQUEST_MS, Actor, ActorContext
from brokertwin.simulation.cluster import HEARTBEAT_MS, SESSION_MS
from brokertwin.simulation.plan import PASSING, TOPICS, ClientPlan, FaultKind, Role
from brokertwin.simulation.producing import ABORTS, PAUSE_MAX_MS, PAUSE_MIN_MS, RecordProducer
from brokertwin.simulation.sockets import Sockets

POLL_MS, IDLE_MS = 150, 500
"""Time to process records, and time until the next poll without records."""

PLAIN = 0.7
"""Probability that a transaction with offsets has a commit without transaction beside it."""

NETWORK = msgspec.structs.replace(CONSUMER_NETWORK, request_timeout_ms=REQUEST_MS)


class MemberActor(Actor):
    """A member of a group; it reads the run's topics unless it names others.

    Offsets are committed automatically.
    """

    topics: tuple[str, ...] = ()
    commits_automatically = True
    polls_max = 500

    def __init__(self, place: ActorContext, plan: ClientPlan, name: str) -> None:
        super().__init__(place, plan, name)
        is_consumer = plan.role is Role.CONSUMER
        config = ConsumerConfig(
            group_id=plan.group,
            group_protocol=GroupProtocol.CONSUMER if is_consumer else GroupProtocol.CLASSIC,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            max_poll_interval_ms=place.plan.max_poll_ms,
            group_instance_id=plan.instance or None,
            enable_auto_commit=self.commits_automatically,
            auto_commit_interval_ms=1_000,
        )
        fetches = FetchSettings(
            auto_offset_reset=OffsetReset.EARLIEST,
            fetch_max_wait_ms=500,
            isolation_level=int(plan.is_read_committed),
            max_poll_records=self.polls_max,
        )
        topics = frozenset(self.topics or place.plan.topics)
        if topics == frozenset(TOPICS) and place.plan.has(FaultKind.TOPIC):
            topics |= {PASSING}
        draw = self.draw("consumer")
        self.client = ConsumerClient(
            config, fetches, topics, draw, network=NETWORK, may_create_topics=False
        )
        self._driver = self.driver_of(self.client, self.sockets)
        self._next_at = 0
        self._has: set[TopicPartition] = set()
        self._has_failed = False

    @property
    def is_over(self) -> bool:
        return self._has_failed

    @property
    def is_at_rest(self) -> bool:
        """True: the auditor tracks its progress."""
        return True

    def _work(self, now: int) -> int:
        if now < self._next_at:
            return self._next_at - now
        self._next_at = now + POLL_MS
        polled = self.client.poll(now)
        for event in self.client.events():
            self._on_event(event)
        for at, offset, name in polled:
            if at not in self._has or self.client.coordinator.generation.id == NO_GENERATION:
                text = f"{self.name} reads {at.topic}-{at.partition}, which it does not have"
                self.place.auditor.violate(text)
            self._take(at, offset, name)
        return POLL_MS if polled else IDLE_MS

    def _on_event(self, event: Event) -> None:
        """Check that assigned partitions are new, and revoked or lost ones were owned."""
        auditor = self.place.auditor
        auditor.say(f"{self.name}: {event}")
        match event:
            case ConsumerFailed(error):
                self._has_failed = True
                if error not in auditor.denials.errors:
                    auditor.violate(f"{self.name} ends with {error.name}")
            case PartitionsAssigned(partitions):
                if twice := self._has.intersection(partitions):
                    auditor.violate(f"{self.name} is given {sorted(twice)}, and has them")
                self._has.update(partitions)
            case PartitionsRevoked(partitions) | PartitionsLost(partitions):
                if others := set(partitions) - self._has:
                    auditor.violate(f"{self.name} gives back {sorted(others)}; it has them not")
                self._has.difference_update(partitions)

    def close(self) -> None:
        """Close the consumer: it commits, and leaves its group."""
        self.is_closing = True
        self.client.close(self.place.clock.now)
        self.wake()

    @property
    def is_closed(self) -> bool:
        return self.client.is_quiet

    def _take(self, at: TopicPartition, offset: int, name: str) -> None:
        records = self.place.auditor.records
        records.read(self.plan.group, at, offset, name, self.plan.is_read_committed)

    def _turn(self) -> int:
        self._driver.turn(REQUEST_MS)
        return self.sockets.wait_ms


class CopierActor(MemberActor):
    """Copies `orders` to `payments`."""

    topics = ("orders",)
    commits_automatically = False
    polls_max = 30

    def __init__(self, place: ActorContext, plan: ClientPlan, name: str) -> None:
        super().__init__(place, plan, name)
        self._out = self.sockets_of(f"{name}-out")
        self._writer = RecordProducer(self, self._out, plan.name, batch_records=self.polls_max)
        self._writer.transactions.init()
        self._read: list[tuple[TopicPartition, int, str]] = []
        self._wants = SendOutcome.OPEN

    @property
    def all_sockets(self) -> list[Sockets]:
        return [self.sockets, self._out]

    @property
    def is_over(self) -> bool:
        """True if the consumer or producer has failed permanently."""
        return super().is_over or self._writer.transactions.is_over

    @property
    def is_at_rest(self) -> bool:
        is_ready = self._writer.transactions.state is TransactionManagerState.READY
        return self.is_over or (is_ready and not self._writer.transaction)

    def _take(self, at: TopicPartition, offset: int, name: str) -> None:
        super()._take(at, offset, name)
        self._read.append((at, offset, name))

    def _work(self, now: int) -> int:
        self._writer.on_events()
        transactions = self._writer.transactions
        match transactions.state:
            case TransactionManagerState.ABORTABLE_ERROR:
                self._wants = SendOutcome.GIVEN_UP
                self._writer.end(self._wants)
            case TransactionManagerState.READY:
                if self._writer.transaction:
                    self._writer.ended(self._wants)
                    if self._wants is SendOutcome.GIVEN_UP:
                        self._go_back()
                pause = super()._work(now)
                if self._read:
                    read, self._read = self._read, []
                    owned = self.client.subscription.positions
                    self._copy([each for each in read if each[0] in owned])
                return pause
        return IDLE_MS

    def _copy(self, read: list[tuple[TopicPartition, int, str]]) -> None:
        """Write the records that were read, and their offsets, in one transaction."""
        if not read or not self._knows_topics():
            self._go_back()
            return
        self._writer.begin()
        for at, _, name in read:
            self._writer.write("payments", at.partition, name)
        offsets = {at: offset + 1 for at, offset, _ in read}
        group = self.client.coordinator.generation
        self._writer.transactions.send_offsets(self.plan.group, offsets, group)
        self._wants = SendOutcome.ACKED
        self._writer.end(self._wants)

    def _knows_topics(self) -> bool:
        self._writer.client.metadata.add("payments", self.place.clock.now)
        return bool(self._writer.client.metadata.snapshot.partition_count("payments"))

    def _go_back(self) -> None:
        """Continue at the group's committed offsets."""
        self._read.clear()
        self.client.subscription.forget_positions()

    def _turn(self) -> int:
        wait = super()._turn()
        self._writer.driver.turn(REQUEST_MS)
        self._writer.on_events()
        return min(wait, self._out.wait_ms)


class MixedActor(CopierActor):
    """Commits offsets of `orders` in transactions, and inside of most of them without.

    With such a commit the transaction's is where it began to read, so that they differ and no
    record is missed. Then it continues at the group's committed offsets, which it requests while
    the transaction is open. It writes to `orders`, beside other transactions.
    """

    def __init__(self, place: ActorContext, plan: ClientPlan, name: str) -> None:
        super().__init__(place, plan, name)
        self._plain: dict[TopicPartition, int] = {}
        self._next_step_at = 0

    def _work(self, now: int) -> int:
        if self._writer.transactions.state is not TransactionManagerState.IN_TRANSACTION:
            return super()._work(now)
        if now < self._next_step_at:
            return self._next_step_at - now
        self._next_step_at = now + self.chance.randint(PAUSE_MIN_MS, PAUSE_MAX_MS)
        if self._plain:
            plain, self._plain = self._plain, {}
            self.client.coordinator.commit(now, plain, is_sync=False)
            self._go_back()
        else:
            aborts = self.chance.random() < ABORTS
            self._wants = SendOutcome.GIVEN_UP if aborts else SendOutcome.ACKED
            self._writer.end(self._wants)
            self._next_at = now + self.chance.randint(IDLE_MS, 2 * IDLE_MS)
        return PAUSE_MIN_MS

    def _copy(self, read: list[tuple[TopicPartition, int, str]]) -> None:
        """Begin a transaction with the offsets of the records that were read."""
        if not read or self.is_ending:
            return
        self._writer.begin()
        for partition in range(self.place.plan.partitions):
            self._writer.write("orders", partition)
        first = {at: offset for at, offset, _ in reversed(read)}
        offsets = {at: offset + 1 for at, offset, _ in read}
        self._plain = {}
        if self.chance.random() < PLAIN:
            self._plain, offsets = offsets, first
        group = self.client.coordinator.generation
        self._writer.transactions.send_offsets(self.plan.group, offsets, group)
        self._next_step_at = self.place.clock.now + self.chance.randint(PAUSE_MIN_MS, PAUSE_MAX_MS)
