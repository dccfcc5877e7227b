"""A word count through losses: one owner for each task, counts exact, or at least complete."""

import sys
from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.examples import examples
from tests.support.lossy_streams import FAULTS, LossyStreams, Schedule, Step

LIKELY = (*Step, Step.WAIT, Step.WAIT, Step.SEND, Step.SEND, Step.START)
SCHEDULES = st.lists(
    st.tuples(st.sampled_from(LIKELY), st.integers(0, 11)), min_size=6, max_size=16
)


def play(schedule: Schedule, *, exactly_once: bool, replicas: int = 0) -> LossyStreams:
    made = LossyStreams(exactly_once=exactly_once, num_standby_replicas=replicas)
    made.play(schedule)
    made.settle()
    return made


@settings(max_examples=examples(3))
@given(SCHEDULES, st.integers(0, 1))
def test_exactly_once_each_word_is_counted_once(schedule: Schedule, replicas: int) -> None:
    assert play(schedule, exactly_once=True, replicas=replicas).violations == []


@settings(max_examples=examples(2))
@given(SCHEDULES, st.integers(0, 1))
def test_at_least_once_no_word_is_lost(schedule: Schedule, replicas: int) -> None:
    assert play(schedule, exactly_once=False, replicas=replicas).violations == []


SEEDS = (6, 24, 32, 59)
"""Of schedules that have found faults, or find rules broken on purpose."""


@pytest.mark.long
def test_schedules_detect_broken_rules() -> None:
    """In them everything goes wrong that can."""
    injected: Counter[str] = Counter()
    for seed in SEEDS:
        random = Random(seed)
        schedule = [(random.choice(LIKELY), random.randrange(12)) for _ in range(20)]
        made = play(schedule, exactly_once=True, replicas=seed % 2)
        assert made.violations == []
        injected.update(made.injected)
    reported = ", ".join(f"{count} {what}" for what, count in sorted(injected.items()))
    sys.stdout.write(f"losses: {reported}\n")
    assert all(injected[fault] for fault in FAULTS), injected
