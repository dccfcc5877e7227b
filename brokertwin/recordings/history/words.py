"""Phrases that findings, timelines and tables share."""

from collections.abc import Iterable
from datetime import UTC, datetime


def sentence(text: str) -> str:
    """Add a capital letter and a full stop."""
    return f"{text[0].upper()}{text[1:]}."


def moment(time: float) -> str:
    """Format ms since 1970 as a date and time in UTC, with milliseconds."""
    return datetime.fromtimestamp(time / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def clock(time: float) -> str:
    """Format ms since 1970 as a time of day in UTC, with milliseconds."""
    return moment(time).partition(" ")[2]


def names_of(names: Iterable[str]) -> str:
    """List clients: `client a`, `clients a and b`; each once, in the given order."""
    distinct = list(dict.fromkeys(names))
    *most, last = distinct or ["?"]
    return f"client{'s' if most else ''} " + (f"{', '.join(most)} and {last}" if most else last)


def listed(brokers: Iterable[int]) -> str:
    """List ids in order: `1, 2`, or `none`."""
    return ", ".join(map(str, sorted(brokers))) or "none"


def times(count: int) -> str:
    """Return `once`, `twice`, `7 times`."""
    return {1: "once", 2: "twice"}.get(count, f"{count} times")
