"""What a broker forgets as time passes: idempotent producers and transactional ids.

Source: `ProducerStateManager.removeExpiredProducers`, `UnifiedLog.producerExpireCheck`,
`TransactionStateManager.removeExpiredTransactionalIds` in Kafka.

    a producer           producer.id.expiration.ms
                         looked at every producer.id.expiration.check.interval.ms
    a transactional id   transactional.id.expiration.ms
                         looked at every transaction.remove.expired.transaction.cleanup.interval.ms

A producer's age is that of its last batch, by the timestamps in the batch; a transactional id's is
the time since it was last written. Checks come at every multiple of their interval since 1970, at
their own time, before the event that comes later. Nobody is woken for one: of the checks that a
silent cell has missed the last one says it all. A producer is known until a check drops it, as in
Kafka: an age looked at in between would leave a producer of old timestamps (a backfill, a mirror)
without any protection against duplicates.

Kafka begins to count its intervals when a broker starts or opens a log; here they begin at 1970, so
that they depend on the events alone.
"""

from collections.abc import Callable, Iterable, Iterator

from brokerstream.state import producer as producers
from brokerstream.state import transaction_coordinator
from brokerstream.state.machines import Broker
from brokerstream.state.producer import Producer
from brokerstream.state.records import ProducersExpired, Record
from brokerstream.state.schema import Uuid
from brokerstream.state.settings import BrokerSettings

Expired = Callable[[Broker], Iterable[Record]]
"""What a check drops of a broker's items, as records."""

IDS_MAX = 10_000
"""Producer ids in one record: it stays far below the limit of a row."""


def is_expired(producer: Producer, now: int, expiration_ms: int) -> bool:
    """Whether a check at `now` (ms since 1970) drops the producer: never in a transaction."""
    is_silent = now - producer.last_timestamp >= expiration_ms
    return is_silent and not producer.has_open_transaction


def last_check(interval_ms: int, before: int, now: int) -> int | None:
    """The time of the last check after `before` and up to `now`, if there is one."""
    check = now // interval_ms * interval_ms
    return check if check > before else None


def checks_due(settings: BrokerSettings, before: int, now: int) -> list[tuple[int, Expired]]:
    """The checks after `before` and up to `now`, each with its time, in their order."""
    intervals: list[tuple[int, Expired]] = [
        (settings.producer_id_expiration_check_interval_ms, expired_producers),
        (
            settings.transaction_remove_expired_transaction_cleanup_interval_ms,
            transaction_coordinator.expired,
        ),
    ]
    checks = [(last_check(interval, before, now), expired) for interval, expired in intervals]
    return sorted(
        [(check, expired) for check, expired in checks if check is not None],
        key=lambda due: due[0],
    )


def without_records(
    broker: Broker, topic_id: Uuid, partition: int, log_start_offset: int
) -> Iterator[ProducersExpired]:
    """The producers whose records all lie below a new log start: forgotten with them, if at all.

    Kafka keeps them since 2.4; `brokerstream.reject.unknown.producer` brings the older way back.
    """
    if not broker.settings.brokerstream_reject_unknown_producer:
        return
    ids = [
        producer_id
        for producer_id, producer in producers.of_partition(
            broker.tables.producers, broker.id, topic_id, partition
        )
        if all(batch.last_offset < log_start_offset for batch in producer.batches)
    ]
    for first in range(0, len(ids), IDS_MAX):
        yield ProducersExpired(topic_id, partition, ids[first : first + IDS_MAX])


def expired_producers(broker: Broker) -> Iterator[ProducersExpired]:
    """The producers that a check drops now, by topic id, partition and producer id."""
    expiration_ms = broker.settings.producer_id_expiration_ms
    found: dict[tuple[str, int], list[int]] = {}
    for (topic_id, partition, producer_id), producer in producers.all_producers(
        broker.tables.producers, broker.id
    ):
        if is_expired(producer, broker.now, expiration_ms):
            found.setdefault((topic_id, partition), []).append(producer_id)
    for (topic_id, partition), ids in sorted(found.items()):
        ids.sort()
        for first in range(0, len(ids), IDS_MAX):
            yield ProducersExpired(topic_id, partition, ids[first : first + IDS_MAX])
