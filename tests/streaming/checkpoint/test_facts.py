"""Facts of a checkpoint: written once, checked at every start."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from brokertwin.errors import UserError
from brokertwin.kafka_io.partitioning import spark_hash
from brokertwin.settings import Settings, load
from brokertwin.state.cell.cell import STATE_VERSION
from brokertwin.state.cell.upgrades import STEPS
from brokertwin.streaming.checkpoint import facts

TOPIC_ID = "2Hc0xWmGQnO7jX6cHJhC3A"


def settings(**flags: Any) -> Settings:
    return load({"prefix": "demo", "requests_partitions": 4, **flags}).settings


def settle(checkpoint: Path, names: tuple[str, ...] = ("a",), **flags: Any) -> facts.JobFacts:
    topic_id = flags.pop("topic_id", TOPIC_ID)
    return facts.settle(checkpoint, settings(**flags), list(names), topic_id)


def test_a_restart_reads_the_facts(tmp_path: Path) -> None:
    first = settle(tmp_path / "checkpoint", ("a", "b"))
    assert settle(tmp_path / "checkpoint", ("a", "b")) == first
    assert facts.read(tmp_path / "checkpoint") == first


def test_a_cluster_may_be_added_and_the_others_keep_their_groups(tmp_path: Path) -> None:
    before = settle(tmp_path, ("a", "b")).groups
    after = settle(tmp_path, ("new", "b", "a")).groups
    assert {name: after[name] for name in before} == before
    assert after.keys() == {"a", "b", "new"}
    assert len(set(after.values())) == 3


def test_loads_add_up_and_a_new_cluster_gets_the_least_loaded_task(tmp_path: Path) -> None:
    facts.add_loads(tmp_path, {"a": 1})
    assert facts.read(tmp_path) is None, "where no checkpoint is none is made"
    groups = settle(tmp_path, ("a", "b", "c")).groups
    facts.add_loads(tmp_path, {"a": 30, "b": 500})
    facts.add_loads(tmp_path, {"a": 20, "c": 60})
    again = settle(tmp_path, ("a", "b", "c", "new"))
    assert again.loads == {"a": 50, "b": 500, "c": 60}
    tasks = {name: spark_hash(key) % 2 for name, key in again.groups.items()}
    assert tasks["a"] == tasks["c"] == tasks["new"] != tasks["b"]
    assert {name: again.groups[name] for name in groups} == groups


def test_facts_without_loads_are_read(tmp_path: Path) -> None:
    written = msgspec.to_builtins(settle(tmp_path))
    del written["loads"]
    (tmp_path / facts.FILE_NAME).write_bytes(msgspec.json.encode(written))
    assert settle(tmp_path).groups == written["groups"]


def test_the_shuffle_partitions_of_the_checkpoint_are_kept(tmp_path: Path) -> None:
    first = settle(tmp_path, shuffle_partitions=7)
    assert settle(tmp_path) == first


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cells": 2}, "created with cells = 1, not 2"),
        ({"requests_partitions": 5}, "created with requests_partitions = 4, not 5"),
        ({"shuffle_partitions": 3}, "created with shuffle_partitions = 2, not 3"),
        ({"prefix": "other"}, "created with prefix = demo, not other"),
        ({"topic_id": "AAAAAAAAAAAAAAAAAAAAAA"}, "belongs to another topic demo.requests"),
        ({"cells_left": ("b",)}, "also has the cells a"),
        (
            {"brokers": "3", "clusters": ("a",)},
            "cluster a in the checkpoint .* has brokers 1, not 1,2,3",
        ),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_checkpoint_of_other_settings_is_rejected(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    settle(tmp_path, ("a", "b"))
    cells = change.pop("cells_left", ("a", "b"))
    before = (tmp_path / facts.FILE_NAME).read_bytes()
    with pytest.raises(UserError, match=message) as refused:
        settle(tmp_path, cells, **change)
    assert refused.value.hint
    assert (tmp_path / facts.FILE_NAME).read_bytes() == before


def test_an_older_state_is_rejected_with_a_remedy(tmp_path: Path) -> None:
    older = msgspec.structs.replace(settle(tmp_path), state_version=min(STEPS) - 1)
    facts.write(tmp_path, older)
    with pytest.raises(UserError, match="written by an older brokertwin") as refused:
        settle(tmp_path)
    assert "reads the request topic again" in refused.value.hint


def test_an_upgradable_state_is_upgraded(tmp_path: Path) -> None:
    settled = settle(tmp_path)
    facts.write(tmp_path, msgspec.structs.replace(settled, state_version=min(STEPS)))
    assert settle(tmp_path) == settled
    assert facts.read(tmp_path) == settled


def test_a_newer_state_is_refused(tmp_path: Path) -> None:
    newer = msgspec.structs.replace(settle(tmp_path), state_version=STATE_VERSION + 1)
    facts.write(tmp_path, newer)
    with pytest.raises(
        UserError, match=f"has version {STATE_VERSION + 1}, but this brokertwin supports up to"
    ):
        settle(tmp_path)


def test_shuffle_partitions_of_the_environment_are_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(tmp_path)
    monkeypatch.setenv("BROKERTWIN_SHUFFLE_PARTITIONS", "8")
    with pytest.raises(UserError, match="created with shuffle_partitions = 2, not 8"):
        settle(tmp_path)


def test_a_checkpoint_of_a_deleted_topic_is_rejected(
    tmp_path: Path,
) -> None:
    facts.check(tmp_path, settings(), ["a"], None)
    settle(tmp_path)
    facts.check(tmp_path, settings(), ["a"], TOPIC_ID)
    with pytest.raises(UserError, match="belongs to the topic demo"):
        facts.check(tmp_path, settings(), ["a"], None)


@pytest.mark.parametrize("name", ["offsets", "documents"])
def test_a_foreign_directory_is_rejected_unchanged(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    with pytest.raises(UserError, match="not a checkpoint of brokertwin"):
        facts.locked(tmp_path).__enter__()
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("below", ["", "inner"])
def test_a_file_is_no_checkpoint(tmp_path: Path, below: str) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UserError, match=r"is a file\.|Cannot (read|write to) .*: Not a"):
        facts.locked(tmp_path / "file" / below).__enter__()


def test_a_broken_file_is_refused(tmp_path: Path) -> None:
    settle(tmp_path)
    (tmp_path / facts.FILE_NAME).write_text('{"format": "one"}')
    with pytest.raises(UserError, match="Cannot read"):
        settle(tmp_path)


def test_a_checkpoint_belongs_to_one_job_at_a_time(tmp_path: Path) -> None:
    another = facts.locked(tmp_path)
    with facts.locked(tmp_path), pytest.raises(UserError, match="Another job is running"):
        another.__enter__()
    with facts.locked(tmp_path):
        assert (tmp_path / facts.LOCK_NAME).is_file()
