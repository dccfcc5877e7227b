"""Python workers that die by chance: in about 1% of the calls of the state function.

A death is drawn for each call, also when Spark retries it. So is its place: before the first event,
after an output row, or when the state is written and not yet returned.
"""

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from random import SystemRandom
from signal import SIGKILL
from typing import Any

from tests.planted.planting import Planted, plant
from tests.support.sources import ROOT

WORKERS_MODULE = "brokertwin.streaming.job.worker_daemon"
ONE_OF = "TESTS_FAULTS_ONE_OF"
CALLS, KILLS = "TESTS_FAULTS_CALLS", "TESTS_FAULTS_KILLS"
"""Files that grow by a byte with each call, and with each worker that is killed."""

DYING = Planted(
    "dying-workers",
    "a worker decides a group to its end",
    "brokertwin.streaming.job.operator",
    "def handle_strays(\n",
    "from tests.faults.chance import dying\n\nhandle_cell = dying(handle_cell)\n\n\n"
    "def handle_strays(\n",
)

_chance = SystemRandom()


def environment(directory: Path, one_of: int, values: Mapping[str, str]) -> dict[str, str]:
    """Variables of a job whose workers die in one of `one_of` calls; `directory` has the files."""
    begun = directory / "chance"
    begun.mkdir()
    text = "from tests.faults import chance\n\nchance.begin()\n"
    (begun / "sitecustomize.py").write_text(text, encoding="utf-8")
    for name in ("calls", "kills"):
        (directory / name).touch()
    path = [str(begun), str(ROOT), values.get("PYTHONPATH", "")]
    return {
        "PYTHONPATH": os.pathsep.join(filter(None, path)),
        ONE_OF: str(one_of),
        CALLS: str(directory / "calls"),
        KILLS: str(directory / "kills"),
    }


def begin() -> None:
    """In the process that workers are forked from, before it imports anything: they will die."""
    if WORKERS_MODULE in sys.orig_argv:
        plant(DYING)


def dying(decide: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
    """A state function in which the process ends now and then."""

    def decide_or_die(*given: Any) -> Iterator[Any]:
        _count(CALLS)
        is_last = not _chance.randrange(int(os.environ[ONE_OF]))
        rows_left = _chance.choice([0, 1, 5, -1]) if is_last else -1
        if rows_left == 0:
            _die()
        for row in decide(*given):
            rows_left -= 1
            if rows_left == 0:
                _die()
            yield row
        if is_last:
            _die()

    return decide_or_die


def _count(name: str) -> None:
    with Path(os.environ[name]).open("ab", buffering=0) as file:
        file.write(b".")


def _die() -> None:
    _count(KILLS)
    os.kill(os.getpid(), SIGKILL)
