"""What the edge adds to GetTelemetrySubscriptions and PushTelemetry, and keeps to itself.

Subscriptions match clients by the software that they name in ApiVersions and by their port, which
only the edge knows. Metrics never enter the machine: how large they are, as they came and
decompressed, is all that decides whether they are taken. KIP-714.
"""

from base64 import b64decode
from typing import NamedTuple

from brokertwin.gateway.admin import api_versions
from brokertwin.gateway.engine.engine import Body
from brokertwin.gateway.protocol.frames import UnsupportedError, decode_request
from brokertwin.gateway.records import compression
from brokertwin.state.apis.push_telemetry import NOT_READABLE
from brokertwin.state.cluster.client_instances import UNKNOWN
from brokertwin.state.core.kafka_apis import GET_TELEMETRY_SUBSCRIPTIONS, PUSH_TELEMETRY

APIS = frozenset({GET_TELEMETRY_SUBSCRIPTIONS.key, PUSH_TELEMETRY.key})


class Software(NamedTuple):
    """What a client says that it is."""

    name: str = UNKNOWN
    version: str = UNKNOWN


def software_of(frame: bytes) -> Software | None:
    """What a client says in the frame of an ApiVersions request; None where it is refused.

    Before version 3 it says nothing, and is unknown from then on. Raises MalformedError.
    """
    try:
        request = decode_request(frame)
    except UnsupportedError:
        return None
    said = [request.body.get(f"clientSoftware{part}", "") for part in ("Name", "Version")]
    if api_versions.answer(request.version, *said)["errorCode"]:
        return None
    return Software(*(part or UNKNOWN for part in said))


def complete(body: Body, software: Software, port: int, most: int) -> None:
    """Make an event's body of a request of `APIS`; metrics may be `most` bytes."""
    body["clientSoftwareName"], body["clientSoftwareVersion"] = software
    body["clientSourcePort"] = port
    summarize(body, most)


def summarize(body: Body, most: int = compression.DECOMPRESSED_BYTES_MAX) -> None:
    """Put two sizes in the place of metrics, if there are any.

    What comes as more than `most` bytes is refused as it is, and is not decompressed.
    """
    if "metrics" in body:
        metrics = b64decode(body.pop("metrics"))
        body["metricsSizeInBytes"] = len(metrics)
        size = _decompressed_size(body["compressionType"], metrics, most)
        body["decompressedSizeInBytes"] = size


def _decompressed_size(compression_type: int, metrics: bytes, most: int) -> int:
    """How many bytes metrics are; of a compression that there is not, as many as came."""
    if len(metrics) > most:
        return NOT_READABLE
    known = 0 <= compression_type < len(compression.NAMES)
    try:
        name = compression.NAMES[compression_type if known else 0]
        return len(compression.decompress(name, metrics, most))
    except compression.DecompressionError:
        return NOT_READABLE
