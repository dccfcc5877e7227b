"""Scenarios of the exam with changed fields or repeated requests, compared with Kafka.

`GOLDENS=compare EXAMPLES=500` plays that many others, no fewer than a check does.
"""

import difflib
from collections import Counter
from collections.abc import Iterator
from functools import partial
from random import Random
from typing import NamedTuple

import msgspec
import pytest

from brokertwin.gateway.engine.engine import now_ms
from brokertwin.gateway.engine.local_engine import LocalEngine
from brokertwin.testing.exam.site import Site, look
from tests.exam.record import SETTINGS as RECORDED
from tests.support.changed_scenarios import AGAIN, Changes, played, scenarios
from tests.support.gateways import running_gateway
from tests.support.goldens import IS_LIVE, real_broker, source_of, tape
from tests.support.stepped_clock import SkippingClock
from tests.support.walk_sides import seeds

SETTINGS = {**RECORDED, "group.initial.rebalance.delay.ms": "0"}
SCENARIOS = 60
REPEATED = ("idem_", "fetch_session", "txn_", "grp_")
"""Beginnings of the scenarios with repeated requests; other ones missed broken rules for
duplicates."""

RATES = ((0.05, 0.0), (0.15, 0.0), (0.0, 0.9))
"""Shares of changed fields and of repeated requests, selected by the seed."""
LEAST = {"apis": 12, "errors": 20, "changes": 50, "again": 60, "whole": 20}
"""Minimum numbers of APIs, errors of an API, changes, repeated requests, and unbroken scenarios."""

AGAIN_MOST = 0.1
"""Share of the scenarios that may differ once: by times, or in the order of lists."""

TRIES = 3


class Played(NamedTuple):
    """The result of a scenario: changes, errors counted by API, observations and the end."""

    changes: list[str]
    errors: dict[str, int]
    transcript: list[str]


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site | None]:
    with real_broker(tmp_path_factory.mktemp("changed") / "broker", SETTINGS) as address:
        yield look(address, []) if IS_LIVE else None


def name_of(seed: int) -> str:
    is_repeated = RATES[seed % len(RATES)][1] > 0
    names = [name for name in scenarios() if not is_repeated or name.startswith(REPEATED)]
    return Random(seed).choice(names)


def play(name: str, seed: int, site: Site, clock: SkippingClock | None = None) -> Played:
    changes, errors = Changes(f"{seed} {name}", *RATES[seed % len(RATES)]), Counter[str]()
    transcript = played(scenarios()[name], changes, site, errors, clock)
    return Played([*changes.made], dict(errors), transcript)


@pytest.mark.compares
def test_changed_scenarios_have_the_transcripts_of_a_real_broker(real: Site) -> None:
    met: Counter[str] = Counter()
    again, reached = 0, Counter[str]()
    walks = seeds(SCENARIOS)
    clock = None if IS_LIVE else SkippingClock()
    engine_type = partial(LocalEngine, clock=clock or now_ms)
    with (
        tape("scenarios/changed", SETTINGS) as recording,
        running_gateway(SETTINGS, engine_type=engine_type) as gateway,
    ):
        site = look(gateway.addresses[1], [])
        for seed in walks:
            name = name_of(seed)
            steps = msgspec.to_builtins(scenarios()[name].steps)
            key = [name, seed, RATES, steps, source_of(Changes)]
            for attempt in range(TRIES):
                ours = play(name, seed, site, clock)
                theirs = Played(*recording.response(key, partial(play, name, seed, real)))
                again += attempt > 0
                if ours.transcript == theirs.transcript:
                    break
            found = difflib.unified_diff(
                theirs.transcript, ours.transcript, "Kafka", "gateway", lineterm=""
            )
            assert ours.transcript == theirs.transcript, "\n".join(
                [f"seed {seed}, {name}", *theirs.changes, *found]
            )
            met.update(theirs.errors)
            reached["changes"] += len(theirs.changes)
            reached["again"] += sum(each.startswith(AGAIN) for each in theirs.changes)
            reached["whole"] += theirs.transcript[-1] == ""
    assert again <= max(AGAIN_MOST * len(walks), 4)
    reached["apis"] = len({each.partition(" ")[0] for each in met})
    reached["errors"] = sum(not each.endswith(" 0") for each in met)
    assert all(reached[what] >= least for what, least in LEAST.items()), (reached, met)
