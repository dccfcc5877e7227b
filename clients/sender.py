"""What a producer sends, and what the answers mean for its batches.

Source: seed 002; KIP-91, KIP-951, KIP-98; `Sender` in Kafka. One pass: give up what is too old,
resolve sequences, bump the epoch, ask for a producer id, then take from the queues what the nodes
will have. Passes follow one another until one sends nothing.

    answer for a batch                              what becomes of it
    none                                            acknowledged at the answer's base offset
    46 DUPLICATE_SEQUENCE_NUMBER                    acknowledged, offset unknown
    10 MESSAGE_TOO_LARGE, several records           split, without using up an attempt
    to be retried (`transaction_manager.py`), and   put back in sequence order
      time and retries are left
    anything else                                   failed; a gap is closed by an epoch bump
    no answer: connection closed, request timeout   as a retriable error; its outcome is unknown
"""

import msgspec

from brokertwin.clients.accumulator import Accumulator
from brokertwin.clients.backoff import retry_backoff
from brokertwin.clients.in_flight_requests import InFlightRequests, Jitter, Requests
from brokertwin.clients.metadata_snapshot import MetadataSnapshot
from brokertwin.clients.node_latencies import NodeLatencies
from brokertwin.clients.partitions import TopicPartition
from brokertwin.clients.producer_batch import (
    NO_ID,
    IdAndEpoch,
    ProducerBatch,
    split,
)
from brokertwin.clients.producer_config import ProducerConfig
from brokertwin.clients.producer_events import (
    Acked,
    ConnectionStalled,
    Event,
    Failed,
    MetadataWanted,
)
from brokertwin.clients.transaction_manager import (
    Input,
    Retry,
    State,
    TransactionalManager,
    TransactionManager,
)
from brokertwin.clients.transactions import Transactions
from brokertwin.state.apis.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from brokertwin.state.cluster.image import LeaderIdAndEpoch
from brokertwin.state.core.errors import RETRIABLE, Error, error_of
from brokertwin.state.core.schema import ZERO_UUID
from brokertwin.state.replication.produce_bodies import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)

TRANSACTION_TIMEOUT_NONE = 2**31 - 1
"""What an InitProducerId without a transactional id carries as its timeout (ms)."""

MAY_BE_WRITTEN = frozenset(
    {
        Error.UNKNOWN_SERVER_ERROR,
        Error.REQUEST_TIMED_OUT,
        Error.NETWORK_EXCEPTION,
        Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        Error.KAFKA_STORAGE_ERROR,
    }
)
"""Errors that do not rule out that the batch is in the log."""

METADATA_IS_STALE = frozenset(
    {
        Error.UNKNOWN_TOPIC_OR_PARTITION,
        Error.LEADER_NOT_AVAILABLE,
        Error.NOT_LEADER_OR_FOLLOWER,
        Error.NETWORK_EXCEPTION,
        Error.KAFKA_STORAGE_ERROR,
        Error.FENCED_LEADER_EPOCH,
        Error.UNKNOWN_TOPIC_ID,
        Error.INCONSISTENT_TOPIC_ID,
    }
)
"""Errors after which a client asks for metadata (`InvalidMetadataException`)."""

NO_ANSWER = PartitionProduceResponse(index=-1, error_code=Error.NETWORK_EXCEPTION)


class Outgoing(msgspec.Struct):
    """A request for the caller to send to `node`, in a version that both sides know.

    `body` names the batches by their headers; the caller adds the bytes of `batches`, which are in
    the same order. Where `wants_answer` is False (acks 0), none is to be handed back.
    """

    request_id: int
    node: int
    body: ProduceRequest | InitProducerIdRequest
    batches: list[ProducerBatch]
    wants_answer: bool = True


class _UnderWay(msgspec.Struct):
    outgoing: Outgoing
    sent: int


class Sender:
    """The batches of one producer on their way. Times are ms on the caller's clock.

    Attributes:
        accumulator: the batches that wait.
        latencies: how long brokers keep batches waiting.
        manager: ids and sequences; None without idempotence.
        transactions: of a transactional producer.
        events: what the caller is to be told, in order; it takes them out.
        buffered_bytes: what the batches under way or waiting take of `buffer.memory`.
    """

    def __init__(
        self, config: ProducerConfig, jitter: Jitter, requests: Requests | None = None
    ) -> None:
        self.accumulator = Accumulator(config, jitter)
        self.latencies = NodeLatencies(config.partitioner_availability_timeout_ms)
        self.manager: TransactionManager | None = None
        self.transactions: Transactions | None = None
        if config.transactional_id is not None:
            self.transactions = Transactions(
                config.transactional_id,
                config.transaction_timeout_ms,
                retry_backoff(config.retry_backoff_ms, config.retry_backoff_max_ms),
            )
            self.manager = TransactionalManager(NO_ID)
        elif config.is_idempotent:
            self.manager = TransactionManager(
                config.rewrites_unanswered, config.reset_pid_on_unresolved
            )
        self.events: list[Event] = []
        self._config = config
        self._jitter = jitter
        self._retry = retry_backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        reconnect = retry_backoff(config.reconnect_backoff_ms, config.reconnect_backoff_max_ms)
        self._requests = requests or InFlightRequests(
            config.max_in_flight_requests_per_connection, reconnect, jitter
        )
        self._cluster = MetadataSnapshot()
        self._under_way: dict[int, _UnderWay] = {}
        self._incomplete: dict[ProducerBatch, int] = {}
        self.buffered_bytes = 0
        self._is_metadata_wanted = False

    @property
    def is_idle(self) -> bool:
        """Whether every record that was added is acknowledged or failed."""
        return not self._incomplete

    @property
    def fatal_error(self) -> Error:
        """Why nothing is sent any more; NONE while things are sent."""
        if self.transactions is not None and self.transactions.is_over:
            return self.transactions.error
        manager = self.manager
        if manager is None or manager.state is not State.FATAL_ERROR:
            return Error.NONE
        return manager.error

    def update_metadata(self, cluster: MetadataSnapshot) -> None:
        """Takes over what the caller has learnt of the cluster."""
        self._cluster = cluster
        self._requests.set_nodes(list(cluster.nodes))
        self._is_metadata_wanted = False

    def added(self, batch: ProducerBatch) -> None:
        """A record was added to a batch of the accumulator."""
        if batch not in self._incomplete:
            self._take(batch, max(self._config.batch_size, batch.size_in_bytes))

    def _take(self, batch: ProducerBatch, size: int) -> None:
        self._incomplete[batch] = size
        self.buffered_bytes += size

    def deadlines(self, now: int) -> list[int]:
        """When something may have to be done."""
        config = self._config
        times = [r.sent + config.request_timeout_ms for r in self._under_way.values()]
        times += [batch.created + config.delivery_ms for batch in self._incomplete]
        if self.manager is not None:
            times.append(self.manager.retry_at)
        if self.transactions is not None:
            times.append(self.transactions.retry_at)
        return [*times, *self.accumulator.deadlines(), *self._requests.deadlines(now)]

    # One pass

    def send_pass(self, now: int) -> list[Outgoing]:
        """The requests of one pass."""
        self._give_up_old(now)
        sent = []
        if self.transactions is not None:
            self._follow(self.transactions)
        if self.manager is not None:
            sent = self._prepare_id(self.manager, now)
        ready = self.accumulator.ready(now, self._cluster)
        if ready.leaderless:
            self._want_metadata(ready.leaderless)
        for node in ready.nodes:
            takes = self._requests.may_send(node, now)
            self.latencies.looked(node, now, takes=takes)
            if takes:
                sent += self._drain(now, node)
        return sent

    def _follow(self, transactions: Transactions) -> None:
        """Has the transaction's id, gives up what an abort gives up, and tells what went wrong."""
        manager = self.manager
        assert isinstance(manager, TransactionalManager), "a transactional producer"
        if transactions.id_and_epoch != manager.id_and_epoch:
            self.manager = manager = TransactionalManager(transactions.id_and_epoch)
        self.accumulator.is_committing = transactions.is_committing
        if manager.is_in_doubt:
            transactions.doubt_sequences()
        if transactions.is_aborting or transactions.is_over:
            for batch in [each for each in self._incomplete if not each.is_on_wire]:
                self.accumulator.remove(batch)
                manager.given_up(batch)
                if batch.has_sequence:
                    transactions.doubt_sequences()
                self._finish(batch, transactions.error or Error.OPERATION_NOT_ATTEMPTED)

    def _prepare_id(self, manager: TransactionManager, now: int) -> list[Outgoing]:
        manager.resolve()
        if manager.state is State.FATAL_ERROR:
            self._abort_all(manager.error)
            return []
        if manager.state is State.ABORTABLE_ERROR:
            self._abort_all(manager.error)
            manager.move(Input.BATCHES_ABORTED)
        for batch in manager.bump():
            self.accumulator.remove(batch)
            self._finish(batch, Error.OUT_OF_ORDER_SEQUENCE_NUMBER)
        if not manager.wants_id(now):
            return []
        node = self._requests.least_loaded(now)
        if node is None:
            if not self._cluster.nodes:
                self._want_metadata([])
            return []
        manager.move(Input.ASKED)
        body = InitProducerIdRequest(
            transactional_id=None, transaction_timeout_ms=TRANSACTION_TIMEOUT_NONE
        )
        return [self._send(now, node, body, [])]

    def _drain(self, now: int, node: int) -> list[Outgoing]:
        batches = self.accumulator.drain(now, node, self._cluster, self._may_drain)
        if not batches:
            return []
        for batch in batches:
            if self.manager is not None:
                self.manager.drained(batch)
            batch.is_closed = batch.is_on_wire = True
            batch.is_transactional = self.transactions is not None
        outgoing = self._send(now, node, self._produce_request(batches), batches)
        if not outgoing.wants_answer:
            for batch in batches:
                self._settle(
                    now, batch, PartitionProduceResponse(index=batch.topic_partition.partition)
                )
        return [outgoing]

    def _may_drain(self, batch: ProducerBatch) -> bool:
        transactions = self.transactions
        if transactions is not None and not transactions.may_write(batch.topic_partition):
            return False
        return self.manager is None or self.manager.may_drain(batch)

    def _produce_request(self, batches: list[ProducerBatch]) -> ProduceRequest:
        topics: dict[str, TopicProduceData] = {}
        for batch in batches:
            name, index = batch.topic_partition
            topic = TopicProduceData(
                name=name, topic_id=self._cluster.topic_ids.get(name, ZERO_UUID)
            )
            topics.setdefault(name, topic).partition_data.append(
                PartitionProduceData(index=index, batches=[batch.header()])
            )
        return ProduceRequest(
            transactional_id=self._config.transactional_id,
            acks=self._config.acks_code,
            timeout_ms=self._config.request_timeout_ms,
            topic_data=list(topics.values()),
        )

    def _send(
        self,
        now: int,
        node: int,
        body: ProduceRequest | InitProducerIdRequest,
        batches: list[ProducerBatch],
    ) -> Outgoing:
        wants_answer = not batches or self._config.acks_code != 0
        outgoing = Outgoing(self._requests.next_id(), node, body, batches, wants_answer)
        if wants_answer:
            self._requests.sent(node, outgoing.request_id, now)
            self._under_way[outgoing.request_id] = _UnderWay(outgoing, now)
        return outgoing

    # Answers

    def answered(
        self, now: int, request_id: int, response: ProduceResponse | InitProducerIdResponse | Error
    ) -> None:
        """The answer to a request; one that is not under way (any more) changes nothing."""
        request = self._under_way.pop(request_id, None)
        if request is None:
            return
        self._requests.answered(request.outgoing.node, request_id)
        if isinstance(response, InitProducerIdResponse):
            id_and_epoch = IdAndEpoch(response.producer_id, response.producer_epoch)
            self._init_answered(now, error_of(response.error_code), id_and_epoch)
        elif isinstance(response, ProduceResponse):
            self._produce_answered(now, request.outgoing.batches, response)
        else:
            self._unanswered(now, request.outgoing, response)

    def _init_answered(self, now: int, error: Error, id_and_epoch: IdAndEpoch) -> None:
        manager = self.manager
        assert manager is not None, "InitProducerId is sent by an idempotent producer"
        retry_at = now + self._retry.backoff(manager.failed_attempts, self._jitter())
        manager.init_answered(error, id_and_epoch, retry_at)

    def _produce_answered(
        self, now: int, batches: list[ProducerBatch], response: ProduceResponse
    ) -> None:
        names = {topic_id: name for name, topic_id in self._cluster.topic_ids.items()}
        answers: dict[TopicPartition, PartitionProduceResponse] = {}
        for topic in response.responses:
            name = topic.name or names.get(topic.topic_id or ZERO_UUID, "")
            for answer in topic.partition_responses:
                answers[TopicPartition(name, answer.index)] = answer
        for batch in batches:
            answer = answers.get(batch.topic_partition, NO_ANSWER)
            if answer.current_leader:
                self._move_leader(batch.topic_partition, answer.current_leader)
            self._settle(now, batch, answer)

    def _move_leader(self, partition: TopicPartition, leader: LeaderIdAndEpoch) -> None:
        """Takes over the leader that an answer names, if it is newer than the known one."""
        known = self._cluster.partitions.get(partition)
        if known is None or leader.leader_epoch <= (known.leader_epoch or 0):
            return
        moved = msgspec.structs.replace(
            known, leader_id=leader.leader_id, leader_epoch=leader.leader_epoch
        )
        self._cluster = self._cluster.with_leaders({partition: moved}, self._cluster.nodes)

    def disconnected(self, now: int, node: int) -> None:
        """The connection to a node is closed: what was under way gets no answer."""
        for request_id in self._requests.disconnected(node, now):
            outgoing = self._under_way.pop(request_id).outgoing
            self._unanswered(now, outgoing, Error.NETWORK_EXCEPTION)

    def close_stalled(self, now: int) -> None:
        """Gives up connections with a request older than `request.timeout.ms`."""
        limit = now - self._config.request_timeout_ms
        stalled = {r.outgoing.node: None for r in self._under_way.values() if r.sent <= limit}
        for node in stalled:
            self.events.append(ConnectionStalled(node))
            self.disconnected(now, node)

    def _unanswered(self, now: int, outgoing: Outgoing, error: Error) -> None:
        if not outgoing.batches:
            self._init_answered(now, error, NO_ID)
        for batch in outgoing.batches:
            index = batch.topic_partition.partition
            self._settle(now, batch, PartitionProduceResponse(index=index, error_code=error))

    # Batches

    def _settle(self, now: int, batch: ProducerBatch, answer: PartitionProduceResponse) -> None:
        """What an answer means for a batch; the table in this file's header."""
        batch.is_on_wire = False
        self.accumulator.unmute(batch.topic_partition)
        error = error_of(answer.error_code)
        batch.is_outcome_unknown = batch.is_outcome_unknown or error in MAY_BE_WRITTEN
        if error in {Error.NONE, Error.DUPLICATE_SEQUENCE_NUMBER}:
            self._complete(batch, answer.base_offset)
        elif not batch.is_done:
            self._refused(now, batch, error, answer.log_start_offset)
        if error in METADATA_IS_STALE:
            self._want_metadata([batch.topic_partition.topic])

    def _complete(self, batch: ProducerBatch, base_offset: int) -> None:
        if self.manager is not None:
            self.manager.completed(batch, base_offset)
        self._finish(batch, Error.NONE, base_offset)

    def _refused(self, now: int, batch: ProducerBatch, error: Error, log_start_offset: int) -> None:
        if error is Error.MESSAGE_TOO_LARGE and len(batch.records) > 1:
            self._split(batch)
            return
        has_retries = batch.attempts < self._config.retries
        has_time = now - batch.created < self._config.delivery_ms
        if has_time and has_retries and self._is_retried(batch, error, log_start_offset):
            self.accumulator.put_back(now, batch)
        else:
            is_refused = has_retries and error not in MAY_BE_WRITTEN
            self._fail(batch, error, is_given_up=not is_refused)

    def _is_retried(self, batch: ProducerBatch, error: Error, log_start_offset: int) -> bool:
        if self.manager is None:
            return error in RETRIABLE
        return self.manager.decide(batch, error, log_start_offset) is not Retry.FAIL

    def _split(self, batch: ProducerBatch) -> None:
        parts = split(batch, self._config.batch_size)
        if self.manager is not None:
            self.manager.sequences(batch.topic_partition).replace(batch, parts)
        self.buffered_bytes -= self._incomplete.pop(batch)
        batch.is_done = True
        for part in reversed(parts):
            self.accumulator.insert(part)
        for part in parts:
            self._take(part, part.size_in_bytes)

    def _give_up_old(self, now: int) -> None:
        limit = now - self._config.delivery_ms
        for batch in [b for b in self._incomplete if b.created <= limit]:
            self.accumulator.remove(batch)
            self._fail(batch, Error.REQUEST_TIMED_OUT, is_given_up=True)

    def _fail(self, batch: ProducerBatch, error: Error, is_given_up: bool) -> None:
        if self.manager is not None:
            self.manager.failed(batch, error, is_given_up)
        self._finish(batch, error)

    def _abort_all(self, error: Error) -> None:
        for batch in list(self._incomplete):
            self.accumulator.remove(batch)
            if self.manager is not None:
                self.manager.given_up(batch)
            self._finish(batch, error)

    def _finish(self, batch: ProducerBatch, error: Error, base_offset: int = -1) -> None:
        """Tells what became of a batch's records, once."""
        if batch.is_done:
            return
        batch.is_done = True
        self.buffered_bytes -= self._incomplete.pop(batch)
        if error is not Error.NONE and self.transactions is not None:
            self.transactions.batch_failed(error)
        may_be_written = batch.is_outcome_unknown or batch.is_on_wire
        for index, record in enumerate(batch.records):
            if error is not Error.NONE:
                failed = Failed(record.id, batch.topic_partition, error, may_be_written)
                self.events.append(failed)
            else:
                offset = base_offset + index if base_offset >= 0 else -1
                self.events.append(Acked(record.id, batch.topic_partition, offset))

    def _want_metadata(self, topics: list[str]) -> None:
        if not self._is_metadata_wanted:
            self._is_metadata_wanted = True
            self.events.append(MetadataWanted(topics))
