"""Runs: deterministic for a seed, and violations are detected."""

import os
import subprocess

import msgspec
import psutil
import pytest

from brokertwin.simulation.campaign import CampaignTally, results
from brokertwin.simulation.plan import EngineKind, draw
from brokertwin.simulation.run import simulate
from tests.support.console import command
from tests.support.patience import wait_until

SEEDS = int(os.environ.get("SEEDS", "1000"))
FIRST = int(os.environ.get("FIRST_SEED", "0"))
CHUNK = 250
"""Seeds of one test, so that the suite's workers share them."""


@pytest.mark.parametrize("engine", list(EngineKind))
def test_a_seed_always_gives_the_same_run(engine: EngineKind) -> None:
    plans = (plan for plan in map(draw, range(99)) if plan.engine is engine and plan.brokers == 1)
    plan = msgspec.structs.replace(next(plans), active_ms=1_500)
    checked = msgspec.structs.replace(plan, is_checked_whole=True)
    first, second = simulate(plan, is_traced=True), simulate(checked, is_traced=True)
    assert first.trace == second.trace
    assert len(first.trace) > 50
    assert first.violations == []


@pytest.mark.processes
@pytest.mark.parametrize("first", range(FIRST, FIRST + SEEDS, CHUNK))
def test_no_seed_has_a_violation_and_every_kind_is_drawn(first: int) -> None:
    tally = CampaignTally()
    for result in results(range(first, min(first + CHUNK, FIRST + SEEDS)), workers=1):
        tally.add(result)
    assert tally.failed == {}
    assert tally.missing == []


@pytest.mark.processes
def test_a_killed_campaign_leaves_no_process() -> None:
    """Workers of `simulate --workers` used to wait for work forever."""
    with subprocess.Popen(command("simulate", "--seeds", 5000, "--workers", 2)) as simulating:
        process = psutil.Process(simulating.pid)
        wait_until(lambda: len(process.children()) >= 2, "processes for runs")
        workers = process.children()
        simulating.kill()
    wait_until(lambda: not any(each.is_running() for each in workers), f"left behind: {workers}")
