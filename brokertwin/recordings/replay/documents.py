"""The result of a replay as JSON lines or as one document."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from brokertwin.recordings.replay.comparison import (
    FINE,
    CompareVerdict,
    FieldDifference,
    ModelResponse,
)
from brokertwin.recordings.replay.earlier import Earlier
from brokertwin.recordings.replay.freedoms import counted
from brokertwin.recordings.replay.recording import Exchange, Recording
from brokertwin.recordings.replay.report import (
    Compared,
    agreed_by,
    agreeing,
    counts_by_api,
    error_name,
)
from brokertwin.recordings.replay.schedule import DeliverySchedule
from brokertwin.recordings.replay.touched import masked_responses, responses_with_choices

ORDERED = ("moved", "held", "late", "lost", "queued", "unexplained")
"""Attributes of a schedule with exchange ids."""


def json_lines(compared: Sequence[Compared]) -> Iterator[str]:
    """Yield a line for each exchange: request, verdict, response, differences."""
    return (as_line(verdict_document(one)) for one in compared)


def verdict_document(one: Compared) -> dict[str, Any]:
    """Describe an exchange; has `request` if it differs, `time` is in ms."""
    exchange = one.exchange
    is_fine = one.outcome.verdict in FINE
    return {
        "id": exchange.id,
        "api": exchange.api,
        "version": exchange.version,
        "time": exchange.time,
        "clientId": exchange.header.client_id,
        "connection": exchange.connection,
        "verdict": one.outcome.verdict,
        **({} if is_fine else {"request": msgspec.json.decode(exchange.request)}),
        **response_fields(one.response),
        "differences": [difference_document(each) for each in one.outcome.differences],
    }


def difference_document(difference: FieldDifference) -> dict[str, Any]:
    """Describe a difference; error codes get their names."""
    document = {
        "path": difference.path,
        "expected": difference.expected,
        "got": difference.got,
    }
    for side, value in (("expectedError", difference.expected), ("gotError", difference.got)):
        name = error_name(difference.path, value)
        if name is not None:
            document[side] = name
    return document


def response_documents(
    exchanges: Sequence[Exchange],
    responses: Mapping[str, ModelResponse],
    apis: frozenset[str],
) -> list[dict[str, Any]]:
    return [
        {
            "id": exchange.id,
            "api": exchange.api,
            "version": exchange.version,
            **response_fields(responses.get(exchange.id)),
        }
        for exchange in exchanges
        if not apis or exchange.api in apis
    ]


def response_fields(response: ModelResponse | None) -> dict[str, Any]:
    """Return `response` or `error`; nothing without a response."""
    if response is None:
        return {}
    return (
        {"error": response.error} if response.error is not None else {"response": response.response}
    )


def comparison_document(
    recording: Recording,
    compared: Sequence[Compared],
    schedule: DeliverySchedule,
    earlier: Sequence[Earlier],
) -> dict[str, Any]:
    """Describe a comparison: counts, differences, freedoms and order."""
    verdicts = Counter(one.outcome.verdict for one in compared)
    exchanges = [one.exchange for one in compared]
    return {
        "agree": agreeing(compared),
        "of": len(compared),
        "verdicts": {verdict: verdicts[verdict] for verdict in CompareVerdict},
        "apis": {
            api: {verdict: count for verdict, count in counts.items() if count}
            for api, counts in counts_by_api(compared).items()
        },
        "exchanges": [verdict_document(one) for one in compared if one.outcome.verdict not in FINE],
        "freedoms": counted(agreed_by(compared)),
        "notCompared": masked_responses(exchanges),
        "takenOver": responses_with_choices(exchanges),
        "schedule": {
            **{name: sorted(getattr(schedule, name)) for name in ORDERED},
            "isExhausted": schedule.is_exhausted,
        },
        **reading_document(recording),
        "beforeTheRecording": [request.about for request in earlier],
    }


def reading_document(recording: Recording) -> dict[str, Any]:
    """Describe lines that are no exchanges."""
    return {
        "broken": [{"place": one.place, "reason": one.reason} for one in recording.broken],
        "leftOut": dict(recording.left_out),
    }


def as_line(document: Any) -> str:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))
