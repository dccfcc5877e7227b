"""UnregisterBroker (key 64, version 0): remove a broker.

Runs on the controller. Sources: KIP-631; `ReplicationControlManager.unregisterBroker`,
`ControllerApis` in Kafka; responses of 4.3.1. Without ALTER on the cluster the error is 31
CLUSTER_AUTHORIZATION_FAILED; an unknown broker returns 102 BROKER_ID_NOT_REGISTERED. The broker
leaves the in-sync sets but keeps its assignments. A live broker is ignored until it registers
again.
"""

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from brokertwin.state.access.authorizer import Operation, needs
from brokertwin.state.cluster.machines import Controller
from brokertwin.state.core.api import Api, Refused
from brokertwin.state.core.decision import Decision, Request
from brokertwin.state.core.records import BrokerUnregistered
from brokertwin.state.replication import elections, registrations


def handle(controller: Controller, request: Request) -> Decision:
    """Remove the broker from all in-sync sets, then from the cluster."""
    body: UnregisterBrokerRequest = request.body
    if not controller.allows_cluster(request, Operation.ALTER):
        raise Refused(Error.CLUSTER_AUTHORIZATION_FAILED, needs(Operation.ALTER))
    broker = body.broker_id
    if broker not in controller.registered_brokers():
        text = f"Broker ID {broker} is not currently registered"
        raise Refused(Error.BROKER_ID_NOT_REGISTERED, text)
    registrations.end_session(controller.tables.pending, broker)
    altered = elections.broker_changes(controller, gone=broker)
    return Decision(
        records=[*altered, BrokerUnregistered(broker)], response=UnregisterBrokerResponse()
    )


API = Api(kafka_apis.UNREGISTER_BROKER, handle)
