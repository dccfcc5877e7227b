"""Seed 004: a lag is negative only if an offset is beyond a log end that is known."""

import json
from pathlib import Path

import pytest

from brokertwin import tables
from tests.support.console import brokertwin
from tests.support.sources import ROOT

LOG = ROOT / "tests" / "requestlogs" / "single" / "kafka-request.log.gz"
DUMP = LOG.with_name("orders.dump.gz")
COMMITTED = {0: 246, 1: 254}


def test_lag_is_unknown_if_the_recording_has_no_batch_headers() -> None:
    found = tables.read(LOG)
    offsets = found.arrow("offsets").to_pylist()
    assert {row["partition"]: row["committedOffset"] for row in offsets} == COMMITTED
    assert [row["lag"] for row in offsets] == [None, None]
    (group,) = found.arrow("groups").to_pylist()
    assert (group["lag"], group["lowestLag"]) == (None, None)


@pytest.mark.processes
@pytest.mark.parametrize(("given", "lag"), [((), None), (("--batches", DUMP), 0)])
def test_replay_shows_a_lag_only_with_batch_headers(
    given: tuple[object, ...], lag: int | None
) -> None:
    done = brokertwin("replay", "state", "offsets", LOG, *given, "--json")
    assert done.returncode == 0, done.stderr
    assert [row["lag"] for row in json.loads(done.stdout)] == [lag, lag]


@pytest.mark.processes
def test_kept_state_remembers_that_log_ends_are_unknown(tmp_path: Path) -> None:
    kept, again = tmp_path / "kept", tmp_path / "again"
    done = brokertwin("replay", LOG, "--keep", kept)
    assert done.returncode == 0, done.stderr
    done = brokertwin("replay", "--from", kept, "--keep", again)
    assert done.returncode == 0, done.stderr
    done = brokertwin("replay", "state", "offsets", "--from", again, "--json")
    assert [row["lag"] for row in json.loads(done.stdout)] == [None, None]
    assert [row["lag"] for row in tables.read(again).arrow("offsets").to_pylist()] == [None, None]
    shown = brokertwin("state", "offsets", "--checkpoint", again, "--json").stdout.splitlines()
    assert [json.loads(row)["lag"] for row in shown] == [None, None]
    for command in (
        ("explain", "group", "g", "--checkpoint", again, "--json"),
        ("replay", "diff", "beginning", again, LOG, "--json"),
    ):
        done = brokertwin(*command)
        assert done.returncode == 0, done.stderr
        assert '"lag"' in done.stdout
        assert "-246" not in done.stdout
