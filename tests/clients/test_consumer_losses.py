"""A group of consumers over a network that loses and delays, whose members crash and stall.

No partition has two owners in a generation, nor among those that the coordinator counts as members;
every partition is owned again within the time-outs; no committed offset is lost or goes back.
"""

from collections import Counter
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokertwin.clients.assignors.assign import AssignorName
from brokertwin.clients.consumer_config import ConsumerConfig
from tests.support.examples import examples
from tests.support.group_network import (
    FAULTS,
    GROUP,
    HEARTBEAT_MS,
    REBALANCE_MS,
    SESSION_MS,
    GroupNetwork,
    Schedule,
    Step,
)

USUAL = (Step.REQUEST, Step.RESPONSE, Step.POLL) * 2 + (Step.FLOW, Step.WAIT) * 3
ALL = (*USUAL, Step.CUT, Step.CRASH, Step.LEAVE, Step.START, Step.START)
STEPS = st.sampled_from(ALL)
SEEDS = (3, 6)
"""Seeds of schedules that notice rules broken on purpose."""

SCHEDULES = st.lists(st.tuples(STEPS, st.integers(0, 11)), min_size=20, max_size=60)
JOINED: Schedule = [(Step.START, 0), (Step.START, 0), *([(Step.FLOW, 0)] * 5)]

happened: Counter[str] = Counter()


def config(*assignors: AssignorName) -> ConsumerConfig:
    return ConsumerConfig(
        group_id=GROUP,
        assignors=assignors,
        session_timeout_ms=SESSION_MS,
        heartbeat_interval_ms=HEARTBEAT_MS,
        max_poll_interval_ms=REBALANCE_MS,
        auto_commit_interval_ms=500,
    )


def play(assignor: AssignorName, schedule: Schedule) -> GroupNetwork:
    net = GroupNetwork(config(assignor))
    net.play(JOINED + schedule)
    net.settle()
    happened.update(net.injected)
    return net


@pytest.mark.parametrize("assignor", [AssignorName.RANGE, AssignorName.COOPERATIVE_STICKY])
@settings(max_examples=examples(12))
@given(SCHEDULES)
def test_partitions_have_one_owner_and_offsets_stay(
    assignor: AssignorName, schedule: Schedule
) -> None:
    assert play(assignor, schedule).violations == []


def drawn(seed: int) -> Schedule:
    random = Random(seed)
    return [(random.choice(ALL), random.randrange(12)) for _ in range(40)]


@pytest.mark.parametrize("seed", SEEDS)
def test_schedules_detect_known_bugs(seed: int) -> None:
    assert play(AssignorName.RANGE, drawn(seed)).violations == []
    assert play(AssignorName.COOPERATIVE_STICKY, drawn(seed)).violations == []


def test_all_faults_occurred() -> None:
    """Counted over the schedules above and one for each kind."""
    for number in range(3):
        play(
            AssignorName.RANGE,
            [(Step.POLL, 0), (Step.CUT, number), (Step.RESPONSE, 0), (Step.CRASH, 0)],
        )
    play(AssignorName.RANGE, [(Step.WAIT, 6), (Step.WAIT, 6), (Step.POLL, 0)])
    assert {fault for fault in FAULTS if not happened[fault]} == set()
