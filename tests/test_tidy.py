"""Functions are short as a rule, every module has a docstring, no work is left for later."""

import ast
import re
import statistics
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.sources import PACKAGES, ROOT, name_of, nodes_of, python_files, tree_of

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
    if file.name == "__init__.py" and file.parent.name not in ("state", "apis", "generated")
]
KAFKAS_WORDS = {
    "LSO": "state/logs/log.py",
    "HW": "state/logs/log.py",
    "LEO": "state/logs/log.py",
    "ISR": "state/cluster/image.py",
    "purgatory": "state/core/pending.py",
}
"""Kafka's abbreviations, and the module that defines their subject."""


def functions(tree: ast.AST) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    return [node for node in nodes_of(tree) if isinstance(node, kinds)]


def length(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (function.end_lineno or function.lineno) - function.lineno + 1


def untidy(file: Path) -> Iterator[str]:
    """Yield descriptions of a file's problems."""
    text = file.read_text(encoding="utf-8")
    lines = text.splitlines()
    if not ast.get_docstring(tree_of(file)):
        yield "no docstring at its beginning"
    yield from (f"line {n} is too long" for n, line in enumerate(lines, 1) if len(line) > COLUMNS)
    if LATER.search(text):
        yield from (f"left for later: {line}" for line in lines if LATER.search(line))


def test_files_are_tidy() -> None:
    assert [f"{name_of(file)}: {what}" for file in FILES for what in untidy(file)] == []


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("x = 1\n", "no docstring at its beginning"),
        (f'"""Wide."""\nx = "{"w" * COLUMNS}"\n', "line 2 is too long"),
        ('"""Later."""\n# TO' + "DO: more\n", "left for later: # TO" + "DO: more"),
    ],
)
def test_untidy_files_are_found(tmp_path: Path, text: str, what: str) -> None:
    file = tmp_path / "module.py"
    file.write_text(text, encoding="utf-8")
    assert list(untidy(file)) == [what]


@pytest.mark.parametrize("room", ROOMS, ids=name_of)
def test_a_room_describes_its_contents(room: Path) -> None:
    message = set(re.findall(r"\w+", ast.get_docstring(tree_of(room / "__init__.py")) or ""))
    lives = {file.stem for file in room.glob("*.py")} - {"__init__", "check"}
    assert lives - message == set(), "each module has its place in the lines of __init__.py"


@pytest.mark.parametrize(("word", "file"), KAFKAS_WORDS.items())
def test_kafka_terms_are_in_module_docstrings_and_the_architecture(word: str, file: str) -> None:
    assert re.search(rf"\b{word}\b", ast.get_docstring(tree_of(ROOT / file)) or "")
    assert f"`{file}`" in (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def test_messages_name_no_page_of_the_repository() -> None:
    """A wheel has no pages; a message names a command or an option instead."""
    found = []
    for file in python_files(*PACKAGES):
        nodes = list(nodes_of(tree_of(file)))
        texts = {id(each.value) for each in nodes if isinstance(each, ast.Expr)}
        found += [
            f"{name_of(file)}:{each.lineno}"
            for each in nodes
            if isinstance(each, ast.Constant) and id(each) not in texts
            if isinstance(each.value, str) and "docs/" in each.value
        ]
    assert found == []


def test_functions_are_short_as_a_rule() -> None:
    files = python_files(*PACKAGES)
    lengths = [length(function) for file in files for function in functions(tree_of(file))]
    assert statistics.median(lengths) <= MEDIAN_FUNCTION_LINES


def test_each_entry_of_everyday_names_a_test() -> None:
    text = (ROOT / "tests" / "conftest.py").read_text(encoding="utf-8")
    (entries,) = re.findall(r"^EVERYDAY = (\(.*?^\))", text, re.M | re.S)
    for entry in ast.literal_eval(entries):
        file, _, test = entry.partition("::")
        assert f"def {test}" in (ROOT / file).read_text(encoding="utf-8"), entry
