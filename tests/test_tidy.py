"""Files and functions stay small, every module says what it is, nothing is left for later."""

import ast
import re
import statistics
from pathlib import Path

import pytest

from tests.support.sources import PACKAGES, name_of, python_files, tree_of

FILE_LINES = 600
FUNCTION_LINES = 70
MEDIAN_FUNCTION_LINES = 20
COLUMNS = 100
LATER = re.compile(
    r"\b(" + "|".join(["TO" + "DO", "FIX" + "ME", "XX" + "X", "NotImplemented" + "Error"]) + r")\b"
    r"|pytest\.(mark\.)?(skip|xfail|importorskip)"
)
FILES = python_files(*PACKAGES, "tests")


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


def test_functions_are_short_as_a_rule() -> None:
    files = python_files(*PACKAGES)
    lengths = [length(function) for file in files for function in functions(tree_of(file))]
    assert statistics.median(lengths) <= MEDIAN_FUNCTION_LINES
