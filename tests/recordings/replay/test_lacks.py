"""What a recording lacks for a comparison."""

import gzip
import re
from pathlib import Path

import pytest

from brokertwin.recordings.formats.pipeline import FileReading
from brokertwin.recordings.replay.lacks import lacks
from brokertwin.recordings.replay.recording import read
from tests.support.requestlogs import SINGLE, logs_of

ASSIGNED = re.compile(rb'"assignments":\[\{"partitionIndex".*?\}\]')


def sentences(*files: Path, broker: int | None = None) -> list[str]:
    return list(lacks(read(files, FileReading(broker)).exchanges))


def test_a_whole_log_of_one_broker_lacks_nothing() -> None:
    assert sentences(SINGLE, broker=1) == []


def test_a_log_without_its_beginning_says_what_is_older(tmp_path: Path) -> None:
    lines = gzip.decompress(logs_of("steady")[0].read_bytes()).splitlines(keepends=True)
    file = tmp_path / "broker-1.log"
    file.write_bytes(b"".join(lines[len(lines) // 2 :]))
    (sentence,) = sentences(file)
    assert "does not have its beginning" in sentence
    assert "fetch session" in sentence
    assert "topic" in sentence


@pytest.mark.parametrize("is_assigned", [True, False])
def test_several_brokers_are_supported_only_with_assigned_replicas(
    tmp_path: Path, is_assigned: bool
) -> None:
    files = []
    for log in logs_of("busy_start"):
        text = gzip.decompress(log.read_bytes())
        if not is_assigned:
            text = ASSIGNED.sub(b'"assignments":[]', text)
        files.append(tmp_path / log.name.removesuffix(".gz"))
        files[-1].write_bytes(text)
    found = [each for each in sentences(*files) if "is not supported" in each]
    assert len(found) == (not is_assigned)
