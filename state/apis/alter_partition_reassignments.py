"""AlterPartitionReassignments (key 45, versions 0 to 1): move replicas.

Runs on the controller. Sources: KIP-455, KIP-860; `ReplicationControlManager`, `ControllerApis` and
`AlterPartitionReassignmentsRequest.getErrorResponse` in Kafka; responses of 4.3.1. Rules for
starting, finishing and cancelling (replicas null) are in `state/replication/reassignments.py`.

    no ALTER on the cluster                             31 CLUSTER_AUTHORIZATION_FAILED, for all
    a timeout of at most 0                              7 REQUEST_TIMED_OUT, for all
    missing topic or partition                          3 UNKNOWN_TOPIC_OR_PARTITION
    cancelled, but no reassignment is in progress       85 NO_REASSIGNMENT_IN_PROGRESS
    cancelled, no remaining replica is in sync, and
    unclean elections are disabled                      39 INVALID_REPLICA_ASSIGNMENT
    no replicas, a repeated or an unknown broker        39 INVALID_REPLICA_ASSIGNMENT
    another replication factor, if not allowed          38 INVALID_REPLICATION_FACTOR
    the in-sync set is empty, and an added replica is
    alive and has been eligible since it failed         -1 UNKNOWN_SERVER_ERROR (4.3.1)

A reassignment that replaces another inherits its added replicas if it adds none itself, and its
removed replicas if it removes none. Such a reassignment may never finish and must be cancelled
(responses of 4.3.1).

The response does not wait until the new replicas are in sync. The AlterPartition request that adds
the last of them to the in-sync set finishes the reassignment.
"""

from typing import NamedTuple

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from brokertwin.state.access.authorizer import Operation, needs
from brokertwin.state.cluster import topics
from brokertwin.state.cluster.image import Partition, Topic
from brokertwin.state.cluster.machines import Controller
from brokertwin.state.core.api import Api
from brokertwin.state.core.decision import Decision, Request
from brokertwin.state.core.records import PartitionAltered
from brokertwin.state.replication import elections, reassignments
from brokertwin.state.replication.elections import Election, ElectionRules, TargetState


class _Refusal(NamedTuple):
    error: Error
    text: str | None


def handle(controller: Controller, request: Request) -> Decision:
    """Start and cancel reassignments; a repeated partition is handled twice."""
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
    partition: ReassignablePartition,
    allows_any_size: bool,
    records: list[PartitionAltered],
) -> ReassignablePartitionResponse:
    found = _decide(controller, name, partition, allows_any_size)
    if isinstance(found, _Refusal):
        return ReassignablePartitionResponse(
            partition_index=partition.partition_index,
            error_code=found.error,
            error_message=found.text,
        )
    if found is not None:
        records.append(found)
    return ReassignablePartitionResponse(partition_index=partition.partition_index)


def _decide(
    controller: Controller, name: str, reassignment: ReassignablePartition, allows_any_size: bool
) -> PartitionAltered | _Refusal | None:
    topic, number = controller.topic_by_name(name), reassignment.partition_index
    if topic is None:
        text = f"Unable to find a topic named {name}."
        return _Refusal(Error.UNKNOWN_TOPIC_OR_PARTITION, text)
    if not 0 <= number < len(topic.partitions):
        text = f"Unable to find partition {name}:{number}."
        return _Refusal(Error.UNKNOWN_TOPIC_OR_PARTITION, text)
    partition = topic.partitions[number]
    if reassignment.replicas is None:
        return _cancel(controller, topic, number, partition)
    fault = topics.assignment_error(reassignment.replicas, None, controller.registered_brokers())
    if fault is not None:
        return _Refusal(Error.INVALID_REPLICA_ASSIGNMENT, fault)
    factor = reassignments.size(partition)
    if not allows_any_size and len(reassignment.replicas) != factor:
        text = f"The replication factor is changed from {factor} to {len(reassignment.replicas)}"
        return _Refusal(Error.INVALID_REPLICATION_FACTOR, text)
    replicas, adding, removing = reassignments.begun(partition.replicas, reassignment.replicas)
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


API = Api(kafka_apis.ALTER_PARTITION_REASSIGNMENTS, handle)
