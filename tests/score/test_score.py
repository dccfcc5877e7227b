"""No statement about a cluster with known truth is false, and what a whole log shows is said."""

from pathlib import Path
from typing import get_args

import pytest

from brokertwin.recordings.audit.finders import findings
from brokertwin.recordings.audit.reading import read
from brokertwin.recordings.formats.pipeline import FileReading
from brokertwin.recordings.history.findings import (
    Cause,
    Finding,
    MemberJoinedAgain,
    Severity,
)
from brokertwin.simulation.histories import History, draw_history, run_history
from brokertwin.simulation.request_logs import write_logs
from brokertwin.simulation.truth import MemberChanged, OffsetStored, TransactionMoved
from tests.score.damage import DAMAGES, STRETCH
from tests.score.goldens import golden, names
from tests.score.judges import (
    CAUSES,
    FINDINGS,
    REBALANCED_BY,
    SHOWN_BY_RESPONSE,
    WITHOUT_FACTS,
    Verdict,
)
from tests.score.scoring import (
    READERS,
    WHOLE,
    Score,
    audit,
    cases_of,
    score_of,
    score_of_golden,
)
from tests.support.said import assert_said

SEEDS = (*range(15), 589)
"""The last one has a topic that is made again while a broker is away."""

SHORT_SEEDS = range(100, 284)
CHUNKS = 8

RECALL = 0.95


@pytest.fixture(scope="module")
def histories() -> dict[int, History]:
    return {seed: run_history(draw_history(seed)) for seed in SEEDS}


@pytest.fixture(scope="module")
def scores(histories: dict[int, History]) -> dict[str, Score]:
    """By seed, reader and damage."""
    return {
        f"seed {seed}, {reader}, {damage}": score_of(history, seed, [(reader, damage)])
        for seed, history in histories.items()
        for reader, damage in cases_of(seed)
    }


@pytest.fixture(scope="module")
def score(scores: dict[str, Score]) -> Score:
    found = Score.empty()
    for each in scores.values():
        found.add(each)
    return found


def test_the_same_is_said_of_simulated_clusters(scores: dict[str, Score]) -> None:
    assert_said("score", {name: each.said for name, each in scores.items()})


def test_no_statement_about_simulated_clusters_is_false(score: Score) -> None:
    assert [str(each) for each in score.false] == []


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_no_statement_about_short_simulated_histories_is_false(chunk: int) -> None:
    """One reader and one worse log for each."""
    false, said = [], {}
    for seed in SHORT_SEEDS[chunk::CHUNKS]:
        history = run_history(draw_history(seed, is_short=True))
        case = (*READERS,)[seed % len(READERS)], (*DAMAGES,)[seed // 3 % len(DAMAGES)]
        score = score_of(history, seed, [case])
        false += [str(each) for each in score.false]
        said[f"seed {seed}, {', '.join(case)}"] = score.said
    assert false == []
    assert_said(f"score-{chunk}", said)


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


@pytest.mark.parametrize("name", names())
def test_no_warning_about_an_accident_is_false_without_a_stretch_of_a_log(name: str) -> None:
    number = names().index(name)
    reader = (*READERS,)[number % len(READERS)]
    score = score_of_golden(name, [(reader, STRETCH)], draw=number)
    assert [str(each) for each in score.false] == []
    assert_said(f"score-{name}-{reader}-stretch", {"score": score.said})


@pytest.mark.parametrize("reader", ["follow", "live"])
def test_no_statement_about_ten_minutes_of_clean_traffic_is_false(reader: str) -> None:
    score = score_of_golden("clean", [(reader, WHOLE)])
    assert [str(each) for each in score.false] == []
    assert_said(f"score-clean-{reader}", {"score": score.said})


def test_each_restart_in_clean_traffic_is_one_finding_and_no_client_is_accused(
    tmp_path: Path,
) -> None:
    """The controller is on broker 1, so its log does not show that it was shut down."""
    history = read(write_logs(golden("clean").lines, tmp_path), FileReading()).history
    found = findings(history)
    gone = [each for each in found if each.kind == "broker-gone"]
    first = sorted((each.evidence[0].time, each.subject, each.severity) for each in gone)
    shown = [(subject, severity) for _, subject, severity in first]
    once = [("broker 3", Severity.INFO), ("broker 2", Severity.INFO)]
    assert shown == 2 * [*once, ("broker 1", Severity.WARNING)]
    others = [each for each in found if each not in gone]
    assert [each for each in others if each.severity >= Severity.WARNING] == []
    assert {each.kind for each in others} == {"refused", "rebalances"}


def _concrete(base: type[Finding]) -> set[type]:
    """The kinds of findings: only they have a tag that is not the name of the class."""
    own = {base} if base.__struct_config__.tag != base.__name__ else set()
    return own.union(*(_concrete(child) for child in base.__subclasses__()))


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
