"""BrokerRegistration (key 62, versions 0 to 4): register a broker.

Runs on the controller. Sources: KIP-631, KIP-858; `ClusterControlManager.registerBroker`,
`ControllerApis` in Kafka. The errors, in this order:

    no CLUSTER_ACTION on the cluster                     31 CLUSTER_AUTHORIZATION_FAILED
    another cluster id                                   104 INCONSISTENT_CLUSTER_ID
    another incarnation while the last one is unfenced   101 DUPLICATE_BROKER_REGISTRATION
    a broker that migrates from ZooKeeper                102 BROKER_ID_NOT_REGISTERED
    no log directory; a reserved or repeated one, or one
    of another broker                                    119 INVALID_REGISTRATION
    a listener without host, port or security protocol   -1 UNKNOWN_SERVER_ERROR
    a feature at a level that the broker does not support 35 UNSUPPORTED_VERSION
    no `metadata.version` among its features             119 INVALID_REGISTRATION
    another finalized feature is missing                 35 UNSUPPORTED_VERSION

A listener without a name is rejected like one without a host; it crashes a controller of 4.3.1. If
two listeners have the same name, the last one applies.

A new incarnation stays fenced until it sends a BrokerHeartbeat; a known incarnation keeps its
epoch. If the last incarnation did not shut down cleanly, the broker is no longer an eligible leader
(`state/replication/eligible.py`). Before version 3 every shutdown counts as unclean.

A broker that is missing in the cluster's settings can register, but no process serves it. It is
listed in metadata, gets partitions and can send requests as a follower or leader. Requests to it
are dropped.

Clients receive the endpoint of the listener that they use (`Machine.endpoint`).
"""

import base64

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.bodies import Uuid
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationRequestListener,
    BrokerRegistrationResponse,
    Feature,
)
from brokertwin.state.access.authorizer import Operation
from brokertwin.state.apis.metadata import cluster_id
from brokertwin.state.cluster import features
from brokertwin.state.cluster.machines import Controller
from brokertwin.state.core.api import Api, Refused
from brokertwin.state.core.decision import Decision, Request
from brokertwin.state.core.records import BrokerRegistered
from brokertwin.state.replication import elections, registrations

_RESERVED_DIRS_BELOW = 100
"""`DirectoryId.reserved`: ids below this identify no directory."""

_SECURITY_PROTOCOL_MAX = 3
"""The highest code of: PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL."""


def handle(controller: Controller, request: Request) -> Decision:
    """Register a broker, or return the first error."""
    body: BrokerRegistrationRequest = request.body
    broker = body.broker_id
    error = _refusal(controller, request, body)
    if error is not Error.NONE:
        raise Refused(error)
    registration = controller.registration(broker)
    record = _record(body)
    if registration.is_registered and registration.incarnation_id == body.incarnation_id:
        record.broker_epoch, record.is_fenced = registration.epoch, registration.is_fenced
        record.in_controlled_shutdown = registration.in_controlled_shutdown
        if not registration.is_fenced:
            registrations.touch(controller, broker)
        return _registered(record)
    record.broker_epoch = registrations.next_epoch(controller)
    registrations.end_session(controller.tables.pending, broker)
    is_known = registration.is_registered and request.version >= 3
    is_clean = is_known and registration.epoch == body.previous_broker_epoch
    decision = _registered(record)
    decision.records += elections.broker_changes(
        controller, gone=broker if is_clean else None, ended=None if is_clean else broker
    )
    return decision


def _record(body: BrokerRegistrationRequest) -> BrokerRegistered:
    """Return the record of a new incarnation, without its epoch."""
    record = BrokerRegistered(
        body.broker_id, 0, body.incarnation_id, True, False, body.log_dirs, True, rack=body.rack
    )
    if body.listeners:
        record.host, record.port = body.listeners[0].host, body.listeners[0].port
        record.listeners = {each.name: (each.host, each.port) for each in body.listeners}
    return record


def _registered(record: BrokerRegistered) -> Decision:
    response = BrokerRegistrationResponse(broker_epoch=record.broker_epoch)
    return Decision(records=[record], response=response)


def _refusal(controller: Controller, request: Request, body: BrokerRegistrationRequest) -> Error:
    if not controller.allows_cluster(request, Operation.CLUSTER_ACTION):
        return Error.CLUSTER_AUTHORIZATION_FAILED
    if body.cluster_id != cluster_id(controller.cell.cluster, request.choices.cluster_id):
        return Error.INCONSISTENT_CLUSTER_ID
    registration = controller.registration(body.broker_id)
    is_another = registration.incarnation_id != body.incarnation_id
    if body.broker_id in controller.alive_brokers() and is_another:
        return Error.DUPLICATE_BROKER_REGISTRATION
    if body.is_migrating_zk_broker:
        return Error.BROKER_ID_NOT_REGISTERED
    if _has_wrong_dirs(controller, request.version, body):
        return Error.INVALID_REGISTRATION
    if not all(_is_reachable(each) for each in body.listeners):
        return Error.UNKNOWN_SERVER_ERROR
    return _feature_error(controller, body.features)


def _has_wrong_dirs(controller: Controller, version: int, body: BrokerRegistrationRequest) -> bool:
    others = {
        log_dir
        for broker in controller.registered_brokers()
        if broker != body.broker_id
        for log_dir in controller.registration(broker).log_dirs
    }
    log_dirs = set(body.log_dirs) if version >= 2 else set()
    is_any_reserved = any(_is_reserved(each) for each in log_dirs)
    is_twice = len(log_dirs) != len(body.log_dirs)
    return not log_dirs or is_twice or bool(log_dirs & others) or is_any_reserved


def _is_reachable(listener: BrokerRegistrationRequestListener) -> bool:
    has_place = bool(listener.name and listener.host and listener.port)
    return has_place and 0 <= listener.security_protocol <= _SECURITY_PROTOCOL_MAX


def _feature_error(controller: Controller, given: list[Feature]) -> Error:
    """Return the error if features are incompatible with finalized levels."""
    settings = controller.cell.broker_settings
    levels = features.finalized(controller, settings)
    for each in given:
        level = levels.get(each.name, 0)
        if not each.min_supported_version <= level <= each.max_supported_version:
            return Error.UNSUPPORTED_VERSION
    missing = {name for name, level in levels.items() if level} - {each.name for each in given}
    if features.METADATA in missing:
        return Error.INVALID_REGISTRATION
    return Error.UNSUPPORTED_VERSION if missing else Error.NONE


def _is_reserved(log_dir: Uuid) -> bool:
    octets = base64.urlsafe_b64decode(log_dir + "==")
    return int.from_bytes(octets, "big") < _RESERVED_DIRS_BELOW


API = Api(kafka_apis.BROKER_REGISTRATION, handle)
