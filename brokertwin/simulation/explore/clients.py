"""Clients for models: producers, as far as the protocol fixes what they do."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from brokertwin.protocol.errors import Error
from brokertwin.simulation.explore import requests
from brokertwin.simulation.explore.api import Client, Send

RETRIABLE = frozenset(
    {
        Error.CONCURRENT_TRANSACTIONS,
        Error.COORDINATOR_LOAD_IN_PROGRESS,
        Error.COORDINATOR_NOT_AVAILABLE,
        Error.NOT_COORDINATOR,
        Error.NOT_LEADER_OR_FOLLOWER,
        Error.NOT_ENOUGH_REPLICAS,
        Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        Error.REQUEST_TIMED_OUT,
        Error.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""Errors after which a client sends the same request again."""

BEFORE_KIP_890, KIP_890 = 1, 2


class ProducerState(NamedTuple):
    """State of a producer.

    Attributes:
        at: the next request: init, add, produce, end; done, or failed.
        number: the number of the transaction, or of the record without transactions.
        partition: the next partition of the transaction.
        sequences: the next sequence of each partition.
    """

    at: str = "init"
    number: int = 0
    partition: int = 0
    producer_id: int = -1
    epoch: int = -1
    sequences: tuple[int, ...] = ()


class TransactionalProducer(Client):
    """A producer that ends transactions, each with one record for each partition.

    It repeats a request without a response until one comes, like the Java client.

    Args:
        ends: how it ends each transaction: `commit` or `abort`.
        version: `transaction.version` of the client: 2 uses the protocol of KIP-890.
        initialises: after an EndTxn without a response, it initialises again instead.
    """

    def __init__(
        self,
        name: str,
        transactional_id: str,
        ends: Sequence[str],
        *,
        version: int,
        topic: str = "orders",
        partitions: Sequence[int] = (0,),
        initialises: bool = False,
        timeout_ms: int = requests.TRANSACTION_MS,
    ) -> None:
        self.name = name
        self.start = ProducerState(sequences=(0,) * len(partitions))
        self._id = transactional_id
        self._ends = tuple(ends)
        self._is_new = version >= KIP_890
        self._topic, self._partitions = topic, tuple(partitions)
        self._initialises = initialises
        self._timeout_ms = timeout_ms

    def sends(self, state: ProducerState) -> Iterable[Send]:
        """Return the next request."""
        held = state.producer_id, state.epoch
        if state.at == "init":
            version = 5 if self._is_new else 4
            return [
                requests.init_producer_id(self._id, version=version, timeout_ms=self._timeout_ms)
            ]
        if state.at == "add":
            return [requests.add_partitions(self._id, *held, self._topic, *self._partitions)]
        if state.at == "produce":
            return [
                requests.produce(
                    self._topic,
                    self._partitions[state.partition],
                    f"{self.name}{state.number}{'abcdef'[state.partition]}",
                    producer_id=state.producer_id,
                    epoch=state.epoch,
                    sequence=state.sequences[state.partition],
                    transactional_id=self._id,
                    version=12 if self._is_new else 9,
                )
            ]
        if state.at == "end":
            committed = self._ends[state.number] == "commit"
            version = 5 if self._is_new else 3
            return [requests.end_txn(self._id, *held, committed, version=version)]
        return []

    def receives(self, state: ProducerState, send: Send, response: Any) -> ProducerState:
        """Continue, repeat or fail."""
        if response is None:
            if self._initialises and send.api == "END_TXN":
                return self._next(state._replace(at="init"))
            return state
        code = _code(response)
        if code in RETRIABLE:
            return state
        if code != Error.NONE:
            return state._replace(at="failed")
        if send.api == "INIT_PRODUCER_ID":
            return ProducerState(
                self._begin if state.number < len(self._ends) else "done",
                state.number,
                0,
                response.producer_id,
                response.producer_epoch,
                (0,) * len(self._partitions),
            )
        if send.api == "ADD_PARTITIONS_TO_TXN":
            return state._replace(at="produce")
        if send.api == "PRODUCE":
            at = state.partition
            sequences = (*state.sequences[:at], state.sequences[at] + 1, *state.sequences[at + 1 :])
            is_last = at + 1 == len(self._partitions)
            where = ("end", 0) if is_last else ("produce", at + 1)
            return state._replace(at=where[0], partition=where[1], sequences=sequences)
        if self._is_new:
            sequences = (0,) * len(self._partitions)
            ids = {"producer_id": response.producer_id, "epoch": response.producer_epoch}
            state = state._replace(sequences=sequences, **ids)
        return self._next(state._replace(at=self._begin))

    @property
    def _begin(self) -> str:
        return "produce" if self._is_new else "add"

    def _next(self, state: ProducerState) -> ProducerState:
        """Go on with the next transaction, if there is one."""
        number = state.number + 1
        if number == len(self._ends):
            return state._replace(at="done" if state.at != "init" else "init", number=number)
        return state._replace(number=number)


class IdempotentProducer(Client):
    """A producer without transactions that writes records one by one and repeats unanswered ones.

    Args:
        records: how many it writes.
        resets: after 59 UNKNOWN_PRODUCER_ID, it continues with sequence 0 and the same epoch, like
            clients before KIP-360.
        follows: the brokers that it tries in turn after an error or without a response.
    """

    def __init__(
        self,
        name: str,
        records: int,
        *,
        topic: str = "orders",
        resets: bool = False,
        brokers: Sequence[int] = (1,),
        acks: int = -1,
    ) -> None:
        self.name = name
        self.start = ProducerState(sequences=(0,))
        self._records = records
        self._topic = topic
        self._resets = resets
        self._brokers = tuple(brokers)
        self._acks = acks

    def sends(self, state: ProducerState) -> Iterable[Send]:
        """Return the next request, to any of the brokers."""
        if state.at == "init":
            return [requests.init_producer_id(broker=broker) for broker in self._brokers]
        if state.at != "produce":
            return []
        return [
            requests.produce(
                self._topic,
                0,
                f"{self.name}{state.number}",
                producer_id=state.producer_id,
                epoch=state.epoch,
                sequence=state.sequences[0],
                broker=broker,
                acks=self._acks,
            )
            for broker in self._brokers
        ]

    def receives(self, state: ProducerState, send: Send, response: Any) -> ProducerState:
        """Continue, repeat, reset or fail."""
        if response is None:
            return state
        code = _code(response)
        if code in RETRIABLE:
            return state
        if code == Error.UNKNOWN_PRODUCER_ID and self._resets and state.sequences != (0,):
            return state._replace(sequences=(0,))
        if code != Error.NONE:
            return state._replace(at="failed")
        if send.api == "INIT_PRODUCER_ID":
            ids = {"producer_id": response.producer_id, "epoch": response.producer_epoch}
            return state._replace(at="produce", **ids)
        number = state.number + 1
        return state._replace(
            at="produce" if number < self._records else "done",
            number=number,
            sequences=(state.sequences[0] + 1,),
        )


def _code(response: Any) -> int:
    """Return the worst error of a response, 0 if there is none."""
    from brokertwin.simulation.explore.world import error_codes

    return next((code for code in error_codes(response) if code), 0)
