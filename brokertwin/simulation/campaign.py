"""Runs of many seeds on all cores, with counts of their scenarios."""

import gc
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import msgspec

from brokertwin.processes import cores, end_with_parent
from brokertwin.simulation.plan import OF_STORIES, FaultKind, Role, RunPlan, draw
from brokertwin.simulation.reach import Reach
from brokertwin.simulation.run import Outcomes, simulate

CHUNK = 4
MINIMUM_SEEDS = 120
"""With fewer seeds, a kind may be missing by chance."""

REACHING_SEEDS = 250
"""The same for situations that no plan names."""

APIS = frozenset(
    {
        *("PRODUCE", "FETCH", "LIST_OFFSETS", "METADATA", "API_VERSIONS", "FIND_COORDINATOR"),
        *("JOIN_GROUP", "SYNC_GROUP", "HEARTBEAT", "CONSUMER_GROUP_HEARTBEAT"),
        *("OFFSET_COMMIT", "OFFSET_FETCH", "INIT_PRODUCER_ID", "ADD_PARTITIONS_TO_TXN"),
        *("ADD_OFFSETS_TO_TXN", "TXN_OFFSET_COMMIT", "END_TXN"),
        *("SHARE_GROUP_HEARTBEAT", "SHARE_FETCH", "SHARE_ACKNOWLEDGE"),
    }
)
"""APIs that a campaign must include."""


class SeedResult(msgspec.Struct):
    seed: int
    outcomes: Outcomes
    roles: list[Role]


class CampaignTally(msgspec.Struct):
    """Counts of some runs, and failed seeds."""

    seeds: int = 0
    events: int = 0
    records: int = 0
    elapsed_ms: int = 0
    requests: Counter[str] = msgspec.field(name="asked", default_factory=Counter)
    faults: Counter[FaultKind] = msgspec.field(default_factory=Counter)
    reached: Counter[Reach] = msgspec.field(default_factory=Counter)
    roles: Counter[Role] = msgspec.field(default_factory=Counter)
    failed: dict[int, list[str]] = msgspec.field(default_factory=dict)

    def add(self, result: SeedResult) -> None:
        outcomes = result.outcomes
        self.seeds += 1
        self.events += outcomes.events
        self.records += outcomes.records
        self.elapsed_ms += outcomes.elapsed_ms
        self.requests += outcomes.requests
        self.faults += outcomes.faults
        self.reached += outcomes.reached
        self.roles.update(result.roles)
        if outcomes.violations:
            self.failed[result.seed] = outcomes.violations

    @property
    def missing(self) -> list[str]:
        """Return requests, faults, roles and situations that should have occurred."""
        if self.seeds < MINIMUM_SEEDS:
            return []
        return [
            *sorted(APIS - self.requests.keys()),
            *(f for f in FaultKind if f not in OF_STORIES and not self.faults[f]),
            *(r for r in Reach if self.seeds >= REACHING_SEEDS and not self.reached[r]),
            *(role for role in Role if not self.roles[role]),
        ]


def one(seed: int) -> SeedResult:
    """Run a seed; an exception counts as a violation.

    Garbage is collected at the end because a run is short, and its objects live as long as it does.
    """
    plan = draw(seed)
    roles = [client.role for client in plan.clients]
    is_enabled = gc.isenabled()
    gc.freeze()
    gc.disable()
    try:
        return SeedResult(seed, outcome_of(plan), roles)
    finally:
        gc.collect()
        gc.unfreeze()
        if is_enabled:
            gc.enable()


def outcome_of(plan: RunPlan, *, is_traced: bool = False) -> Outcomes:
    """Run a plan; an exception counts as a violation."""
    try:
        return simulate(plan, is_traced=is_traced)
    except Exception as error:  # noqa: BLE001 (any exception is a finding)
        text = f"raised {type(error).__name__}: {error}"
        return Outcomes([text], Counter(), Counter(), Counter(), 0, 0, 0, [])


def results(
    seeds: Iterable[int],
    workers: int | None = None,
    begin: Callable[[], None] = end_with_parent,
) -> Iterator[SeedResult]:
    """Run seeds in worker processes and yield their results in order.

    Args:
        seeds: the seeds to run; those not started are dropped if the caller stops early.
        workers: worker processes; without it one for each core.
        begin: called in each worker process before it loads anything else.
    """
    with ProcessPoolExecutor(workers or cores(), get_context("spawn"), begin) as pool:
        try:
            yield from pool.map(one, seeds, chunksize=CHUNK)
        finally:
            pool.shutdown(cancel_futures=True)
