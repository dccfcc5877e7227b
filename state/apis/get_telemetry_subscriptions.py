"""GetTelemetrySubscriptions (key 71, version 0): a client asks which metrics it is to push.

A client that has no instance id yet (zeros) is given one; it comes from `choices` or the event's
nonce. Nothing is checked but its pace:

    less than a push interval after its last    89 THROTTLING_QUOTA_EXCEEDED
    request was taken, unless a push has just
    been refused with 117 or 76

An error leaves all other fields empty. Nobody needs a right to ask. A broker answers, though its
ApiVersions does not name this API while no plugin takes metrics, and here there is none.

Source: `ClientMetricsManager.processGetTelemetrySubscriptionRequest` in Kafka; KIP-714.
"""

from brokertwin.state.cluster import client_instances
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.cluster.topics import derive_uuid
from brokertwin.state.core import kafka_apis
from brokertwin.state.core.api import Api
from brokertwin.state.core.decision import Decision, Request
from brokertwin.state.core.errors import Error
from brokertwin.state.core.schema import ZERO_UUID
from brokertwin.state.core.wire.generated.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)

ZSTD, LZ4, GZIP, SNAPPY = 4, 3, 1, 2
ACCEPTED = (ZSTD, LZ4, GZIP, SNAPPY)
"""How metrics may be compressed, best first; they may come as they are, too."""

ASKS_AGAIN = (Error.UNKNOWN_SUBSCRIPTION_ID, Error.UNSUPPORTED_COMPRESSION_TYPE)
"""After which errors of a push a client may ask at once."""


def handle(broker: Broker, request: Request) -> Decision:
    """Only what the broker has in memory changes."""
    body: GetTelemetrySubscriptionsRequest = request.body
    instance_id = body.client_instance_id
    if instance_id == ZERO_UUID:
        drawn = request.choices.client_instance_id
        instance_id = drawn or derive_uuid(request.nonce, "client-instance")
    instance = client_instances.find_or_create(broker, request, instance_id)
    if not instance.takes_get(broker.now) and instance.last_error not in ASKS_AGAIN:
        error = Error.THROTTLING_QUOTA_EXCEEDED
        return Decision(response=GetTelemetrySubscriptionsResponse(error_code=error))
    instance.last_error = Error.NONE
    response = GetTelemetrySubscriptionsResponse(
        client_instance_id=instance_id,
        subscription_id=instance.subscription_id,
        accepted_compression_types=list(ACCEPTED),
        push_interval_ms=instance.push_interval_ms,
        telemetry_max_bytes=broker.settings.telemetry_max_bytes,
        delta_temporality=True,
        requested_metrics=instance.metrics,
    )
    return Decision(response=response)


API = Api(kafka_apis.GET_TELEMETRY_SUBSCRIPTIONS, GetTelemetrySubscriptionsRequest, handle)
