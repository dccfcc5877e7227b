"""Models of idempotent producers: late requests, and producers that the broker forgets."""

from collections.abc import Iterable, Iterator
from typing import Any

from brokertwin.simulation.explore.api import Client, Cluster, Faults, Invariant, Model, Send
from brokertwin.simulation.explore.clients import IdempotentProducer
from brokertwin.simulation.explore.invariants import (
    AcknowledgedRecordsStay,
    CellHolds,
    FencedWritesNothing,
    NothingTwice,
)

INVARIANTS: tuple[Invariant, ...] = (
    AcknowledgedRecordsStay(),
    NothingTwice(),
    FencedWritesNothing(),
    CellHolds(),
)


class RecordDeleter(Client):
    """An administrator that deletes records of partition 0 once, at any time.

    Args:
        offset: of the first record that stays; -1 deletes all.
    """

    name = "admin"
    start = 0

    def __init__(self, topic: str, offset: int = -1) -> None:
        self._topic, self._offset = topic, offset

    def sends(self, state: int) -> Iterable[Send]:
        """Return the request, until it was sent."""
        if state:
            return []
        partitions = [{"partitionIndex": 0, "offset": self._offset}]
        body = {"topics": [{"name": self._topic, "partitions": partitions}], "timeoutMs": 1_000}
        label = "DeleteRecords"
        return [Send(api="DELETE_RECORDS", version=2, body=body, label=label, may_be_late=False)]

    def receives(self, _state: int, _send: Send, _response: Any) -> int:
        return 1


def late(records: int = 3, late: int = 2) -> Model:
    """A producer whose requests arrive late."""
    return Model(
        name="late-batches",
        about="KIP-98: batches of an idempotent producer arrive late or twice",
        clients=(IdempotentProducer("p", records),),
        cluster=Cluster(topics={"orders": 1}),
        faults=Faults(late=late, lost=1),
        invariants=INVARIANTS,
    )


def forgotten(is_old: bool) -> Model:
    """A producer whose records are deleted while it writes."""
    settings = {"brokertwin.reject.unknown.producer": "true"} if is_old else {}
    return Model(
        name="forgotten-producer" if is_old else "remembered-producer",
        about="KIP-360: records are deleted; the broker "
        + ("forgets their producer, which resets its sequence" if is_old else "knows the producer"),
        clients=(IdempotentProducer("p", 2, resets=True), RecordDeleter("orders")),
        cluster=Cluster(topics={"orders": 1}, settings=settings),
        faults=Faults(late=1, lost=1),
        invariants=INVARIANTS,
        expected="NothingTwice" if is_old else "",
    )


def models() -> Iterator[Model]:
    yield late()
    yield forgotten(True)
    yield forgotten(False)
