"""InitProducerId (key 22, versions 0 to 5): a producer gets its id and epoch.

Source: seed 002; KIP-98, KIP-360, KIP-730; `TransactionCoordinator.handleInitProducerId` in Kafka.

    transactionalId ""                                  42 INVALID_REQUEST
    only one of producerId and producerEpoch is -1      42
    transactionalId null, the broker has an id          a new id, epoch 0
    transactionalId null, the broker has none           14 COORDINATOR_LOAD_IN_PROGRESS

Without a transactional id the producer id and epoch of the request (version 3 and later) do not
matter: the client bumps its own epoch and asks only for a new id. A chosen id (`choices`) takes the
place of the one drawn, and no part in deciding whether there is one.

Not done: transactional ids, the authorization (31, 53).
"""

from typing import Annotated

from brokerstream.state import producer_ids
from brokerstream.state.apis import Api, NotBuilt, allocate_producer_ids
from brokerstream.state.decision import Decision, Message, Request
from brokerstream.state.errors import Error
from brokerstream.state.machines import Broker
from brokerstream.state.records import ProducerIdIssued
from brokerstream.state.schema import Body, Int16, Int32, Int64, since

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1


class InitProducerIdRequest(Body):
    """The producer's transactional id or null, and what it holds already, if anything."""

    transactional_id: str | None
    transaction_timeout_ms: Int32
    producer_id: Annotated[Int64, since(3)] = NO_PRODUCER_ID
    producer_epoch: Annotated[Int16, since(3)] = NO_PRODUCER_EPOCH


class InitProducerIdResponse(Body):
    """The producer's id and epoch, both -1 with an error."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id: Int64 = NO_PRODUCER_ID
    producer_epoch: Int16 = NO_PRODUCER_EPOCH


def handle(broker: Broker, request: Request) -> Decision:
    """Hands out an id. Raises NotBuilt for a request with a transactional id."""
    body: InitProducerIdRequest = request.body
    is_half_given = (body.producer_id == NO_PRODUCER_ID) != (
        body.producer_epoch == NO_PRODUCER_EPOCH
    )
    if is_half_given or body.transactional_id == "":
        return _refused(Error.INVALID_REQUEST)
    if body.transactional_id is not None:
        raise NotBuilt("InitProducerId with a transactional id: transactions")
    drawn = producer_ids.next_id(broker.tables.metadata, broker.id)
    if drawn is None:
        decision = _refused(Error.COORDINATOR_LOAD_IN_PROGRESS)
        decision.messages = _request_block(broker)
        return decision
    chosen = request.choices.producer_id
    producer_id = drawn if chosen is None else chosen
    is_at_mark = producer_ids.reaches_prefetch(broker.tables.metadata, broker.id, producer_id)
    return Decision(
        records=[ProducerIdIssued(producer_id)],
        response=InitProducerIdResponse(producer_id=producer_id, producer_epoch=0),
        messages=_request_block(broker) if is_at_mark else [],
    )


def _request_block(broker: Broker) -> list[Message]:
    tables = broker.tables
    if not producer_ids.may_request(tables.metadata, tables.waiting, broker.id, broker.now):
        return []
    producer_ids.request_sent(tables.waiting, broker.id)
    return [allocate_producer_ids.message(broker)]


def _refused(error: Error) -> Decision:
    return Decision(response=InitProducerIdResponse(error_code=error))


API = Api(
    key=22,
    name="INIT_PRODUCER_ID",
    versions=(0, 5),
    request_type=InitProducerIdRequest,
    handle=handle,
)
