"""DescribeTopicPartitions (key 75, version 0): topics in pages (KIP-966).

Behaviour: `DescribeTopicPartitionsRequestHandler`, `KRaftMetadataCache`. Topics are sorted by name.
A response ends after `responsePartitionLimit` partitions (2,000 at most), and its cursor is the
start of the next page.

    the cursor's partition is below 0, or its topic   42 INVALID_REQUEST for every requested topic
    is not requested
    no DESCRIBE on the topic                          29 TOPIC_AUTHORIZATION_FAILED at the end;
                                                      omitted if all topics are requested

Unlike in Metadata, a partition without a leader, or whose leader lacks the client's listener, has
no error.
"""

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from brokertwin.state.access.authorizer import Operation, ResourceType
from brokertwin.state.cluster import topics
from brokertwin.state.cluster.image import INTERNAL_TOPICS, Partition, Topic
from brokertwin.state.cluster.machines import NO_LEADER, Broker, Reached
from brokertwin.state.core.api import Api
from brokertwin.state.core.decision import Decision, Request

PARTITIONS_MAX = 2000
"""`max.request.partition.size.limit`: the maximum of a response."""


def handle(broker: Broker, request: Request) -> Decision:
    body: DescribeTopicPartitionsRequest = request.body
    named = {topic.name for topic in body.topics}
    if body.cursor is not None and not _is_valid(body.cursor, named):
        refused = [_refused(Error.INVALID_REQUEST, topic.name) for topic in body.topics]
        return Decision(response=DescribeTopicPartitionsResponse(topics=refused))
    names = sorted(named or {topic.name for topic in broker.all_topics()})
    first_partition = 0
    if body.cursor is not None:
        names = [name for name in names if name >= body.cursor.topic_name]
        if names and names[0] == body.cursor.topic_name:
            first_partition = body.cursor.partition_index
    denied = broker.denied_topics(request, Operation.DESCRIBE, names)
    denial = Error.TOPIC_AUTHORIZATION_FAILED
    hidden = [_refused(denial, name) for name in names if named and name in denied]
    names = [name for name in names if name not in denied]
    reached = broker.reached(request.listener, broker.alive_brokers())
    room = max(1, min(body.response_partition_limit, PARTITIONS_MAX))
    described = []
    next_cursor = None
    for name in names:
        if room == 0:
            next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        topic = broker.topic_by_name(name)
        if topic is None:
            described.append(_missing(name))
            continue
        page = _described(broker, reached, topic, first_partition, room)
        described.append(page)
        room -= len(page.partitions)
        end = first_partition + len(page.partitions)
        first_partition = 0
        if end < len(topic.partitions):
            next_cursor = Cursor(topic_name=name, partition_index=end)
            break
    for each in described:
        each.topic_authorized_operations = broker.authorized_operations(
            request, ResourceType.TOPIC, each.name or ""
        )
    return Decision(
        response=DescribeTopicPartitionsResponse(topics=described + hidden, next_cursor=next_cursor)
    )


def _described(
    broker: Broker, reached: Reached, topic: Topic, first: int, room: int
) -> DescribeTopicPartitionsResponseTopic:
    chosen = list(enumerate(topic.partitions))[max(first, 0) :][:room]
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[_partition(broker, reached, index, partition) for index, partition in chosen],
    )


def _partition(
    broker: Broker, reached: Reached, index: int, partition: Partition
) -> DescribeTopicPartitionsResponsePartition:
    return DescribeTopicPartitionsResponsePartition(
        error_code=int(Error.NONE),
        partition_index=index,
        leader_id=partition.leader if partition.leader in reached else NO_LEADER,
        leader_epoch=partition.leader_epoch,
        replica_nodes=partition.replicas,
        isr_nodes=partition.isr,
        eligible_leader_replicas=partition.eligible_leader_replicas,
        last_known_elr=partition.last_known_elr,
        offline_replicas=broker.offline_replicas(partition, reached),
    )


def _is_valid(cursor: Cursor, named: set[str]) -> bool:
    return cursor.partition_index >= 0 and (not named or cursor.topic_name in named)


def _refused(error: Error, name: str) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(error_code=int(error), name=name)


def _missing(name: str) -> DescribeTopicPartitionsResponseTopic:
    is_illegal = topics.name_error(name) is not None
    error = Error.INVALID_TOPIC_EXCEPTION if is_illegal else Error.UNKNOWN_TOPIC_OR_PARTITION
    return DescribeTopicPartitionsResponseTopic(
        error_code=int(error), name=name, is_internal=name in INTERNAL_TOPICS
    )


API = Api(kafka_apis.DESCRIBE_TOPIC_PARTITIONS, handle)
