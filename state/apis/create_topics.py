"""CreateTopics (key 19, versions 2 to 7): create topics.

Runs on the controller. A topic is checked in Kafka's order:

1. repeated in the request
2. its name
3. a collision of '.' and '_' with an existing topic
4. an existing topic of that name
5. its settings
6. its replicas and partitions; -1 means `default.replication.factor` and `num.partitions`

Results follow the request's order; repeated topics come last. A request that needs more than 10,000
metadata records is rejected as a whole. With `validateOnly` no topic is created, and the response
contains an unused topic id, like Kafka's.

Topic ids come from `choices.topicIds` or from the event's nonce (see `state/cluster/topics.py`).

The controller decides at once. Only a timeout of at most 0 is `7 REQUEST_TIMED_OUT`; then nothing
is changed, unless there was no topic to decide. If a setting is repeated, the last value applies; a
null value at any position rejects the topic.

Without CREATE on the cluster, a topic on which the client has no CREATE is
`29 TOPIC_AUTHORIZATION_FAILED`. The response includes settings, partitions and replication factor
only for topics on which the client has DESCRIBE_CONFIGS.

Not implemented: policies.

Sources: `ControllerApis`, `ReplicationControlManager` in Kafka; KIP-4, KIP-464, KIP-516, KIP-525.
"""

from collections import Counter
from collections.abc import Sequence, Set
from typing import NamedTuple

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from brokertwin.state.access.authorizer import Operation
from brokertwin.state.cluster import topics
from brokertwin.state.cluster.coordinators import SHARE_TOPIC
from brokertwin.state.cluster.machines import Broker, Controller
from brokertwin.state.cluster.mutation_quota import EXCEEDED, MutationQuota
from brokertwin.state.configs import topic_configs
from brokertwin.state.core.api import Api
from brokertwin.state.core.decision import Decision, Message, Request
from brokertwin.state.core.records import TopicCreated
from brokertwin.state.groups import share_states, streams_topics
from brokertwin.state.share import share_partitions

BY_DEFAULT = -1
"""The broker's default of `num_partitions` and `replication_factor`."""


class _Refused(NamedTuple):
    error: Error
    message: str | None


def _handle(controller: Controller, request: Request) -> Decision:
    body: CreateTopicsRequest = request.body
    counts = Counter(topic.name for topic in body.topics)
    late = _refused_late(counts)
    late.update(_unauthorized(controller, request, counts.keys() - late.keys()))
    creatable_topics = [topic for topic in body.topics if topic.name not in late]
    if creatable_topics and body.timeout_ms <= 0:
        return _refuse_all(body, _Refused(Error.REQUEST_TIMED_OUT, None))
    if _partition_count(controller, creatable_topics) > topics.PARTITIONS_PER_REQUEST_MAX:
        text = "Excessively large number of partitions per request."
        return _refuse_all(body, _Refused(Error.POLICY_VIOLATION, text))
    records: list[TopicCreated] = []
    outcomes, size = [], 0
    quota = MutationQuota(controller, request, strict_since=6)
    for topic in creatable_topics:
        made = _make(controller, request, topic, quota)
        if isinstance(made, TopicCreated):
            records.append(made)
            size += 1 + len(made.replicas) + len(made.configs)
            if size > topics.RECORDS_PER_REQUEST_MAX:
                text = "Unable to perform excessively large batch operation."
                return _refuse_all(body, _Refused(Error.POLICY_VIOLATION, text))
        outcomes.append(made)
    results = [
        _result(controller, request, topic.name, outcome)
        for topic, outcome in zip(creatable_topics, outcomes, strict=True)
    ]
    results += [_refusal(name, refused) for name, refused in late.items()]
    return Decision(
        records=[] if body.validate_only else list(records),
        response=CreateTopicsResponse(throttle_time_ms=quota.throttle_ms, topics=results),
    )


def _refused_late(counts: Counter[str]) -> dict[str, _Refused]:
    """Return the errors of repeated names and of the metadata log."""
    twice = _Refused(Error.INVALID_REQUEST, "Duplicate topic name.")
    late = {name: twice for name, count in counts.items() if count > 1}
    name = topics.CLUSTER_METADATA
    if counts[name] == 1:
        text = f"Creation of internal topic {name} is prohibited."
        late[name] = _Refused(Error.INVALID_REQUEST, text)
    return late


def _unauthorized(controller: Controller, request: Request, names: Set[str]) -> dict[str, _Refused]:
    if controller.allows_cluster(request, Operation.CREATE):
        return {}
    refused = _Refused(Error.TOPIC_AUTHORIZATION_FAILED, "Authorization failed.")
    denied = controller.denied_topics(request, Operation.CREATE, names)
    return dict.fromkeys(sorted(denied), refused)


def _partition_count(controller: Controller, creatable_topics: Sequence[CreatableTopic]) -> int:
    by_default = controller.settings.num_partitions
    return sum(
        len(topic.assignments)
        or (by_default if topic.num_partitions == BY_DEFAULT else max(topic.num_partitions, 0))
        for topic in creatable_topics
    )


def _make(
    controller: Controller, request: Request, topic: CreatableTopic, quota: MutationQuota
) -> TopicCreated | _Refused:
    """Return the record of a new topic, or its error."""
    refused = _name_refused(controller, topic.name)
    if refused is not None:
        return refused
    nulls = {config.name: None for config in topic.configs if config.value is None}
    configs = {config.name: config.value for config in topic.configs} | nulls
    fault = topic_configs.validate(configs, controller.settings)
    if fault is not None:
        return _Refused(Error.INVALID_CONFIG, fault)
    replicas = _replicas(controller, topic)
    if isinstance(replicas, _Refused):
        return replicas
    if not quota.takes(len(replicas)):
        return _Refused(Error.THROTTLING_QUOTA_EXCEEDED, EXCEEDED)
    topic_id = topics.new_topic_id(
        topic.name,
        request.choices.topic_ids.get(topic.name),
        (request.nonce, str(controller.now)),
        lambda known: controller.topic_by_id(known) is not None,
    )
    values = {name: value for name, value in configs.items() if value is not None}
    return TopicCreated(topic_id, topic.name, replicas, values, controller.now)


def _name_refused(controller: Controller, name: str) -> _Refused | None:
    fault = topics.name_error(name)
    if fault is not None:
        return _Refused(Error.INVALID_TOPIC_EXCEPTION, fault)
    if controller.topic_by_name(name) is not None:
        return _Refused(Error.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    unified = topics.unify(name)
    if "_" in unified:
        for other in controller.topic_names():
            if topics.unify(other) == unified:
                text = f"Topic '{name}' collides with existing topic: {other}"
                return _Refused(Error.INVALID_TOPIC_EXCEPTION, text)
    return None


def _replicas(controller: Controller, topic: CreatableTopic) -> list[list[int]] | _Refused:
    """Return the brokers of each partition, or an error."""
    if topic.assignments:
        return _assigned(controller, topic)
    if topic.replication_factor < BY_DEFAULT or topic.replication_factor == 0:
        text = "Replication factor must be larger than 0, or -1 to use the default value."
        return _Refused(Error.INVALID_REPLICATION_FACTOR, text)
    if topic.num_partitions < BY_DEFAULT or topic.num_partitions == 0:
        text = "Number of partitions was set to an invalid non-positive value."
        return _Refused(Error.INVALID_PARTITIONS, text)
    settings = controller.settings
    count, factor = topic.num_partitions, topic.replication_factor
    count = settings.num_partitions if count == BY_DEFAULT else count
    factor = settings.default_replication_factor if factor == BY_DEFAULT else factor
    fault = topics.unreachable(factor, controller.usable_brokers())
    if fault is not None:
        text = f"Unable to replicate the partition {factor} time(s): {fault}"
        return _Refused(Error.INVALID_REPLICATION_FACTOR, text)
    return topics.place(topic.name, controller.usable_brokers(), 0, count, factor)


def _assigned(controller: Controller, topic: CreatableTopic) -> list[list[int]] | _Refused:
    """Return the client's assignment of brokers by partition, or an error."""
    prefix = "A manual partition assignment was specified, but"
    if topic.replication_factor != BY_DEFAULT:
        text = f"{prefix} replication factor was not set to -1."
        return _Refused(Error.INVALID_REQUEST, text)
    if topic.num_partitions != BY_DEFAULT:
        return _Refused(Error.INVALID_REQUEST, f"{prefix} numPartitions was not set to -1.")
    parts: dict[int, list[int]] = {}
    factor = None
    for assignment in topic.assignments:
        index = assignment.partition_index
        if index in parts:
            text = f"Found multiple manual partition assignments for partition {index}"
            return _Refused(Error.INVALID_REPLICA_ASSIGNMENT, text)
        fault = topics.assignment_error(
            assignment.broker_ids, factor, controller.registered_brokers()
        )
        if fault is not None:
            return _Refused(Error.INVALID_REPLICA_ASSIGNMENT, fault)
        if not any(controller.is_active(broker) for broker in assignment.broker_ids):
            return _Refused(Error.INVALID_REPLICA_ASSIGNMENT, topics.all_fenced(index))
        parts[index] = assignment.broker_ids
        factor = len(assignment.broker_ids)
    if sorted(parts) != list(range(len(parts))):
        text = "partitions should be a consecutive 0-based integer sequence"
        return _Refused(Error.INVALID_REPLICA_ASSIGNMENT, text)
    return [parts[index] for index in range(len(parts))]


def _result(
    controller: Controller, request: Request, name: str, outcome: TopicCreated | _Refused
) -> CreatableTopicResult:
    if isinstance(outcome, _Refused):
        return _refusal(name, outcome)
    is_shown = controller.allows_topic(request, Operation.DESCRIBE_CONFIGS, name)
    return _success(controller, outcome) if is_shown else _hidden(outcome)


def _success(controller: Controller, record: TopicCreated) -> CreatableTopicResult:
    return CreatableTopicResult(
        name=record.name,
        topic_id=record.topic_id,
        num_partitions=len(record.replicas),
        replication_factor=len(record.replicas[0]),
        configs=[
            CreatableTopicConfigs(name=each.name, value=each.value, config_source=each.source)
            for each in topic_configs.effective(record.configs, controller.settings)
        ],
    )


def _hidden(record: TopicCreated) -> CreatableTopicResult:
    """Return the result for a client without DESCRIBE_CONFIGS on the topic."""
    return CreatableTopicResult(
        name=record.name,
        topic_id=record.topic_id,
        topic_config_error_code=Error.TOPIC_AUTHORIZATION_FAILED,
    )


def _refusal(name: str, refused: _Refused) -> CreatableTopicResult:
    return CreatableTopicResult(name=name, error_code=refused.error, error_message=refused.message)


def _refuse_all(body: CreateTopicsRequest, refused: _Refused) -> Decision:
    results = [_refusal(topic.name, refused) for topic in body.topics]
    return Decision(response=CreateTopicsResponse(topics=results))


THERE = (Error.NONE, Error.TOPIC_ALREADY_EXISTS)
"""Error codes after which the topic exists."""


def on_reply(broker: Broker, message: Message, response: CreateTopicsResponse) -> Decision:
    """Contact the share coordinators once their internal topic exists, write dead letters.

    If the creation of the internal topic failed, a later heartbeat contacts them. `message.context`
    is the streams group whose internal topics were requested, if any.
    """
    if message.context:
        return streams_topics.creation_responded(broker, message.context, response.topics)
    created = {each.name: Error(each.error_code) for each in response.topics}
    messages = share_partitions.on_topics_created(broker, created)
    if created.get(SHARE_TOPIC) in THERE:
        messages += share_states.pending_initializations(broker)
    return Decision(messages=messages)


API = Api(kafka_apis.CREATE_TOPICS, _handle, on_reply=on_reply)
