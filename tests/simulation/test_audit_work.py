"""What the auditor says of work: one runner for each task, and each input's effect."""

from collections import Counter

import pytest

from brokertwin.simulation.audit_work import (
    NO_GENERATION,
    Work,
    at_least_once,
    in_steps,
    once,
)
from brokertwin.state.core.errors import Error

SESSION_MS = 100
BEGINS = "second begins sink-0 of connect; first runs it, and was heard of"


class Told:
    """Two workers of a group, one after the other."""

    def __init__(self) -> None:
        self.violations: list[str] = []
        self.work = Work(self.violations.append, SESSION_MS)

    def runs(self, who: str, generation: int, now: int, *tasks: str) -> list[str]:
        self.work.runs("connect", who, generation, frozenset(tasks), now)
        return self.violations


def test_a_task_that_was_ended_before_may_be_begun_elsewhere() -> None:
    told = Told()
    told.work.heartbeat_responded("first", 10, Error.NONE)
    told.runs("first", 1, 10, "sink-0", "sink-1")
    told.runs("first", NO_GENERATION, 20, "sink-1")
    assert told.runs("second", 2, 30, "sink-0") == []
    assert told.runs("first", 2, 30, "sink-1") == []


def test_nobody_begins_what_another_runs_who_was_heard_of() -> None:
    told = Told()
    told.work.heartbeat_responded("first", 10, Error.NONE)
    told.runs("first", 1, 10, "sink-0")
    assert told.runs("second", 2, 10 + SESSION_MS - 1, "sink-0") == [BEGINS]


@pytest.mark.parametrize("error", [Error.NONE, Error.REBALANCE_IN_PROGRESS])
def test_who_was_not_heard_of_within_a_session_runs_on_for_nothing(error: Error) -> None:
    told = Told()
    told.work.heartbeat_responded("first", 10, Error.NONE)
    told.runs("first", 1, 10, "sink-0")
    told.work.heartbeat_responded("first", 10 if error is Error.NONE else 60, error)
    assert told.runs("second", 2, 10 + SESSION_MS, "sink-0") == []


def test_in_one_generation_a_task_has_one_runner_whoever_is_silent() -> None:
    told = Told()
    told.runs("first", 1, 10, "sink-0")
    told.work.crashed("first")
    assert told.runs("second", 2, 20, "sink-0") == []
    assert told.runs("third", 2, 900, "sink-0") == [
        "sink-0 of connect is run by second and third in 2"
    ]


def test_exactly_once_each_input_comes_out_once_and_nothing_else_does() -> None:
    assert once("lines", ["a", "b"], Counter("ab")) == []
    assert once("lines", ["a", "b"], Counter("aab")) == ["lines: a 2 times"]
    assert once("lines", ["a", "b"], Counter("b")) == ["lines: a 0 times"]
    assert once("lines", ["a"], Counter("ac")) == ["lines: c, which is no input"]


def test_at_least_once_an_input_may_come_out_again() -> None:
    assert at_least_once("lines", ["a", "b"], Counter("aabc")) == []
    assert at_least_once("lines", "abcdef", Counter("b")) == [
        "lines: a not at all; c not at all; d not at all, and 2 more"
    ]


def test_tallies_go_up_by_one_for_each_key() -> None:
    assert in_steps("tallies", [("a", 1), ("b", 1), ("a", 2)]) == []
    assert in_steps("tallies", [("a", 1), ("a", 3), ("b", 2)]) == [
        "tallies: a is 3 after 1; b is 2 after 0"
    ]
