"""Verification of transactions: a leader asks the coordinator before it lets a transaction in.

Source: KIP-890; `AddPartitionsToTxnManager`, `ReplicaManager.handleProduceAppend`,
`VerificationStateEntry` in Kafka. The first batch of a producer's transaction in a partition is
appended only when the coordinator says that the partition belongs to the transaction. The leader
asks with AddPartitionsToTxn, whose bodies are here: leaders write them, coordinators read them
(`state/apis/add_partitions_to_txn.py`). By the version of Produce:

    up to 10    V1, verified; 120 TRANSACTION_ABORTABLE is told as 48 INVALID_TXN_STATE
    11          V1, verified
    12 and on   V2: the coordinator adds the partition

What the coordinator answers, and what the producer is told of it:

    13, 14, 15, 16, in V1 also 51    19 NOT_ENOUGH_REPLICAS, which every client tries again
    51 in V2                         51, after the leader has asked again for up to
                                     add.partitions.to.txn.retry.backoff.max.ms, each time after
                                     add.partitions.to.txn.retry.backoff.ms
    90 PRODUCER_FENCED               47 INVALID_PRODUCER_EPOCH
    anything else                    the same

What a partition remembers of a verification (`producer.Verification`) is gone with the first batch
or marker, after `producer.id.expiration.ms`, and when the broker restarts.
"""

from typing import Annotated

import msgspec

from brokertwin.state.cluster.coordinators import TRANSACTION_TOPIC, coordinator_of
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core import kafka_apis
from brokertwin.state.core.decision import Message
from brokertwin.state.core.errors import Error
from brokertwin.state.core.records import Batch
from brokertwin.state.core.schema import Body, Int16, Int32, Int64, Uuid, since
from brokertwin.state.core.tables import Table, cached_key
from brokertwin.state.logs.producer import Verification

KNOWS_ABORTABLE_SINCE = 11
"""The first version of Produce whose clients know TRANSACTION_ABORTABLE."""

ADDS_SINCE = 12
"""The first version of Produce that speaks for transactions V2."""


class TxnTopic(Body):
    """Partitions of a topic that are to be in a transaction."""

    name: str
    partitions: list[Int32]


class Transaction(Body):
    """A transaction and its partitions; with `verify_only` nothing is added."""

    transactional_id: str
    producer_id: Int64
    producer_epoch: Int16
    topics: list[TxnTopic]
    verify_only: bool = False


class AddPartitionsToTxnRequest(Body):
    """Versions up to 3 are those of clients, with one transaction; later ones those of brokers."""

    transactions: Annotated[list[Transaction], since(4)] = []
    v3_and_below_transactional_id: Annotated[str, since(0, 3)] = ""
    v3_and_below_producer_id: Annotated[Int64, since(0, 3)] = 0
    v3_and_below_producer_epoch: Annotated[Int16, since(0, 3)] = 0
    v3_and_below_topics: Annotated[list[TxnTopic], since(0, 3)] = []


class TxnPartitionResult(Body):
    """What became of a partition."""

    partition_index: Int32
    partition_error_code: Int16


class TxnTopicResult(Body):
    """The results of a topic."""

    name: str
    results_by_partition: list[TxnPartitionResult]


class TransactionResult(Body):
    """The results of a transaction."""

    transactional_id: str
    topic_results: list[TxnTopicResult]


class AddPartitionsToTxnResponse(Body):
    """The results; `error_code` is that of the whole request."""

    throttle_time_ms: Int32 = 0
    error_code: Annotated[Int16, since(4)] = 0
    results_by_transaction: Annotated[list[TransactionResult], since(4)] = []
    results_by_topic_v3_and_below: Annotated[list[TxnTopicResult], since(0, 3)] = []


class Verifications(msgspec.Struct, array_like=True):
    """What one partition remembers, by producer id. Not durable."""

    by_producer: dict[int, Verification]


@cached_key
def _key(broker: int, topic_id: Uuid, partition: int) -> str:
    return f"{broker}/verifications/{topic_id}/{partition}"


def remembered(
    table: Table, broker: int, topic_id: Uuid, partition: int, producer_id: int
) -> Verification | None:
    """What a partition remembers of a producer's verification, if anything."""
    item = table.get(_key(broker, topic_id, partition), Verifications)
    return None if item is None else item.by_producer.get(producer_id)


def begin(broker: Broker, topic_id: Uuid, partition: int, batch: Batch, is_v2: bool) -> None:
    """Remembers that the coordinator is asked for `batch`, and forgets what has expired."""
    table, key = broker.tables.in_flight, _key(broker.id, topic_id, partition)
    if key not in table:
        table.put(key, Verifications({}))
    item = table.change(key, Verifications)
    oldest = broker.now - broker.settings.producer_id_expiration_ms
    item.by_producer = {p: v for p, v in item.by_producer.items() if v.created > oldest}
    known = item.by_producer.get(batch.producer_id)
    if known is None or batch.producer_epoch > known.producer_epoch:
        item.by_producer[batch.producer_id] = Verification(
            broker.now, batch.producer_epoch, batch.base_sequence, is_v2
        )
    elif batch.producer_epoch == known.producer_epoch:
        known.lowest_sequence = min(known.lowest_sequence, batch.base_sequence)


def forget(table: Table, broker: int, topic_id: Uuid, partition: int, producer_id: int) -> None:
    """Forgets a producer's verification: its transaction has begun, or has ended."""
    key = _key(broker, topic_id, partition)
    item = table.get(key, Verifications)
    if item is None or producer_id not in item.by_producer:
        return
    if len(item.by_producer) == 1:
        table.drop(key)
    else:
        del table.change(key, Verifications).by_producer[producer_id]


def forget_partition(table: Table, broker: int, topic_id: Uuid, partition: int) -> None:
    """Forgets what a partition that is deleted has been asking."""
    table.drop(_key(broker, topic_id, partition))


def message(
    broker: Broker, transactional_id: str, batch: Batch, topics: dict[str, list[int]], is_v2: bool
) -> Message | None:
    """The request to the coordinator; None while the transactional id has none."""
    coordinator = coordinator_of(broker, TRANSACTION_TOPIC, transactional_id)
    if coordinator is None or coordinator < 0:
        return None
    transaction = Transaction(
        transactional_id=transactional_id,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        verify_only=not is_v2,
        topics=[TxnTopic(name=name, partitions=indexes) for name, indexes in topics.items()],
    )
    body = AddPartitionsToTxnRequest(transactions=[transaction])
    return Message(broker.id, coordinator, kafka_apis.ADD_PARTITIONS_TO_TXN.key, body)


def errors_in(response: AddPartitionsToTxnResponse) -> dict[tuple[str, int], Error]:
    """What the coordinator says of each partition of the one transaction that it was asked for."""
    return {
        (topic.name, partition.partition_index): Error(partition.partition_error_code)
        for result in response.results_by_transaction
        for topic in result.topic_results
        for partition in topic.results_by_partition
    }


_RETRIED = frozenset(
    {
        Error.NETWORK_EXCEPTION,
        Error.COORDINATOR_LOAD_IN_PROGRESS,
        Error.COORDINATOR_NOT_AVAILABLE,
        Error.NOT_COORDINATOR,
    }
)


def told(error: Error, version: int) -> Error:
    """What a Produce of this version is answered for an error of the coordinator."""
    if error is Error.PRODUCER_FENCED:
        return Error.INVALID_PRODUCER_EPOCH
    if error is Error.TRANSACTION_ABORTABLE and version < KNOWS_ABORTABLE_SINCE:
        return Error.INVALID_TXN_STATE
    is_not_yet = error is Error.CONCURRENT_TRANSACTIONS and version < ADDS_SINCE
    return Error.NOT_ENOUGH_REPLICAS if error in _RETRIED or is_not_yet else error


def text(error: Error, version: int) -> str | None:
    """What Kafka says in words beside `told`; None for most errors."""
    answered = told(error, version)
    if answered is Error.INVALID_TXN_STATE:
        return "Partition was not added to the transaction"
    if answered is Error.NOT_ENOUGH_REPLICAS:
        return (
            "Unable to verify the partition has been added to the transaction."
            f" Underlying error: {error.name}"
        )
    return None
