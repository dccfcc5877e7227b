"""A short round in real processes: Python workers are killed, and nonsense comes to the job."""

import pytest

from tests.faults.cases import CASES
from tests.faults.report import BEGIN, END, PAGE, table
from tests.faults.rounds import run

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

SHORT = ("workers", "poison")
"""What no other test tries, and what needs no second start of Spark."""


def test_a_short_round_loses_nothing_and_doubles_nothing() -> None:
    cases = [case for case in CASES if case.name in SHORT]
    found = list(run(cases, 1, lambda _: None))
    assert [(each.lost, each.twice, each.wrong) for each in found] == [(0, 0, "")] * len(SHORT)
    assert all(f"`{name}`" in table(found) for name in SHORT)


def test_the_page_has_a_place_for_the_runners_table() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert page.index(BEGIN) < page.index(END)
