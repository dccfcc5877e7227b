"""The figure of the page on performance is that of its table."""

from bench.logs import drawn, rows_in
from tests.support.sources import ROOT


def test_plot_of_request_logs_is_drawn_from_the_table() -> None:
    table = rows_in((ROOT / "docs/performance.md").read_text("utf-8"))
    assert (ROOT / "docs/logs.svg").read_text("utf-8") == drawn(*table)
