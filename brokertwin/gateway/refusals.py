"""Error responses to requests that became dead letters.

The error code is in the response's own field, or else in each item of the request
(`AbstractRequest.getErrorResponse` in Kafka). If an API has neither, the connection is closed.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from brokertwin.gateway.engine.engine import NOT_KEPT, AnyBody, Body
from brokertwin.protocol.codec import response_type
from brokertwin.protocol.errors import Error
from brokertwin.protocol.frames import RequestFrame
from brokertwin.protocol.kafka_apis import Trait, api_of_key
from brokertwin.protocol.repeated_lists import ITSELF, RepeatedList
from brokertwin.protocol.schemas import API_NAMES, MESSAGES
from brokertwin.state.core.events import Reason

NOT_HERE = frozenset({Reason.UNSUPPORTED_VERSION, Reason.NOT_BUILT, Reason.UNKNOWN_API})
"""Permanent failures, refused with `35 UNSUPPORTED_VERSION`."""

_EMPTY: dict[str, object] = {
    "errorMessage": None,
    "baseOffset": -1,
    "committedOffset": -1,
    "highWatermark": -1,
    "lowWatermark": -1,
    "nodeId": -1,
    "port": -1,
}


def error_of(refusal: Body, api_key: int) -> Error:
    """Map a dead letter to an error code.

    An event that could not be stored gets a retriable error.
    """
    if refusal.get("reason") == NOT_KEPT:
        is_coordinated = api_of_key(api_key).is_coordinated
        return Error.NOT_COORDINATOR if is_coordinated else Error.KAFKA_STORAGE_ERROR
    return (
        Error.UNSUPPORTED_VERSION
        if refusal.get("reason") in NOT_HERE
        else Error.UNKNOWN_SERVER_ERROR
    )


def error_response(request: RequestFrame, error: int) -> Body | None:
    if has_own_code(request):
        return {**_EMPTY, "errorCode": int(error)}
    if Trait.EMPTY_IN_ERROR in api_of_key(request.api_key).traits:
        return {}
    repeated = repeated_list_of(request)
    if repeated is None:
        return None
    return items_in_error(listed_items(request.body, repeated) or (), repeated, error)


def to_struct(api_key: int, body: Body) -> AnyBody:
    """Return the struct of a response document, or itself if the model has none."""
    try:
        kind = response_type(api_key)
    except KeyError:
        return body
    result: AnyBody = msgspec.convert(body, kind)
    return result


def has_own_code(request: RequestFrame) -> bool:
    message = MESSAGES[f"{API_NAMES[request.api_key]}Response"]
    return any(
        field.name == "errorCode" and request.version in field.versions for field in message.fields
    )


def repeated_list_of(request: RequestFrame) -> RepeatedList | None:
    """Return how the response repeats a list of the request, or None."""
    repeated = api_of_key(request.api_key).repeated
    return next((each for each in repeated if listed_items(request.body, each) is not None), None)


def listed_items(body: Body, repeated: RepeatedList) -> list[Any] | None:
    """Return the items of a request's list, or None if it has none."""
    if not repeated.of_each:
        return body.get(repeated.request_list)
    return [item for each in body[repeated.of_each] for item in each[repeated.request_list]]


def items_in_error(items: Iterable[Any], repeated: RepeatedList, error: int) -> Body:
    return {repeated.response_list: [_mirrored(item, repeated, error) for item in items]}


def _mirrored(item: Any, repeated: RepeatedList, error: int) -> Body:
    response: Body = {}
    for response_list, request_list in repeated.names.items():
        if request_list == ITSELF:
            response[response_list] = item
        elif request_list in item:
            response[response_list] = item[request_list]
    if repeated.inner is None:
        return {**response, **_EMPTY, repeated.code: int(error)}
    inner = repeated.inner
    response[inner.response_list] = [
        _mirrored(part, inner, error) for part in item[inner.request_list] or ()
    ]
    return response
