"""ListPartitionReassignments (key 46, version 0): list ongoing ones.

Runs on the controller. Sources: KIP-455; `ReplicationControlManager.listPartitionReassignments`,
`ControllerApis` in Kafka; responses of 4.3.1. Without DESCRIBE on the cluster the error is 31
CLUSTER_AUTHORIZATION_FAILED. The response omits missing topics and partitions, and partitions
without a reassignment.
"""

from collections.abc import Iterable

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from brokertwin.state.access.authorizer import Operation, needs
from brokertwin.state.cluster.image import Topic
from brokertwin.state.cluster.machines import Controller
from brokertwin.state.core.api import Api, Refused
from brokertwin.state.core.decision import Decision, Request
from brokertwin.state.replication import reassignments


def handle(controller: Controller, request: Request) -> Decision:
    """Respond without writing records."""
    body: ListPartitionReassignmentsRequest = request.body
    if not controller.allows_cluster(request, Operation.DESCRIBE):
        raise Refused(Error.CLUSTER_AUTHORIZATION_FAILED, needs(Operation.DESCRIBE))
    if body.topics is None:
        topics = [_ongoing(each, range(len(each.partitions))) for each in controller.all_topics()]
    else:
        topics = [
            _ongoing(topic, each.partition_indexes)
            for each in body.topics
            if (topic := controller.topic_by_name(each.name)) is not None
        ]
    reassigned = [topic for topic in topics if topic.partitions]
    return Decision(response=ListPartitionReassignmentsResponse(topics=reassigned))


def _ongoing(topic: Topic, numbers: Iterable[int]) -> OngoingTopicReassignment:
    partitions = [
        OngoingPartitionReassignment(
            partition_index=number,
            replicas=partition.replicas,
            adding_replicas=partition.adding_replicas,
            removing_replicas=partition.removing_replicas,
        )
        for number in numbers
        if 0 <= number < len(topic.partitions)
        and reassignments.is_under_way(partition := topic.partitions[number])
    ]
    return OngoingTopicReassignment(name=topic.name, partitions=partitions)


API = Api(kafka_apis.LIST_PARTITION_REASSIGNMENTS, handle)
