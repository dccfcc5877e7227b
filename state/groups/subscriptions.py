"""The topics that a consumer group subscribes to, by their names and by regular expressions.

Source: `ConsumerGroup.computeSubscribedTopicNames`, `.subscriptionType`, `SubscriptionCount`,
`TargetAssignmentBuilder.newMemberSubscription`, `UnionSet` in Kafka.
"""

from collections.abc import Iterable
from typing import NamedTuple

from brokertwin.state.core.java_hashes import JavaMap, java_hash
from brokertwin.state.groups.consumer_group import ConsumerGroup, ConsumerMember, add_counts


class Subscriptions(NamedTuple):
    """What a group's members subscribe to.

    Attributes:
        by_name: topic to how many members name it.
        by_regex: topic to how many of the group's expressions have found it.
        regexes: expression to how many members have it.
    """

    by_name: dict[str, int]
    by_regex: dict[str, int]
    regexes: dict[str, int]

    @property
    def topics(self) -> set[str]:
        """The names of all topics, also of those that are gone."""
        return self.by_name.keys() | self.by_regex.keys()

    def is_homogeneous(self, member_count: int) -> bool:
        """Whether all of so many members subscribe to the same, as far as Kafka looks."""
        if not self.regexes:
            return all(count == member_count for count in self.by_name.values())
        has_one = next(iter(self.regexes.values())) == member_count
        return has_one and not self.by_name and all(n == 1 for n in self.by_regex.values())


def of(
    group: ConsumerGroup,
    former: Iterable[ConsumerMember] = (),
    new: Iterable[ConsumerMember] = (),
) -> Subscriptions:
    """The subscriptions of a group as it is, or once some members have gone and others come."""
    gone, come = list(former), list(new)
    by_name = dict(group.subscribers)
    regexes = dict(group.regex_subscribers)
    for members, by in ((gone, -1), (come, 1)):
        for member in members:
            add_counts(by_name, member.subscribed_topic_names, by)
            add_counts(regexes, [member.subscribed_topic_regex or None], by)
    by_regex: dict[str, int] = {}
    for regex, found in group.resolved.items():
        if regex in regexes:
            add_counts(by_regex, found.topics, 1)
    return Subscriptions(by_name, by_regex, regexes)


def topics_of(group: ConsumerGroup, member: ConsumerMember) -> list[str]:
    """The names that a member subscribes to and what its expression has found, in Kafka's order."""
    names = in_order(member.subscribed_topic_names)
    resolved = group.resolved.get(member.subscribed_topic_regex)
    if resolved is None or not resolved.topics:
        return names
    found = in_order(resolved.topics)
    many, few = (names, found) if len(names) > len(found) else (found, names)
    return list(dict.fromkeys((*many, *few)))


def in_order(names: Iterable[str]) -> list[str]:
    """Names as Kafka goes through them: a `HashSet`."""
    return list(JavaMap.holding(java_hash, dict.fromkeys(names)))
