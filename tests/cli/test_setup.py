"""`make setup` and `brokertwin setup` report their steps; a directory serves as the mirror."""

import contextlib
import os
import pty
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from brokertwin.kafka_io import jars
from tests.support.images import Ignored, copy_context
from tests.support.ivy_mirrors import mirror, modules_of
from tests.support.patience import PATIENCE_S
from tests.support.sources import ROOT

pytestmark = pytest.mark.kafka

BAR = "━"
ESCAPE = "\x1b"
JARS_ONLY = "--jars-only"
"""The archives of classes are made by the setup of this very run (`test_class_training.py`)."""

SETUP = [sys.executable, "-m", "brokertwin", "setup", JARS_ONLY]


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """An empty home, and a mirror with what `setup` fetches."""
    wanted = [*modules_of(jars.connector_jars()), *modules_of(jars.kafka_jars())]
    ours = ("BROKERTWIN", "MAKE")  # where `make test` runs this, make says more
    kept = {k: v for k, v in os.environ.items() if not any(name in k for name in ours)}
    return {
        **kept,
        "BROKERTWIN_HOME": str(tmp_path / "home"),
        "BROKERTWIN_IVY_SETTINGS": str(mirror(tmp_path / "mirror", wanted)),
        "TERM": "xterm",
        "COLUMNS": "100",
    }


def on_a_terminal(command: list[str], environment: dict[str, str]) -> str:
    """Return the output of a command on a separate terminal."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(command, env=environment, stdout=theirs, stderr=theirs)
    os.close(theirs)
    shown = b""
    with contextlib.suppress(OSError):  # no process writes to it any longer
        while piece := os.read(ours, 65536):
            shown += piece
    os.close(ours)
    assert process.wait(PATIENCE_S) == 0, shown
    return shown.decode()


def setup(environment: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(SETUP, env=environment, capture_output=True, text=True, check=False)


def reported_lines(lines: list[str]) -> list[str]:
    return [line.partition(" in ")[0].strip() for line in lines]


EXPECTED = [
    f"downloading spark-sql-kafka-0-10_2.13 {jars.spark_version()}",
    f"spark-sql-kafka-0-10_2.13-{jars.spark_version()}.jar",
    "downloading kafka_2.13 4.3.1",
    "kafka_2.13-4.3.1.jar",
    f"log4j-slf4j-impl-{jars.LOG4J_VERSION}.jar",
]


def test_a_file_gets_a_line_for_each_jar_and_no_bar(environment: dict[str, str]) -> None:
    done = setup(environment)
    assert (done.returncode, done.stdout) == (0, "")
    assert reported_lines(done.stderr.splitlines()) == EXPECTED
    assert ESCAPE not in done.stderr
    again = setup(environment)
    assert (again.returncode, again.stdout, again.stderr) == (0, "", ""), "nothing is left to do"


def test_a_terminal_gets_a_bar_as_well(environment: dict[str, str]) -> None:
    shown = on_a_terminal(SETUP, environment)
    assert BAR in shown
    assert "2/2" in shown, "the jars of Kafka that have come, and how many there are"
    for line in EXPECTED:
        assert line in shown


def test_make_setup_prints_its_three_steps(environment: dict[str, str], tmp_path: Path) -> None:
    """Run it in a new clone; the packages are installed, so that pip does not use an index."""
    clone = tmp_path / "clone"
    copy_context(ROOT, Ignored(ROOT / ".dockerignore"), clone)
    shutil.copy(ROOT / "Makefile", clone)
    site = Path(sysconfig.get_path("purelib")).relative_to(sys.prefix)
    (tmp_path / "there.pth").write_text(f"import sys; sys.path.insert(0, '{sys.prefix}/{site}')\n")
    python = tmp_path / "python"
    python.write_text(
        f'#!/bin/sh\n{sys.executable} "$@" || exit 1\n'
        f'[ "$2" != venv ] || cp {tmp_path}/there.pth "$3/{site}/"\n'
    )
    python.chmod(0o755)
    offline = {"PIP_NO_INDEX": "1", "PIP_NO_BUILD_ISOLATION": "0", "PIP_ROOT_USER_ACTION": "ignore"}
    command = ["make", "setup", f"PYTHON={python}", f"SETUP={JARS_ONLY}"]
    done = subprocess.run(
        command, cwd=clone, env=environment | offline, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    output = [line for line in done.stdout.splitlines() if line.startswith("setup ")]
    assert [line.partition(":")[0] for line in output] == [f"setup {n} of 3" for n in (1, 2, 3)]
    assert reported_lines(done.stderr.splitlines()) == EXPECTED
    again = subprocess.run(
        command, cwd=clone, env=environment | offline, capture_output=True, text=True, check=False
    )
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "")
