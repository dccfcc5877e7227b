"""EndTxn (key 26, versions 0 to 5): a producer commits or aborts its transaction.

Source: KIP-98, KIP-890; `KafkaApis.handleEndTxnRequest`, `TransactionCoordinator.endTransaction` in
Kafka 4.3.1. What each state answers is in `state/transactions/transactions.py`.

    transactional id that the client may not WRITE   53
    transactional id ""                              42
    another broker coordinates it                    16
    unknown, or of another producer id               49
    another epoch                                    90 (47 below version 2)
    nothing to end, or ended the other way           48
    its transaction ends already                     51
    ended just so before                             0: a repeated request

The client is answered when the outcome is decided, before the leaders have written their markers.
From version 5 on every end bumps the epoch, and the answer says what the producer holds now; an
abort is then good, too, where there is no transaction. Where the epoch is exhausted a new producer
id is drawn, which may need a block: 14.
"""

from brokertwin.state.access.authorizer import Operation, ResourceType
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core import kafka_apis
from brokertwin.state.core.api import Api
from brokertwin.state.core.decision import Decision, Request
from brokertwin.state.core.errors import Error
from brokertwin.state.core.wire.generated.end_txn import EndTxnRequest, EndTxnResponse
from brokertwin.state.transactions import transaction_coordinator
from brokertwin.state.transactions.transactions import (
    EPOCH_BUMPS,
    ProducerIdAndEpoch,
)

BUMPS_SINCE = 5
FENCED_SINCE = 2
"""The first version that knows PRODUCER_FENCED."""


def handle(broker: Broker, request: Request) -> Decision:
    """Decides the outcome and has the markers written."""
    body: EndTxnRequest = request.body
    name = body.transactional_id
    if not broker.allows(request, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, name):
        denied = Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        return Decision(response=EndTxnResponse(error_code=denied))
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


API = Api(kafka_apis.END_TXN, EndTxnRequest, handle)
