"""Properties of each assignor for all subscriptions and owned partitions."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokertwin.clients.assignors.assign import AssignorName, assign, user_data
from brokertwin.clients.assignors.group import Assignment, Subscription, group_of
from brokertwin.clients.assignors.sticky_assignor import assign_sticky
from brokertwin.clients.partitions import TopicPartition
from tests.support.assignors import Input, draw_input
from tests.support.examples import examples

GROUPS = st.builds(
    lambda seed, keeps: draw_input(Random(seed), keeps_topics=keeps), st.integers(0), st.booleans()
)
STICKY = (AssignorName.STICKY, AssignorName.COOPERATIVE_STICKY)


def assigned(group: Input) -> Assignment:
    return assign(group.name, group.counts, group.members)


def all_partitions(group: Input) -> set[TopicPartition]:
    members = {topic for subscription in group.members.values() for topic in subscription.topics}
    return {
        TopicPartition(topic, at)
        for topic, count in group.counts.items()
        if topic in members
        for at in range(count)
    }


@given(GROUPS)
@settings(max_examples=examples(60))
def test_each_partition_is_assigned_once_to_a_subscriber(group: Input) -> None:
    got = [partition for partitions in assigned(group).values() for partition in partitions]
    assert len(got) == len(set(got))
    for member, partitions in assigned(group).items():
        assert {partition.topic for partition in partitions} <= set(group.members[member].topics)
    owned = {p for subscription in group.members.values() for p in subscription.owned}
    missing = all_partitions(group) - set(got)
    assert missing == set() or group.name is AssignorName.COOPERATIVE_STICKY
    assert missing <= owned, "what is held back is still owned by somebody"


@given(GROUPS)
@settings(max_examples=examples(60))
def test_equal_subscriptions_differ_by_at_most_one_partition(group: Input) -> None:
    topics = {subscription.topics for subscription in group.members.values()}
    if len(topics) > 1 or group.name is AssignorName.RANGE:
        return
    sizes = [len(partitions) for partitions in assigned(group).values()]
    if group.name is AssignorName.COOPERATIVE_STICKY:
        assert max(sizes) <= -(-len(all_partitions(group)) // len(sizes))
    else:
        assert max(sizes) - min(sizes) <= 1


def after(group: Input, assignment: Assignment) -> dict[str, Subscription]:
    """The members as they join when the assignment has come, in a generation later than any."""
    return {
        member: Subscription(
            topics=subscription.topics,
            owned=tuple(assignment[member]) if group.name is STICKY[1] else (),
            generation_id=9,
            user_data=user_data(group.name, assignment[member], 9),
            group_instance_id=subscription.group_instance_id,
        )
        for member, subscription in group.members.items()
    }


def by_member(assignment: Assignment) -> dict[str, set[TopicPartition]]:
    return {member: set(partitions) for member, partitions in assignment.items()}


@given(GROUPS)
@settings(max_examples=examples(60))
def test_cooperative_converges_with_all_partitions_assigned(group: Input) -> None:
    members, steps = after(group, assigned(group)), 0
    while True:
        assignment = assign(group.name, group.counts, members)
        again = after(group, assignment)
        if by_member(assignment) == {
            m: set(subscription.owned) for m, subscription in members.items()
        }:
            break
        members, steps = again, steps + 1
        if group.name is not AssignorName.COOPERATIVE_STICKY or steps > 3:
            break
    got = {partition for partitions in assignment.values() for partition in partitions}
    assert got == all_partitions(group)
    assert steps <= 3


@given(GROUPS, st.data())
@settings(max_examples=examples(60))
def test_no_member_loses_partitions_when_another_leaves(group: Input, data: st.DataObject) -> None:
    """With equal subscriptions, remaining members keep their partitions and take the free ones."""
    name = AssignorName.STICKY
    if (
        len({subscription.topics for subscription in group.members.values()}) > 1
        or len(group.members) < 2
    ):
        return
    fresh = Input(
        name, group.counts, {m: Subscription(topics=s.topics) for m, s in group.members.items()}
    )
    before = assigned(fresh)
    members = after(fresh, before)
    del members[data.draw(st.sampled_from(sorted(members)))]
    now = assign(name, group.counts, members)
    for member, partitions in now.items():
        assert set(before[member]) <= set(partitions)


@pytest.mark.parametrize("name", list(AssignorName))
def test_same_members_keep_their_assignment(name: AssignorName) -> None:
    for seed in range(40):
        group = draw_input(Random(seed))._replace(name=name)
        plain = {
            m: Subscription(topics=subscription.topics) for m, subscription in group.members.items()
        }
        first = assign(name, group.counts, plain)
        again = assign(name, group.counts, after(group._replace(members=plain), first))
        assert by_member(again) == by_member(first)
    assert assign_sticky(group_of({}, {"a": Subscription(topics=("t",))})) == {"a": []}
