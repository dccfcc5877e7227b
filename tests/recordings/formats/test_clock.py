"""Times of log lines: the zone of the JVM, and the hour that comes twice."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokertwin.recordings.formats.clock import LineClock
from brokertwin.recordings.formats.pipeline import FileReading
from brokertwin.recordings.formats.stamps import ZONES_H, DateOrder, order_of_dates
from tests.support.requestlogs import read

BERLIN = ZoneInfo("Europe/Berlin")
NO_ORDER: Callable[[], DateOrder] = lambda: DateOrder.MONTH_FIRST  # noqa: E731
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
    assert LineClock(zone, NO_ORDER).ms(printed(time)) == ms(time)


def test_a_repeated_hour_is_resolved_by_line_order() -> None:
    times = [SUMMER_ENDS + timedelta(minutes=minutes) for minutes in range(-90, 121, 7)]
    clock = LineClock(BERLIN, NO_ORDER)
    assert [clock.ms(printed(time.astimezone(BERLIN))) for time in times] == [
        ms(time) for time in times
    ]


@pytest.mark.parametrize("zone", ["Z", "+0000", " +02:00", "-0330"])
def test_a_time_with_a_zone_uses_it(zone: str) -> None:
    hours = {"Z": 0.0, "+0000": 0.0, " +02:00": 2.0, "-0330": -3.5}[zone]
    time = datetime(2026, 7, 1, 12, 30, 1, tzinfo=timezone(timedelta(hours=hours)))
    assert LineClock(BERLIN, NO_ORDER).ms(f"2026-07-01T12:30:01{zone} x".encode()) == ms(time)


ABBREVIATED = {
    "UTC": ("Z", "UTC"),
    "Europe/London": ("GMT", ""),
    "Europe/Lisbon": ("WET", "WEST"),
    "Europe/Berlin": ("CET MEZ", "CEST MESZ"),
    "Europe/Athens": ("EET", "EEST"),
    "Europe/Moscow": ("MSK", ""),
    "Asia/Tokyo": ("JST", ""),
    "Asia/Seoul": ("KST", ""),
    "Australia/Sydney": ("AEDT", "AEST"),
    "Pacific/Auckland": ("NZDT", "NZST"),
    "America/New_York": ("EST", "EDT"),
    "America/Chicago": ("CST", "CDT"),
    "America/Denver": ("MST", "MDT"),
    "America/Los_Angeles": ("PST", "PDT"),
}
"""Zones with their abbreviations in January and in July."""


@pytest.mark.parametrize("zone", ABBREVIATED)
def test_an_abbreviation_has_the_offset_of_its_zone(zone: str) -> None:
    for month, names in zip((1, 7), ABBREVIATED[zone], strict=True):
        for name in names.split():
            offset = datetime(2026, month, 1, tzinfo=ZoneInfo(zone)).utcoffset()
            assert timedelta(hours=ZONES_H[name]) == offset, name


def test_every_abbreviation_is_compared_with_its_zone() -> None:
    names = {name for pair in ABBREVIATED.values() for each in pair for name in each.split()}
    assert names == ZONES_H.keys()


def test_a_time_without_fraction_is_exact_to_a_second() -> None:
    clock = LineClock(UTC, NO_ORDER)
    clock.ms(b"2026-07-01 12:30:01 INFO")
    assert clock.unit_ms == 1000
    clock.ms(b"2026-07-01 12:30:01,5 INFO")
    assert clock.unit_ms == 1


@pytest.mark.parametrize("text", [b"", b"no time", b"2026-13-41 12:30:01", b"2026-02-30 25:00:00"])
def test_invalid_times_are_none(text: bytes) -> None:
    assert LineClock(UTC, NO_ORDER).ms(text) is None


def times(tmp_path: Path, *dates: str) -> tuple[list[str], list[str]]:
    warnings: list[str] = []
    file = tmp_path / "broker-1.log"
    file.write_text("".join(f"{date} DEBUG {BARE}" for date in dates), encoding="utf-8")
    documents, _ = read(file, reading=FileReading(warn=warnings.append))
    days = [f"{datetime.fromtimestamp(each.time / 1000, UTC):%m-%d}" for each in documents]
    return days, warnings


BARE = (
    "Completed request:"
    + json.dumps(
        {
            "requestHeader": {"requestApiKey": 12, "requestApiVersion": 4, "correlationId": 1},
            "request": {},
            "connection": "10.0.0.5:9092-10.0.0.9:40001-0",
            "totalTimeMs": 0.0,
        }
    )
    + "\n"
)


@pytest.mark.parametrize(
    ("dates", "days"),
    [
        (["06/05/2026 09:00:00,1", "13/05/2026 09:00:00,1"], ["05-06", "05-13"]),
        (["06/05/2026 09:00:00,1", "06/13/2026 09:00:00,1"], ["06-05", "06-13"]),
        (["30/04/2026 23:59:59,1", "01/05/2026 00:00:00,1"], ["04-30", "05-01"]),
        (["11/05/2026 23:59:59,1", "12/05/2026 00:00:00,1"], ["05-11", "05-12"]),
        (["05/11/2026 23:59:59,1", "05/12/2026 00:00:00,1"], ["05-11", "05-12"]),
        (["12/01/2026 23:59:59,1", "01/02/2026 00:00:00,1"], ["01-12", "02-01"]),
        (["05/05/2026 09:00:00,1"], ["05-05"]),
    ],
)
def test_other_dates_show_whether_the_day_is_first(
    tmp_path: Path, dates: list[str], days: list[str]
) -> None:
    found, warnings = times(tmp_path, *dates)
    assert found == days
    assert warnings == []


def test_dates_that_show_nothing_have_the_month_first_with_a_warning(tmp_path: Path) -> None:
    found, (warning,) = times(tmp_path, "06/05/2026 09:00:00,1", "06/05/2026 09:00:01,1")
    assert found == ["06-05", "06-05"]
    assert "broker-1.log: dates such as 06/05/2026 are read with the month first" in warning


NOW = datetime(2026, 11, 29, tzinfo=UTC)
MONTH, DAY, YEAR = DateOrder


@pytest.mark.parametrize(
    ("dates", "order", "is_shown", "is_in_future"),
    [
        (["01/12/2026"], MONTH, True, False),
        (["12/01/2026"], DAY, True, False),
        (["01/02/2026"], MONTH, False, False),
        (["26/11/28"], YEAR, True, False),
        (["26-11-28"], YEAR, True, False),
        (["28.11.26"], DAY, True, False),
        (["26.11.28"], YEAR, True, False),
        (["11/28/26"], MONTH, True, False),
        (["25/11/30", "25/12/01"], YEAR, True, False),
        (["20/11/25"], DAY, False, False),
        (["11/28/28"], MONTH, True, True),
        (["05/05/2026"], MONTH, True, False),
    ],
)
def test_a_log_is_not_from_the_future_not_old_and_in_order(
    dates: list[str], order: DateOrder, is_shown: bool, is_in_future: bool
) -> None:
    found = order_of_dates([f"{date} 09:00:00 x".encode() for date in dates], NOW)
    assert (found.order, found.is_shown, found.is_in_future) == (order, is_shown, is_in_future)
    assert found.example == dates[0]


def test_a_year_of_two_digits_may_be_first(tmp_path: Path) -> None:
    assert times(tmp_path, "20/02/28 23:59:59,1", "20/02/29 00:00:00,1") == (["02-28", "02-29"], [])


def test_dates_that_can_only_be_in_the_future_have_a_warning(tmp_path: Path) -> None:
    found, (warning,) = times(tmp_path, "11/28/99 09:00:00,1")
    assert found == ["11-28"]
    assert "in the future" in warning


def test_another_time_of_the_line_shows_whether_the_day_is_first(tmp_path: Path) -> None:
    text = "2026-05-06T09:00:00.200Z 06/05/2026 09:00:00,100"
    assert times(tmp_path, text) == (["05-06"], [])
