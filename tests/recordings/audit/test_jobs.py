"""Several processes, and exchanges that are not decoded, show the same as one that decodes all."""

import random
import re
from collections.abc import Callable, Sequence
from datetime import UTC, tzinfo
from functools import partial
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from brokertwin.recordings.audit import ahead, spool
from brokertwin.recordings.audit.finders import findings
from brokertwin.recordings.audit.one_pass import judged
from brokertwin.recordings.audit.spool import Spool
from brokertwin.recordings.formats.documents import DecodedLine
from brokertwin.recordings.formats.lines import SourceLine
from brokertwin.recordings.formats.pipeline import FileReading, read_files
from tests.support.audits import RECORDINGS, lines
from tests.support.console import brokertwin
from tests.support.requestlogs import SINGLE

AT_CONTROLLERS = re.compile(
    rb'"requestApiKeyName":"(BROKER_|ALTER_PARTITION)|"listener":"CONT|"isForwarded":true|AAAAAQ"'
)
LOGS = ("leader_kill", "follower_stop", "single")
DAMAGE = {
    "": 90,
    **dict.fromkeys(("cut", "joined", "again", "large", "flipped", "around", "batches"), 2),
    **dict.fromkeys(("escaped", "follower", "wait"), 2),
}


def damaged(path: Path, chance: random.Random) -> bytes:
    """The lines of a log, some of them cut, joined, repeated, or with other numbers."""
    found: list[bytes] = []
    for line in lines(path):
        (kind,) = chance.choices([*DAMAGE], [*DAMAGE.values()])
        at = chance.randrange(len(line))
        made = {
            "": line,
            "cut": line[:at] + b"\n",
            "joined": line[:at],
            "again": line + (chance.choice(found) if found else b""),
            "large": line.replace(b'":0', b'":99999999999999999999', 1),
            "around": line[:at] + b"\n" + (chance.choice(found) if found else b"") + line[at:],
            "flipped": line[:at] + b"}" + line[at + 1 :],
            "batches": line.replace(b'"request":{', b'"request":{"batches":[],', 1),
            "escaped": line.replace(b'"response":{', b'"response":{"\\u0065rrorCode":6,', 1),
            "follower": line.replace(b'"replicaId":-1', b'"replicaId":2'),
            "wait": line.replace(b'"maxWaitMs":500', b'"maxWaitMs":%d' % (500 + at)),
        }
        found.append(made[kind])
    return b"".join(found)


def hours(path: Path, chance: random.Random) -> bytes:
    """Lines at one, two and three o'clock on a day when two o'clock is twice in Berlin."""
    found = damaged(path, chance).splitlines(keepends=True)
    return b"".join(
        b"[2026-10-25 0%d:" % (1 + at // 8 % 3) + line[15:] for at, line in enumerate(found)
    )


def fetches(path: Path, _: random.Random) -> bytes:
    """No other lines than those of FETCH show which listener is one of controllers."""
    return b"".join(line for line in lines(path) if b'Name":"FETCH"' in line)


def without_controllers(path: Path, chance: random.Random) -> bytes:
    """Facts are learned as lines are read if none is at a controller, or forwarded to one."""
    shown = damaged(path, chance).splitlines(keepends=True)
    return b"".join(line for line in shown if not AT_CONTROLLERS.search(line))


BERLIN = ZoneInfo("Europe/Berlin")


def spooled(paths: Sequence[Path], reading: FileReading) -> tuple[list[Any], list[Any], Any]:
    """Exchanges with what their bodies certainly lack, damaged lines and facts of files."""
    with Spool() as read:
        read.read(partial(read_files, paths, reading))
        exchanges = [(each, type(each.request), type(each.response)) for each in read]
        return exchanges, read.broken, read.facts()


@pytest.mark.parametrize(
    ("name", "changed", "zone"),
    [
        *((name, damaged, UTC) for name in LOGS),
        *((name, hours, BERLIN) for name in LOGS),
        *((name, without_controllers, UTC) for name in LOGS),
        ("leader_kill", fetches, UTC),
    ],
)
def test_frequent_exchanges_are_the_same_as_decoded_ones(
    name: str,
    changed: Callable[[Path, random.Random], bytes],
    zone: tzinfo,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ahead, "CHUNK_BYTES", 20_000)
    chance, paths, decoded = random.Random(f"{name} 1"), [], 0
    for path in RECORDINGS[name]:
        paths.append(tmp_path / path.name.removesuffix(".gz"))
        paths[-1].write_bytes(changed(path, chance))
    reading = FileReading(zone=zone)
    with monkeypatch.context() as patched:
        patched.setattr(spool, "frequent", lambda _: None)
        expected = spooled(paths, reading)
    alone = spooled(paths, reading)

    with ahead.DecodersAhead(2, zone) as decoders:

        def counted(lines: Any) -> Any:
            nonlocal decoded
            for line in decoders.lines(lines):
                decoded += isinstance(line, DecodedLine)
                yield line

        found = spooled(paths, reading._replace(ahead=counted))
    assert alone == expected
    assert found == expected
    assert decoded > 50


@pytest.mark.parametrize("name", ["leader_kill", "share_groups", "mixed_groups"])
def test_several_processes_find_the_same(name: str) -> None:
    with Spool() as read:
        read.read(partial(read_files, RECORDINGS[name], FileReading()))
        histories = [judged(read, jobs) for jobs in (1, 2, 3, 9)]
    one, *others = [
        ([each.document(1_000) for each in findings(each)], each.span, each.exchanges)
        for each in histories
    ]
    assert one[0]
    assert others == [one] * 3


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_field_without_schema_that_no_machine_can_decode_is_reported(
    jobs: int, tmp_path: Path
) -> None:
    path = tmp_path / "broker-1.log"
    first, *others = (line for line in lines(RECORDINGS["single"][0]) if b'"FETCH"' in line)
    number = first.replace(b'"response":{', b'"response":{"ofALaterRelease":1e999,', 1)
    path.write_bytes(b"".join((*others, number)))
    with Spool() as read:
        read.read(partial(read_files, [path], FileReading()))
        assert judged(read, jobs).exchanges == len(others)
        (broken,) = read.broken
    assert broken.place == f"broker-1.log:{len(others) + 1}"
    assert broken.reason.startswith("Number out of range")


def test_audit_prints_the_same_with_several_processes() -> None:
    words = "audit", "--json", "--fail-on", "never", *RECORDINGS["follower_stop"]
    one, *others = [brokertwin(*words, "--jobs", jobs).stdout for jobs in (1, 2, 3)]
    assert one
    assert others == [one] * 2


def test_each_line_comes_once_and_in_order_from_many_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "CHUNK_BYTES", 1_000)
    of_log = [SourceLine("a", number, text) for number, text in enumerate(lines(SINGLE), 1)]
    with ahead.DecodersAhead(2, UTC) as decoders:
        found = list(decoders.lines(of_log))
    assert [each.number for each in found] == [each.number for each in of_log]
    assert len(of_log) > 100
