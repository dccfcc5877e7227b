"""Consumer groups beside a real broker: all answers of random walks are the same.

`EXAMPLES=500` goes that many walks, others each time.
"""

import json
import re
from collections.abc import Iterator

import pytest

from tests.support.group_walks import TOPICS, Walk
from tests.support.walk_sides import Sides, both_sides, seeds

WALKS, STEPS = 25, 50
AT_ONCE = {"consumer.assignment.interval.ms": "0"}
"""Targets of the groups are computed at once."""


@pytest.fixture(scope="module")
def sides(kafka: str) -> Iterator[Sides]:
    with both_sides(kafka, TOPICS) as found:
        yield found


def test_every_answer_of_a_random_walk_is_kafkas(sides: Sides) -> None:
    walks = {seed: Walk(seed, f"walk-{seed}") for seed in seeds(WALKS)}
    heard = set()
    for side in sides:
        side.begin([group for walk in walks.values() for group in walk.groups], AT_ONCE)
    for seed, walk in walks.items():
        for at in range(STEPS):
            step = walk.step()
            ours, theirs = (side.answer(step, walk.groups) for side in sides)
            assert ours == theirs, f"seed {seed}, step {at}: {step}"
            walk.hear(step, theirs)
            heard |= {
                (step.api, code) for code in re.findall(r'"errorCode": (-?\d+)', json.dumps(ours))
            }
    wanted = {("CONSUMER_GROUP_HEARTBEAT", each) for each in ("0", "25", "42", "69", "110", "111")}
    wanted |= {("OFFSET_COMMIT", each) for each in ("0", "3", "12", "25", "35", "100", "113")}
    wanted |= {("OFFSET_DELETE", each) for each in ("0", "3", "24", "69", "86")}
    wanted |= {("OFFSET_FETCH", each) for each in ("0", "-1", "25", "100", "113")}
    assert wanted <= heard
