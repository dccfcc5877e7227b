"""Response fields that are not compared, as listed in docs/comparison.md.

Generated ids are not masked but taken over (`choices.py`), so a wrongly accepted request still
shows.
"""

from typing import Any

MASKED: dict[str, str] = {
    "host": "where a broker listens",
    "port": "where a broker listens",
    "clientHost": "where a client connects from: a capture has the recorder's clients",
    "documentation": "the model has no descriptions of settings",
    "finalizedFeaturesEpoch": "the end of the metadata log, which grows with the broker's clock",
}
"""Field names and the reason; they apply anywhere in a response."""


def masked(value: Any) -> Any:
    """Return a copy without the masked fields."""
    if isinstance(value, dict):
        return {
            name: masked(part) if isinstance(part, dict | list) else part
            for name, part in value.items()
            if name not in MASKED
        }
    if isinstance(value, list):
        return [masked(part) if isinstance(part, dict | list) else part for part in value]
    return value
