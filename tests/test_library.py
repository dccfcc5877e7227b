"""The library's examples: short, shown in the documents, and they run."""

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from brokertwin.kafka_io.jars import connector_jars, fetch
from brokertwin.settings import default_home
from brokertwin.state.core import outputs
from brokertwin.state.core.settings import CellSettings
from brokertwin.streaming.job import stage
from tests.support.jobs import JobBench, capture
from tests.support.sources import ROOT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EXAMPLES = ("one_cell.py", "own_stream.py")
LINES_MAX = 25


def run(name: str, *words: object, **environment: str) -> list[str]:
    """Run an example; return the lines that it prints."""
    command = [sys.executable, str(ROOT / "examples" / name), *map(str, words)]
    variables = {**os.environ, **environment}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=variables)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_short_and_on_the_page(name: str) -> None:
    text = (ROOT / "examples" / name).read_text(encoding="utf-8")
    assert len(text.splitlines()) <= LINES_MAX
    page = (ROOT / "docs" / "library.md").read_text(encoding="utf-8")
    assert f"```python\n{text}```\n" in page


def test_a_cell_is_used_without_a_broker() -> None:
    topics = [line.partition(" ")[0] for line in run("one_cell.py")]
    assert topics == ["records", "responses", "records", "responses"]


@pytest.mark.kafka
def test_the_example_gives_the_responses_of_a_real_job(
    spark: "SparkSession", kafka: str, tmp_path: Path
) -> None:
    """With more partitions of both topics than the default, and two clusters."""
    flags = {"clusters": ("a", "b"), "requests_partitions": 4, "responses_partitions": 4}
    bench = JobBench(kafka, tmp_path, **flags)
    for cluster in ("a", "b"):
        events = capture("group_kp", bench.edge(cluster))[:100]
        known = (json.loads(each.document) for each in events)
        own = ({**each, "id": f"{cluster}-{n}", "replyTo": n % 4} for n, each in enumerate(known))
        bench.produce((json.dumps(each).encode() for each in own), cluster.encode())
    bench.run(spark)
    expected = {row.id: row.value for row in bench.rows(outputs.RESPONSES)}
    assert {row.partition for row in bench.all_rows(outputs.RESPONSES)} == {0, 1, 2, 3}
    jars = ",".join(map(str, fetch(connector_jars(), default_home())))
    arguments = f"--jars {jars} --conf spark.ui.enabled=false pyspark-shell"
    places = (kafka, bench.prefix, tmp_path / "own")
    shown = run("own_stream.py", *places, PYSPARK_SUBMIT_ARGS=arguments)
    found = {line.split(" ", 2)[1]: line.split(" ", 2)[2].encode() for line in shown}
    assert found == expected


def test_events_of_a_source_of_ones_own_are_decided(spark: "SparkSession", tmp_path: Path) -> None:
    topic = {"name": "orders", "numPartitions": 2, "replicationFactor": 1}
    requests = [(19, 7, {"topics": [topic], "timeoutMs": 1000}), (3, 12, {"topics": None})]
    values = [
        json.dumps(
            {
                "id": f"e{number}",
                "cluster": "shop",
                "requestHeader": {"requestApiKey": key, "requestApiVersion": version},
                "request": body,
            }
        ).encode()
        for number, (key, version, body) in enumerate(requests)
    ]
    at = datetime.fromtimestamp(1_800_000_000, UTC)
    columns = "partition INT, offset LONG, timestamp TIMESTAMP, key BINARY, value BINARY"
    given = [(0, 1, at, b"shop", values[1]), (0, 0, at, b"shop", values[0])]
    spark.createDataFrame(given, columns).coalesce(1).write.parquet(str(tmp_path / "events"))
    source = spark.readStream.schema(columns).parquet(str(tmp_path / "events"))
    rows = stage.decided(source, {0: CellSettings(name="shop", cluster="shop")})
    found: dict[str, Any] = {}

    def keep(decided: "DataFrame", _batch: int) -> None:
        responses = decided.where("topic = 'responses'").collect()
        found.update({row.id: json.loads(row.value) for row in responses})

    sink = rows.writeStream.foreachBatch(keep).option("checkpointLocation", str(tmp_path / "own"))
    sink.trigger(availableNow=True).start().awaitTermination()
    assert found.keys() == {"e0", "e1"}
    [created] = found["e0"]["response"]["topics"]
    [result] = found["e1"]["response"]["topics"]
    assert (created["errorCode"], result["topicId"]) == (0, created["topicId"])
