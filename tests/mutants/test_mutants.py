"""The table of broken rules fits the code; one of them is broken to see that this works."""

import ast
from functools import cache
from pathlib import Path

import pytest

from tests.mutants.__main__ import MUTANTS, ROOT, outcome
from tests.support.sources import python_files

NAMES = [mutant.rule for mutant in MUTANTS]


def test_the_text_of_a_rule_stands_once_in_the_code() -> None:
    code = {
        package: "".join(file.read_text(encoding="utf-8") for file in python_files(package))
        for package in {mutant.package for mutant in MUTANTS}
    }
    for mutant in MUTANTS:
        assert code[mutant.package].count(mutant.old) == 1, mutant.rule
        assert mutant.new != mutant.old, mutant.rule


def test_the_test_that_notices_is_there() -> None:
    for mutant in MUTANTS:
        file, _, name = mutant.caught_by.partition("::")
        assert name in functions_of(f"{mutant.package}/{file}"), mutant.rule


@cache
def functions_of(file: str) -> set[str]:
    tree = ast.parse((ROOT / "tests" / file).read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_rule_has_a_name_of_its_own() -> None:
    assert len(set(NAMES)) == len(NAMES)


@pytest.mark.processes
def test_a_rule_that_is_broken_is_noticed_and_one_that_is_kept_is_not(tmp_path: Path) -> None:
    mutant = next(each for each in MUTANTS if each.rule == "a heartbeat is not throttled")
    (tmp_path / "broken").mkdir()
    assert outcome(mutant, tmp_path / "broken") == 1
    (tmp_path / "kept").mkdir()
    kept = mutant._replace(new=mutant.old)
    assert outcome(kept, tmp_path / "kept") == 0
