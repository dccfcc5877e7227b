"""The table of broken rules fits the code; one of them is broken to see that this works."""

import ast
from pathlib import Path

import pytest

from tests.mutants.__main__ import ROOT, files_with, outcome
from tests.mutants.table import MUTANTS, Mutant

NAMES = [mutant.rule for mutant in MUTANTS]


@pytest.mark.parametrize("mutant", MUTANTS, ids=NAMES)
def test_the_text_of_a_rule_stands_once_in_the_code(mutant: Mutant) -> None:
    assert len(files_with(mutant.old)) == 1
    assert mutant.new != mutant.old


@pytest.mark.parametrize("mutant", MUTANTS, ids=NAMES)
def test_the_test_that_notices_is_there(mutant: Mutant) -> None:
    file, _, name = mutant.caught_by.partition("::")
    tree = ast.parse((ROOT / "tests" / "state" / file).read_text(encoding="utf-8"))
    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_rule_has_a_name_of_its_own() -> None:
    assert len(set(NAMES)) == len(NAMES)


def test_a_rule_that_is_broken_is_noticed_and_one_that_is_kept_is_not(tmp_path: Path) -> None:
    mutant = next(each for each in MUTANTS if each.rule == "a heartbeat is not throttled")
    (tmp_path / "broken").mkdir()
    assert outcome(mutant, tmp_path / "broken") == 1
    (tmp_path / "kept").mkdir()
    kept = mutant._replace(new=mutant.old)
    assert outcome(kept, tmp_path / "kept") == 0
