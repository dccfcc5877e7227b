"""The scenario files: complete, honest, and those that the authors wrote."""

import re
from collections import Counter
from importlib import resources

import pytest

from brokertwin.protocol.schemas import MESSAGES, Field
from brokertwin.testing.exam import model
from brokertwin.testing.exam.model import (
    Do,
    ExamSubject,
    Scenario,
    read,
    selected,
    subjects,
    written,
)
from tests.exam.subjects import AUTHORS

BYTES_MAX = 200_000
"""All scenario files together."""

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
}
"""Minimum numbers of scenarios by subject."""

ALL = list(selected())


def test_there_are_more_than_650_scenarios_in_all_subjects() -> None:
    counts = {subject.name: len(subject.scenarios) for subject in subjects()}
    assert sum(counts.values()) >= 650
    assert {name for name, least in LEAST.items() if counts[name] < least} == set()


def test_names_and_rules_are_unique() -> None:
    names = Counter(scenario.name for _, scenario in ALL)
    rules = Counter(scenario.rule for _, scenario in ALL)
    assert [name for name, count in names.items() if count > 1] == []
    assert [rule for rule, count in rules.items() if count > 1] == []


@pytest.mark.parametrize("subject", subjects(), ids=lambda each: each.name)
def test_a_scenario_has_rule_source_and_golden_of_each_labelled_step(subject: ExamSubject) -> None:
    for scenario in subject.scenarios:
        labels = [step.label for step in scenario.steps if step.label]
        assert [each.label for each in scenario.golden] == labels, scenario.name
        assert re.fullmatch(r"[A-Z_a-z].*\.", scenario.rule), scenario.name
        assert len(scenario.rule.split()) <= 25, scenario.rule
        assert scenario.source, scenario.name
        assert re.fullmatch(r"(KIP-\d+)?", scenario.kip), scenario.name


@pytest.mark.parametrize("author", AUTHORS, ids=lambda each: each.name)
def test_goldens_belong_to_the_requests_of_the_authors(author: object) -> None:
    draft = author.subject("")  # type: ignore[attr-defined]
    recorded = {each.name: each for each in _recorded(draft.name)}
    changed = [
        each.name
        for each in draft.scenarios
        if each.name not in recorded or _requests(each) != _requests(recorded[each.name])
    ]
    assert not changed, f"Record again: make exam-record: {changed}"
    assert len(recorded) == len(draft.scenarios)


def _recorded(name: str) -> list[Scenario]:
    (found,) = [each for each in subjects() if each.name == name]
    return found.scenarios


def _requests(scenario: Scenario) -> list[object]:
    fields = (scenario.rule, scenario.settings, scenario.started_with, scenario.features)
    return [*fields, *scenario.steps]


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


def test_scenario_files_are_small_and_written_in_the_same_way_again() -> None:
    folder = resources.files(model.FILES)
    sizes = {f.name: len(f.read_bytes()) for f in folder.iterdir() if f.name.endswith(".gz")}
    assert sum(sizes.values()) < BYTES_MAX, sizes
    for subject in subjects():
        assert read(written(subject)) == subject


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
