"""AllocateProducerIds (key 67, version 0): a broker asks the controller for a block of 1000 ids.

Source: KIP-730; `ProducerIdControlManager.generateNextProducerId`, `RPCProducerIdManager` in Kafka.

    not allowed CLUSTER_ACTION on the cluster 31 CLUSTER_AUTHORIZATION_FAILED
    broker unknown, or of another epoch       77 STALE_BROKER_EPOCH
    no whole block left below 2^63 - 1        -1 UNKNOWN_SERVER_ERROR
    otherwise                                 the next block, and a ProducerIdBlockAllocated record

The broker takes a block that begins where its own ends or later; after any other answer it waits 50
ms before it asks again. `draw` is how it hands out an id of its block. With
`brokerstream.zk.producer.id.blocks` it takes its blocks itself (`state/producer_id_blocks.py`).

Not done: registrations of brokers; every broker of the cell counts as registered in epoch 0.
"""

from typing import NamedTuple

from brokerstream.state import producer_id_blocks, producer_ids
from brokerstream.state.apis import Api
from brokerstream.state.authorizer import Operation
from brokerstream.state.decision import CONTROLLER, Decision, Message, Request
from brokerstream.state.errors import Error
from brokerstream.state.machines import Broker, Controller
from brokerstream.state.records import (
    ProducerIdBlockAllocated,
    ProducerIdBlockReceived,
    ProducerIdIssued,
    Record,
)
from brokerstream.state.schema import Body, Int16, Int32, Int64

KEY = 67
BROKER_EPOCH = 0
"""The epoch in which a broker of the cell is registered."""


class AllocateProducerIdsRequest(Body):
    """Who asks: the broker's id and the epoch of its registration."""

    broker_id: Int32
    broker_epoch: Int64 = -1


class AllocateProducerIdsResponse(Body):
    """The ids `producer_id_start` to `producer_id_start + producer_id_len - 1`."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    producer_id_start: Int64 = 0
    producer_id_len: Int32 = 0


def message(broker: Broker) -> Message:
    """The request of a broker for its next block."""
    body = AllocateProducerIdsRequest(broker_id=broker.id, broker_epoch=BROKER_EPOCH)
    return Message(broker.id, CONTROLLER, KEY, body)


class Drawn(NamedTuple):
    """A producer id and the records that hand it out, or why there is none.

    `messages` ask for the next block, where one is due.
    """

    producer_id: int = -1
    records: list[Record] = []
    messages: list[Message] = []
    error: Error = Error.NONE


def draw(broker: Broker, chosen: int | None = None) -> Drawn:
    """The next producer id, whose place `chosen` takes; 14 while the broker has none."""
    if broker.settings.brokerstream_zk_producer_id_blocks:
        return _draw_of_document(broker, chosen)
    drawn = producer_ids.next_id(broker.tables.metadata, broker.id)
    if drawn is None:
        error = Error.COORDINATOR_LOAD_IN_PROGRESS
        return Drawn(messages=block_request(broker), error=error)
    producer_id = drawn if chosen is None else chosen
    is_at_mark = producer_ids.reaches_prefetch(broker.tables.metadata, broker.id, producer_id)
    messages = block_request(broker) if is_at_mark else []
    return Drawn(producer_id, [ProducerIdIssued(producer_id)], messages)


def _draw_of_document(broker: Broker, chosen: int | None) -> Drawn:
    """The next producer id where the broker takes its blocks itself; -1 where none is left."""
    taken: list[Record] = []
    drawn = producer_ids.next_id(broker.tables.metadata, broker.id)
    if drawn is None:
        try:
            drawn, taken = producer_id_blocks.block_taken(broker.tables.metadata, broker.id)
        except producer_id_blocks.ProducerIdsExhausted:
            return Drawn(error=Error.UNKNOWN_SERVER_ERROR)
    producer_id = drawn if chosen is None else chosen
    return Drawn(producer_id, [*taken, ProducerIdIssued(producer_id)])


def block_request(broker: Broker) -> list[Message]:
    """The request for the next block, where the broker may ask for one."""
    tables = broker.tables
    if not producer_ids.may_request(tables.metadata, tables.waiting, broker.id, broker.now):
        return []
    producer_ids.request_sent(tables.waiting, broker.id)
    return [message(broker)]


def handle(controller: Controller, request: Request) -> Decision:
    """Gives the next block away."""
    body: AllocateProducerIdsRequest = request.body
    if not controller.allows_cluster(request, Operation.CLUSTER_ACTION):
        return _refused(Error.CLUSTER_AUTHORIZATION_FAILED)
    if body.broker_id not in controller.cell.brokers or body.broker_epoch != BROKER_EPOCH:
        return _refused(Error.STALE_BROKER_EPOCH)
    block = producer_ids.next_block(controller.tables.metadata, controller.id)
    if block is None:
        return _refused(Error.UNKNOWN_SERVER_ERROR)
    return Decision(
        records=[ProducerIdBlockAllocated(body.broker_id, block.end)],
        response=AllocateProducerIdsResponse(
            producer_id_start=block.first, producer_id_len=block.size
        ),
    )


def on_reply(broker: Broker, _message: Message, response: AllocateProducerIdsResponse) -> Decision:
    """The broker takes its block, or waits before it asks again."""
    tables = broker.tables
    first, size = response.producer_id_start, response.producer_id_len
    is_good = producer_ids.is_acceptable(tables.metadata, broker.id, first, size)
    if response.error_code != Error.NONE or not is_good:
        producer_ids.request_failed(tables.waiting, broker.id, broker.now)
        return Decision()
    producer_ids.request_answered(tables.waiting, broker.id)
    return Decision(records=[ProducerIdBlockReceived(first, size)])


def _refused(error: Error) -> Decision:
    return Decision(response=AllocateProducerIdsResponse(error_code=error))


API = Api(
    key=KEY,
    name="ALLOCATE_PRODUCER_IDS",
    versions=(0, 0),
    request_type=AllocateProducerIdsRequest,
    handle=handle,
    on_controller=True,
    on_reply=on_reply,
)
