"""Where a share group begins: durations as Java's `Duration` writes them."""

import pytest

from brokerstream.state.share.start_offsets import duration_ms


@pytest.mark.parametrize(
    ("reset", "milliseconds"),
    [
        ("by_duration:P1DT2H3M4.5S", 93_784_500),
        ("by_duration:PT1H", 3_600_000),
        ("by_duration:pt0,25s", 250),
        ("by_duration:PT0S", 0),
    ],
)
def test_a_duration_is_in_milliseconds(reset: str, milliseconds: int) -> None:
    assert duration_ms(reset) == milliseconds
