"""`brokertwin demo`, as `make demo` runs it."""

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from brokertwin.cli.demo import CLUSTER
from brokertwin.kafka_io.kafka_broker import EmbeddedKafka
from brokertwin.protocol.kafka_apis import KAFKA_APIS
from tests.support.console import brokertwin

ROOT = Path(__file__).resolve().parent.parent.parent
TIMEOUT_S = 1500
KINDS = ("requests", "responses", "records", "offsets")
COLUMNS = 80
SENTENCE = re.compile("responses match|dead letters, requests|offsets of micro-batch")
"""Lines that are not of the tables."""

API_NAMES = {api.name for api in KAFKA_APIS.values()}
GROUPS = {
    *("classic_rebalance_range.7.group", "group_kp.5.group", "group_old_versions_kp.6.group"),
    "offset_reset.11.earliest",
}
"""Some of those that have committed."""


def shows_two_whole_tables(piped: str) -> None:
    """Each once, within 80 columns, and no name is cut."""
    lines = piped.splitlines()
    titles = ["Responses by API and error code", "Committed offsets"]
    assert [line for line in lines if line in titles] == titles
    assert max(len(line) for line in lines if not SENTENCE.search(line)) <= COLUMNS
    first, second = map(lines.index, titles)
    firsts = {line.split()[0] for line in lines[first + 1 : second] if re.match("[A-Z]+[_ ]", line)}
    assert firsts - API_NAMES == {"API"}
    assert {"PRODUCE", "OFFSET_COMMIT", "ADD_PARTITIONS_TO_TXN"} <= firsts
    groups = Counter(word for line in lines[second:] for word in line.split() if word in GROUPS)
    assert groups == dict.fromkeys(GROUPS, 1)


@pytest.mark.kafka
@pytest.mark.spark
def test_the_demo_ends_by_itself_with_its_summary(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "jars").symlink_to(ROOT / ".brokertwin" / "jars")
    drawing = tmp_path / "demo.svg"
    done = subprocess.run(
        [str(Path(sys.executable).parent / "brokertwin"), "demo", "--svg", str(drawing)],
        cwd=tmp_path,
        env={**os.environ, "BROKERTWIN_HOME": str(home), "COLUMNS": str(COLUMNS)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    agreed = re.search(r"([\d,]+) of ([\d,]+) responses match Apache Kafka", done.stdout)
    assert agreed is not None, done.stdout[-3000:]
    assert agreed[1] == agreed[2]
    assert int(agreed[1].replace(",", "")) > 8000
    assert "offset_reset.11.earliest" in done.stdout
    shows_two_whole_tables(done.stdout)
    reported_at = re.compile(r"\d\d:\d\d:\d\d (requests .*)")
    progress = [found[1] for line in done.stderr.splitlines() if (found := reported_at.match(line))]
    assert len(progress) == len(set(progress)) > 0, "nothing is told twice"
    output = " ".join(done.stdout.split())
    assert "dead letter" not in output, "every API that the captures ask is built"
    (snapshot,) = (home / "demo" / "snapshots").glob("*/offsets-*.parquet")
    assert snapshot.stat().st_size > 0
    assert drawing.read_text().startswith("<svg")
    assert not (home / "demo" / "kafka" / "kafka.pid").exists()
    no_check_finds_anything(home)


def no_check_finds_anything(home: Path) -> None:
    """The topics and the snapshot of the demo meet our suites in each row."""
    kafka = EmbeddedKafka(home / "demo" / "kafka", home)
    place = ("--bootstrap", kafka.start(), "--prefix", "demo", "--cluster", CLUSTER)
    try:
        rows = {kind: checked_rows(kind, *place) for kind in KINDS}
    finally:
        kafka.stop()
    assert rows["requests"] >= rows["responses"] > 7000
    assert min(rows.values()) > 0, rows
    assert checked_rows("snapshot", str(home / "demo" / "snapshots")) > 0


def checked_rows(kind: str, *words: str) -> int:
    """How many rows `check` has seen; nothing was found in them."""
    done = brokertwin("check", *words, "--on", kind)
    assert done.returncode == 0, (kind, done.stdout, done.stderr)
    (output,) = re.findall(rf"{kind}: (\d+) of \1 expectations met, ([\d,]+) rows", done.stdout)
    return int(output[1].replace(",", ""))
