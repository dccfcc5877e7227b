"""A stream thread: group member, producer, changelog reader, and tasks.

Source: seed 001; `StreamThread`, `TaskManager`, `TaskExecutor`, `StoreChangelogReader` in Kafka;
KIP-129, KIP-447. It does no I/O: the driver calls `work` and drives its `clients`.

    work(now)   polls, creates and closes tasks, restores, processes, and commits when due

    STARTING             not in a group yet
    PARTITIONS_ASSIGNED  committed offsets are unknown or stores are being restored
    RUNNING              all tasks run
    PARTITIONS_REVOKED   commits revoked tasks; joins no rebalance meanwhile
    PENDING_SHUTDOWN     commits, leaves the group, then DEAD

An at-least-once commit waits for all records to be acknowledged and then commits offsets. An
exactly-once commit ends a transaction with the records, the store changes, and the offsets with the
member's generation, so an evicted member cannot commit. The tasks are then closed, as after a
failed transaction: offsets are fetched and stores restored again, because their changes are not in
the log. A store is restored up to the changelog's end, taken when the committed offsets were known
and no transaction was open on them. Committed records of repartition topics are deleted
(`purger.py`).
"""

from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from enum import StrEnum

from brokertwin.clients.client_loop import ClientLoop
from brokertwin.clients.consumer_client import ConsumerClient
from brokertwin.clients.consumer_coordinator import ClientMemberState
from brokertwin.clients.consumer_events import (
    CommitFailed,
    ConsumerFailed,
    OffsetsCommitted,
    PartitionsLost,
    PartitionsRevoked,
)
from brokertwin.clients.messages import ProducerRecord, size_of
from brokertwin.clients.network import Draw
from brokertwin.clients.partitions import TopicPartition
from brokertwin.clients.producer_client import ProducerClient
from brokertwin.clients.producer_events import RecordFailed
from brokertwin.clients.streams.layout import Names, TaskId, source_topics
from brokertwin.clients.streams.purger import Purger
from brokertwin.clients.streams.restorer import Restorer
from brokertwin.clients.streams.streams_assignor import AssignorError, StreamsAssignor
from brokertwin.clients.streams.streams_config import StreamsConfig
from brokertwin.clients.streams.streams_protocol import ACTIVE, HostInfo
from brokertwin.clients.streams.task import StreamTask, TaskOutput, TaskState, TaskStores
from brokertwin.clients.streams.topology import Topology
from brokertwin.clients.transactions import TransactionManagerState
from brokertwin.protocol.bodies import Uuid
from brokertwin.protocol.errors import Error

Apart = Callable[[], AbstractContextManager[None]]
"""Context around processing a record.

Inside it, another thread may drive the consumer.
"""

MIGRATED = frozenset({Error.PRODUCER_FENCED, Error.INVALID_PRODUCER_ID_MAPPING})
"""Errors after which the thread continues with a new producer.

Source: `StreamsProducer`, TaskMigratedException in Kafka.
"""

RECORDS_OF_A_TURN = 200
"""Maximum number of records to process before the clients are driven."""


class ThreadState(StrEnum):
    """By Kafka's names."""

    STARTING = "STARTING"
    PARTITIONS_ASSIGNED = "PARTITIONS_ASSIGNED"
    RUNNING = "RUNNING"
    PARTITIONS_REVOKED = "PARTITIONS_REVOKED"
    PENDING_SHUTDOWN = "PENDING_SHUTDOWN"
    DEAD = "DEAD"


class StreamThread:
    """One stream thread.

    Attributes:
        name: also its transactional id; unique in the application.
        consumer, producer: its clients; a fenced producer is replaced.
        messages: unacknowledged records by id.
        tasks: its active tasks.
        error: why it died, or None.
        is_closing: `close` was called.
        worked: number of processed records.
        restarts: how often its tasks were closed and created again.
    """

    def __init__(
        self,
        config: StreamsConfig,
        topology: Topology,
        process_id: Uuid,
        number: int,
        draw: Draw,
        *,
        end_point: HostInfo | None = None,
        apart: Apart = nullcontext,
    ) -> None:
        self.config = config
        self._apart = apart
        self.name = f"{config.application_id}-{process_id}-{number}"
        self._names = Names(config.application_id)
        self._subs = {sub.number: sub for sub in topology.sub_topologies()}
        self._draw = draw
        self.assignor = StreamsAssignor(
            config.application_id,
            topology,
            process_id,
            user_end_point=end_point,
            num_standby_replicas=config.num_standby_replicas,
            offset_sums=self._offset_sums,
        )
        theirs, own = source_topics(config.application_id, topology)
        self.consumer = ConsumerClient(
            config.consumer(),
            config.fetches(),
            frozenset(theirs | own),
            draw,
            may_create_topics=False,
            assignor=self.assignor,
        )
        self.consumer.coordinator.holds_revoked = True
        self.restorer = Restorer(config.fetches(), draw, self._subs, self._names)
        self._purger = Purger(own, config.repartition_purge_interval_ms, draw)
        self.messages: dict[int, ProducerRecord] = {}
        self.tasks: dict[TaskId, StreamTask] = {}
        self.error: str | None = None
        self.restarts = self.worked = 0
        self._backlog: deque[TaskOutput] = deque()
        self._revoked: set[TopicPartition] = set()
        self._commit_id: int | None = None
        self._offsets: dict[TopicPartition, int] = {}
        self._is_committing = self._is_starting_over = False
        self.is_closing = self._has_left = self._is_dead = False
        self._commit_at = 0
        self.producer = self._new_producer()

    def _new_producer(self) -> ProducerClient:
        self.messages.clear()
        self._backlog.clear()
        producer = ProducerClient(
            self.config.producer(self.name), self._draw, may_create_topics=False
        )
        if producer.transactions is not None:
            producer.transactions.init()
        return producer

    # Driver

    @property
    def clients(self) -> list[ClientLoop]:
        return [*self._needed, self._purger.client]

    @property
    def _needed(self) -> list[ClientLoop]:
        """The clients that it cannot work without."""
        return [self.consumer, self.producer, self.restorer.client]

    @property
    def state(self) -> ThreadState:
        if self._is_dead:
            return ThreadState.DEAD
        if self.is_closing:
            return ThreadState.PENDING_SHUTDOWN
        if self._revoked:
            return ThreadState.PARTITIONS_REVOKED
        if self.assignor.info is None:
            return ThreadState.STARTING
        is_running = all(task.state is TaskState.RUNNING for task in self.tasks.values())
        return ThreadState.RUNNING if is_running else ThreadState.PARTITIONS_ASSIGNED

    def stores_of(self, task_id: TaskId, *, may_be_stale: bool) -> TaskStores | None:
        """The stores of a task; also restoring ones and copies (KIP-535)."""
        task = self.tasks.get(task_id)
        if task is not None and (may_be_stale or task.state is TaskState.RUNNING):
            return task.stores
        return self.restorer.copies.get(task_id) if may_be_stale else None

    @property
    def running(self) -> list[TaskId]:
        return sorted(t for t, task in self.tasks.items() if task.state is TaskState.RUNNING)

    def close(self) -> None:
        """Commit and leave the group; `state` becomes DEAD."""
        self.is_closing = True

    def work(self, now: int) -> bool:
        """Do one round of work; returns whether there is more."""
        if self._is_dead:
            return False
        self._poll(now)
        self._drain_producer()
        if self._is_starting_over:
            self._start_over()
        else:
            self._take_over()
        self._restore()
        self._go_on_committing(now)
        self._purger.work(now)
        if not self._is_committing and not self._is_starting_over:
            self._write(now)
            self._process(now)
            self._begin_to_commit(now)
        self._hold_back()
        self._leave(now)
        return self._has_work

    @property
    def _has_work(self) -> bool:
        is_free = not self._is_committing and not self._is_starting_over and not self._backlog
        running = (task for task in self.tasks.values() if task.state is TaskState.RUNNING)
        return is_free and any(task.queued for task in running)

    # Membership

    def _poll(self, now: int) -> None:
        self._queue(self.consumer.poll(now))
        for event in self.consumer.events():
            match event:
                case PartitionsRevoked(partitions):
                    self._revoked.update(partitions)
                case PartitionsLost():
                    self._revoked.clear()
                    self._give_up()
                case OffsetsCommitted(commit_id) | CommitFailed(commit_id):
                    if commit_id == self._commit_id:
                        self._committed(is_stored=isinstance(event, OffsetsCommitted))
                case ConsumerFailed(error):
                    self._die(error.name)
        unsupported = [each.unsupported for each in self._needed if each.unsupported is not None]
        if unsupported:
            self._die(f"the broker supports no known version of {unsupported[0]}")
        info = self.assignor.info
        if info is not None and info.error_code != AssignorError.NONE:
            self._die(self.assignor.error or AssignorError(info.error_code).name)

    def _queue(self, read: list[tuple[TopicPartition, int, ProducerRecord]]) -> None:
        """Queue records at tasks; seeks back for records without a task."""
        back: dict[TopicPartition, int] = {}
        for at, offset, message in read:
            task = next((t for t in self.tasks.values() if at in t.partitions), None)
            if task is not None:
                task.add(at, offset, message)
            else:
                back.setdefault(at, offset)
        for at, offset in back.items():
            self.consumer.subscription.seek(at, offset)

    def _die(self, why: str) -> None:
        self.error = self.error or why
        self._is_dead = True

    def _take_over(self) -> None:
        """Create new tasks, and close removed ones after their commit."""
        self._let_go()
        positions = self.consumer.subscription.positions
        for task_id, at in self.assignor.tasks.items():
            if task_id not in self.tasks and all(each in positions for each in at):
                sub = self._subs[task_id.sub_topology]
                stores = self.restorer.promote(task_id)
                self.tasks[task_id] = StreamTask(task_id, at, sub, self._names, stores)
        info = self.assignor.info
        standby = info.standby.keys() - self.tasks.keys() if info is not None else set()
        self.restorer.copy(standby)

    def _let_go(self) -> None:
        """Close tasks whose partitions are revoked and committed."""
        positions = self.consumer.subscription.positions
        for task in list(self.tasks.values()):
            is_revoked = not any(at in positions for at in task.partitions)
            if is_revoked and not self._revoked.intersection(task.partitions):
                self.restorer.forget(task.id)
                del self.tasks[task.id]

    def _offset_sums(self) -> dict[TaskId, int]:
        return {**self.restorer.offset_sums(), **dict.fromkeys(self.tasks, ACTIVE)}

    # Restoring

    def _restore(self) -> None:
        subscription = self.consumer.subscription
        for task in self.tasks.values():
            known = [
                subscription.positions.get(at) is not None or at in subscription.without_offset
                for at in task.partitions
            ]
            if task.state is TaskState.CREATED and all(known):
                task.state = TaskState.RESTORING
                self.restorer.begin(task.id, task.stores)
            if task.state is TaskState.RESTORING and self.restorer.is_whole(task.id):
                task.state = TaskState.RUNNING
                self.restorer.end(task.id)
        self.restorer.work()

    def _hold_back(self) -> None:
        """Pause partitions of tasks that do not run or have long queues."""
        most = self.config.buffered_records_per_partition
        read = {
            at
            for task in self.tasks.values()
            for at in task.partitions
            if task.state is TaskState.RUNNING and task.queued_of(at) <= most
        }
        self.consumer.subscription.paused = self.consumer.subscription.positions.keys() - read

    # Processing

    def _process(self, now: int) -> None:
        left = 0 if self.is_closing else RECORDS_OF_A_TURN
        while left and not self._backlog and self._may_work:
            waiting = [t for t in self.tasks.values() if t.queued and self._runs(t)]
            if not waiting:
                return
            for task in waiting[:left]:
                self._begin_transaction()
                with self._apart():
                    made = task.process()
                self._backlog.extend(made)
                self.worked += 1
                self._write(now)
                left -= 1

    def _runs(self, task: StreamTask) -> bool:
        return task.state is TaskState.RUNNING and not self._revoked.intersection(task.partitions)

    @property
    def _may_work(self) -> bool:
        transactions = self.producer.transactions
        ready = (TransactionManagerState.READY, TransactionManagerState.IN_TRANSACTION)
        return transactions is None or transactions.state in ready

    def _begin_transaction(self) -> None:
        transactions = self.producer.transactions
        if transactions is not None and transactions.state is TransactionManagerState.READY:
            transactions.begin()

    def _write(self, now: int) -> None:
        """Pass records to the producer as far as it has room."""
        while self._backlog:
            topic, partition, message = self._backlog[0]
            record_id = self.producer.offer(
                now,
                topic,
                message.key,
                size_of(message),
                partition=partition,
                timestamp=max(message.timestamp, 0),
            )
            if record_id is None:
                return
            self.messages[record_id] = message
            self._backlog.popleft()

    def _drain_producer(self) -> None:
        failed = None
        for event in self.producer.events():
            self.messages.pop(event.record_id, None)
            failed = event if isinstance(event, RecordFailed) else failed
        transactions = self.producer.transactions
        ended = (TransactionManagerState.ABORTABLE_ERROR, TransactionManagerState.FATAL_ERROR)
        has_failed = transactions is not None and transactions.state in ended
        if (failed is not None or has_failed) and not self._is_starting_over:
            self._give_up()

    # Committing

    def _begin_to_commit(self, now: int) -> None:
        is_due = now >= self._commit_at or self._revoked or self.is_closing
        is_member = self.consumer.coordinator.state is ClientMemberState.STABLE
        if not is_member and self._revoked:
            self._committed(is_stored=False)
        if not is_due or self._backlog or not (is_member and self._may_work):
            return
        self._commit_at = now + self.config.commit_ms
        if not any(task.processed for task in self.tasks.values()):
            self._committed(is_stored=True)
            return
        self._is_committing = self.consumer.coordinator.is_held = True
        self._begin_transaction()
        transactions = self.producer.transactions
        if transactions is None:
            self.producer.producer.flush()
            return
        group, generation = self.config.application_id, self.consumer.coordinator.generation
        self._offsets = self._committable()
        transactions.send_offsets(group, self._offsets, generation)
        transactions.commit()

    def _committable(self) -> dict[TopicPartition, int]:
        positions = self.consumer.subscription.positions
        running = (task for task in self.tasks.values() if task.state is TaskState.RUNNING)
        return {at: end for task in running for at, end in task.committable(positions).items()}

    def _go_on_committing(self, now: int) -> None:
        if not self._is_committing or self._commit_id is not None:
            return
        transactions = self.producer.transactions
        if transactions is not None:
            if transactions.state is TransactionManagerState.READY:
                self._committed(is_stored=True)
        elif self.producer.producer.is_idle:
            self.producer.producer.linger()
            self._offsets = self._committable()
            self._commit_id = self.consumer.coordinator.commit(now, self._offsets, is_sync=True)

    def _committed(self, *, is_stored: bool) -> None:
        """Finish a commit, even if it failed.

        Revoked tasks are closed at once: their queued records belong to the new owner.
        """
        if is_stored:
            self._purger.committed(self._offsets)
            for task in self.tasks.values():
                task.processed = 0
        self._end_commit()
        self._let_go()

    def _end_commit(self) -> None:
        self._is_committing = False
        self._commit_id = None
        self._offsets = {}
        self._revoked.clear()
        self.consumer.coordinator.is_held = False

    # Starting over

    def _give_up(self) -> None:
        """Close tasks and restart from the last commit."""
        self.restarts += 1
        self._is_starting_over = True
        self._end_commit()
        self._backlog.clear()
        for task in self.tasks.values():
            self.restorer.forget(task.id)
        self.tasks.clear()
        self.consumer.subscription.forget_positions()
        self._start_over()

    def _start_over(self) -> None:
        """Abort the open transaction; done when the producer can start again."""
        transactions = self.producer.transactions
        if transactions is None:
            if self.producer.producer.is_idle:
                self._is_starting_over = False
            return
        match transactions.state:
            case TransactionManagerState.IN_TRANSACTION | TransactionManagerState.ABORTABLE_ERROR:
                transactions.abort()
            case TransactionManagerState.FATAL_ERROR if transactions.error in MIGRATED:
                self.producer = self._new_producer()
            case TransactionManagerState.FATAL_ERROR:
                self._die(transactions.error.name)
            case TransactionManagerState.READY:
                self._is_starting_over = False

    # Closing

    def _leave(self, now: int) -> None:
        if not self.is_closing or self._is_committing:
            return
        if not self._has_left and not any(task.processed for task in self.tasks.values()):
            self._has_left = True
            self.consumer.close(now)
        elif self._has_left and all(client.is_quiet for client in self._needed):
            self.tasks.clear()
            self._is_dead = True
