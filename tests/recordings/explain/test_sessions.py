"""Timelines of fetch sessions in a recording of a real broker, and in invented ones."""

from typing import Any

import msgspec
import pytest

from brokertwin.errors import UserError
from brokertwin.protocol.errors import Error
from brokertwin.recordings.explain.sessions import SessionTimeline
from brokertwin.recordings.explain.story import TimelineEntry
from brokertwin.recordings.replay.recording import Exchange, read
from brokertwin.state.fetch.fetch_session import EPOCH_MAX
from tests.support.sources import ROOT
from tests.support.synthetic_recording import exchange

RECORDED = read([ROOT / "tests" / "captures" / "raw_fetch_errors.jsonl.gz"]).exchanges


def of_session(story: list[TimelineEntry]) -> list[tuple[str, ...]]:
    return [tuple(entry.notes or [each.name for each in entry.refused]) for entry in story]


def reasons(story: list[TimelineEntry], error: Error) -> list[str]:
    return [each.because for entry in story for each in entry.refused if each.code == error]


def test_a_session_is_opened_and_forgets_and_is_closed() -> None:
    story = SessionTimeline(RECORDED, "1996149028").story()
    reported = of_session(story)
    assert reported[:3] == [
        ("opens the session",),
        ("forgets 6 partitions",),
        ("forgets 1 partitions",),
    ]
    assert reported[-2:] == [("closes the session",), ("FETCH_SESSION_ID_NOT_FOUND",)]
    (closed,) = reasons(story, Error.FETCH_SESSION_ID_NOT_FOUND)
    assert closed.startswith("The session was closed: client raw's FETCH at 00:49:07.381")


def test_wrong_epoch_has_the_expected_one() -> None:
    reported = reasons(
        SessionTimeline(RECORDED, "1996149028").story(), Error.INVALID_FETCH_SESSION_EPOCH
    )
    assert [each.partition(";")[0] for each in reported] == [
        "The request has epoch 20",
        "The request has epoch 18",
    ]
    assert all(each.endswith("it has to be 19.") for each in reported)


def test_one_session_closes_another() -> None:
    notes = of_session(SessionTimeline(RECORDED, "477182202").story())
    assert ("closes the session, and opens 800155083",) in notes


def fetch(number: int, client: str, session: int, epoch: int, response: Any) -> Exchange:
    request = {"sessionId": session, "sessionEpoch": epoch, "topics": []}
    made = exchange(1000 * number, client, "FETCH", request, response)
    return msgspec.structs.replace(made, id=f"h:{number}")


def test_lost_session_lists_the_clients_that_may_have_evicted_it() -> None:
    """KAFKA-12797: which clients evict the sessions of others."""
    history = [
        fetch(1, "quiet", 0, 0, {"errorCode": 0, "sessionId": 7}),
        fetch(2, "quiet", 7, 1, {"errorCode": 0, "sessionId": 7}),
        fetch(3, "storm", 0, 0, {"errorCode": 0, "sessionId": 8}),
        fetch(4, "storm", 0, 0, {"errorCode": 0, "sessionId": 9}),
        fetch(5, "other", 0, 0, {"errorCode": 0, "sessionId": 10}),
        fetch(6, "quiet", 7, 2, {"errorCode": Error.FETCH_SESSION_ID_NOT_FOUND, "sessionId": 0}),
    ]
    (result,) = reasons(SessionTimeline(history, "7").story(), Error.FETCH_SESSION_ID_NOT_FOUND)
    assert result.startswith("It was used last by client quiet's FETCH at 12:00:02.000 (h:2)")
    assert result.endswith("opened in between: client storm (2), client other (1).")


def test_only_later_openings_may_have_evicted_a_session() -> None:
    history = [
        fetch(1, "quiet", 0, 0, {"errorCode": 0, "sessionId": 7}),
        fetch(2, "early", 0, 0, {"errorCode": 0, "sessionId": 8}),
        fetch(3, "quiet", 7, 1, {"errorCode": 0, "sessionId": 7}),
        fetch(4, "quiet", 7, 2, {"errorCode": Error.FETCH_SESSION_ID_NOT_FOUND, "sessionId": 0}),
    ]
    (result,) = reasons(SessionTimeline(history, "7").story(), Error.FETCH_SESSION_ID_NOT_FOUND)
    assert result.endswith("or its broker was started again.")


def test_epochs_wrap_around() -> None:
    history = [
        fetch(1, "quiet", 0, 0, {"errorCode": 0, "sessionId": 7}),
        fetch(2, "quiet", 7, EPOCH_MAX, {"errorCode": 0, "sessionId": 7}),
        fetch(3, "quiet", 7, 5, {"errorCode": Error.INVALID_FETCH_SESSION_EPOCH, "sessionId": 0}),
    ]
    (result,) = reasons(SessionTimeline(history, "7").story(), Error.INVALID_FETCH_SESSION_EPOCH)
    assert result.endswith("it has to be 1.")


def test_unknown_session_lists_the_existing_ones() -> None:
    with pytest.raises(UserError, match="The recording has no fetch session 1") as error:
        SessionTimeline(RECORDED, "1")
    assert "It has 12345, 138447028, 477182202, 800155083, 1996149028." in str(error.value)
    with pytest.raises(UserError, match="It has no "):
        SessionTimeline([], "seven")
