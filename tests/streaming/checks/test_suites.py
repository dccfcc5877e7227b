"""Each expectation of each suite: good rows pass, and a planted violation is found."""

from typing import Any

import pytest

from brokertwin.sinks.offsets_snapshot import SCHEMA
from brokertwin.streaming.checks import snapshot_checks as checks
from brokertwin.streaming.checks import suites
from brokertwin.streaming.checks.snapshot_checks import Checked
from brokertwin.streaming.checks.suites import OF_TOPICS, TABLE_OF, Document
from tests.support.sources import ROOT

Planted = list[tuple[str, str, Any]]
"""Type of an expectation, its column or "one, other", and a violating value of the first."""

NULL, UNIQUE = "column_values_to_not_be_null", "column_values_to_be_unique"
BETWEEN, ONLY = "column_values_to_be_between", "column_values_to_be_in_set"
LENGTHS = "column_value_lengths_to_be_between"
AT_MOST = "column_pair_values_a_to_be_greater_than_b"
EQUAL = "column_pair_values_to_be_equal"
UNIQUE_ROWS = "compound_columns_to_be_unique"

GOOD: dict[str, dict[str, Any]] = {
    "requests": dict(
        zip(
            suites.COLUMNS["requests"],
            ("r", 0, 0, 5, "a", "a", 1, "request", 3, 9, "me", 1, None),
            strict=True,
        )
    ),
    "responses": dict(
        zip(
            suites.COLUMNS["responses"],
            ("r", 0, 0, 5, "a", 1, 3, "me", 7, None, 4),
            strict=True,
        )
    ),
    "records": dict(
        zip(
            suites.COLUMNS["records"],
            ("a/0/1/0", 0, 0, "a", 1, 5, "", "t", 0, 7, None, 6, 6, 6, 6, 6, 6, 6, 6, None),
            strict=True,
        )
    ),
    "offsets": dict(
        zip(
            suites.COLUMNS["offsets"],
            ("a/0/1.2/0", 0, 0, "a", "g", "t", 0, 4, -1, 5, False),
            strict=True,
        )
    ),
    "sessions": dict(
        zip(suites.COLUMNS["sessions"], ("a", 1, 9, 1, 2, "me", False, 5, 5), strict=True)
    ),
    "producers": dict(
        zip(
            suites.COLUMNS["producers"],
            ("a", 1, 9, 0, "t", 0, 3, 4, 5, 8, -1, -1),
            strict=True,
        ),
    ),
    "groups": dict(
        zip(
            suites.COLUMNS["groups"],
            ("a", 1, "g", "consumer", "Stable", "", 3, "", "", 1, 2, 0, 0),
            strict=True,
        )
    ),
    "committed-offsets": dict(
        zip(
            suites.COLUMNS["committed-offsets"],
            ("a", "g", "t", 0, 5, -1, "", 7, -1, 0),
            strict=True,
        )
    ),
    "logs": dict(
        zip(suites.COLUMNS["logs"], ("a", 1, "t", 0, 0, 1, 3, 2, 4, 1, 70, "id"), strict=True),
    ),
    "violations": {"cell": "a", "violation": None},
    "snapshot": dict(zip(SCHEMA.names, ("a", "g", "t", 0, 5, -1, "", 1000, -1), strict=True)),
}
PLANTED: dict[str, Planted] = {
    "requests": [
        *((NULL, name, None) for name in ("id", "cell", "cluster")),
        (UNIQUE, "id", "r"),
        (BETWEEN, "responses", 2),
        (BETWEEN, "pendingMs", 600_001),
        (BETWEEN, "timestamp", -1),
    ],
    "responses": [
        *((NULL, name, None) for name in ("id", "cluster", "broker", "requestTimestamp")),
        (UNIQUE, "id", "r"),
        (BETWEEN, "responseTime", -1),
        ("column_values_to_be_null", "error", "not built yet"),
    ],
    "records": [
        *((NULL, name, None) for name in ("id", "cell", "machine", "type")),
        (UNIQUE, "id", "a/0/1/0"),
        (BETWEEN, "time", -1),
        (EQUAL, "baseOffset, expectedOffset", 9),
        (EQUAL, "baseSequence, expectedSequence", 8),
        (AT_MOST, "highWatermark, highWatermarkBefore", 5),
        (AT_MOST, "committedOffset, committedBefore", 4),
        ("column_values_to_be_null", "idGivenBefore", 2000),
    ],
    "offsets": [
        *((NULL, n, None) for n in ("id", "cluster", "groupId", "topic", "topicPartition")),
        (UNIQUE, "id", "a/0/1.2/0"),
        ("column_values_to_match_regex", "id", "forged-1"),
        (BETWEEN, "topicPartition", -1),
        (BETWEEN, "committedOffset", -1),
        (BETWEEN, "leaderEpoch", -2),
        (BETWEEN, "commitTimestamp", -1),
        (LENGTHS, "topic", "t" * 250),
    ],
    "sessions": [
        (BETWEEN, "sessionId", 0),
        (BETWEEN, "epoch", 0),
        (BETWEEN, "partitions", -1),
        (AT_MOST, "lastUsedMs, creationMs", 4),
    ],
    "producers": [
        (BETWEEN, "producerId", -1),
        (BETWEEN, "producerEpoch", -2),
        (BETWEEN, "batches", 6),
        (BETWEEN, "lastSequence", 2**31),
        (BETWEEN, "lastOffset", -2),
    ],
    "groups": [
        (BETWEEN, "generation", -1),
        (BETWEEN, "members", -1),
        (BETWEEN, "offsets", -1),
    ],
    "committed-offsets": [
        (BETWEEN, "partition", -1),
        (BETWEEN, "committedOffset", -1),
        (BETWEEN, "leaderEpoch", -2),
        (BETWEEN, "commitTimestamp", -1),
        (LENGTHS, "topic", "t" * 250),
        (BETWEEN, "lag", -7),
    ],
    "logs": [
        (BETWEEN, "logStartOffset", -1),
        (AT_MOST, "highWatermark, logStartOffset", 0),
        (AT_MOST, "highWatermark, lastStableOffset", 1),
        (AT_MOST, "logEndOffset, highWatermark", 2),
        (BETWEEN, "batches", -1),
        (BETWEEN, "sizeInBytes", -1),
    ],
    "violations": [("column_values_to_be_null", "violation", "broken")],
    "snapshot": [
        *((NULL, name, None) for name in SCHEMA.names),
        *((BETWEEN, name, -2) for name in ("partition", "offset", "leader_epoch")),
        *((BETWEEN, name, -2) for name in ("commit_timestamp", "expire_timestamp")),
        (LENGTHS, "topic", ""),
    ],
}
SUITES: dict[str, Document] = {**suites.BY_KIND, "snapshot": checks.snapshot_suite()}
NAMES = ("id", "group", "sessionId", "producerId", "groupId", "topic")
"""Columns of which one tells rows of a kind apart."""


def checked(kind: str, *changes: dict[str, Any]) -> Checked:
    name = next((each for each in NAMES if each in GOOD[kind]), None)
    rows = [GOOD[kind]]
    for number, change in enumerate(changes, 1):
        good = GOOD[kind].get(name)
        text = f"a/0/0/{number}" if name == "id" else f"{number}"
        other = {} if name is None else {name: good + number if type(good) is int else text}
        rows.append({**GOOD[kind], **other, **change})
    return checks.check(checks.frame_of(rows, GOOD[kind]), SUITES[kind])


@pytest.mark.parametrize("kind", SUITES)
def test_good_rows_pass_and_each_planted_violation_is_found(kind: str) -> None:
    assert checked(kind, {}).findings == []
    planted = ({column.split(", ")[0]: value} for _, column, value in PLANTED[kind])
    found = checked(kind, *planted).findings
    caught = {(each.expectation.removeprefix("expect_"), ", ".join(each.columns)) for each in found}
    assert caught == {(expectation, column) for expectation, column, _ in PLANTED[kind]}
    for expectation, column, value in PLANTED[kind]:
        [one] = (
            e
            for e in found
            if (e.expectation, ", ".join(e.columns)) == (f"expect_{expectation}", column)
        )
        assert one.unexpected >= 1
        assert value is None or str(value) in " ".join(one.examples)


@pytest.mark.parametrize("kind", SUITES)
def test_every_expectation_has_a_planted_violation(kind: str) -> None:
    """Expectations of whole tables have their own tests."""
    there = []
    for each in SUITES[kind]["expectations"]:
        named = [each["kwargs"].get(name) for name in ("column", "column_A", "column_B")]
        if any(named):
            there.append((each["type"].removeprefix("expect_"), ", ".join(filter(None, named))))
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


@pytest.mark.parametrize("kind", suites.OF_STATE)
def test_an_item_that_is_listed_twice_is_found(kind: str) -> None:
    frame = checks.frame_of([GOOD[kind]] * 2, GOOD[kind])
    found = [each.expectation for each in checks.check(frame, suites.OF_STATE[kind]).findings]
    assert found == ([] if kind == "violations" else [f"expect_{UNIQUE_ROWS}"])


def test_the_page_has_the_columns_of_every_kind_that_is_no_table() -> None:
    page = (ROOT / "docs" / "checks.md").read_text(encoding="utf-8")
    for kind, names in {**suites.COLUMNS, "snapshot": SCHEMA.names}.items():
        if kind in TABLE_OF:
            continue
        assert f"| {kind} | {', '.join(names)} |\n" in page
