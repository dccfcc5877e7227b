"""The scenario files: complete and readable."""

import re
from collections import Counter
from importlib import resources

import pytest

from brokertwin.protocol.schemas import MESSAGES, Field
from brokertwin.testing.exam import model
from brokertwin.testing.exam.model import (
    Do,
    ExamSubject,
    selected,
    subjects,
    written,
)
from tests.support.exams import OF_A_JOB

LEAST = {
    "idempotence": 30,
    "transactions_v1": 40,
    "transactions_v2": 20,
    "fetch_sessions": 40,
    "classic_groups": 40,
    "consumer_groups": 30,
    "share_groups": 30,
    "streams_groups": 20,
    "offsets": 40,
    "metadata": 40,
    "admin": 40,
    "malformed": 40,
    "cluster": 20,
    "encodings": 60,
    "quotas": 14,
    "sizes": 10,
    "restarts": 12,
    "acls": 4,
}
"""Minimum numbers of scenarios by subject."""

ALL = list(selected())


def test_there_are_more_than_650_scenarios_in_all_subjects() -> None:
    counts = {subject.name: len(subject.scenarios) for subject in subjects()}
    assert sum(counts.values()) >= 650
    assert {name for name, least in LEAST.items() if counts[name] < least} == set()


def test_a_job_is_examined_in_each_subject_for_one_broker_with_its_settings() -> None:
    unplayed = {
        subject.name
        for subject in subjects()
        if not set(OF_A_JOB) & {scenario.name for scenario in subject.scenarios}
    }
    several_brokers, restarts = {"cluster"}, {"restarts"}
    other_settings, other_release = {"acls", "consumer_groups", "quotas"}, {"kafka_4_4"}
    assert unplayed == several_brokers | restarts | other_settings | other_release


def test_names_and_rules_are_unique() -> None:
    names = Counter(scenario.name for _, scenario in ALL)
    rules = Counter(scenario.rule for _, scenario in ALL)
    assert [name for name, count in names.items() if count > 1] == []
    assert [rule for rule, count in rules.items() if count > 1] == []


@pytest.mark.parametrize("subject", subjects(), ids=lambda each: each.name)
def test_a_scenario_has_rule_source_and_golden_of_each_labelled_step(subject: ExamSubject) -> None:
    for scenario in subject.scenarios:
        assert [each.label for each in scenario.golden] == scenario.labels, scenario.name
        assert re.fullmatch(r"[A-Z_a-z].*\.", scenario.rule), scenario.name
        assert len(scenario.rule.split()) <= 25, scenario.rule
        assert scenario.source, scenario.name
        assert re.fullmatch(r"(KIP-\d+)?", scenario.kip), scenario.name


@pytest.mark.parametrize("subject", subjects(), ids=lambda each: each.name)
def test_requests_only_have_fields_of_their_message(subject: ExamSubject) -> None:
    for scenario in subject.scenarios:
        for step in scenario.steps:
            if step.do in (Do.CALL, Do.SEND):
                fields = MESSAGES[f"{step.api}Request"].fields
                assert not list(_unknown(step.body, fields)), (scenario.name, step.label)


def _unknown(body: object, fields: tuple[Field, ...]) -> list[str]:
    if isinstance(body, list):
        return [name for each in body for name in _unknown(each, fields)]
    if not isinstance(body, dict) or any(name.startswith("$") for name in body):
        return []
    known = {field.name: field.fields for field in fields}
    found = [name for name in body if name not in known]
    for name, part in body.items():
        if known.get(name):
            found += _unknown(part, known[name])
    return found


@pytest.mark.parametrize("subject", subjects(), ids=lambda each: each.name)
def test_files_have_the_form_in_which_goldens_are_recorded(subject: ExamSubject) -> None:
    path = resources.files(model.FILES) / f"{subject.name}{model.SUFFIX}"
    assert path.read_bytes() == written(subject), "python -m tests.exam.record writes the form"


def test_scenarios_create_nothing_without_their_prefix() -> None:
    for _, scenario in ALL:
        for step in scenario.steps:
            if step.api == "CreateTopics" and step.version >= 2 and step.body:
                for topic in step.body["topics"]:
                    is_bad_name = not isinstance(topic["name"], dict)
                    assert not is_bad_name or scenario.name == "topics_invalid_names"


def test_selection_is_by_subject_or_beginning_of_a_name() -> None:
    assert {scenario.name for _, scenario in selected(["idem_acks"])} == {"idem_acks"}
    assert {subject.name for subject, _ in selected(["offsets"])} == {"offsets"}
    assert list(selected(["nothing"])) == []
