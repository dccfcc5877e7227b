"""The checkpoints in `checkpoints.example/`, made by a job of their version, go on in this one."""

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from brokertwin.errors import UserError
from brokertwin.state.cell.cell import STATE_VERSION
from brokertwin.state.cell.upgrades import STEPS
from brokertwin.state.core import outputs
from brokertwin.streaming.checkpoint import facts, state_reader, store_files
from brokertwin.streaming.job import runner
from brokertwin.tables import state_rows
from brokertwin.tables.state_rows import ItemKind
from tests.support.example_checkpoint import (
    BUSY,
    FLAGS,
    PLACE,
    PREFIX,
    QUIET,
    TRANSACTION,
    busy,
    quiet,
)
from tests.support.jobs import JobBench
from tests.support.machine import START
from tests.support.sources import ROOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EXAMPLES = {
    int(path.name.removeprefix("state-")): path
    for path in (ROOT / "checkpoints.example").glob("state-*")
}
FIRST = (ROOT / "examples" / "first.jsonl").read_bytes().splitlines()
"""The input of the jobs that wrote them."""


def test_each_supported_version_has_an_example() -> None:
    assert EXAMPLES.keys() == {*STEPS, STATE_VERSION}, "a new version needs one of its own"


@pytest.mark.parametrize("version", EXAMPLES)
def test_examples_are_decoded(version: int) -> None:
    known = facts.read(EXAMPLES[version])
    assert known is not None and known.state_version == version
    cells = state_reader.read_cells(EXAMPLES[version])
    offsets = state_rows.rows(ItemKind.OFFSETS, cells)
    assert [(row["groupId"], row["partition"], row["committedOffset"]) for row in offsets] == [
        ("billing", 0, 5),
        ("billing", 1, 1),
    ]
    logs = [row for row in state_rows.rows(ItemKind.LOGS, cells) if row["topic"] == "orders"]
    assert [row["logEndOffset"] for row in logs] == [5, 1]
    assert len(state_rows.rows(ItemKind.PRODUCERS, cells)) == 2


@pytest.mark.spark
@pytest.mark.kafka
@pytest.mark.parametrize("version", EXAMPLES)
def test_a_job_starts_from_an_example(
    spark: "SparkSession", kafka: str, tmp_path: Path, version: int
) -> None:
    """The producer's last batch once more is a repeat; the group finds its offsets."""
    prefix = f"example-{version}"
    job = JobBench(
        kafka,
        tmp_path,
        prefix=prefix,
        clusters=("default",),
        event_time="recorded",
        requests_partitions=4,
    )
    job.prefix = prefix
    job.produce(with_ids(FIRST, "first"), b"default")
    shutil.copytree(EXAMPLES[version], job.checkpoint)
    settings = job.settings
    with (
        pytest.raises(UserError, match="belongs to another topic"),
        runner.prepared(settings, job.broker_settings),
    ):
        pass
    known = facts.read(job.checkpoint)
    assert known is not None
    facts.write(job.checkpoint, msgspec.structs.replace(known, requests_topic_id=""))

    fetch = {"groupId": "billing", "topics": [{"name": "orders", "partitionIndexes": [0, 1]}]}
    offsets = {
        "time": 1_700_000_000_500,
        "requestHeader": {"requestApiKey": 9, "requestApiVersion": 5},
        "request": fetch,
    }
    job.produce(with_ids([FIRST[2], msgspec.json.encode(offsets)], "again"), b"default")
    assert job.run(spark).is_clean
    known = facts.read(job.checkpoint)
    assert known is not None and known.state_version == STATE_VERSION
    responses = {each["id"]: each["response"] for each in job.documents(outputs.RESPONSES)}
    assert responses.keys() == {"again-0", "again-1"}
    (produced,) = responses["again-0"]["responses"][0]["partitionResponses"]
    assert (produced["errorCode"], produced["baseOffset"]) == (0, 3)
    (orders,) = responses["again-1"]["topics"]
    assert [each["committedOffset"] for each in orders["partitions"]] == [5, 1]
    states = store_files.read_states(job.checkpoint, 1, known.groups.values())
    versions = [state_reader.of_row(state)[0] for state in states.values()]
    assert versions == [STATE_VERSION], "stored in the new form"


def test_the_open_transaction_and_the_members_of_an_idle_cell_are_in_the_rocksdb_snapshot() -> None:
    cells = state_reader.read_cells(PLACE)
    [transaction] = state_rows.rows(ItemKind.TRANSACTIONAL_IDS, cells)
    assert (transaction["cell"], transaction["state"]) == (QUIET, "Ongoing")
    assert transaction["partitions"] == ["orders-1"]
    opened = [row["currentTxnFirstOffset"] for row in state_rows.rows(ItemKind.PRODUCERS, cells)]
    assert sorted(opened) == [-1, 0]
    groups = {row["groupId"]: row["state"] for row in state_rows.rows(ItemKind.GROUPS, cells)}
    assert groups == {"classic": "Stable", "modern": "Stable"}
    assert len(state_rows.rows(ItemKind.MEMBERS, cells)) == 2
    assert len(state_rows.rows(ItemKind.SESSIONS, cells)) == 1
    store = PLACE / "state" / "0" / "0"
    newest = max(int(file.stem) for file in store.glob("*.zip"))
    known = facts.read(PLACE)
    assert known is not None
    row = store_files.key_bytes(known.groups[QUIET])
    later = [file for file in store.glob("*.changelog") if int(file.stem) >= newest]
    assert later and not any(row in dict(store_files.changes(f.read_bytes())) for f in later)


@pytest.mark.spark
@pytest.mark.kafka
def test_a_job_goes_on_with_an_open_transaction_and_members(
    spark: "SparkSession", kafka: str, tmp_path: Path
) -> None:
    job = JobBench(kafka, tmp_path, **FLAGS)
    job.prefix = PREFIX
    events = quiet().events
    job.produce(events, QUIET.encode())
    job.produce(busy(), BUSY.encode())
    shutil.copytree(PLACE, job.checkpoint)
    known = facts.read(job.checkpoint)
    assert known is not None
    facts.write(job.checkpoint, msgspec.structs.replace(known, requests_topic_id=""))
    cells = state_reader.read_cells(job.checkpoint)
    member = {row["groupId"]: row for row in state_rows.rows(ItemKind.MEMBERS, cells)}
    [holder] = state_rows.rows(ItemKind.TRANSACTIONAL_IDS, cells)
    ids = {"producerId": holder["producerId"], "producerEpoch": holder["producerEpoch"]}
    requests = [
        (
            12,
            4,
            {"groupId": "classic", "generationId": 1, "memberId": member["classic"]["memberId"]},
        ),
        (
            68,
            1,
            {"groupId": "modern", "memberId": "m", "memberEpoch": member["modern"]["memberEpoch"]},
        ),
        (26, 4, {"transactionalId": TRANSACTION, **ids, "committed": True}),
    ]
    lines = [
        {
            "time": START + 3100,
            "requestHeader": {"requestApiKey": key, "requestApiVersion": version},
            "request": body,
        }
        for key, version, body in requests
    ]
    job.produce(
        with_ids([msgspec.json.encode(line) for line in lines], "on", QUIET), QUIET.encode()
    )
    assert job.run(spark).is_clean
    responses = {each["id"]: each["response"] for each in job.documents(outputs.RESPONSES)}
    assert [responses[f"on-{number}"]["errorCode"] for number in range(3)] == [0, 0, 0]
    after = state_reader.read_cells(job.checkpoint)
    [committed] = state_rows.rows(ItemKind.TRANSACTIONAL_IDS, after)
    assert committed["state"] == "CompleteCommit"


def with_ids(lines: list[bytes], name: str, cluster: str = "default") -> list[bytes]:
    return [
        msgspec.json.encode(
            {"id": f"{name}-{number}", "cluster": cluster, **msgspec.json.decode(line)}
        )
        for number, line in enumerate(lines)
    ]


@pytest.mark.parametrize(
    ("version", "message"),
    [
        (STATE_VERSION + 1, "written by a newer brokertwin"),
        (min(STEPS) - 1, "written by an older brokertwin"),
    ],
)
def test_an_unknown_version_is_rejected(tmp_path: Path, version: int, message: str) -> None:
    directory = tmp_path / "checkpoint"
    shutil.copytree(EXAMPLES[STATE_VERSION], directory)
    known = facts.read(directory)
    assert known is not None
    facts.write(directory, msgspec.structs.replace(known, state_version=version))
    with pytest.raises(UserError, match=message) as refused:
        state_reader.read_cells(directory)
    assert re.search("newer brokertwin|empty --checkpoint", refused.value.hint)
