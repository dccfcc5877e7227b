"""Scenarios with changed fields beside a real broker: every answer is the same.

`EXAMPLES=500` plays that many, others each time.
"""

import difflib
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest

from brokerstream.kafka_io import properties
from brokerstream.kafka_io.kafka_broker import EmbeddedKafka
from brokerstream.settings import default_home
from tests.support.changed_scenarios import NAMES, Changes, played
from tests.support.gateways import running_gateway
from tests.support.walk_sides import seeds

SCENARIOS = 40
RATES = (0.05, 0.15)
PROPERTIES = Path(__file__).parent.parent / "conformance" / "broker.properties"
LEAST = {"apis": 12, "errors": 20, "changes": 50}
"""So many APIs, errors of an API and changes of a field are met."""

Sides = tuple[tuple[str, int], tuple[str, int]]


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    """Ours and a real broker."""
    given = properties.read(PROPERTIES)
    broker = EmbeddedKafka(tmp_path_factory.mktemp("changed") / "broker", default_home())
    try:
        host, _, port = broker.start(given).rpartition(":")
        with running_gateway(given) as gateway:
            address = gateway.addresses[1]
            yield (address.host, address.port), (host, int(port))
    finally:
        broker.stop()


def both(name: str, seed: int, sides: Sides, met: Counter[str]) -> tuple[Changes, list[list[str]]]:
    """What was changed, and the two transcripts."""
    every = [Changes(f"{seed} {name}", RATES[seed % 2]) for _ in sides]
    with ThreadPoolExecutor(len(sides)) as pool:
        told = pool.map(lambda changes, side: played(name, changes, *side, met), every, sides)
        return every[0], list(told)


@pytest.mark.kafka
def test_every_answer_of_a_changed_scenario_is_kafkas(sides: Sides) -> None:
    """What differs is played again: times and what others list may have been the cause."""
    met: Counter[str] = Counter()
    count = 0
    for seed in seeds(SCENARIOS):
        name = Random(seed).choice(NAMES)
        changes, told = both(name, seed, sides, met)
        for _ in range(2):
            if told[0] != told[1]:
                _, told = both(name, seed, sides, met)
        found = difflib.unified_diff(told[1], told[0], "Kafka", "gateway", lineterm="")
        assert told[0] == told[1], "\n".join([f"seed {seed}, {name}", *changes.made, *found])
        count += len(changes.made)
    errors = {each for each in met if not each.endswith(" 0")}
    reached = {"apis": len({each.partition(" ")[0] for each in met}), "errors": len(errors)}
    reached["changes"] = count
    assert all(reached[what] >= least for what, least in LEAST.items()), (reached, met)
