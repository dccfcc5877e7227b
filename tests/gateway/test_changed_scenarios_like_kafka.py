"""Scenarios with changed fields, or repeated requests, beside a real broker: answers are the same.

`EXAMPLES=500` plays that many, others each time; no fewer than the suite does.
"""

import difflib
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest

from brokertwin.kafka_io import properties
from brokertwin.kafka_io.kafka_broker import EmbeddedKafka
from brokertwin.settings import default_home
from tests.support.changed_scenarios import AGAIN, NAMES, WHOLE, Changes, played
from tests.support.gateways import running_gateway
from tests.support.walk_sides import seeds

SCENARIOS = 60
REPEATED = (
    "idem_duplicates_of_last_five",
    "fetch_wrong_session_epoch",
    "grp_commit_checks",
    "txn_end_v5_bumps_epoch",
    "idem_old_epoch",
    "fetch_session_close",
    "grp_heartbeat_errors",
    "txn_fenced_by_new_epoch",
    "idem_sequence_wraps",
    "fetch_incremental_add_and_forget",
    "grp_static_fencing",
    "txn_add_offsets_errors",
    "idem_new_epoch_starts_at_zero",
    "fetch_unknown_session_id",
    "grp_leave_batch",
    "txn_commit",
    "idem_sequence_gap",
    "fetch_incremental_only_changed",
    "fetch_session_log_start_change",
    "idem_two_partitions",
)
"""In the suite's run these are the scenarios with repeats: it counts there that a request has come
before. Where they were drawn, rules of a producer's duplicates were broken and none was seen."""

RATES = ((0.05, 0.0), (0.15, 0.0), (0.0, 0.9))
"""Of the fields so many are changed, behind so many steps a request comes again: by the seed."""
PROPERTIES = Path(__file__).parent.parent / "conformance" / "broker.properties"
LEAST = {"apis": 12, "errors": 20, "changes": 50, "again": 60, "whole": 20}
"""So many APIs, errors of an API, changes, requests that came again among them, and scenarios that
none of it breaks."""

AGAIN_MOST = 0.1
"""Of the scenarios so many may differ once: by times, or what others list."""

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


def name_of(seed: int) -> str:
    """Which scenario is played."""
    turn, rate = divmod(seed, len(RATES))
    is_repeated = RATES[rate][1] > 0 and turn < len(REPEATED)
    return REPEATED[turn] if is_repeated else Random(seed).choice(NAMES)


def both(name: str, seed: int, sides: Sides) -> tuple[Changes, Counter[str], list[list[str]]]:
    """What was changed, what Kafka's errors were, and the transcripts, ours first."""
    every = [Changes(f"{seed} {name}", *RATES[seed % len(RATES)]) for _ in sides]
    met: list[Counter[str]] = [Counter() for _ in sides]
    with ThreadPoolExecutor(len(sides)) as pool:
        told = pool.map(
            lambda changes, side, errors: played(name, changes, *side, errors), every, sides, met
        )
        return every[0], met[1], list(told)


@pytest.mark.kafka
def test_every_answer_of_a_changed_scenario_is_kafkas(sides: Sides) -> None:
    met: Counter[str] = Counter()
    again, reached = 0, Counter[str]()
    walks = seeds(SCENARIOS)
    for seed in walks:
        name = name_of(seed)
        changes, errors, told = both(name, seed, sides)
        met += errors
        reached["changes"] += len(changes.made)
        reached["again"] += sum(each.startswith(AGAIN) for each in changes.made)
        reached["whole"] += told[1][-1] == WHOLE
        for _ in range(2):
            if told[0] != told[1]:
                again += 1
                _, _, told = both(name, seed, sides)
        found = difflib.unified_diff(told[1], told[0], "Kafka", "gateway", lineterm="")
        assert told[0] == told[1], "\n".join([f"seed {seed}, {name}", *changes.made, *found])
    assert again <= max(AGAIN_MOST * len(walks), 4)
    reached["apis"] = len({each.partition(" ")[0] for each in met})
    reached["errors"] = sum(not each.endswith(" 0") for each in met)
    assert all(reached[what] >= least for what, least in LEAST.items()), (reached, met)
