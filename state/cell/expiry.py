"""Periodic checks: items of a broker or the controller that expire.

    a producer           producer.id.expiration.ms
                         every producer.id.expiration.check.interval.ms
    a transactional id   transactional.id.expiration.ms
                         every transaction.remove.expired.transaction.cleanup.interval.ms
    a committed offset   offsets.retention.minutes (`state/groups/offset_expiry.py`)
                         every offsets.retention.check.interval.ms; the controller deletes those
                         that ZooKeeper keeps
    a log's records      retention.ms, retention.bytes (`state/logs/retention.py`), if the topic's
                         cleanup.policy has `delete`
                         every log.retention.check.interval.ms; with `compact`, too, by the log
                         cleaner every log.cleaner.backoff.ms
    a delegation token   at its expiry time (`state/access/delegation_tokens.py`), by the controller
                         every delegation.token.expiry.check.interval.ms
    a client's bucket    without use for an hour (`state/cluster/mutation_quota.py`), by the
                         controller every hour
    a client's rate      without samples that count (`state/cluster/quota_rates.py`), every hour
    a client instance    without a push for three push intervals
                         (`state/cluster/client_instances.py`), every hour
    a share partition    if its group has no session with the broker and no member an acquired
                         record (`state/share/share_partitions.py`), every hour

The age of a producer is that of its last batch, by the timestamps in the batch. The age of a
transactional id is the time since its last write. Checks are due at every multiple of their
interval since 1970. They run at their own time, before the next event. A gateway ticks for a check,
a job does not. If a cell without events has missed several checks, only the last one runs. Which
one that is depends on the cell's events, so the times of tombstones differ between cells.

A producer is known until a check drops it, like in Kafka. A check of its age in between would leave
producers of old timestamps (a backfill, a mirror) without protection against duplicates.

Kafka starts its intervals when a broker starts, opens a log or loads a coordinator's partition.
Here they start at 1970, so that they depend only on events. Like in Kafka, nothing of a group
expires before `__consumer_offsets` has existed for an interval, and nothing of a log before its
topic has existed for `log.initial.task.delay.ms`. Only leaders check their logs; followers raise
their start with the leader's next response. In a comparison no records expire, because a recording
does not contain the times of its broker's checks.

Source: `LogManager.cleanupLogs`, `ProducerStateManager.removeExpiredProducers`,
`UnifiedLog.producerExpireCheck`, `TransactionStateManager.removeExpiredTransactionalIds`,
`GroupCoordinatorShard.scheduleGroupMetadataExpiration` in Kafka.
"""

from collections.abc import Callable, Iterable
from typing import Any

from brokertwin.protocol.errors import Error
from brokertwin.state.access import delegation_tokens
from brokertwin.state.cluster import (
    client_instances,
    coordinators,
    mutation_quota,
    quota_rates,
    retention_limits,
)
from brokertwin.state.cluster.image import Topic
from brokertwin.state.cluster.machines import Broker, Controller
from brokertwin.state.core.records import LogStartMoved, ProducersExpired, Record
from brokertwin.state.core.settings import BrokerSettings
from brokertwin.state.groups import groups, offset_expiry
from brokertwin.state.logs import producer_expiry, retention
from brokertwin.state.logs.log import Log
from brokertwin.state.share import share_partitions
from brokertwin.state.transactions import transaction_coordinator, transactional_offsets

Expired = Callable[[Any], Iterable[Record]]
"""Returns the expired items of a machine as records; it drops volatile ones itself."""


def last_check(interval_ms: int, before: int, now: int) -> int | None:
    """Return the time of the last check after `before` and up to `now`, if any."""
    check = now // interval_ms * interval_ms
    return check if check > before else None


def checks_due(settings: BrokerSettings, before: int, now: int) -> list[tuple[int, Expired]]:
    """Return the checks after `before` and up to `now`, each with its time, in order."""
    checks = [
        (last_check(interval, before, now), expired) for interval, expired in _intervals(settings)
    ]
    return sorted(
        [(check, expired) for check, expired in checks if check is not None], key=lambda due: due[0]
    )


def next_check(settings: BrokerSettings, after: int) -> int:
    """Return the time of the first check after a time."""
    return min((after // interval + 1) * interval for interval, _ in _intervals(settings))


def _intervals(settings: BrokerSettings) -> list[tuple[int, Expired]]:
    return [
        (settings.producer_id_expiration_check_interval_ms, expired_producers),
        (
            settings.transaction_remove_expired_transaction_cleanup_interval_ms,
            transaction_coordinator.expired,
        ),
        (settings.offsets_retention_check_interval_ms, expired_offsets),
        (settings.offsets_retention_check_interval_ms, offset_expiry.expired_nodes),
        (settings.log_retention_check_interval_ms, old_records),
        (max(settings.log_cleaner_backoff_ms, 1), old_records_of_compacted),
        (settings.delegation_token_expiry_check_interval_ms, expired_tokens),
        (quota_rates.EXPIRATION_CHECK_INTERVAL_MS, quota_rates.expired),
        (quota_rates.EXPIRATION_CHECK_INTERVAL_MS, client_instances.expired),
        (quota_rates.EXPIRATION_CHECK_INTERVAL_MS, share_partitions.expired),
        (quota_rates.EXPIRATION_CHECK_INTERVAL_MS, mutation_quota.expired),
    ]


def is_controllers(expired: Expired) -> bool:
    """Whether the controller runs a check, and not every broker."""
    return expired in (expired_tokens, mutation_quota.expired, offset_expiry.expired_nodes)


def expired_tokens(controller: Controller) -> Iterable[Record]:
    return delegation_tokens.expired(controller, controller.now)


def expired_offsets(broker: Broker) -> Iterable[Record]:
    """Return the expired offsets and groups; those that are still loading come later."""
    topic = broker.topic_by_name(coordinators.GROUP_TOPIC)
    interval_ms = broker.settings.offsets_retention_check_interval_ms
    if topic is None or broker.now - topic.created < interval_ms:
        return
    for group in groups.all_with_unwritten(broker):
        group_id = group.group_id
        if coordinators.group_error(broker, group_id) is Error.NONE:
            unstable = transactional_offsets.unstable(broker, group_id)
            yield from offset_expiry.expired(broker, group, unstable)


def expired_producers(broker: Broker) -> Iterable[ProducersExpired]:
    expiration_ms = broker.settings.producer_id_expiration_ms
    return producer_expiry.expired_producers(broker, broker.now, expiration_ms)


def old_records(broker: Broker) -> Iterable[Record]:
    """Return new log starts, and producers that a setting removes with them.

    Segments below the start go on every replica, others at the leader.
    """
    for topic in _looked_at(broker):
        if not retention_limits.has_policy(topic, broker.settings, "compact"):
            yield from _old_records(broker, topic)


def old_records_of_compacted(broker: Broker) -> Iterable[Record]:
    """The same for topics that are also compacted, which the log cleaner checks."""
    for topic in _looked_at(broker) if broker.settings.log_cleaner_enable else ():
        if retention_limits.has_policy(topic, broker.settings, "compact", "delete"):
            yield from _old_records(broker, topic)


def _looked_at(broker: Broker) -> Iterable[Topic]:
    oldest = broker.now - broker.settings.log_initial_task_delay_ms
    topics = broker.all_topics() if not broker.cell.may_hold else ()
    return (topic for topic in topics if topic.created <= oldest)


def _old_records(broker: Broker, topic: Topic) -> Iterable[Record]:
    limits = retention_limits.of_topic(topic, broker.settings)
    for index, partition in enumerate(topic.partitions):
        log = broker.log(topic.topic_id, index)
        if log is not None and (limits is not None or log.rolled):
            leads = partition.leader == broker.id
            yield from _deleted(broker, log, limits if leads else None)


def _deleted(
    broker: Broker, log: Log, limits: retention.RetentionLimits | None
) -> Iterable[Record]:
    rules = retention_limits.rolling_rules_in(broker, log.topic_id)
    deleted_to = retention.deletable_end(broker, log, rules, limits, broker.now)
    if deleted_to == retention.NOTHING:
        return
    place = (log.topic_id, log.partition, max(log.log_start_offset, deleted_to))
    yield LogStartMoved(*place, segments_deleted_to=deleted_to)
    if broker.settings.brokertwin_reject_unknown_producer:
        yield from producer_expiry.without_records(broker, *place)
