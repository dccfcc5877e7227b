"""ListTransactions (key 66, versions 0 to 2): list transactional ids.

Source: KIP-664, KIP-994, KIP-1152; `TransactionStateManager.listTransactionStates` in Kafka 4.3.1.
The broker lists ids that it coordinates and that the client may DESCRIBE. An id must pass every
filter of the request. The response repeats unknown states; they match no id. `durationFilter`
(version 1 and later) selects transactions older than a number of ms; the start time of an id
without a transaction is 0. The list is sorted by name; Kafka's has the order of a hash map.

`transactionalIdPattern` (version 2) is an RE2 expression that matches the whole name. An
invalid one returns 128 INVALID_REGULAR_EXPRESSION and nothing else.
"""

from collections.abc import Iterable

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    ListTransactionsResponseTransactionState,
)
from brokertwin.state.access.authorizer import Operation, ResourceType
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.api import Api, Refused
from brokertwin.state.core.decision import Decision, Request
from brokertwin.state.core.records import TransactionMetadata
from brokertwin.state.groups import topic_regexes
from brokertwin.state.transactions import transactional_ids
from brokertwin.state.transactions.transactions import TransactionState


def handle(broker: Broker, request: Request) -> Decision:
    """Respond without writing records."""
    body: ListTransactionsRequest = request.body
    pattern = body.transactional_id_pattern
    if pattern and topic_regexes.invalid(pattern) is not None:
        raise Refused(Error.INVALID_REGULAR_EXPRESSION)
    unknown = [
        name for name in dict.fromkeys(body.state_filters) if name not in set(TransactionState)
    ]
    listed = [
        ListTransactionsResponseTransactionState(
            transactional_id=name,
            producer_id=metadata.producer_id,
            transaction_state=metadata.state,
        )
        for name, metadata in _named(broker, pattern)
        if _passes(body, metadata, broker.now)
        and broker.allows(request, Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, name)
    ]
    response = ListTransactionsResponse(unknown_state_filters=unknown, transaction_states=listed)
    return Decision(response=response)


def _named(broker: Broker, pattern: str | None) -> Iterable[tuple[str, TransactionMetadata]]:
    """Yield the broker's transactional ids that match the pattern, if any."""
    by_name = dict(transactional_ids.all_ids(broker))
    names = topic_regexes.matching([pattern], by_name)[pattern] if pattern else by_name
    return ((name, by_name[name]) for name in names)


def _passes(body: ListTransactionsRequest, metadata: TransactionMetadata, now: int) -> bool:
    if body.producer_id_filters and metadata.producer_id not in body.producer_id_filters:
        return False
    if body.state_filters and metadata.state not in body.state_filters:
        return False
    has_lasted = now - metadata.transaction_start_timestamp
    return body.duration_filter < 0 or has_lasted > body.duration_filter


API = Api(kafka_apis.LIST_TRANSACTIONS, handle)
