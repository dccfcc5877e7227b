"""The topics to which a consumer group subscribes.

Source: `ConsumerGroup.computeSubscribedTopicNames`, `.subscriptionType`, `SubscriptionCount`,
`TargetAssignmentBuilder.newMemberSubscription`, `UnionSet` in Kafka.
"""

from collections.abc import Iterable
from typing import NamedTuple

from brokertwin.state.core.java_hashes import JavaMap, java_hash
from brokertwin.state.groups.consumer_group import ConsumerGroup, ConsumerMember, add_counts


class Subscriptions(NamedTuple):
    """Subscriptions of a group's members.

    Attributes:
        by_name: number of subscribing members by topic name.
        by_regex: number of matching regular expressions by topic name.
        regexes: number of members by regular expression.
    """

    by_name: dict[str, int]
    by_regex: dict[str, int]
    regexes: dict[str, int]

    @property
    def topics(self) -> set[str]:
        return self.by_name.keys() | self.by_regex.keys()

    def is_homogeneous(self, member_count: int) -> bool:
        """True if all members have equal subscriptions.

        Like Kafka, this compares counts only.
        """
        if not self.regexes:
            return all(count == member_count for count in self.by_name.values())
        has_one = next(iter(self.regexes.values())) == member_count
        return has_one and not self.by_name and all(n == 1 for n in self.by_regex.values())


def of(
    group: ConsumerGroup,
    former: Iterable[ConsumerMember] = (),
    new: Iterable[ConsumerMember] = (),
) -> Subscriptions:
    """Return a group's subscriptions after some members are replaced."""
    removed, added = list(former), list(new)
    by_name = dict(group.subscribers)
    regexes = dict(group.regex_subscribers)
    for members, by in ((removed, -1), (added, 1)):
        for member in members:
            add_counts(by_name, member.subscribed_topic_names, by)
            add_counts(regexes, [member.subscribed_topic_regex or None], by)
    by_regex: dict[str, int] = {}
    for regex, found in group.resolved.items():
        if regex in regexes:
            add_counts(by_regex, found.topics, 1)
    return Subscriptions(by_name, by_regex, regexes)


def topics_of(group: ConsumerGroup, member: ConsumerMember) -> list[str]:
    """Return the topics of a member, by name and expression, in Kafka's order."""
    names = in_order(member.subscribed_topic_names)
    resolved = group.resolved.get(member.subscribed_topic_regex)
    if resolved is None or not resolved.topics:
        return names
    found = in_order(resolved.topics)
    many, few = (names, found) if len(names) > len(found) else (found, names)
    return list(dict.fromkeys((*many, *few)))


def in_order(names: Iterable[str]) -> list[str]:
    """Return names in the iteration order of a Java `HashSet`."""
    return list(JavaMap.holding(java_hash, dict.fromkeys(names)))
