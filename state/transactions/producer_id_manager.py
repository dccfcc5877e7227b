"""Generation of producer ids on a broker.

`next_producer_id` issues an id of the broker's block and requests the next block in advance; with
blocks in ZooKeeper, not in advance (`state/eras/zookeeper_producer_ids.py`).

Source: KIP-730; `RPCProducerIdManager` in Kafka.
"""

from typing import NamedTuple

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.additions import ConditionalWrite
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.allocate_producer_ids import AllocateProducerIdsRequest
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.decision import CONTROLLER, Message
from brokertwin.state.core.records import ProducerIdIssued, Record
from brokertwin.state.eras import zookeeper_producer_ids
from brokertwin.state.transactions import producer_ids


def allocate_request(broker: Broker, write: ConditionalWrite | None = None) -> Message:
    """Return a request for a block; `write` goes to ZooKeeper."""
    body = AllocateProducerIdsRequest(broker_id=broker.id, broker_epoch=broker.epoch, write=write)
    return Message(broker.id, CONTROLLER, kafka_apis.ALLOCATE_PRODUCER_IDS.key, body)


class ProducerIdResult(NamedTuple):
    """A producer id and its records, or an error. `messages` request the next block, if due."""

    producer_id: int = -1
    records: list[Record] = []
    messages: list[Message] = []
    error: Error = Error.NONE


def next_producer_id(broker: Broker, chosen: int | None = None) -> ProducerIdResult:
    """Issue the next producer id, or the recorded one (`chosen`).

    Error: 14 COORDINATOR_LOAD_IN_PROGRESS without a block, -1 UNKNOWN_SERVER_ERROR if ZooKeeper has
    none left.
    """
    next_id = producer_ids.next_id(broker)
    if next_id is None:
        if producer_ids.is_exhausted(broker):
            return ProducerIdResult(error=Error.UNKNOWN_SERVER_ERROR)
        error = Error.COORDINATOR_LOAD_IN_PROGRESS
        return ProducerIdResult(messages=block_request(broker), error=error)
    producer_id = next_id if chosen is None else chosen
    is_at_mark = producer_ids.reaches_prefetch(broker, producer_id)
    is_early = is_at_mark and not zookeeper_producer_ids.is_enabled(broker)
    messages = block_request(broker) if is_early else []
    return ProducerIdResult(producer_id, [ProducerIdIssued(producer_id)], messages)


def block_request(broker: Broker) -> list[Message]:
    """Return the request for the next block, if allowed now."""
    if not producer_ids.may_request(broker, broker.now):
        return []
    producer_ids.request_sent(broker)
    return [allocate_request(broker)]


def is_block_awaited(broker: Broker) -> bool:
    return (
        zookeeper_producer_ids.is_enabled(broker)
        and producer_ids.next_id(broker) is None
        and producer_ids.is_in_flight(broker)
    )
