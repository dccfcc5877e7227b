"""Sends batches and handles their responses.

Source: seed 002; KIP-91, KIP-951, KIP-98; `Sender` in Kafka. One pass fails expired batches,
resolves sequences, bumps the epoch, requests a producer id, and drains the queues. Passes repeat
until one sends nothing.

    error of a batch                                effect
    none                                            acknowledged at the response's base offset
    46 DUPLICATE_SEQUENCE_NUMBER                    acknowledged, offset unknown
    10 MESSAGE_TOO_LARGE, several records           split, without using up an attempt
    retriable (`transaction_manager.py`), and       put back in sequence order
    time and retries are left
    any other                                       failed; an epoch bump closes the gap
    connection closed, request timeout              as a retriable error; outcome unknown
"""

from typing import Protocol

import msgspec

from brokertwin.clients.accumulator import Accumulator
from brokertwin.clients.backoff import retry_backoff
from brokertwin.clients.metadata_snapshot import MetadataSnapshot
from brokertwin.clients.network import Draw
from brokertwin.clients.node_latencies import NodeLatencies
from brokertwin.clients.partitions import TopicPartition
from brokertwin.clients.producer_batch import NO_ID, IdAndEpoch, ProducerBatch, split
from brokertwin.clients.producer_config import ProducerConfig
from brokertwin.clients.producer_events import (
    ConnectionStalled,
    Event,
    MetadataWanted,
    RecordAcked,
    RecordFailed,
)
from brokertwin.clients.producer_id_reset import ResettingManager
from brokertwin.clients.transaction_manager import (
    IdState,
    ProducerInput,
    Retry,
    TransactionalManager,
    TransactionManager,
)
from brokertwin.clients.transactions import ProducerTransactions
from brokertwin.protocol.bodies import ZERO_UUID
from brokertwin.protocol.errors import RETRIABLE, Error, error_of
from brokertwin.protocol.generated.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from brokertwin.protocol.generated.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from brokertwin.protocol.generated.shared import LeaderIdAndEpoch

TRANSACTION_TIMEOUT_NONE = 2**31 - 1
"""Timeout in an InitProducerId without a transactional id (ms)."""

MAY_BE_WRITTEN = frozenset(
    {
        Error.UNKNOWN_SERVER_ERROR,
        Error.REQUEST_TIMED_OUT,
        Error.NETWORK_EXCEPTION,
        Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        Error.KAFKA_STORAGE_ERROR,
    }
)
"""Errors after which the batch may be in the log."""

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
"""Errors that request a metadata update (`InvalidMetadataException`)."""

NO_RESPONSE = PartitionProduceResponse(index=-1, error_code=Error.NETWORK_EXCEPTION)


class SenderRequest(msgspec.Struct):
    """A request for the caller to send to `node`.

    `body` has the batch headers. The caller adds the bytes of `batches`, in the same order. With
    acks 0, `expects_response` is False and no response is passed back.
    """

    request_id: int
    node: int
    body: ProduceRequest | InitProducerIdRequest
    batches: list[ProducerBatch]
    expects_response: bool = True


class NodeRequests(Protocol):
    """Connections to the nodes, as a sender needs them (see `clients/producer_client.py`)."""

    def next_id(self) -> int:
        """Return the id of the next request."""

    def may_send(self, node: int, now: int) -> bool:
        """Whether a node accepts another request."""

    def least_loaded(self, now: int) -> int | None:
        """The least loaded node; None if no node accepts a request."""

    def sent(self, node: int, request_id: int, now: int) -> None:
        """Track a request."""

    def on_response(self, node: int, request_id: int) -> None:
        """Mark a request as done."""

    def disconnected(self, node: int, now: int) -> list[int]:
        """Handle a closed connection; returns its requests."""

    def deadlines(self, now: int) -> list[int]:
        """Return when refusing nodes may accept requests again."""


class _SentRequest(msgspec.Struct):
    outgoing: SenderRequest
    sent: int


class Sender:
    """The batches of one producer. Times are ms on the caller's clock.

    Attributes:
        config: the checked settings.
        accumulator: queued batches.
        latencies: how long brokers keep batches waiting.
        manager: id and sequences; None without idempotence.
        buffered_bytes: part of `buffer.memory` in use.
    """

    def __init__(self, config: ProducerConfig, draw: Draw, requests: NodeRequests) -> None:
        self.config = config
        self.accumulator = Accumulator(config, draw)
        self.latencies = NodeLatencies(config.partitioner_availability_timeout_ms)
        self.manager: TransactionManager | None = None
        self.transactions: ProducerTransactions | None = None
        if config.transactional_id is not None:
            self.transactions = ProducerTransactions(
                config.transactional_id,
                config.transaction_timeout_ms,
                retry_backoff(config.retry_backoff_ms, config.retry_backoff_max_ms),
            )
            self.manager = TransactionalManager(NO_ID)
        elif config.is_idempotent:
            resets = config.reset_pid_on_unresolved
            self.manager = (
                ResettingManager() if resets else TransactionManager(config.rewrites_unacknowledged)
            )
        self._events: list[Event] = []
        self._draw = draw
        self._retry = retry_backoff(config.retry_backoff_ms, config.retry_backoff_max_ms)
        self._requests = requests
        self._cluster = MetadataSnapshot()
        self._in_flight: dict[int, _SentRequest] = {}
        self._incomplete: dict[ProducerBatch, int] = {}
        self.buffered_bytes = 0
        self._is_metadata_requested = False

    @property
    def is_idle(self) -> bool:
        """Whether every added record is acknowledged or failed."""
        return not self._incomplete

    @property
    def unfinished(self) -> int:
        """Number of batches that are neither acknowledged nor failed."""
        return len(self._incomplete)

    @property
    def fatal_error(self) -> Error:
        """The error that stopped the producer; NONE while it works."""
        if self.transactions is not None and self.transactions.is_over:
            return self.transactions.error
        manager = self.manager
        if manager is None or manager.state is not IdState.FATAL_ERROR:
            return Error.NONE
        return manager.error

    def update_metadata(self, cluster: MetadataSnapshot) -> None:
        self._cluster = cluster
        self._is_metadata_requested = False

    def added(self, batch: ProducerBatch) -> None:
        if batch not in self._incomplete:
            self._take(batch, max(self.config.batch_size, batch.size_in_bytes))

    def _take(self, batch: ProducerBatch, size: int) -> None:
        self._incomplete[batch] = size
        self.buffered_bytes += size

    def deadlines(self, now: int) -> list[int]:
        """Return when something may have to be done."""
        config = self.config
        times = [r.sent + config.request_timeout_ms for r in self._in_flight.values()]
        times += [batch.created + config.delivery_ms for batch in self._incomplete]
        if self.manager is not None:
            times.append(self.manager.retry_at)
        if self.transactions is not None:
            times.append(self.transactions.retry_at)
        return [*times, *self.batch_deadlines(now)]

    def batch_deadlines(self, now: int) -> list[int]:
        """Return when a queued batch may become sendable."""
        return [*self.accumulator.deadlines(), *self._requests.deadlines(now)]

    # One pass

    def send_pass(self, now: int) -> list[SenderRequest]:
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

    def _follow(self, transactions: ProducerTransactions) -> None:
        """Follow the transaction: id, lingering, aborts and fatal errors."""
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

    def _prepare_id(self, manager: TransactionManager, now: int) -> list[SenderRequest]:
        manager.resolve()
        if manager.state is IdState.FATAL_ERROR:
            self._abort_all(manager.error)
            return []
        if manager.state is IdState.ABORTABLE_ERROR:
            self._abort_all(manager.error)
            manager.move(ProducerInput.BATCHES_ABORTED)
        for batch in manager.bump():
            self.accumulator.remove(batch)
            self._finish(batch, Error.OUT_OF_ORDER_SEQUENCE_NUMBER)
        if not manager.needs_id(now):
            return []
        node = self._requests.least_loaded(now)
        if node is None:
            if not self._cluster.nodes:
                self._want_metadata([])
            return []
        manager.move(ProducerInput.REQUESTED)
        body = InitProducerIdRequest(
            transactional_id=None, transaction_timeout_ms=TRANSACTION_TIMEOUT_NONE
        )
        return [self._send(now, node, body, [])]

    def _drain(self, now: int, node: int) -> list[SenderRequest]:
        batches = self.accumulator.drain(now, node, self._cluster, self._may_drain)
        if not batches:
            return []
        for batch in batches:
            if self.manager is not None:
                self.manager.drained(batch)
            batch.is_closed = batch.is_on_wire = True
            batch.is_transactional = self.transactions is not None
        outgoing = self._send(now, node, self._produce_request(batches), batches)
        if not outgoing.expects_response:
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
            transactional_id=self.config.transactional_id,
            acks=self.config.acks_code,
            timeout_ms=self.config.request_timeout_ms,
            topic_data=list(topics.values()),
        )

    def _send(
        self,
        now: int,
        node: int,
        body: ProduceRequest | InitProducerIdRequest,
        batches: list[ProducerBatch],
    ) -> SenderRequest:
        expects_response = not batches or self.config.acks_code != 0
        outgoing = SenderRequest(self._requests.next_id(), node, body, batches, expects_response)
        if expects_response:
            self._requests.sent(node, outgoing.request_id, now)
            self._in_flight[outgoing.request_id] = _SentRequest(outgoing, now)
        return outgoing

    # Responses

    def on_response(
        self, now: int, request_id: int, response: ProduceResponse | InitProducerIdResponse | Error
    ) -> None:
        """Handle a response; ignored if the request is not in flight."""
        request = self._in_flight.pop(request_id, None)
        if request is None:
            return
        self._requests.on_response(request.outgoing.node, request_id)
        if isinstance(response, InitProducerIdResponse):
            id_and_epoch = IdAndEpoch(response.producer_id, response.producer_epoch)
            self._on_init_response(now, error_of(response.error_code), id_and_epoch)
        elif isinstance(response, ProduceResponse):
            self._on_produce_response(now, request.outgoing.batches, response)
        else:
            self._on_no_response(now, request.outgoing, response)

    def _on_init_response(self, now: int, error: Error, id_and_epoch: IdAndEpoch) -> None:
        manager = self.manager
        assert manager is not None, "InitProducerId is sent by an idempotent producer"
        retry_at = now + self._retry.backoff(manager.failed_attempts, self._draw())
        manager.on_init_response(error, id_and_epoch, retry_at)
        if self.config.requests_metadata_for_id and manager.state is IdState.UNINITIALIZED:
            self._want_metadata([])

    def _on_produce_response(
        self, now: int, batches: list[ProducerBatch], response: ProduceResponse
    ) -> None:
        names = {topic_id: name for name, topic_id in self._cluster.topic_ids.items()}
        results: dict[TopicPartition, PartitionProduceResponse] = {}
        for topic in response.responses:
            name = topic.name or names.get(topic.topic_id or ZERO_UUID, "")
            for result in topic.partition_responses:
                results[TopicPartition(name, result.index)] = result
        for batch in batches:
            result = results.get(batch.topic_partition, NO_RESPONSE)
            if result.current_leader:
                self._move_leader(batch.topic_partition, result.current_leader)
            self._settle(now, batch, result)

    def _move_leader(self, partition: TopicPartition, leader: LeaderIdAndEpoch) -> None:
        """Apply the leader that a response names, if it is newer."""
        info = self._cluster.partitions.get(partition)
        if info is None or leader.leader_epoch <= (info.leader_epoch or 0):
            return
        moved = msgspec.structs.replace(
            info, leader_id=leader.leader_id, leader_epoch=leader.leader_epoch
        )
        self._cluster = self._cluster.with_leaders({partition: moved}, self._cluster.nodes)

    def disconnected(self, now: int, node: int) -> None:
        """Handle a closed connection."""
        for request_id in self._requests.disconnected(node, now):
            outgoing = self._in_flight.pop(request_id).outgoing
            self._on_no_response(now, outgoing, Error.NETWORK_EXCEPTION)

    def close_stalled(self, now: int) -> None:
        """Close connections with a request older than `request.timeout.ms`."""
        limit = now - self.config.request_timeout_ms
        stalled = {r.outgoing.node: None for r in self._in_flight.values() if r.sent <= limit}
        for node in stalled:
            self._events.append(ConnectionStalled(node))
            self.disconnected(now, node)

    def _on_no_response(self, now: int, outgoing: SenderRequest, error: Error) -> None:
        if not outgoing.batches:
            self._on_init_response(now, error, NO_ID)
        for batch in outgoing.batches:
            index = batch.topic_partition.partition
            self._settle(now, batch, PartitionProduceResponse(index=index, error_code=error))

    # Batches

    def _settle(self, now: int, batch: ProducerBatch, result: PartitionProduceResponse) -> None:
        """Apply the result of a batch; see the table at the top."""
        batch.is_on_wire = False
        self.accumulator.unmute(batch.topic_partition)
        error = error_of(result.error_code)
        batch.is_outcome_unknown = batch.is_outcome_unknown or error in MAY_BE_WRITTEN
        if error in {Error.NONE, Error.DUPLICATE_SEQUENCE_NUMBER}:
            self._complete(batch, result.base_offset)
        elif not batch.is_done:
            self._on_batch_error(now, batch, error, result.log_start_offset)
        if error in METADATA_IS_STALE:
            self._want_metadata([batch.topic_partition.topic])

    def _complete(self, batch: ProducerBatch, base_offset: int) -> None:
        if self.manager is not None:
            self.manager.completed(batch, base_offset)
        self._finish(batch, Error.NONE, base_offset)

    def _on_batch_error(
        self, now: int, batch: ProducerBatch, error: Error, log_start_offset: int
    ) -> None:
        if error is Error.MESSAGE_TOO_LARGE and len(batch.records) > 1:
            self._split(batch)
            return
        has_retries = batch.attempts < self.config.retries
        has_time = now - batch.created < self.config.delivery_ms
        if has_time and has_retries and self._is_retried(batch, error, log_start_offset):
            self.accumulator.put_back(now, batch)
        else:
            is_rejected = has_retries and error not in MAY_BE_WRITTEN
            self._fail(batch, error, is_given_up=not is_rejected)

    def _is_retried(self, batch: ProducerBatch, error: Error, log_start_offset: int) -> bool:
        if self.manager is None:
            return error in RETRIABLE
        return self.manager.decide(batch, error, log_start_offset) is not Retry.FAIL

    def _split(self, batch: ProducerBatch) -> None:
        parts = split(batch, self.config.batch_size)
        if self.manager is not None:
            self.manager.sequences(batch.topic_partition).replace(batch, parts)
        self.buffered_bytes -= self._incomplete.pop(batch)
        batch.is_done = True
        for part in reversed(parts):
            self.accumulator.insert(part)
        for part in parts:
            self._take(part, part.size_in_bytes)

    def _give_up_old(self, now: int) -> None:
        limit = now - self.config.delivery_ms
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
        """Report the result of a batch's records, once."""
        if batch.is_done:
            return
        batch.is_done = True
        self.buffered_bytes -= self._incomplete.pop(batch)
        if error is not Error.NONE and self.transactions is not None:
            self.transactions.batch_failed(error)
        may_be_written = batch.is_outcome_unknown or batch.is_on_wire
        for index, record in enumerate(batch.records):
            if error is not Error.NONE:
                failed = RecordFailed(record.id, batch.topic_partition, error, may_be_written)
                self._events.append(failed)
            else:
                offset = base_offset + index if base_offset >= 0 else -1
                self._events.append(RecordAcked(record.id, batch.topic_partition, offset))

    def _want_metadata(self, topics: list[str]) -> None:
        if not self._is_metadata_requested:
            self._is_metadata_requested = True
            self._events.append(MetadataWanted(topics))
