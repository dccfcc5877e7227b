"""What plots show."""

import re
from pathlib import Path
from typing import Any

import pytest

from brokertwin.errors import UserError
from brokertwin.recordings.history.findings import WatermarkReported, WatermarkSample
from brokertwin.recordings.observed import plots
from tests.support.observed import exchanges, observed


def sample(time: float, leader: int, isr: tuple[int, ...], **changed: Any) -> WatermarkSample:
    facts: dict[str, Any] = {"ends": {1: 5, 2: 4}, "high_watermark": 4, **changed}
    return WatermarkSample(
        time,
        "t",
        0,
        leader,
        0,
        isr,
        is_assumed=False,
        why=WatermarkReported(),
        place="f:1",
        **facts,
    )


def test_each_line_goes_on_to_the_end() -> None:
    rows = plots.offsets([sample(1, 1, (1, 2)), sample(3, 1, (1, 2), ends={1: 6})], end=9)
    last = {row["line"]: (row["time"], row["offset"]) for row in rows}
    assert last == {
        "high watermark": (9, 4),
        "LEO at broker 1": (9, 6),
        "LEO at broker 2": (9, 4),
    }


def test_unknown_offsets_are_not_drawn() -> None:
    rows = plots.offsets([sample(1, 1, (1,), ends={1: -1}, high_watermark=-1)], end=9)
    assert rows == []


def test_strip_shows_periods_of_leaders_and_in_sync_replicas() -> None:
    found = [sample(1, 1, (1, 2)), sample(3, 1, (1,)), sample(5, 2, (1, 2))]
    rows = {(r["broker"], r["role"], r["from"], r["to"]) for r in plots.in_sync(found, end=9)}
    assert rows == {
        ("1", "leads", 1, 5),
        ("2", "in sync", 1, 3),
        ("1", "in sync", 5, 9),
        ("2", "leads", 5, 9),
    }


@pytest.mark.long
def test_a_page_needs_nothing_from_elsewhere(tmp_path: Path) -> None:
    observer = observed(exchanges("leader_kill"))
    plots.write(tmp_path / "r.html", ".html", observer.samples, observer.time)
    text = (tmp_path / "r.html").read_text()
    assert "lk-0: log end offsets" in text
    assert not re.search(r"""<(script|link|img)[^>]+(src|href)=["']?(https?:)?//""", text)


def test_a_name_without_a_format_is_refused() -> None:
    with pytest.raises(UserError, match=r"Unknown plot format: .*r\.pdf"):
        plots.look(Path("r.pdf"))
