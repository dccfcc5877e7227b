"""Files of a checkpoint that are damaged."""

import shutil
import zipfile
from pathlib import Path

import pytest

from brokertwin.errors import UserError
from brokertwin.streaming.checkpoint import damaged_files
from tests.support.sources import ROOT

EXAMPLE = ROOT / "checkpoints.example" / "state-4"


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return Path(shutil.copytree(EXAMPLE, tmp_path / "checkpoint"))


def test_a_whole_checkpoint_has_no_damaged_files(checkpoint: Path) -> None:
    damaged_files.check_metadata(checkpoint)
    assert list(damaged_files.damaged(checkpoint)) == []


def test_damaged_metadata_is_reported_with_a_remedy(checkpoint: Path) -> None:
    (checkpoint / "metadata").write_text("garbage")
    with pytest.raises(UserError) as raised:
        damaged_files.check_metadata(checkpoint)
    assert raised.value.message == (
        f"Cannot read the checkpoint file {checkpoint / 'metadata'}: it is not the JSON document"
        " that Spark writes."
    )
    assert "brokertwin snapshot restore" in raised.value.hint


def test_a_new_checkpoint_has_no_metadata(tmp_path: Path) -> None:
    damaged_files.check_metadata(tmp_path)


def test_damaged_changelog_is_named(checkpoint: Path) -> None:
    file = next((checkpoint / "state").rglob("*.changelog"))
    file.write_bytes(file.read_bytes()[:-5])
    (found,) = damaged_files.damaged(checkpoint)
    assert found.file == file
    assert str(file) in found.error().message


def test_damaged_archive_is_named(checkpoint: Path) -> None:
    file = checkpoint / "state" / "0" / "0" / "9.zip"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("000009.sst", b"rows")
    assert list(damaged_files.damaged(checkpoint)) == []
    file.write_bytes(file.read_bytes().replace(b"rows", b"ruin"))
    (found,) = damaged_files.damaged(checkpoint)
    assert (found.file, found.why) == (file, "the checksum of 000009.sst in it is wrong")
    file.write_bytes(b"xx")
    assert [each.why for each in damaged_files.damaged(checkpoint)] == ["File is not a zip file"]
