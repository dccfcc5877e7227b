"""Types every command of every page, in the page's order, in a new directory."""

import gzip
import importlib.util
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from typer.main import get_command

from brokertwin.cli.main import COMMANDS, app, load
from brokertwin.kafka_io import topics
from brokertwin.kafka_io.kafka_clients import ClientProperties, client_properties
from brokertwin.offsets import restore
from brokertwin.settings import load as load_settings
from tests.support.certificates import Authority
from tests.support.commits import commit
from tests.support.documents import (
    DOCUMENTS,
    Command,
    commands,
    inline,
    name_of,
    outputs,
    plain,
    the_command,
)
from tests.support.gateways import HOST
from tests.support.patience import PATIENCE_S
from tests.support.requestlogs import logs_of
from tests.support.sources import ROOT
from tests.support.typed_commands import Reader, free_port

PAGES = {name_of(page): page for page in DOCUMENTS if commands(page)}


IN_A_CLONE = {
    *("docs/explain.md", "docs/audit.md", "docs/query.md", "docs/clients.md"),
    *("README.md", "docs/CONTRIBUTING.md", "examples/README.md"),
    "checkpoints.example/README.md",
    *("docs/tutorials/audit-a-request-log.md", "docs/tutorials/run-the-job.md"),
}
"""Pages whose commands are typed in a clone; those of the others in an empty directory."""

OF_A_CLONE = (
    *("examples", "tests", "docker", "bench", "brokertwin", "state", "checkpoints.example"),
    *("Makefile", "pyproject.toml", ".ci/constraints.txt"),
)
WITHOUT_KAFKA = {
    *("docs/CONTRIBUTING.md", "docs/audit.md", "docs/explain.md", "docs/systems/replication.md"),
    "checkpoints.example/README.md",
    "docs/testing.md",
    *("docs/watching.md", "docs/query.md", "docs/settings.md"),
    "docs/tutorials/audit-a-request-log.md",
    "docs/tutorials/move-offsets.md",
    "docs/tutorials/test-a-client.md",
}


OF_A_WHOLE_CLUSTER = {"docs/offsets.md"}
"""Pages whose commands speak of all groups of a cluster, those that other tests leave as well."""


class Elsewhere(NamedTuple):
    """Commands that are not typed here: the reason, the file with their test, and a text in it."""

    why: str
    file: str
    names: str


NOT_TYPED = {
    ". .venv/bin/activate": Elsewhere(
        "the reader has the path", "tests/support/typed_commands.py", "activate"
    ),
    '.venv/bin/pytest -k sequence -m "not spark and not kafka"': Elsewhere(
        "they are tests of this run", "tests/state/logs/test_producer.py", "sequence"
    ),
    "docker compose -f docker/compose.yaml up --build": Elsewhere(
        "no docker", "tests/test_docker.py", "compose.yaml"
    ),
    **{
        the_command(
            "docker/README.md", f"docker compose -f docker/compose.yaml exec {words}"
        ).text: Elsewhere("no docker", "tests/test_docker.py", word)
        for words, word in (
            ("job brokertwin query", "compose.yaml"),
            ("job brokertwin check", "check"),
            ("live brokertwin explain", "explain"),
        )
    },
    "python3 -m venv .venv && . .venv/bin/activate": Elsewhere(
        "the reader has the path", "tests/support/typed_commands.py", "activate"
    ),
    "pip install '.[mcp,query]'": Elsewhere("packages come from an index", "pyproject.toml", "mcp"),
    "pip install -q -c .ci/constraints.txt .": Elsewhere(
        "packages come from an index", "Makefile", "-c .ci/constraints.txt"
    ),
    "brokertwin exam localhost:9193 --only idem_": Elsewhere(
        "a broker of the reader", "tests/cli/broker/test_exam.py", "exam"
    ),
    **{
        command.text: Elsewhere("it takes minutes to hours", "Makefile", command.text.split()[1])
        for command in commands(ROOT / "docs/CONTRIBUTING.md")
        if command.text.startswith("make ")
    },
    "make first-hour": Elsewhere("half an hour", "tests/first_hour.py", "first-hour"),
    "make setup": Elsewhere("its test types it", "tests/cli/test_setup.py", "make setup"),
    **{
        the_command("docs/offsets.md", start).text: Elsewhere(
            "it reads until it is stopped", "tests/cli/offsets/test_offsets.py", "pasted.txt"
        )
        for start in ("kafka-console-consumer.sh", "brokertwin offsets history pasted.txt")
    },
    **{
        command.text: Elsewhere("a broker of the reader", "tests/cli/broker/test_exam.py", "exam")
        for command in commands(ROOT / "docs/exam.md")
    },
    **{
        command.text: Elsewhere(
            "a violation ends with code 1", "tests/cli/broker/test_explore.py", "explore"
        )
        for page in ("docs/explore.md", "docs/explore_models.md")
        for command in commands(ROOT / page)
    },
    "make exam-record": Elsewhere("minutes", "tests/testing/exam/test_scenarios.py", "exam"),
    the_command("docs/clusters.md", "spark-submit").text: Elsewhere(
        "a standalone cluster", "tests/streaming/job/test_cluster.py", "spark-submit"
    ),
    the_command("docs/clusters.md", "brokertwin run --master spark").text: Elsewhere(
        "a standalone cluster", "tests/streaming/job/test_cluster.py", "brokertwin run"
    ),
    **{
        the_command("docs/capture.md", f"brokertwin {words}").text: Elsewhere(
            "recordings of two days", file, word
        )
        for words, file, word in (
            ("replay monday", "tests/cli/recordings/test_replay.py", "--keep"),
            ("replay tuesday", "tests/cli/recordings/test_replay.py", "--from"),
            (
                "replay state producers --from tuesday",
                "tests/cli/recordings/test_replay.py",
                "--from",
            ),
            ("replay diff monday", "tests/cli/recordings/test_replay.py", "diff"),
            ("state groups --ch", "tests/cli/recordings/test_replay.py", "--checkpoint"),
        )
    },
    "make site": Elsewhere("its test builds it", "tests/test_site.py", "site"),
}
"""All else is typed."""

TYPED = {
    name: texts
    for name, page in PAGES.items()
    if (texts := {each.text for each in commands(page)} - NOT_TYPED.keys())
}
"""Typed commands by page."""

PASSWORD = "wonder land\n"
ENTERED = {"brokertwin credentials add": PASSWORD * 2}


def substitutes(name: str, reader: Reader) -> dict[str, str]:
    """Return user-specific placeholders of a page and their values in the test."""
    port = str(free_port(brokers=3))
    everywhere = {
        "KAFKA": reader.bootstrap,
        "HOST:9092": f"{HOST}:{port}",
        "0.0.0.0:9092": f"0.0.0.0:{port}",
        "localhost:9192": f"{HOST}:{port}",
        "localhost:9292": f"{HOST}:{int(port) + 1}",
        "localhost:19092": f"{HOST}:{port}",
        "broker.example.com:9093": f"localhost:{port}",
        "kafka-1:9092": reader.bootstrap,
        "kafka-2:9092": reader.bootstrap,
        "FILE": "users.jsonl",
        "USER": "bob",
        "[--mechanism SCRAM-SHA-512]": "--mechanism SCRAM-SHA-512",
        "[--iterations 16384]": "--iterations 16384",
        ".venv/bin/": "",
        "HOST:PORT": reader.bootstrap,
        "9404": str(free_port()),
        "localhost:PORT": reader.environment["BROKERTWIN_BOOTSTRAP"] + f" {HOST}:{port}",
    }
    is_gateway = name in {"docs/gateway.md", "docs/watching.md", "README.md"}
    return everywhere | {"localhost:9092": f"{HOST}:{port}" if is_gateway else reader.bootstrap}


def orders(reader: Reader) -> None:
    connection = {"bootstrap.servers": reader.bootstrap}
    admin = AdminClient(connection)  # its futures fail when it is gone
    with suppress(KafkaException):  # another page's reader has it already
        admin.create_topics([NewTopic("orders", 1, 1)])["orders"].result(PATIENCE_S)
    failed = []
    producer = Producer(connection)
    producer.produce("orders", b"one", on_delivery=lambda error, _: failed.append(error))
    assert producer.flush(PATIENCE_S) == 0
    assert failed == [None]


def committed_offsets(reader: Reader) -> None:
    orders(reader)
    commit(reader.bootstrap, "billing", "orders", 1)
    saved = reader.directory / "offsets-before-20261128T221500000000Z.json"
    client = ClientProperties({"bootstrap.servers": reader.bootstrap})
    restore.save(saved, client, [restore.Change("billing", "orders", 0, 0, 1)])


def request_log(reader: Reader) -> None:
    with gzip.open(ROOT / "tests/requestlogs/single/kafka-request.log.gz") as packed:
        (reader.directory / "kafka-request.log").write_bytes(packed.read())
    shutil.copy(ROOT / "tests/captures/broker.properties", reader.directory / "server.properties")


def cluster_logs(reader: Reader) -> None:
    for log in logs_of("follower_stop"):
        shutil.copy(log, reader.directory)


def key_store(reader: Reader) -> None:
    Authority().issue("broker").store(reader.directory / "broker.pem")


def refused_event(reader: Reader) -> None:
    """An event that becomes a dead letter, and a micro-batch with it."""
    settings = load_settings({"bootstrap": reader.bootstrap, "prefix": reader.prefix}).settings
    topics.prepare(client_properties(settings), settings)
    producer = Producer({"bootstrap.servers": reader.bootstrap})
    producer.produce(topics.full_name(reader.prefix, topics.REQUESTS), b"nonsense", partition=0)
    assert producer.flush(PATIENCE_S) == 0


def saved_modules(page: str) -> Callable[[Reader], None]:
    """Return a setup that saves the page's Python blocks under the names in the page."""

    def save(reader: Reader) -> None:
        text = (ROOT / page).read_text(encoding="utf-8")
        found = re.findall(r"`(\w+\.py)`:\n\n```python\n(.*?)```", text, re.DOTALL)
        assert found
        for name, code in found:
            (reader.directory / name).write_text(code, encoding="utf-8")

    return save


BEFORE: dict[str, Callable[[Reader], None]] = {
    "README.md": saved_modules("README.md"),
    "docs/capture.md": orders,
    "docs/clients.md": orders,
    "docs/ingest.md": request_log,
    "docs/offsets.md": committed_offsets,
    "docs/runbook.md": refused_event,
    "docs/security.md": key_store,
    "docs/systems/replication.md": cluster_logs,
    "docs/tutorials/test-a-client.md": saved_modules("docs/tutorials/test-a-client.md"),
}
"""Set-up of files that a page's reader already has."""


@pytest.fixture
def reader(request: pytest.FixtureRequest, tmp_path: Path, name: str) -> Iterator[Reader]:
    broker = "own_kafka" if name in OF_A_WHOLE_CLUSTER else "kafka"
    bootstrap = "" if name in WITHOUT_KAFKA else request.getfixturevalue(broker)
    directory = tmp_path / "here"
    directory.mkdir()
    if name in IN_A_CLONE:
        for each in OF_A_CLONE:
            (directory / each).parent.mkdir(exist_ok=True)
            (directory / each).symlink_to(ROOT / each)
    made = Reader(directory, tmp_path / "home", bootstrap)
    BEFORE.get(name, lambda _: None)(made)
    yield made
    made.close()


def type_page(reader: Reader, name: str) -> dict[str, str]:
    """Type all commands of a page; return the output of each."""
    fields = {}
    found = substitutes(name, reader)
    for command in commands(PAGES[name]):
        if command.text in NOT_TYPED:
            continue
        text = command.text
        found["localhost:PORT"] = re.sub(
            r"^\S+", reader.environment["BROKERTWIN_BOOTSTRAP"], found["localhost:PORT"]
        )
        for placeholder, value in found.items():
            text = text.replace(placeholder, value)
        entered = next((ENTERED[start] for start in ENTERED if text.startswith(start)), "")
        fields[command.text] = reader.types(command, text, entered)
    return fields


@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.parametrize("name", [name for name in TYPED if name not in WITHOUT_KAFKA])
def test_commands_of_a_page_succeed(reader: Reader, name: str) -> None:
    output = type_page(reader, name)
    assert output.keys() == TYPED[name]
    if name == "README.md":
        assert re.search(r"(?m)^agree 11 of 11$", output["brokertwin replay --job --compare"])
        assert "1 passed" in output["pytest -q test_orders.py"]
        assert (
            "requests 11, responses 11"
            in output["brokertwin run --available-now --event-time recorded"]
        )
    if name == "docs/tutorials/run-the-job.md":
        assert "orders" in output["brokertwin state logs"]
        assert "by hand" in output["brokertwin state offsets --checkpoint restored"]


OF_RECORDINGS = {
    *("docs/audit.md", "docs/explain.md", "docs/tutorials/audit-a-request-log.md"),
}
"""Pages whose outputs are the same each time."""


@pytest.mark.processes
@pytest.mark.parametrize("name", [name for name in TYPED if name in WITHOUT_KAFKA])
def test_commands_of_a_page_without_kafka_succeed(reader: Reader, name: str) -> None:
    """They print what the page shows, if that is the same each time."""
    found = type_page(reader, name)
    assert found.keys() == TYPED[name]
    if name == "docs/tutorials/move-offsets.md":
        assert " back " in found["brokertwin offsets history backup billing --change back"]
    for texts, shown in outputs(PAGES[name]) if name in OF_RECORDINGS else ():
        printed = plain(" ".join(found[text] for text in texts if text in found))
        assert [words for words in shown if printed and words not in printed] == [], texts


@pytest.mark.parametrize("text", NOT_TYPED)
def test_untyped_commands_are_in_a_page_and_tested_elsewhere(text: str) -> None:
    assert text in {each.text for page in PAGES.values() for each in commands(page)}
    _, file, names = NOT_TYPED[text]
    assert names in text
    assert names in (ROOT / file).read_text(encoding="utf-8")
    if text.startswith("make "):
        subprocess.run([*shlex.split(text), "--dry-run"], cwd=ROOT, check=True, capture_output=True)


PLAIN = {
    ". .venv/bin/activate",
    "docker compose -f docker/compose.yaml down --volumes",
    "docker compose logs",
    "pre-commit install",
    ".venv/bin/pytest --markers",
}
"""Calls of other programs that need no check."""

WITHIN = [each for page in DOCUMENTS for each in inline(page)]
OURS = {
    each.text: each
    for each in (*WITHIN, *(each for page in DOCUMENTS for each in commands(page)))
    if each.text.startswith("brokertwin ")
}
"""Each once: pages that are made say the same."""


@pytest.mark.parametrize("command", OURS.values(), ids=str)
def test_calls_use_existing_commands_and_options(command: Command) -> None:
    """Those that no test types, too; former names of options are not for documents."""
    words = [word for word in shlex.split(command.text)[1:] if word != "…"]
    words = words[: words.index("--")] if "--" in words else words
    if not words:
        return
    assert words[0] in COMMANDS or words[0].startswith("-"), command
    both = " ".join(words[:2])
    name = both if both in COMMANDS else words[0]
    found = get_command(app) if name.startswith("-") else load(name)
    below = getattr(found, "commands", {})
    if below and len(words) > 1:
        names = words[1].split("|")
        assert set(names) <= below.keys(), command
        found = below[names[0]]
    options = {option for param in found.params for option in (*param.opts, *param.secondary_opts)}
    options.add("--help")
    assert {word.partition("=")[0] for word in words if word.startswith("--")} <= options


@pytest.mark.processes
@pytest.mark.parametrize("command", [each for each in WITHIN if each.text not in OURS], ids=str)
def test_another_program_within_a_sentence_is_given_what_there_is(command: Command) -> None:
    """Targets of make, modules, scripts with their options, extras of the package."""
    program, *words = shlex.split(command.text)
    if program == "make":
        subprocess.run([program, *words, "--dry-run"], cwd=ROOT, check=True, capture_output=True)
    elif program == "pip":
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        assert set(re.findall(r"\[(\w+)\]", words[-1])) <= project["optional-dependencies"].keys()
    elif program.endswith("python") and words[0] == "-m":
        assert importlib.util.find_spec(words[1]) is not None
    elif program.endswith("python") and words[0].startswith("examples/"):
        assert (ROOT / words[0]).is_file()
    elif program.endswith("python"):
        known = subprocess.run(
            [sys.executable, words[0], "--help"], cwd=ROOT, capture_output=True, text=True
        )
        assert known.returncode == 0, known.stderr
        assert {word for word in words if word.startswith("--")} <= set(known.stdout.split())
    else:
        assert command.text in PLAIN or "kafka-" in program or program == "spark-submit"


def test_a_command_is_found_in_every_kind_of_block(tmp_path: Path) -> None:
    page = ROOT / "docs" / "none.md"
    text = (
        "```console\n$ brokertwin setup   # once\nfetched\n```\n\n"
        "    brokertwin run \\\n        --cluster a\n\n"
        "    frames -> codec\n\n```python\nmake = 1\n```\n"
    )
    file = tmp_path / page.name
    file.write_text(text)
    import tests.support.documents as documents

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(documents, "ROOT", tmp_path)
        found = [each.text for each in commands(file)]
    assert found == ["brokertwin setup", "brokertwin run --cluster a"]
