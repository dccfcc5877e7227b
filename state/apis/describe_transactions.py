"""DescribeTransactions (key 65, version 0): states of transactional ids.

Source: KIP-664; `KafkaApis.handleDescribeTransactionsRequest`,
`TransactionCoordinator.handleDescribeTransactions` in Kafka 4.3.1. For each id:

    no DESCRIBE on the id              53 TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    id ""                              42 INVALID_REQUEST
    another broker coordinates it      16 NOT_COORDINATOR
    unknown id                         105 TRANSACTIONAL_ID_NOT_FOUND

Topics that the client may not DESCRIBE are omitted. While a transaction ends, its partitions are
those whose end marker is pending.
"""

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    DescribeTransactionsResponseTopicData,
    DescribeTransactionsResponseTransactionState,
)
from brokertwin.state.access.authorizer import Operation, ResourceType
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.api import Api
from brokertwin.state.core.decision import Decision, Request
from brokertwin.state.transactions import transaction_coordinator


def handle(broker: Broker, request: Request) -> Decision:
    body: DescribeTransactionsRequest = request.body
    states = [_describe(broker, request, name) for name in body.transactional_ids]
    return Decision(response=DescribeTransactionsResponse(transaction_states=states))


def _describe(
    broker: Broker, request: Request, name: str
) -> DescribeTransactionsResponseTransactionState:
    metadata = transaction_coordinator.find(broker, name)
    if not broker.allows(request, Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, name):
        metadata = Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if metadata is None:
        metadata = Error.TRANSACTIONAL_ID_NOT_FOUND
    if isinstance(metadata, Error):
        return DescribeTransactionsResponseTransactionState(
            error_code=metadata, transactional_id=name
        )
    denied = broker.denied_topics(request, Operation.DESCRIBE, metadata.partitions)
    return DescribeTransactionsResponseTransactionState(
        transactional_id=name,
        transaction_state=metadata.state,
        transaction_timeout_ms=metadata.transaction_timeout_ms,
        transaction_start_time_ms=metadata.transaction_start_timestamp,
        producer_id=metadata.producer_id,
        producer_epoch=metadata.producer_epoch,
        topics=[
            DescribeTransactionsResponseTopicData(topic=topic, partitions=partitions)
            for topic, partitions in metadata.partitions.items()
            if topic not in denied
        ],
    )


API = Api(kafka_apis.DESCRIBE_TRANSACTIONS, handle)
