"""Assignors on small groups."""

import pytest

from brokertwin.clients.assignors.assign import AssignorName, assign, user_data
from brokertwin.clients.assignors.group import Subscription
from brokertwin.clients.partitions import TopicPartition

RANGE, ROUNDROBIN, STICKY, COOPERATIVE = AssignorName


def partitions(text: str) -> list[TopicPartition]:
    """`t-0 u-1`."""
    return [TopicPartition(name[:-2], int(name[-1])) for name in text.split()]


def given(name: AssignorName, counts: dict[str, int], **wanted: str) -> dict[str, str]:
    """What members get who own nothing yet; each is given the topics that it wants."""
    subscriptions = {
        member: Subscription(topics=tuple(topics.split())) for member, topics in wanted.items()
    }
    return rendered(assign(name, counts, subscriptions))


def rendered(assignment: dict[str, list[TopicPartition]]) -> dict[str, str]:
    return {m: " ".join(f"{t}-{p}" for t, p in sorted(got)) for m, got in assignment.items()}


def keeping(name: AssignorName, counts: dict[str, int], **owned: str) -> dict[str, str]:
    """What members get who want every topic and own these partitions since generation 1."""
    subscriptions = {
        member: Subscription(
            topics=tuple(counts),
            owned=tuple(partitions(has)) if name is COOPERATIVE else (),
            generation_id=1,
            user_data=user_data(name, partitions(has), 1),
        )
        for member, has in owned.items()
    }
    return rendered(assign(name, counts, subscriptions))


def test_example_1_range_restarts_for_each_topic() -> None:
    assert given(RANGE, {"t": 3, "u": 3}, a="t u", b="t u") == {
        "a": "t-0 t-1 u-0 u-1",
        "b": "t-2 u-2",
    }


def test_example_2_roundrobin_continues_across_topics() -> None:
    assert given(ROUNDROBIN, {"t": 3, "u": 3}, a="t u", b="t u") == {
        "a": "t-0 t-2 u-1",
        "b": "t-1 u-0 u-2",
    }


def test_example_3_roundrobin_skips_members_without_the_topic() -> None:
    counts = {"t": 1, "u": 2, "v": 3}
    assert given(ROUNDROBIN, counts, a="t", b="t u", c="t u v") == {
        "a": "t-0",
        "b": "u-0",
        "c": "u-1 v-0 v-1 v-2",
    }


def test_example_4_sticky_balances_better_than_roundrobin() -> None:
    counts = {"t": 1, "u": 2, "v": 3}
    assert given(STICKY, counts, a="t", b="t u", c="t u v") == {
        "a": "t-0",
        "b": "u-0 u-1",
        "c": "v-0 v-1 v-2",
    }


def test_example_5_static_members_are_first_by_instance_id() -> None:
    subscriptions = {
        "a": Subscription(topics=("t",)),
        "b": Subscription(topics=("t",), group_instance_id="z"),
    }
    assert rendered(assign(RANGE, {"t": 3}, subscriptions)) == {"a": "t-2", "b": "t-0 t-1"}


def test_example_6_remaining_members_keep_partitions_and_get_free_ones() -> None:
    """The seed's figure 6: consumer 2 dies, consumer 1 gets its partitions."""
    assert keeping(STICKY, {"t": 4}, a="t-0 t-2") == {"a": "t-0 t-1 t-2 t-3"}
    assert keeping(COOPERATIVE, {"t": 4}, a="t-0 t-2") == {"a": "t-0 t-1 t-2 t-3"}


def test_example_7_cooperative_needs_two_rebalances_for_a_new_member() -> None:
    """Sticky needs one: all partitions are revoked first."""
    owned = {"a": "t-0 t-2", "b": "t-1 t-3", "c": ""}
    assert keeping(STICKY, {"t": 4}, **owned) == {"a": "t-0 t-2", "b": "t-1", "c": "t-3"}
    first = keeping(COOPERATIVE, {"t": 4}, **owned)
    assert first == {"a": "t-0 t-2", "b": "t-1", "c": ""}
    assert keeping(COOPERATIVE, {"t": 4}, **first) == {"a": "t-0 t-2", "b": "t-1", "c": "t-3"}


@pytest.mark.parametrize(("generation", "owner"), [(2, "b"), (0, "a")])
def test_example_8_the_later_generation_wins_a_conflict(generation: int, owner: str) -> None:
    subscriptions = {
        "a": Subscription(topics=("t",), owned=(TopicPartition("t", 0),), generation_id=1),
        "b": Subscription(topics=("t",), owned=(TopicPartition("t", 0),), generation_id=generation),
    }
    assignment = assign(COOPERATIVE, {"t": 1}, subscriptions)
    assert [member for member, got in assignment.items() if got] == [owner]


def test_example_9_equal_generations_cancel_both_claims() -> None:
    subscriptions = {
        name: Subscription(topics=("t",), owned=(TopicPartition("t", 0),), generation_id=1)
        for name in "ab"
    }
    assert rendered(assign(COOPERATIVE, {"t": 1}, subscriptions)) == {"a": "", "b": ""}


def test_a_deleted_partition_has_no_owner() -> None:
    """A topic recreated with fewer partitions: Kafka 4.3.1 then assigns others twice."""
    got = keeping(COOPERATIVE, {"t": 2, "u": 2}, a="t-1 t-5", b="u-0")
    assert sorted(" ".join(got.values()).split()) == ["t-0", "t-1", "u-0", "u-1"]


def test_without_topics_assignments_are_empty() -> None:
    for name in AssignorName:
        assert given(name, {}, a="t", b="t") == {"a": "", "b": ""}
