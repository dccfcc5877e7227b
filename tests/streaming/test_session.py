"""What is sent to the executors of a cluster."""

import subprocess
import sys
from pathlib import Path

from brokerstream.streaming.session import packages_zip


def test_a_worker_needs_nothing_but_the_zip_and_its_libraries(tmp_path: Path) -> None:
    """The packages import from the zip where brokerstream is not installed."""
    shipped = packages_zip(tmp_path)
    program = f"""
import sys
sys.path[:0] = [{str(shipped)!r}]
sys.path += {[path for path in sys.path if path.endswith("site-packages")]!r}
import brokerstream.streaming.operator as operator
assert operator.__file__.startswith({str(shipped)!r}), operator.__file__
"""
    bare = [sys.executable, "-S", "-c", program]  # -S: without the installed packages' finders
    done = subprocess.run(bare, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
