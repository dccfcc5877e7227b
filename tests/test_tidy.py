"""Files and functions stay small, every module says what it is, nothing is left for later."""

import ast
import re
import statistics
from pathlib import Path

import pytest

from tests.support.sources import PACKAGES, ROOT, name_of, python_files, tree_of

FILE_LINES = 600
FUNCTION_LINES = 70
MEDIAN_FUNCTION_LINES = 20
COLUMNS = 100
LATER = re.compile(
    r"\b(" + "|".join(["TO" + "DO", "FIX" + "ME", "XX" + "X", "NotImplemented" + "Error"]) + r")\b"
    r"|pytest\.(mark\.)?(skip|xfail|importorskip)"
)
FILES = python_files(*PACKAGES, "tests")
ROOMS = [
    file.parent
    for file in python_files("state")
    if file.name == "__init__.py" and file.parent.name not in ("state", "apis")
]
KAFKAS_WORDS = {
    "LSO": "state/logs/log.py",
    "HW": "state/logs/log.py",
    "LEO": "state/logs/log.py",
    "ISR": "state/cluster/image.py",
    "purgatory": "state/core/waiting.py",
}
"""Kafka's short names, and the module that defines what they stand for."""


def functions(tree: ast.AST) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    return [node for node in ast.walk(tree) if isinstance(node, kinds)]


def length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (function.end_lineno or function.lineno) - function.lineno + 1


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_a_file_is_small_and_says_what_it_is(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    lines = text.splitlines()
    tree = tree_of(file)
    assert len(lines) <= FILE_LINES
    assert [n for n, line in enumerate(lines, 1) if len(line) > COLUMNS] == []
    assert ast.get_docstring(tree), "a module begins with a docstring"
    assert {f.name: length(f) for f in functions(tree) if length(f) > FUNCTION_LINES} == {}


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_nothing_is_left_for_later(file: Path) -> None:
    lines = file.read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if LATER.search(line)] == []


@pytest.mark.parametrize("room", ROOMS, ids=name_of)
def test_a_room_says_what_lives_in_it(room: Path) -> None:
    says = set(re.findall(r"\w+", ast.get_docstring(tree_of(room / "__init__.py")) or ""))
    lives = {file.stem for file in room.glob("*.py")} - {"__init__", "check"}
    assert lives - says == set(), "each module has its place in the lines of __init__.py"


@pytest.mark.parametrize(("word", "file"), KAFKAS_WORDS.items())
def test_who_searches_for_a_word_of_kafka_finds_what_it_is_here(word: str, file: str) -> None:
    assert re.search(rf"\b{word}\b", ast.get_docstring(tree_of(ROOT / file)) or "")
    assert f"`{file}`" in (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")


def test_functions_are_short_as_a_rule() -> None:
    files = python_files(*PACKAGES)
    lengths = [length(function) for file in files for function in functions(tree_of(file))]
    assert statistics.median(lengths) <= MEDIAN_FUNCTION_LINES
