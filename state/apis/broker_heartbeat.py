"""BrokerHeartbeat (key 63, versions 0 to 2): unfence or shut down.

Brokers send it to the controller; they can also request to be fenced. Sources: KIP-631;
`ReplicationControlManager.processBrokerHeartbeat`, `ControllerApis` in Kafka. State transitions are
in `state/replication/registrations.py`.

    no CLUSTER_ACTION on the cluster                     31 CLUSTER_AUTHORIZATION_FAILED
    not registered, registered in another epoch, or the
    process of that epoch has stopped                    77 STALE_BROKER_EPOCH

Log directories that the broker reports as failed go offline with their replicas
(`state/replication/directories.py`; version 1 and later). The controller reads cordoned directories
from the broker's settings.
"""

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from brokertwin.state.access.authorizer import Operation
from brokertwin.state.cluster.machines import Controller
from brokertwin.state.core.api import Api, Refused
from brokertwin.state.core.decision import Decision, Request
from brokertwin.state.replication import directories, network, registrations
from brokertwin.state.replication.registrations import BrokerControlState

_DIRECTORIES_SINCE = 1


def handle(controller: Controller, request: Request) -> Decision:
    """Move the broker and its partitions to the next state."""
    body: BrokerHeartbeatRequest = request.body
    if not controller.allows_cluster(request, Operation.CLUSTER_ACTION):
        raise Refused(Error.CLUSTER_AUTHORIZATION_FAILED)
    broker = body.broker_id
    is_stopped = network.is_stopped(controller.tables.cluster, broker)
    if is_stopped or not controller.is_of_epoch(broker, body.broker_epoch):
        raise Refused(Error.STALE_BROKER_EPOCH)
    registration = controller.registration(broker)
    state = registrations.state_of(registration)
    is_caught_up = body.current_metadata_offset >= registration.epoch
    leads = registrations.leads(controller, broker)
    following = registrations.next_state(
        state, body.want_fence, body.want_shut_down, is_caught_up, leads
    )
    response = BrokerHeartbeatResponse(
        is_caught_up=is_caught_up,
        is_fenced=following.is_fenced,
        should_shut_down=following is BrokerControlState.SHUTDOWN_NOW,
    )
    if following.is_fenced:
        registrations.end_session(controller.tables.pending, broker)
    elif registration.sends_heartbeats:
        registrations.touch(controller, broker)
    is_changed = following is not state
    records = registrations.change_state(controller, broker, following) if is_changed else []
    if request.version >= _DIRECTORIES_SINCE:
        records += directories.offline(controller, broker, body.offline_log_dirs, following)
    return Decision(records=records, response=response)


API = Api(kafka_apis.BROKER_HEARTBEAT, handle)
