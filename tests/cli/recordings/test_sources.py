"""Where commands read recorded exchanges from: one place, named clearly."""

import json
from pathlib import Path

import pytest

from tests.support.console import brokertwin
from tests.support.sources import ROOT

FILE = str(ROOT / "tests" / "captures" / "txn_loop_ck.jsonl.gz")
WORDS = {
    "explain": ("explain", "transaction", "txn_loop_ck.12.txn"),
    "audit": ("audit",),
    "replay": ("replay",),
}


@pytest.mark.parametrize("words", WORDS.values(), ids=WORDS)
@pytest.mark.parametrize("place", [(), (FILE, "--job"), ("--topic", "t", "--job")])
def test_it_is_one_place(
    words: tuple[str, ...], place: tuple[str, ...], empty_directory: Path
) -> None:
    done = brokertwin(*words, *place, cwd=empty_directory)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Name files, or pass --topic NAME, or --job" in done.stderr


@pytest.mark.parametrize(
    ("place", "message"),
    [
        (("--checkpoint", "nowhere"), "nowhere is not a checkpoint with a committed micro-batch"),
        (("--checkpoint", "nowhere", FILE), "Cannot combine --checkpoint with a recording"),
        (
            ("--checkpoint", "nowhere", "--client", "a"),
            "Cannot combine --checkpoint with --errors or --client",
        ),
    ],
)
def test_a_checkpoint_stands_alone(
    place: tuple[str, ...], message: str, empty_directory: Path
) -> None:
    done = brokertwin(*WORDS["explain"], *place, cwd=empty_directory)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr


def test_one_client_of_a_partition(empty_directory: Path) -> None:
    logs = sorted((ROOT / "tests/requestlogs/leader_kill").glob("*.log.gz"))
    words = ("explain", "partition", "lk-0", *logs, "--client", "consumer", "--json")
    done = brokertwin(*words, cwd=empty_directory)
    entries = [json.loads(line) for line in done.stdout.splitlines()]
    assert {entry["client"] for entry in entries} == {"consumer"}, done.stderr
    assert {each["error"] for entry in entries for each in entry["refused"]} == {
        "FENCED_LEADER_EPOCH"
    }
