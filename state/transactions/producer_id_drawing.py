"""How a broker hands out producer ids, and how it comes by the blocks that it hands them out of.

`draw` takes an id of the broker's block and asks the controller for the next block in time. With
`brokertwin.zk.producer.id.blocks` the broker takes its blocks itself (`producer_id_blocks.py`).

Source: KIP-730; `RPCProducerIdManager` in Kafka.
"""

from typing import NamedTuple

from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core import kafka_apis
from brokertwin.state.core.decision import CONTROLLER, Message
from brokertwin.state.core.errors import Error
from brokertwin.state.core.records import ProducerIdIssued, Record
from brokertwin.state.core.schema import Body, Int32, Int64
from brokertwin.state.transactions import producer_id_blocks, producer_ids


class AllocateProducerIdsRequest(Body):
    """Who asks: the broker's id and the epoch of its registration."""

    broker_id: Int32
    broker_epoch: Int64 = -1


def message(broker: Broker) -> Message:
    """The request of a broker for its next block."""
    body = AllocateProducerIdsRequest(broker_id=broker.id, broker_epoch=broker.epoch)
    return Message(broker.id, CONTROLLER, kafka_apis.ALLOCATE_PRODUCER_IDS.key, body)


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
    if broker.settings.brokertwin_zk_producer_id_blocks:
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
    if not producer_ids.may_request(tables.metadata, tables.in_flight, broker.id, broker.now):
        return []
    producer_ids.request_sent(tables.in_flight, broker.id)
    return [message(broker)]
