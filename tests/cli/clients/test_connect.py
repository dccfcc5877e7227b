"""`brokertwin connect`, on a gateway."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from typer.testing import CliRunner

from brokertwin.cli.main import app
from brokertwin.errors import UserError
from tests.support.connect_commands import Files, properties
from tests.support.console import brokertwin
from tests.support.gateways import Running, running_gateway

NUMBERS = count(1)
SOURCE = {"name": "lines", "connector.class": "FileStreamSource", "file": "in.txt", "topic": "t"}


@pytest.fixture(scope="module")
def gateway() -> Iterator[Running]:
    with running_gateway({"group.initial.rebalance.delay.ms": "300"}) as running:
        yield running


@pytest.fixture
def files(gateway: Running, tmp_path: Path) -> Files:
    topic = f"copied{next(NUMBERS)}"
    with gateway.client() as client:
        client.topic(topic, 2)
    return Files(tmp_path, topic, gateway.bootstrap)


@pytest.mark.processes
def test_a_file_goes_to_a_topic_and_to_a_file_and_on_from_there(files: Files) -> None:
    files.grow(500)
    done = brokertwin(*files.words("--timeout", 1.5, "--show-threads"), COLUMNS=80)
    assert done.returncode == 0, done.stderr
    assert files.copied() == files.expected
    assert "lines-0: 500 lines" in done.stderr
    assert "A worker 1; · none, # several at once" in done.stderr
    assert max(map(len, done.stderr.splitlines())) <= 80
    files.grow(10)
    again = brokertwin(*files.words("--timeout", 1.5))
    assert "lines-0: 10 lines" in again.stderr
    assert files.copied() == files.expected


@pytest.mark.processes
def test_three_workers_share_the_tasks_and_draw_them(files: Files) -> None:
    files.grow(300)
    words = ("--worker", "distributed", "--workers", 3, "--timeout", 2, "--show-threads")
    done = brokertwin(*files.words(*words), COLUMNS=80)
    assert done.returncode == 0, done.stderr
    assert files.copied() == files.expected
    box = done.stderr.partition("╭─ worker 1")[2].partition("0.0")[0]
    assert sorted(word for word in box.split() if word.startswith(("copy", "lines"))) == [
        *("copy", "copy-0", "copy-1", "lines", "lines-0"),
    ]
    assert "A worker 1, B worker 2, C worker 3" in done.stderr


@pytest.mark.processes
def test_a_source_that_has_nothing_to_read_is_at_rest_too(gateway: Running, tmp_path: Path) -> None:
    made = Files(tmp_path, "nothing", gateway.bootstrap, exactly_once_source_support="enabled")
    done = brokertwin(*made.words("--worker", "distributed", "--timeout", 1))
    assert (done.returncode, "lines-0: 0 lines" in done.stderr) == (0, True), done.stderr


@pytest.mark.processes
def test_failed_task_is_reported(files: Files) -> None:
    files.grow(3)
    files.copy.mkdir()
    done = brokertwin(*files.words("--timeout", 1))
    assert done.returncode == 1
    assert "copy-0 failed: IsADirectoryError" in done.stderr
    assert "lines-0: 3 lines" in done.stderr


@pytest.mark.parametrize(
    ("changes", "words", "message"),
    [
        ({"connector.class": "JdbcSource"}, (), "FileStreamSource and FileStreamSink are known"),
        ({"file": ""}, (), "lines has no file."),
        ({}, ("--workers", "2"), "A standalone worker has no group"),
        ({}, ("lines.properties",), "Several connectors have the name lines."),
        ({}, ("one", "two"), "Several property files have no connector.class"),
        ({}, ("slow",), "heartbeat.interval.ms must be below session.timeout.ms."),
        ({}, ("--kafka-config", "secured"), "Unsupported sasl.mechanism GSSAPI"),
    ],
)
def test_topology_errors_are_reported(
    gateway: Running,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    changes: dict[str, str],
    words: tuple[str, ...],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    properties(tmp_path / "lines.properties", {**SOURCE, **changes})
    properties(tmp_path / "one", {"group.id": "one"})
    properties(tmp_path / "two", {"group.id": "two"})
    properties(tmp_path / "slow", {"heartbeat.interval.ms": "20000"})
    secured = {"security.protocol": "SASL_SSL", "bootstrap.servers": gateway.bootstrap}
    properties(tmp_path / "secured", secured)
    boot = () if "secured" in words else ("--bootstrap", gateway.bootstrap)
    done = CliRunner().invoke(app, ["connect", *boot, "lines.properties", *words])
    assert isinstance(done.exception, UserError)
    assert str(done.exception).startswith(message) or message in str(done.exception)
