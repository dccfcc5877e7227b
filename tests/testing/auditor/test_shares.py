"""Promises of share consumers: each one kept and broken."""

from typing import Any

import pytest

from brokertwin.clients.partitions import TopicPartition
from brokertwin.protocol.errors import Error
from brokertwin.state.share.share_partition import ACCEPT, GAP, REJECT, RELEASE
from brokertwin.testing.auditor import exchanges
from brokertwin.testing.auditor.exchanges import SeenExchange, Violation
from brokertwin.testing.auditor.shares import DELIVERIES_MAX, ended, judge_shares
from brokertwin.testing.auditor.workload import SHARERS, RunEvidence, statements

Body = dict[str, Any]

PLACE = TopicPartition("exam", 0)
READ = ["received 0 0 a", "received 0 1 b", "accepted a", "accepted b"]
MARKER = 2
"""Offset without a record."""


def document(at: int, api: str, batches: list[Body], part: Body, **more: Any) -> Body:
    """An exchange of partition 0; the response is sent after 5 ms."""

    def topics(**fields: Any) -> list[Body]:
        return [{"topicId": "T", "partitions": [{"partitionIndex": 0, **fields}]}]

    return {
        "time": at,
        "responseTime": 5.0,
        "requestHeader": {"requestApiKeyName": api, "clientId": "sharer-1"},
        "request": {
            "memberId": "m",
            "shareSessionEpoch": 1,
            "topics": topics(acknowledgementBatches=batches),
        },
        "response": {"errorCode": 0, "responses": topics(**{"errorCode": 0, **part})},
        **more,
    }


def span(first: int, last: int, **fields: Any) -> Body:
    return {"firstOffset": first, "lastOffset": last, **fields}


def fetch(at: int, *spans: tuple[int, int, int], batches: Any = (), error: int = 0) -> Body:
    """A ShareFetch that delivers records: first and last offset, delivery count."""
    acquired = [span(first, last, deliveryCount=count) for first, last, count in spans]
    part = {"acknowledgeErrorCode": error, "acquiredRecords": acquired}
    return document(at, "SHARE_FETCH", list(batches), part)


def acknowledge(at: int, first: int, *outcomes: int, error: int = 0, **more: Any) -> Body:
    batch = span(first, first + len(outcomes) - 1, acknowledgeTypes=list(outcomes))
    return document(at, "SHARE_ACKNOWLEDGE", [batch], {"errorCode": error}, **more)


def found(*documents: Body, lines: list[str] = READ) -> list[Violation]:
    """Judge a run in which `a` and `b` are visible at offsets 0 and 1 of partition 0."""
    evidence = RunEvidence(
        topic=PLACE.topic,
        count=2,
        roles=list(SHARERS),
        statements={SHARERS[0].name: list(statements(lines))},
        exchanges=list(documents),
        logs={},
        committed={PLACE: [(0, "a"), (1, "b")]},
    )
    return list(judge_shares(evidence, exchanges.seen(documents)))


DELIVERED = fetch(0, (0, MARKER, 1))
ACCEPTED = acknowledge(10, 0, ACCEPT, ACCEPT, GAP)
AGAIN = (1, 1, 2)


def test_records_that_are_delivered_and_accepted_break_no_promise() -> None:
    assert found(DELIVERED, ACCEPTED) == []
    in_fetch = fetch(10, batches=[span(0, MARKER, acknowledgeTypes=[ACCEPT])])
    assert found(DELIVERED, in_fetch) == []


def test_a_released_or_refused_record_may_be_delivered_again() -> None:
    released = acknowledge(10, 0, ACCEPT, RELEASE)
    accepted = acknowledge(30, 1, ACCEPT)
    assert found(DELIVERED, released, fetch(20, AGAIN), accepted) == []
    refused = acknowledge(10, 0, ACCEPT, ACCEPT, error=Error.INVALID_RECORD_STATE)
    assert found(DELIVERED, refused, fetch(20, (0, 1, 2)), acknowledge(30, 0, *2 * [ACCEPT])) == []


def test_an_acceptance_whose_response_is_lost_counts() -> None:
    lost = {**ACCEPTED, "delivered": False}
    assert found(DELIVERED, lost, lines=READ[:2]) == []
    assert "b at 1 is delivered" in found(DELIVERED, lost, fetch(20, AGAIN))[0].text


def test_a_fetch_that_waited_while_another_member_accepted_is_not_accused() -> None:
    """The order of their responses is unknown."""
    assert found(DELIVERED, ACCEPTED, fetch(14, AGAIN)) == []
    (only,) = found(DELIVERED, ACCEPTED, fetch(16, AGAIN))
    assert only == ("shares", "b at 1 is delivered to sharer-1 after its end")


def test_the_first_acceptance_counts() -> None:
    seen = exchanges.seen([acknowledge(10, 0, ACCEPT), acknowledge(30, 0, ACCEPT)])
    assert ended(seen) == {(0, 0): 15}


@pytest.mark.parametrize(
    ("documents", "lines", "promise", "text"),
    [
        (
            [fetch(0, (0, MARKER, DELIVERIES_MAX + 1)), ACCEPTED],
            READ,
            "shares",
            "a at 0 is delivered to sharer-1 for the 6th time",
        ),
        (
            [DELIVERED, acknowledge(10, 0, ACCEPT, REJECT)],
            READ,
            "shares",
            "b at 1 of partition 0 is acknowledged as rejected or missing",
        ),
        (
            [DELIVERED, acknowledge(10, 0, ACCEPT, GAP)],
            READ,
            "shares",
            "b at 1 of partition 0 is acknowledged as rejected or missing",
        ),
        (
            [DELIVERED, ACCEPTED],
            READ[:1],
            "shares",
            "b at 1 of partition 0 was accepted, but no application received it",
        ),
        (
            [DELIVERED, acknowledge(10, 0, ACCEPT)],
            READ,
            "shares",
            "b at 1 of partition 0 was reported as accepted, but was not",
        ),
        (
            [DELIVERED, acknowledge(10, 0, ACCEPT)],
            READ[:3],
            "progress",
            "1 record (b) are visible, but were not accepted",
        ),
        (
            [fetch(0, (0, 0, 1)), acknowledge(10, 0, ACCEPT)],
            READ[:1],
            "progress",
            "1 record (b) are visible, but were not accepted",
        ),
    ],
)
def test_a_broken_promise_is_reported(
    documents: list[Body], lines: list[str], promise: str, text: str
) -> None:
    assert (promise, text) in found(*documents, lines=lines)


def test_requests_of_other_apis_and_without_a_response_are_ignored() -> None:
    pending = {**ACCEPTED, "response": None}
    assert ended(exchanges.seen([pending])) == {}
    other = SeenExchange(0, 5.0, "", "FETCH", {}, {"responses": [{"topic": "x"}]}, True)
    assert ended([other]) == {}
