"""AllocateProducerIds (key 67, version 0): allocate a block of 1000 ids.

Brokers send it to the controller.
Source: KIP-730; `ProducerIdControlManager.generateNextProducerId`, `RPCProducerIdManager` in Kafka.

    no CLUSTER_ACTION on the cluster          31 CLUSTER_AUTHORIZATION_FAILED
    broker unknown, or of another epoch       77 STALE_BROKER_EPOCH
    no whole block left below 2^63 - 1        -1 UNKNOWN_SERVER_ERROR
    otherwise                                 the next block, and a ProducerIdBlockAllocated record

The broker accepts a block that begins at or after the end of its current block. After any other
response it retries 50 ms later. `state/transactions/producer_id_manager.py` assigns the ids.

With `brokertwin.zk.producer.id.blocks` the request reads or writes the document in ZooKeeper
(`state/eras/zookeeper_producer_ids.py`); 95 INVALID_UPDATE_VERSION is a version conflict.
"""

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from brokertwin.state.access.authorizer import Operation
from brokertwin.state.cluster.machines import Broker, Controller
from brokertwin.state.core.api import Api, Refused
from brokertwin.state.core.decision import Decision, Message, Request
from brokertwin.state.core.records import ProducerIdBlockAllocated, ProducerIdBlockReceived
from brokertwin.state.eras import zookeeper_producer_ids
from brokertwin.state.transactions import producer_id_manager, producer_ids


def handle(controller: Controller, request: Request) -> Decision:
    body: AllocateProducerIdsRequest = request.body
    if not controller.allows_cluster(request, Operation.CLUSTER_ACTION):
        raise Refused(Error.CLUSTER_AUTHORIZATION_FAILED)
    if not controller.is_of_epoch(body.broker_id, body.broker_epoch):
        raise Refused(Error.STALE_BROKER_EPOCH)
    if zookeeper_producer_ids.is_enabled(controller):
        return zookeeper_producer_ids.handle(controller.tables.metadata, body.write)
    block = producer_ids.next_block(controller)
    if block is None:
        raise Refused(Error.UNKNOWN_SERVER_ERROR)
    return Decision(
        records=[ProducerIdBlockAllocated(body.broker_id, block.end)],
        response=AllocateProducerIdsResponse(
            producer_id_start=block.first, producer_id_len=block.size
        ),
    )


def on_reply(broker: Broker, message: Message, response: AllocateProducerIdsResponse) -> Decision:
    """Store the block, or schedule a retry."""
    if zookeeper_producer_ids.is_enabled(broker):
        return _from_zookeeper(broker, message, response)
    first, size = response.producer_id_start, response.producer_id_len
    is_good = producer_ids.is_acceptable(broker, first, size)
    if response.error_code != Error.NONE or not is_good:
        producer_ids.request_failed(broker, broker.now)
        return Decision()
    producer_ids.request_completed(broker)
    return Decision(records=[ProducerIdBlockReceived(first, size)])


def _from_zookeeper(
    broker: Broker, message: Message, response: AllocateProducerIdsResponse
) -> Decision:
    """Write after a read, store the block after a write, read again after a conflict."""
    request = message.body
    assert isinstance(request, AllocateProducerIdsRequest)
    woken = [producer_ids.watch_key(broker)]
    if response.stored is not None:
        try:
            write = zookeeper_producer_ids.after_read(response.stored, broker.id)
        except zookeeper_producer_ids.ProducerIdsExhausted:
            producer_ids.ids_exhausted(broker)
            return Decision(woken=woken)
        return Decision(messages=[producer_id_manager.allocate_request(broker, write)])
    if response.error_code == Error.INVALID_UPDATE_VERSION:
        return Decision(messages=[producer_id_manager.allocate_request(broker)])
    if response.error_code != Error.NONE or request.write is None:
        producer_ids.request_failed(broker, broker.now)
        return Decision(woken=woken)
    producer_ids.request_completed(broker)
    block = zookeeper_producer_ids.decode(request.write.document)
    size = block.last - block.first + 1
    if not producer_ids.is_acceptable(broker, block.first, size):
        return Decision()
    return Decision(records=[ProducerIdBlockReceived(block.first, size)], woken=woken)


API = Api(kafka_apis.ALLOCATE_PRODUCER_IDS, handle, on_reply=on_reply)
