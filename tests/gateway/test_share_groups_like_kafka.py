"""Share groups: compare all responses of random walks with a real broker.

Each walk reads one partition: with several, and with released records, Kafka's order depends on
timing. `EXAMPLES=150` takes that many other walks.
"""

import json
import re
from collections import Counter

from brokertwin.gateway.edge_fields import Address
from tests.support.patience import wait_until
from tests.support.share_walks import (
    PLACES,
    RECORDS,
    SETTINGS,
    TOPICS,
    ShareWalk,
    batches,
    records_in,
)
from tests.support.walk_sides import Side, Sides, both_sides, seeds, too_few, walked

WALKS, STEPS = 15, 50
LEAST = {
    "SHARE_GROUP_HEARTBEAT": {"0": 80, "25": 1, "42": 5, "69": 1, "110": 1},
    "SHARE_GROUP_DESCRIBE": {"0": 10, "24": 3, "69": 3},
    "SHARE_FETCH": {"-1": 1, "0": 150, "3": 3, "42": 3, "122": 1, "123": 2},
    "SHARE_ACKNOWLEDGE": {"0": 50, "3": 1, "42": 1, "100": 1, "122": 1, "123": 10},
    "DESCRIBE_SHARE_GROUP_OFFSETS": {"0": 10},
    "ALTER_SHARE_GROUP_OFFSETS": {"68": 3},
    "deliveryCount": {"2": 10, "3": 5},
}
"""Minimum numbers of errors of an API, and of records delivered twice."""


def _begin(side: Side, walk: ShareWalk) -> None:
    """Let a member of the walk's group acquire all records, and release them."""
    for step in walk.openings():
        assert side.response(step, walk.groups)["errorCode"] == 0
    epoch = 0

    def fetched() -> int:
        nonlocal epoch
        response = side.response(walk.first_fetch(epoch), walk.groups)
        epoch += 1
        ranges = re.findall(r'"firstOffset": (\d+), "lastOffset": (\d+)', json.dumps(response))
        return sum(int(last) - int(first) + 1 for first, last in ranges)

    wait_until(lambda: fetched() == RECORDS)
    released = side.response(walk.first_release(epoch), walk.groups)
    assert not re.search(r'"errorCode": [^0]', json.dumps(released)), released


def _known(side: Side, walk: ShareWalk) -> dict[int, tuple[int, int]]:
    return records_in(side.response(walk.state(), walk.groups))


def _go(sides: Sides, walk: ShareWalk, seed: int) -> Counter[tuple[str, str]]:
    met: Counter[tuple[str, str]] = Counter()
    for step, response in walked(sides, walk, seed, STEPS):
        if walk.is_closing(step):
            wait_until(lambda: _known(sides.ours, walk) == _known(sides.real, walk))
        text = json.dumps(response)
        met.update((step.api, code) for code in re.findall(r'"errorCode": (-?\d+)', text))
        met.update(("deliveryCount", each) for each in re.findall(r'"deliveryCount": (\d+)', text))
    return met


def test_random_walks_get_the_responses_of_a_real_share_coordinator(real_kafka: Address) -> None:
    walks = {seed: ShareWalk(seed, name) for seed, name in seeds(WALKS).items()}
    met: Counter[tuple[str, str]] = Counter()
    with both_sides(real_kafka, "groups/share_walks", TOPICS) as sides:
        for side in sides:
            side.begin([group for walk in walks.values() for group in walk.groups], SETTINGS)
            for name, partition in PLACES:
                for records in batches():
                    side.write(name, partition, records)
            for walk in walks.values():
                _begin(side, walk)
        for seed, walk in walks.items():
            met += _go(sides, walk, seed)
    assert not too_few(met, LEAST), met
