"""ApiVersions response of the gateway: only what is implemented.

The state machine's response (`state/apis/api_versions.py`) lists every API of Kafka 4.3.1, and a
client would use APIs that are missing here. Features without their API are omitted, as by an older
broker; a consumer with `group.protocol=consumer` then reports that the cluster does not support it.
"""

from brokertwin.gateway.admin.features import Features
from brokertwin.gateway.admin.releases import Release
from brokertwin.gateway.engine.engine import Body
from brokertwin.protocol.bodies import render
from brokertwin.protocol.errors import Error
from brokertwin.protocol.frames import UnsupportedError, decode_request, encode_response
from brokertwin.protocol.generated.api_versions import ApiVersionsRequest
from brokertwin.protocol.kafka_apis import (
    API_VERSIONS,
    CONSUMER_GROUP_HEARTBEAT,
    GET_TELEMETRY_SUBSCRIPTIONS,
    KAFKA_APIS,
    PUSH_TELEMETRY,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    SHARE_FETCH,
    STREAMS_GROUP_HEARTBEAT,
    Decider,
)
from brokertwin.state.apis.api_versions import API
from brokertwin.state.apis.registry import BUILT
from brokertwin.state.core.api import Api
from brokertwin.state.core.decision import Request
from brokertwin.state.core.events import Choices, RequestHeader

UNNAMED = frozenset({GET_TELEMETRY_SUBSCRIPTIONS.key, PUSH_TELEMETRY.key})
"""APIs that a broker serves but does not list without a client metrics plugin."""

SERVED: dict[int, Api] = {
    key: api for key, api in BUILT.items() if KAFKA_APIS[key].is_listed or key in UNNAMED
}
"""APIs for clients, without those between brokers."""

FEATURES = {
    "group.version": CONSUMER_GROUP_HEARTBEAT.key,
    "share.version": SHARE_FETCH.key,
    "streams.version": STREAMS_GROUP_HEARTBEAT.key,
}
"""Feature to the API it requires: group heartbeats, or share fetches."""

SASL_APIS = frozenset({SASL_HANDSHAKE.key, SASL_AUTHENTICATE.key})
ITS_OWN = frozenset(key for key, api in KAFKA_APIS.items() if api.handler is Decider.EDGE)
"""APIs that the gateway responds to itself, in all versions of Kafka."""

UNKNOWN_VERSION = -1

SERVED_VERSIONS = frozenset(
    (key, version)
    for key, api in SERVED.items()
    for version in range(api.versions[0], api.versions[1] + 1)
)
"""API keys and versions that ApiVersions lists."""

PROBE = RequestHeader(API_VERSIONS.key, 0, client_id="probe")
"""The header of a request that has an immediate response from every broker."""


def response_frame(
    frame: bytes, features: Features | None = None, release: Release | None = None
) -> tuple[bytearray, int]:
    """Return the response frame to an ApiVersions frame, and its error code.

    `features` provides the finalized levels. Only what `release` offers is listed.

    Raises:
        MalformedError: the frame is no ApiVersions request.
    """
    try:
        request = decode_request(frame)
    except UnsupportedError as unsupported:
        body = response_body(UNKNOWN_VERSION, "", "")
        if release is not None:
            _restrict(body, release)
        return encode_response(API_VERSIONS.key, 0, unsupported.correlation_id, body), body[
            "errorCode"
        ]
    version = request.version
    if release is not None and not release.offers(API_VERSIONS.key, version):
        version = UNKNOWN_VERSION
    names = ("clientSoftwareName", "clientSoftwareVersion")
    body = response_body(version, *(request.body.get(name, "") for name in names))
    if features is not None and body["errorCode"] == Error.NONE:
        if "finalizedFeaturesEpoch" in body:
            body["finalizedFeaturesEpoch"] = features.epoch()
        _put_features(body, features)
    if release is not None:
        _restrict(body, release)
    correlation_id = request.header["correlationId"]
    encoded = encode_response(API_VERSIONS.key, max(version, 0), correlation_id, body)
    return encoded, body["errorCode"]


def _restrict(body: Body, release: Release) -> None:
    """Keep what a release offers, too."""
    listed = []
    for each in body["apiKeys"]:
        first, last = release.apis.get(each["apiKey"], (0, -1))
        first, last = max(first, each["minVersion"]), min(last, each["maxVersion"])
        if first <= last:
            listed.append({**each, "minVersion": first, "maxVersion": last})
    body["apiKeys"] = listed
    for name in ("supportedFeatures", "finalizedFeatures"):
        if name in body and release.features is not None:
            body[name] = [each for each in body[name] if each["name"] in release.features]


def _put_features(body: Body, features: Features) -> None:
    if features.finalized is not None and "finalizedFeatures" in body:
        body["finalizedFeatures"] = [e for e in features.finalized if _is_built(e["name"])]


def is_served(api_key: int, version: int, release: Release | None) -> bool:
    """Whether ApiVersions offers a version of an API."""
    api = SERVED.get(api_key)
    if api is None or not api.versions[0] <= version <= api.versions[1]:
        return False
    return release is None or release.offers(api_key, version)


def response_body(version: int, software_name: str, software_version: str) -> Body:
    """Return the body of an ApiVersions response.

    An unknown version gets `35 UNSUPPORTED_VERSION`.
    """
    request = Request(
        header=RequestHeader(API.key, version),
        body=ApiVersionsRequest(
            client_software_name=software_name, client_software_version=software_version
        ),
        principal="",
        connection="",
        nonce="",
        choices=Choices(),
    )
    response = API.handle(None, request).response
    assert response is not None
    is_known = API.versions[0] <= version <= API.versions[1]
    body = render(response, version if is_known else 0)
    if body["errorCode"] == Error.NONE:
        body["apiKeys"] = [each for each in map(_truthful, body["apiKeys"]) if each is not None]
        for name in ("supportedFeatures", "finalizedFeatures"):
            if name in body:
                body[name] = [each for each in body[name] if _is_built(each["name"])]
    return body


def _is_built(feature: str) -> bool:
    return feature not in FEATURES or FEATURES[feature] in SERVED


def _truthful(listed: Body) -> Body | None:
    """Restrict an entry to the implemented versions.

    Produce keeps version 0, which old librdkafka requires.
    """
    if listed["apiKey"] in ITS_OWN:
        return listed
    api = SERVED.get(listed["apiKey"])
    if api is None:
        return None
    first = min(api.versions[0], listed["minVersion"])
    last = min(api.versions[1], listed["maxVersion"])
    return {"apiKey": api.key, "minVersion": first, "maxVersion": last}
