"""The high watermark by rule, and what a change of leader does to it."""

from hypothesis import given, settings
from hypothesis import strategies as st

from brokertwin.state.observed.replicas import UNKNOWN, PartitionReplicas
from tests.support.examples import examples


def led(isr: list[int], leader_end: int = 10, **ends: int) -> PartitionReplicas:
    """A partition of brokers 1, 2 and 3, led by 1; `b2=8` is the LEO of broker 2."""
    known = PartitionReplicas("id", 0, leader=1, leader_epoch=0, replicas=[1, 2, 3], isr=isr)
    known.append(leader_end)
    for name, end in ends.items():
        known.fetched(int(name[1:]), end, 0)
    return known


def test_the_least_of_those_in_sync() -> None:
    known = led([1, 2, 3], b2=8, b3=5)
    assert known.raise_high_watermark(1)
    assert known.high_watermark == 5


def test_who_is_not_in_sync_does_not_count() -> None:
    known = led([1, 2], b2=8, b3=5)
    assert known.raise_high_watermark(1)
    assert known.high_watermark == 8


def test_who_is_let_in_counts_before_it_is_in() -> None:
    known = led([1, 2], b2=8, b3=5)
    known.joining = [3]
    assert known.raise_high_watermark(1)
    assert known.high_watermark == 5


def test_below_min_insync_replicas_it_stands_still() -> None:
    known = led([1])
    assert not known.raise_high_watermark(2)
    assert known.high_watermark == UNKNOWN
    assert known.raise_high_watermark(1)


def test_min_insync_replicas_is_no_more_than_there_are_replicas() -> None:
    known = PartitionReplicas("id", 0, leader=1, leader_epoch=0, replicas=[1], isr=[1])
    known.append(4)
    assert known.raise_high_watermark(2)


def test_a_follower_that_has_not_fetched_yet_holds_it_back() -> None:
    assert not led([1, 2, 3], b2=8).raise_high_watermark(1)


def test_a_new_leader_begins_with_what_it_was_told_and_knows_of_no_follower() -> None:
    known = led([1, 2, 3], b2=8, b3=7)
    known.raise_high_watermark(1)
    known.told = {2: 6}
    assert known.lead(2, 1)
    assert (known.high_watermark, known.leader_end, known.ends) == (6, 8, {})
    assert not known.is_assumed
    known.fetched(3, 7, 1)
    assert not known.raise_high_watermark(1), "broker 1 is in sync, and has not fetched"


def test_a_new_leader_that_nobody_has_told_anything_is_open() -> None:
    known = led([1, 2, 3], b2=8)
    assert known.lead(3, 1)
    assert known.high_watermark == UNKNOWN
    assert known.is_assumed


def test_an_older_epoch_is_no_news() -> None:
    known = led([1, 2, 3])
    known.lead(2, 3)
    assert not known.lead(1, 2)
    assert known.leader == 2


def test_all_replicas_are_in_sync_until_somebody_says_otherwise() -> None:
    known = PartitionReplicas("id", 0, leader=1, leader_epoch=0)
    known.fetched(2, 3, 1)
    assert known.in_sync == [1, 2]
    known.replicas = [1, 2, 3]
    assert known.in_sync == [1, 2, 3]
    known.isr = [2]
    assert known.in_sync == [2]


def test_a_follower_is_caught_up_at_the_end_or_where_the_end_was_at_its_last_fetch() -> None:
    known = led([1, 2, 3], leader_end=6)
    known.fetched(2, 3, 500)
    assert known.progress[2].caught_up == UNKNOWN
    known.fetched(2, 6, 1000)
    assert known.progress[2].caught_up == 1000
    known.append(15)
    known.fetched(2, 6, 1500)
    assert known.progress[2].caught_up == 1000, "it is at what was the end a fetch before"
    known.append(20)
    known.fetched(2, 15, 2000)
    assert known.progress[2].caught_up == 1500


def test_it_does_not_go_back_when_somebody_behind_comes_in() -> None:
    known = led([1, 2], b2=8, b3=5)
    known.raise_high_watermark(1)
    known.isr = [1, 2, 3]
    assert not known.raise_high_watermark(1)
    assert known.high_watermark == 8


@settings(max_examples=examples(200))
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("append"), st.integers(0, 50)),
            st.tuples(st.sampled_from(["2", "3"]), st.integers(0, 50)),
            st.tuples(st.just("isr"), st.sampled_from([(1,), (1, 2), (1, 3), (1, 2, 3)])),
        ),
        min_size=5,
    ),
    st.integers(1, 3),
)
def test_on_one_leader_it_never_goes_back_nor_beyond_anybody_in_sync(
    facts: list[tuple[str, int | tuple[int, ...]]], min_isr: int
) -> None:
    known = led([1, 2, 3], leader_end=0, b2=0, b3=0)
    for kind, value in facts:
        before = known.high_watermark
        if isinstance(value, tuple):
            known.isr = list(value)
        elif kind == "append":
            known.append(value)
        else:
            known.fetched(int(kind), max(value, known.ends.get(int(kind), 0)), 0)
        if known.raise_high_watermark(min_isr):
            assert known.high_watermark > before
            ends = known.ends | {1: known.leader_end}
            assert all(known.high_watermark <= ends[broker] for broker in known.isr)
            assert len(known.isr) >= min_isr
        else:
            assert known.high_watermark == before
