"""What of an answer is not compared: a closed list, the same as in docs/comparison.md.

Ids that a broker picks are not masked: they are taken over as choices (`choices.py`), so a
request that should have been refused and was not still shows.
"""

from typing import Any

MASKED: dict[str, str] = {
    "host": "where a broker listens",
    "port": "where a broker listens",
    "clientHost": "where a client connects from: a capture has the recorder's clients",
    "documentation": "the model has no descriptions of settings",
    "finalizedFeaturesEpoch": "the end of the metadata log, which grows with the broker's clock",
}
"""Field name to why it is not compared; it counts wherever the field stands in an answer."""


def masked(value: Any) -> Any:
    """A copy of an answer, or of a part of it, without the masked fields."""
    if isinstance(value, dict):
        return {
            name: masked(part) if isinstance(part, dict | list) else part
            for name, part in value.items()
            if name not in MASKED
        }
    if isinstance(value, list):
        return [masked(part) if isinstance(part, dict | list) else part for part in value]
    return value
