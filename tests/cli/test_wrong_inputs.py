"""Every command over wrong files, addresses and logins: one sentence, exit code 2, no traceback."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from brokertwin.cli.main import app
from brokertwin.errors import UserError
from brokertwin.kafka_io import kafka_clients
from tests.support.sources import ROOT

LOG = ROOT / "examples" / "billing.kafka-request.log.gz"
OFFSETS = ROOT / "tests" / "consumer_offsets"
CHECKPOINTS = ROOT / "checkpoints.example"
FILES = {
    "missing": None,
    "empty": b"",
    "image.png": b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 20,
    "broken.gz": b"\x1f\x8b\x08\x00garbage",
    "cut.log.gz": LOG.read_bytes()[:900],
    "rows.parquet": next(OFFSETS.glob("*.parquet")).read_bytes(),
    "offsets.csv": b"g,t,0,1\n",
    "list.json": b"[1, 2]",
    "deep.json": b"[" * 100_000,
    "text.txt": b"hello\nworld\n",
    "latin.txt": "größe\n".encode("latin-1"),
}
DIRECTORIES = {"folder": None, "live": CHECKPOINTS / "live", "offsets": OFFSETS}
COMMANDS = [
    "audit FILE",
    "explain group g FILE",
    "ingest FILE",
    "replay FILE",
    "replay --compare FILE",
    "replication FILE",
    "page FILE",
    "query SQL FILE",
    "state groups --checkpoint FILE",
    "state --checkpoint FILE",
    "gc --checkpoint FILE",
    "snapshot list --snapshots FILE",
    "offsets show FILE",
    "offsets history FILE g",
    "offsets diff FILE 2020-01-01",
    "offsets verify FILE",
    "offsets export FILE --out out.csv",
    "offsets undo FILE localhost:1",
    "offsets show localhost:1 --kafka-config FILE",
    "credentials list FILE",
    "exam localhost:1 --baseline FILE",
    "exam-client --plan FILE -- true",
    "proxy localhost:1 --faults FILE",
    "gateway --broker-config FILE",
    "gateway --http-listen 0 --http-access FILE",
    "gateway --security-protocol SASL_PLAINTEXT --credentials FILE",
    "config show --config FILE",
    "send FILE --bootstrap localhost:1",
]
RIGHT = {
    ("query", "live"),
    ("offsets show", "offsets"),
    ("offsets history", "offsets"),
    ("offsets diff", "offsets"),
    ("offsets export", "offsets"),
    ("offsets verify", "offsets"),
    ("offsets show", "offsets.csv"),
    ("offsets export", "offsets.csv"),
    ("credentials list", "empty"),
    ("config show", "empty"),
    ("gateway --broker-config", "empty"),
    ("gateway --http-listen", "empty"),
    ("snapshot list", "missing"),
    ("snapshot list", "folder"),
    ("snapshot list", "live"),
    ("snapshot list", "offsets"),
}
"""Beginnings of commands, and files that are right for them."""


@pytest.fixture(autouse=True)
def without_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not wait for a broker that is not there."""
    monkeypatch.setattr(kafka_clients.check_reachable, "__defaults__", (0.0,))


def fails(*words: str) -> UserError | str:
    """Run a command; return its error. Any other exception is a traceback."""
    result = CliRunner().invoke(app, words)
    if isinstance(result.exception, UserError):
        error = result.exception
        assert error.message.rstrip("`").endswith((".", "?")), error.message
        assert "Traceback" not in str(error)
        assert len(error.message.splitlines()) == 1, error.message
        return error
    assert isinstance(result.exception, SystemExit), (words, result.exception, result.output)
    assert result.exit_code == 2, (words, result.output)
    return result.output


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", [*FILES, *DIRECTORIES])
def test_a_file_of_another_kind(
    command: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if any(command.startswith(begin) and name == right for begin, right in RIGHT):
        return
    monkeypatch.chdir(tmp_path)
    path = DIRECTORIES.get(name) or Path(name)
    content = FILES.get(name)
    if content is not None:
        path.write_bytes(content)
    elif name == "folder":
        path.mkdir()
    words = {"FILE": str(path), "SQL": "from groups"}
    fails(*(words.get(word, word) for word in command.split()))
    if content is not None:
        assert path.read_bytes() == content
    assert {each.name for each in tmp_path.iterdir()} <= {path.name, ".brokertwin"}


def test_the_files_of_a_directory_are_asked_for(tmp_path: Path) -> None:
    error = fails("audit", str(tmp_path))
    assert isinstance(error, UserError)
    assert error.hint == f"Name its files: {tmp_path}/*"


AT_ADDRESSES = [
    "offsets show ADDRESS",
    "offsets history ADDRESS g",
    "offsets import ADDRESS dir",
    "offsets shares ADDRESS",
    "offsets clean ADDRESS g",
    "offsets export offsets.csv --to ADDRESS",
    "exam ADDRESS --only fetch",
    "exam-client --bootstrap ADDRESS -- true",
    "capture ADDRESS --out c.jsonl",
    "proxy ADDRESS --control-listen 0",
    "consume t --bootstrap ADDRESS",
    "produce t --bootstrap ADDRESS",
    "dead-letters list --bootstrap ADDRESS",
    "send text.txt --bootstrap ADDRESS",
    "top ADDRESS",
]


@pytest.fixture
def inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("offsets.csv", "text.txt"):
        (tmp_path / name).write_bytes(FILES[name] or b"")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("command", AT_ADDRESSES)
@pytest.mark.parametrize("address", ["127.0.0.2:1", "localhost:1", "nohost", "localhost:99999"])
def test_an_address_without_a_broker(command: str, address: str, inputs: Path) -> None:
    error = str(fails(*command.replace("ADDRESS", address).split()))
    if address == "127.0.0.2:1":
        assert "kafka start" not in error, "no advice about this machine"


SASL = "bootstrap.servers=localhost:1\nsecurity.protocol=SASL_SSL\n"
LOGIN = 'sasl.jaas.config=x.Login required username="u" password="p";\n'
LOGINS = {
    "MAGIC": (SASL + "sasl.mechanism=MAGIC\n" + LOGIN, "Unsupported sasl.mechanism MAGIC"),
    "DIGEST-MD5": (SASL + "sasl.mechanism=DIGEST-MD5\n" + LOGIN, "Unsupported sasl.mechanism"),
    "GSSAPI": (SASL + "sasl.mechanism=GSSAPI\n" + LOGIN, "GSSAPI; supported are PLAIN"),
    "no mechanism": (SASL, "GSSAPI; supported are PLAIN"),
    "PLAIN without a user": (SASL + "sasl.mechanism=PLAIN\n", "needs username and password"),
    "a token from nowhere": (SASL + "sasl.mechanism=OAUTHBEARER\n", "SASL/OAUTHBEARER needs"),
    "a region from nowhere": (SASL + "sasl.mechanism=AWS_MSK_IAM\n", "names no AWS region"),
    "a protocol": ("bootstrap.servers=b:1\nsecurity.protocol=SSH\n", "Unknown security.protocol"),
    "no JAAS": (SASL + "sasl.mechanism=PLAIN\nsasl.jaas.config=?\n", "Could not parse"),
    "a number": ("request.timeout.ms=soon\nbootstrap.servers=localhost:1\n", ""),
}


@pytest.mark.parametrize("command", [each for each in AT_ADDRESSES if "top" not in each])
@pytest.mark.parametrize("login", LOGINS)
def test_a_login_that_no_client_can_do(
    command: str, login: str, inputs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_REGION", raising=False)
    text, message = LOGINS[login]
    (inputs / "client.properties").write_text(text)
    words = command.replace("ADDRESS", "localhost:1").split()
    at = words.index("--") if "--" in words else len(words)
    option = "--to-config" if "--to" in words else "--kafka-config"
    if command.startswith("exam-client"):
        return  # it has no properties: its adapter connects
    error = str(fails(*words[:at], option, "client.properties", *words[at:]))
    if command.startswith(("offsets", "dead-letters", "send")):  # others connect first
        assert message in error
    assert '"p"' not in error


@pytest.mark.parametrize("name", ["empty.json", "other.json"])
def test_a_file_of_another_command_is_not_undone(name: str, inputs: Path) -> None:
    (inputs / name).write_text(json.dumps({} if name == "empty.json" else {"cluster": 1}))
    assert "has no offsets to undo" in str(fails("offsets", "undo", name, "localhost:1"))
