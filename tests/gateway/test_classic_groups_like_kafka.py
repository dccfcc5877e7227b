"""Classic groups beside a real broker: answers of random walks and rows are the same.

`EXAMPLES=150` goes that many walks, others each time.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from brokertwin.kafka_io.kafka_broker import EmbeddedKafka
from brokertwin.settings import default_home
from tests.support.classic_walks import SETTINGS, ClassicWalk
from tests.support.group_rows import kinds_of_same_rows, noted_rows
from tests.support.group_walks import TOPICS
from tests.support.waiting_sides import WaitingSides
from tests.support.walk_sides import both_sides, seeds, too_few

WALKS, STEPS = 15, 60
ONE_AFTER_THE_OTHER = {"num.network.threads": "1", "num.io.threads": "1"}
"""What the real broker has read first it does first."""
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
"""How often the walks meet an error of an API, so many members, and the end of a time."""


@pytest.fixture(scope="module")
def patient_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real broker that lets sessions be short."""
    home: Path = tmp_path_factory.mktemp("classic")
    broker = EmbeddedKafka(home / "broker", default_home())
    try:
        yield broker.start(SETTINGS | ONE_AFTER_THE_OTHER)
    finally:
        broker.stop()


@pytest.mark.kafka
def test_every_answer_and_row_of_a_random_walk_is_kafkas(patient_kafka: str) -> None:
    walks = {seed: ClassicWalk(seed, name) for seed, name in seeds(WALKS).items()}
    groups = [group for walk in walks.values() for group in walk.groups]
    met: Counter[tuple[str, str]] = Counter()
    with noted_rows() as rows, both_sides(patient_kafka, TOPICS, SETTINGS) as sides:
        for side in sides:
            side.begin(groups, {})
        for seed, walk in walks.items():
            for step, answer in WaitingSides(sides, walk).walked(seed, STEPS):
                codes = re.findall(r'"errorCode": (-?\d+)', json.dumps(answer))
                met.update((step.api, code) for code in codes)
                if step.api == "JOIN_GROUP" and answer["members"]:
                    met["members led", str(len(answer["members"]))] += 1
            met["over", "sessions"] += len(walk.doomed)
            met["over", "phases"] += walk.short_phases
        assert not too_few(met, LEAST), met
        assert kinds_of_same_rows(patient_kafka, rows, groups) == {1, 2}
