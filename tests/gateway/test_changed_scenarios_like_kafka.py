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

from brokertwin.gateway.edge_fields import Address
from brokertwin.gateway.engine.engine import now_ms
from brokertwin.gateway.engine.local_engine import LocalEngine
from tests.support.changed_scenarios import AGAIN, SCENARIOS, WHOLE, ChangedPlayer, Changes, played
from tests.support.gateways import running_gateway
from tests.support.goldens import IS_LIVE, KEEPING, real_broker, source_of, tape
from tests.support.stepped_clock import SkippingClock
from tests.support.walk_sides import seeds

WALKS = 60
REPEATED = (
    "idem_duplicates_of_last_five",
    "fetch_session_wrong_epoch",
    "off_commit_checks",
    "tv2_end_bumps_epoch",
    "idem_old_epoch",
    "fetch_session_close",
    "grp_heartbeat_errors",
    "txn_fenced_by_new_epoch",
    "idem_sequence_wraps",
    "fetch_session_add",
    "grp_static_fencing",
    "txn_add_offsets_errors",
    "idem_new_epoch_starts_at_zero",
    "fetch_session_unknown",
    "grp_leave_batch",
    "txn_commit",
    "idem_sequence_gap",
    "fetch_session_only_changes",
    "fetch_session_log_start",
    "idem_two_partitions",
)
"""The scenarios with repeated requests; drawn ones missed broken rules for duplicates."""

RATES = ((0.05, 0.0), (0.15, 0.0), (0.0, 0.9))
"""Shares of changed fields and of repeated requests, selected by the seed."""
SETTINGS = {**KEEPING, "auto.create.topics.enable": "true"}
LEAST = {"apis": 12, "errors": 20, "changes": 50, "again": 60, "whole": 20}
"""Minimum numbers of APIs, errors of an API, changes, repeated requests, and unbroken scenarios."""

AGAIN_MOST = 0.1
"""Share of the scenarios that may differ once: by times, or in the order of lists."""

TRIES = 3


class Played(NamedTuple):
    """The result of a scenario: changes, errors counted by API, the transcript."""

    changes: list[str]
    errors: dict[str, int]
    transcript: list[str]


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    """Start a real broker with the settings of the exam, if one is needed."""
    directory = tmp_path_factory.mktemp("changed") / "broker"
    with real_broker(directory, SETTINGS) as address:
        yield address


def name_of(seed: int) -> str:
    """Return the scenario's name; a further scenario changes few of the others' choices."""
    turn, rate = divmod(seed, len(RATES))
    if RATES[rate][1] > 0 and turn < len(REPEATED):
        return REPEATED[turn]
    return min(SCENARIOS, key=lambda name: Random(f"{seed} {name}").random())


def play(name: str, seed: int, address: Address, clock: SkippingClock | None = None) -> Played:
    changes = Changes(f"{seed} {name}", *RATES[seed % len(RATES)])
    transcript, errors = played(name, changes, address, clock)
    return Played([*changes.made], dict(errors), transcript)


@pytest.mark.compares
def test_changed_scenarios_have_the_transcripts_of_a_real_broker(real: Address) -> None:
    met: Counter[str] = Counter()
    again, reached = 0, Counter[str]()
    walks = seeds(WALKS)
    clock = None if IS_LIVE else SkippingClock()
    engine_type = partial(LocalEngine, clock=clock or now_ms)
    with (
        tape("scenarios/changed", SETTINGS) as recording,
        running_gateway(SETTINGS, engine_type=engine_type) as gateway,
    ):
        for seed in walks:
            name = name_of(seed)
            steps = msgspec.to_builtins(SCENARIOS[name].steps)
            key = [steps, seed, RATES, source_of(Changes, ChangedPlayer)]
            for attempt in range(TRIES):
                ours = play(name, seed, gateway.addresses[1], clock)
                theirs = Played(*recording.answer(key, partial(play, name, seed, real)))
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
            reached["whole"] += WHOLE in theirs.transcript[-2]
    assert again <= max(AGAIN_MOST * len(walks), 4)
    reached["apis"] = len({each.partition(" ")[0] for each in met})
    reached["errors"] = sum(not each.endswith(" 0") for each in met)
    assert all(reached[what] >= least for what, least in LEAST.items()), (reached, met)
