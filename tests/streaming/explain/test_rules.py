"""What errors mean: each that a recorded broker gave, or a machine of ours may give, has a rule."""

import re
from pathlib import Path

import pytest

from brokerstream.state.core.errors import Error, error_name
from brokerstream.streaming.explain.bodies import errors
from brokerstream.streaming.explain.rules import RULES
from brokerstream.streaming.explain.story import Refused
from brokerstream.streaming.replay.recording import read
from tests.support.sources import ROOT, name_of, python_files

CAPTURES = sorted((ROOT / "tests" / "captures").glob("*.jsonl.gz"))


def test_every_error_of_the_captures_is_explained() -> None:
    given = {code for exchange in read(CAPTURES).exchanges for code in errors(exchange.response)}
    without = {error_name(code) for code in given if Refused(code).rule is None}
    assert without == set()
    assert len(given) > 10


@pytest.mark.parametrize("error", RULES, ids=lambda error: error.name)
def test_a_rule_says_why_where_from_and_what_to_do(error: Error) -> None:
    rule = RULES[error]
    assert all(part.strip() for part in rule[:4])
    assert rule.who.endswith(".")
    assert rule.why.endswith(".")
    assert rule.do.endswith(".")


GIVEN = re.compile(r"\bError\.([A-Z][A-Z_]+)\b")


def given_in(file: Path) -> set[str]:
    """The errors that a file names."""
    return set(GIVEN.findall(file.read_text(encoding="utf-8"))) & set(Error.__members__)


def test_every_error_that_is_given_here_has_a_rule() -> None:
    files = [file for file in python_files("state", "gateway") if file.name != "errors.py"]
    named = {name: file for file in files for name in given_in(file)}
    named.pop(Error.NONE.name)
    assert len(named) > 80
    missing = {name: name_of(file) for name, file in named.items() if Error[name] not in RULES}
    assert missing == {}, "write it into streaming/explain/rules, then make error-pages"


def test_the_file_of_a_rule_gives_the_error() -> None:
    files = {error_name(error): ROOT / rule.file for error, rule in RULES.items() if rule.file}
    assert {name: file for name, file in files.items() if name not in given_in(file)} == {}
