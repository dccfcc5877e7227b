"""The table of instructions that `make compare` holds counts against."""

from importlib import import_module
from types import ModuleType

import pytest

from tests.support.sources import ROOT


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    return import_module("instructions")


def test_every_kind_of_event_has_a_count(bench: ModuleType) -> None:
    versions, counts, floors = bench.stored()
    assert versions.startswith("Python 3.")
    assert counts.keys() == bench.KINDS.keys()
    assert floors.keys() == counts.keys()
    assert all(10_000 < floors[kind] < counts[kind] for kind in counts)


def test_only_a_change_of_more_than_five_percent_needs_a_reason(bench: ModuleType) -> None:
    known = {"produce": 100_000, "fetch": 400_000, "commit": 100_000}
    found = {"produce": 104_900, "fetch": 379_000, "commit": 105_100}
    assert bench.unexplained(known, found) == ["fetch", "commit"]
