"""Counts responses with masked fields or taken ids."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from brokertwin.recordings.replay.choices import choices_of
from brokertwin.recordings.replay.masking import MASKED
from brokertwin.recordings.replay.recording import Exchange

CHOSEN = {
    "session_id": "session ids",
    "producer_id": "producer ids",
    "member_id": "member ids",
    "client_instance_id": "ids of client instances",
    "cluster_id": "cluster ids",
    "topic_ids": "topic ids",
}
"""Report names of choices."""


def masked_responses(exchanges: Iterable[Exchange]) -> Counter[str]:
    counts = Counter(dict.fromkeys(MASKED, 0))
    for exchange in exchanges:
        counts.update(set(_masked_fields(exchange.response)))
    return counts


def responses_with_choices(exchanges: Sequence[Exchange]) -> Counter[str]:
    """Count recorded responses by kind of taken id."""
    counts = Counter(dict.fromkeys(CHOSEN.values(), 0))
    for choices in choices_of(exchanges):
        for field, title in CHOSEN.items():
            value = getattr(choices, field, None)
            counts[title] += value is not None and value != {}
    return counts


def _masked_fields(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for part in value:
            yield from _masked_fields(part)
    elif isinstance(value, dict):
        yield from (name for name in value if name in MASKED)
        for name, part in value.items():
            if name not in MASKED:
                yield from _masked_fields(part)
