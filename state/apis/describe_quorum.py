"""DescribeQuorum (key 55, versions 0 to 2): the controller and how far its metadata log is.

Runs on the controller. Source: KIP-595, KIP-836, KIP-853; `KafkaRaftClient.handleDescribeQuorum`
in Kafka; answers of 4.3.1.

    no DESCRIBE on the cluster                            31 CLUSTER_AUTHORIZATION_FAILED
    anything but partition 0 of `__cluster_metadata`,     3 UNKNOWN_TOPIC_OR_PARTITION, for all
    alone                                                 that is named

The controller here is one machine that votes alone, in epoch 1, under the id of the first broker.
Its log ends behind the records that it has told the brokers; each of the others that is alive has
read them. Where it listens is where the first broker does. As in Kafka the voter, which is named in
the settings, has no directory id, and the others have.
"""

from typing import Annotated

import msgspec

from brokertwin.state.access.authorizer import Operation
from brokertwin.state.cluster import metadata_log, topics
from brokertwin.state.cluster.machines import Controller, placeholder
from brokertwin.state.core import kafka_apis
from brokertwin.state.core.api import Api
from brokertwin.state.core.decision import Decision, Request
from brokertwin.state.core.errors import Error
from brokertwin.state.core.schema import ZERO_UUID, Body, Int16, Int32, Int64, Uuid, since

TOPIC = "__cluster_metadata"
EPOCH = 1
LISTENER = "CONTROLLER"
_NOT_HERE = "This server does not host this topic-partition."


class AskedPartition(Body):
    """A partition by its number."""

    partition_index: Int32


class AskedTopic(Body):
    """Partitions of one topic."""

    topic_name: str
    partitions: list[AskedPartition]


class DescribeQuorumRequest(Body):
    """Which logs of metadata are asked for: there is one."""

    topics: list[AskedTopic]


class ReplicaState(Body, kw_only=True):
    """How far a voter or observer is; times in ms since 1970."""

    replica_id: Int32
    replica_directory_id: Annotated[Uuid, since(2)] = ZERO_UUID
    log_end_offset: Int64
    last_fetch_timestamp: Annotated[Int64, since(1)] = -1
    last_caught_up_timestamp: Annotated[Int64, since(1)] = -1


class DescribedPartition(Body, kw_only=True):
    """Who leads, and how far everybody is."""

    partition_index: Int32
    error_code: Int16 = Error.NONE
    error_message: Annotated[str | None, since(2)] = ""
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0
    high_watermark: Int64 = 0
    current_voters: list[ReplicaState] = []
    observers: list[ReplicaState] = []


class DescribedTopic(Body):
    """The partitions of one topic."""

    topic_name: str
    partitions: list[DescribedPartition]


class Listener(Body):
    """Where a voter is reached; the edge puts in what is right."""

    name: str
    host: str
    port: Int32


class Node(Body):
    """A voter's listeners."""

    node_id: Int32
    listeners: list[Listener]


class DescribeQuorumResponse(Body):
    """The state of the quorum."""

    error_code: Int16 = Error.NONE
    error_message: Annotated[str | None, since(2)] = ""
    topics: list[DescribedTopic] = []
    nodes: Annotated[list[Node], since(2)] = []


def handle(controller: Controller, request: Request) -> Decision:
    """Answers from what the controller has written."""
    body: DescribeQuorumRequest = request.body
    if not controller.allows_cluster(request, Operation.DESCRIBE):
        error = Error.CLUSTER_AUTHORIZATION_FAILED
        text = "Cluster authorization failed."
        return Decision(response=DescribeQuorumResponse(error_code=error, error_message=text))
    asked = [(t.topic_name, p.partition_index) for t in body.topics for p in t.partitions]
    if asked != [(TOPIC, 0)]:
        return Decision(response=DescribeQuorumResponse(topics=_not_here(body.topics)))
    leader, *others = controller.cell.brokers
    end = metadata_log.end_offset(controller.tables.metadata)

    def state(replica: int) -> ReplicaState:
        now = controller.now
        return ReplicaState(
            replica_id=replica,
            log_end_offset=end,
            last_fetch_timestamp=now,
            last_caught_up_timestamp=now,
        )

    def observer(replica: int) -> ReplicaState:
        name = topics.derive_uuid("directory", controller.cell.cluster, str(replica))
        return msgspec.structs.replace(state(replica), replica_directory_id=name)

    partition = DescribedPartition(
        partition_index=0,
        leader_id=leader,
        leader_epoch=EPOCH,
        high_watermark=end,
        current_voters=[state(leader)],
        observers=[observer(broker) for broker in others if controller.is_alive(broker)],
    )
    host, port = placeholder(leader)
    response = DescribeQuorumResponse(
        topics=[DescribedTopic(topic_name=TOPIC, partitions=[partition])],
        nodes=[Node(node_id=leader, listeners=[Listener(name=LISTENER, host=host, port=port)])],
    )
    return Decision(response=response)


def _not_here(topics: list[AskedTopic]) -> list[DescribedTopic]:
    error = Error.UNKNOWN_TOPIC_OR_PARTITION
    return [
        DescribedTopic(
            topic_name=topic.topic_name,
            partitions=[
                DescribedPartition(
                    partition_index=partition.partition_index,
                    error_code=error,
                    error_message=_NOT_HERE,
                )
                for partition in topic.partitions
            ],
        )
        for topic in topics
    ]


API = Api(kafka_apis.DESCRIBE_QUORUM, DescribeQuorumRequest, handle)
