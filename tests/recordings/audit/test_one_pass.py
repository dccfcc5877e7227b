"""The pass over a spool finds what the machines find in the whole recording."""

import random
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from brokertwin.recordings.audit.finders import findings
from brokertwin.recordings.audit.finding import AuditFinding
from brokertwin.recordings.audit.one_pass import pass_over
from brokertwin.recordings.audit.reading import read
from brokertwin.recordings.formats.pipeline import FileReading, read_files
from brokertwin.recordings.history.exchange import RecordedExchange
from brokertwin.recordings.history.replication import LeadingParts
from tests.support.audits import READING, RECORDINGS, lines, whole
from tests.support.requestlogs import logs_of
from tests.support.sources import ROOT

OF_BROKERS = {
    "leader_kill": logs_of("leader_kill"),
    "busy_fencing": logs_of("busy_fencing"),
    "killed": sorted((ROOT / "tests/score/goldens/broker_killed").glob("*.kafka-request.log.gz")),
}
AT_CONTROLLERS = re.compile(rb'"requestApiKeyName":"(BROKER_|ALTER_PARTITION)|"listener":"CONT')
CHANGED = re.compile(rb'(rrorCode|urrentLeaderEpoch|eaderEpoch|hrottleTimeMs|essionEpoch)":(\d+)')


def passed(paths: Sequence[Path], reading: FileReading) -> list[AuditFinding]:
    """The findings of files in one pass."""
    return findings(pass_over(partial(read_files, paths, reading)).history)


def documents(found: list[AuditFinding]) -> list[dict[str, Any]]:
    return [each.document(1_000) for each in found]


@pytest.mark.parametrize("name", RECORDINGS)
def test_pass_finds_the_same_as_the_whole_recording(name: str) -> None:
    found = passed(RECORDINGS[name], READING.get(name, FileReading()))

    assert documents(found) == documents(whole(name).findings)


def test_the_log_of_a_controller_alone_is_a_recording() -> None:
    controller = [path for path in logs_of("leader_kill") if path.name.startswith("controller")]

    expected = findings(read(controller, FileReading()).history)
    assert documents(passed(controller, FileReading())) == documents(expected)


def damaged(line: bytes, chance: random.Random) -> bytes:
    """A line in which some errors, epochs and waits are others."""

    def other(match: re.Match[bytes]) -> bytes:
        number = chance.choice((0, 1, 3, 6, 74, int(match[2]) + 1))
        return match[0] if chance.random() < 0.7 else b'%s":%d' % (match[1], number)

    return line if chance.random() < 0.95 else CHANGED.sub(other, line)


def without_controllers(name: str, seed: int, folder: Path) -> list[Path]:
    """Logs of the brokers alone, damaged: no high watermark is judged, and much is left out."""
    chance, paths = random.Random(seed), []
    for path in OF_BROKERS[name]:
        if not path.name.startswith("controller"):
            of_clients = [line for line in lines(path) if not AT_CONTROLLERS.search(line)]
            paths.append(folder / path.name.removesuffix(".gz"))
            paths[-1].write_bytes(b"".join(damaged(line, chance) for line in of_clients))
    return paths


@pytest.mark.parametrize("name", OF_BROKERS)
@pytest.mark.parametrize("seed", range(2))
def test_what_is_left_out_changes_no_finding(name: str, seed: int, tmp_path: Path) -> None:
    paths = without_controllers(name, seed, tmp_path)

    expected = findings(read(paths, FileReading()).history)
    assert documents(passed(paths, FileReading())) == documents(expected)


NEWS = LeadingParts._news


def epochs_are_no_news(self: LeadingParts, exchange: RecordedExchange) -> Any:
    return None if NEWS(self, exchange) is None else {}


def errors_are_no_news(self: LeadingParts, exchange: RecordedExchange) -> Any:
    return NEWS(self, exchange) if exchange.line.api == "METADATA" else NEWS(self, exchange) or {}


@pytest.mark.parametrize("broken", [epochs_are_no_news, errors_are_no_news])
def test_leaving_out_too_much_is_noticed(
    broken: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = without_controllers("leader_kill", 1, tmp_path)
    expected = documents(findings(read(paths, FileReading()).history))
    monkeypatch.setattr(LeadingParts, "_news", broken)

    assert documents(passed(paths, FileReading())) != expected
