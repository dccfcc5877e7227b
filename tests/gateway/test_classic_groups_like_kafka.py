"""Classic groups: compare random walks and rows with a real broker.

`GOLDENS=compare EXAMPLES=150` takes that many other walks.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from functools import partial

import pytest

from brokertwin.gateway.edge_fields import Address
from brokertwin.gateway.engine.engine import now_ms
from brokertwin.gateway.engine.local_engine import LocalEngine
from tests.support.classic_walks import SETTINGS, ClassicWalk
from tests.support.goldens import IS_LIVE, real_broker
from tests.support.group_rows import kinds_of_same_rows, noted_rows
from tests.support.group_walks import TOPICS
from tests.support.stepped_clock import SteppedClock
from tests.support.waiting_sides import WaitingSides
from tests.support.walk_sides import both_sides, seeds, too_few

WALKS, STEPS = 15, 60
ONE_AFTER_THE_OTHER = {"num.network.threads": "1", "num.io.threads": "1"}
"""The real broker handles requests in the order in which it reads them."""
LEAST = {
    "JOIN_GROUP": {"0": 60, "23": 10, "24": 1, "25": 5, "26": 1, "79": 30, "82": 30},
    "SYNC_GROUP": {"0": 15, "22": 1, "23": 5, "25": 5, "27": 2, "82": 1},
    "HEARTBEAT": {"0": 8, "25": 8, "27": 2, "82": 1},
    "LEAVE_GROUP": {"0": 15, "25": 2},
    "OFFSET_COMMIT": {"0": 10, "3": 20, "22": 5, "25": 20, "27": 1, "82": 2},
    "OFFSET_DELETE": {"0": 8, "3": 2, "69": 1, "86": 2},
    "OFFSET_FETCH": {"0": 30},
    "DELETE_GROUPS": {"68": 2, "69": 1},
    "members led": {"1": 5, "3": 1, "4": 1},
    "over": {"sessions": 3, "phases": 2},
}
"""Minimum numbers of errors of an API, of members, and of expired times."""


@pytest.fixture(scope="module")
def patient_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    """Start a real broker that accepts short sessions, if one is needed."""
    home = tmp_path_factory.mktemp("classic")
    with real_broker(home / "broker", SETTINGS | ONE_AFTER_THE_OTHER) as address:
        yield address


@pytest.mark.compares
def test_random_walks_get_the_responses_and_rows_of_a_real_broker(patient_kafka: Address) -> None:
    walks = {seed: ClassicWalk(seed, name) for seed, name in seeds(WALKS).items()}
    groups = [group for walk in walks.values() for group in walk.groups]
    met: Counter[tuple[str, str]] = Counter()
    clock = SteppedClock()
    engine_type = partial(LocalEngine, clock=now_ms if IS_LIVE else clock)
    sides_of = both_sides(patient_kafka, "groups/classic_walks", TOPICS, SETTINGS, engine_type)
    with noted_rows() as rows, sides_of as sides:
        for side in sides:
            side.begin(groups, {})
        for seed, walk in walks.items():
            for step, response in WaitingSides(sides, walk, clock).walked(seed, STEPS):
                codes = re.findall(r'"errorCode": (-?\d+)', json.dumps(response))
                met.update((step.api, code) for code in codes)
                if step.api == "JOIN_GROUP" and response["members"]:
                    met["members led", str(len(response["members"]))] += 1
            met["over", "sessions"] += len(walk.doomed)
            met["over", "phases"] += walk.short_phases
        assert not too_few(met, LEAST), met
        assert sides.real.tape is not None
        assert kinds_of_same_rows(sides.real.tape, patient_kafka, rows, groups) == {1, 2}
