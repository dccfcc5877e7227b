"""ISO 8601 durations of days, hours, minutes and seconds, as Java parses them.

Source: `Duration.parse` in Java: every part may have a sign, and the whole, too.
"""

import re

_FORM = re.compile(
    r"([-+]?)P(?:([-+]?[0-9]+)D)?"
    r"(?:T(?=.)(?:([-+]?[0-9]+)H)?(?:([-+]?[0-9]+)M)?(?:([-+]?[0-9]+)(?:[.,]([0-9]{0,9}))?S)?)?",
    re.IGNORECASE,
)
_UNITS_S = (86_400, 3_600, 60, 1)
_LONG = range(-(2**63), 2**63)
NANOS_IN_S = 1_000_000_000
DIGITS = 9
"""Digits of a fraction of a second."""


def nanoseconds(text: str) -> int | None:
    """Nanoseconds of a text like `P1DT2H3M4.5S`; None if Java rejects it."""
    match = _FORM.fullmatch(text)
    if match is None:
        return None
    sign, *parts, fraction = match.groups()
    if not any(parts):
        return None
    counts = [int(part or 0) for part in parts]
    spans = [count * unit for count, unit in zip(counts, _UNITS_S, strict=True)]
    total = sum(spans)
    if any(each not in _LONG for each in (*counts, *spans, total)):
        return None
    nanos = int((fraction or "").ljust(DIGITS, "0"))
    whole = total * NANOS_IN_S + (-nanos if (parts[-1] or "").startswith("-") else nanos)
    return -whole if sign == "-" else whole
