"""When the regular expressions of a consumer group are resolved, and what comes of it.

Source: `GroupMetadataManager.maybeUpdateRegularExpressions`, `.handleRegularExpressionsResult` in
Kafka; KIP-848. All expressions of a group are resolved at once, by a heartbeat that finds

    an expression that is new, or not resolved yet
    or topics that have come since
    or the last time longer ago than group.consumer.regex.refresh.interval.ms

and never within 10 s of the last time. Kafka does it beside the heartbeat and writes what it found
right after it; here that is one step: the heartbeat is decided without it, and the records follow
its own. So a member hears of its topics with its next heartbeat. What is found is what the member
that sent the heartbeat may DESCRIBE.
"""

from collections.abc import Callable, Collection, Iterable

from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.group_records import (
    ConsumerGroupMetadataWritten,
    ConsumerGroupRegularExpressionWritten,
    ResolvedRegularExpression,
)
from brokertwin.state.core.records import Record
from brokertwin.state.groups import subscriptions, target_assignment, topic_regexes
from brokertwin.state.groups.consumer_group import ConsumerGroup, ConsumerMember

REFRESH_MIN_INTERVAL_MS = 10_000
TIMING_MS = 250
"""Uncertainty of the interval in a recording: it has arrival times, Kafka uses later ones."""

Denied = Callable[[Iterable[str]], frozenset[str]]
"""Which topics of some a member may not describe."""


def invalid(group: ConsumerGroup, regex: str | None) -> str | None:
    """Why a member cannot subscribe to an expression; one that others have is not looked at."""
    if not regex or regex in group.regex_subscribers:
        return None
    why = topic_regexes.invalid(regex)
    if why is None:
        return None
    return f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {why}."


def is_resolved(group: ConsumerGroup, after: ConsumerMember) -> bool:
    """Whether the topics of a member's new expression are known: also where it has none now."""
    regex = after.subscribed_topic_regex
    return not regex or (regex in group.regex_subscribers and regex in group.resolved)


def is_complete(group: ConsumerGroup) -> bool:
    """Whether all expressions are resolved.

    Where one is not, its group lacks topics that its epoch still counts: the one that it came in
    the place of may be gone. That makes no new epoch; resolving it does.
    """
    return group.regex_subscribers.keys() == group.resolved.keys()


def last_of_its_regex(group: ConsumerGroup, gone: Iterable[ConsumerMember]) -> list[str]:
    """The expressions that nobody has any more once some members do not have theirs."""
    former = list(gone)
    left = subscriptions.of(group, former).regexes
    wanted = dict.fromkeys(each.subscribed_topic_regex for each in former)
    return [regex for regex in wanted if regex and regex not in left]


def is_due(
    broker: Broker,
    group: ConsumerGroup,
    wanted: Collection[str],
    *,
    has_new: bool,
    recorded: bool | None = None,
) -> bool:
    """Return whether a heartbeat resolves the expressions that the group has after it.

    Args:
        broker: the coordinator.
        group: the group before the heartbeat.
        wanted: its expressions after the heartbeat.
        has_new: whether the member's expression is new to the group.
        recorded: what a recorded broker did, for a heartbeat close to the minimum interval.
    """
    if not wanted or not (has_new or group.regex_subscribers):
        return False
    if not group.resolved:
        return True
    last = max(each.timestamp for each in group.resolved.values())
    version = max(each.version for each in group.resolved.values())
    timing_ms = 0 if recorded is None else -TIMING_MS if recorded else TIMING_MS
    if broker.now <= last + REFRESH_MIN_INTERVAL_MS + timing_ms:
        return False
    interval = broker.settings.group_consumer_regex_refresh_interval_ms
    is_incomplete = has_new or len(wanted) != len(group.resolved)
    return is_incomplete or version < broker.topics_created() or broker.now > last + interval


def records(
    broker: Broker,
    group: ConsumerGroup,
    after: subscriptions.Subscriptions,
    epoch: tuple[int, int],
    denied: Denied,
) -> list[Record]:
    """What is written once the expressions of a group are resolved anew.

    Args:
        broker: the coordinator, whose image says which topics there are.
        group: the group before the heartbeat.
        after: its subscriptions after it.
        epoch: its epoch and metadata hash after it.
        denied: those of some topics that do not count.
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
        resolved = ResolvedRegularExpression(topics, version, broker.now)
        written.append(ConsumerGroupRegularExpressionWritten(group.group_id, regex, resolved))
    group_epoch, known_hash = epoch
    new_hash = target_assignment.metadata_hash(broker, by_regex | after.by_name.keys())
    if has_changed or new_hash != known_hash:
        bumped = ConsumerGroupMetadataWritten(group.group_id, group_epoch + 1, new_hash)
        written.append(bumped)
    return written
