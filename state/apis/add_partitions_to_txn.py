"""AddPartitionsToTxn (key 24, versions 0 to 5): add or verify partitions.

Source: KIP-98, KIP-890; `KafkaApis.handleAddPartitionsToTxnRequest`, `AddPartitionsToTxnManager`,
`TransactionCoordinator` in Kafka 4.3.1.

Clients (versions 0 to 3) send one transaction:

    no WRITE on the transactional id            53 TRANSACTIONAL_ID_AUTHORIZATION_FAILED for every
                                                partition
    no WRITE on a topic, or an internal topic   29 TOPIC_AUTHORIZATION_FAILED for its partitions
    missing partition                           3 UNKNOWN_TOPIC_OR_PARTITION
    another partition has one of the last two   55 OPERATION_NOT_ATTEMPTED for the others

Brokers (version 4 and later) send several transactions and need CLUSTER_ACTION, or all of them get
`31 CLUSTER_AUTHORIZATION_FAILED`. A leader verifies that the partitions of a Produce request are
part of the transaction (`verifyOnly`), or adds them (Produce 12 and later, TxnOffsetCommit 5).
Missing partitions get the same errors as for clients. Then the coordinator checks, for all
partitions:

    transactional id ""                               42 INVALID_REQUEST
    another broker coordinates it                     16 NOT_COORDINATOR
    unknown id, or another producer id                49 INVALID_PRODUCER_ID_MAPPING
    another epoch                                     90 PRODUCER_FENCED; 47 INVALID_PRODUCER_EPOCH
                                                      below version 2
    the transaction is ending                         51 CONCURRENT_TRANSACTIONS
    verifyOnly: the partition is not part of it       120 TRANSACTION_ABORTABLE

If all partitions get the same result, success included, the response repeats the request's topics
and partitions with their duplicates. Otherwise, and with `verifyOnly`, it lists each partition once
in hash map order.

Not implemented: 14 COORDINATOR_LOAD_IN_PROGRESS, because `__transaction_state` loads at once.
"""

from collections.abc import Set
from typing import NamedTuple

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from brokertwin.state.access.authorizer import Operation, ResourceType
from brokertwin.state.cluster.image import INTERNAL_TOPICS
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.api import Api
from brokertwin.state.core.decision import Decision, Request
from brokertwin.state.core.java_hashes import (
    JavaMap,
    hash_map_order,
    java_hash,
    partition_hash,
    scala_order,
)
from brokertwin.state.transactions import transaction_coordinator, transactions
from brokertwin.state.transactions.transaction_coordinator import CoordinatorResult
from brokertwin.state.transactions.transactions import ProducerIdAndEpoch

BATCHES_SINCE = 4
FENCED_SINCE = 2
"""The first version that supports 90 PRODUCER_FENCED."""


class _Judged(NamedTuple):
    """The outcome for a transaction, with errors by topic name and partition.

    `keeps_request_order` means that the response repeats the topics and partitions of the request.
    """

    outcome: CoordinatorResult
    errors: dict[tuple[str, int], Error]
    keeps_request_order: bool = False


def handle(broker: Broker, request: Request) -> Decision:
    body: AddPartitionsToTxnRequest = request.body
    if request.version < BATCHES_SINCE:
        return _from_client(broker, request, body)
    if not broker.allows_cluster(request, Operation.CLUSTER_ACTION):
        denied = AddPartitionsToTxnResponse(error_code=Error.CLUSTER_AUTHORIZATION_FAILED)
        return Decision(response=denied)
    decision = Decision(records=[])
    results = []
    for transaction in body.transactions:
        judged = _judged(broker, transaction)
        decision.records = [*decision.records, *judged.outcome.records]
        results.append(
            AddPartitionsToTxnResult(
                transactional_id=transaction.transactional_id,
                topic_results=_results(transaction.topics, judged),
            )
        )
    decision.response = AddPartitionsToTxnResponse(results_by_transaction=results)
    return decision


def _judged(broker: Broker, transaction: AddPartitionsToTxnTransaction) -> _Judged:
    refused = _attempted(broker, transaction, frozenset())
    if refused is not None:
        return refused
    return _verify(broker, transaction) if transaction.verify_only else _add(broker, transaction)


def _from_client(broker: Broker, request: Request, body: AddPartitionsToTxnRequest) -> Decision:
    transaction = AddPartitionsToTxnTransaction(
        transactional_id=body.v3_and_below_transactional_id,
        producer_id=body.v3_and_below_producer_id,
        producer_epoch=body.v3_and_below_producer_epoch,
        topics=body.v3_and_below_topics,
    )
    judged = _refused(broker, request, transaction) or _add(broker, transaction)
    if request.version < FENCED_SINCE:
        errors: dict[tuple[str, int], Error] = {
            place: Error.INVALID_PRODUCER_EPOCH if error is Error.PRODUCER_FENCED else error
            for place, error in judged.errors.items()
        }
        judged = judged._replace(errors=errors)
    results = _results(transaction.topics, judged)
    response = AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results)
    return Decision(records=judged.outcome.records, response=response)


def _refused(
    broker: Broker, request: Request, transaction: AddPartitionsToTxnTransaction
) -> _Judged | None:
    """Return the errors that the broker itself decides, or None."""
    name = transaction.transactional_id
    places = _places(transaction.topics)
    if not broker.allows(request, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, name):
        errors = dict.fromkeys(places, Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        return _Judged(CoordinatorResult(), errors, keeps_request_order=True)
    denied = broker.denied_topics(request, Operation.WRITE, {topic for topic, _ in places})
    return _attempted(broker, transaction, {*denied, *INTERNAL_TOPICS})


def _attempted(
    broker: Broker, transaction: AddPartitionsToTxnTransaction, denied: Set[str]
) -> _Judged | None:
    """Return the errors if a topic is denied or a partition is missing."""
    places = _places(transaction.topics)
    errors = {}
    for topic, partition in places:
        known = broker.topic_by_name(topic)
        if topic in denied:
            errors[topic, partition] = Error.TOPIC_AUTHORIZATION_FAILED
        elif known is None or not 0 <= partition < len(known.partitions):
            errors[topic, partition] = Error.UNKNOWN_TOPIC_OR_PARTITION
    if not errors:
        return None
    ordered = _in_order(places)
    all_errors = {place: errors.get(place, Error.OPERATION_NOT_ATTEMPTED) for place in ordered}
    return _Judged(CoordinatorResult(), all_errors)


def _in_order(places: list[tuple[str, int]]) -> list[tuple[str, int]]:
    named = dict.fromkeys(places)
    return scala_order(named, _hash)


def _hash(place: tuple[str, int]) -> int:
    return partition_hash(*place)


def _add(broker: Broker, transaction: AddPartitionsToTxnTransaction) -> _Judged:
    outcome = transaction_coordinator.add_partitions(
        broker, transaction.transactional_id, _holder(transaction), _by_topic(transaction.topics)
    )
    errors = dict.fromkeys(_places(transaction.topics), outcome.error)
    return _Judged(outcome, errors, keeps_request_order=True)


def _verify(broker: Broker, transaction: AddPartitionsToTxnTransaction) -> _Judged:
    metadata = transaction_coordinator.find(broker, transaction.transactional_id)
    error = metadata if isinstance(metadata, Error) else Error.NONE
    if not isinstance(metadata, Error):
        error = transactions.verification_error(metadata, _holder(transaction))
    named = dict.fromkeys(_places(transaction.topics))
    places = hash_map_order(named, _hash, len(named))
    errors = dict.fromkeys(places, error)
    if metadata is not None and not isinstance(metadata, Error) and error is Error.NONE:
        for topic, partition in places:
            if partition not in metadata.partitions.get(topic, []):
                errors[topic, partition] = Error.TRANSACTION_ABORTABLE
    return _Judged(CoordinatorResult(), errors)


def _holder(transaction: AddPartitionsToTxnTransaction) -> ProducerIdAndEpoch:
    return ProducerIdAndEpoch(transaction.producer_id, transaction.producer_epoch)


def _by_topic(topics: list[AddPartitionsToTxnTopic]) -> dict[str, list[int]]:
    by_topic: dict[str, list[int]] = {}
    for topic in topics:
        by_topic.setdefault(topic.name, []).extend(topic.partitions)
    return by_topic


def _places(topics: list[AddPartitionsToTxnTopic]) -> list[tuple[str, int]]:
    return [(topic.name, partition) for topic in topics for partition in topic.partitions]


def _results(
    topics: list[AddPartitionsToTxnTopic], judged: _Judged
) -> list[AddPartitionsToTxnTopicResult]:
    requested = [(topic.name, topic.partitions) for topic in topics]
    if not judged.keeps_request_order:
        grouped: JavaMap[str, list[int]] = JavaMap(java_hash)
        for name, partition in judged.errors:
            if name not in grouped:
                grouped[name] = []
            grouped[name].append(partition)
        requested = [(name, grouped[name]) for name in grouped]
    return [
        AddPartitionsToTxnTopicResult(
            name=name,
            results_by_partition=[
                AddPartitionsToTxnPartitionResult(
                    partition_index=partition, partition_error_code=judged.errors[name, partition]
                )
                for partition in partitions
            ],
        )
        for name, partitions in requested
    ]


API = Api(kafka_apis.ADD_PARTITIONS_TO_TXN, handle)
