"""A follower truncates its log, or restarts it at its leader's log start.

Source: seed 004; `UnifiedLog.truncateTo`, `truncateFullyAndStartAt`,
`LeaderEpochFileCache.truncateFromEnd`, `ProducerStateManager.truncateAndReload` in Kafka. Producers
and transactions are read again from the indexed batches. A log that would have to be truncated in
its sealed part is restarted.
"""

from brokertwin.protocol.bodies import Uuid
from brokertwin.state.core.tables import MachineTables
from brokertwin.state.logs import log as logs
from brokertwin.state.logs import log_transactions, producer
from brokertwin.state.logs.log import NO_TIMESTAMP, Chunk, Log, chunk_key, log_key


def truncate(at: MachineTables, topic_id: Uuid, partition: int, offset: int) -> None:
    """Drop everything from `offset` on, and lower the high watermark to it.

    At the log end this drops leader epochs in which this broker led and wrote nothing.
    """
    log = at.tables.logs.change(log_key(at.id, topic_id, partition), Log)
    if offset >= log.log_end_offset:
        _cut_epochs(log, offset)
        return
    first_indexed = log.chunks[0].base_offset if log.chunks else log.log_end_offset
    if offset < max(first_indexed, log.log_start_offset):
        restart_at(at, topic_id, partition, min(offset, log.log_start_offset))
        return
    _cut_index(at, log, offset)
    log.log_end_offset = offset
    log.cleaned_to = min(log.cleaned_to, offset)
    log.high_watermark = min(log.high_watermark, offset)
    _cut_epochs(log, offset)
    logs.aborted_index(at, log).drop_from(offset)
    producer.forget_from(at, topic_id, partition, first_indexed)
    for batch in logs.batches_from(at, log, log.log_start_offset):
        producer.append(at, topic_id, partition, batch.header())
    _read_transactions(at, log, log.log_start_offset)
    logs.raise_high_watermark(log, log.high_watermark)


def move_high_watermark(at: MachineTables, log: Log, offset: int) -> None:
    """Set the high watermark, possibly lower: then transactions are open again.

    Producers stay, and so do transactions that started below the indexed batches.
    """
    _read_transactions(at, log, 0)
    logs.raise_high_watermark(log, offset)


def _read_transactions(at: MachineTables, log: Log, offset: int) -> None:
    first_indexed = log.chunks[0].base_offset if log.chunks else log.log_end_offset
    log.transactions = [each for each in log.transactions if each.first_offset < first_indexed]
    for batch in logs.batches_from(at, log, offset):
        if batch.is_transactional and batch.producer_id >= 0:
            log_transactions.replay_batch(log.transactions, batch.header())


def restart_at(at: MachineTables, topic_id: Uuid, partition: int, offset: int) -> None:
    """Replace the log with an empty one at `offset`, without producers."""
    former = at.tables.logs.change(log_key(at.id, topic_id, partition), Log)
    logs.remove(at, topic_id, partition)
    producer.remove_partition(at, topic_id, partition)
    logs.create(at, topic_id, former.topic, partition)
    log = at.tables.logs.change(log_key(at.id, topic_id, partition), Log)
    log.log_start_offset = log.high_watermark = log.log_end_offset = offset
    log.directory = former.directory


def _cut_index(at: MachineTables, log: Log, offset: int) -> None:
    """Drop the indexed batches that reach `offset`."""
    place = (at.id, log.topic_id, log.partition)
    while log.chunks and log.chunks[-1].last_offset >= offset:
        bounds = log.chunks[-1]
        key = chunk_key(*place, bounds.number)
        chunk = at.tables.logs.change(key, Chunk)
        chunk.batches = [batch for batch in chunk.batches if batch.last_offset < offset]
        log.batch_count = bounds.number * logs.CHUNK_BATCHES_MAX + len(chunk.batches)
        if not chunk.batches:
            at.tables.logs.drop(key)
            log.chunks.pop()
            continue
        bounds.last_offset = chunk.batches[-1].last_offset
        bounds.size_in_bytes = sum(batch.size_in_bytes for batch in chunk.batches)
        bounds.max_timestamp = max(NO_TIMESTAMP, *(b.max_timestamp for b in chunk.batches))


def _cut_epochs(log: Log, offset: int) -> None:
    """Drop leader epochs that start at `offset` or later."""
    while log.former_epochs and log.former_epochs[-1].end_offset >= offset:
        log.leader_epoch = log.former_epochs.pop().epoch
    if not log.former_epochs and offset <= log.log_start_offset:
        log.leader_epoch = 0
