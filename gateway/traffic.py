"""What a gateway has answered: by API and error, and how long it took.

The event loop counts; another thread may look at it (`dict(...)` of a dict is one step).
"""

from bisect import bisect_left
from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec

from brokertwin.gateway.protocol.schema import API_NAMES, MESSAGES, Field
from brokertwin.state.core.errors import error_name
from brokertwin.state.core.kafka_apis import KAFKA_APIS
from brokertwin.state.core.schema import RenderedPart

BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper bounds of the classes of answer times; a last class has no bound."""

ERROR_FIELDS = ("errorCode", "partitionErrorCode")
"""Fields of responses that Kafka counts (`errorCounts` of its responses)."""

Path = tuple[str, ...]


class Times(msgspec.Struct):
    """How long the answers of an API took: how many in each class of `BOUNDS_S`, their sum in s."""

    classes: list[int]
    sum_s: float = 0.0


class Traffic:
    """What was answered since the gateway's start.

    Attributes:
        answers: by API key; a Produce with acks 0 counts, though nobody is told.
        errors: by API key and error code; each code in an answer counts, but 0 (NONE).
        times: by API key, from the whole request to its answer; a long poll's too.
        failed_authentications: connections that did not get past SASL.
    """

    def __init__(self) -> None:
        self.answers: dict[int, int] = {}
        self.errors: dict[tuple[int, int], int] = {}
        self.times: dict[int, Times] = {}
        self.failed_authentications = 0

    def answered(self, api_key: int, body: dict[str, Any] | None, seconds: float) -> list[int]:
        """Count an answer and give back its errors; no body where the client is told nothing."""
        self.answers[api_key] = self.answers.get(api_key, 0) + 1
        times = self.times.get(api_key)
        if times is None:
            times = self.times[api_key] = Times([0] * (len(BOUNDS_S) + 1))
        times.classes[bisect_left(BOUNDS_S, seconds)] += 1
        times.sum_s += seconds
        found: list[int] = []
        if body is not None:
            for path in error_paths(api_key):
                found += _codes(body, path)
        for code in found:
            key = (api_key, code)
            self.errors[key] = self.errors.get(key, 0) + 1
        return found

    @property
    def answers_by_name(self) -> dict[str, int]:
        """`answers`, by the API's name in the request log."""
        return {KAFKA_APIS[key].name: number for key, number in sorted(dict(self.answers).items())}

    @property
    def errors_by_name(self) -> dict[str, dict[str, int]]:
        """`errors`, by the API's name and the error's."""
        found: dict[str, dict[str, int]] = {}
        for (key, code), number in sorted(dict(self.errors).items()):
            found.setdefault(KAFKA_APIS[key].name, {})[error_name(code)] = number
        return found

    @property
    def times_by_name(self) -> dict[str, Times]:
        """`times`, by the API's name."""
        return {KAFKA_APIS[key].name: times for key, times in sorted(dict(self.times).items())}


@cache
def error_paths(api_key: int) -> tuple[Path, ...]:
    """Where error codes stand in an API's response: names of fields, through structs and arrays."""
    return tuple(_paths(MESSAGES[f"{API_NAMES[api_key]}Response"].fields))


def _paths(fields: tuple[Field, ...]) -> Iterator[Path]:
    for field in fields:
        if field.name in ERROR_FIELDS:
            yield (field.name,)
        yield from ((field.name, *below) for below in _paths(field.fields))


def _codes(body: dict[str, Any], path: Path) -> list[int]:
    """The errors at a path: numbers other than 0 (NONE); what is absent or null has none."""
    first = body.get(path[0])
    if isinstance(first, list) and first and isinstance(first[0], RenderedPart):
        return [code for part in first for code in _codes_once(part, path[1:])]
    found: list[Any] = [body]
    for name in path:
        held, found = found, []
        for each in held:
            value = each.get(name)
            if isinstance(value, list):
                found += value
            elif value:
                found.append(value)
    return found


def _codes_once(part: dict[str, Any], path: Path) -> list[int]:
    """The same; of a part that many responses share it is looked for once."""
    if not isinstance(part, RenderedPart):
        return _codes(part, path)
    found: list[int] | None = part.kept.get(path)
    if found is None:
        found = part.kept[path] = _codes(part, path)
    return found
