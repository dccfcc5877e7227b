"""The beginning of a schedule, up to a moment that a user names."""

from zoneinfo import ZoneInfo

import msgspec
import pytest

from brokertwin.errors import UserError
from brokertwin.recordings.replay.until import events_around, events_until

UTC, BERLIN = ZoneInfo("UTC"), ZoneInfo("Europe/Berlin")
NOON = 1_772_366_400_000
"""2026-03-01T12:00:00Z."""


def event(time: int, event_id: str, **fields: str) -> bytes:
    header = {"requestApiKey": 3, "requestApiVersion": 12}
    made = {"id": event_id, "cluster": "c", "broker": 1, "time": time, "requestHeader": header}
    return msgspec.json.encode({**made, "request": {}, **fields})


EVENTS = [
    event(NOON, "a:1"),
    event(NOON + 1000, "a:2"),
    event(NOON + 1000, "b:1"),
    event(NOON + 2000, "end of a:1", kind="complete", of="a:1"),
    event(NOON + 3000, "a:3"),
]


@pytest.mark.parametrize(
    ("until", "count"),
    [
        ("a:2", 2),
        ("a.gz:2", 2),
        ("a:1", 4),  # its response comes late
        ("2026-03-01T12:00:00Z", 1),
        ("2026-03-01T12:00:01", 3),
        ("2026-03-01T13:00:01+01:00", 3),
        ("2026-03-01T12:00:02.999", 4),
        (str(NOON + 999), 1),
        ("2026-02-01", 0),
        ("2027-01-01", 5),
    ],
)
def test_a_moment_is_an_exchange_or_a_time(until: str, count: int) -> None:
    assert events_until(EVENTS, until, UTC, "--at") == EVENTS[:count]


def test_a_time_without_a_zone_is_in_the_one_given() -> None:
    assert events_until(EVENTS, "2026-03-01T13:00:01", BERLIN, "--at") == EVENTS[:3]


@pytest.mark.parametrize("until", ["a:7", "noon", "12:00"])
def test_invalid_moments_are_rejected_with_the_format(until: str) -> None:
    with pytest.raises(UserError, match=f"--at: '{until}' is neither"):
        events_until(EVENTS, until, UTC, "--at")


@pytest.mark.parametrize(("place", "count"), [("a:1", 0), ("a.gz:2", 1), ("b:1", 2)])
def test_a_request_is_the_next_event_at_its_moment(place: str, count: int) -> None:
    """What completes it later is neither."""
    before, after = events_around(EVENTS, place)
    assert (before, after) == (EVENTS[:count], EVENTS[: count + 1])


def test_unhandled_requests_have_no_state() -> None:
    with pytest.raises(UserError, match="c:7 was not handled"):
        events_around(EVENTS, "c:7")
