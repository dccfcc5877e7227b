"""Rules broken on purpose: their texts fit the code, and the simulator finds them."""

import importlib.util
import sys
from functools import partial
from pathlib import Path

import pytest

from brokertwin.simulation import run
from brokertwin.simulation.campaign import outcome_of
from brokertwin.simulation.plan import draw
from tests.planted import breaks
from tests.planted.__main__ import found_after
from tests.planted.breaks import BREAKS, SEEDS, Break
from tests.planted.planting import PLANTED, NotPlantedError, Planted, begin, broken, plant

BY_NAME = {each.name: each for each in PLANTED}


def text_of(planted: Planted) -> str:
    spec = importlib.util.find_spec(planted.module)
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).read_text(encoding="utf-8")


@pytest.mark.parametrize("planted", PLANTED, ids=lambda each: each.name)
def test_the_text_of_a_rule_stands_once_in_its_module(planted: Planted) -> None:
    compile(broken(planted, text_of(planted)), planted.module, "exec")


def test_rule_names_are_unique() -> None:
    assert len({*BY_NAME, *breaks.BY_NAME}) == len(PLANTED) + len(BREAKS)


def test_a_rule_whose_text_is_not_there_is_not_broken() -> None:
    planted = Planted("none", "a rule", "brokertwin.protocol.errors", "no such text", "")
    with pytest.raises(NotPlantedError, match="its text is 0 times"):
        broken(planted, text_of(planted))


def test_a_module_that_is_loaded_is_not_broken() -> None:
    planted = PLANTED[0]
    assert planted.module in sys.modules
    with pytest.raises(NotPlantedError, match="is loaded already"):
        plant(planted)


NOTICED = [each for each in BREAKS if each.seed is not None]


@pytest.fixture
def soon_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a cluster that does not come to rest end early."""
    monkeypatch.setattr(run, "SETTLE_MS", 15_000)


@pytest.mark.usefixtures("soon_over")
def test_without_a_break_nothing_is_noticed() -> None:
    assert outcome_of(draw(0)).violations == []


@pytest.mark.long
@pytest.mark.usefixtures("soon_over")
@pytest.mark.parametrize("broken_rule", NOTICED, ids=lambda each: each.name)
def test_a_seed_notices_a_break(broken_rule: Break, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broken_rule.owner, broken_rule.attribute, broken_rule.other)
    assert broken_rule.seed < SEEDS
    assert outcome_of(draw(broken_rule.seed)).violations


@pytest.mark.processes
def test_a_rule_broken_in_its_text_is_found() -> None:
    count, violation = found_after(partial(begin, BY_NAME["joiner-caught-up"]), range(200))
    assert violation, f"not found in {count} seeds"
