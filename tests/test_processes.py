"""Processes that share the work of one command."""

import os
import signal

import pytest

from brokertwin.errors import UserError
from brokertwin.processes import Forked


def test_processes_work_with_the_objects_of_this_one() -> None:
    known = {"a": 1, "b": 2}
    with Forked(2, known.__getitem__) as pool:
        assert [pool.do(name).result() for name in "abb"] == [1, 2, 2]


def test_a_killed_process_is_reported() -> None:
    with (
        pytest.raises(UserError, match="ended before its work was done"),
        Forked(1, lambda sent: os.kill(os.getpid(), sent)) as pool,
    ):
        pool.do(signal.SIGKILL).result()
