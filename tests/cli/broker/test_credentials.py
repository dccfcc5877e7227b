"""`brokertwin credentials`: users of a gateway, without their passwords."""

import json
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from brokertwin.cli.broker.credentials import app
from brokertwin.errors import UserError
from brokertwin.gateway.security import plain
from brokertwin.gateway.security.credentials import Credentials
from tests.support.console import called
from tests.support.patience import PATIENCE_S

PASSWORD = "correct horse, ünlike=any"
TIMEOUT_S = PATIENCE_S


def credentials(*words: str, text: str | bytes = "") -> "subprocess.CompletedProcess[bytes]":
    given = text.encode() if isinstance(text, str) else text
    return called("credentials", *words, given=given)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "users.jsonl"


def run(*words: str, text: str = "") -> str:
    result = CliRunner().invoke(app, [*words], input=text)
    if isinstance(result.exception, UserError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


def test_a_user_is_added_from_standard_input_and_gets_in(file: Path) -> None:
    done = credentials("add", str(file), "alice", text=f"{PASSWORD}\nnot this line\n")
    assert done.returncode == 0
    assert b"added alice with SCRAM-SHA-256 and SCRAM-SHA-512" in done.stderr
    assert PASSWORD.encode() not in done.stdout + done.stderr + file.read_bytes()
    assert plain.authenticate(Credentials(file), f"\0alice\0{PASSWORD}".encode()) == "alice"


def test_users_are_listed_changed_and_removed(file: Path) -> None:
    run("add", str(file), "alice", text="one")
    run("add", str(file), "bob", "--mechanism", "SCRAM-SHA-512", "--iterations", "4096", text="x")
    before = Credentials(file).find("alice", "SCRAM-SHA-512")
    run("add", str(file), "alice", "--mechanism", "SCRAM-SHA-256", text="two")
    listed = json.loads(run("list", str(file), "--json"))
    entries = {(each["user"], each["mechanism"], each["iterations"]) for each in listed}
    assert entries == {
        ("alice", "SCRAM-SHA-256", 16384),
        ("alice", "SCRAM-SHA-512", 16384),
        ("bob", "SCRAM-SHA-512", 4096),
    }
    assert "bob" in run("list", str(file))
    assert plain.authenticate(Credentials(file), b"\0alice\0two") == "alice"
    assert Credentials(file).find("alice", "SCRAM-SHA-512") == before
    run("remove", str(file), "alice", "--mechanism", "SCRAM-SHA-256")
    assert plain.authenticate(Credentials(file), b"\0alice\0one") == "alice"
    run("remove", str(file), "alice")
    assert {each["user"] for each in json.loads(run("list", str(file), "--json"))} == {"bob"}


def test_list_shows_no_salt_or_key(file: Path) -> None:
    run("add", str(file), "alice", text="one")
    entry = json.loads(file.read_text().splitlines()[0])
    shown = run("list", str(file)) + run("list", str(file), "--json")
    assert not any(entry[name] in shown for name in ("salt", "storedKey", "serverKey"))


@pytest.mark.parametrize(
    ("words", "text", "message"),
    [
        (("add", "FILE", "alice"), "", "A password must have at least one character"),
        (("add", "FILE", "alice"), b"\xff\n", "is not valid UTF-8"),
        (("add", "FILE", ""), "x", "A user name must have at least one character"),
        (("add", "FILE", "alice", "--iterations", "100"), "x", "Pass 4096 to 16384, as in Kafka."),
        (("add", "FILE", "alice", "--mechanism", "PLAIN"), "x", "SCRAM-SHA-512"),
        (("add", "FILE", "alice", "secret"), "", "unexpected extra argument"),
        (("remove", "FILE", "alice"), "", "does not exist"),
        (("list", "FILE"), "", "brokertwin credentials add"),
    ],
)
def test_invalid_credentials_are_refused_with_a_message(
    file: Path, words: tuple[str, ...], text: str | bytes, message: str
) -> None:
    real = [str(file) if word == "FILE" else word for word in words]
    result = CliRunner().invoke(app, real, input=text)
    output = result.output
    if isinstance(result.exception, UserError):
        output = f"{result.exception.message} {result.exception.hint}"
    assert result.exit_code != 0
    assert message in " ".join(output.replace("│", " ").split())
    assert not file.exists()


def test_remove_refuses_an_unknown_user(file: Path) -> None:
    run("add", str(file), "alice", "--mechanism", "SCRAM-SHA-256", text="x")
    with pytest.raises(UserError, match="has no user bob"):
        run("remove", str(file), "bob")
    with pytest.raises(UserError, match="has no user alice with SCRAM-SHA-512"):
        run("remove", str(file), "alice", "--mechanism", "SCRAM-SHA-512")
