"""GetTelemetrySubscriptions (key 71, version 0): metrics to push.

A client without an instance id (zeros) gets one from `choices` or from the event's nonce. The only
check is on the request rate:

    less than a push interval after the last    89 THROTTLING_QUOTA_EXCEEDED
    accepted request, unless a push was just
    rejected with `117 UNKNOWN_SUBSCRIPTION_ID`
    or `76 UNSUPPORTED_COMPRESSION_TYPE`

After an error all other fields are empty. No permission is needed. Without a metrics plugin
ApiVersions does not list this API, but the broker responds to it all the same.

Source: `ClientMetricsManager.processGetTelemetrySubscriptionRequest` in Kafka; KIP-714.
"""

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.bodies import ZERO_UUID
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from brokertwin.state.cluster import client_instances
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.cluster.topics import derive_uuid
from brokertwin.state.core.api import Api
from brokertwin.state.core.decision import Decision, Request

ZSTD, LZ4, GZIP, SNAPPY = 4, 3, 1, 2
ACCEPTED = (ZSTD, LZ4, GZIP, SNAPPY)
"""Accepted compression types, best first; none is accepted, too."""

RETRIES_AFTER = (Error.UNKNOWN_SUBSCRIPTION_ID, Error.UNSUPPORTED_COMPRESSION_TYPE)
"""Errors of a push after which a client may retry at once."""


def handle(broker: Broker, request: Request) -> Decision:
    """Return the client's subscription; only volatile state changes."""
    body: GetTelemetrySubscriptionsRequest = request.body
    instance_id = body.client_instance_id
    if instance_id == ZERO_UUID:
        chosen = request.choices.client_instance_id
        instance_id = chosen or derive_uuid(request.nonce, "client-instance")
    instance = client_instances.find_or_create(broker, request, instance_id)
    if not instance.takes_get(broker.now) and instance.last_error not in RETRIES_AFTER:
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


API = Api(kafka_apis.GET_TELEMETRY_SUBSCRIPTIONS, handle)
