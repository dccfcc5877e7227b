"""DescribeConfigs (key 32, versions 1 to 4): settings of resources.

Resources are topics, brokers, groups and client metrics. Behaviour:
`KafkaApis.handleDescribeConfigsRequest`, `ConfigHelper`. A broker describes itself and, if the
broker name is empty, the cluster defaults. Resources that the client may not describe come last. An
unknown resource type makes the whole request `42 INVALID_REQUEST`. Settings are in the order of
Kafka's hash map.

KIPs: 226 (synonyms, sources), 569 (types and documentation, v3). Settings that the gateway decides
(listeners, directories) have Kafka's defaults here. The documentation of settings is always null.
The gateway describes broker loggers; without it such a request goes to the dead letters.
"""

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from brokertwin.state.access.authorizer import Operation, ResourceType
from brokertwin.state.cluster import given_configs
from brokertwin.state.cluster.config_changes import is_broker_id
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.cluster.topics import name_error
from brokertwin.state.configs import shown_configs
from brokertwin.state.configs.shown_configs import DescribedSetting
from brokertwin.state.core.api import Api, NotBuilt
from brokertwin.state.core.decision import Decision, Request

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
NOT_BUILT = {BROKER_LOGGER: "broker loggers"}
INVALID_REQUEST_TEXT = (
    "This most likely occurs because of a request being malformed by the client library or the"
    " message was sent to an incompatible broker. See the broker logs for more details."
)


def handle(broker: Broker, request: Request) -> Decision:
    """Describe the resources' settings. Raises NotBuilt."""
    body: DescribeConfigsRequest = request.body
    types = {resource.resource_type for resource in body.resources}
    if types - {TOPIC, BROKER, CLIENT_METRICS, GROUP} - NOT_BUILT.keys():
        refused = [_refused(r, Error.INVALID_REQUEST, INVALID_REQUEST_TEXT) for r in body.resources]
        return Decision(response=DescribeConfigsResponse(results=refused))
    configs, hidden = [], []
    for resource in body.resources:
        if _is_allowed(broker, request, resource):
            feature = NOT_BUILT.get(resource.resource_type)
            if feature is not None:
                raise NotBuilt(f"DescribeConfigs version {request.version} of {feature}")
            configs.append(_describe(broker, resource, body.include_synonyms))
        else:
            hidden.append(_hidden(resource))
    return Decision(response=DescribeConfigsResponse(results=configs + hidden))


def _is_allowed(broker: Broker, request: Request, resource: DescribeConfigsResource) -> bool:
    if resource.resource_type == TOPIC:
        return broker.allows_topic(request, Operation.DESCRIBE_CONFIGS, resource.resource_name)
    if resource.resource_type == GROUP:
        name = resource.resource_name
        return broker.allows(request, Operation.DESCRIBE_CONFIGS, ResourceType.GROUP, name)
    return broker.allows_cluster(request, Operation.DESCRIBE_CONFIGS)


def _hidden(resource: DescribeConfigsResource) -> DescribeConfigsResult:
    if resource.resource_type == TOPIC:
        text = "Topic authorization failed."
        return _refused(resource, Error.TOPIC_AUTHORIZATION_FAILED, text)
    if resource.resource_type == GROUP:
        text = "Group authorization failed."
        return _refused(resource, Error.GROUP_AUTHORIZATION_FAILED, text)
    return _refused(resource, Error.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")


def _describe(
    broker: Broker, resource: DescribeConfigsResource, has_synonyms: bool
) -> DescribeConfigsResult:
    name = resource.resource_name
    if resource.resource_type == BROKER:
        if not name:
            return _described(resource, shown_configs.cluster(broker.settings), has_synonyms)
        fault = _broker_fault(broker.id, name)
        if fault is not None:
            return _refused(resource, Error.INVALID_REQUEST, fault)
        return _described(resource, shown_configs.broker(broker.id, broker.settings), has_synonyms)
    if resource.resource_type == CLIENT_METRICS:
        if not name:
            text = "Client metrics subscription name must not be empty"
            return _refused(resource, Error.INVALID_REQUEST, text)
        kind = given_configs.CLIENT_METRICS
        own = given_configs.of(broker, kind, name)
        return _described(resource, shown_configs.client_metrics(own), has_synonyms)
    if resource.resource_type == GROUP:
        if not name:
            return _refused(resource, Error.INVALID_REQUEST, "Group name must not be empty")
        own = given_configs.of(broker, given_configs.GROUPS, name)
        return _described(resource, shown_configs.group(own, broker.settings), has_synonyms)
    fault = name_error(name)
    if fault is not None:
        return _refused(resource, Error.INVALID_TOPIC_EXCEPTION, fault)
    topic = broker.topic_by_name(name)
    if topic is None:
        return _refused(resource, Error.UNKNOWN_TOPIC_OR_PARTITION, "")
    return _described(resource, shown_configs.topic(topic.configs, broker.settings), has_synonyms)


def _broker_fault(broker: int, name: str) -> str | None:
    if not is_broker_id(name):
        return f"Broker id must be an integer, but it is: {name}"
    if int(name) != broker:
        return f"Unexpected broker id, expected {broker} or empty string, but received {name}"
    return None


def _described(
    resource: DescribeConfigsResource, shown: list[DescribedSetting], has_synonyms: bool
) -> DescribeConfigsResult:
    keys = resource.configuration_keys
    configs = [_config(each, has_synonyms) for each in shown if not keys or each.name in keys]
    return DescribeConfigsResult(
        resource_type=resource.resource_type, resource_name=resource.resource_name, configs=configs
    )


def _config(shown: DescribedSetting, has_synonyms: bool) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=shown.name,
        value=shown.value,
        read_only=shown.is_read_only,
        config_source=shown.source,
        is_sensitive=shown.is_sensitive,
        synonyms=[DescribeConfigsSynonym(*each) for each in shown.synonyms] if has_synonyms else [],
        config_type=shown.type_code,
    )


def _refused(resource: DescribeConfigsResource, error: Error, text: str) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=int(error),
        error_message=text,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


API = Api(kafka_apis.DESCRIBE_CONFIGS, handle)
