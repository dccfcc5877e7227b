"""Commands never replace a file without --force, and never leave half of one."""

import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from brokertwin.cli.files import check_new, writing
from brokertwin.errors import UserError
from brokertwin.gateway.capture.sinks import FileSink
from brokertwin.gateway.engine.disk import Disk
from brokertwin.testing import KafkaBroker
from tests.support.console import brokertwin
from tests.support.sources import ROOT

RECORDED = ROOT / "tests" / "consumer_offsets"
LOG = ROOT / "examples" / "billing.kafka-request.log.gz"
WRITING = [
    ("offsets", "export", RECORDED, "--out", "FILE"),
    ("offsets", "export", RECORDED, "--parquet", "FILE"),
    ("page", LOG, "-o", "FILE"),
    ("ingest", LOG, "--out", "FILE"),
    ("replication", LOG, "--plot", "FILE.svg"),
    ("query", "from groups", LOG, "--parquet", "FILE"),
    ("exam", "localhost:1", "--out", "FILE"),
    ("replay", "records", "FILE"),
    ("audit", LOG, "--html", "FILE"),
    ("ingest", LOG, "--out", "/dev/null", "--dead-letters", "FILE"),
    ("capture", "localhost:1", "--out", "FILE"),
    ("proxy", "localhost:1", "--control", 0, "--out", "FILE"),
    ("explore", "torn-transaction-v1", "--svg", "FILE"),
    ("demo", "--svg", "FILE"),
]
EXAM_FILES = ("out", "junit", "html", "sarif", "card")
IN_FOLDERS = [
    ("simulate", "--seed", 1, "--logs", "FOLDER"),
    ("state", "--checkpoint-files", "FOLDER"),
]


@pytest.mark.parametrize("words", WRITING, ids=lambda words: f"{words[0]} {words[-2]}")
def test_a_file_that_exists_needs_force(words: tuple[object, ...], tmp_path: Path) -> None:
    name = str(words[-1])
    (tmp_path / name).write_text("kept")
    done = brokertwin(*words, cwd=tmp_path)
    assert (done.returncode, (tmp_path / name).read_text()) == (2, "kept"), done.stderr
    assert "exist" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == [name]
    folder = tmp_path / "no"
    folder.mkdir()
    (folder / name).mkdir()
    done = brokertwin(*words[:-1], folder / name, cwd=tmp_path)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("words", IN_FOLDERS, ids=lambda words: words[0])
def test_a_folder_with_files_needs_force(words: tuple[object, ...], tmp_path: Path) -> None:
    (tmp_path / "FOLDER").mkdir()
    (tmp_path / "FOLDER" / "kept").touch()
    done = brokertwin(*words, cwd=tmp_path)
    assert (done.returncode, "FOLDER exists and is not empty" in done.stderr) == (2, True)


FAILING = [
    ("offsets", "export", "missing", "--out", "FILE"),
    ("offsets", "export", "missing", "--parquet", "FILE"),
    ("page", "missing", "-o", "FILE"),
    ("ingest", "missing", "--out", "FILE"),
    ("ingest", "missing", "--out", "/dev/null", "--dead-letters", "FILE"),
    ("replication", "missing", "--plot", "FILE"),
    ("query", "from groups", "missing", "--parquet", "FILE"),
    ("query", "from missing", LOG, "--parquet", "FILE"),
    ("replay", "missing", "--out", "FILE"),
    ("replay", "records", "--out", "FILE", "missing"),
    ("audit", "missing", "--html", "FILE"),
    *(("exam", "localhost:1", f"--{kind}", "FILE") for kind in EXAM_FILES),
    ("explore", "missing", "--svg", "FILE"),
    ("capture", "localhost:1", "--out", "FILE"),
    ("capture", "BROKER", "--listen", "BUSY", "--out", "FILE"),
    ("capture", "BROKER", "--listen-config", "missing", "--out", "FILE"),
    ("proxy", "localhost:1", "--control-listen", 0, "--out", "FILE"),
    ("proxy", "BROKER", "--listen", "BUSY", "--control-listen", 0, "--out", "FILE"),
    ("proxy", "BROKER", "--listen", "localhost:0", "--control-listen", "BUSY", "--out", "FILE"),
    ("proxy", "BROKER", "--faults", "missing", "--out", "FILE"),
]
"""Commands that fail at once: for want of an input, a broker or a port."""


@pytest.mark.parametrize("words", FAILING, ids=lambda words: " ".join(map(str, words)))
def test_a_command_that_cannot_start_neither_empties_nor_creates_a_file(
    words: tuple[object, ...], tmp_path: Path, kafka_broker: KafkaBroker
) -> None:
    with socket.create_server(("localhost", 0)) as busy:
        port = busy.getsockname()[1]
        places = {"BROKER": kafka_broker.bootstrap, "BUSY": f"localhost:{port}"}
        given = [places.get(str(word), word) for word in words]
        done = brokertwin(*given, cwd=tmp_path)
        assert (done.returncode, list(tmp_path.iterdir())) == (2, []), done.stderr
        kept = {name: f"a former {name}" for name in ("FILE", "FILE.properties")}
        for name, text in kept.items():
            (tmp_path / name).write_text(text)
        done = brokertwin(*given, "--force", cwd=tmp_path)
        assert done.returncode == 2
        assert "exists" not in done.stderr
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == kept


def test_settings_beside_another_recording_need_force_too(tmp_path: Path) -> None:
    (tmp_path / "FILE.properties").write_text("kept")
    done = brokertwin("capture", "localhost:1", "--out", "FILE", cwd=tmp_path)
    assert (done.returncode, "FILE.properties exists" in done.stderr) == (2, True)


FULL = Path("/dev/full")
READ_ONLY = Path("/sys/file")
"""A place where not even root may create a file."""


@pytest.mark.parametrize(
    ("file", "reason"),
    [(FULL, "No space left on device"), (READ_ONLY, "Permission denied")],
    ids=["full disk", "read-only folder"],
)
@pytest.mark.parametrize(
    "words", [each for each in WRITING if each[0] in ("offsets", "page", "audit")]
)
def test_a_file_that_cannot_be_written_is_one_sentence(
    words: tuple[object, ...], file: Path, reason: str, tmp_path: Path
) -> None:
    done = brokertwin(*words[:-1], file, cwd=tmp_path)
    assert done.returncode == 2, "not 1, which is a warning"
    assert reason in done.stderr
    assert "Traceback" not in done.stderr
    assert FULL.is_char_device()


@pytest.mark.parametrize("words", WRITING[:3], ids=lambda words: f"{words[0]} {words[-2]}")
def test_no_file_is_named_as_standard_output(words: tuple[object, ...], tmp_path: Path) -> None:
    done = brokertwin(*words[:-1], "-", cwd=tmp_path)
    assert (done.returncode, "Cannot write to standard output" in done.stderr) == (2, True)
    assert list(tmp_path.iterdir()) == []


def test_a_full_standard_output_is_one_sentence() -> None:
    done = subprocess.run(
        f"{sys.executable} -m brokertwin audit {LOG} > /dev/full",
        shell=True,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        "Cannot write to standard output or a file: No space left on device.",
        "Check the permissions of the folder and the free space.",
    ]


def test_a_failure_leaves_the_former_file(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_text("kept")

    def fail() -> None:
        with writing(file) as temporary:
            temporary.write_text("half")
            raise OSError(28, "No space left on device")

    with pytest.raises(UserError, match="No space left"):
        fail()
    assert (file.read_text(), len(list(tmp_path.iterdir()))) == ("kept", 1)
    check_new(file, force=True)
    check_new(Path(os.devnull), force=False)
    check_new(None, force=False)


def test_captures_journals_and_batches_are_for_their_owner_only(tmp_path: Path) -> None:
    sink = FileSink(tmp_path / "capture")
    sink.open()
    sink.close()
    Disk().open(tmp_path / "journal", "a+b").close()
    brokertwin("ingest", LOG, "--out", tmp_path / "ingested")
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes == dict.fromkeys(("capture", "journal", "ingested"), 0o600)
