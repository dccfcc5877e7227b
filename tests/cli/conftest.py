"""Fixtures for the commands, which are called in separate processes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.commands import Commands
from tests.support.jobs import JobBench


@pytest.fixture
def commands(kafka: str, tmp_path: Path) -> Iterator[Commands]:
    """What calls `brokertwin` against the topics and the checkpoint of one job."""
    made = Commands(JobBench(kafka, tmp_path))
    try:
        yield made
    finally:
        made.close()
