"""AddPartitionsToTxn (key 24, versions 0 to 5): partitions join a transaction, or are looked up.

Source: KIP-98, KIP-890; `KafkaApis.handleAddPartitionsToTxnRequest`, `AddPartitionsToTxnManager`,
`TransactionCoordinator` in Kafka 4.3.1.

From clients (versions 0 to 3): one transaction.

    transactional id that the client may not WRITE    53 for every partition
    a topic that it may not WRITE, or an internal one 29 for its partitions
    partitions that do not exist                      3
    where there is one of those two                   55 OPERATION_NOT_ATTEMPTED for the others

From brokers (version 4 and later, CLUSTER_ACTION or 31 for all): several transactions. A leader
asks whether the partitions of a Produce are part of the transaction (`verifyOnly`), or has them
join it (Produce 12 and later, TxnOffsetCommit 5). Partitions that do not exist are 3 and the others
of their transaction 55, as above. Then the coordinator, for all partitions alike:

    transactional id ""                               42
    another broker coordinates it                     16
    unknown, or of another producer id                49
    another epoch                                     90 PRODUCER_FENCED (47 below version 2)
    its transaction ends                              51
    verifyOnly: partitions that are not part of it    120 TRANSACTION_ABORTABLE

What is told of all partitions alike, of those that were added too, comes as often as the request
names them; else, and with `verifyOnly`, each partition comes once, in the order of hash maps.

Not done: 14 while a coordinator loads its partition of `__transaction_state`; it never does.
"""

from collections.abc import Set
from typing import NamedTuple

from brokertwin.state.access.authorizer import Operation, ResourceType
from brokertwin.state.cluster.image import INTERNAL_TOPICS
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core import kafka_apis
from brokertwin.state.core.api import Api
from brokertwin.state.core.decision import Decision, Request
from brokertwin.state.core.errors import Error
from brokertwin.state.core.java_hashes import (
    JavaMap,
    hash_map_order,
    java_hash,
    partition_hash,
    scala_order,
)
from brokertwin.state.core.wire.generated.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from brokertwin.state.transactions import transaction_coordinator, transactions
from brokertwin.state.transactions.transaction_coordinator import CoordinatorResult
from brokertwin.state.transactions.transactions import ProducerIdAndEpoch

BATCHES_SINCE = 4
FENCED_SINCE = 2
"""The first version that knows PRODUCER_FENCED."""


class _Judged(NamedTuple):
    """The outcome for a transaction, and the errors of its partitions by topic name and number.

    `is_as_asked` where the answer repeats topics and partitions as the request does.
    """

    outcome: CoordinatorResult
    errors: dict[tuple[str, int], Error]
    is_as_asked: bool = False


def handle(broker: Broker, request: Request) -> Decision:
    """Has partitions join their transactions, or says whether they are part of them."""
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
    """What becomes of a transaction that another broker asks about."""
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
    """The errors where the broker itself refuses a client's request; None where it does not."""
    name = transaction.transactional_id
    places = _places(transaction.topics)
    if not broker.allows(request, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, name):
        errors = dict.fromkeys(places, Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        return _Judged(CoordinatorResult(), errors, is_as_asked=True)
    denied = broker.denied_topics(request, Operation.WRITE, {topic for topic, _ in places})
    return _attempted(broker, transaction, {*denied, *INTERNAL_TOPICS})


def _attempted(
    broker: Broker, transaction: AddPartitionsToTxnTransaction, denied: Set[str]
) -> _Judged | None:
    """The errors where a topic is denied or a partition does not exist; None where neither is."""
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
    """Each partition once, in the order of a map in Scala that has them."""
    named = dict.fromkeys(places)
    return scala_order(named, _hash)


def _hash(place: tuple[str, int]) -> int:
    return partition_hash(*place)


def _add(broker: Broker, transaction: AddPartitionsToTxnTransaction) -> _Judged:
    outcome = transaction_coordinator.add_partitions(
        broker, transaction.transactional_id, _holder(transaction), _by_topic(transaction.topics)
    )
    errors = dict.fromkeys(_places(transaction.topics), outcome.error)
    return _Judged(outcome, errors, is_as_asked=True)


def _verify(broker: Broker, transaction: AddPartitionsToTxnTransaction) -> _Judged:
    known = transaction_coordinator.find(broker, transaction.transactional_id)
    error = known if isinstance(known, Error) else Error.NONE
    if not isinstance(known, Error):
        error = transactions.verification_error(known, _holder(transaction))
    named = dict.fromkeys(_places(transaction.topics))
    places = hash_map_order(named, _hash, len(named))
    errors = dict.fromkeys(places, error)
    if known is not None and not isinstance(known, Error) and error is Error.NONE:
        for topic, partition in places:
            if partition not in known.partitions.get(topic, []):
                errors[topic, partition] = Error.TRANSACTION_ABORTABLE
    return _Judged(CoordinatorResult(), errors)


def _holder(transaction: AddPartitionsToTxnTransaction) -> ProducerIdAndEpoch:
    return ProducerIdAndEpoch(transaction.producer_id, transaction.producer_epoch)


def _by_topic(topics: list[AddPartitionsToTxnTopic]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic in topics:
        found.setdefault(topic.name, []).extend(topic.partitions)
    return found


def _places(topics: list[AddPartitionsToTxnTopic]) -> list[tuple[str, int]]:
    return [(topic.name, partition) for topic in topics for partition in topic.partitions]


def _results(
    topics: list[AddPartitionsToTxnTopic], judged: _Judged
) -> list[AddPartitionsToTxnTopicResult]:
    asked = [(topic.name, topic.partitions) for topic in topics]
    if not judged.is_as_asked:
        grouped: JavaMap[str, list[int]] = JavaMap(java_hash)
        for name, partition in judged.errors:
            if name not in grouped:
                grouped[name] = []
            grouped[name].append(partition)
        asked = [(name, grouped[name]) for name in grouped]
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
        for name, partitions in asked
    ]


API = Api(
    kafka_apis.ADD_PARTITIONS_TO_TXN,
    AddPartitionsToTxnRequest,
    handle,
    response_type=AddPartitionsToTxnResponse,
)
