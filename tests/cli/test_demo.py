"""`brokerstream demo`, as `make demo` runs it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
TIMEOUT_S = 1500


@pytest.mark.kafka
@pytest.mark.spark
def test_the_demo_ends_by_itself_with_its_summary(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "jars").symlink_to(ROOT / ".brokerstream" / "jars")
    drawing = tmp_path / "demo.svg"
    done = subprocess.run(
        [str(Path(sys.executable).parent / "brokerstream"), "demo", "--svg", str(drawing)],
        cwd=tmp_path,
        env={**os.environ, "BROKERSTREAM_HOME": str(home), "COLUMNS": "80"},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    agreed = re.search(r"([\d,]+) of 7,044 answers are what Apache Kafka", done.stdout)
    assert agreed is not None, done.stdout[-3000:]
    assert int(agreed.group(1).replace(",", "")) >= 6960
    assert "offset_reset.11.earliest" in done.stdout
    assert done.stdout.count("Committed offsets") == 1
    told = " ".join(done.stdout.split())
    letters = re.search(r"(\d+) dead letters, requests that are kept .*?: [a-z ]+ \((.*?)\)", told)
    assert letters is not None, told[-3000:]
    by_api = [int(number) for number in re.findall(r"[A-Z_]+ (\d+)", letters.group(2))]
    assert sum(by_api) == int(letters.group(1)) > 0
    (snapshot,) = (home / "demo" / "snapshots").glob("*.parquet")
    assert snapshot.stat().st_size > 0
    assert drawing.read_text().startswith("<svg")
    assert not (home / "demo" / "kafka" / "kafka.pid").exists()
