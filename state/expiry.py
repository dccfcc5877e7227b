"""What a broker forgets as time passes: idempotent producers that were silent for too long.

Source: `ProducerStateManager.removeExpiredProducers`, `UnifiedLog.producerExpireCheck` in Kafka.

A check drops every producer whose last batch is `producer.id.expiration.ms` old or older, by the
timestamps in the batch (`is_expired`). Checks come at every multiple of
`producer.id.expiration.check.interval.ms` since 1970, at their own time, before the event that
comes later. Nobody is woken for one: of the checks that a silent cell has missed the last one says
it all. A producer is known until a check drops it, as in Kafka: an age looked at in between would
leave a producer of old timestamps (a backfill, a mirror) without any protection against duplicates.

Kafka begins to count its intervals when a log is opened; here they begin at 1970, so that they
depend on the events alone.
"""

from collections.abc import Iterator

from brokerstream.state import producer as producers
from brokerstream.state.machines import Broker
from brokerstream.state.producer import Producer
from brokerstream.state.records import ProducersExpired

IDS_MAX = 10_000
"""Producer ids in one record: it stays far below the limit of a row."""


def is_expired(producer: Producer, now: int, expiration_ms: int) -> bool:
    """Whether a check at `now` (ms since 1970) drops the producer."""
    return now - producer.last_timestamp >= expiration_ms


def last_check(interval_ms: int, before: int, now: int) -> int | None:
    """The time of the last check after `before` and up to `now`, if there is one."""
    check = now // interval_ms * interval_ms
    return check if check > before else None


def expired(broker: Broker) -> Iterator[ProducersExpired]:
    """What a check drops now, by topic id, partition and producer id."""
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
