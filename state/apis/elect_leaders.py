"""ElectLeaders (key 43, versions 0 to 2): elect leaders of partitions.

Runs on the controller. Sources: KIP-183, KIP-460; `ReplicationControlManager.electLeaders`,
`ControllerApis.handleElectLeaders`, `ElectLeadersRequest.getErrorResponse` in Kafka; responses of
4.3.1. Type 0 elects the preferred replica, the first one of the assignment. Type 1 elects any live
replica if the partition has no leader.

    no ALTER on the cluster                              31 CLUSTER_AUTHORIZATION_FAILED, for all
    another type                                         42 INVALID_REQUEST, for all
    a timeout of at most 0                               7 REQUEST_TIMED_OUT, for all
    missing topic or partition                           3 UNKNOWN_TOPIC_OR_PARTITION
    the preferred replica leads; type 1: any leader      84 ELECTION_NOT_NEEDED
    the preferred replica is not alive or not in sync    80 PREFERRED_LEADER_NOT_AVAILABLE
    type 1: no live replica                              83 ELIGIBLE_LEADERS_NOT_AVAILABLE

If the list of topics is null, every topic is included; partitions that need no election are omitted
from the response.
"""

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersRequestTopicPartitions,
    ElectLeadersResponse,
    ElectLeadersResponsePartitionResult,
    ReplicaElectionResult,
)
from brokertwin.state.access.authorizer import Operation, needs
from brokertwin.state.cluster.image import Partition
from brokertwin.state.cluster.machines import Controller
from brokertwin.state.core.api import Api
from brokertwin.state.core.decision import Decision, Request
from brokertwin.state.core.records import PartitionAltered
from brokertwin.state.replication import elections
from brokertwin.state.replication.elections import NO_LEADER, Election, ElectionRules, TargetState

PREFERRED, UNCLEAN = 0, 1
_ELECTIONS = {PREFERRED: Election.PREFERRED, UNCLEAN: Election.UNCLEAN}
NOT_NEEDED = "Leader election not needed for topic partition."
NOT_PREFERRED = "The preferred leader was not available."
NONE_ELIGIBLE = "Eligible topic partition leaders are not available."


def handle(controller: Controller, request: Request) -> Decision:
    body: ElectLeadersRequest = request.body
    election_type = body.election_type if request.version > 0 else PREFERRED
    if not controller.allows_cluster(request, Operation.ALTER):
        return _all_refused(body, Error.CLUSTER_AUTHORIZATION_FAILED, needs(Operation.ALTER))
    if body.topic_partitions is not None and not body.topic_partitions:
        return Decision(response=ElectLeadersResponse())
    if body.timeout_ms <= 0:
        return _all_refused(body, Error.REQUEST_TIMED_OUT, None)
    if election_type not in _ELECTIONS:
        text = f"Unknown election type {election_type}"
        return _all_refused(body, Error.INVALID_REQUEST, text)
    records: list[PartitionAltered] = []
    requested = body.topic_partitions
    results = [
        ReplicaElectionResult(
            topic=each.topic,
            partition_result=[
                _elect(controller, each.topic, number, election_type, records)
                for number in each.partitions
            ],
        )
        for each in (requested if requested is not None else _everywhere(controller))
    ]
    if requested is None:
        for result in results:
            result.partition_result = [
                each
                for each in result.partition_result
                if each.error_code != Error.ELECTION_NOT_NEEDED
            ]
    response = ElectLeadersResponse(replica_election_results=results)
    return Decision(records=list(records), response=response)


def _everywhere(controller: Controller) -> list[ElectLeadersRequestTopicPartitions]:
    return [
        ElectLeadersRequestTopicPartitions(
            topic=topic.name, partitions=list(range(len(topic.partitions)))
        )
        for topic in controller.all_topics()
    ]


def _elect(
    controller: Controller,
    name: str,
    number: int,
    election_type: int,
    records: list[PartitionAltered],
) -> ElectLeadersResponsePartitionResult:
    topic = controller.topic_by_name(name)
    if topic is None:
        text = f"No such topic as {name}"
        return _result(number, Error.UNKNOWN_TOPIC_OR_PARTITION, text)
    if not 0 <= number < len(topic.partitions):
        text = f"No such partition as {name}-{number}"
        return _result(number, Error.UNKNOWN_TOPIC_OR_PARTITION, text)
    partition = topic.partitions[number]
    if not _is_needed(partition, election_type):
        return _result(number, Error.ELECTION_NOT_NEEDED, NOT_NEEDED)
    place = (topic.topic_id, number)
    rules = ElectionRules.of(controller, topic, _ELECTIONS[election_type])
    record = elections.change(place, partition, TargetState.of(partition), rules)
    if record is not None:
        records.append(record)
        return _result(number, Error.NONE, None)
    if election_type == PREFERRED:
        return _result(number, Error.PREFERRED_LEADER_NOT_AVAILABLE, NOT_PREFERRED)
    return _result(number, Error.ELIGIBLE_LEADERS_NOT_AVAILABLE, NONE_ELIGIBLE)


def _is_needed(partition: Partition, election_type: int) -> bool:
    if election_type == PREFERRED:
        return partition.leader != partition.replicas[0]
    return partition.leader == NO_LEADER


def _all_refused(body: ElectLeadersRequest, error: Error, text: str | None) -> Decision:
    results = [
        ReplicaElectionResult(
            topic=each.topic,
            partition_result=[_result(number, error, text) for number in each.partitions],
        )
        for each in body.topic_partitions or ()
    ]
    return Decision(
        response=ElectLeadersResponse(error_code=error, replica_election_results=results)
    )


def _result(number: int, error: Error, text: str | None) -> ElectLeadersResponsePartitionResult:
    return ElectLeadersResponsePartitionResult(
        partition_id=number, error_code=error, error_message=text
    )


API = Api(kafka_apis.ELECT_LEADERS, handle)
