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

from collections.abc import Callable, Iterable

from brokerstream.state.cluster.machines import Broker
from brokerstream.state.core.records import ProducersExpired, Record
from brokerstream.state.core.settings import BrokerSettings
from brokerstream.state.logs import producer_expiry
from brokerstream.state.transactions import transaction_coordinator

Expired = Callable[[Broker], Iterable[Record]]
"""What a check drops of a broker's items, as records."""


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


def expired_producers(broker: Broker) -> Iterable[ProducersExpired]:
    """The producers that a check drops now."""
    expiration_ms = broker.settings.producer_id_expiration_ms
    return producer_expiry.expired_producers(
        broker.tables.producers, broker.id, broker.now, expiration_ms
    )
