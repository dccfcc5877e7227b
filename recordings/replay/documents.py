"""What a replay says to programs: JSON lines, one for each exchange, or one document for all."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from brokertwin.recordings.replay.comparison import FINE, Answer, Difference, Verdict
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
from brokertwin.recordings.replay.schedule import Schedule
from brokertwin.recordings.replay.touched import chosen_answers, masked_answers

ORDERED = ("moved", "held", "late", "lost", "queued", "unexplained")
"""What a schedule says of exchanges, by their ids."""


def json_lines(compared: Sequence[Compared]) -> Iterator[str]:
    """One line for each exchange: who asked what and when, verdict, our answer, differences."""
    return (as_line(verdict_document(one)) for one in compared)


def verdict_document(one: Compared) -> dict[str, Any]:
    """One exchange; `request` stands where the answers differ, `time` is in ms since 1970."""
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
        **answer_fields(one.answer),
        "differences": [difference_document(each) for each in one.outcome.differences],
    }


def difference_document(difference: Difference) -> dict[str, Any]:
    """Path and values; errors have their names beside their codes."""
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


def answer_documents(
    exchanges: Sequence[Exchange], answers: Mapping[str, Answer], apis: frozenset[str]
) -> list[dict[str, Any]]:
    """Each exchange of the APIs named: id, API and our answer."""
    return [
        {
            "id": exchange.id,
            "api": exchange.api,
            "version": exchange.version,
            **answer_fields(answers.get(exchange.id)),
        }
        for exchange in exchanges
        if not apis or exchange.api in apis
    ]


def answer_fields(answer: Answer | None) -> dict[str, Any]:
    """`response`, or `error` where the machine refused; nothing where it did not answer."""
    if answer is None:
        return {}
    return {"error": answer.error} if answer.error is not None else {"response": answer.response}


def comparison_document(
    recording: Recording,
    compared: Sequence[Compared],
    schedule: Schedule,
    earlier: Sequence[Earlier],
) -> dict[str, Any]:
    """All that a comparison says: counts, what does not agree, freedoms and the order taken."""
    verdicts = Counter(one.outcome.verdict for one in compared)
    exchanges = [one.exchange for one in compared]
    return {
        "agree": agreeing(compared),
        "of": len(compared),
        "verdicts": {verdict: verdicts[verdict] for verdict in Verdict},
        "apis": {
            api: {verdict: count for verdict, count in counts.items() if count}
            for api, counts in counts_by_api(compared).items()
        },
        "exchanges": [verdict_document(one) for one in compared if one.outcome.verdict not in FINE],
        "freedoms": counted(agreed_by(compared)),
        "notCompared": masked_answers(exchanges),
        "takenOver": chosen_answers(exchanges),
        "schedule": {
            **{name: sorted(getattr(schedule, name)) for name in ORDERED},
            "isExhausted": schedule.is_exhausted,
        },
        **reading_document(recording),
        "beforeTheRecording": [request.about for request in earlier],
    }


def reading_document(recording: Recording) -> dict[str, Any]:
    """What of the files is no exchange."""
    return {
        "broken": [{"place": one.place, "reason": one.reason} for one in recording.broken],
        "leftOut": dict(recording.left_out),
    }


def as_line(document: Any) -> str:
    """A document in one line, as it is written to files and printed."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))
