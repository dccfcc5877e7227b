"""Rules broken on purpose: their texts fit the code, and the simulator finds them."""

import importlib.util
import sys
from pathlib import Path

import pytest

from tests.planted.__main__ import found_after
from tests.planted.planting import NotPlantedError, Planted, broken, plant
from tests.planted.table import PLANTED

BY_NAME = {each.name: each for each in PLANTED}


def text_of(planted: Planted) -> str:
    spec = importlib.util.find_spec(planted.module)
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).read_text(encoding="utf-8")


@pytest.mark.parametrize("planted", PLANTED, ids=lambda each: each.name)
def test_the_text_of_a_rule_stands_once_in_its_module(planted: Planted) -> None:
    compile(broken(planted, text_of(planted)), planted.module, "exec")


def test_rule_names_are_unique() -> None:
    assert len(BY_NAME) == len(PLANTED)


def test_a_rule_whose_text_is_not_there_is_not_broken() -> None:
    planted = Planted("none", "a rule", "brokertwin.state.core.errors", "no such text", "")
    with pytest.raises(NotPlantedError, match="its text is 0 times"):
        broken(planted, text_of(planted))


def test_a_module_that_is_loaded_is_not_broken() -> None:
    planted = PLANTED[0]
    assert planted.module in sys.modules
    with pytest.raises(NotPlantedError, match="is loaded already"):
        plant(planted)


@pytest.mark.processes
@pytest.mark.parametrize("name", ["stable-offset", "joiner-caught-up", "order-of-commits"])
def test_a_broken_rule_is_found(name: str) -> None:
    count, violation = found_after(BY_NAME[name], range(200))
    assert violation, f"not found in {count} seeds"
