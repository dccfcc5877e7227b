"""PushTelemetry (key 72, version 0): receive a client's metrics.

No plugin takes the metrics here. They stay at the gateway, which reports their size. Errors, in
this order:

    invalid instance id                           42 INVALID_REQUEST
    the client has terminated before              42 INVALID_REQUEST
    less than a push interval after the last      89 THROTTLING_QUOTA_EXCEEDED
    push, unless it is the first after a get
    or terminates the client
    another subscription id than the client's     117 UNKNOWN_SUBSCRIPTION_ID
    unknown compression                           76 UNSUPPORTED_COMPRESSION_TYPE
    more than `telemetry.max.bytes`               118 TELEMETRY_TOO_LARGE
    metrics too large when decompressed, or       87 INVALID_RECORD
    not decompressible

A rejected request can terminate the client, too. Therefore a client that continues after its last
push is rejected once. Source: `ClientMetricsManager.processPushTelemetryRequest`,
`ClientTelemetryUtils.decompress` in Kafka; KIP-714.
"""

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.bodies import ZERO_UUID
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from brokertwin.state.apis.get_telemetry_subscriptions import ACCEPTED
from brokertwin.state.cluster import client_instances
from brokertwin.state.cluster.client_instances import ClientInstance
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.api import Api
from brokertwin.state.core.decision import Decision, Request

ONE_UUID = "AAAAAAAAAAAAAAAAAAAAAQ"
RESERVED = (ZERO_UUID, ONE_UUID)
NOT_COMPRESSED = 0
NOT_READABLE = -1
"""Size of metrics that cannot be decompressed."""


def handle(broker: Broker, request: Request) -> Decision:
    """Update the client instance in memory; write no record."""
    body: PushTelemetryRequest = request.body
    if body.client_instance_id in RESERVED:
        return Decision(response=PushTelemetryResponse(error_code=Error.INVALID_REQUEST))
    instance = client_instances.find_or_create(broker, request, body.client_instance_id)
    error = _error(broker, instance, body)
    instance.is_terminating = body.terminating
    instance.last_error = error
    return Decision(response=PushTelemetryResponse(error_code=error))


def _error(broker: Broker, instance: ClientInstance, body: PushTelemetryRequest) -> Error:
    most = broker.settings.telemetry_max_bytes
    if instance.is_terminating:
        return Error.INVALID_REQUEST
    if not instance.takes_push(broker.now) and not body.terminating:
        return Error.THROTTLING_QUOTA_EXCEEDED
    if body.subscription_id != instance.subscription_id:
        return Error.UNKNOWN_SUBSCRIPTION_ID
    if body.compression_type not in (NOT_COMPRESSED, *ACCEPTED):
        return Error.UNSUPPORTED_COMPRESSION_TYPE
    if body.metrics_size_in_bytes > most:
        return Error.TELEMETRY_TOO_LARGE
    if body.compression_type != NOT_COMPRESSED and body.metrics_size_in_bytes:
        size = body.decompressed_size_in_bytes
        return Error.INVALID_RECORD if size == NOT_READABLE or size > most else Error.NONE
    return Error.NONE


API = Api(kafka_apis.PUSH_TELEMETRY, handle)
