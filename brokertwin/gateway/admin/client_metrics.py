"""Fields that the gateway adds to GetTelemetrySubscriptions and PushTelemetry.

Subscriptions match clients by the software names in ApiVersions and by source port, which only the
gateway knows. The metrics themselves never reach the state machine, which decides by their size,
compressed and decompressed (KIP-714).
"""

from base64 import b64decode
from typing import NamedTuple

import msgspec
from msgspec import UNSET

from brokertwin.gateway.admin import api_versions
from brokertwin.gateway.admin.releases import Release
from brokertwin.gateway.engine.engine import Body
from brokertwin.protocol import compression
from brokertwin.protocol.frames import UnsupportedError
from brokertwin.protocol.generated.api_versions import ApiVersionsRequest
from brokertwin.protocol.generated.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
)
from brokertwin.protocol.generated.push_telemetry import PushTelemetryRequest
from brokertwin.protocol.kafka_apis import GET_TELEMETRY_SUBSCRIPTIONS, PUSH_TELEMETRY
from brokertwin.state.apis.push_telemetry import NOT_READABLE
from brokertwin.state.cluster.client_instances import UNKNOWN

APIS = frozenset({GET_TELEMETRY_SUBSCRIPTIONS.key, PUSH_TELEMETRY.key})


class Software(NamedTuple):
    name: str = UNKNOWN
    version: str = UNKNOWN


def software_of(frame: bytes, release: Release | None = None) -> Software | None:
    """Read the client software from the frame of an ApiVersions request.

    Returns None if the request is refused. Versions below 3 have no such fields, so the client is
    unknown. Raises MalformedError.
    """
    try:
        request = api_versions.request_of(frame, release)
    except UnsupportedError:
        return None
    names = [request.body.get(f"clientSoftware{part}", "") for part in ("Name", "Version")]
    body = msgspec.convert(request.body, ApiVersionsRequest)
    if api_versions.response_body(request.version, body, release)["errorCode"]:
        return None
    return Software(*(part or UNKNOWN for part in names))


def complete(
    body: GetTelemetrySubscriptionsRequest | PushTelemetryRequest,
    software: Software,
    port: int,
    most: int,
) -> None:
    """Complete a request of `APIS`; `most` is the maximum size of metrics."""
    body.client_software_name, body.client_software_version = software
    body.client_source_port = port
    if isinstance(body, PushTelemetryRequest):
        metrics, body.metrics = b64decode(body.metrics), UNSET
        sizes = sizes_of(metrics, body.compression_type, most)
        body.metrics_size_in_bytes, body.decompressed_size_in_bytes = sizes


def summarize(body: Body) -> None:
    """Replace the metrics in a document by two sizes."""
    if "metrics" in body:
        sizes = sizes_of(b64decode(body.pop("metrics")), body["compressionType"])
        body["metricsSizeInBytes"], body["decompressedSizeInBytes"] = sizes


def sizes_of(
    metrics: bytes, compression_type: int, most: int = compression.DECOMPRESSED_BYTES_MAX
) -> tuple[int, int]:
    """Return the size of metrics, and their size when decompressed.

    Metrics above `most` bytes are refused without decompression.
    """
    return len(metrics), _decompressed_size(compression_type, metrics, most)


def _decompressed_size(compression_type: int, metrics: bytes, most: int) -> int:
    """Return the decompressed size; with an unknown compression type, the size received."""
    if len(metrics) > most:
        return NOT_READABLE
    known = 0 <= compression_type < len(compression.NAMES)
    try:
        name = compression.NAMES[compression_type if known else 0]
        return len(compression.decompress(name, metrics, most))
    except compression.DecompressionError:
        return NOT_READABLE
