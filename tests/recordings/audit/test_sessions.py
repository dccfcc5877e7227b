"""Findings about fetch sessions."""

import pytest

from brokertwin.recordings.audit import sessions
from brokertwin.recordings.history.finding import Severity
from brokertwin.state.core.errors import Error
from tests.support.exchanges_told import Told


def test_lost_session_was_evicted_for_those_opened_since() -> None:
    told = Told()
    told.fetch("early", 0, 0, 11)
    told.fetch("a", 0, 0, 10)
    told.fetch("a", 10, 1, 10)
    told.fetch("late", 0, 0, 12)
    told.fetch("a", 10, 2, 0, Error.FETCH_SESSION_ID_NOT_FOUND)
    (found,) = told.found(sessions.lost)
    assert (found.severity, found.clients, found.by) == (Severity.WARNING, ["a"], ["late"])
    assert "opened 1 session." in found.what


@pytest.mark.parametrize("epoch", [-1, 0])
def test_closed_session_was_not_evicted(epoch: int) -> None:
    told = Told()
    told.fetch("a", 0, 0, 10)
    told.fetch("a", 10, epoch, 0)
    told.fetch("b", 0, 0, 12)
    told.fetch("a", 10, 2, 0, Error.FETCH_SESSION_ID_NOT_FOUND)
    (found,) = told.found(sessions.lost)
    assert (found.severity, found.by) == (Severity.INFO, [])
    assert "was closed by client a's FETCH" in found.evidence[0].said


def test_session_that_is_first_seen_when_lost_was_not_evicted_for_certain() -> None:
    told = Told()
    told.fetch("b", 0, 0, 12)
    told.fetch("a", 10, 2, 0, Error.FETCH_SESSION_ID_NOT_FOUND)
    (found,) = told.found(sessions.lost)
    assert (found.severity, found.by) == (Severity.INFO, [])


def test_an_epoch_out_of_turn() -> None:
    told = Told()
    told.fetch("a", 10, 7, 0, Error.INVALID_FETCH_SESSION_EPOCH)
    (found,) = told.found(sessions.lost)
    assert (found.kind, found.severity) == ("session-out-of-turn", Severity.WARNING)


@pytest.mark.parametrize(
    ("count", "every_ms", "kinds"),
    [
        (10, 6_000, ["session-churn"]),
        (9, 6_000, []),
        (20, 7_000, []),
    ],
)
def test_a_client_that_opens_ten_sessions_a_minute_churns(
    count: int, every_ms: int, kinds: list[str]
) -> None:
    told = Told()
    for number in range(count):
        answer = {"errorCode": 0, "sessionId": number + 1}
        told.add("a", "FETCH", {"sessionEpoch": 0}, answer, at=number * every_ms)
    assert [each.kind for each in told.found(sessions.churn)] == kinds


@pytest.mark.parametrize(
    ("epoch", "throttled", "kinds"),
    [
        (0, 0, ["session-denied"]),
        (-1, 0, []),
        (0, 5, []),
    ],
)
def test_client_that_gets_no_session_is_reported(
    epoch: int, throttled: int, kinds: list[str]
) -> None:
    told = Told()
    answer = {"errorCode": 0, "sessionId": 0, "throttleTimeMs": throttled}
    told.add("a", "FETCH", {"sessionId": 0, "sessionEpoch": epoch}, answer)
    assert [each.kind for each in told.found(sessions.without_room)] == kinds
