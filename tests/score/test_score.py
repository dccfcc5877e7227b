"""No statement about a cluster with known truth is false, and what a whole log shows is said."""

from typing import get_args

import pytest

from brokertwin.recordings.history.findings import Cause, Finding, MemberJoinedAgain
from brokertwin.simulation.histories import History, draw_history, run_history
from brokertwin.simulation.truth import MemberChanged, OffsetStored, TransactionMoved
from tests.score.goldens import names
from tests.score.judges import (
    CAUSES,
    FINDINGS,
    REBALANCED_BY,
    SHOWN_BY_RESPONSE,
    WITHOUT_FACTS,
    Verdict,
)
from tests.score.scoring import (
    WHOLE,
    Score,
    audit,
    cases_of,
    score_of,
    score_of_golden,
)

SEEDS = (*range(23), 589)
"""The last one has a topic that is made again while a broker is away."""

RECALL = 0.95


@pytest.fixture(scope="module")
def histories() -> dict[int, History]:
    return {seed: run_history(draw_history(seed)) for seed in SEEDS}


@pytest.fixture(scope="module")
def score(histories: dict[int, History]) -> Score:
    found = Score.empty()
    for seed, history in histories.items():
        found.add(score_of(history, seed, cases_of(seed)))
    return found


def test_no_statement_about_simulated_clusters_is_false(score: Score) -> None:
    assert [str(each) for each in score.false] == []


def test_what_a_whole_log_shows_is_said(score: Score) -> None:
    assert score.recall >= RECALL, [each for _, each in score.absent]


@pytest.mark.parametrize(
    ("kind", "cause"),
    [
        ("rebalances", "MemberJoined"),
        ("rebalances", "MemberLeft"),
        ("rebalances", "MemberDropped"),
        ("member-refused", "MemberExpired"),
        ("offset-back", ""),
        ("offset-deleted", ""),
        ("producer-fenced", "EpochBumped"),
        ("transaction-ended", ""),
        ("transaction-timed-out", ""),
        ("session-lost", "SessionEvicted"),
    ],
)
def test_statements_of_each_kind_are_made_and_judged(score: Score, kind: str, cause: str) -> None:
    assert score.counts[kind, cause, Verdict.TRUE] > 0


@pytest.mark.parametrize("name", names())
def test_no_warning_about_a_recorded_accident_is_false(name: str) -> None:
    score = score_of_golden(name, [(audit.__name__, WHOLE)])
    assert [str(each) for each in score.false] == []
    assert [wanted for _, wanted in score.absent] == []


def _concrete(base: type) -> set[type]:
    below = {each for child in base.__subclasses__() for each in _concrete(child)}
    return below or {base}


def test_each_kind_has_a_judge_or_a_reason_for_none() -> None:
    judged = {*FINDINGS, *CAUSES, *REBALANCED_BY, MemberJoinedAgain}
    listed = SHOWN_BY_RESPONSE | WITHOUT_FACTS
    assert judged & listed == set()
    assert judged | listed == _concrete(Finding) | {*get_args(Cause)}


@pytest.mark.parametrize(
    ("dropped", "kind"),
    [
        (lambda e: isinstance(e, MemberChanged) and e.change == "joined", "rebalances"),
        (lambda e: isinstance(e, MemberChanged) and e.change == "left", "member-left"),
        (lambda e: isinstance(e, MemberChanged) and e.change == "expired", "member-dropped"),
        (lambda e: isinstance(e, OffsetStored), "offset-committed"),
        (lambda e: isinstance(e, TransactionMoved), "transaction-ended"),
    ],
)
def test_a_statement_without_its_fact_is_false(
    histories: dict[int, History], dropped: object, kind: str
) -> None:
    assert callable(dropped)
    found = Score.empty()
    for seed, history in list(histories.items())[:8]:
        kept = [each for each in history.truth.facts if not dropped(each)]
        facts, history.truth.facts = history.truth.facts, kept
        found.add(score_of(history, seed, [(audit.__name__, WHOLE)]))
        history.truth.facts = facts
    assert kind in {each.judged.kind for each in found.false}
