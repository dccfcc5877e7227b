"""Expiry of idle producers.

Source: `ProducerStateManager.removeExpiredProducers`, `ProducerStateManager.isProducerExpired` in
Kafka. A producer's age counts from the timestamp of its last batch. `state/cell/expiry.py` has the
times of the checks.
"""

from collections.abc import Iterator

from brokertwin.protocol.bodies import Uuid
from brokertwin.state.core.records import ProducersExpired
from brokertwin.state.core.tables import MachineTables
from brokertwin.state.logs import producer as producers
from brokertwin.state.logs.producer import ProducerStateEntry

IDS_MAX = 10_000
"""Producer ids in one record, so that it stays far below the limit of a row."""


def is_expired(producer: ProducerStateEntry, now: int, expiration_ms: int) -> bool:
    """True if a check at `now` (ms since 1970) drops the producer; never in a transaction."""
    is_silent = now - producer.last_timestamp >= expiration_ms
    return is_silent and not producer.has_open_transaction


def without_records(
    at: MachineTables, topic_id: Uuid, partition: int, log_start_offset: int
) -> Iterator[ProducersExpired]:
    """Forget the producers whose records are all below a new log start offset.

    Kafka keeps them since 2.4; `brokertwin.reject.unknown.producer` restores the former behaviour.
    """
    ids = [
        producer_id
        for producer_id, producer in producers.of_partition(at, topic_id, partition)
        if all(batch.last_offset < log_start_offset for batch in producer.batches)
    ]
    yield from _records(topic_id, partition, ids)


def expired_producers(
    at: MachineTables, now: int, expiration_ms: int
) -> Iterator[ProducersExpired]:
    """Producers that a check at `now` drops, by topic id, partition and producer id."""
    expired: dict[tuple[str, int], list[int]] = {}
    for (topic_id, partition, producer_id), producer in producers.all_producers(at):
        if is_expired(producer, now, expiration_ms):
            expired.setdefault((topic_id, partition), []).append(producer_id)
    for (topic_id, partition), ids in sorted(expired.items()):
        yield from _records(topic_id, partition, sorted(ids))


def _records(topic_id: Uuid, partition: int, ids: list[int]) -> Iterator[ProducersExpired]:
    for first in range(0, len(ids), IDS_MAX):
        yield ProducersExpired(topic_id, partition, ids[first : first + IDS_MAX])
