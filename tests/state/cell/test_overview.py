"""The overview of a cluster: leaders, replicas, in-sync replicas and lags."""

from brokertwin.state.cell import overview
from tests.support.replicas import BROKERS, Replicas


def held(replicas: Replicas) -> dict[int, tuple[int, int, int]]:
    """For each broker: the numbers of partitions it leads, holds, and is in sync with."""
    rows = overview.brokers([replicas.bench.cell.tables], BROKERS)
    return {row["broker"]: (row["leads"], row["replicas"], row["inSync"]) for row in rows}


def test_overview_counts_a_brokers_partitions() -> None:
    replicas = Replicas((1, 2), min_insync_replicas="1")
    assert held(replicas) == {1: (1, 1, 1), 2: (0, 1, 1), 3: (0, 0, 0)}
    replicas.leave_only_the_leader()
    assert held(replicas) == {1: (1, 1, 1), 2: (0, 1, 0), 3: (0, 0, 0)}


def test_overview_has_the_greatest_lag_and_no_stopped_leader() -> None:
    replicas = Replicas((1, 2), min_insync_replicas="1")
    replicas.produce(count=2)
    replicas.isolate(2)
    replicas.produce(acks=1, count=3)
    (row,) = overview.partitions([replicas.bench.cell.tables])
    assert (row["leader"], row["logEndOffset"], row["highWatermark"], row["lag"]) == (1, 5, 2, 3)
    assert [(each["broker"], each["lag"]) for each in row["logs"]] == [(1, 0), (2, 3)]
    replicas.stop(1)
    replicas.stop(2)
    (row,) = overview.partitions([replicas.bench.cell.tables])
    assert (row["leader"], row["logEndOffset"], row["highWatermark"], row["lag"]) == (
        -1,
        -1,
        -1,
        None,
    )
