"""Names of others change no terminal, no log and no spreadsheet, and floods fill no disk."""

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
import structlog

from brokertwin.cli import logs, output, tables
from brokertwin.cli.visible import cell, visible, visible_json
from brokertwin.settings import Settings

HOSTILE = "a\x1b]0;title\x07\x1b[2J\r\x9b31m\u202egpj.exe"
SHOWN = r"a\x1b]0;title\x07\x1b[2J\x0d\x9b31m\u202egpj.exe"


def test_control_characters_are_escapes() -> None:
    assert visible(HOSTILE) == SHOWN
    assert visible("plain ä 漢\n\tline") == "plain ä 漢\n\tline"
    document = json.dumps({"clientId": HOSTILE, "more": "\x7f"}, ensure_ascii=False)
    shown = visible_json(document)
    assert json.loads(shown) == json.loads(document)
    assert shown.isascii()
    assert visible_json('"\x7f"') == '"\\u007f"'


def test_tables_and_lines_of_commands_show_them(capsys: pytest.CaptureFixture[str]) -> None:
    output.show_rows(["client"], [(HOSTILE,)], as_json=False)
    output.show_rows(["client"], [(HOSTILE,)], as_json=True)
    output.say(HOSTILE)
    output.warn(HOSTILE)
    output.show_fields({"client": HOSTILE})
    printed = "".join(capsys.readouterr())
    assert printed.count(SHOWN) == 4
    assert not {"\x1b", "\x07", "\x9b", "\u202e"} & {*printed}
    assert tables.fits(output.out, ["a"], [("b",)])


@pytest.mark.parametrize("log_format", ["console", "json"])
def test_log_lines_show_them(log_format: str, capfd: pytest.CaptureFixture[str]) -> None:
    logs.configure(Settings(log_format=log_format))
    structlog.get_logger("brokertwin.gateway").warning("connection closed", reason=HOSTILE)
    line = capfd.readouterr().err
    assert not {"\x07", "\x9b", "\u202e", "\r"} & {*line}
    assert "gpj.exe" in line


def test_a_flood_of_equal_warnings_is_one_line_a_second() -> None:
    now = 0.0
    flood, kept = logs._Flood(lambda: now), []
    for _ in range(600):
        now += 0.01
        try:
            kept.append(flood(None, "warning", {"event": "connection closed"}))
        except structlog.DropEvent:
            continue
    assert logs.BURST + 4 <= len(kept) <= logs.BURST + 6
    assert 400 <= sum(each.get("left_out", 0) for each in kept) <= 600 - len(kept)
    assert flood(None, "warning", {"event": "another"}) == {"event": "another"}
    assert flood(None, "info", {"event": "connection closed"}) == {"event": "connection closed"}


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"])
def test_a_cell_is_no_formula(text: str) -> None:
    assert cell(text) == f"'{text}"
    file = io.StringIO()
    csv.writer(file).writerow([cell(text), cell(-1), cell("plain")])
    assert not file.getvalue().startswith(("=", "+", "-", "@"))
    assert file.getvalue().endswith("-1,plain\r\n")


def test_a_gateway_without_free_descriptors_logs_one_line(tmp_path: Path) -> None:
    """Asyncio reports each accept that fails, with a traceback unless a handler takes it."""
    program = """
import asyncio, errno
from brokertwin.cli import logs
from brokertwin.gateway.server import _log_fault
from brokertwin.settings import Settings
logs.configure(Settings(log_format="json"))
async def main():
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(_log_fault)
    for _ in range(1000):
        loop.call_exception_handler({
            "message": "socket.accept() out of system resource",
            "exception": OSError(errno.EMFILE, "Too many open files"),
        })
asyncio.run(main())
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert 1 <= len(lines) <= 2 * logs.BURST
    assert {line["error"] for line in lines} == {"[Errno 24] Too many open files"}
