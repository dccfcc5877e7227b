"""Fields that the gateway adds to GetTelemetrySubscriptions and PushTelemetry.

Subscriptions match clients by the software names in ApiVersions and by source port, which only the
gateway knows. The metrics themselves never reach the state machine, which decides by their size,
compressed and decompressed (KIP-714).
"""

from base64 import b64decode
from typing import NamedTuple

from brokertwin.gateway.admin import api_versions
from brokertwin.gateway.engine.engine import Body
from brokertwin.protocol import compression
from brokertwin.protocol.frames import UnsupportedError, decode_request
from brokertwin.protocol.kafka_apis import GET_TELEMETRY_SUBSCRIPTIONS, PUSH_TELEMETRY
from brokertwin.state.apis.push_telemetry import NOT_READABLE
from brokertwin.state.cluster.client_instances import UNKNOWN

APIS = frozenset({GET_TELEMETRY_SUBSCRIPTIONS.key, PUSH_TELEMETRY.key})


class Software(NamedTuple):
    """Software name and version of a client."""

    name: str = UNKNOWN
    version: str = UNKNOWN


def software_of(frame: bytes) -> Software | None:
    """Read the client software from the frame of an ApiVersions request.

    Returns None if the request is refused. Versions below 3 have no such fields, so the client is
    unknown. Raises MalformedError.
    """
    try:
        request = decode_request(frame)
    except UnsupportedError:
        return None
    names = [request.body.get(f"clientSoftware{part}", "") for part in ("Name", "Version")]
    if api_versions.response_body(request.version, *names)["errorCode"]:
        return None
    return Software(*(part or UNKNOWN for part in names))


def complete(body: Body, software: Software, port: int, most: int) -> None:
    """Complete the event body of a request of `APIS`; `most` is the maximum size of metrics."""
    body["clientSoftwareName"], body["clientSoftwareVersion"] = software
    body["clientSourcePort"] = port
    summarize(body, most)


def summarize(body: Body, most: int = compression.DECOMPRESSED_BYTES_MAX) -> None:
    """Replace metrics by two sizes.

    Metrics above `most` bytes are refused without decompression.
    """
    if "metrics" in body:
        metrics = b64decode(body.pop("metrics"))
        body["metricsSizeInBytes"] = len(metrics)
        size = _decompressed_size(body["compressionType"], metrics, most)
        body["decompressedSizeInBytes"] = size


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
