"""Groups beside a real broker: answers of random walks are the same, and rows of every kind, too.

`EXAMPLES=500` goes that many walks, others each time.
"""

import json
import re
import uuid
from collections.abc import Callable, Iterator

import pytest

from tests.support.group_lives import classic_life, share_life, streams_life
from tests.support.group_rows import Row, kinds_of_same_rows, noted_rows
from tests.support.group_walks import TOPICS, Walk
from tests.support.walk_sides import Side, Sides, both_sides, seeds, walked

WALKS, STEPS = 25, 50
AT_ONCE = {"consumer.assignment.interval.ms": "0"}
"""Targets of the groups are computed at once."""


@pytest.fixture(scope="module")
def rows() -> Iterator[list[Row]]:
    with noted_rows() as found:
        yield found


@pytest.fixture(scope="module")
def sides(kafka: str, rows: list[Row]) -> Iterator[Sides]:
    with both_sides(kafka, TOPICS) as found:
        yield found


def test_every_answer_and_row_of_a_random_walk_is_kafkas(
    kafka: str, sides: Sides, rows: list[Row]
) -> None:
    walks = {seed: Walk(seed, name) for seed, name in seeds(WALKS).items()}
    groups = [group for walk in walks.values() for group in walk.groups]
    heard = set()
    for side in sides:
        side.begin(groups, AT_ONCE)
    for seed, walk in walks.items():
        for step, answer in walked(sides, walk, seed, STEPS):
            codes = re.findall(r'"errorCode": (-?\d+)', json.dumps(answer))
            heard |= {(step.api, code) for code in codes}
    wanted = {("CONSUMER_GROUP_HEARTBEAT", each) for each in ("0", "25", "42", "69", "110", "111")}
    wanted |= {("OFFSET_COMMIT", each) for each in ("0", "3", "12", "25", "35", "100", "113")}
    wanted |= {("OFFSET_DELETE", each) for each in ("0", "3", "24", "69", "86")}
    wanted |= {("OFFSET_FETCH", each) for each in ("0", "-1", "25", "100", "113")}
    assert wanted <= heard
    assert kinds_of_same_rows(kafka, rows, groups) == {1, 2, 3, 5, 6, 7, 8}


@pytest.mark.parametrize(
    ("life", "kinds"),
    [
        (classic_life, {1, 2}),
        (share_life, {10, 11, 12, 13, 14, 15}),
        (streams_life, {1, 17, 19, 20, 21, 22, 23}),
    ],
)
def test_a_groups_life_leaves_the_same_rows(
    life: Callable[[Side, str], None],
    kinds: set[int],
    kafka: str,
    sides: Sides,
    rows: list[Row],
) -> None:
    group = f"{life.__name__}-{uuid.uuid4()}"
    for side in sides:
        side.begin([group], AT_ONCE)
        life(side, group)
    assert kinds_of_same_rows(kafka, rows, [group]) == kinds
