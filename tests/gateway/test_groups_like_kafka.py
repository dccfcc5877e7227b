"""Consumer groups: compare random walks and all kinds of rows with Kafka.

`GOLDENS=compare EXAMPLES=500` takes that many other walks.
"""

import json
import re
from collections.abc import Callable

import pytest

from brokertwin.gateway.edge_fields import Address
from tests.support.group_lives import (
    classic_life,
    consumer_life,
    share_life,
    share_life_with_deleted_topic,
    streams_life,
)
from tests.support.group_rows import kinds_of_same_rows, noted_rows
from tests.support.group_walks import TOPICS, Walk
from tests.support.walk_sides import Side, both_sides, seeds, walked

WALKS, STEPS = 25, 50
AT_ONCE = {"consumer.assignment.interval.ms": "0"}
"""Groups compute their target assignments at once."""

ALL_AT_ONCE = {
    **AT_ONCE,
    "share.assignment.interval.ms": "0",
    "streams.assignment.interval.ms": "0",
    "streams.initial.rebalance.delay.ms": "0",
}
WITHOUT_DELAY = {"group.initial.rebalance.delay.ms": "0"}
"""Our broker does not delay the first rebalance of a classic group, as a real one does."""


def test_random_walks_get_the_responses_and_rows_of_a_real_broker(real_kafka: Address) -> None:
    walks = {seed: Walk(seed, name) for seed, name in seeds(WALKS).items()}
    groups = [group for walk in walks.values() for group in walk.groups]
    received = set()
    with noted_rows() as rows, both_sides(real_kafka, "groups/consumer_walks", TOPICS) as sides:
        for side in sides:
            side.begin(groups, AT_ONCE)
        for seed, walk in walks.items():
            for step, response in walked(sides, walk, seed, STEPS):
                codes = re.findall(r'"errorCode": (-?\d+)', json.dumps(response))
                received |= {(step.api, code) for code in codes}
        assert sides.real.tape is not None
        kinds = kinds_of_same_rows(sides.real.tape, real_kafka, rows, groups)
    wanted = {("CONSUMER_GROUP_HEARTBEAT", each) for each in ("0", "25", "42", "69", "110", "111")}
    wanted |= {("OFFSET_COMMIT", each) for each in ("0", "3", "12", "25", "35", "100", "113")}
    wanted |= {("OFFSET_DELETE", each) for each in ("0", "3", "24", "69", "86")}
    wanted |= {("OFFSET_FETCH", each) for each in ("0", "-1", "25", "100", "113")}
    assert wanted <= received
    assert kinds - {4} == {1, 2, 3, 5, 6, 7, 8}, "4: a deleted group, which few walks have"


@pytest.mark.parametrize(
    ("life", "kinds"),
    [
        (classic_life, {1, 2}),
        (consumer_life, {1, 3, 4, 5, 6, 7, 8}),
        (share_life, {10, 11, 12, 13, 14, 15}),
        (share_life_with_deleted_topic, {10, 11, 12, 13, 14, 15}),
        (streams_life, {1, 17, 19, 20, 21, 22, 23}),
    ],
)
def test_a_groups_life_leaves_the_rows_of_a_real_broker(
    life: Callable[[Side, str], None], kinds: set[int], real_kafka: Address
) -> None:
    group = name = life.__name__
    sides_of = both_sides(real_kafka, f"groups/{name}", TOPICS, WITHOUT_DELAY)
    with noted_rows() as rows, sides_of as sides:
        for side in sides:
            side.begin([group], ALL_AT_ONCE)
            life(side, group)
        assert sides.real.tape is not None
        assert kinds_of_same_rows(sides.real.tape, real_kafka, rows, [group]) == kinds
