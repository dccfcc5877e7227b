"""Messages on standard error have the configured form and level."""

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator

import pytest
import structlog

from brokertwin.cli import logs
from brokertwin.cli.output import say, show_error, warn
from brokertwin.errors import UserError
from brokertwin.settings import Settings
from tests.support.gateway_processes import gateway
from tests.support.gateways import Client
from tests.support.patience import PATIENCE_S

pytestmark = pytest.mark.processes

ESCAPE = "\x1b"
WARNING = "import structlog; structlog.get_logger().warning('w', n=1)"
PROGRAM = f"""
from brokertwin.cli.options import settings_of
from brokertwin.cli.output import say, warn
settings_of(None)
say("a step")
warn("a doubt")
{WARNING}
"""


@pytest.fixture
def as_before() -> Iterator[None]:
    before = structlog.get_config()
    yield
    logs.configure(Settings())
    structlog.configure(**before)


def output_of_a_process(**environment: str) -> str:
    """Return the messages of a process with redirected standard error."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        stderr=subprocess.PIPE,
        text=True,
        check=True,
        env={**os.environ, **environment},
    )
    return done.stderr


def output_in_a_terminal(**environment: str) -> str:
    """Return the messages of a process with a terminal as standard error."""
    ours, theirs = pty.openpty()
    plain = {name: text for name, text in os.environ.items() if name != "NO_COLOR"}
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stderr=theirs,
        env={**plain, "TERM": "xterm-256color", **environment},
    ) as process:
        assert process.wait(PATIENCE_S) == 0
    os.close(theirs)
    output = os.read(ours, 65536).decode()
    os.close(ours)
    return output


def test_redirected_lines_have_no_colours() -> None:
    output = output_of_a_process()
    assert ESCAPE not in output
    assert output.startswith("a step\nwarning: a doubt\n")
    assert "[warning  ] w" in output
    assert output.rstrip().endswith("n=1")


def test_a_terminal_shows_colours_unless_disabled() -> None:
    assert ESCAPE in output_in_a_terminal().partition("a doubt")[2]
    assert f"{ESCAPE}[3" not in output_in_a_terminal(NO_COLOR="1")


def test_lines_for_programs_are_documents() -> None:
    lines = output_of_a_process(BROKERTWIN_LOG_FORMAT="json").splitlines()
    documents = [json.loads(line) for line in lines]
    assert [(each["level"], each["event"]) for each in documents] == [
        ("info", "a step"),
        ("warning", "a doubt"),
        ("warning", "w"),
    ]
    assert all(each["timestamp"].endswith("Z") for each in documents)
    assert documents[2]["n"] == 1


@pytest.mark.parametrize("form", ["console", "json"])
@pytest.mark.parametrize(
    ("level", "shown"),
    [("debug", 4), ("info", 3), ("warning", 2), ("error", 1)],
)
@pytest.mark.usefixtures("as_before")
def test_the_level_is_heeded(
    form: str, level: str, shown: int, capsys: pytest.CaptureFixture[str]
) -> None:
    logs.configure(Settings.model_validate({"log_format": form, "log_level": level}))
    structlog.get_logger().debug("a detail")
    say("a step")
    warn("a doubt")
    show_error(UserError("an error"))
    assert len(capsys.readouterr().err.splitlines()) == shown


@pytest.mark.usefixtures("as_before")
def test_an_error_for_programs_has_its_hint(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(Settings(log_format="json"))
    show_error(UserError("It is so.", "Do that."))
    output = json.loads(capsys.readouterr().err)
    assert (output["level"], output["event"], output["hint"]) == ("error", "It is so.", "Do that.")


def test_the_local_gateway_logs_as_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROKERTWIN_LOG_FORMAT", "json")
    with gateway() as (process, addresses):
        with Client(addresses[1]) as client:
            client.send_bytes(b"\x7f\xff\xff\xff")
            assert client.is_closed()
        process.terminate()
        assert process.stderr is not None
        output = json.loads(process.stderr.readline())
    assert output["event"] == "connection closed"
    assert output["reason"].startswith("invalid frame size 2147483647")
    assert output["broker"] == 1
