"""AlterPartitionReassignments (key 45, versions 0 and 1): other replicas for partitions.

Runs on the controller. Sources: KIP-455, KIP-860; `ReplicationControlManager`, `ControllerApis` and
`AlterPartitionReassignmentsRequest.getErrorResponse` in Kafka; answers of 4.3.1. How a reassignment
begins, ends and is cancelled (replicas null) is in `state/replication/reassignments.py`.

    no ALTER on the cluster                             31 CLUSTER_AUTHORIZATION_FAILED, for all
    a time-out of 0 or less                             7 REQUEST_TIMED_OUT, for all
    no such topic or partition                          3 UNKNOWN_TOPIC_OR_PARTITION
    to be cancelled, but there is none                  85 NO_REASSIGNMENT_IN_PROGRESS
    cancelled, and nobody who stays is in sync; unclean
    elections are not allowed                           39 INVALID_REPLICA_ASSIGNMENT
    no replicas, one twice, an unknown broker           39
    another number of replicas, which is not allowed    38 INVALID_REPLICATION_FACTOR
    one that comes is alive, eligible since it went,
    and nobody is in sync                               -1 UNKNOWN_SERVER_ERROR (4.3.1)

One that takes the place of another keeps what that adds, or removes, where it does not add, or
remove, any itself: such a one may never end, and has to be cancelled (answers of 4.3.1).

A reassignment that has to wait for its new replicas is answered at once, too; the request that adds
the last of them to the in-sync set ends it (AlterPartition).
"""

from typing import NamedTuple

from brokertwin.state.access.authorizer import Operation, needs
from brokertwin.state.cluster import topics
from brokertwin.state.cluster.image import Partition, Topic
from brokertwin.state.cluster.machines import Controller
from brokertwin.state.core import kafka_apis
from brokertwin.state.core.api import Api
from brokertwin.state.core.decision import Decision, Request
from brokertwin.state.core.errors import Error
from brokertwin.state.core.records import PartitionAltered
from brokertwin.state.core.wire.generated.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from brokertwin.state.replication import elections, reassignments
from brokertwin.state.replication.elections import Election, ElectionRules, TargetState


class _Refusal(NamedTuple):
    error: Error
    text: str | None


def handle(controller: Controller, request: Request) -> Decision:
    """Begins and cancels what may be; a partition named twice is decided upon twice."""
    body: AlterPartitionReassignmentsRequest = request.body
    if not controller.allows_cluster(request, Operation.ALTER):
        return _all_refused(body, Error.CLUSTER_AUTHORIZATION_FAILED, needs(Operation.ALTER))
    if not body.topics:
        return Decision(response=AlterPartitionReassignmentsResponse(error_message=""))
    if body.timeout_ms <= 0:
        return _all_refused(body, Error.REQUEST_TIMED_OUT)
    allows_any_size = request.version < 1 or body.allow_replication_factor_change
    records: list[PartitionAltered] = []
    responses = [
        ReassignableTopicResponse(
            name=topic.name,
            partitions=[
                _reassign(controller, topic.name, each, allows_any_size, records)
                for each in topic.partitions
            ],
        )
        for topic in body.topics
    ]
    response = AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=allows_any_size, responses=responses
    )
    return Decision(records=list(records), response=response)


def _reassign(
    controller: Controller,
    name: str,
    wanted: ReassignablePartition,
    allows_any_size: bool,
    records: list[PartitionAltered],
) -> ReassignablePartitionResponse:
    found = _decide(controller, name, wanted, allows_any_size)
    if isinstance(found, _Refusal):
        return ReassignablePartitionResponse(
            partition_index=wanted.partition_index,
            error_code=found.error,
            error_message=found.text,
        )
    if found is not None:
        records.append(found)
    return ReassignablePartitionResponse(partition_index=wanted.partition_index)


def _decide(
    controller: Controller, name: str, wanted: ReassignablePartition, allows_any_size: bool
) -> PartitionAltered | _Refusal | None:
    topic, number = controller.topic_by_name(name), wanted.partition_index
    if topic is None:
        text = f"Unable to find a topic named {name}."
        return _Refusal(Error.UNKNOWN_TOPIC_OR_PARTITION, text)
    if not 0 <= number < len(topic.partitions):
        text = f"Unable to find partition {name}:{number}."
        return _Refusal(Error.UNKNOWN_TOPIC_OR_PARTITION, text)
    partition = topic.partitions[number]
    if wanted.replicas is None:
        return _cancel(controller, topic, number, partition)
    fault = topics.assignment_error(wanted.replicas, None, controller.registered_brokers())
    if fault is not None:
        return _Refusal(Error.INVALID_REPLICA_ASSIGNMENT, fault)
    factor = reassignments.size(partition)
    if not allows_any_size and len(wanted.replicas) != factor:
        text = f"The replication factor is changed from {factor} to {len(wanted.replicas)}"
        return _Refusal(Error.INVALID_REPLICATION_FACTOR, text)
    replicas, adding, removing = reassignments.begun(partition.replicas, wanted.replicas)
    target = TargetState.of(partition)
    target.replicas = replicas
    target.adding, target.removing = adding or target.adding, removing or target.removing
    place, rules = (topic.topic_id, number), ElectionRules.of(controller, topic, Election.ONLINE)
    if elections.preferred_would_lead(partition, target, rules):
        return _Refusal(Error.UNKNOWN_SERVER_ERROR, None)
    return elections.change(place, partition, target, rules)


def _cancel(
    controller: Controller, topic: Topic, number: int, partition: Partition
) -> PartitionAltered | _Refusal | None:
    if not reassignments.is_under_way(partition):
        return _Refusal(Error.NO_REASSIGNMENT_IN_PROGRESS, None)
    reverted = reassignments.reverted(partition)
    if reverted.is_unclean and not controller.may_elect_unclean(topic):
        text = (
            f"Unable to revert partition assignment for {topic.name}:{number} because it would"
            " require an unclean leader election."
        )
        return _Refusal(Error.INVALID_REPLICA_ASSIGNMENT, text)
    target = TargetState.of(partition)
    target.isr, target.replicas = reverted.isr, reverted.replicas
    target.adding, target.removing = [], []
    place, rules = (topic.topic_id, number), ElectionRules.of(controller, topic)
    return elections.change(place, partition, target, rules)


def _all_refused(
    body: AlterPartitionReassignmentsRequest, error: Error, text: str | None = None
) -> Decision:
    responses = [
        ReassignableTopicResponse(
            name=topic.name,
            partitions=[
                ReassignablePartitionResponse(
                    partition_index=each.partition_index, error_code=error, error_message=text
                )
                for each in topic.partitions
            ],
        )
        for topic in body.topics
    ]
    return Decision(
        response=AlterPartitionReassignmentsResponse(
            error_code=error, error_message=text, responses=responses
        )
    )


API = Api(kafka_apis.ALTER_PARTITION_REASSIGNMENTS, AlterPartitionReassignmentsRequest, handle)
