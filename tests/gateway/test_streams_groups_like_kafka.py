"""Streams groups: compare random walks with a real broker.

`GOLDENS=compare EXAMPLES=150` takes that many other walks.
"""

import json
import re
from collections import Counter

from brokertwin.gateway.edge_fields import Address
from tests.support.streams_walks import SETTINGS, TOPICS, StreamsWalk
from tests.support.walk_sides import Sides, both_sides, seeds, too_few, walked

WALKS, STEPS = 14, 50
LEAST = {
    "STREAMS_GROUP_HEARTBEAT": {"0": 150, "-1": 20, "25": 1, "42": 20, "69": 1, "110": 1, "130": 1},
    "STREAMS_GROUP_DESCRIBE": {"0": 10, "24": 1, "69": 1},
    "OFFSET_COMMIT": {"0": 3, "25": 3, "35": 1, "113": 3},
    "CREATE_TOPICS": {"0": 5},
    "DELETE_TOPICS": {"0": 2},
    "statusCode": {"0": 5, "1": 1, "2": 5, "3": 3, "4": 1},
    "told": {"activeTasks": 50, "standbyTasks": 5, "partitionsByUserEndpoint": 50},
}
"""Minimum numbers of errors of an API, of a status, and of sent fields."""


def _go(sides: Sides, walk: StreamsWalk, seed: int) -> Counter[tuple[str, str]]:
    met: Counter[tuple[str, str]] = Counter()
    for step, response in walked(sides, walk, seed, STEPS):
        if walk.may_change_topics(step, response):
            sides.real.wait_for(sides.ours.partition_counts(walk.topics))
        codes = re.findall(r'"errorCode": (-?\d+)', json.dumps(response))
        met.update((step.api, code) for code in codes)
        met.update(("statusCode", str(each["statusCode"])) for each in response.get("status") or [])
        met.update(("told", name) for name in LEAST["told"] if response.get(name))
    return met


def test_random_walks_get_the_responses_of_a_real_broker(real_kafka: Address) -> None:
    walks = {seed: StreamsWalk(seed, name) for seed, name in seeds(WALKS).items()}
    met: Counter[tuple[str, str]] = Counter()
    with both_sides(real_kafka, "groups/streams_walks", TOPICS) as sides:
        for side in sides:
            side.begin([group for walk in walks.values() for group in walk.groups], SETTINGS)
        for seed, walk in walks.items():
            met += _go(sides, walk, seed)
    assert not too_few(met, LEAST), met
