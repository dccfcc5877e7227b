"""Every served API has an error response that its clients can read."""

import pytest

from brokertwin.gateway.admin.api_versions import SERVED
from brokertwin.gateway.refusals import error_of, error_response, has_own_code
from brokertwin.protocol.errors import Error
from brokertwin.protocol.frames import RequestFrame, decode_response, encode_response
from brokertwin.protocol.kafka_apis import KAFKA_APIS, Trait
from brokertwin.protocol.schemas import API_NAMES
from brokertwin.state.core.events import Reason
from tests.support.bodies import full_body

VERSIONS = [
    (key, version)
    for key, api in SERVED.items()
    for version in range(api.versions[0], api.versions[1] + 1)
]


def codes_in(body: object) -> set[int]:
    if isinstance(body, list):
        return {code for each in body for code in codes_in(each)}
    if not isinstance(body, dict):
        return set()
    own = {body[name] for name in ("errorCode", "partitionErrorCode") if name in body}
    return own | {code for each in body.values() for code in codes_in(each)}


def test_every_request_has_an_error_response() -> None:
    for key, version in VERSIONS:
        check_refused(key, version)


def check_refused(key: int, version: int) -> None:
    body = full_body(f"{API_NAMES[key]}Request", version, is_null=False)
    request = RequestFrame({"requestApiKey": key, "requestApiVersion": version}, body)
    response = error_response(request, Error.UNKNOWN_SERVER_ERROR)
    assert response is not None, f"the connection would be closed: {key} {version}"
    written = encode_response(key, version, 5, response)
    correlation, found = decode_response(key, version, bytes(written))
    assert correlation == 5
    reports = Trait.EMPTY_IN_ERROR not in KAFKA_APIS[key].traits or has_own_code(request)
    assert codes_in(found) == ({int(Error.UNKNOWN_SERVER_ERROR)} if reports else set()), (
        key,
        version,
    )


@pytest.mark.parametrize(
    ("reason", "error"),
    [
        (Reason.NOT_BUILT, Error.UNSUPPORTED_VERSION),
        (Reason.UNSUPPORTED_VERSION, Error.UNSUPPORTED_VERSION),
        (Reason.FAULT, Error.UNKNOWN_SERVER_ERROR),
        (Reason.OUTPUT_TOO_LARGE, Error.UNKNOWN_SERVER_ERROR),
    ],
)
def test_permanent_failure_is_an_unsupported_version(reason: Reason, error: Error) -> None:
    assert error_of({"reason": str(reason), "detail": ""}, 0) is error
