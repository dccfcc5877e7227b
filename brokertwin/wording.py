"""Wording shared by messages."""

from collections.abc import Sequence


def counted(count: int, one: str, many: str = "") -> str:
    """Return a number with its noun: `1 batch`, `7,000 batches`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def with_full_stop(text: object) -> str:
    """Return a text with a full stop, unless it ends with one or with a question mark."""
    words = str(text)
    return words if words.endswith((".", "?")) else f"{words}."


def some(names: Sequence[str], most: int) -> str:
    """Return the first names of a list: `a, b, …`."""
    return ", ".join(names[:most]) + (", …" if names[most:] else "")
