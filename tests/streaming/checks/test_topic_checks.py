"""Checks of a job's topics over several reads: each problem is reported once."""

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any

import pytest

from brokertwin.kafka_io.topic_reader import TopicRow
from brokertwin.state.core import outputs
from brokertwin.streaming.checks import snapshot_checks as checks
from brokertwin.streaming.checks import topic_checks
from brokertwin.streaming.checks.batch_checks import check_rows
from brokertwin.streaming.checks.suites import OVERDUE_MS
from brokertwin.streaming.checks.topic_checks import KINDS, TopicRows
from tests.streaming.checks.test_checked_rows import batch, event, response, rows_of
from tests.support.machine import START, Bench, header

REQUESTS, RESPONSES, RECORDS = outputs.REQUESTS, outputs.RESPONSES, outputs.RECORDS


class Topics:
    def __init__(self) -> None:
        self.rows: dict[str, list[TopicRow]] = {REQUESTS: [], RESPONSES: [], RECORDS: []}

    def add(self, topic: str, *rows: TopicRow) -> None:
        there = self.rows[topic]
        there += [row._replace(offset=len(there) + n) for n, row in enumerate(rows)]

    def read(self, topic: str, first: Mapping[int, int]) -> Iterable[TopicRow]:
        return self.rows[topic][first.get(0, 0) :]

    def looked_at(self, *kinds: str) -> TopicRows:
        begins = {topic: {0: len(rows)} for topic, rows in self.rows.items()}
        return TopicRows(kinds or KINDS, self.read, begins, {0: 0})


def names(rows: list[dict[str, Any]], field: str) -> list[tuple[str, Any]]:
    return [(row["id"], row[field]) for row in rows]


def test_a_response_finds_its_request_at_any_distance() -> None:
    topics = Topics()
    topics.add(REQUESTS, event("old", 0))
    rows = topics.looked_at("requests", "responses")
    topics.add(REQUESTS, event("x", 1), event("y", 2))
    assert names(rows.look()["requests"], "responses") == [("x", 0), ("y", 0)]
    topics.add(RESPONSES, response("x", 3), response("old", 4), response("nobody's", 5))
    found = rows.look()
    assert names(found["requests"], "responses") == [("x", 1), ("old", 1)]
    sent = [("x", START + 1), ("old", START), ("nobody's", None)]
    assert names(found["responses"], "requestTimestamp") == sent
    assert rows.look() == {"requests": [], "responses": []}


def test_repeats_are_no_violation_and_second_responses_are() -> None:
    topics = Topics()
    rows = topics.looked_at("requests")
    topics.add(REQUESTS, event("x", 1))
    topics.add(RESPONSES, response("x", 2))
    assert names(rows.look()["requests"], "responses") == [("x", 1)]
    topics.add(RESPONSES, response("x", 2))
    assert rows.look() == {"requests": []}
    topics.add(RESPONSES, response("x", 3, "another"))
    assert names(rows.look()["requests"], "responses") == [("x", 2)]


def test_an_overdue_request_is_reported_once() -> None:
    topics = Topics()
    rows = topics.looked_at("requests")
    topics.add(REQUESTS, event("x", 0), event("y", OVERDUE_MS))
    assert names(rows.look()["requests"], "pendingMs") == [("x", 0), ("y", 0)]
    topics.add(RESPONSES, response("y", OVERDUE_MS + 1))
    assert names(rows.look()["requests"], "pendingMs") == [("y", None), ("x", OVERDUE_MS + 1)]
    topics.add(RESPONSES, response("y", OVERDUE_MS + 2))
    assert names(rows.look()["requests"], "id") == []


@pytest.mark.parametrize("second", [7, 9])
def test_batches_are_checked_across_reads(second: int) -> None:
    topics = Topics()
    rows = topics.looked_at("records")
    for each in (batch(0, 5, 0), batch(1, second, 2)):
        topics.add(RECORDS, each)
        (found,) = rows.look()["records"]
    assert (found["expectedOffset"], found["baseOffset"]) == (7, second)


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_checks, "REMEMBERED_MAX", 2)
    topics = Topics()
    rows = topics.looked_at("responses")
    topics.add(REQUESTS, *(event(name, 1) for name in "abc"))
    rows.look()
    topics.add(RESPONSES, *(response(name, 2) for name in "abc"))
    sent = [("a", None), ("b", START + 1), ("c", START + 1)]
    assert names(rows.look()["responses"], "requestTimestamp") == sent


def test_a_cells_rows_meet_the_suites_and_a_planted_row_does_not() -> None:
    """Three reads of a bench's requests and output."""
    bench = Bench()
    bench.topic("orders", 1)
    for number in range(6):
        bench.append("orders", header(2, 9, 0, 2 * number), partition=0)
    given = {topic: rows_of(bench, topic) for topic in (RESPONSES, RECORDS)}
    given[REQUESTS] = [event(row.id, row.offset) for row in given[RESPONSES]]
    topics = Topics()
    rows = topics.looked_at()
    cuts = {topic: [0, 2, len(all_rows) // 2, len(all_rows)] for topic, all_rows in given.items()}
    for number in range(3):
        for topic, all_rows in given.items():
            begin, end = list(pairwise(cuts[topic]))[number]
            topics.add(topic, *all_rows[begin:end])
        for kind, found in rows.look().items():
            checked = check_rows(number, kind, found, None)
            assert checked.against == [], kind
    topics.add(RESPONSES, response("nobody's", 9))
    topics.add(RECORDS, topics.rows[RECORDS][-1]._replace(id="twice"))
    reported = {kind: check_rows(3, kind, found, None) for kind, found in rows.look().items()}
    assert reported["requests"].against == []
    assert reported["responses"].against == [
        "responses: expect_column_values_to_not_be_null requestTimestamp: 1 row, such as None"
    ]
    assert "expect_column_pair_values_to_be_equal" in reported["records"].against[0]
    assert checks.text_of(reported["records"].checked.findings[0]) in reported["records"].against[0]
