"""UnregisterController (key 94, version 0, since Kafka 4.4): remove a controller.

Runs on the controller. Controllers here are part of brokers, and removing one is not built. Any
other id returns 136 CONTROLLER_ID_NOT_REGISTERED. Without ALTER on the cluster, the error is
31 CLUSTER_AUTHORIZATION_FAILED. Source: responses of Kafka 4.4.0.
"""

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.unregister_controller import (
    UnregisterControllerRequest,
    UnregisterControllerResponse,
)
from brokertwin.state.access.authorizer import Operation, needs
from brokertwin.state.cluster.machines import Controller
from brokertwin.state.core.api import Api, NotBuilt
from brokertwin.state.core.decision import Decision, Request


def handle(controller: Controller, request: Request) -> Decision:
    """Refuse the request. Raises NotBuilt for a broker's id."""
    body: UnregisterControllerRequest = request.body
    if not controller.allows_cluster(request, Operation.ALTER):
        error, text = Error.CLUSTER_AUTHORIZATION_FAILED, needs(Operation.ALTER)
    elif body.controller_id in controller.cell.brokers:
        raise NotBuilt("UnregisterController of a controller that is registered")
    else:
        error = Error.CONTROLLER_ID_NOT_REGISTERED
        text = f"Controller ID {body.controller_id} is not currently registered."
    return Decision(response=UnregisterControllerResponse(error_code=error, error_message=text))


API = Api(kafka_apis.UNREGISTER_CONTROLLER, handle)
