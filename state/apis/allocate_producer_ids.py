"""AllocateProducerIds (key 67, version 0): allocate a block of 1000 ids.

Brokers send it to the controller.
Source: KIP-730; `ProducerIdControlManager.generateNextProducerId`, `RPCProducerIdManager` in Kafka.

    no CLUSTER_ACTION on the cluster          31 CLUSTER_AUTHORIZATION_FAILED
    broker unknown, or of another epoch       77 STALE_BROKER_EPOCH
    no whole block left below 2^63 - 1        -1 UNKNOWN_SERVER_ERROR
    otherwise                                 the next block, and a ProducerIdBlockAllocated record

The broker accepts a block that begins at or after the end of its current block. After any other
response it retries 50 ms later. `state/transactions/producer_id_manager.py` assigns the ids.
"""

from brokertwin.state.access.authorizer import Operation
from brokertwin.state.cluster.machines import Broker, Controller
from brokertwin.state.core import kafka_apis
from brokertwin.state.core.api import Api
from brokertwin.state.core.decision import Decision, Message, Request
from brokertwin.state.core.errors import Error
from brokertwin.state.core.records import ProducerIdBlockAllocated, ProducerIdBlockReceived
from brokertwin.state.core.wire.generated.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)
from brokertwin.state.transactions import producer_ids


def handle(controller: Controller, request: Request) -> Decision:
    """Allocate the next block to the broker."""
    body: AllocateProducerIdsRequest = request.body
    if not controller.allows_cluster(request, Operation.CLUSTER_ACTION):
        return _refused(Error.CLUSTER_AUTHORIZATION_FAILED)
    if not controller.is_of_epoch(body.broker_id, body.broker_epoch):
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
    """Store the block, or schedule a retry."""
    tables = broker.tables
    first, size = response.producer_id_start, response.producer_id_len
    is_good = producer_ids.is_acceptable(tables.metadata, broker.id, first, size)
    if response.error_code != Error.NONE or not is_good:
        producer_ids.request_failed(tables.in_flight, broker.id, broker.now)
        return Decision()
    producer_ids.request_completed(tables.in_flight, broker.id)
    return Decision(records=[ProducerIdBlockReceived(first, size)])


def _refused(error: Error) -> Decision:
    return Decision(response=AllocateProducerIdsResponse(error_code=error))


API = Api(
    kafka_apis.ALLOCATE_PRODUCER_IDS,
    AllocateProducerIdsRequest,
    handle,
    on_reply=on_reply,
    response_type=AllocateProducerIdsResponse,
)
