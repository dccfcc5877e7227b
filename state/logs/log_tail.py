"""The end of a partition's log: what an append reads and changes, looked up once.

Source: `UnifiedLog.append`, `ProducerStateManager`, `LocalLog.append` in Kafka. A tail is derived
from items and never stored. `Tables.tails` keeps it until a commit, a rollback, or a record that
changes a log otherwise than by an append (`state/cell/apply.py`). Handlers read through it;
`take` appends.
"""

from msgspec.structs import astuple

from brokertwin.protocol.batch_headers import Batch
from brokertwin.state.core.tables import MachineTables
from brokertwin.state.logs import log as logs
from brokertwin.state.logs import log_transactions, producer, rolling
from brokertwin.state.logs.log import (
    NO_TIMESTAMP,
    ActiveSegment,
    Chunk,
    ChunkBounds,
    Log,
    RollingRules,
    SealedSegment,
    StoredBatch,
    chunk_key,
)
from brokertwin.state.logs.producer import NO_PRODUCER_ID, ProducerStateEntry, producer_key


class LogTail:
    """The end of one log on one broker.

    Attributes:
        is_only_replica: whether no follower copies the log.
        key: of the log in the table `logs`.
        log: its item.
        rules: when its segments roll; None for a log without segments.
    """

    __slots__ = (
        "_at",
        "_chunk",
        "_is_changed",
        "_known",
        "_logs",
        "_producers",
        "_written",
        "is_only_replica",
        "key",
        "log",
        "rules",
    )

    def __init__(
        self, at: MachineTables, log: Log, rules: RollingRules | None, is_only_replica: bool = True
    ) -> None:
        self._at, self._logs, self._producers = at, at.tables.logs, at.tables.producers
        self.key = logs.log_key(at.id, log.topic_id, log.partition)
        self.log = log
        self.rules = rules
        self.is_only_replica = is_only_replica
        self._is_changed = False
        self._chunk: Chunk | None = None
        self._known: dict[int, ProducerStateEntry] = {}
        self._written: dict[int, ProducerStateEntry] = {}

    def producer(self, producer_id: int) -> ProducerStateEntry | None:
        """The state of a producer. Do not change it."""
        entry = self._written.get(producer_id) or self._known.get(producer_id)
        if entry is None:
            entry = self._producers.get(self._producer_key(producer_id), ProducerStateEntry)
            if entry is not None:
                self._known[producer_id] = entry
        return entry

    def change(self) -> Log:
        """Return the log to be changed in place, before an append."""
        if not self._is_changed:
            self.log = self._logs.change(self.key, Log)
            self._is_changed = True
        return self.log

    def forget_index(self) -> None:
        """Drop the look-ups in the index, which was written again."""
        self._chunk = None

    def take(self, batch: Batch, may_seal: bool = True) -> SealedSegment | None:
        """Append a batch.

        In a log with one replica the batch is committed at once. A batch from a leader starts its
        leader epoch. Returns the oldest chunk if the append makes it sealed.
        """
        log = self.log if self._is_changed else self.change()
        base_offset, timestamp, size = batch.base_offset, batch.max_timestamp, batch.size_in_bytes
        last_offset = base_offset + batch.last_offset_delta
        end_offset, producer_id, number = last_offset + 1, batch.producer_id, log.batch_count
        rules = self.rules
        if rules is not None:
            segment_ms = rules.segment_ms
            active = log.active or rolling.ensure(self._at, log, rules)
            if rules.segment_jitter_ms:
                segment_ms = rules.segment_ms_of(log.topic_id, log.partition, active.base_offset)
            if active.must_roll(end_offset, size, timestamp, segment_ms, rules):
                next_offset = max(base_offset, log.log_end_offset)
                rolled = logs.rolled_segments(self._at, log)
                rolled.append(active.rolled(next_offset))
                log.rolled_bytes += active.size_in_bytes
                active = log.active = ActiveSegment(next_offset)
            active.take(size, timestamp, rules)
        if producer_id != NO_PRODUCER_ID:
            producer.update(self._written.get(producer_id) or self._writable(producer_id), batch)
        if batch.partition_leader_epoch > log.leader_epoch:
            logs.begin_epoch(log, batch.partition_leader_epoch)
        sealed, chunk = None, self._chunk
        if number % logs.CHUNK_BATCHES_MAX == 0 or not log.chunks:
            if may_seal and logs.is_full(log):
                sealed = logs.seal_oldest(self._at, log)
            chunk = self._begin_chunk(base_offset)
        elif chunk is None:
            key = self._chunk_key(log.chunks[-1].number)
            chunk = self._chunk = self._logs.change(key, Chunk)
        chunk.batches.append(StoredBatch(*astuple(batch)))
        if base_offset > log.log_end_offset:
            log.has_gaps = True  # the leader's log has been cleaned
        bounds = log.chunks[-1]
        bounds.last_offset = last_offset
        bounds.size_in_bytes += size
        if timestamp > bounds.max_timestamp:
            bounds.max_timestamp = timestamp
        log.batch_count = number + 1
        log.log_end_offset = end_offset
        if batch.is_transactional and producer_id >= 0:
            aborted = log_transactions.add_batch(log.transactions, batch)
            if aborted is not None:
                logs.aborted_index(self._at, log).add(aborted)
        if self.is_only_replica:
            log.high_watermark = end_offset
            if log.transactions:
                logs.raise_high_watermark(log, end_offset)
        return sealed

    def _begin_chunk(self, base_offset: int) -> Chunk:
        log = self.log
        number = log.batch_count // logs.CHUNK_BATCHES_MAX
        log.chunks.append(ChunkBounds(number, base_offset, -1, 0, NO_TIMESTAMP))
        chunk = self._chunk = Chunk([])
        self._logs.put(self._chunk_key(number), chunk)
        return chunk

    def _writable(self, producer_id: int) -> ProducerStateEntry:
        key = self._producer_key(producer_id)
        entry = self._written[producer_id] = self._producers.ensure(key, ProducerStateEntry)
        return entry

    def _chunk_key(self, number: int) -> str:
        return chunk_key(self._at.id, self.log.topic_id, self.log.partition, number)

    def _producer_key(self, producer_id: int) -> str:
        return producer_key(self._at.id, self.log.topic_id, self.log.partition, producer_id)
