"""Durations as parsed by Java's `Duration.parse`, compared with a real 4.3.1 broker."""

import pytest

from brokertwin.state.configs import durations

MS = 1_000_000
HOUR = 3_600_000 * MS


@pytest.mark.parametrize(
    ("text", "taken"),
    [
        ("P1DT2H3M4.5S", 93_784_500 * MS),
        ("PT1H", HOUR),
        ("pt0,25s", 250 * MS),
        ("PT0S", 0),
        ("-PT0S", 0),
        ("PT1.S", 1_000 * MS),
        ("PT+1H", HOUR),
        ("P+1D", 24 * HOUR),
        ("+PT1H", HOUR),
        ("P1DT-5H", 19 * HOUR),
        ("PT-1H61M", HOUR // 60),
        ("PT-1H", -HOUR),
        ("-PT1H", -HOUR),
        ("PT-0.5S", -500 * MS),
        ("PT2562047788015215H", 2_562_047_788_015_215 * HOUR),
    ],
)
def test_valid_duration(text: str, taken: int) -> None:
    assert durations.nanoseconds(text) == taken


@pytest.mark.parametrize(
    "text",
    [
        *("", "P", "PT", "P1DT", "P1W", "P1D1H", " PT1H", "PT.5S", "PT1.1234567890S", "1H"),
        *("PT2562047788015216H", "P9223372036854775807D", "PT99999999999999999999H"),
    ],
)
def test_invalid_duration(text: str) -> None:
    assert durations.nanoseconds(text) is None
