"""`brokertwin top` shows the served status at 80 columns and reports missing servers."""

import io

import msgspec
import pytest
from rich.console import Console
from typer.testing import CliRunner

from brokertwin.cli.main import app
from brokertwin.cli.watching import top
from brokertwin.cli.watching.server import app as pages
from brokertwin.cli.watching.server import served
from brokertwin.cli.watching.status import Status
from brokertwin.errors import UserError
from tests.support.watched import GATEWAY, JOB, LIVE, Shown


def text_of(status: Status, before: Status | None = None) -> str:
    out = io.StringIO()
    Console(file=out, width=80, no_color=True).print(top.screen(status, before))
    return out.getvalue()


def test_a_job_is_shown_whole_in_eighty_columns() -> None:
    text = text_of(JOB)
    for part in (
        "job shop  running", "rows/s", "1,234.5", "0.75 s", "1,700", "20.4 MB", "FETCH", "5,000",
        "FETCH_SESSION_ID_NOT_FOUND", "INVALID_PRODUCER_EPOCH", "not JSON", "2 Empty, 5 Stable",
        "30 partitions, 2 under-replicated, 1 offline", "orders-0", "1,2,3", "none",
    ):  # fmt: skip
        assert part in text, part
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text


def test_a_gateway_is_shown_with_its_brokers_and_logins() -> None:
    text = text_of(GATEWAY)
    for part in (
        "gateway local  running", "engine local", "responses/s", "failed logins", "METADATA",
    ):  # fmt: skip
        assert part in text, part
    assert "error" not in text


def test_live_audit_is_shown_with_its_newest_incidents_in_eighty_columns() -> None:
    text = text_of(LIVE)
    for part in (
        "live audited  running", "3.50 s", "138,600", "damaged lines", "offset-back", "billing-1",
        "error, producer orders-tx: Another", "more (7 times since", "NOT_LEADER_OR_FOLLOWER (12)",
    ):  # fmt: skip
        assert part in text, part
    assert "responses" not in text
    assert max(map(len, text.splitlines())) <= 80


def test_top_shows_growth_since_the_last_refresh() -> None:
    later = msgspec.structs.replace(JOB, responses={"FETCH": 5250, "PRODUCE": 70, "METADATA": 1})
    text = text_of(later, JOB)
    assert "+250" in text
    assert "+0" in text
    restarted = msgspec.structs.replace(later, started_ms=later.started_ms + 1)
    assert "+250" not in text_of(restarted, JOB), "another process counts from zero"


def test_long_lists_end_with_how_many_more_there_are() -> None:
    many = msgspec.structs.replace(JOB, responses={f"API_{n}": n for n in range(40)})
    text = text_of(many)
    assert f"… {40 - top.ROWS_MAX} more" in text
    assert "API_39" in text
    assert "API_3 " not in text


def test_once_ends_and_json_is_the_document() -> None:
    with served(pages(Shown(JOB)), "", "127.0.0.1", 0) as url:
        at = url.removeprefix("http://").rstrip("/")
        shown = CliRunner().invoke(app, ["top", at, "--once", "--json"])
        assert msgspec.json.decode(shown.stdout, type=Status) == JOB
        plain = CliRunner().invoke(app, ["top", url, "--once"])
    assert (shown.exit_code, plain.exit_code) == (0, 0)
    assert "job shop" in plain.stdout


def test_unreachable_address_names_the_option_to_pass() -> None:
    with pytest.raises(UserError, match="Cannot reach localhost:1: ") as raised:
        top.command("localhost:1", once=True)
    assert "--http-listen" in (raised.value.hint or "")


def test_response_of_another_program_is_reported() -> None:
    class Other(Shown):
        def status(self) -> Status:
            return "hello"  # type: ignore[return-value]

    with (
        served(pages(Other(JOB)), "", "127.0.0.1", 0) as url,
        pytest.raises(UserError, match="does not serve"),
    ):
        top.command(url, once=True)
