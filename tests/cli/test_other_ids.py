"""A recording of a real cluster of brokers [4, 7, 101]: ingested, replayed and run."""

import gzip
import json
from collections import Counter
from pathlib import Path

import pytest

from brokertwin.brokers import brokers_of
from brokertwin.recordings.replay import local
from brokertwin.recordings.replay.plan import plan
from brokertwin.recordings.replay.recording import read
from brokertwin.state.core.settings import BrokerSettings
from tests.support.console import brokertwin
from tests.support.requestlogs import REQUEST_LOGS

RECORDED = REQUEST_LOGS / "other_ids" / "capture.jsonl.gz"
REQUESTED = {4: 9, 7: 20, 101: 22}
"""How many exchanges each broker had."""

SLOW = ("--time-tolerance", "3")
"""The brokers had just started: their responses say themselves that they were slow."""


def test_it_is_ingested_and_replayed_with_its_brokers(empty_directory: Path) -> None:
    done = brokertwin("ingest", RECORDED, "--out", "out.jsonl.gz", cwd=empty_directory)
    assert done.returncode == 0, done.stderr
    written = gzip.decompress((empty_directory / "out.jsonl.gz").read_bytes()).splitlines()
    assert Counter(json.loads(line)["broker"] for line in written) == REQUESTED
    done = brokertwin("replay", "out.jsonl.gz", "--compare", *SLOW, cwd=empty_directory)
    assert done.stdout.splitlines()[-1] == "agree 51 of 51"
    assert "any live broker id as controller id" in done.stdout


@pytest.mark.parametrize(("given", "dead"), [("4,7,101", 0), ("4,7", REQUESTED[101]), ("3", 51)])
def test_it_is_run_by_a_job_of_these_brokers_alone(given: str, dead: int) -> None:
    recording = read([RECORDED])
    documents = plan(recording, "far", BrokerSettings(), False).documents
    settings = local.cell_settings("far", brokers_of(given, "far"), BrokerSettings())
    responses = local.run(documents, settings)
    errors = [
        response.error["reason"] for response in responses.values() if response.error is not None
    ]
    assert len(responses) == 51
    assert errors == ["unknown broker"] * dead
