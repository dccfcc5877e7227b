"""Every command of every page is typed, in the page's order, in a directory of its own."""

import gzip
import re
import shlex
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from typer.main import get_command

from brokerstream.cli.main import COMMANDS, app, load
from tests.support.certificates import Authority
from tests.support.documents import DOCUMENTS, Command, commands, inline, name_of
from tests.support.gateways import HOST
from tests.support.patience import PATIENCE_S
from tests.support.sources import ROOT
from tests.support.typed_commands import Reader, free_port

PAGES = {name_of(page): page for page in DOCUMENTS}
NOT_HERE = {"README.md", "CONTRIBUTING.md", "docs/operations.md"}
"""The README is typed by test_tour.py; the other two take too long or need a job with history."""

TYPED = [name for name, page in PAGES.items() if commands(page) and name not in NOT_HERE]
IN_A_CLONE = {"README.md", "CONTRIBUTING.md", "examples/README.md", "docker/README.md"}
"""Pages whose commands are typed in a clone; those of the others in an empty directory."""

OF_A_CLONE = (
    *("examples", "tests", "docker", "bench"),
    *("Makefile", "pyproject.toml", "setup.py", "constraints.txt"),
)
WITHOUT_KAFKA = {"CONTRIBUTING.md", "docker/README.md"}

MAKE = re.compile(r"make [a-z-]+")
"""They are what runs these tests: whether there are such targets is asked."""

DOCKER = re.compile(r"docker compose -f (\S+) up --build")
"""No docker here: the file has to be there; `tests` beside the image's steps look into it."""

PASSWORD = "wonder land\n"
ENTERED = {"brokerstream credentials add": PASSWORD * 2}


def substitutes(name: str, reader: Reader) -> dict[str, str]:
    """What stands in a page for what only its reader knows, and what the test puts there."""
    port = str(free_port())
    everywhere = {
        "KAFKA": reader.bootstrap,
        "HOST:9092": f"{HOST}:{port}",
        "0.0.0.0:9092": f"0.0.0.0:{port}",
        "localhost:9192": f"{HOST}:{port}",
        "localhost:19092": f"{HOST}:{port}",
        "broker.example.com:9093": f"localhost:{port}",
        "kafka-1:9092": reader.bootstrap,
        "FILE": "users.jsonl",
        "USER": "bob",
        "[--mechanism SCRAM-SHA-512]": "--mechanism SCRAM-SHA-512",
        "[--iterations 16384]": "--iterations 16384",
        ".venv/bin/": "",
        "localhost:PORT": reader.environment["BROKERSTREAM_BOOTSTRAP"] + f" {HOST}:{port}",
    }
    is_gateway = name in {"docs/gateway.md", "README.md"}
    return everywhere | {"localhost:9092": f"{HOST}:{port}" if is_gateway else reader.bootstrap}


def orders(reader: Reader) -> None:
    """A topic with a record."""
    connection = {"bootstrap.servers": reader.bootstrap}
    admin = AdminClient(connection)  # its futures fail when it is gone
    admin.create_topics([NewTopic("orders", 1, 1)])["orders"].result(PATIENCE_S)
    failed = []
    producer = Producer(connection)
    producer.produce("orders", b"one", on_delivery=lambda error, _: failed.append(error))
    assert producer.flush(PATIENCE_S) == 0
    assert failed == [None]


def request_log(reader: Reader) -> None:
    """What a real broker has logged, and its settings."""
    with gzip.open(ROOT / "tests/requestlogs/single/kafka-request.log.gz") as packed:
        (reader.directory / "kafka-request.log").write_bytes(packed.read())
    shutil.copy(ROOT / "tests/captures/broker.properties", reader.directory / "server.properties")


def key_store(reader: Reader) -> None:
    """The broker's key and certificate."""
    Authority().issue("broker").store(reader.directory / "broker.pem")


BEFORE: dict[str, Callable[[Reader], None]] = {
    "docs/capture.md": orders,
    "docs/ingest.md": request_log,
    "docs/security.md": key_store,
}
"""What the page's reader has already."""


@pytest.fixture
def reader(request: pytest.FixtureRequest, tmp_path: Path, name: str) -> Iterator[Reader]:
    bootstrap = "" if name in WITHOUT_KAFKA else request.getfixturevalue("kafka")
    directory = tmp_path / "here"
    directory.mkdir()
    if name in IN_A_CLONE:
        for each in OF_A_CLONE:
            (directory / each).symlink_to(ROOT / each)
    made = Reader(directory, tmp_path / "home", bootstrap)
    BEFORE.get(name, lambda _: None)(made)
    yield made
    made.close()


def type_page(reader: Reader, name: str) -> dict[str, str]:
    """Type all of a page; gives back what each command says."""
    said = {}
    found = substitutes(name, reader)
    for command in commands(PAGES[name]):
        text = command.text
        found["localhost:PORT"] = re.sub(
            r"^\S+", reader.environment["BROKERSTREAM_BOOTSTRAP"], found["localhost:PORT"]
        )
        for placeholder, value in found.items():
            text = text.replace(placeholder, value)
        if MAKE.fullmatch(text):
            said[command.text] = reader.types(command, f"{text} --dry-run")
        elif compose := DOCKER.fullmatch(text):
            assert (ROOT / compose[1]).is_file()
        elif text.startswith("pytest "):
            told = reader.types(command, f"{text} --collect-only --quiet")
            assert "collected" in told
            said[command.text] = told
        elif text == ". .venv/bin/activate":
            continue  # the reader has the programs on the path
        else:
            entered = next((ENTERED[start] for start in ENTERED if text.startswith(start)), "")
            said[command.text] = reader.types(command, text, entered)
    return said


@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.parametrize("name", [name for name in TYPED if name not in WITHOUT_KAFKA])
def test_every_command_of_a_page_does_what_it_should(reader: Reader, name: str) -> None:
    said = type_page(reader, name)
    assert said
    if name == "README.md":
        assert "orders" in said["brokerstream state logs"]
        assert "billing" in said["brokerstream state groups"]
        (replayed,) = (text for key, text in said.items() if key.startswith("brokerstream replay"))
        assert re.search(r"agree \d+ of \d+", replayed)


@pytest.mark.parametrize("name", [name for name in TYPED if name in WITHOUT_KAFKA])
def test_every_command_of_a_page_without_kafka_does_what_it_should(
    reader: Reader, name: str
) -> None:
    type_page(reader, name)


@pytest.mark.parametrize("command", [each for page in DOCUMENTS for each in inline(page)], ids=str)
def test_a_call_within_a_sentence_has_a_command_and_options_that_there_are(
    command: Command,
) -> None:
    words = [word for word in shlex.split(command.text)[1:] if word != "…"]
    assert words[0] in COMMANDS or words[0].startswith("-"), command
    found = get_command(app) if words[0].startswith("-") else load(words[0])
    below = getattr(found, "commands", {})
    if below and len(words) > 1:
        for name in words[1].split("|"):
            assert name in below, command
        found = below[words[1].split("|")[0]]
    options = {option for param in found.params for option in (*param.opts, *param.secondary_opts)}
    assert {word.partition("=")[0] for word in words if word.startswith("--")} <= options


def test_a_command_is_found_in_every_kind_of_block(tmp_path: Path) -> None:
    page = ROOT / "docs" / "none.md"
    text = (
        "```console\n$ brokerstream setup   # once\nfetched\n```\n\n"
        "    brokerstream run \\\n        --cluster a\n\n"
        "    frames -> codec\n\n```python\nmake = 1\n```\n"
    )
    file = tmp_path / page.name
    file.write_text(text)
    import tests.support.documents as documents

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(documents, "ROOT", tmp_path)
        found = [each.text for each in commands(file)]
    assert found == ["brokerstream setup", "brokerstream run --cluster a"]
