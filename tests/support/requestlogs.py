"""The recordings of `tests/requestlogs`, read."""

from pathlib import Path

from brokertwin.recordings.formats.documents import Document
from brokertwin.recordings.formats.pipeline import FileReading, read_files
from brokertwin.recordings.formats.summary import Summary
from tests.support.sources import ROOT

REQUEST_LOGS = ROOT / "tests" / "requestlogs"
RUNS = ("steady", "follower_stop", "leader_kill")
"""Runs with snapshots of the brokers' actual states."""

STOPS = "broker_stops"
"""A run with a controlled shutdown, a fenced broker and elections."""

SINGLE = REQUEST_LOGS / "single" / "kafka-request.log.gz"
DUMP = REQUEST_LOGS / "single" / "orders.deep.dump.gz"


def logs_of(run: str) -> list[Path]:
    return sorted((REQUEST_LOGS / run).glob("*.kafka-request.log.gz"))


def dumps_of(run: str) -> list[Path]:
    return sorted((REQUEST_LOGS / run).glob("logs-*/*.tsv.gz"))


def read(*files: Path, reading: FileReading | None = None) -> tuple[list[Document], Summary]:
    summary = Summary()
    return list(read_files(files, reading or FileReading(), summary)), summary
