"""`run` with arguments that cannot be: refused in one sentence, before Java starts, with code 2."""

import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.console import brokertwin

NO_JAVA = {"JAVA_HOME": "/nonexistent"}
NOBODY = "127.0.0.1:1"
NOW = "--available-now"
"""The checkpoint is checked before Java, which a job without new events does not need."""


def refused(directory: Path, *words: str, **environment: str) -> list[str]:
    """Return the lines of a `brokertwin run` in `directory` that ends with exit code 2."""
    environment = {"BROKERTWIN_HOME": str(directory / "home"), **environment}
    done = brokertwin("run", "--bootstrap", NOBODY, *words, cwd=directory, **environment)
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    return done.stderr.splitlines()


@pytest.fixture
def taken() -> Iterator[int]:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        yield int(server.getsockname()[1])


def test_a_master_that_is_none(tmp_path: Path) -> None:
    [message, _] = refused(tmp_path, "--master", "sprk://host:7077", **NO_JAVA)
    assert message.startswith(
        "Invalid value of master: 'sprk://host:7077' (from flag): expected local[N]"
    )


def test_unreachable_spark_master_is_reported(tmp_path: Path) -> None:
    [message, hint] = refused(tmp_path, "--master", f"spark://{NOBODY}", **NO_JAVA)
    assert message == (
        f"The Spark master spark://{NOBODY} did not respond ({NOBODY}: Connection refused)."
    )
    assert hint == "Check that it is running, and check --master."


def test_yarn_without_its_configuration(tmp_path: Path) -> None:
    nowhere = {"HADOOP_CONF_DIR": "", "YARN_CONF_DIR": ""}
    [message, hint] = refused(tmp_path, "--master", "yarn", **nowhere, **NO_JAVA)
    assert message == "The Spark master yarn requires YARN's configuration."
    assert "HADOOP_CONF_DIR" in hint


def test_a_machine_without_java(tmp_path: Path) -> None:
    [message] = refused(tmp_path, **NO_JAVA)
    assert message.startswith("brokertwin needs a Java 17 or newer runtime")
    assert not (tmp_path / "home").exists()


def test_a_port_to_be_watched_at_that_is_taken(tmp_path: Path, taken: int) -> None:
    for at in (f"{taken}", f"127.0.0.1:{taken}"):
        [message, hint] = refused(tmp_path, "--http-listen", at, **NO_JAVA)
        assert message == f"Cannot listen on --http-listen {at}: Address already in use."
        assert hint == "Choose another port, or 0 for any free port."


@pytest.mark.parametrize(
    ("at", "message"),
    [
        ("99999", "Invalid value of --http-listen: '99999'."),
        ("-1", "Invalid value of --http-listen: '-1'."),
        (":9404", "Invalid value of --http-listen: ':9404'."),
        (
            "192.0.2.1:9404",
            "Cannot listen on --http-listen 192.0.2.1:9404: Cannot assign requested address.",
        ),
    ],
)
def test_an_address_to_be_watched_at_that_cannot_be(tmp_path: Path, at: str, message: str) -> None:
    assert refused(tmp_path, "--http-listen", at, **NO_JAVA)[0] == message


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "--follow-offsets requires --follow-into."),
        (
            ("--follow-into", "backup", "--available-now"),
            "Cannot combine --follow-offsets with --available-now.",
        ),
    ],
)
def test_what_follows_offsets_needs_a_directory_and_time(
    tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    assert refused(tmp_path, "--follow-offsets", NOBODY, *words, **NO_JAVA)[0] == message


def test_a_checkpoint_that_is_a_file(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    [message, hint] = refused(tmp_path, "--checkpoint", str(file), NOW, **NO_JAVA)
    assert message == f"--checkpoint {file} is a file."
    assert hint == "Pass a directory."
    assert file.read_text() == "mine"


def test_a_checkpoint_that_cannot_be_written(tmp_path: Path) -> None:
    """No user can create a directory below /proc, not even root."""
    [message, _] = refused(tmp_path, "--checkpoint", "/proc/checkpoint", NOW, **NO_JAVA)
    assert message.startswith("Cannot write to the checkpoint /proc/checkpoint: ")


def test_a_directory_that_is_no_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpeg").write_text("mine")
    [message, hint] = refused(tmp_path, "--checkpoint", str(tmp_path / "photos"), NOW, **NO_JAVA)
    assert message == (
        f"--checkpoint {tmp_path}/photos is a directory with other files, but not a checkpoint of"
        " brokertwin."
    )
    assert hint.startswith("Pass an empty directory")
    assert [path.name for path in (tmp_path / "photos").iterdir()] == ["cat.jpeg"]


def test_a_misspelt_variable(tmp_path: Path) -> None:
    assert refused(tmp_path, BROKERTWIN_CELS="4", **NO_JAVA) == [
        "Unknown setting BROKERTWIN_CELS in the environment.",
        "Did you mean BROKERTWIN_CELLS?",
    ]


def test_checks_of_records_that_are_not_written(tmp_path: Path) -> None:
    checked = ("--check-every", "1 minute", "--check-on", "snapshot,records")
    for words in ((), ("--no-records",), ("--no-records", "--brokers", "2", "--cells", "2")):
        [message, hint] = refused(tmp_path, *checked, *words)
        assert message == "Cannot check records, because the job does not write them."
        assert hint.startswith("Add --records")
