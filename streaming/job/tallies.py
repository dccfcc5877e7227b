"""What a micro-batch's rows say, counted: answers by API, errors by API, dead letters by reason.

The rows are counted as they leave, from their bytes: an answer is not decoded for it. In compact
JSON a key stands as `"errorCode":`; in a text its quotes would be escaped, so what is found is a
key. An answer with errors for three partitions has three, as in Kafka's `ErrorsPerSec`
(`RequestMetrics`); 0 (NONE) is none. Answers that say nothing of an API (a broker has stopped) and
those of refused documents count as no answer: their dead letters are counted.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from brokertwin.state.core import outputs
from brokertwin.state.core.errors import error_name
from brokertwin.state.core.kafka_apis import KAFKA_APIS
from brokertwin.state.core.outputs import Output

Counts = dict[str, int]

SEPARATOR = ":"
"""In the names of these counts and in no other's."""

ANSWERS, ERRORS, REASONS = "answers", "errors", "reasons"

_API = re.compile(rb'"requestApiKey":(\d{1,5})')
_ERROR = re.compile(rb'rrorCode":(?<!ConfigErrorCode":)(-1|[1-9]\d{0,4})')
"""`errorCode`, `partitionErrorCode`; Kafka does not count CreateTopics' `topicConfigErrorCode`."""

_REASON = re.compile(rb'"reason":"([^"\\]*)"')


class Tallies(NamedTuple):
    """What was counted since the job's start.

    Attributes:
        answers: by API.
        errors: by API and error, by their names.
        reasons: dead letters by the reason.
    """

    answers: dict[str, int]
    errors: dict[str, dict[str, int]]
    reasons: dict[str, int]


def count(output: Output, counts: Counts) -> None:
    """Count a row in `counts`, under names that have the separator."""
    value = output.value
    if value is None:
        return
    if output.topic == outputs.DEAD_LETTERS:
        reason = _REASON.search(value)
        if reason is not None:
            _add(counts, f"{REASONS}:{reason[1].decode()}")
    elif output.topic == outputs.RESPONSES:
        api = _API.search(value)
        if api is None or b'"response":' not in value:  # as of a dead letter
            return
        key = api[1].decode()
        _add(counts, f"{ANSWERS}:{key}")
        for code in _ERROR.findall(value):
            _add(counts, f"{ERRORS}:{key}:{code.decode()}")


def of(counts: Mapping[str, int]) -> Tallies:
    """The counts by name."""
    found = Tallies({}, {}, {})
    for name, number in sorted(counts.items()):
        kind, *rest = name.split(SEPARATOR)
        if kind == ANSWERS and rest:
            found.answers[api_name(int(rest[0]))] = number
        elif kind == ERRORS and rest:
            errors = found.errors.setdefault(api_name(int(rest[0])), {})
            errors[error_name(int(rest[1]))] = number
        elif kind == REASONS and rest:
            found.reasons[SEPARATOR.join(rest)] = number
    return found


def api_name(key: int) -> str:
    """An API's name in the request log; its key where Kafka has none."""
    return KAFKA_APIS[key].name if key in KAFKA_APIS else str(key)


def _add(counts: Counts, name: str) -> None:
    counts[name] = counts.get(name, 0) + 1
