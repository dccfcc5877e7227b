"""ApiVersions as the gateway answers it: what is built, and nothing else.

The state machine's own answer (`state/apis/api_versions.py`) names every API of Kafka 4.3.1, as a
broker does. A client believes it and would use what is missing here. Features whose APIs are not
built are left out, as by a broker of a release that does not have them: a consumer with
`group.protocol=consumer` then says that the cluster does not support it.
"""

from brokertwin.gateway.admin.features import Features
from brokertwin.gateway.engine.engine import Body
from brokertwin.gateway.protocol.frames import UnsupportedError, decode_request, encode_response
from brokertwin.state.apis.api_versions import API, ApiVersionsRequest
from brokertwin.state.apis.registry import BUILT
from brokertwin.state.core.api import Api
from brokertwin.state.core.decision import Request
from brokertwin.state.core.errors import Error
from brokertwin.state.core.events import Choices, RequestHeader
from brokertwin.state.core.kafka_apis import (
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
from brokertwin.state.core.schema import render

UNNAMED = frozenset({GET_TELEMETRY_SUBSCRIPTIONS.key, PUSH_TELEMETRY.key})
"""What a broker answers and does not name where no plugin takes metrics of clients."""

SERVED: dict[int, Api] = {
    key: api for key, api in BUILT.items() if KAFKA_APIS[key].is_listed or key in UNNAMED
}
"""The APIs that clients may use; those between brokers are not for them."""

FEATURES = {
    "group.version": CONSUMER_GROUP_HEARTBEAT.key,
    "share.version": SHARE_FETCH.key,
    "streams.version": STREAMS_GROUP_HEARTBEAT.key,
}
"""A feature and the API without which it is none: heartbeats of groups, fetches of share groups."""

SASL_APIS = frozenset({SASL_HANDSHAKE.key, SASL_AUTHENTICATE.key})
ITS_OWN = frozenset(key for key, api in KAFKA_APIS.items() if api.handler is Decider.EDGE)
"""What the gateway answers itself, in all of Kafka's versions."""

PROBE_HEADER: Body = {
    "requestApiKey": API_VERSIONS.key,
    "requestApiVersion": 0,
    "clientId": "probe",
}
"""The header of a request that every broker answers at once."""


def answer_to(frame: bytes, features: Features | None = None) -> tuple[bytearray, int]:
    """The frame of an answer to the frame of an ApiVersions request, and the error in it.

    `features` says what is known of their levels.

    Raises:
        MalformedError: the frame is no such request.
    """
    try:
        request = decode_request(frame)
    except UnsupportedError as unsupported:
        body = answer(-1, "", "")
        return encode_response(API_VERSIONS.key, 0, unsupported.correlation_id, body), body[
            "errorCode"
        ]
    names = ("clientSoftwareName", "clientSoftwareVersion")
    body = answer(request.version, *(request.body.get(name, "") for name in names))
    if features is not None and body["errorCode"] == Error.NONE:
        if "finalizedFeaturesEpoch" in body:
            body["finalizedFeaturesEpoch"] = features.epoch()
        _put_features(body, features)
    correlation_id = request.header["correlationId"]
    return encode_response(API_VERSIONS.key, request.version, correlation_id, body), body[
        "errorCode"
    ]


def _put_features(body: Body, features: Features) -> None:
    if features.finalized is not None and "finalizedFeatures" in body:
        body["finalizedFeatures"] = [e for e in features.finalized if _is_built(e["name"])]


def answer(version: int, software_name: str, software_version: str) -> Body:
    """The body of an ApiVersions answer; with error 35 for a version that Kafka has not."""
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
    """An entry with the versions that are built; Produce keeps the 0 that old librdkafka needs."""
    if listed["apiKey"] in ITS_OWN:
        return listed
    api = SERVED.get(listed["apiKey"])
    if api is None:
        return None
    first = min(api.versions[0], listed["minVersion"])
    last = min(api.versions[1], listed["maxVersion"])
    return {"apiKey": api.key, "minVersion": first, "maxVersion": last}
