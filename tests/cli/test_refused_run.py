"""`run` with arguments that cannot be: refused in one sentence, before Java starts, with code 2."""

import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.console import brokertwin

NO_JAVA = {"JAVA_HOME": "/nonexistent"}
NOBODY = "127.0.0.1:1"


def refused(directory: Path, *words: str, **environment: str) -> list[str]:
    """The lines that `brokertwin run` says when it ends with 2; its directory is `directory`."""
    environment = {"BROKERTWIN_HOME": str(directory / "home"), **environment}
    done = brokertwin("run", "--bootstrap", NOBODY, *words, cwd=directory, **environment)
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    return done.stderr.splitlines()


@pytest.fixture
def taken() -> Iterator[int]:
    """A port at which somebody listens."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        yield int(server.getsockname()[1])


def test_a_master_that_is_none(tmp_path: Path) -> None:
    [message, _] = refused(tmp_path, "--master", "sprk://host:7077", **NO_JAVA)
    assert message.startswith("master = 'sprk://host:7077' (flag): Spark takes local[N], local[*]")


def test_a_master_where_nobody_listens(tmp_path: Path) -> None:
    [message, hint] = refused(tmp_path, "--master", f"spark://{NOBODY}", **NO_JAVA)
    assert message == (
        f"The Spark master spark://{NOBODY} does not answer ({NOBODY}: Connection refused)."
    )
    assert hint == "Is it running, and is --master right?"


def test_yarn_without_its_configuration(tmp_path: Path) -> None:
    nowhere = {"HADOOP_CONF_DIR": "", "YARN_CONF_DIR": ""}
    [message, hint] = refused(tmp_path, "--master", "yarn", **nowhere, **NO_JAVA)
    assert message == "The Spark master yarn needs YARN's configuration."
    assert "HADOOP_CONF_DIR" in hint


def test_a_machine_without_java(tmp_path: Path) -> None:
    [message] = refused(tmp_path, **NO_JAVA)
    assert message.startswith("brokertwin needs a Java 17 or newer runtime")
    assert not (tmp_path / "home").exists()


def test_a_port_to_be_watched_at_that_is_taken(tmp_path: Path, taken: int) -> None:
    for at in (f"{taken}", f"127.0.0.1:{taken}"):
        [message, hint] = refused(tmp_path, "--http-listen", at, **NO_JAVA)
        assert message == f"--http-listen {at}: Address already in use."
        assert hint == "Choose another port, or 0 for any that is free."


@pytest.mark.parametrize(
    ("at", "message"),
    [
        ("99999", "--http-listen 99999: expected [HOST:]PORT."),
        ("-1", "--http-listen -1: expected [HOST:]PORT."),
        (":9404", "--http-listen :9404: expected [HOST:]PORT."),
        ("192.0.2.1:9404", "--http-listen 192.0.2.1:9404: Cannot assign requested address."),
    ],
)
def test_an_address_to_be_watched_at_that_cannot_be(tmp_path: Path, at: str, message: str) -> None:
    assert refused(tmp_path, "--http-listen", at, **NO_JAVA)[0] == message


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "--follow-offsets has no directory."),
        (
            ("--follow-into", "backup", "--available-now"),
            "--follow-offsets goes on and --available-now ends.",
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
    [message, hint] = refused(tmp_path, "--checkpoint", str(file))
    assert message == f"The checkpoint {file} is a file; it has to be a directory."
    assert hint == "Choose another --checkpoint."
    assert file.read_text() == "mine"


def test_a_checkpoint_that_cannot_be_written(tmp_path: Path) -> None:
    """Below /proc nobody makes a directory, root neither."""
    [message, _] = refused(tmp_path, "--checkpoint", "/proc/checkpoint")
    assert message.startswith("The checkpoint /proc/checkpoint cannot be written: ")


def test_a_directory_that_is_no_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpeg").write_text("mine")
    [message, hint] = refused(tmp_path, "--checkpoint", str(tmp_path / "photos"))
    assert message == (
        f"{tmp_path}/photos is a directory with other files, but none of brokertwin's."
    )
    assert hint.startswith("Choose another --checkpoint")
    assert [path.name for path in (tmp_path / "photos").iterdir()] == ["cat.jpeg"]


def test_a_misspelt_variable(tmp_path: Path) -> None:
    assert refused(tmp_path, BROKERTWIN_CELS="4", **NO_JAVA) == [
        "BROKERTWIN_CELS in the environment is no setting.",
        "Did you mean BROKERTWIN_CELLS?",
    ]


def test_checks_of_records_that_are_not_written(tmp_path: Path) -> None:
    checked = ("--check-every", "1 minute", "--check-on", "snapshot,records")
    for words in ((), ("--no-records",), ("--no-records", "--brokers", "2", "--cells", "2")):
        [message, hint] = refused(tmp_path, *checked, *words)
        assert message == "The checks are to look at records, and the job writes none."
        assert hint.startswith("Start the job with --records")
