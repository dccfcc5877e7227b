r"""Regular expressions for topic names and transactional ids.

Source: `TopicRegexResolver`, `Utils.throwIfRegularExpressionIsInvalid` in Kafka, which use Google's
RE2/J; KIP-848. Here it is Google's RE2, imported on first use: the same syntax and matches. Error
messages are those of RE2/J. RE2/J rejects two constructs that RE2 accepts, `\C` and duplicate group
names, and so does `invalid`.

Known differences: of two errors in an expression, each may report a different one. RE2 accepts `{*`
and `{?`, where RE2/J reports a missing argument.
"""

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

COMPILED_MAX = 256
MEMORY_MAX = 64 << 20
"""Memory limit of a compiled expression in bytes; RE2/J has none."""

_MESSAGES = {
    "bad repetition operator": "invalid nested repetition operator",
    "invalid UTF-8": "invalid escape sequence",
    "invalid named capture group": "invalid named capture",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid repetition size": "invalid repeat count",
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
    "trailing \\": "trailing backslash at end of expression",
    "unexpected )": "regexp/syntax: internal error",
}
"""RE2's error messages and those of RE2/J; other messages are equal."""

_PARTS = re.compile(
    r"\\Q.*?(?:\\E|\Z)|\\(?P<escaped>.)"
    r"|\[\^?\]?(?:\\.|\[:\w+:\]|[^\]\\])*\]|\(\?P?<(?P<name>[^>]*)>",
    re.DOTALL,
)
"""Quoted text, an escape, a character class, or a group name."""


def invalid(regex: str) -> str | None:
    """Return RE2/J's error message; None for a valid expression."""
    pattern = _compiled(regex)
    return pattern if isinstance(pattern, str) else None


def matching(regexes: Iterable[str], names: Iterable[str]) -> dict[str, list[str]]:
    matched: dict[str, list[str]] = {}
    candidates = list(names)
    for regex in regexes:
        pattern = _compiled(regex)
        matched[regex] = [] if isinstance(pattern, str) else [n for n in candidates if pattern(n)]
    return matched


@lru_cache(maxsize=COMPILED_MAX)
def _compiled(regex: str) -> Callable[[str], Any] | str:
    """Return a full-match function, or an error message."""
    # Imported on first use.
    import re2  # type: ignore[import-untyped]

    options = re2.Options()
    options.log_errors = False
    options.max_mem = MEMORY_MAX
    try:
        pattern = re2.compile(regex, options)
    except re2.error as error:
        error_message = error.args[0]
        message = (
            error_message.decode(errors="replace")
            if isinstance(error_message, bytes)
            else str(error_message)
        )
        reason = message.split(": ")[0]
        return _MESSAGES.get(reason, reason)
    matches: Callable[[str], Any] = pattern.fullmatch
    return _re2j_error(regex) or matches


def _re2j_error(regex: str) -> str | None:
    """Return RE2/J's error message for an expression that RE2 accepts."""
    names: set[str] = set()
    for part in _PARTS.finditer(regex):
        if part["escaped"] == "C":
            return "invalid escape sequence"
        name = part["name"]
        if name is None:
            continue
        if not name.isascii():
            return "invalid named capture"
        if name in names:
            return "duplicate capture group name"
        names.add(name)
    return None
