"""Text of others without control characters.

A client's name can contain escape sequences that change a terminal, or marks that reverse the
order of what follows.
"""

CONTROL = [
    *(code for code in range(0x20) if chr(code) not in "\n\t"),
    *range(0x7F, 0xA0),
    *range(0x200E, 0x2010),
    *range(0x2028, 0x202F),
    *range(0x2066, 0x206A),
]
"""C0 and C1 without newline and tab, line separators, and marks of direction."""

_SHOWN = {code: f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" for code in CONTROL}
_IN_JSON = {code: f"\\u{code:04x}" for code in CONTROL}


def visible(text: str) -> str:
    """Return the text with escapes in place of control characters."""
    return text if text.isascii() and text.isprintable() else text.translate(_SHOWN)


def visible_json(document: str) -> str:
    """Return the same JSON with escapes, which JSON needs for some of these characters only."""
    is_plain = document.isascii() and document.isprintable()
    return document if is_plain else document.translate(_IN_JSON)


def cell(value: object) -> object:
    """Return a value for a CSV file that no spreadsheet takes for a formula."""
    if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")):
        return f"'{value}"
    return value
