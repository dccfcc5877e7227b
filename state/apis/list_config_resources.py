"""ListConfigResources (key 74, versions 0 to 1): list config resources.

Source: `KafkaApis.handleListConfigResources`, `ListConfigResourcesRequest` in Kafka; KIP-1142,
KIP-1000. Version 0 was ListClientMetricsResources: it lists client metrics alone and has no types.
Without types, the response has every resource. It has them in this order, whatever the request's:

    32 groups           groups with group settings
    16 client metrics   the subscriptions
     8 broker loggers   the live brokers
     4 brokers          the live brokers
     2 topics           all topics, internal ones included

Without DESCRIBE_CONFIGS on the cluster it returns 31 CLUSTER_AUTHORIZATION_FAILED. An unknown type
returns 35 UNSUPPORTED_VERSION. Kafka lists a type in the order of a hash map; here it is sorted.
"""

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from brokertwin.state.access.authorizer import Operation
from brokertwin.state.cluster import given_configs, group_configs
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.api import Api, Refused
from brokertwin.state.core.decision import Decision, Request

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
IN_ORDER = (GROUP, CLIENT_METRICS, BROKER_LOGGER, BROKER, TOPIC)
TYPES_SINCE = 1


def handle(broker: Broker, request: Request) -> Decision:
    """Respond without writing records."""
    body: ListConfigResourcesRequest = request.body
    if not broker.allows_cluster(request, Operation.DESCRIBE_CONFIGS):
        raise Refused(Error.CLUSTER_AUTHORIZATION_FAILED)
    requested = set(body.resource_types)
    if requested - set(IN_ORDER):
        raise Refused(Error.UNSUPPORTED_VERSION)
    if request.version < TYPES_SINCE:
        requested = {CLIENT_METRICS}
    listed = [
        ConfigResource(resource_name=name, resource_type=kind)
        for kind in IN_ORDER
        if not requested or kind in requested
        for name in _names(broker, kind)
    ]
    return Decision(response=ListConfigResourcesResponse(config_resources=listed))


def _names(broker: Broker, kind: int) -> list[str]:
    if kind == GROUP:
        return group_configs.group_ids(broker)
    if kind == CLIENT_METRICS:
        return given_configs.names(broker, given_configs.CLIENT_METRICS)
    if kind == TOPIC:
        return broker.topic_names()
    return [str(each) for each in sorted(broker.alive_brokers())]


API = Api(kafka_apis.LIST_CONFIG_RESOURCES, handle)
