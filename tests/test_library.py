"""The library's examples: short, shown in the documents, and they run."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.sources import ROOT

EXAMPLES = ("one_cell.py", "own_stream.py")
LINES_MAX = 25


def run(name: str, *words: object) -> list[str]:
    """Run an example; return the lines that it prints."""
    command = [sys.executable, str(ROOT / "examples" / name), *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
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


@pytest.mark.processes
@pytest.mark.spark
def test_events_of_a_source_of_ones_own_are_decided_in_a_spark_query(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

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
    rows = {
        "partition": pa.array([0, 0], pa.int32()),
        "offset": pa.array([1, 0], pa.int64()),
        "timestamp": pa.array([1_800_000_000_000_000] * 2, pa.timestamp("us", "UTC")),
        "key": pa.array([b"shop"] * 2, pa.binary()),
        "value": pa.array(values[::-1], pa.binary()),
    }
    (tmp_path / "events").mkdir()
    pq.write_table(pa.table(rows), tmp_path / "events" / "first.parquet")
    shown = run("own_stream.py", tmp_path / "events", tmp_path / "checkpoint")
    found = {line.split(" ", 2)[1]: json.loads(line.split(" ", 2)[2]) for line in shown}
    assert found.keys() == {"e0", "e1"}
    [created] = found["e0"]["response"]["topics"]
    [result] = found["e1"]["response"]["topics"]
    assert (created["errorCode"], result["topicId"]) == (0, created["topicId"])
