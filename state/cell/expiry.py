"""What a broker forgets as time passes: producers, transactional ids, offsets, records, rates.

Source: `LogManager.cleanupLogs`, `ProducerStateManager.removeExpiredProducers`,
`UnifiedLog.producerExpireCheck`, `TransactionStateManager.removeExpiredTransactionalIds`,
`GroupCoordinatorShard.scheduleGroupMetadataExpiration` in Kafka.

    a producer           producer.id.expiration.ms
                         looked at every producer.id.expiration.check.interval.ms
    a transactional id   transactional.id.expiration.ms
                         looked at every transaction.remove.expired.transaction.cleanup.interval.ms
    a committed offset   offsets.retention.minutes (`state/groups/offset_expiry.py`)
                         looked at every offsets.retention.check.interval.ms; the controller
                         deletes those that ZooKeeper keeps
    a log's records      retention.ms, retention.bytes (`state/logs/retention.py`), where the
                         topic's cleanup.policy has `delete`
                         looked at every log.retention.check.interval.ms; where it has `compact`,
                         too, by the log cleaner, every log.cleaner.backoff.ms
    a delegation token   when it has expired (`state/access/delegation_tokens.py`); the controller
                         looks every delegation.token.expiry.check.interval.ms
    a client's bucket    when it has been silent for an hour (`state/cluster/mutation_quota.py`);
                         the controller looks every hour
    a client's rate      when nothing in it counts any more (`state/cluster/quota_rates.py`)
                         looked at every hour
    a client instance    when it has been silent for three push intervals
                         (`state/cluster/client_instances.py`); looked at every hour, too
    a share partition    when its group has no session with the broker, and nobody a record
                         (`state/share/share_partitions.py`); looked at every hour, too

A producer's age is that of its last batch, by the timestamps in the batch; a transactional id's is
the time since it was last written. Checks come at every multiple of their interval since 1970, at
their own time, before the event that comes later. Nobody is woken for one: of the checks that a
silent cell has missed the last one says it all. A tombstone has the time of its check; which one
that is depends on when the cell is woken, and with several cells each has its own moment.

A producer is known until a check drops it, as in Kafka: an age looked at in between would leave a
producer of old timestamps (a backfill, a mirror) without any protection against duplicates.

Kafka begins to count its intervals when a broker starts, opens a log or loads a coordinator's
partition; here they begin at 1970, so that they depend on the events alone. As in Kafka nothing of
a group goes before `__consumer_offsets` has been there for an interval, and nothing of a log before
its topic has been there for `log.initial.task.delay.ms`. Only leaders look at their logs; followers
raise their start with their leader's next answer. Where a recording is compared no records go: a
recording does not say when its broker looked.
"""

from collections.abc import Callable, Iterable
from typing import Any

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
from brokertwin.state.core.errors import Error
from brokertwin.state.core.records import LogStartMoved, ProducersExpired, Record
from brokertwin.state.core.settings import BrokerSettings
from brokertwin.state.groups import groups, offset_expiry
from brokertwin.state.logs import producer_expiry, retention
from brokertwin.state.logs.log import Log
from brokertwin.state.share import share_partitions
from brokertwin.state.transactions import transaction_coordinator, transactional_offsets

Expired = Callable[[Any], Iterable[Record]]
"""What a check drops of a machine's items, as records; what is not durable it drops itself."""


def last_check(interval_ms: int, before: int, now: int) -> int | None:
    """The time of the last check after `before` and up to `now`, if there is one."""
    check = now // interval_ms * interval_ms
    return check if check > before else None


def checks_due(settings: BrokerSettings, before: int, now: int) -> list[tuple[int, Expired]]:
    """The checks after `before` and up to `now`, each with its time, in their order."""
    checks = [
        (last_check(interval, before, now), expired) for interval, expired in _intervals(settings)
    ]
    return sorted(
        [(check, expired) for check, expired in checks if check is not None],
        key=lambda due: due[0],
    )


def next_check(settings: BrokerSettings, after: int) -> int:
    """The time of the first check after a time; until then `checks_due` finds none."""
    return min((after // interval + 1) * interval for interval, _ in _intervals(settings))


def _intervals(settings: BrokerSettings) -> list[tuple[int, Expired]]:
    """How often each check comes, in ms."""
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
    """Whether a check is the controller's, and not every broker's."""
    return expired in (expired_tokens, mutation_quota.expired, offset_expiry.expired_nodes)


def expired_tokens(controller: Controller) -> Iterable[Record]:
    """The delegation tokens that a check drops now."""
    table, prefix = controller.tables.metadata, controller.prefix
    return delegation_tokens.expired(table, prefix, controller.now)


def expired_offsets(broker: Broker) -> Iterable[Record]:
    """The offsets and groups that a check drops now; those that are still loaded come later."""
    topic = broker.topic_by_name(coordinators.GROUP_TOPIC)
    interval_ms = broker.settings.offsets_retention_check_interval_ms
    if topic is None or broker.now - topic.created < interval_ms:
        return
    for group in groups.all_with_unwritten(broker):
        group_id = group.group_id
        if coordinators.group_error(broker, group_id) is Error.NONE:
            unstable = transactional_offsets.unstable(broker.tables.groups, broker.id, group_id)
            yield from offset_expiry.expired(broker, group, unstable)


def expired_producers(broker: Broker) -> Iterable[ProducersExpired]:
    """The producers that a check drops now."""
    expiration_ms = broker.settings.producer_id_expiration_ms
    return producer_expiry.expired_producers(
        broker.tables.producers, broker.id, broker.now, expiration_ms
    )


def old_records(broker: Broker) -> Iterable[Record]:
    """The log starts that a check moves now, and the producers that a setting lets go with them.

    Segments that lie below the start go on every replica, others where it leads.
    """
    for topic in _looked_at(broker):
        if not retention_limits.has_policy(topic, broker.settings, "compact"):
            yield from _old_records(broker, topic)


def old_records_of_compacted(broker: Broker) -> Iterable[Record]:
    """The same of topics that are compacted, too, which is left to the log cleaner."""
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
    table = broker.tables.logs
    rules = retention_limits.rolling_rules_in(broker.tables, broker.id, log.topic_id)
    deleted_to = retention.deletable_end(table, broker.id, log, rules, limits, broker.now)
    if deleted_to == retention.NOTHING:
        return
    place = (log.topic_id, log.partition, max(log.log_start_offset, deleted_to))
    yield LogStartMoved(*place, segments_deleted_to=deleted_to)
    if broker.settings.brokertwin_reject_unknown_producer:
        yield from producer_expiry.without_records(broker.tables.producers, broker.id, *place)
