"""How a running job's progress is shown: a table on a terminal, lines elsewhere."""

import io
import re

from rich.console import Console

from brokertwin.cli.job.live import Live, size_text
from brokertwin.state.fetch.fetch_session_counts import CacheCounts
from brokertwin.streaming.job.measures import QueryProgress


def progress(batch: int, events: int, total: int) -> QueryProgress:
    counts = {"requests": total, "responses": total - 1, "dead-letters": 2}
    return QueryProgress(
        batch,
        events,
        seconds=0.75,
        lag=17,
        counts=counts,
        state_bytes=20_400_000,
        fetch_sessions=CacheCounts(sessions=12, partitions_cached=3400, evictions=5),
    )


def shown(is_terminal: bool, *steps: QueryProgress) -> str:
    out = io.StringIO()
    console = Console(file=out, force_terminal=is_terminal, width=160, no_color=True)
    with Live(console) as live:
        for step in steps:
            live.show(step)
        assert live.requests == steps[-1].counts["requests"]
    return out.getvalue()


def test_elsewhere_the_first_and_the_last_batch_give_a_line() -> None:
    lines = shown(False, *(progress(n, 10, 10 * n + 10) for n in range(5))).splitlines()
    assert len(lines) == 2
    assert re.match(r"\d\d:\d\d:\d\d requests 10, responses 9, dead letters 2, rate ", lines[0])
    assert "lag 17, state 20.4 MB, fetch sessions 12 with 3,400 partitions, 5 evicted," in lines[1]
    assert lines[1].endswith("batch 4 in 0.75 s")


def test_on_a_terminal_there_is_a_table() -> None:
    text = shown(True, progress(3, 10, 1234))
    for part in ("requests", "1,234", "1,233", "20.4 MB", "12 with 3,400", "3 in 0.75 s"):
        assert part in text


def test_sizes_are_in_a_unit_that_suits_them() -> None:
    assert [size_text(n) for n in (0, 999, 20_400_000, 3 * 10**15)] == [
        "0 B", "999 B", "20.4 MB", "3000.0 TB",
    ]  # fmt: skip
