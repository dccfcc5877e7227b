"""`checkpoints.example/live`: Spark reads it as docs/live.md says, and the query continues it."""

import re
import shutil
import subprocess
import sys
from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from brokertwin.kafka_io.topic_reader import read_all
from brokertwin.streaming.live import operator, runner, tables
from brokertwin.streaming.live.fact_topic import fact_topic
from brokertwin.streaming.live.query import FACTS
from tests.support.example_live import PLACE, SOURCE, LiveExample, halves, in_partitions
from tests.support.live import LiveTopics, rows_in_state, sorted_rows
from tests.support.sources import ROOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLES = tuple(each for each in tables.TABLES if each.has_topic)
READ = "session.read.format('statestore').load('checkpoints.example/live').count()"
OWN_SESSION = f"""
from brokertwin.settings import load
from brokertwin.streaming.job.session import spark_session
session = spark_session(load({{"master": "local[1]"}}).settings)
print({READ})
"""


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    shutil.copytree(PLACE, tmp_path / PLACE.relative_to(ROOT))
    return tmp_path


def typed(program: str, directory: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=directory, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


@pytest.mark.processes
def test_the_document_reads_the_state_in_a_session_of_its_own(clone: Path) -> None:
    text = (ROOT / "docs" / "live.md").read_text(encoding="utf-8")
    found = re.search(r"```python\n(.*?)```\n+```text\n(.*?)```", text, re.DOTALL)
    assert found is not None
    assert typed(found[1], clone).split() == found[2].split()


@pytest.mark.processes
def test_a_session_of_brokertwin_reads_state_before_any_query(clone: Path) -> None:
    """SPARK-58973: in Spark 4.2.0 the reader needs an endpoint that only `streams` starts."""
    assert int(typed(OWN_SESSION, clone)) > len(TABLES)


@pytest.mark.spark
@pytest.mark.kafka
def test_a_query_goes_on_from_the_example(
    spark: "SparkSession", kafka: str, tmp_path: Path
) -> None:
    checkpoint = tmp_path / "checkpoint"
    shutil.copytree(PLACE, checkpoint)
    for table in TABLES:
        assert rows_in_state(spark, checkpoint, table), table.name
    example = LiveExample(kafka, checkpoint)
    first, rest = halves()
    example.write([*first, *rest])
    rows = in_partitions(SOURCE, [*first, *rest], 1)
    first, rest = rows[: len(first)], rows[len(first) :]
    with runner.prepared(example.query):
        store = fact_topic(example.client, example.query.topic(FACTS))
        list(operator.read(first, 0, store, UTC, lambda _: None))
    example.run(spark)

    alone = LiveTopics()
    alone.batch(first)
    reported = {each["id"] for each in alone.findings}
    alone.batch(rest)
    alone.end()
    for table in TABLES:
        found = rows_in_state(spark, checkpoint, table)
        assert found == sorted_rows(map(table.in_state, alone.table(table.name))), table.name
    values = (each.value for each in read_all(example.client, example.query.topic("findings")))
    newest = {each["id"]: each for each in (msgspec.json.decode(value or b"") for value in values)}
    wanted = {each["id"]: each for each in alone.findings if each["id"] not in reported}
    assert wanted
    assert {name: newest.get(name) for name in wanted} == wanted
