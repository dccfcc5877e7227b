"""Verification of transactions by partition leaders.

Source: KIP-890; `AddPartitionsToTxnManager`, `ReplicaManager.handleProduceAppend`,
`VerificationStateEntry` in Kafka. A leader appends the first batch of a producer's transaction only
if the coordinator confirms that the partition belongs to it. It sends AddPartitionsToTxn, whose
bodies are here for leaders and coordinators (`state/apis/add_partitions_to_txn.py`). By version of
Produce:

    up to 10      V1, verify only; 120 TRANSACTION_ABORTABLE becomes 48 INVALID_TXN_STATE
    11            V1, verify only
    12 and later  V2, the coordinator adds the partition

Errors of the coordinator and of the Produce response:

    13 NETWORK_EXCEPTION,               19 NOT_ENOUGH_REPLICAS, which all clients retry
    14 COORDINATOR_LOAD_IN_PROGRESS,
    15 COORDINATOR_NOT_AVAILABLE,
    16 NOT_COORDINATOR
    51 CONCURRENT_TRANSACTIONS in V1    19 NOT_ENOUGH_REPLICAS
    51 CONCURRENT_TRANSACTIONS in V2    the same, after retries of the leader every
                                        add.partitions.to.txn.retry.backoff.ms, for up to
                                        add.partitions.to.txn.retry.backoff.max.ms
    90 PRODUCER_FENCED                  47 INVALID_PRODUCER_EPOCH
    others                              the same

A verification (`producer.Verification`) is forgotten after the first batch or marker, after
`producer.id.expiration.ms`, and by a restart.
"""

import msgspec

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.batch_headers import Batch
from brokertwin.protocol.bodies import Uuid
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from brokertwin.state.cluster.coordinators import TRANSACTION_TOPIC, coordinator_of
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.decision import Message
from brokertwin.state.core.tables import MachineTables, cached_key
from brokertwin.state.logs.producer import Verification

KNOWS_ABORTABLE_SINCE = 11
"""First version of Produce whose clients know TRANSACTION_ABORTABLE."""

ADDS_SINCE = 12
"""First version of Produce with transaction version 2."""


class Verifications(msgspec.Struct, array_like=True):
    """Verifications of a partition by producer id. Volatile."""

    by_producer: dict[int, Verification]


@cached_key
def _key(broker: int, topic_id: Uuid, partition: int) -> str:
    return f"{broker}/verifications/{topic_id}/{partition}"


def find(
    at: MachineTables, topic_id: Uuid, partition: int, producer_id: int
) -> Verification | None:
    item = at.tables.in_flight.get(_key(at.id, topic_id, partition), Verifications)
    return None if item is None else item.by_producer.get(producer_id)


def start(broker: Broker, topic_id: Uuid, partition: int, batch: Batch, is_v2: bool) -> None:
    """Start the verification of `batch`, and drop expired ones."""
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


def forget(at: MachineTables, topic_id: Uuid, partition: int, producer_id: int) -> None:
    """Drop a producer's verification: its transaction has begun or ended."""
    key = _key(at.id, topic_id, partition)
    item = at.tables.in_flight.get(key, Verifications)
    if item is None or producer_id not in item.by_producer:
        return
    if len(item.by_producer) == 1:
        at.tables.in_flight.drop(key)
    else:
        del at.tables.in_flight.change(key, Verifications).by_producer[producer_id]


def forget_partition(at: MachineTables, topic_id: Uuid, partition: int) -> None:
    at.tables.in_flight.drop(_key(at.id, topic_id, partition))


def request(
    broker: Broker, transactional_id: str, batch: Batch, topics: dict[str, list[int]], is_v2: bool
) -> Message | None:
    """Return the request to the coordinator; None if there is none."""
    coordinator = coordinator_of(broker, TRANSACTION_TOPIC, transactional_id)
    if coordinator is None or coordinator < 0:
        return None
    transaction = AddPartitionsToTxnTransaction(
        transactional_id=transactional_id,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        verify_only=not is_v2,
        topics=[
            AddPartitionsToTxnTopic(name=name, partitions=indexes)
            for name, indexes in topics.items()
        ],
    )
    body = AddPartitionsToTxnRequest(transactions=[transaction])
    return Message(broker.id, coordinator, kafka_apis.ADD_PARTITIONS_TO_TXN.key, body)


def partition_errors(response: AddPartitionsToTxnResponse) -> dict[tuple[str, int], Error]:
    """Return the coordinator's errors by topic and partition."""
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


def produce_error(error: Error, version: int) -> Error:
    if error is Error.PRODUCER_FENCED:
        return Error.INVALID_PRODUCER_EPOCH
    if error is Error.TRANSACTION_ABORTABLE and version < KNOWS_ABORTABLE_SINCE:
        return Error.INVALID_TXN_STATE
    is_retried = error is Error.CONCURRENT_TRANSACTIONS and version < ADDS_SINCE
    return Error.NOT_ENOUGH_REPLICAS if error in _RETRIED or is_retried else error


def produce_error_message(error: Error, version: int) -> str | None:
    """Return Kafka's message for the error, if any."""
    error_code = produce_error(error, version)
    if error_code is Error.INVALID_TXN_STATE:
        return "Partition was not added to the transaction"
    if error_code is Error.NOT_ENOUGH_REPLICAS:
        return (
            "Unable to verify the partition has been added to the transaction."
            f" Underlying error: {error.name}"
        )
    return None
