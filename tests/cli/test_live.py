"""How a running job's progress is shown: a table on a terminal, lines elsewhere, gauges."""

import io
import urllib.request

import pytest
from rich.console import Console

from brokerstream.cli.live import Live, size_text
from brokerstream.cli.metrics import ADDRESS, Metrics, served
from brokerstream.errors import UserError
from brokerstream.state.fetch.fetch_session_counts import CacheCounts
from brokerstream.streaming.measures import Progress


def progress(batch: int, events: int, total: int) -> Progress:
    counts = {"requests": total, "responses": total - 1, "dead-letters": 2}
    return Progress(
        batch,
        events,
        seconds=0.75,
        lag=17,
        counts=counts,
        state_bytes=20_400_000,
        fetch_sessions=CacheCounts(sessions=12, partitions_cached=3400, evictions=5),
    )


def shown(is_terminal: bool, *steps: Progress) -> str:
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
    assert lines[0].startswith("requests 10, responses 9, dead letters 2, rate ")
    assert "lag 17, state 20.4 MB, fetch sessions 12 of 3,400 partitions, 5 evicted," in lines[1]
    assert lines[1].endswith("batch 4 in 0.75 s")


def test_on_a_terminal_there_is_a_table() -> None:
    text = shown(True, progress(3, 10, 1234))
    for part in ("requests", "1,234", "1,233", "20.4 MB", "12 of 3,400", "3 in 0.75 s"):
        assert part in text


def test_sizes_are_in_a_unit_that_suits_them() -> None:
    assert [size_text(n) for n in (0, 999, 20_400_000, 3 * 10**15)] == [
        "0 B", "999 B", "20.4 MB", "3000.0 TB",
    ]  # fmt: skip


def test_prometheus_reads_the_same() -> None:
    metrics = Metrics()
    with served(metrics, "--metrics-port 0", ADDRESS, 0) as port:
        metrics.show(progress(3, 10, 1234))
        url = f"http://127.0.0.1:{port}/metrics"
        with urllib.request.urlopen(url, timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        again = served(metrics, f"--metrics-port {port}", ADDRESS, port)
        with pytest.raises(UserError, match=f"--metrics-port {port}: Address already in use"):
            again.__enter__()
    assert 'brokerstream_rows{topic="requests"} 1234.0' in lines
    assert "brokerstream_lag_events 17.0" in lines
    assert "brokerstream_state_bytes 2.04e+07" in lines
    assert "brokerstream_fetch_sessions 12.0" in lines
    assert "brokerstream_fetch_session_partitions_cached 3400.0" in lines
    assert "brokerstream_fetch_session_evictions 5.0" in lines


def test_prometheus_may_ask_at_every_address_of_the_machine() -> None:
    with served(Metrics(), "--metrics-listen 0.0.0.0:0", "0.0.0.0", 0) as port:
        url = f"http://127.0.0.2:{port}/metrics"  # another address than the default
        with urllib.request.urlopen(url, timeout=10) as answer:
            assert b"brokerstream_lag_events" in answer.read()
