"""DescribeQuorum (key 55, versions 0 to 2): the metadata log's quorum.

Runs on the controller. Source: KIP-595, KIP-836, KIP-853; `KafkaRaftClient.handleDescribeQuorum`
in Kafka; responses of 4.3.1.

    no DESCRIBE on the cluster                            31 CLUSTER_AUTHORIZATION_FAILED
    the request is not exactly partition 0 of             3 UNKNOWN_TOPIC_OR_PARTITION, for every
    `__cluster_metadata`                                  requested partition

The controller is modelled as a single voter in epoch 1, with the id and address of the first
broker. Its log ends after the records that the brokers have received, and every other live broker
has read all of it. As in Kafka, observers have a directory id, but the voter has none because the
settings define it.
"""

import msgspec

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestTopicData,
    DescribeQuorumResponse,
    DescribeQuorumResponseListener,
    DescribeQuorumResponsePartitionData,
    DescribeQuorumResponseReplicaState,
    DescribeQuorumResponseTopicData,
    Node,
)
from brokertwin.state.access.authorizer import Operation
from brokertwin.state.cluster import metadata_log, topics
from brokertwin.state.cluster.machines import Controller, placeholder
from brokertwin.state.core.api import Api, Refused
from brokertwin.state.core.decision import Decision, Request

TOPIC = "__cluster_metadata"
EPOCH = 1
LISTENER = "CONTROLLER"
_NOT_HERE = "This server does not host this topic-partition."


def handle(controller: Controller, request: Request) -> Decision:
    body: DescribeQuorumRequest = request.body
    if not controller.allows_cluster(request, Operation.DESCRIBE):
        raise Refused(Error.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")
    requested = [(t.topic_name, p.partition_index) for t in body.topics for p in t.partitions]
    if requested != [(TOPIC, 0)]:
        return Decision(response=DescribeQuorumResponse(topics=_not_here(body.topics)))
    leader, *others = controller.cell.brokers
    end = metadata_log.end_offset(controller.tables.metadata)

    def state(replica: int) -> DescribeQuorumResponseReplicaState:
        now = controller.now
        return DescribeQuorumResponseReplicaState(
            replica_id=replica,
            log_end_offset=end,
            last_fetch_timestamp=now,
            last_caught_up_timestamp=now,
        )

    def observer(replica: int) -> DescribeQuorumResponseReplicaState:
        name = topics.derive_uuid("directory", controller.cell.cluster, str(replica))
        return msgspec.structs.replace(state(replica), replica_directory_id=name)

    partition = DescribeQuorumResponsePartitionData(
        partition_index=0,
        leader_id=leader,
        leader_epoch=EPOCH,
        high_watermark=end,
        current_voters=[state(leader)],
        observers=[observer(broker) for broker in others if controller.is_alive(broker)],
    )
    host, port = placeholder(leader)
    response = DescribeQuorumResponse(
        topics=[DescribeQuorumResponseTopicData(topic_name=TOPIC, partitions=[partition])],
        nodes=[
            Node(
                node_id=leader,
                listeners=[DescribeQuorumResponseListener(name=LISTENER, host=host, port=port)],
            )
        ],
    )
    return Decision(response=response)


def _not_here(
    topics: list[DescribeQuorumRequestTopicData],
) -> list[DescribeQuorumResponseTopicData]:
    error = Error.UNKNOWN_TOPIC_OR_PARTITION
    return [
        DescribeQuorumResponseTopicData(
            topic_name=topic.topic_name,
            partitions=[
                DescribeQuorumResponsePartitionData(
                    partition_index=partition.partition_index,
                    error_code=error,
                    error_message=_NOT_HERE,
                )
                for partition in topic.partitions
            ],
        )
        for topic in topics
    ]


API = Api(kafka_apis.DESCRIBE_QUORUM, handle)
