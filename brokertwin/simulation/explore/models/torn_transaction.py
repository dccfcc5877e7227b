"""Can a delayed EndTxn turn an aborted transaction into a committed one?"""

from brokertwin.simulation.explore.api import Cluster, Faults, Model
from brokertwin.simulation.explore.clients import TransactionalProducer
from brokertwin.simulation.explore.invariants import (
    CellHolds,
    FencedWritesNothing,
    NoHangingTransaction,
    NothingTwice,
    TransactionsAsSaid,
)

INVARIANTS = (
    TransactionsAsSaid(),
    NoHangingTransaction(),
    FencedWritesNothing(),
    NothingTwice(),
    CellHolds(),
)


def model(
    version: int, ends: tuple[str, ...] = ("commit", "abort", "commit"), late: int = 1
) -> Model:
    """A producer with the protocol of a transaction.version."""
    return Model(
        name=f"torn-transaction-v{version}",
        about=f"transaction.version {version}: requests of one producer arrive late",
        clients=(TransactionalProducer("p", "billing", ends, version=version),),
        cluster=Cluster(
            topics={"orders": 1},
            transactional_ids=("billing",),
            settings={"brokertwin.transaction.version": str(version)},
        ),
        faults=Faults(late=late),
        invariants=INVARIANTS,
        expected="TransactionsAsSaid" if version == 1 else "",
    )


MODEL = model(1)
