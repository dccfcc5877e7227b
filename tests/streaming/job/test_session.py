"""Files for a cluster's executors, and options of a local job's JVM."""

import subprocess
import sys
from pathlib import Path

import pytest

from brokertwin.settings import load
from brokertwin.streaming.job import session
from brokertwin.streaming.job.session import packages_zip


@pytest.mark.processes
def test_a_worker_needs_only_the_zip_and_its_libraries(tmp_path: Path) -> None:
    """The packages import from the zip where brokertwin is not installed."""
    shipped = packages_zip(tmp_path)
    program = f"""
import sys
sys.path[:0] = [{str(shipped)!r}]
sys.path += {[path for path in sys.path if path.endswith("site-packages")]!r}
import brokertwin.streaming.job.operator as operator
import brokertwin.streaming.live.operator
import brokertwin.tables.query.spark_source
assert operator.__file__.startswith({str(shipped)!r}), operator.__file__
"""
    bare = [sys.executable, "-S", "-c", program]  # -S: without the installed packages' finders
    done = subprocess.run(bare, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("is_local", [pytest.param(True, marks=pytest.mark.spark), False])
def test_only_a_local_jvm_gets_process_options(is_local: bool) -> None:
    reported = session._configuration(load({}).settings, [], is_local)
    options = reported["spark.driver.extraJavaOptions"].split()
    assert (session.COMPILE_ONCE in options) == is_local
    assert (session.VFORK in options) == (is_local and sys.platform == "linux")
    assert ("spark.sql.streaming.checkpointFileManagerClass" in reported) == is_local
    assert any(each.startswith("-Dlog4j2.configurationFile=") for each in options)


@pytest.mark.parametrize(
    ("master", "tried"),
    [
        ("local", "local[1,4]"),
        ("local[2]", "local[2,4]"),
        ("local[*]", "local[*,4]"),
        ("local[2,1]", "local[2,1]"),
        ("spark://host:7077", "spark://host:7077"),
        ("yarn", "yarn"),
    ],
)
def test_a_local_master_retries_a_task(master: str, tried: str) -> None:
    assert session.tried(master) == tried
