"""Generation of producer ids on a broker.

`next_producer_id` issues an id of the broker's block and requests the next block in advance. With
`brokertwin.zk.producer.id.blocks` the broker allocates blocks itself (`producer_id_blocks.py`).

Source: KIP-730; `RPCProducerIdManager` in Kafka.
"""

from typing import NamedTuple

from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core import kafka_apis
from brokertwin.state.core.decision import CONTROLLER, Message
from brokertwin.state.core.errors import Error
from brokertwin.state.core.records import ProducerIdIssued, Record
from brokertwin.state.core.wire.generated.allocate_producer_ids import AllocateProducerIdsRequest
from brokertwin.state.transactions import producer_id_blocks, producer_ids


def allocate_request(broker: Broker) -> Message:
    body = AllocateProducerIdsRequest(broker_id=broker.id, broker_epoch=broker.epoch)
    return Message(broker.id, CONTROLLER, kafka_apis.ALLOCATE_PRODUCER_IDS.key, body)


class ProducerIdResult(NamedTuple):
    """A producer id and its records, or an error.

    `messages` request the next block, if due.
    """

    producer_id: int = -1
    records: list[Record] = []
    messages: list[Message] = []
    error: Error = Error.NONE


def next_producer_id(broker: Broker, chosen: int | None = None) -> ProducerIdResult:
    """Issue the next producer id, or the recorded one (`chosen`).

    Error: 14 COORDINATOR_LOAD_IN_PROGRESS without a block.
    """
    if broker.settings.brokertwin_zk_producer_id_blocks:
        return _next_from_document(broker, chosen)
    next_id = producer_ids.next_id(broker.tables.metadata, broker.id)
    if next_id is None:
        error = Error.COORDINATOR_LOAD_IN_PROGRESS
        return ProducerIdResult(messages=block_request(broker), error=error)
    producer_id = next_id if chosen is None else chosen
    is_at_mark = producer_ids.reaches_prefetch(broker.tables.metadata, broker.id, producer_id)
    messages = block_request(broker) if is_at_mark else []
    return ProducerIdResult(producer_id, [ProducerIdIssued(producer_id)], messages)


def _next_from_document(broker: Broker, chosen: int | None) -> ProducerIdResult:
    """Issue an id of a block in ZooKeeper.

    Error: -1 UNKNOWN_SERVER_ERROR if ids are exhausted.
    """
    block_records: list[Record] = []
    next_id = producer_ids.next_id(broker.tables.metadata, broker.id)
    if next_id is None:
        try:
            next_id, block_records = producer_id_blocks.allocate_block(
                broker.tables.metadata, broker.id
            )
        except producer_id_blocks.ProducerIdsExhausted:
            return ProducerIdResult(error=Error.UNKNOWN_SERVER_ERROR)
    producer_id = next_id if chosen is None else chosen
    return ProducerIdResult(producer_id, [*block_records, ProducerIdIssued(producer_id)])


def block_request(broker: Broker) -> list[Message]:
    """Return the request for the next block, if allowed now."""
    tables = broker.tables
    if not producer_ids.may_request(tables.metadata, tables.in_flight, broker.id, broker.now):
        return []
    producer_ids.request_sent(tables.in_flight, broker.id)
    return [allocate_request(broker)]
