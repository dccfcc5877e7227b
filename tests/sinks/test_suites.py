"""Each expectation of each suite: good rows pass, and a planted violation is found."""

from typing import Any

import pytest

from brokertwin.sinks import checks, suites
from brokertwin.sinks.checks import Checked
from brokertwin.sinks.offsets_snapshot import SCHEMA
from brokertwin.sinks.suites import OF_TOPICS, Document
from tests.support.sources import ROOT

Planted = list[tuple[str, str, Any]]
"""Type of an expectation, its column, and a violating value."""

NULL, UNIQUE = "column_values_to_not_be_null", "column_values_to_be_unique"
BETWEEN, ONLY = "column_values_to_be_between", "column_values_to_be_in_set"
LENGTHS = "column_value_lengths_to_be_between"

GOOD: dict[str, dict[str, Any]] = {
    "requests": dict(
        zip(
            suites.COLUMNS["requests"],
            ("r", 0, 0, 5, "a", "a", 1, "request", 3, 9, "me", 1, False),
            strict=True,
        )
    ),
    "responses": dict(
        zip(
            suites.COLUMNS["responses"],
            ("r", 0, 0, 5, "a", 1, 3, "me", 7, None, 1),
            strict=True,
        )
    ),
    "records": dict(
        zip(
            suites.COLUMNS["records"],
            ("a/0/1/0", 0, 0, "a", 1, 5, "BatchAppended", "t", 0, 7, None, 0, 0, 0),
            strict=True,
        )
    ),
    "offsets": dict(
        zip(
            suites.COLUMNS["offsets"],
            ("a/0/1/0", 0, 0, "a", "g", "t", 0, 4, -1, 5, False),
            strict=True,
        )
    ),
    "snapshot": dict(zip(SCHEMA.names, ("a", "g", "t", 0, 5, -1, "", 1000, -1), strict=True)),
}
PLANTED: dict[str, Planted] = {
    "requests": [
        *((NULL, name, None) for name in ("id", "cell", "cluster")),
        (UNIQUE, "id", "r"),
        (BETWEEN, "answers", 2),
        (ONLY, "isOverdue", True),
        (BETWEEN, "timestamp", -1),
    ],
    "responses": [
        *((NULL, name, None) for name in ("id", "cluster", "broker")),
        (UNIQUE, "id", "r"),
        (BETWEEN, "responseTime", -1),
        (ONLY, "requests", 0),
        ("column_values_to_be_null", "error", "not built yet"),
    ],
    "records": [
        *((NULL, name, None) for name in ("id", "cell", "machine", "type")),
        (UNIQUE, "id", "a/0/1/0"),
        (BETWEEN, "time", -1),
        (ONLY, "offsetGap", 3),
        (ONLY, "sequenceGap", 2),
        (ONLY, "committedBack", 9),
    ],
    "offsets": [
        *((NULL, n, None) for n in ("id", "cluster", "groupId", "topic", "topicPartition")),
        (UNIQUE, "id", "a/0/1/0"),
        (BETWEEN, "topicPartition", -1),
        (BETWEEN, "committedOffset", -1),
        (BETWEEN, "leaderEpoch", -2),
        (BETWEEN, "commitTimestamp", -1),
        (LENGTHS, "topic", "t" * 250),
    ],
    "snapshot": [
        *((NULL, name, None) for name in SCHEMA.names),
        *((BETWEEN, name, -2) for name in ("partition", "offset", "leader_epoch")),
        *((BETWEEN, name, -2) for name in ("commit_timestamp", "expire_timestamp")),
        (LENGTHS, "topic", ""),
    ],
}
SUITES: dict[str, Document] = {**OF_TOPICS, "snapshot": checks.snapshot_suite()}


def checked(kind: str, *changes: dict[str, Any]) -> Checked:
    """Check a good row, and another one for each planted change."""
    names = {"id", "group"} & GOOD[kind].keys()
    rows = [GOOD[kind]] + [
        {**GOOD[kind], **dict.fromkeys(names, f"other {number}"), **change}
        for number, change in enumerate(changes)
    ]
    return checks.check(checks.frame_of(rows, GOOD[kind]), SUITES[kind])


@pytest.mark.parametrize("kind", SUITES)
def test_good_rows_pass_and_each_planted_violation_is_found(kind: str) -> None:
    assert checked(kind, {}).findings == []
    found = checked(kind, *({column: value} for _, column, value in PLANTED[kind])).findings
    caught = {(each.expectation.removeprefix("expect_"), *each.columns) for each in found}
    assert caught == {(expectation, column) for expectation, column, _ in PLANTED[kind]}
    for expectation, column, value in PLANTED[kind]:
        [one] = (
            e for e in found if (e.expectation, e.columns) == (f"expect_{expectation}", [column])
        )
        assert one.unexpected >= 1
        assert value is None or str(value) in one.examples


@pytest.mark.parametrize("kind", SUITES)
def test_every_expectation_has_a_planted_violation(kind: str) -> None:
    """Expectations of whole tables have their own tests."""
    there = [
        (each["type"].removeprefix("expect_"), each["kwargs"]["column"])
        for each in SUITES[kind]["expectations"]
        if "column" in each["kwargs"]
    ]
    assert sorted(there) == sorted((kind_of, column) for kind_of, column, _ in PLANTED[kind])


def test_a_missing_or_additional_column_is_found() -> None:
    frame = checks.frame_of([GOOD["offsets"]], GOOD["offsets"]).rename(columns={"isTombstone": "x"})
    [finding] = checks.check(frame, OF_TOPICS["offsets"]).findings
    assert finding.expectation == "expect_table_columns_to_match_ordered_list"


def test_duplicate_rows_and_a_wrong_row_count_are_found() -> None:
    frame = checks.frame_of([GOOD["snapshot"]] * 2, GOOD["snapshot"])
    found = checks.check(frame, checks.snapshot_suite(3)).findings
    assert sorted(each.expectation for each in found) == [
        "expect_compound_columns_to_be_unique",
        "expect_table_row_count_to_equal",
    ]


def test_the_page_has_the_columns_of_every_kind() -> None:
    page = (ROOT / "docs" / "checks.md").read_text(encoding="utf-8")
    for kind, names in {**suites.COLUMNS, "snapshot": SCHEMA.names}.items():
        assert f"| {kind} | {', '.join(names)} |\n" in page
