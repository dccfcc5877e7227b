"""`brokertwin query`: its output, its destinations, and refused arguments."""

import csv
import io
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from brokertwin.tables.schemas import BY_NAME
from tests.support.audits import CAPTURES
from tests.support.console import brokertwin

(GROUP,) = (path for path in CAPTURES if path.name == "group_kp.jsonl.gz")
SHORT = min(CAPTURES, key=lambda path: path.stat().st_size)
BROKER = ("--broker-config", GROUP.with_name("broker.properties"))
QUERIES = """
    select groupId, topic, partition, committedOffset, commitTimestamp as at,
           [1, partition] as list, map {'a': 'b'} as map
    from offsets order by partition
"""
WAYS: dict[str, tuple[str, ...]] = {
    "table": (),
    "json": ("--json",),
    "csv": ("--csv",),
    "parquet": ("--parquet", "it.parquet"),
}


def test_a_result_is_a_table_json_csv_or_parquet(tmp_path: Path) -> None:
    """The same rows in each; a table fits 80 columns."""
    output = {
        way: brokertwin("query", QUERIES, GROUP, *BROKER, *options, cwd=tmp_path, COLUMNS="80")
        for way, options in WAYS.items()
    }
    assert [done.returncode for done in output.values()] == [0] * 4, output
    rows = [json.loads(line) for line in output["json"].stdout.splitlines()]
    assert [row["partition"] for row in rows] == [0, 1, 2, 3]
    assert (rows[1]["list"], rows[1]["map"]) == ([1, 1], {"a": "b"})
    assert rows[0]["at"].startswith("2026-11-21 00:4")
    for row, text in zip(rows, csv.DictReader(io.StringIO(output["csv"].stdout)), strict=True):
        read = {name: json.loads(text[name]) for name in ("list", "map", "partition")}
        assert {**row, **read} == row
        assert (text["at"], text["committedOffset"]) == (row["at"], str(row["committedOffset"]))
    table = output["table"].stdout.splitlines()
    assert max(map(len, table)) <= 80
    assert (table[0], table[-1]) == ("at the end of group_kp.jsonl.gz", "4 rows")
    assert all(row["at"].split()[1] in output["table"].stdout for row in rows)
    written = pq.read_table(tmp_path / "it.parquet")
    assert written["committedOffset"].to_pylist() == [row["committedOffset"] for row in rows]
    assert (
        "wrote 4 rows, at the end of group_kp.jsonl.gz, to it.parquet" in output["parquet"].stderr
    )


@pytest.mark.parametrize("words", [("query", "from logs"), ("replay", "state", "logs")])
def test_a_recording_that_begins_in_the_middle_is_named(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    exchange = {
        "time": 1795934820000,
        "requestHeader": {"requestApiKey": 22, "requestApiVersion": 4, "correlationId": 1},
        "request": {"transactionalId": "t", "transactionTimeoutMs": 60_000},
        "response": {"errorCode": 0, "producerId": 0, "producerEpoch": 1},
    }
    file = tmp_path / "late.jsonl"
    file.write_text(json.dumps(exchange))
    done = brokertwin(*words, file)
    assert done.returncode == 0
    (line,) = [each for each in done.stderr.splitlines() if "beginning" in each]
    assert line.startswith("warning: The recording does not have its beginning: 1 transactional id")


def test_query_without_sql_lists_every_table() -> None:
    output = brokertwin("query", COLUMNS="80").stdout
    assert max(map(len, output.splitlines())) <= 80
    for table in BY_NAME.values():
        assert f"{table.name}  {table.what[:20]}" in output
    documents = [json.loads(line) for line in brokertwin("query", "--json").stdout.splitlines()]
    assert [each["table"] for each in documents] == list(BY_NAME)
    assert documents[0]["columns"][0]["name"] == "cell"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("from groups", SHORT, "--json", "--csv"), "Pass only one of them."),
        (("from group", SHORT), "Parser Error"),
        (("from groups", SHORT, "--at", "noon"), "noon"),
        (("from groups", "none.jsonl"), "none.jsonl does not exist."),
        (
            ("from groups", "--checkpoint", "nowhere"),
            "not a checkpoint with a committed micro-batch",
        ),
        (("from groups", SHORT, "--parquet", "no/such/file"), "Cannot write to"),
    ],
)
def test_what_cannot_be_is_refused_in_words(words: tuple[object, ...], message: str) -> None:
    done = brokertwin("query", *words)
    assert (done.returncode, message in done.stderr) == (2, True), done.stderr
    assert "Traceback" not in done.stderr
