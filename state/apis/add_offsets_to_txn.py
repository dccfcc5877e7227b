"""AddOffsetsToTxn (key 25, versions 0 to 4): a group's offsets join a transaction.

Source: KIP-98; `KafkaApis.handleAddOffsetsToTxnRequest` in Kafka 4.3.1. The partition of
`__consumer_offsets` that the group belongs to joins, as with AddPartitionsToTxn.

    transactional id that the client may not WRITE   53
    group that it may not READ                       30
    then                                             as the coordinator answers AddPartitionsToTxn;
                                                     90 is 47 below version 2
"""

from brokertwin.state.access.authorizer import Operation, ResourceType
from brokertwin.state.cluster.coordinators import GROUP_TOPIC, partition_for
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core import kafka_apis
from brokertwin.state.core.api import Api
from brokertwin.state.core.decision import Decision, Request
from brokertwin.state.core.errors import Error
from brokertwin.state.core.wire.generated.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from brokertwin.state.transactions import transaction_coordinator
from brokertwin.state.transactions.transactions import ProducerIdAndEpoch

FENCED_SINCE = 2
"""The first version that knows PRODUCER_FENCED."""


def handle(broker: Broker, request: Request) -> Decision:
    """Has the group's partition join the transaction."""
    body: AddOffsetsToTxnRequest = request.body
    transactional_id, group = body.transactional_id, body.group_id
    if not broker.allows(request, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id):
        return _answer(Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not broker.allows(request, Operation.READ, ResourceType.GROUP, group):
        return _answer(Error.GROUP_AUTHORIZATION_FAILED)
    outcome = transaction_coordinator.add_partitions(
        broker,
        transactional_id,
        ProducerIdAndEpoch(body.producer_id, body.producer_epoch),
        {GROUP_TOPIC: [partition_for(group, _partition_count(broker))]},
    )
    decision = _answer(outcome.error, request.version)
    decision.records = outcome.records
    return decision


def _partition_count(broker: Broker) -> int:
    """How many partitions `__consumer_offsets` has, or will have."""
    topic = broker.topic_by_name(GROUP_TOPIC)
    return broker.settings.offsets_topic_num_partitions if topic is None else len(topic.partitions)


def _answer(error: Error, version: int = FENCED_SINCE) -> Decision:
    if error is Error.PRODUCER_FENCED and version < FENCED_SINCE:
        error = Error.INVALID_PRODUCER_EPOCH
    return Decision(response=AddOffsetsToTxnResponse(error_code=error))


API = Api(kafka_apis.ADD_OFFSETS_TO_TXN, AddOffsetsToTxnRequest, handle)
