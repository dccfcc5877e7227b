"""InitProducerId (key 22, versions 0 to 5): assign producer id and epoch.

Source: seed 002; KIP-98, KIP-360, KIP-730; `TransactionCoordinator.handleInitProducerId` in Kafka.

    no WRITE on the transactionalId                     53 TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    transactionalId null, neither IDEMPOTENT_WRITE on
    the cluster nor WRITE on any topic                  31 CLUSTER_AUTHORIZATION_FAILED
    ... with brokertwin.require.idempotent.write        WRITE on a topic is not enough
    only one of producerId, producerEpoch given         42 INVALID_REQUEST
    transactionalId ""                                  42 INVALID_REQUEST
    transactionalId null, the broker has an id          a new id, epoch 0
    transactionalId null, the broker has none           14 COORDINATOR_LOAD_IN_PROGRESS
    ... with brokertwin.zk.producer.id.blocks           waits for a block; -1 UNKNOWN_SERVER_ERROR
                                                        if all ids are used
    timeout of at most 0, or above
    transaction.max.timeout.ms                          50 INVALID_TRANSACTION_TIMEOUT
    another broker coordinates the transactional id,
    or `__transaction_state` is missing                 16 NOT_COORDINATOR
    another producer has taken over the id              90 PRODUCER_FENCED
    its transaction is open                             51 CONCURRENT_TRANSACTIONS; the transaction
                                                        is aborted
    its transaction is ending                           51 CONCURRENT_TRANSACTIONS
    otherwise                                           the table below; a new id may need a block:
                                                        14 COORDINATOR_LOAD_IN_PROGRESS

With a transactional id; *expected* are the producer id and epoch in the request:

    known         expected                  result
    no            any                       a new producer id, epoch 0
    exhausted     none, or the stored epoch a new producer id, epoch 0
    exhausted     another epoch             -1 UNKNOWN_SERVER_ERROR
    yes           none                      the next epoch; no last epoch
    yes           the stored epoch          the next epoch; the stored one becomes the last epoch
    yes           the last epoch            the stored epoch, because the request is a repetition
    yes           another epoch             90 PRODUCER_FENCED

Epoch 32766 is exhausted; 32767 is reserved for fencing. After a new producer id was assigned, a
repeated request contains the previous id and its exhausted epoch, which is the last epoch.

Without a transactional id, the producer id and epoch of the request (version 3 and later) are
ignored: the client bumps its epoch itself and requests only a new id. A chosen id (`choices`)
replaces the assigned one, but does not influence whether an id is assigned. Before version 4,
47 INVALID_PRODUCER_EPOCH replaces 90 PRODUCER_FENCED.
"""

import msgspec

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from brokertwin.state.access.authorizer import Operation, ResourceType
from brokertwin.state.apis import uncommitted
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.api import Api
from brokertwin.state.core.decision import Condition, Decision, PendingRequest, Request
from brokertwin.state.core.tables import decode_item
from brokertwin.state.transactions import producer_id_manager, producer_ids, transaction_coordinator
from brokertwin.state.transactions.transactions import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    EventData,
    ProducerIdAndEpoch,
)

BLOCK_TIMEOUT_MS = 30_000
"""Maximum wait for a block from ZooKeeper."""

FENCED_SINCE = 4
"""The first version that supports 90 PRODUCER_FENCED."""


def handle(broker: Broker, request: Request) -> Decision:
    """Assign a producer id, or the next epoch of a transactional id."""
    body: InitProducerIdRequest = request.body
    denied = _denied(broker, request, body.transactional_id)
    if denied is not Error.NONE:
        return _refused(denied)
    is_half_given = (body.producer_id == NO_PRODUCER_ID) != (
        body.producer_epoch == NO_PRODUCER_EPOCH
    )
    if is_half_given or body.transactional_id == "":
        return _refused(Error.INVALID_REQUEST)
    decision = _assign(broker, body, request.version, request.choices.producer_id)
    if _lacks_id(decision) and producer_id_manager.is_block_awaited(broker):
        watched = [producer_ids.watch_key(broker)]
        deadline = broker.event_time + BLOCK_TIMEOUT_MS
        condition = Condition(deadline, watched, msgspec.msgpack.encode(body))
        return Decision(condition=condition, copies=[*decision.messages])
    return decision


def ready(broker: Broker, _waiting: PendingRequest) -> bool:
    """Whether the broker has a block from ZooKeeper, or has failed to get one."""
    return not producer_id_manager.is_block_awaited(broker)


def complete(broker: Broker, waiting: PendingRequest) -> Decision:
    if producer_id_manager.is_block_awaited(broker):
        producer_ids.request_completed(broker)
    body = decode_item(waiting.state, InitProducerIdRequest)
    return _assign(broker, body, waiting.header.request_api_version, None)


def _lacks_id(decision: Decision) -> bool:
    response = decision.response
    assert isinstance(response, InitProducerIdResponse)
    return response.error_code == Error.COORDINATOR_LOAD_IN_PROGRESS


def _assign(
    broker: Broker, body: InitProducerIdRequest, version: int, chosen: int | None
) -> Decision:
    if body.transactional_id is not None:
        return _transactional(broker, body, body.transactional_id, version, chosen)
    drawn = producer_id_manager.next_producer_id(broker, chosen)
    decision = _refused(drawn.error)
    if drawn.error is Error.NONE:
        decision.response = InitProducerIdResponse(producer_id=drawn.producer_id, producer_epoch=0)
    decision.records, decision.messages = drawn.records, drawn.messages
    return decision


def _transactional(
    broker: Broker,
    body: InitProducerIdRequest,
    transactional_id: str,
    version: int,
    chosen: int | None,
) -> Decision:
    if not 0 < body.transaction_timeout_ms <= broker.settings.transaction_max_timeout_ms:
        return _refused(Error.INVALID_TRANSACTION_TIMEOUT)
    expected = None
    if body.producer_id != NO_PRODUCER_ID:
        expected = ProducerIdAndEpoch(body.producer_id, body.producer_epoch)
    data = EventData(broker.now, body.transaction_timeout_ms, expected)
    outcome = transaction_coordinator.init_producer_id(broker, transactional_id, data, chosen)
    decision = _refused(outcome.error, version)
    if outcome.error is Error.NONE:
        decision.response = InitProducerIdResponse(
            producer_id=outcome.holder.producer_id, producer_epoch=outcome.holder.epoch
        )
    decision.records, decision.messages = outcome.records, outcome.messages
    return decision


def _denied(broker: Broker, request: Request, transactional_id: str | None) -> Error:
    """Return the authorization error; WRITE on any topic suffices (KIP-679)."""
    if transactional_id is not None:
        may_write = broker.allows(
            request, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id
        )
        return Error.NONE if may_write else Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    may_write = broker.allows_cluster(request, Operation.IDEMPOTENT_WRITE) or (
        not broker.settings.brokertwin_require_idempotent_write
        and broker.allows_any_topic(request, Operation.WRITE)
    )
    return Error.NONE if may_write else Error.CLUSTER_AUTHORIZATION_FAILED


def _refused(error: Error, version: int = FENCED_SINCE) -> Decision:
    if error is Error.PRODUCER_FENCED and version < FENCED_SINCE:
        error = Error.INVALID_PRODUCER_EPOCH
    return Decision(response=InitProducerIdResponse(error_code=error))


API = Api(
    kafka_apis.INIT_PRODUCER_ID,
    handle,
    ready=ready,
    complete=complete,
    results=uncommitted.ACCEPTED | {Error.CONCURRENT_TRANSACTIONS},
)
