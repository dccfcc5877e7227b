"""Counts responses and errors by API, and dead letters by reason.

The rows are counted from their bytes, without decoding. In compact JSON a key is `"errorCode":`;
quotes inside a text are escaped, so a match is always a key. A response with errors for three
partitions counts three errors, as in Kafka's `ErrorsPerSec` (`RequestMetrics`); 0 NONE is no error.
Responses without an API (a broker has stopped) and those of refused documents are not counted:
these have dead letters.
"""

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from brokertwin.protocol.errors import error_name
from brokertwin.protocol.kafka_apis import KAFKA_APIS
from brokertwin.state.core import outputs

Counts = dict[str, int]

SEPARATOR = ":"
"""Separator in the names of these counts only."""

TOPICS = (outputs.RESPONSES, outputs.DEAD_LETTERS)
"""The counted topics."""

RESPONSES, ERRORS, REASONS = "answers", "errors", "reasons"

_API = re.compile(rb'"requestApiKey":(\d{1,5})')
_ERROR = re.compile(rb'rrorCode":(?<!ConfigErrorCode":)(-1|[1-9]\d{0,4})')
"""Matches `errorCode`, `partitionErrorCode` and others.

Kafka does not count CreateTopics' `topicConfigErrorCode`.
"""

_REASON = re.compile(rb'"reason":"([^"\\]*)"')


class Tallies(NamedTuple):
    """Counts since the job's start.

    Attributes:
        answers: responses by API.
        errors: by API and error name.
        reasons: dead letters by reason.
    """

    answers: dict[str, int]
    errors: dict[str, dict[str, int]]
    reasons: dict[str, int]


def count(topic: str, values: Iterable[bytes | None], counts: Counts) -> None:
    names_of = _names_of_response if topic == outputs.RESPONSES else _names_of_dead_letter
    for value in values:
        for name in names_of(value) if value is not None else ():
            counts[name] = counts.get(name, 0) + 1


def of(counts: Mapping[str, int]) -> Tallies:
    tallies = Tallies({}, {}, {})
    for name, number in sorted(counts.items()):
        kind, *rest = name.split(SEPARATOR)
        if kind == RESPONSES and rest:
            tallies.answers[api_name(int(rest[0]))] = number
        elif kind == ERRORS and rest:
            errors = tallies.errors.setdefault(api_name(int(rest[0])), {})
            errors[error_name(int(rest[1]))] = number
        elif kind == REASONS and rest:
            tallies.reasons[SEPARATOR.join(rest)] = number
    return tallies


def api_name(key: int) -> str:
    """Return an API's name in the request log, or its unknown key."""
    return KAFKA_APIS[key].name if key in KAFKA_APIS else str(key)


def _names_of_dead_letter(value: bytes) -> list[str]:
    reason = _REASON.search(value)
    return [] if reason is None else [f"{REASONS}:{reason[1].decode()}"]


def _names_of_response(value: bytes) -> list[str]:
    api, begin = _API.search(value), value.find(b'"response":')
    if api is None or begin < 0:  # the response of a dead letter
        return []
    key = api[1].decode()
    errors = [f"{ERRORS}:{key}:{code.decode()}" for code in _ERROR.findall(value, begin)]
    return [f"{RESPONSES}:{key}", *errors]
