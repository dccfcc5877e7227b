"""Models of transactions: late requests, zombies, and hanging transactions."""

from collections.abc import Iterator

from brokertwin.simulation.explore import requests
from brokertwin.simulation.explore.api import Cluster, Faults, Invariant, Model
from brokertwin.simulation.explore.clients import (
    BEFORE_KIP_890,
    KIP_890,
    GroupWorker,
    TransactionalProducer,
)
from brokertwin.simulation.explore.invariants import (
    CellHolds,
    ExactlyOnce,
    FencedWritesNothing,
    NoHangingTransaction,
    NothingTwice,
    TransactionsAsSaid,
)

INVARIANTS: tuple[Invariant, ...] = (
    TransactionsAsSaid(),
    NoHangingTransaction(),
    FencedWritesNothing(),
    NothingTwice(),
    CellHolds(),
)

RIVALS = ("producer-a", "producer-b")

ENDS = ("commit", "abort", "commit")


def cluster(version: int, partitions: int = 1, **settings: str) -> Cluster:
    """Return one broker with a level of transaction.version."""
    options = {"brokertwin.transaction.version": str(version)}
    options |= {name.replace("_", "."): value for name, value in settings.items()}
    return Cluster(topics={"orders": partitions}, transactional_ids=("billing",), settings=options)


def torn(version: int, ends: tuple[str, ...] = ENDS, late: int = 1, lost: int = 0) -> Model:
    """One producer whose requests arrive late."""
    return Model(
        name=f"torn-transaction-v{version}",
        about=f"KIP-890: requests of a producer arrive late, transaction.version {version}",
        clients=(TransactionalProducer("p", "billing", ends, version=version),),
        cluster=cluster(version),
        faults=Faults(late=late, lost=lost),
        invariants=INVARIANTS,
        expected="TransactionsAsSaid" if version < KIP_890 else "",
    )


def careful(version: int = BEFORE_KIP_890) -> Model:
    """A producer that initialises again after each EndTxn without a response."""
    client = TransactionalProducer("p", "billing", ENDS, version=version, initialises=True)
    return Model(
        name="careful-producer",
        about="KIP-890: an old client initialises again after an EndTxn without a response",
        clients=(client,),
        cluster=cluster(version),
        faults=Faults(late=2),
        invariants=INVARIANTS,
    )


def hanging(version: int, verifies: bool, name: str, expected: str) -> Model:
    """A producer that aborts when a Produce has no response, which then arrives."""
    client = TransactionalProducer(
        "p", "billing", ENDS[:2], version=version, gives_up=True, late=("PRODUCE",)
    )
    return Model(
        name=name,
        about="KIP-890: a Produce arrives after its transaction was aborted, "
        + ("verified" if verifies else "not verified")
        + f", transaction.version {version}",
        clients=(client,),
        cluster=cluster(version, transaction_partition_verification_enable=str(verifies).lower()),
        faults=Faults(late=1),
        invariants=INVARIANTS,
        expected=expected,
    )


def late_produce(version: int) -> Model:
    """The same, but the next transaction of the same partition commits."""
    client = TransactionalProducer(
        "p", "billing", ("commit", "commit"), version=version, gives_up=True, late=("PRODUCE",)
    )
    return Model(
        name=f"late-produce-v{version}",
        about="KIP-890: a Produce of an aborted transaction arrives within the next one,"
        f" transaction.version {version}",
        clients=(client,),
        cluster=cluster(version),
        faults=Faults(late=1),
        invariants=INVARIANTS,
        expected="TransactionsAsSaid" if version < KIP_890 else "",
    )


def zombies(version: int) -> Model:
    clients = tuple(
        TransactionalProducer(name, "billing", ("commit",), version=version, partitions=(0, 1))
        for name in RIVALS
    )
    return Model(
        name=f"two-producers-v{version}",
        about=f"KIP-98: two producers with one transactional.id, transaction.version {version}",
        clients=clients,
        cluster=cluster(version, 2),
        faults=Faults(late=1, waits=1, wait_ms=70_000),
        invariants=INVARIANTS,
        symmetric=(RIVALS,),
    )


def workers(transactional: str, expected: str = "") -> Model:
    """Two members of a group that copy records in transactions."""
    clients = tuple(GroupWorker(name, transactional=transactional, records=1) for name in "ab")
    return Model(
        name="exactly-once" if transactional == "kip-447" else "offsets-without-generation",
        about="KIP-447: two members copy records in transactions, offsets "
        + ("with their generation" if transactional == "kip-447" else "without generation"),
        clients=clients,
        cluster=Cluster(
            topics={"input": 1, "output": 1},
            groups=("work",),
            transactional_ids=("tx-a", "tx-b"),
            settings={"brokertwin.transaction.version": "1"},
            setup=(requests.produce("input", 0, "r0"),),
        ),
        faults=Faults(waits=1, wait_ms=11_000),
        invariants=(ExactlyOnce("output"), *INVARIANTS),
        expected=expected,
    )


def models() -> Iterator[Model]:
    yield torn(BEFORE_KIP_890)
    yield torn(KIP_890)
    yield careful()
    yield hanging(1, False, "hanging-transaction", "NoHangingTransaction")
    yield hanging(1, True, "hanging-transaction-verified", "")
    yield hanging(2, True, "hanging-transaction-v2", "")
    yield late_produce(BEFORE_KIP_890)
    yield late_produce(KIP_890)
    yield zombies(1)
    yield zombies(2)
    yield workers("before", "ExactlyOnce")
    yield workers("kip-447")
