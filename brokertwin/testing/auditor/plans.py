"""Fault plans from seeds, and shrinking of a failing one.

A plan contains only trouble from which a client has to recover: lost responses, cut connections,
delays, and retriable errors.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from random import Random

from brokertwin.gateway.faults.fault import Effect, FaultSpec
from brokertwin.testing.auditor.workload import ZOMBIE, WorkKind

FAULTS_MAX = 4
DELAYS_MS = (50, 300, 1500)
ZOMBIE_DELAY_MS = 300
"""Delay of the zombie's commits, so that its successor finds it at work."""

RETRIABLE: Mapping[str, tuple[str, ...]] = {
    "PRODUCE": ("NOT_LEADER_OR_FOLLOWER", "NOT_ENOUGH_REPLICAS", "REQUEST_TIMED_OUT"),
    "FETCH": ("NOT_LEADER_OR_FOLLOWER", "FETCH_SESSION_ID_NOT_FOUND"),
    "METADATA": (),
    "FIND_COORDINATOR": ("COORDINATOR_NOT_AVAILABLE",),
    "INIT_PRODUCER_ID": ("COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR"),
    "ADD_PARTITIONS_TO_TXN": ("CONCURRENT_TRANSACTIONS", "NOT_COORDINATOR"),
    "END_TXN": ("COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR", "CONCURRENT_TRANSACTIONS"),
    "JOIN_GROUP": ("COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR"),
    "SYNC_GROUP": ("REBALANCE_IN_PROGRESS", "NOT_COORDINATOR"),
    "HEARTBEAT": ("REBALANCE_IN_PROGRESS", "NOT_COORDINATOR"),
    "OFFSET_FETCH": ("COORDINATOR_LOAD_IN_PROGRESS",),
    "OFFSET_COMMIT": ("COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR"),
}
"""APIs of plans with errors after which a client retries."""

RETRIABLE_OF: Mapping[WorkKind, Mapping[str, tuple[str, ...]]] = {
    WorkKind.PROCESS: {
        "ADD_OFFSETS_TO_TXN": ("CONCURRENT_TRANSACTIONS", "NOT_COORDINATOR"),
        "TXN_OFFSET_COMMIT": ("COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR"),
    },
    WorkKind.SHARE: {
        "SHARE_FETCH": ("NOT_LEADER_OR_FOLLOWER", "SHARE_SESSION_NOT_FOUND"),
        "SHARE_ACKNOWLEDGE": ("NOT_LEADER_OR_FOLLOWER", "SHARE_SESSION_NOT_FOUND"),
        "SHARE_GROUP_HEARTBEAT": ("COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR"),
    },
}
"""The same for clients that do a kind of work."""

OFTEN = ("PRODUCE", "PRODUCE", "END_TXN", "OFFSET_COMMIT", "FETCH")
"""APIs that are drawn more often than others."""

LATEST = 6
"""Greatest `nth` of a fault."""


def faults_of(seed: int, works: Collection[WorkKind] = ()) -> list[FaultSpec]:
    """Return the faults of a seed, the same in every run."""
    chance = Random(f"exam-client {seed}")
    retriable = dict(RETRIABLE)
    for work, apis in RETRIABLE_OF.items():
        if work in works:
            retriable |= apis
    return [_fault(chance, retriable) for _ in range(chance.randint(1, FAULTS_MAX))]


def _fault(chance: Random, retriable: Mapping[str, tuple[str, ...]]) -> FaultSpec:
    api = chance.choice((*retriable, *OFTEN))
    effects = [Effect.LOSE, Effect.LOSE, Effect.CUT, Effect.DELAY]
    if retriable[api]:
        effects.append(Effect.FAIL)
    effect = chance.choice(effects)
    nth = chance.randint(1, LATEST)
    times = chance.choice((1, 1, 1, 2))
    if effect is Effect.FAIL:
        error = chance.choice(retriable[api])
        return FaultSpec(effect=effect, api=api, error=error, nth=nth, times=times)
    if effect is Effect.DELAY:
        return FaultSpec(effect=effect, api=api, ms=chance.choice(DELAYS_MS), nth=nth, times=times)
    return FaultSpec(effect=effect, api=api, nth=nth, times=times)


def standing_faults() -> list[FaultSpec]:
    return [
        FaultSpec(
            effect=Effect.DELAY,
            api="END_TXN",
            client=ZOMBIE.name,
            ms=ZOMBIE_DELAY_MS,
            times="all",
        )
    ]


def shrink(
    faults: Sequence[FaultSpec], fails: Callable[[list[FaultSpec]], bool]
) -> list[FaultSpec]:
    """Return the faults without those that a failure does not need, each tried once.

    Args:
        faults: a plan that failed.
        fails: runs a plan; True if it fails.
    """
    kept = list(faults)
    for fault in faults:
        fewer = [each for each in kept if each is not fault]
        if fails(fewer):
            kept = fewer
    return kept
