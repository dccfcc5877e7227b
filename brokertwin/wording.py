"""Wording shared by messages."""


def counted(count: int, one: str, many: str = "") -> str:
    """Return a number with its noun: `1 batch`, `7,000 batches`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"
