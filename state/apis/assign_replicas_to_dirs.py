"""AssignReplicasToDirs (key 73, version 0): report replica directories.

Brokers send it to the controller. Sources: KIP-858; `ControllerApis`,
`ReplicationControlManager.handleAssignReplicasToDirs` in Kafka. The errors; for a partition, the
first that applies:

    no CLUSTER_ACTION on the cluster                     31 CLUSTER_AUTHORIZATION_FAILED
    not registered, or registered in another epoch       77 STALE_BROKER_EPOCH
    unknown topic id                                     100 UNKNOWN_TOPIC_ID
    the topic does not have the partition                3 UNKNOWN_TOPIC_OR_PARTITION
    the broker is not a replica of the partition         6 NOT_LEADER_OR_FOLLOWER

Directories that are unknown to the controller or marked as failed are recorded, too. Their replicas
go offline and leave the in-sync set.
"""

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.bodies import Uuid
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsRequestTopicData,
    AssignReplicasToDirsResponse,
    AssignReplicasToDirsResponseDirectoryData,
    AssignReplicasToDirsResponsePartitionData,
    AssignReplicasToDirsResponseTopicData,
)
from brokertwin.state.access.authorizer import Operation
from brokertwin.state.cluster.image import Partition
from brokertwin.state.cluster.machines import Controller
from brokertwin.state.core.api import Api, Refused
from brokertwin.state.core.decision import Decision, Request
from brokertwin.state.core.records import ReplicasAssigned
from brokertwin.state.replication import directories, elections


def handle(controller: Controller, request: Request) -> Decision:
    """Record the directories; replicas in a failed directory go offline."""
    body: AssignReplicasToDirsRequest = request.body
    if not controller.allows_cluster(request, Operation.CLUSTER_ACTION):
        raise Refused(Error.CLUSTER_AUTHORIZATION_FAILED)
    if not controller.is_of_epoch(body.broker_id, body.broker_epoch):
        raise Refused(Error.STALE_BROKER_EPOCH)
    assigned: list[ReplicasAssigned] = []
    lost: dict[tuple[Uuid, int], None] = {}
    outcomes = []
    for directory in body.directories:
        is_offline = not directories.has(controller, body.broker_id, directory.id)
        topics = []
        for topic in directory.topics:
            outcome, record = _assign(controller, body.broker_id, directory.id, topic)
            topics.append(outcome)
            assigned += [record] if record.directories else []
            partitions = [each for each in outcome.partitions if each.error_code == Error.NONE]
            lost |= {
                (topic.topic_id, each.partition_index): None for each in partitions if is_offline
            }
        outcomes.append(AssignReplicasToDirsResponseDirectoryData(id=directory.id, topics=topics))
    gone = elections.lost_replica_changes(
        controller, body.broker_id, lambda place, _partition: place in lost
    )
    response = AssignReplicasToDirsResponse(directories=outcomes)
    return Decision(records=[*assigned, *gone], response=response)


def _assign(
    controller: Controller,
    broker: int,
    directory: Uuid,
    requested: AssignReplicasToDirsRequestTopicData,
) -> tuple[AssignReplicasToDirsResponseTopicData, ReplicasAssigned]:
    topic = controller.topic_by_id(requested.topic_id)
    record = ReplicasAssigned(broker, requested.topic_id, {})
    outcomes = []
    for each in requested.partitions:
        index = each.partition_index
        error = Error.UNKNOWN_TOPIC_ID
        if topic is not None:
            is_known = 0 <= index < len(topic.partitions)
            partition = topic.partitions[index] if is_known else None
            error = _error(partition, broker)
            known = partition.directories.get(broker) if partition is not None else None
            if error is Error.NONE and known != directory:
                record.directories[index] = directory
        outcomes.append(
            AssignReplicasToDirsResponsePartitionData(partition_index=index, error_code=error)
        )
    return AssignReplicasToDirsResponseTopicData(
        topic_id=requested.topic_id, partitions=outcomes
    ), record


def _error(partition: Partition | None, broker: int) -> Error:
    if partition is None:
        return Error.UNKNOWN_TOPIC_OR_PARTITION
    return Error.NONE if broker in partition.replicas else Error.NOT_LEADER_OR_FOLLOWER


API = Api(kafka_apis.ASSIGN_REPLICAS_TO_DIRS, handle)
