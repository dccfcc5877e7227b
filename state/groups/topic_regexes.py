r"""Regular expressions of names: which are valid, and which topics or transactional ids they match.

Source: `TopicRegexResolver`, `Utils.throwIfRegularExpressionIsInvalid` in Kafka, which take
Google's RE2/J; KIP-848. Here it is Google's RE2 itself, loaded with the first expression: the same
syntax and the same matches. The words for what is wrong are RE2/J's. It refuses two things that
RE2 takes, `\C` and two groups of one name, and so does `invalid`.

Where the two still differ: of two faults each may name the other one; RE2 takes `{*` and `{?`,
where RE2/J sees a repetition of nothing.
"""

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

COMPILED_MAX = 256
MEMORY_MAX = 64 << 20
"""Bytes that a compiled expression may take; RE2/J has no bound."""

_WORDS = {
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
"""What RE2 says to what RE2/J says; the rest they say in the same words."""

_PARTS = re.compile(
    r"\\Q.*?(?:\\E|\Z)|\\(?P<escaped>.)"
    r"|\[\^?\]?(?:\\.|\[:\w+:\]|[^\]\\])*\]|\(\?P?<(?P<name>[^>]*)>",
    re.DOTALL,
)
"""Quoted text, an escape, a class, or the name of a group."""


def invalid(regex: str) -> str | None:
    """What is wrong with an expression, in RE2/J's words; None where it is valid."""
    found = _compiled(regex)
    return found if isinstance(found, str) else None


def matching(regexes: Iterable[str], names: Iterable[str]) -> dict[str, list[str]]:
    """For each expression the names that it matches as a whole, in the order of `names`."""
    matched: dict[str, list[str]] = {}
    candidates = list(names)
    for regex in regexes:
        found = _compiled(regex)
        matched[regex] = [] if isinstance(found, str) else [n for n in candidates if found(n)]
    return matched


@lru_cache(maxsize=COMPILED_MAX)
def _compiled(regex: str) -> Callable[[str], Any] | str:
    """What matches a whole name; or what is wrong."""
    # not before a group needs it
    import re2  # type: ignore[import-untyped]

    options = re2.Options()
    options.log_errors = False
    options.max_mem = MEMORY_MAX
    try:
        pattern = re2.compile(regex, options)
    except re2.error as error:
        said = error.args[0]
        words = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
        what = words.split(": ")[0]
        return _WORDS.get(what, what)
    matches: Callable[[str], Any] = pattern.fullmatch
    return _refused_by_re2j(regex) or matches


def _refused_by_re2j(regex: str) -> str | None:
    """What RE2/J finds wrong with an expression that RE2 takes."""
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
