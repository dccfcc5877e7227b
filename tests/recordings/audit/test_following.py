"""Files that grow: what is appended is read from where the file was left."""

import random
from itertools import pairwise
from pathlib import Path

import pytest

from brokertwin.recordings.audit.finders import findings
from brokertwin.recordings.audit.finding import AuditFinding
from brokertwin.recordings.audit.one_pass import OnePass
from brokertwin.recordings.audit.spool import Spool
from brokertwin.recordings.formats.growing import GrowingFiles
from brokertwin.recordings.formats.pipeline import FileReading
from brokertwin.recordings.formats.summary import Summary
from brokertwin.recordings.history.findings import Severity
from tests.support.audits import RECORDINGS, lines, stronger, whole

LOOKS = 5
GROWN = ("leader_kill", "follower_stop", "txn_fencing_ck", "mixed_groups", "share_groups")


def grow(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def places(files: GrowingFiles) -> list[str]:
    return [each.place for each in files.read(Summary())]


def stamp(number: int, line: bytes) -> bytes:
    """What orders the lines of all files: the time in a log, the number in a capture."""
    return line[:25] if line.startswith(b"[") else b"%09d" % number


def followed(name: str, folder: Path, chance: random.Random) -> list[AuditFinding]:
    """The findings in files that grow; at each look they end at one moment."""
    stamped = {
        folder / path.name.removesuffix(".gz"): [(stamp(*each), each[1]) for each in numbered]
        for path in RECORDINGS[name]
        for numbered in [list(enumerate(lines(path)))]
    }
    stamps = sorted(each for of_file in stamped.values() for each, _ in of_file)
    moments = [b"", *sorted(chance.sample(stamps, LOOKS)), stamps[-1]]
    for path in stamped:
        path.touch()
    files = GrowingFiles(list(stamped), FileReading())
    machines: OnePass | None = None
    with Spool(grows=True) as spool:
        for begin, end in pairwise(moments):
            for path, of_file in stamped.items():
                grow(path, b"".join(line for at, line in of_file if begin < at <= end))
            spool.read(files.read)
            if len(spool):
                facts = spool.facts()
                machines = machines or OnePass(facts)
                machines.take(spool)
                machines.expire(machines.end)
    assert machines is not None
    machines.expire()
    return findings(machines.findings())


@pytest.mark.parametrize("name", GROWN)
@pytest.mark.parametrize("seed", range(3))
def test_growing_files_give_no_finding_that_the_whole_ones_lack(
    name: str, seed: int, tmp_path: Path
) -> None:
    found = followed(name, tmp_path, random.Random(f"{name}/{seed}"))
    assert list(filter(None, (stronger(each, whole(name)) for each in found))) == []
    errors = {(e.kind, e.subject) for e in whole(name).findings if e.severity is Severity.ERROR}
    assert errors <= {(each.kind, each.subject) for each in found}


LINES = lines(RECORDINGS["txn_fencing_ck"][0])


def test_line_is_read_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    grow(path, LINES[0] + LINES[1][:50])
    files = GrowingFiles([path], FileReading())
    assert places(files) == ["log.jsonl:1"]
    grow(path, LINES[1][50:])
    assert places(files) == ["log.jsonl:2"]
    assert places(files) == []


def test_renamed_file_is_read_to_its_end_before_the_new_one(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    grow(path, LINES[0])
    files = GrowingFiles([path], FileReading())
    assert places(files) == ["log.jsonl:1"]
    grow(path, LINES[1])
    path.rename(tmp_path / "log.jsonl.1")
    assert places(files) == ["log.jsonl:2"]
    grow(path, LINES[2])
    assert places(files) == ["log.jsonl#2:1"]


def test_emptied_file_is_read_from_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    grow(path, LINES[0] + LINES[1])
    files = GrowingFiles([path], FileReading())
    assert len(places(files)) == 2
    path.write_bytes(LINES[2])
    assert places(files) == ["log.jsonl#2:1"]


def test_compressed_file_is_read_once() -> None:
    files = GrowingFiles(RECORDINGS["txn_fencing_ck"], FileReading())
    assert len(places(files)) == len(LINES)
    assert places(files) == []
