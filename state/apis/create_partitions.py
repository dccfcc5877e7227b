"""CreatePartitions (key 37, versions 0 to 3): add partitions to topics.

Runs on the controller. New partitions continue the numbering. They get the topic's replication
factor; their brokers are assigned round-robin or by the client.

If a request needs more than 10,000 metadata records, Kafka returns `-1 UNKNOWN_SERVER_ERROR` and
still adds the first 10,000 partitions; here it adds none.

The controller decides at once. Only a timeout of at most 0 is `7 REQUEST_TIMED_OUT`; then nothing
is changed, unless each topic is repeated, because repeated topics are not decided.

Without ALTER on a topic the error is `29 TOPIC_AUTHORIZATION_FAILED`.

Sources: `ControllerApis`, `ReplicationControlManager` in Kafka; KIP-195.
"""

from collections import Counter

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from brokertwin.state.access.authorizer import Operation
from brokertwin.state.cluster import topics
from brokertwin.state.cluster.machines import Controller
from brokertwin.state.cluster.mutation_quota import EXCEEDED, MutationQuota
from brokertwin.state.core.api import Api
from brokertwin.state.core.decision import Decision, Request
from brokertwin.state.core.records import PartitionsAdded


def _handle(controller: Controller, request: Request) -> Decision:
    body: CreatePartitionsRequest = request.body
    counts = Counter(topic.name for topic in body.topics)
    if body.timeout_ms <= 0 and 1 in counts.values():
        refused = [_refusal(topic.name, Error.REQUEST_TIMED_OUT) for topic in body.topics]
        return Decision(response=CreatePartitionsResponse(results=refused))
    results = [
        _refusal(name, Error.INVALID_REQUEST, "Duplicate topic name.")
        for name, count in counts.items()
        if count > 1
    ]
    denied = controller.denied_topics(request, Operation.ALTER, counts)
    records: list[PartitionsAdded] = []
    quota = MutationQuota(controller, request, strict_since=3)
    left = topics.RECORDS_PER_REQUEST_MAX
    for topic in body.topics:
        if counts[topic.name] > 1:
            continue
        if topic.name in denied:
            results.append(_refusal(topic.name, Error.TOPIC_AUTHORIZATION_FAILED))
            continue
        grown = _grow(controller, topic, left, quota)
        if isinstance(grown, CreatePartitionsTopicResult):
            results.append(grown)
        else:
            left -= len(grown.replicas)
            records.append(grown)
            results.append(CreatePartitionsTopicResult(name=topic.name))
    return Decision(
        records=[] if body.validate_only else list(records),
        response=CreatePartitionsResponse(throttle_time_ms=quota.throttle_ms, results=results),
    )


def _grow(
    controller: Controller, topic_request: CreatePartitionsTopic, left: int, quota: MutationQuota
) -> PartitionsAdded | CreatePartitionsTopicResult:
    """Return the record of at most `left` new partitions, or the error."""
    name = topic_request.name
    topic = controller.topic_by_name(name)
    if topic is None:
        return _refusal(name, Error.UNKNOWN_TOPIC_OR_PARTITION)
    there = len(topic.partitions)
    added = topic_request.count - there
    if added == 0:
        text = f"Topic already has {there} partition(s)."
        return _refusal(name, Error.INVALID_PARTITIONS, text)
    if added < 0:
        text = (
            f"The topic {name} currently has {there} partition(s);"
            f" {topic_request.count} would not be an increase."
        )
        return _refusal(name, Error.INVALID_PARTITIONS, text)
    factor = len(topic.partitions[0].replicas)
    if topic_request.assignments is not None and len(topic_request.assignments) != added:
        text = (
            f"Attempted to add {added} additional partition(s), but only"
            f" {len(topic_request.assignments)} assignment(s) were specified."
        )
        return _refusal(name, Error.INVALID_REPLICA_ASSIGNMENT, text)
    if not quota.takes(added):
        return _refusal(name, Error.THROTTLING_QUOTA_EXCEEDED, EXCEEDED)
    fault = _assignment_fault(controller, topic_request, factor)
    if fault is not None:
        return _refusal(name, Error.INVALID_REPLICA_ASSIGNMENT, fault)
    if added > left:
        return _refusal(name, Error.UNKNOWN_SERVER_ERROR)
    if topic_request.assignments is not None:
        replicas = [each.broker_ids for each in topic_request.assignments]
        return PartitionsAdded(topic.topic_id, replicas)
    fault = topics.unreachable(factor, controller.usable_brokers())
    if fault is not None:
        return _refusal(name, Error.INVALID_REPLICATION_FACTOR, fault)
    replicas = topics.place(name, controller.usable_brokers(), there, added, factor)
    return PartitionsAdded(topic.topic_id, replicas)


def _assignment_fault(
    controller: Controller, topic: CreatePartitionsTopic, factor: int
) -> str | None:
    if topic.assignments is None:
        return None
    faults = (
        topics.assignment_error(each.broker_ids, factor, controller.registered_brokers())
        for each in topic.assignments
    )
    fault = next((fault for fault in faults if fault is not None), None)
    if fault is not None:
        return fault
    for at, each in enumerate(topic.assignments):
        if not any(controller.is_active(broker) for broker in each.broker_ids):
            return topics.all_fenced(at)
    return None


def _refusal(name: str, error: Error, message: str | None = None) -> CreatePartitionsTopicResult:
    return CreatePartitionsTopicResult(name=name, error_code=error, error_message=message)


API = Api(kafka_apis.CREATE_PARTITIONS, _handle)
