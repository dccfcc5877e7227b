"""DescribeTransactions (key 65, version 0): what a coordinator knows of transactional ids.

Source: KIP-664; `KafkaApis.handleDescribeTransactionsRequest`,
`TransactionCoordinator.handleDescribeTransactions` in Kafka 4.3.1. For each id:

    the client may not DESCRIBE it     53 TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    ""                                 42
    another broker coordinates it      16
    unknown                            105 TRANSACTIONAL_ID_NOT_FOUND

Topics that the client may not DESCRIBE are left out. While a transaction ends, its partitions are
those whose marker is still to be written.
"""

from brokertwin.state.access.authorizer import Operation, ResourceType
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core import kafka_apis
from brokertwin.state.core.api import Api
from brokertwin.state.core.decision import Decision, Request
from brokertwin.state.core.errors import Error
from brokertwin.state.core.schema import Body, Int16, Int32, Int64
from brokertwin.state.transactions import transaction_coordinator


class DescribeTransactionsRequest(Body):
    """The transactional ids that are asked for."""

    transactional_ids: list[str]


class DescribedTopic(Body):
    """Partitions of a topic that are part of the transaction."""

    topic: str
    partitions: list[Int32]


class DescribedTransaction(Body, kw_only=True):
    """One transactional id; times in ms since 1970, -1 where no transaction has begun."""

    error_code: Int16 = Error.NONE
    transactional_id: str
    transaction_state: str = ""
    transaction_timeout_ms: Int32 = 0
    transaction_start_time_ms: Int64 = 0
    producer_id: Int64 = 0
    producer_epoch: Int16 = 0
    topics: list[DescribedTopic] = []


class DescribeTransactionsResponse(Body, kw_only=True):
    """One answer for each transactional id, in the order of the request."""

    throttle_time_ms: Int32 = 0
    transaction_states: list[DescribedTransaction]


def handle(broker: Broker, request: Request) -> Decision:
    """Describes the transactional ids."""
    body: DescribeTransactionsRequest = request.body
    states = [_describe(broker, request, name) for name in body.transactional_ids]
    return Decision(response=DescribeTransactionsResponse(transaction_states=states))


def _describe(broker: Broker, request: Request, name: str) -> DescribedTransaction:
    known = transaction_coordinator.find(broker, name)
    if not broker.allows(request, Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, name):
        known = Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if known is None:
        known = Error.TRANSACTIONAL_ID_NOT_FOUND
    if isinstance(known, Error):
        return DescribedTransaction(error_code=known, transactional_id=name)
    denied = broker.denied_topics(request, Operation.DESCRIBE, known.partitions)
    return DescribedTransaction(
        transactional_id=name,
        transaction_state=known.state,
        transaction_timeout_ms=known.transaction_timeout_ms,
        transaction_start_time_ms=known.transaction_start_timestamp,
        producer_id=known.producer_id,
        producer_epoch=known.producer_epoch,
        topics=[
            DescribedTopic(topic=topic, partitions=partitions)
            for topic, partitions in known.partitions.items()
            if topic not in denied
        ],
    )


API = Api(kafka_apis.DESCRIBE_TRANSACTIONS, DescribeTransactionsRequest, handle)
