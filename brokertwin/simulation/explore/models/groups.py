"""Models of consumer groups: rebalances, zombies, static members."""

from collections.abc import Iterator

from brokertwin.simulation.explore.api import Cluster, Faults, Model
from brokertwin.simulation.explore.clients import GroupWorker
from brokertwin.simulation.explore.invariants import (
    CellHolds,
    Invariant,
    OffsetsGoForward,
    OneOwner,
)

COMMITS: tuple[Invariant, ...] = (OffsetsGoForward(), CellHolds())
OWNERS: tuple[Invariant, ...] = (OneOwner(), *COMMITS)


def eager(is_old: bool, waits: int = 1) -> Model:
    """Two members that commit offsets while the group rebalances."""
    settings = {"brokertwin.offset.storage": "zookeeper"} if is_old else {}
    return Model(
        name="commit-without-generation" if is_old else "eager-rebalance",
        about="two members of a classic group commit offsets; "
        + ("ZooKeeper stores them (0.8)" if is_old else "the coordinator checks generations"),
        clients=tuple(GroupWorker(name) for name in "ab"),
        cluster=Cluster(topics={"input": 1}, groups=("work",), settings=settings),
        faults=Faults(waits=waits, wait_ms=11_000),
        invariants=OWNERS,
        expected="OffsetsGoForward" if is_old else "",
    )


def static(invariants: tuple[Invariant, ...], name: str, expected: str) -> Model:
    """Two members with one group.instance.id."""
    return Model(
        name=name,
        about="KIP-345: two members have one group.instance.id"
        + ("; does one partition have two owners?" if expected else "; do offsets go back?"),
        clients=tuple(GroupWorker(each, instance="static") for each in "ab"),
        cluster=Cluster(topics={"input": 1}, groups=("work",)),
        faults=Faults(waits=1, wait_ms=11_000),
        invariants=invariants,
        expected=expected,
    )


def late_commit() -> Model:
    """A member whose OffsetCommit arrives late: Kafka does not order commits of a generation."""
    return Model(
        name="late-commit",
        about="a late OffsetCommit of the same member and generation",
        clients=(GroupWorker("a"),),
        cluster=Cluster(topics={"input": 1}, groups=("work",)),
        faults=Faults(late=1),
        invariants=COMMITS,
        expected="OffsetsGoForward",
    )


def models() -> Iterator[Model]:
    """All models of this subject."""
    yield eager(True)
    yield eager(False)
    yield static(OWNERS, "static-owners", "OneOwner")
    yield static(COMMITS, "static-commits", "")
    yield late_commit()
