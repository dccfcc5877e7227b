"""What has failed beside others is tried alone, a few at most; who fails again has failed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.sources import ROOT

pytestmark = pytest.mark.processes

TWICE = """
import pathlib
import pytest

@pytest.mark.parametrize("n", range({count}))
def test_it(n):
    tries = pathlib.Path(f"tries{{n}}")
    tries.write_text("x" + (tries.read_text() if tries.exists() else ""))
    assert len(tries.read_text()) > {failures}
"""


BREAKS_OFF = """
def test_that_is_interrupted():
    raise KeyboardInterrupt
"""


def python(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A run of a module in another project."""
    command = [sys.executable, "-m", *arguments]
    given = os.environ | {"PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=home, env=given, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("count", "failures", "status", "said"),
    [
        (1, 1, 0, "1 passed"),
        (3, 1, 0, "3 passed"),
        (1, 2, 1, "1 failed"),
        (4, 1, 1, "4 tests have failed: none is tried alone"),
        (1, 0, 1, "0 tests have failed: none is tried alone"),
    ],
    ids=["passes", "all pass", "fails again", "too many", "ended for another reason"],
)
def test_what_failed_is_tried_alone(
    tmp_path: Path, count: int, failures: int, status: int, said: str
) -> None:
    (tmp_path / "test_some.py").write_text(TWICE.format(count=count, failures=failures))
    first = python(tmp_path, "pytest", "-q", "-n", "0", "--cache-clear")
    assert first.returncode == (1 if failures else 0)
    last = python(tmp_path, "tests.alone")
    assert (last.returncode, said in last.stdout) == (status, True), last.stdout


def test_of_a_run_that_was_broken_off_nothing_is_tried(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(TWICE.format(count=2, failures=1) + BREAKS_OFF)
    first = python(tmp_path, "pytest", "-q", "-n", "0", "--cache-clear")
    last = python(tmp_path, "tests.alone", "--ended", str(first.returncode))
    said = f"the tests ended with {first.returncode}: none is tried alone\n"
    assert (last.returncode, last.stdout) == (pytest.ExitCode.INTERRUPTED, said)
