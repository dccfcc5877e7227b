"""The high watermark by rule, and the effects of a new leader."""

from hypothesis import given, settings
from hypothesis import strategies as st

from brokertwin.recordings.history.replicas import UNKNOWN, PartitionReplicas, SentWatermark
from tests.support.examples import examples


def led(isr: list[int], leader_end: int = 10, **ends: int) -> PartitionReplicas:
    """A partition of brokers [1, 2, 3] with leader 1; `b2=8` is the LEO of broker 2."""
    known = PartitionReplicas(leader=1, leader_epoch=0, replicas=[1, 2, 3], isr=isr)
    known.append(leader_end)
    for name, end in ends.items():
        known.fetched(int(name[1:]), end, 0)
    return known


def test_high_watermark_is_the_least_of_the_in_sync_leos() -> None:
    known = led([1, 2, 3], b2=8, b3=5)
    assert known.raise_high_watermark(1)
    assert known.high_watermark == 5


def test_replica_out_of_sync_does_not_count() -> None:
    known = led([1, 2], b2=8, b3=5)
    assert known.raise_high_watermark(1)
    assert known.high_watermark == 8


def test_joining_replica_counts() -> None:
    known = led([1, 2], b2=8, b3=5)
    known.joining = [3]
    assert known.raise_high_watermark(1)
    assert known.high_watermark == 5


def test_high_watermark_does_not_move_below_min_insync_replicas() -> None:
    known = led([1])
    assert not known.raise_high_watermark(2)
    assert known.high_watermark == UNKNOWN
    assert known.raise_high_watermark(1)


def test_min_insync_replicas_is_at_most_the_number_of_replicas() -> None:
    known = PartitionReplicas(leader=1, leader_epoch=0, replicas=[1], isr=[1])
    known.append(4)
    assert known.raise_high_watermark(2)


def test_follower_without_a_fetch_holds_the_high_watermark() -> None:
    assert not led([1, 2, 3], b2=8).raise_high_watermark(1)


def test_new_leader_starts_with_the_high_watermark_it_was_sent() -> None:
    known = led([1, 2, 3], b2=8, b3=7)
    known.raise_high_watermark(1)
    known.sent_hws = {2: SentWatermark(6, arrived=5)}
    assert known.lead(2, 1)
    assert (known.high_watermark, known.leader_end, known.ends) == (6, 8, {})
    assert known.start == 5, "the last response may be lost"
    assert not known.is_assumed
    known.fetched(3, 7, 1)
    assert not known.raise_high_watermark(1), "broker 1 is in sync, and has not fetched"


def test_new_leader_without_a_sent_high_watermark_is_open() -> None:
    known = led([1, 2, 3], b2=8)
    assert known.lead(3, 1)
    assert known.high_watermark == UNKNOWN
    assert known.is_assumed


def test_older_epoch_is_no_news() -> None:
    known = led([1, 2, 3])
    known.lead(2, 3)
    assert not known.lead(1, 2)
    assert known.leader == 2


def test_all_replicas_are_in_sync_until_an_isr_is_known() -> None:
    known = PartitionReplicas(leader=1, leader_epoch=0)
    known.fetched(2, 3, 1)
    assert known.in_sync == [1, 2]
    known.replicas = [1, 2, 3]
    assert known.in_sync == [1, 2, 3]
    known.isr = [2]
    assert known.in_sync == [2]


def test_follower_is_caught_up_at_the_leo_now_or_at_its_last_fetch() -> None:
    known = led([1, 2, 3], leader_end=6)
    known.fetched(2, 3, 500)
    assert known.progress[2].caught_up == UNKNOWN
    known.fetched(2, 6, 1000)
    assert known.progress[2].caught_up == 1000
    known.append(15)
    known.fetched(2, 6, 1500)
    assert known.progress[2].caught_up == 1000, "it reached the LEO of its last fetch"
    known.append(20)
    known.fetched(2, 15, 2000)
    assert known.progress[2].caught_up == 1500


def test_follower_with_records_to_read_is_not_caught_up() -> None:
    known = led([1, 2], leader_end=6)
    known.fetched(2, 6, 1000, has_read=True)
    assert (known.progress[2].caught_up, known.progress[2].leader_end) == (UNKNOWN, 7)
    known.fetched(2, 6, 1500, has_read=True)
    assert known.progress[2].caught_up == UNKNOWN
    known.fetched(2, 8, 2000, has_read=True)
    assert known.progress[2].caught_up == 1500, "it reached the LEO of its last fetch"


def test_high_watermark_does_not_go_back_when_a_lagging_replica_joins() -> None:
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
def test_high_watermark_of_a_leader_never_goes_back_nor_beyond_an_in_sync_replica(
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
