"""Findings about fetch sessions."""

import pytest

from brokertwin.protocol.errors import Error
from brokertwin.recordings.audit import sessions
from brokertwin.recordings.history.findings import Severity
from tests.support.synthetic_recording import SyntheticRecording


def test_lost_session_was_evicted_for_those_opened_since() -> None:
    recording = SyntheticRecording()
    recording.fetch("early", 0, 0, 11)
    recording.fetch("a", 0, 0, 10)
    recording.fetch("a", 10, 1, 10)
    recording.fetch("late", 0, 0, 12)
    recording.fetch("a", 10, 2, 0, Error.FETCH_SESSION_ID_NOT_FOUND)
    (found,) = recording.found(sessions.lost)
    assert (found.severity, found.clients, found.by) == (Severity.WARNING, ["a"], ["late"])
    assert "opened 1 session." in found.what


@pytest.mark.parametrize("epoch", [-1, 0])
def test_closed_session_was_not_evicted(epoch: int) -> None:
    recording = SyntheticRecording()
    recording.fetch("a", 0, 0, 10)
    recording.fetch("a", 10, epoch, 0)
    recording.fetch("b", 0, 0, 12)
    recording.fetch("a", 10, 2, 0, Error.FETCH_SESSION_ID_NOT_FOUND)
    (found,) = recording.found(sessions.lost)
    assert (found.severity, found.by) == (Severity.INFO, [])
    assert "was closed by client a's FETCH" in found.evidence[0].said


def test_session_that_is_first_seen_when_lost_was_not_evicted_for_certain() -> None:
    recording = SyntheticRecording()
    recording.fetch("b", 0, 0, 12)
    recording.fetch("a", 10, 2, 0, Error.FETCH_SESSION_ID_NOT_FOUND)
    (found,) = recording.found(sessions.lost)
    assert (found.severity, found.by) == (Severity.INFO, [])


def test_an_epoch_out_of_turn() -> None:
    recording = SyntheticRecording()
    recording.fetch("a", 10, 7, 0, Error.INVALID_FETCH_SESSION_EPOCH)
    (found,) = recording.found(sessions.lost)
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
    recording = SyntheticRecording()
    for number in range(count):
        response = {"errorCode": 0, "sessionId": number + 1}
        recording.add("a", "FETCH", {"sessionEpoch": 0}, response, at=number * every_ms)
    assert [each.kind for each in recording.found(sessions.churn)] == kinds


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
    recording = SyntheticRecording()
    response = {"errorCode": 0, "sessionId": 0, "throttleTimeMs": throttled}
    recording.add("a", "FETCH", {"sessionId": 0, "sessionEpoch": epoch}, response)
    assert [each.kind for each in recording.found(sessions.without_room)] == kinds
