"""DescribeProducers (key 61), version 0: what a partition remembers of its producers (KIP-664).

Behaviour: `KafkaApis.handleDescribeProducersRequest`, `ReplicaManager.activeProducerState`. A
topic whose name no topic can have is 17, one that the client may not READ 29. Followers answer,
too; a broker without a replica says 6. `coordinatorEpoch`
is that of the producer's last end marker, `currentTxnStartOffset` where its open transaction
begins; -1 for none.
"""

from typing import NamedTuple

from brokertwin.state.access.authorizer import Operation
from brokertwin.state.cluster import topics
from brokertwin.state.cluster.image import Topic
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core import kafka_apis
from brokertwin.state.core.api import Api
from brokertwin.state.core.decision import Decision, Request
from brokertwin.state.core.errors import Error
from brokertwin.state.core.wire.generated.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from brokertwin.state.logs import producer as producers


class _Refusal(NamedTuple):
    error: Error
    message: str


def handle(broker: Broker, request: Request) -> Decision:
    """Each partition that is asked for, with its producers or its error."""
    body: DescribeProducersRequest = request.body
    answered = []
    for wanted in body.topics:
        refusal = _refusal(broker, request, wanted.name)
        topic = broker.topic_by_name(wanted.name)
        partitions = [
            _partition(broker, topic, index)
            if refusal is None
            else PartitionResponse(
                partition_index=index, error_code=int(refusal.error), error_message=refusal.message
            )
            for index in wanted.partition_indexes
        ]
        answered.append(TopicResponse(name=wanted.name, partitions=partitions))
    return Decision(response=DescribeProducersResponse(topics=answered))


def _refusal(broker: Broker, request: Request, name: str) -> _Refusal | None:
    """Why a topic is refused as a whole, in Kafka's words, if it is."""
    fault = topics.name_error(name)
    if fault is not None:
        return _Refusal(Error.INVALID_TOPIC_EXCEPTION, fault)
    if not broker.allows_topic(request, Operation.READ, name):
        return _Refusal(Error.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed.")
    if broker.topic_by_name(name) is None:
        text = "This server does not host this topic-partition."
        return _Refusal(Error.UNKNOWN_TOPIC_OR_PARTITION, text)
    return None


def _partition(broker: Broker, topic: Topic | None, index: int) -> PartitionResponse:
    error = _error_of(broker, topic, index)
    if topic is None or error is not Error.NONE:
        return PartitionResponse(partition_index=index, error_code=int(error))
    active = [
        ProducerState(
            producer_id=producer_id,
            producer_epoch=producer.producer_epoch,
            last_sequence=producer.batches[-1].last_sequence if producer.batches else -1,
            last_timestamp=producer.last_timestamp,
            coordinator_epoch=producer.coordinator_epoch,
            current_txn_start_offset=producer.current_txn_first_offset,
        )
        for producer_id, producer in producers.of_partition(
            broker.tables.producers, broker.id, topic.topic_id, index
        )
    ]
    return PartitionResponse(partition_index=index, active_producers=active)


def _error_of(broker: Broker, topic: Topic | None, index: int) -> Error:
    if topic is None or not 0 <= index < len(topic.partitions):
        return Error.UNKNOWN_TOPIC_OR_PARTITION
    if broker.log(topic.topic_id, index) is None:
        return broker.storage_error(topic.topic_id, index)
    return Error.NONE


API = Api(kafka_apis.DESCRIBE_PRODUCERS, DescribeProducersRequest, handle)
