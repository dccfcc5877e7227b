"""Regular expressions of topics: RE2/J's error messages, and matches."""

from pathlib import Path
from random import Random

import pytest

from brokertwin.state.groups import topic_regexes
from tests.support.goldens import golden
from tests.support.java_responses import inputs, java_lines

DRIVER = Path(__file__).with_name("Regexes.java")

REFUSED = {
    "(": "missing closing )",
    "[a": "missing closing ]",
    "*": "missing argument to repetition operator",
    "a{2,1}": "invalid repeat count",
    "a{1001}": "invalid repeat count",
    "\\": "trailing backslash at end of expression",
    "(?P<n": "invalid named capture",
    "(?=a)": "invalid or unsupported Perl syntax",
    "a**": "invalid nested repetition operator",
    "\\1": "invalid escape sequence",
    "\\x{": "invalid escape sequence",
    "[z-a]": "invalid character class range",
    ")": "regexp/syntax: internal error",
    "\\C": "invalid escape sequence",
    "(?P<a>x)(?P<a>y)": "duplicate capture group name",
    "(?P<é>x)": "invalid named capture",
}


@pytest.mark.parametrize(("regex", "words"), REFUSED.items())
def test_errors_have_the_messages_of_re2j(regex: str, words: str) -> None:
    assert topic_regexes.invalid(regex) == words
    assert topic_regexes.matching([regex], ["a"]) == {regex: []}


@pytest.mark.parametrize("regex", [r"\QC\C\E", r"[(?P<a>]", r"(?P<a>x)(?P<b>\\C)", "a{,2}", ".*"])
def test_unusual_valid_expressions_are_accepted(regex: str) -> None:
    assert topic_regexes.invalid(regex) is None


def test_names_must_match_completely() -> None:
    names = ["foo", "foot", "a-foo", "FOO"]
    actual = topic_regexes.matching(["foo", "foo|foot", "(?i)foo", "^foo$", ".*oo"], names)
    assert actual == {
        "foo": ["foo"],
        "foo|foot": ["foo", "foot"],
        "(?i)foo": ["foo", "FOO"],
        "^foo$": ["foo"],
        ".*oo": ["foo", "a-foo"],
    }


PARTS = [
    *("a", "b", "foo", "bar", "-", ".", "\\.", "_", "[ab]", "[^a]", "[a-z]", "[[:alpha:]]"),
    *("\\d", "\\w", "\\pL", "\\p{Lu}", "\\Qfoo\\E", "(?:", "(", "(?P<n>", "(?<m>", ")", ")"),
    *("|", "*", "+", "?", "*?", "{2}", "{1,3}", "{3,1}", "{,2}", "^", "$", "\\b", "\\z", "\\A"),
    *("\\Z", "\\C", "(?i)", "(?i:", "(?s)", "(?U)", "(?=", "\\1", "\\x41", "[", "]", "\\"),
    *("[z-a]", "[[:foo:]]", "\\012"),
]
NAMES = ["a", "foo", "foo-bar", "bar", "A", "_", "1", "b.a", "FOO", "aab", "-", ".foo"]


@pytest.mark.compares
def test_expressions_are_valid_and_match_like_in_kafkas_library() -> None:
    """Random expressions, compared with RE2/J from the broker's jars."""
    random = Random(2)
    rows = [
        ("".join(random.choices(PARTS, k=random.randint(1, 5))), random.choice(NAMES))
        for _ in range(inputs(5_000))
    ]
    lines = [f"{regex}\t{name}" for regex, name in rows]

    def send() -> list[str]:
        return java_lines(DRIVER, lines)

    reported = golden("groups/topic_regexes", send, scenario=lines)
    differing = []
    for (regex, name), theirs in zip(rows, reported, strict=True):
        ours = topic_regexes.invalid(regex)
        if ours is None:
            ours = "+" if topic_regexes.matching([regex], [name])[regex] else "-"
        is_taken = ours in "+-"
        if is_taken != (theirs in "+-") or (is_taken and ours != theirs):
            differing.append((regex, name, ours, theirs))
    assert differing == []
    assert sum(each in "+-" for each in reported) > 500
