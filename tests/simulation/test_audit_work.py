"""Audit of work: one owner of each task, and the effect of each input."""

from collections import Counter

import pytest

from brokertwin.clients.assignors.group import NO_GENERATION
from brokertwin.protocol.errors import Error
from brokertwin.simulation.audit_work import Work, at_least_once, in_steps, once

SESSION_MS = 100
BEGINS = "second begins sink-0 of connect; first runs it, and was heard of"


class AuditedWorkers:
    def __init__(self) -> None:
        self.violations: list[str] = []
        self.work = Work(self.violations.append, SESSION_MS)

    def runs(self, who: str, generation: int, now: int, *tasks: str) -> list[str]:
        self.work.runs("connect", who, generation, frozenset(tasks), now)
        return self.violations


def test_a_task_may_move_after_it_has_ended() -> None:
    audited = AuditedWorkers()
    audited.work.heartbeat_responded("first", 10, Error.NONE)
    audited.runs("first", 1, 10, "sink-0", "sink-1")
    audited.runs("first", NO_GENERATION, 20, "sink-1")
    assert audited.runs("second", 2, 30, "sink-0") == []
    assert audited.runs("first", 2, 30, "sink-1") == []


def test_starting_a_task_of_a_live_owner_is_a_violation() -> None:
    audited = AuditedWorkers()
    audited.work.heartbeat_responded("first", 10, Error.NONE)
    audited.runs("first", 1, 10, "sink-0")
    assert audited.runs("second", 2, 10 + SESSION_MS - 1, "sink-0") == [BEGINS]


@pytest.mark.parametrize("error", [Error.NONE, Error.REBALANCE_IN_PROGRESS])
def test_an_owner_without_a_live_session_does_not_block_a_task(error: Error) -> None:
    audited = AuditedWorkers()
    audited.work.heartbeat_responded("first", 10, Error.NONE)
    audited.runs("first", 1, 10, "sink-0")
    audited.work.heartbeat_responded("first", 10 if error is Error.NONE else 60, error)
    assert audited.runs("second", 2, 10 + SESSION_MS, "sink-0") == []


def test_a_task_has_one_owner_in_a_generation_even_if_it_is_silent() -> None:
    audited = AuditedWorkers()
    audited.runs("first", 1, 10, "sink-0")
    audited.work.crashed("first")
    assert audited.runs("second", 2, 20, "sink-0") == []
    assert audited.runs("third", 2, 900, "sink-0") == [
        "sink-0 of connect is run by second and third in 2"
    ]


def test_exactly_once_requires_one_output_for_each_input() -> None:
    assert once("lines", ["a", "b"], Counter("ab")) == []
    assert once("lines", ["a", "b"], Counter("aab")) == ["lines: a 2 times"]
    assert once("lines", ["a", "b"], Counter("b")) == ["lines: a 0 times"]
    assert once("lines", ["a"], Counter("ac")) == ["lines: c, which is no input"]


def test_at_least_once_allows_repeated_outputs() -> None:
    assert at_least_once("lines", ["a", "b"], Counter("aabc")) == []
    assert at_least_once("lines", "abcdef", Counter("b")) == [
        "lines: a not at all; c not at all; d not at all, and 2 more"
    ]


def test_tallies_increase_by_one_for_each_key() -> None:
    assert in_steps("tallies", [("a", 1), ("b", 1), ("a", 2)]) == []
    assert in_steps("tallies", [("a", 1), ("a", 3), ("b", 2)]) == [
        "tallies: a is 3 after 1; b is 2 after 0"
    ]
