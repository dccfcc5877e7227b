"""The page in a browser: drawn, without errors, as wide as its reader's screen, light and dark."""

import re
from pathlib import Path

import pytest

from brokerstream.streaming.audit import page
from tests.support import browsers
from tests.support.audits import whole

NARROW, WIDE = 390, 1280


def brightness(color: str) -> float:
    """From 0, black, to 1, white, of a colour as a browser computes it."""
    red, green, blue = map(int, re.findall(r"\d+", color)[:3])
    return (0.2126 * red + 0.7152 * green + 0.0722 * blue) / 255


@pytest.mark.browser
@pytest.mark.parametrize("scheme", [browsers.LIGHT, browsers.DARK], ids=["light", "dark"])
def test_the_page_is_drawn_and_fits(scheme: int, tmp_path: Path) -> None:
    audited = whole("follower_stop")
    file = tmp_path / "audit.html"
    page.write(file, ["orders.log"], audited.history, audited.findings, [])
    found = browsers.seen(file, (NARROW, WIDE), scheme)
    assert found.console == []
    assert [each["width"] for each in found.frames] == [NARROW, WIDE]
    for each in found.frames:
        assert each["drawn"] == each["plots"] > 3, each
        assert "Error" not in each["said"]
        assert each["needs"] <= each["width"], each["wide"]
        assert each["wide"] == []
        is_dark = brightness(each["back"]) < 0.2
        assert is_dark == (scheme == browsers.DARK), each["back"]
        assert abs(brightness(each["text"]) - brightness(each["back"])) > 0.6
    assert found.frames[0]["labels"]
