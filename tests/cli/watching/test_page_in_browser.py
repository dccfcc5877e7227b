"""The pages of a job, a live audit and a gateway fit a browser, light and dark."""

from pathlib import Path

import pytest

from brokertwin.cli.watching.server import app, served
from brokertwin.cli.watching.status import Status
from tests.support import browsers
from tests.support.watched import GATEWAY, JOB, LIVE, Shown

WIDTHS = (390, 1280)


@pytest.mark.browser
@pytest.mark.parametrize("scheme", [browsers.LIGHT, browsers.DARK], ids=["light", "dark"])
@pytest.mark.parametrize("status", [JOB, LIVE, GATEWAY], ids=lambda status: status.kind)
def test_the_page_is_filled_and_fits(status: Status, scheme: int, tmp_path: Path) -> None:
    with served(app(Shown(status)), "--http-listen 0", "127.0.0.1", 0) as url:
        found = browsers.seen_at(url, tmp_path, WIDTHS, scheme)
    browsers.assert_fits(found, WIDTHS, scheme)
    of_job = (
        "rows/s", "1,234.5", "1,700", "INVALID_PRODUCER_EPOCH", "Stable", "orders-1", "not JSON",
    )  # fmt: skip
    for each in found.frames:
        assert each["wide"] == []
        given = each["all"]
        assert status.name in given
        assert "Nothing answers any more" not in given
        shown = {
            "job": of_job,
            "live": (
                "138,600",
                "offset-back",
                "fenced producer orders-tx",
                "bumped the epoch",
                "(12)",
            ),
            "gateway": ("localhost:9093", "METADATA", "12"),
        }[status.kind]
        assert [word for word in shown if word not in given] == [], given
