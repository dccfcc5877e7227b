"""DescribeCluster (key 60, versions 0 to 2): brokers and controller.

Behaviour: `KafkaApis.handleDescribeCluster`, `AuthHelper.computeDescribeClusterResponse`. A request
for controllers (endpoint type 2) is `114 MISMATCHED_ENDPOINT_TYPE`, another endpoint type is
`115 UNSUPPORTED_ENDPOINT_TYPE`. Brokers without the client's listener are omitted. Host and port
are placeholders that the gateway replaces, like in Metadata.

KIPs: 700, 919 (endpoint types, v1), 1073 (fenced brokers, v2).
"""

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from brokertwin.state.apis.metadata import cluster_id, cluster_operations
from brokertwin.state.cluster.machines import Broker, Endpoint
from brokertwin.state.core.api import Api, Refused
from brokertwin.state.core.decision import Decision, Request

BROKERS = 1
CONTROLLERS = 2
NO_CONTROLLER = -1
_NOT_A_CONTROLLER = (
    "The request was sent to an endpoint of type BROKER, "
    "but we wanted an endpoint of type CONTROLLER"
)


def handle(broker: Broker, request: Request) -> Decision:
    """List the registered brokers; no permission is needed."""
    body: DescribeClusterRequest = request.body
    if body.endpoint_type == CONTROLLERS:
        raise Refused(Error.MISMATCHED_ENDPOINT_TYPE, _NOT_A_CONTROLLER)
    if body.endpoint_type != BROKERS:
        message = f"Unsupported endpoint type {body.endpoint_type}"
        raise Refused(Error.UNSUPPORTED_ENDPOINT_TYPE, message)
    wants_operations = body.include_cluster_authorized_operations
    alive = broker.alive_brokers()
    candidates = broker.registered_brokers() if body.include_fenced_brokers else alive
    reached = broker.reached(request.listener, candidates)
    controller = next(iter(alive), NO_CONTROLLER)
    response = DescribeClusterResponse(
        cluster_id=cluster_id(broker.cell.cluster, request.choices.cluster_id),
        controller_id=controller if controller in reached else NO_CONTROLLER,
        brokers=[_described(broker, node, endpoint) for node, endpoint in reached.items()],
    )
    if wants_operations:
        response.cluster_authorized_operations = cluster_operations(broker, request)
    return Decision(response=response)


def _described(broker: Broker, node: int, endpoint: Endpoint) -> DescribeClusterBroker:
    is_fenced = broker.registration(node).is_fenced
    return DescribeClusterBroker(node, *endpoint, broker.rack_of(node), is_fenced)


API = Api(kafka_apis.DESCRIBE_CLUSTER, handle)
