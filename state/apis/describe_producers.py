"""DescribeProducers (key 61, version 0): producer states of partitions.

Behaviour: `KafkaApis.handleDescribeProducersRequest`, `ReplicaManager.activeProducerState`;
KIP-664. Followers respond, too.

    invalid topic name               17 INVALID_TOPIC_EXCEPTION
    no READ on the topic             29 TOPIC_AUTHORIZATION_FAILED
    missing topic or partition       3 UNKNOWN_TOPIC_OR_PARTITION
    no replica on this broker        6 NOT_LEADER_OR_FOLLOWER
    the log's directory has failed   56 KAFKA_STORAGE_ERROR

`coordinatorEpoch` is the epoch in the producer's last end marker, `currentTxnStartOffset` the first
offset of its open transaction; -1 means none.
"""

from typing import NamedTuple

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from brokertwin.state.access.authorizer import Operation
from brokertwin.state.cluster import topics
from brokertwin.state.cluster.image import Topic
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.api import Api
from brokertwin.state.core.decision import Decision, Request
from brokertwin.state.logs import producer as producers


class _Refusal(NamedTuple):
    error: Error
    message: str


def handle(broker: Broker, request: Request) -> Decision:
    body: DescribeProducersRequest = request.body
    described = []
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
        described.append(TopicResponse(name=wanted.name, partitions=partitions))
    return Decision(response=DescribeProducersResponse(topics=described))


def _refusal(broker: Broker, request: Request, name: str) -> _Refusal | None:
    """Return the error of a whole topic with Kafka's message, or None."""
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
        for producer_id, producer in producers.of_partition(broker, topic.topic_id, index)
    ]
    return PartitionResponse(partition_index=index, active_producers=active)


def _error_of(broker: Broker, topic: Topic | None, index: int) -> Error:
    if topic is None or not 0 <= index < len(topic.partitions):
        return Error.UNKNOWN_TOPIC_OR_PARTITION
    if broker.log(topic.topic_id, index) is None:
        return broker.storage_error(topic.topic_id, index)
    return Error.NONE


API = Api(kafka_apis.DESCRIBE_PRODUCERS, handle)
