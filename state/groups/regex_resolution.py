"""Resolution of a consumer group's regular expressions to topics.

Source: `GroupMetadataManager.maybeUpdateRegularExpressions`, `.handleRegularExpressionsResult` in
Kafka; KIP-848. A heartbeat resolves all expressions of its group if

    an expression is new or unresolved,
    topics were created since the last resolution, or
    group.consumer.regex.refresh.interval.ms has passed,

but not within 10 s of the last resolution. Kafka resolves asynchronously and writes the result
after the heartbeat. Here the heartbeat is handled without the result, and the records follow its
own. So the member gets the topics with its next heartbeat. Only topics that the sender of the
heartbeat may DESCRIBE are included.
"""

from collections.abc import Callable, Collection, Iterable

from brokertwin.protocol.generated.consumer_group_rows import ConsumerGroupRegularExpressionValue
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.records import Record
from brokertwin.state.groups import consumer_group, target_assignment, topic_regexes
from brokertwin.state.groups import consumer_group_records as rows
from brokertwin.state.groups.consumer_group import ConsumerGroup, ConsumerMember

REFRESH_MIN_INTERVAL_MS = 10_000
TIMING_MS = 250
"""Uncertainty in a recording, which has arrival times only."""

Denied = Callable[[Iterable[str]], frozenset[str]]
"""Returns those of the topics that a member may not describe."""


def invalid(group: ConsumerGroup, regex: str | None) -> str | None:
    """Return why a new expression is invalid; None if it is valid."""
    if not regex or regex in group.regex_subscribers:
        return None
    why = topic_regexes.invalid(regex)
    if why is None:
        return None
    return f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {why}."


def is_resolved(group: ConsumerGroup, after: ConsumerMember) -> bool:
    """True if a member's new expression, if any, is resolved."""
    regex = after.subscribed_topic_regex
    return not regex or (regex in group.regex_subscribers and regex in group.resolved)


def is_complete(group: ConsumerGroup) -> bool:
    """True if all expressions of the group are resolved.

    Otherwise the group lacks topics that its epoch still counts, because a replaced expression may
    be deleted. This does not bump the epoch; the resolution does.
    """
    return group.regex_subscribers.keys() == group.resolved.keys()


def last_of_its_regex(group: ConsumerGroup, leaving: Iterable[ConsumerMember]) -> list[str]:
    """Return the expressions that only these members have."""
    former = list(leaving)
    left = consumer_group.subscriptions_of(group, former).regexes
    regexes = dict.fromkeys(each.subscribed_topic_regex for each in former)
    return [regex for regex in regexes if regex and regex not in left]


def is_due(
    broker: Broker,
    group: ConsumerGroup,
    regexes: Collection[str],
    *,
    has_new: bool,
    recorded: bool | None = None,
) -> bool:
    """True if a heartbeat resolves the group's expressions.

    Args:
        broker: the coordinator.
        group: the group before the heartbeat.
        regexes: its expressions after the heartbeat.
        has_new: whether the member's expression is new to the group.
        recorded: in a replay, whether the recorded broker resolved them close to the minimum
            interval; None otherwise.
    """
    if not regexes or not (has_new or group.regex_subscribers):
        return False
    if not group.resolved:
        return True
    last = max(each.timestamp for each in group.resolved.values())
    version = max(each.version for each in group.resolved.values())
    timing_ms = 0 if recorded is None else -TIMING_MS if recorded else TIMING_MS
    if broker.now <= last + REFRESH_MIN_INTERVAL_MS + timing_ms:
        return False
    interval = broker.settings.group_consumer_regex_refresh_interval_ms
    is_incomplete = has_new or len(regexes) != len(group.resolved)
    return is_incomplete or version < broker.topics_created() or broker.now > last + interval


def records(
    broker: Broker,
    group: ConsumerGroup,
    after: consumer_group.Subscriptions,
    epoch: tuple[int, int],
    denied: Denied,
) -> list[Record]:
    """Return the records of a resolution of all expressions of a group.

    Args:
        broker: the coordinator with its metadata image.
        group: the group before the heartbeat.
        after: its subscriptions after the heartbeat.
        epoch: its epoch and metadata hash after the heartbeat.
        denied: returns topics to exclude.
    """
    found = topic_regexes.matching(after.regexes, broker.topic_names())
    hidden = denied({name for names in found.values() for name in names})
    version = broker.topics_created()
    written: list[Record] = []
    by_regex: set[str] = set()
    has_changed = False
    for regex, names in found.items():
        topics = sorted(set(names) - hidden)
        former = group.resolved.get(regex)
        has_changed = has_changed or topics != (former.topics if former is not None else [])
        by_regex.update(topics)
        resolved = ConsumerGroupRegularExpressionValue(topics, version, broker.now)
        written.append(rows.resolved_regex(group.group_id, regex, resolved))
    group_epoch, current_hash = epoch
    new_hash = target_assignment.metadata_hash(broker, by_regex | after.by_name.keys())
    if has_changed or new_hash != current_hash:
        written.append(rows.group_epoch(group.group_id, group_epoch + 1, new_hash))
    return written
