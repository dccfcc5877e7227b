"""A checkpoint after a power failure: the newest files of Spark's logs may be torn."""

import shutil
from pathlib import Path

import pytest

from brokertwin.streaming.checkpoint import checkpoint_log, torn_logs
from tests.support.sources import ROOT

EXAMPLE = ROOT / "checkpoints.example" / "state-4"


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Spark's logs of an example, and a second micro-batch that is planned and committed."""
    for log in ("offsets", "commits"):
        shutil.copytree(EXAMPLE / log, tmp_path / log)
        (tmp_path / log / "1").write_bytes((tmp_path / log / "0").read_bytes())
        (tmp_path / log / ".1.crc").write_bytes(b"crc")
    return tmp_path


def batches(checkpoint: Path) -> tuple[int, int]:
    return checkpoint_log.planned(checkpoint), checkpoint_log.committed(checkpoint)


def test_complete_logs_stay(checkpoint: Path) -> None:
    messages: list[str] = []
    torn_logs.mend(checkpoint, messages.append)
    assert (batches(checkpoint), messages) == ((1, 1), [])
    torn_logs.mend(checkpoint / "not there yet", messages.append)
    assert messages == []


@pytest.mark.parametrize(("log", "left"), [("commits", (1, 0)), ("offsets", (0, 0))])
def test_a_file_torn_anywhere_is_removed(checkpoint: Path, log: str, left: tuple[int, int]) -> None:
    """A batch without its commit runs again; one without its plan has not run."""
    file = checkpoint / log / "1"
    whole = file.read_bytes()
    for size in range(len(whole)):
        file.write_bytes(whole[:size])
        assert not torn_logs.is_whole(file), whole[:size]
    file.write_bytes(bytes(len(whole)))
    messages: list[str] = []
    torn_logs.mend(checkpoint, messages.append)
    assert batches(checkpoint) == left
    assert [each.partition(",")[0] for each in messages] == [f"removed {log}/1"]
    assert not (checkpoint / log / ".1.crc").exists()


def test_several_files_of_both_logs_may_be_torn(checkpoint: Path) -> None:
    for log in ("offsets", "commits"):
        for batch in ("0", "1"):
            (checkpoint / log / batch).write_bytes(b"v1\n")
    torn_logs.mend(checkpoint)
    assert batches(checkpoint) == (checkpoint_log.NONE, checkpoint_log.NONE)
