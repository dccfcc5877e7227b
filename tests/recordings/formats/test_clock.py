"""Times of log lines: the zone of the JVM, and the hour that comes twice."""

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokertwin.recordings.formats.clock import Clock

BERLIN = ZoneInfo("Europe/Berlin")
SUMMER_ENDS = datetime(2026, 10, 25, 1, 0, tzinfo=UTC)
"""At three o'clock summer time it is two o'clock again."""


def printed(time: datetime, form: str = "[%Y-%m-%d %H:%M:%S,") -> bytes:
    return f"{time.strftime(form)}{time.microsecond // 1000:03d}] INFO x".encode()


def ms(time: datetime) -> int:
    return round(time.timestamp() * 1000)


@given(st.integers(946_684_800_000, 4_102_444_800_000), st.sampled_from([UTC, BERLIN]))
def test_a_time_is_read_as_it_was_printed(instant: int, zone: ZoneInfo) -> None:
    time = datetime.fromtimestamp(instant // 1000, zone).replace(fold=0)
    time += timedelta(milliseconds=instant % 1000)
    assert Clock(zone).ms(printed(time)) == ms(time)


def test_the_hour_that_comes_twice_is_told_by_the_order_of_lines() -> None:
    times = [SUMMER_ENDS + timedelta(minutes=minutes) for minutes in range(-90, 121, 7)]
    clock = Clock(BERLIN)
    assert [clock.ms(printed(time.astimezone(BERLIN))) for time in times] == [
        ms(time) for time in times
    ]


@pytest.mark.parametrize("zone", ["Z", "+0000", " +02:00", "-0330"])
def test_a_time_that_names_its_zone_is_taken_by_it(zone: str) -> None:
    hours = {"Z": 0.0, "+0000": 0.0, " +02:00": 2.0, "-0330": -3.5}[zone]
    time = datetime(2026, 7, 1, 12, 30, 1, tzinfo=timezone(timedelta(hours=hours)))
    assert Clock(BERLIN).ms(f"2026-07-01T12:30:01{zone} x".encode()) == ms(time)


def test_a_time_without_fraction_is_exact_to_a_second() -> None:
    clock = Clock(UTC)
    clock.ms(b"2026-07-01 12:30:01 INFO")
    assert clock.unit_ms == 1000
    clock.ms(b"2026-07-01 12:30:01,5 INFO")
    assert clock.unit_ms == 1


@pytest.mark.parametrize("text", [b"", b"no time", b"2026-13-41 12:30:01", b"2026-02-30 25:00:00"])
def test_what_is_no_time_gives_none(text: bytes) -> None:
    assert Clock(UTC).ms(text) is None
