"""ApiVersions response of the gateway: only what is implemented.

The state machine's response (`state/apis/api_versions.py`) lists every API of Kafka, and a client
would use APIs that are missing here. Features without their API are omitted, as by an older broker;
a consumer with `group.protocol=consumer` then reports that the cluster does not support it.
"""

import msgspec

from brokertwin.gateway.admin.features import Features
from brokertwin.gateway.admin.releases import Release
from brokertwin.gateway.engine.engine import Body
from brokertwin.protocol.bodies import render
from brokertwin.protocol.errors import Error
from brokertwin.protocol.frames import (
    MINIMAL_HEADER,
    MINIMAL_HEADER_BYTES,
    RequestFrame,
    UnsupportedError,
    decode_request,
    encode_response,
)
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
from brokertwin.state.apis.api_versions import EXPECTATIONS_SINCE, expectation_error, respond
from brokertwin.state.apis.registry import BUILT
from brokertwin.state.core.api import Api
from brokertwin.state.core.events import RequestHeader
from brokertwin.state.core.settings import KAFKA_4_4, BrokerSettings

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
_SETTINGS = BrokerSettings()

SERVED_VERSIONS = frozenset(
    (key, version)
    for key, api in SERVED.items()
    for version in range(api.versions[0], api.versions[1] + 1)
)
"""API keys and versions that ApiVersions lists without a release."""

PROBE = RequestHeader(API_VERSIONS.key, 0, client_id="probe")
"""The header of a request that has an immediate response from every broker."""


def response_frame(
    frame: bytes, features: Features | None = None, broker: int = 1
) -> tuple[bytearray, int]:
    """Return a broker's response frame to an ApiVersions frame, and its error code.

    `features` provides the finalized levels, and the release whose APIs are listed.

    Raises:
        MalformedError: the frame is no ApiVersions request.
    """
    release = features.release if features is not None else None
    try:
        request = request_of(frame, release)
    except UnsupportedError as unsupported:
        body = response_body(UNKNOWN_VERSION, ApiVersionsRequest(), release)
        return encode_response(API_VERSIONS.key, 0, unsupported.correlation_id, body), body[
            "errorCode"
        ]
    version = request.version
    api_versions = msgspec.convert(request.body, ApiVersionsRequest)
    body = response_body(version, api_versions, release)
    if features is not None and body["errorCode"] == Error.NONE:
        if "finalizedFeaturesEpoch" in body:
            body["finalizedFeaturesEpoch"] = features.epoch()
        _put_features(body, features)
        if version >= EXPECTATIONS_SINCE:
            refused = expectation_error(api_versions, features.cluster_id, broker)
            body = render(refused, version) if refused is not None else body
    encoded = encode_response(API_VERSIONS.key, version, request.header["correlationId"], body)
    return encoded, body["errorCode"]


def request_of(frame: bytes, release: Release | None) -> RequestFrame:
    """Decode an ApiVersions request.

    Raises:
        UnsupportedError: a version that is not offered; its body is not read.
        MalformedError: the bytes are no request.
    """
    if len(frame) >= MINIMAL_HEADER_BYTES:
        api_key, version, correlation_id = MINIMAL_HEADER.unpack_from(frame)
        if not is_served(api_key, version, release):
            raise UnsupportedError(api_key, version, correlation_id)
    return decode_request(frame)


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
        if name in body:
            body[name] = _offered(body[name], release)


def _put_features(body: Body, features: Features) -> None:
    if features.finalized is not None and "finalizedFeatures" in body:
        found = [each for each in features.finalized if _is_built(each["name"])]
        body["finalizedFeatures"] = _offered(found, features.release)


def _offered(features: list[Body], release: Release | None) -> list[Body]:
    """The features that a release offers, too."""
    if release is None or release.features is None:
        return features
    return [each for each in features if each["name"] in release.features]


def is_served(api_key: int, version: int, release: Release | None) -> bool:
    if release is None:
        return (api_key, version) in SERVED_VERSIONS
    row = KAFKA_APIS[api_key]
    is_built = api_key in SERVED and row.first <= version <= row.last_in(release.is_4_4)
    return is_built and release.offers(api_key, version)


def response_body(version: int, request: ApiVersionsRequest, release: Release | None) -> Body:
    """Return the body of an ApiVersions response of a new cluster.

    An unknown version gets `35 UNSUPPORTED_VERSION`.
    """
    is_4_4 = release is not None and release.is_4_4
    settings = BrokerSettings(brokertwin_kafka_version=KAFKA_4_4) if is_4_4 else _SETTINGS
    response = respond(version, request, settings)
    is_known = response.error_code != Error.UNSUPPORTED_VERSION
    body = render(response, version if is_known else 0)
    if body["errorCode"] == Error.NONE:
        keys = SERVED.keys() | ITS_OWN
        body["apiKeys"] = [each for each in body["apiKeys"] if each["apiKey"] in keys]
        for name in ("supportedFeatures", "finalizedFeatures"):
            if name in body:
                body[name] = [each for each in body[name] if _is_built(each["name"])]
    if release is not None:
        _restrict(body, release)
    return body


def _is_built(feature: str) -> bool:
    return feature not in FEATURES or FEATURES[feature] in SERVED
