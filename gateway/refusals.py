"""Error answers to requests that the state machine has made dead letters of.

Where the API's answer has an error code of its own, there; else one for each item of the request
(`AbstractRequest.getErrorResponse` in Kafka). Where neither is known, the connection is closed.
"""

from collections.abc import Iterable
from typing import Any

from brokertwin.gateway.engine.engine import NOT_KEPT, Body
from brokertwin.gateway.protocol.frames import Request
from brokertwin.gateway.protocol.schema import API_NAMES, MESSAGES
from brokertwin.state.core.errors import Error
from brokertwin.state.core.events import Reason
from brokertwin.state.core.kafka_apis import Trait, api_of_key
from brokertwin.state.core.repeated_lists import ITSELF, RepeatedList

NOT_HERE = frozenset({Reason.UNSUPPORTED_VERSION, Reason.NOT_BUILT, Reason.UNKNOWN_API})
"""Reasons that no retry will mend: UNSUPPORTED_VERSION."""

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
    """The error that a client is told of a dead letter.

    What could not be written down gets an error after which clients try again.
    """
    if refusal.get("reason") == NOT_KEPT:
        is_coordinated = api_of_key(api_key).is_coordinated
        return Error.NOT_COORDINATOR if is_coordinated else Error.KAFKA_STORAGE_ERROR
    return (
        Error.UNSUPPORTED_VERSION
        if refusal.get("reason") in NOT_HERE
        else Error.UNKNOWN_SERVER_ERROR
    )


def error_response(request: Request, error: int) -> Body | None:
    """The answer that tells an error, None where there is no such answer."""
    if has_own_code(request):
        return {**_EMPTY, "errorCode": int(error)}
    if Trait.EMPTY_IN_ERROR in api_of_key(request.api_key).traits:
        return {}
    repeated = repeated_list_of(request)
    if repeated is None:
        return None
    return items_in_error(asked_for(request.body, repeated) or (), repeated, error)


def has_own_code(request: Request) -> bool:
    """Whether the answer has an error code for the whole request."""
    message = MESSAGES[f"{API_NAMES[request.api_key]}Response"]
    return any(
        field.name == "errorCode" and request.version in field.versions for field in message.fields
    )


def repeated_list_of(request: Request) -> RepeatedList | None:
    """How the answer repeats what the request lists; None where it does not."""
    repeated = api_of_key(request.api_key).repeated
    return next((each for each in repeated if asked_for(request.body, each) is not None), None)


def asked_for(body: Body, repeated: RepeatedList) -> list[Any] | None:
    """What a request lists; None where it does not."""
    if not repeated.of_each:
        return body.get(repeated.asked)
    return [item for each in body[repeated.of_each] for item in each[repeated.asked]]


def items_in_error(items: Iterable[Any], repeated: RepeatedList, error: int) -> Body:
    """The part of an answer that tells an error of each item of a request."""
    return {repeated.answered: [_mirrored(item, repeated, error) for item in items]}


def _mirrored(item: Any, repeated: RepeatedList, error: int) -> Body:
    answer: Body = {}
    for answered, asked in repeated.names.items():
        if asked == ITSELF:
            answer[answered] = item
        elif asked in item:
            answer[answered] = item[asked]
    if repeated.inner is None:
        return {**answer, **_EMPTY, repeated.code: int(error)}
    inner = repeated.inner
    answer[inner.answered] = [_mirrored(part, inner, error) for part in item[inner.asked] or ()]
    return answer
