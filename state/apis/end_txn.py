"""EndTxn (key 26, versions 0 to 5): commit or abort a transaction.

Source: KIP-98, KIP-890; `KafkaApis.handleEndTxnRequest`, `TransactionCoordinator.endTransaction` in
Kafka 4.3.1. The results for each state are in `state/transactions/transactions.py`.

    no WRITE on the transactional id          53 TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    transactional id ""                       42 INVALID_REQUEST
    another broker coordinates it             16 NOT_COORDINATOR
    unknown id, or another producer id        49 INVALID_PRODUCER_ID_MAPPING
    another epoch                             90 PRODUCER_FENCED; 47 INVALID_PRODUCER_EPOCH below
                                              version 2
    no transaction, or ended the other way    48 INVALID_TXN_STATE
    the transaction is ending                 51 CONCURRENT_TRANSACTIONS
    already ended the same way                0 NONE, because the request is a repetition

The response is sent when the outcome is decided, before the leaders have written the end markers.
From version 5 every end bumps the epoch, and the response contains the producer's new id and epoch.
An abort without a transaction then succeeds, too. If the epoch is exhausted, the producer gets a
new id. That may need a new block of ids: `14 COORDINATOR_LOAD_IN_PROGRESS`.
"""

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.end_txn import EndTxnRequest, EndTxnResponse
from brokertwin.state.access.authorizer import Operation, ResourceType
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.api import Api, Refused
from brokertwin.state.core.decision import Decision, Request
from brokertwin.state.transactions import transaction_coordinator
from brokertwin.state.transactions.transactions import EPOCH_BUMPS, ProducerIdAndEpoch

BUMPS_SINCE = 5
FENCED_SINCE = 2
"""The first version that supports 90 PRODUCER_FENCED."""


def handle(broker: Broker, request: Request) -> Decision:
    """Decide the outcome and send the end markers to the leaders."""
    body: EndTxnRequest = request.body
    name = body.transactional_id
    if not broker.allows(request, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, name):
        raise Refused(Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    outcome = transaction_coordinator.end(
        broker,
        name,
        ProducerIdAndEpoch(body.producer_id, body.producer_epoch),
        body.committed,
        EPOCH_BUMPS if request.version >= BUMPS_SINCE else EPOCH_BUMPS - 1,
    )
    error = outcome.error
    if error is Error.PRODUCER_FENCED and request.version < FENCED_SINCE:
        error = Error.INVALID_PRODUCER_EPOCH
    response = EndTxnResponse(
        error_code=error,
        producer_id=outcome.holder.producer_id,
        producer_epoch=outcome.holder.epoch,
    )
    return Decision(records=outcome.records, response=response, messages=outcome.messages)


API = Api(kafka_apis.END_TXN, handle)
