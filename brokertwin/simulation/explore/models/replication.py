"""Models of replication: leaders change while followers are behind."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from brokertwin.protocol.errors import Error
from brokertwin.simulation.explore import requests
from brokertwin.simulation.explore.api import (
    Between,
    Bounds,
    Client,
    Cluster,
    Faults,
    Invariant,
    Model,
    Send,
)
from brokertwin.simulation.explore.clients import IdempotentProducer
from brokertwin.simulation.explore.invariants import (
    AcknowledgedRecordsStay,
    CellHolds,
    HighWatermarkStays,
    LogsAgree,
    NothingTwice,
    ReadersSeeOneLog,
)

INVARIANTS: tuple[Invariant, ...] = (
    AcknowledgedRecordsStay(),
    LogsAgree(),
    HighWatermarkStays(),
    NothingTwice(),
    CellHolds(),
)


class PlainProducer(Client):
    """A producer without idempotence: acks=all, one record after the other, to any broker."""

    def __init__(self, name: str, records: int, brokers: int) -> None:
        self.name = name
        self.start = 0
        self._records = records
        self._brokers = range(1, brokers + 1)

    def sends(self, state: int) -> Iterable[Send]:
        """Return the next record, to each of the brokers."""
        if state >= self._records:
            return []
        record = f"{self.name}{state}"
        return [requests.produce("orders", 0, record, broker=broker) for broker in self._brokers]

    def receives(self, state: int, _send: Send, response: Any) -> int:
        """Go on to the next record, also without an acknowledgement."""
        if response is None:
            return state + 1
        code = response.responses[0].partition_responses[0].error_code
        return state if code == Error.NOT_LEADER_OR_FOLLOWER else state + 1


def truncation(is_old: bool, records: int = 1, brokers: int = 3, stops: int = 2) -> Model:
    """Brokers that stop and start again while messages between them are under way."""
    return Model(
        name="truncation-to-hw" if is_old else "truncation-by-epoch",
        about="KIP-101: leaders change, followers truncate "
        + ("to their high watermark" if is_old else "by leader epoch"),
        clients=(PlainProducer("p", records, brokers),),
        cluster=Cluster(
            brokers=brokers,
            topics={"orders": 1},
            settings={"brokertwin.truncation": "hw"} if is_old else {},
            between=frozenset({Between.REPLICA}),
        ),
        faults=Faults(stops=stops),
        invariants=INVARIANTS,
        expected="AcknowledgedRecordsStay" if is_old else "",
        bounds=Bounds(states=200_000),
    )


class ReaderState(NamedTuple):
    """Position of a reader, and the leader epoch of its last record."""

    offset: int = 0
    epoch: int = -1


class Reader(Client):
    """A consumer of orders-0 that asks any broker for the records at its position.

    Args:
        has_epochs: its requests have the epoch of its last record (KIP-320, KIP-595).
    """

    def __init__(self, name: str, brokers: int, *, has_epochs: bool) -> None:
        self.name = name
        self.start = ReaderState()
        self._brokers = range(1, brokers + 1)
        self._has_epochs = has_epochs

    def sends(self, state: ReaderState) -> Iterable[Send]:
        version, epoch = (12, state.epoch) if self._has_epochs else (8, -1)
        return [
            requests.fetch(
                "orders", 0, state.offset, last_epoch=epoch, version=version, broker=broker
            )
            for broker in self._brokers
        ]

    def is_done(self, _state: ReaderState) -> bool:
        return True

    def receives(self, state: ReaderState, _send: Send, response: Any) -> ReaderState:
        """Move on, or back to where the logs diverge."""
        if response is None:
            return state
        partition = response.responses[0].partitions[0]
        if partition.error_code != Error.NONE:
            return state
        if partition.diverging_epoch is not msgspec.UNSET:
            return ReaderState(
                partition.diverging_epoch.end_offset, partition.diverging_epoch.epoch
            )
        if not partition.batches:
            return state
        last = partition.batches[-1]
        return ReaderState(
            last.base_offset + last.last_offset_delta + 1, last.partition_leader_epoch
        )


def reader(has_epochs: bool) -> Model:
    """A reader while an administrator elects a replica that is behind."""
    return Model(
        name="reader-with-epochs" if has_epochs else "reader-without-epochs",
        about="KIP-320: a replica that is behind is elected; a reader "
        + ("tells its last leader epoch" if has_epochs else "does not know leader epochs"),
        clients=(PlainProducer("p", 3, 2), Reader("c", 2, has_epochs=has_epochs)),
        cluster=Cluster(brokers=2, topics={"orders": 1}),
        faults=Faults(isolations=1, waits=1, wait_ms=60_000, stops=1, elections=1),
        invariants=(ReadersSeeOneLog(),),
        expected="" if has_epochs else "ReadersSeeOneLog",
    )


def diverging(is_old: bool) -> Model:
    """The logs of two replicas differ below their high watermarks."""
    model = truncation(is_old, records=2)
    return msgspec.structs.replace(
        model,
        name="diverging-logs" if is_old else "agreeing-logs",
        invariants=(LogsAgree(),),
        expected="LogsAgree" if is_old else "",
    )


def lost_cache(is_old: bool) -> Model:
    """The last replica in sync crashes and loses its records."""
    settings = {"brokertwin.eligible.leader.replicas.version": "0"} if is_old else {}
    return Model(
        name="last-replica" if is_old else "eligible-replicas",
        about="KIP-966: the last replica in sync crashes and loses its records; "
        + ("it leads again" if is_old else "an eligible replica leads"),
        clients=(PlainProducer("p", 1, 2),),
        cluster=Cluster(
            brokers=2,
            topics={"orders": 1},
            settings={"min.insync.replicas": "2", **settings},
        ),
        faults=Faults(stops=1, kills=1, waits=1, loses_cache=True),
        invariants=(AcknowledgedRecordsStay(), LogsAgree(), NothingTwice()),
        expected="AcknowledgedRecordsStay" if is_old else "",
    )


def idempotent() -> Model:
    """An idempotent producer whose leader changes while batches are late."""
    return Model(
        name="leader-changes",
        about="KIP-98: batches arrive late or twice while the leader changes",
        clients=(IdempotentProducer("p", 2, brokers=(1, 2)),),
        cluster=Cluster(brokers=2, topics={"orders": 1}),
        faults=Faults(stops=2, late=1, lost=1),
        invariants=INVARIANTS,
    )


def models() -> Iterator[Model]:
    yield truncation(True)
    yield truncation(False)
    yield diverging(True)
    yield diverging(False)
    yield reader(False)
    yield reader(True)
    yield lost_cache(True)
    yield lost_cache(False)
    yield idempotent()
