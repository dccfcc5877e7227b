"""Counts of a gateway's responses by API and error, and response times.

The event loop counts; another thread may read (`dict(...)` of a dict is atomic).
"""

from bisect import bisect_left
from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec

from brokertwin.protocol.bodies import Body, CachedBody
from brokertwin.protocol.errors import error_name
from brokertwin.protocol.kafka_apis import KAFKA_APIS
from brokertwin.protocol.schemas import API_NAMES, MESSAGES, Field, snake

BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper bounds of the histogram's classes; a last class is unbounded."""

ERROR_FIELDS = ("errorCode", "partitionErrorCode")
"""Response fields that Kafka counts (`errorCounts` of its responses)."""

Path = tuple[str, ...]


class ResponseTimes(msgspec.Struct):
    """Histogram of response times: a count for each class of `BOUNDS_S`, and the sum in s."""

    classes: list[int]
    sum_s: float = 0.0


class Traffic:
    """Responses since the gateway's start.

    Attributes:
        responses: count by API key, including Produce with acks 0, which has no response.
        errors: count by API key and error code, except `0 NONE`; a response can have several.
        times: histogram by API key, from the complete request to its response, including long
            polls.
        failed_authentications: connections closed during SASL authentication.
    """

    def __init__(self) -> None:
        self.responses: dict[int, int] = {}
        self.errors: dict[tuple[int, int], int] = {}
        self.times: dict[int, ResponseTimes] = {}
        self.failed_authentications = 0

    def count(self, api_key: int, body: Body | dict[str, Any] | None, seconds: float) -> list[int]:
        """Count a response and return its errors; `body` is None if the client gets no response."""
        self.responses[api_key] = self.responses.get(api_key, 0) + 1
        times = self.times.get(api_key)
        if times is None:
            times = self.times[api_key] = ResponseTimes([0] * (len(BOUNDS_S) + 1))
        times.classes[bisect_left(BOUNDS_S, seconds)] += 1
        times.sum_s += seconds
        codes: list[int] = []
        if body is not None:
            for path in error_paths(api_key):
                codes += _codes(body, path)
        for code in codes:
            key = (api_key, code)
            self.errors[key] = self.errors.get(key, 0) + 1
        return codes

    @property
    def responses_by_name(self) -> dict[str, int]:
        """`responses`, by the API's name in the request log."""
        return {
            KAFKA_APIS[key].name: number for key, number in sorted(dict(self.responses).items())
        }

    @property
    def errors_by_name(self) -> dict[str, dict[str, int]]:
        counts: dict[str, dict[str, int]] = {}
        for (key, code), number in sorted(dict(self.errors).items()):
            counts.setdefault(KAFKA_APIS[key].name, {})[error_name(code)] = number
        return counts

    @property
    def times_by_name(self) -> dict[str, ResponseTimes]:
        """`times`, by the API's name in the request log."""
        return {KAFKA_APIS[key].name: times for key, times in sorted(dict(self.times).items())}


@cache
def error_paths(api_key: int) -> tuple[Path, ...]:
    """Return the paths of an API's error codes: field names, through structs and arrays."""
    return tuple(_paths(MESSAGES[f"{API_NAMES[api_key]}Response"].fields))


def _paths(fields: tuple[Field, ...]) -> Iterator[Path]:
    for field in fields:
        if field.name in ERROR_FIELDS:
            yield (field.name,)
        yield from ((field.name, *below) for below in _paths(field.fields))


def _codes(body: Any, path: Path) -> list[int]:
    """Return the error codes at a path, without `0 NONE`.

    Those of a part that many responses share are kept with it.
    """
    codes: list[int] = []
    value = body.get(path[0]) if isinstance(body, dict) else getattr(body, snake(path[0]), None)
    if not value:
        return codes
    if not isinstance(value, list):
        return [value] if len(path) == 1 else _codes(value, path[1:])
    if len(path) == 1:
        return [each for each in value if each]
    for each in value:
        if not isinstance(each, CachedBody):
            codes += _codes(each, path[1:])
        else:
            kept: dict[Any, Any] = vars(each)
            if path not in kept:
                kept[path] = _codes(each, path[1:])
            codes += kept[path]
    return codes
