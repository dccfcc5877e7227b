"""The page in a browser: drawn, without errors, as wide as its reader's screen, light and dark."""

from pathlib import Path

import pytest

from brokertwin.recordings.audit import page
from tests.support import browsers
from tests.support.audits import whole

NARROW, WIDE = 390, 1280


@pytest.mark.browser
@pytest.mark.parametrize("scheme", [browsers.LIGHT, browsers.DARK], ids=["light", "dark"])
def test_the_page_is_drawn_and_fits(scheme: int, tmp_path: Path) -> None:
    audited = whole("follower_stop")
    file = tmp_path / "audit.html"
    page.write(file, ["orders.log"], audited.history, audited.findings, [])
    found = browsers.seen(file, (NARROW, WIDE), scheme)
    browsers.assert_fits(found, (NARROW, WIDE), scheme)
    for each in found.frames:
        assert each["drawn"] == each["plots"] > 3, each
        assert "Error" not in each["said"]
        assert each["wide"] == []
    assert found.frames[0]["labels"]
