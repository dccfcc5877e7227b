"""AddOffsetsToTxn (key 25, versions 0 to 4): add offsets to a transaction.

Adds the partition of `__consumer_offsets` that stores the group, like AddPartitionsToTxn.
Source: KIP-98; `KafkaApis.handleAddOffsetsToTxnRequest` in Kafka 4.3.1.

    no WRITE on the transactional id      53 TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    no READ on the group                  30 GROUP_AUTHORIZATION_FAILED
    otherwise                             the errors of the coordinator in AddPartitionsToTxn

Below version 2, 47 INVALID_PRODUCER_EPOCH replaces 90 PRODUCER_FENCED.
"""

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
)
from brokertwin.state.access.authorizer import Operation, ResourceType
from brokertwin.state.cluster.coordinators import GROUP_TOPIC, partition_for
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.api import Api
from brokertwin.state.core.decision import Decision, Request
from brokertwin.state.transactions import transaction_coordinator
from brokertwin.state.transactions.transactions import ProducerIdAndEpoch

FENCED_SINCE = 2
"""The first version that supports 90 PRODUCER_FENCED."""


def handle(broker: Broker, request: Request) -> Decision:
    """Add the group's partition of `__consumer_offsets` to the transaction."""
    body: AddOffsetsToTxnRequest = request.body
    transactional_id, group = body.transactional_id, body.group_id
    if not broker.allows(request, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id):
        return _response(Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    if not broker.allows(request, Operation.READ, ResourceType.GROUP, group):
        return _response(Error.GROUP_AUTHORIZATION_FAILED)
    outcome = transaction_coordinator.add_partitions(
        broker,
        transactional_id,
        ProducerIdAndEpoch(body.producer_id, body.producer_epoch),
        {GROUP_TOPIC: [partition_for(group, _partition_count(broker))]},
    )
    decision = _response(outcome.error, request.version)
    decision.records = outcome.records
    return decision


def _partition_count(broker: Broker) -> int:
    """Return the number of partitions of `__consumer_offsets`."""
    topic = broker.topic_by_name(GROUP_TOPIC)
    return broker.settings.offsets_topic_num_partitions if topic is None else len(topic.partitions)


def _response(error: Error, version: int = FENCED_SINCE) -> Decision:
    if error is Error.PRODUCER_FENCED and version < FENCED_SINCE:
        error = Error.INVALID_PRODUCER_EPOCH
    return Decision(response=AddOffsetsToTxnResponse(error_code=error))


API = Api(kafka_apis.ADD_OFFSETS_TO_TXN, handle)
