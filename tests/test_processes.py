"""Processes that share the work of one command."""

import os
import signal
import time
from multiprocessing import get_context
from multiprocessing.connection import Connection

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


def test_a_process_killed_while_it_writes_is_reported() -> None:
    def answer(_: int) -> bytes:
        def begin(pipe: Connection, data: bytes) -> None:
            os.write(pipe.fileno(), data[:4])
            os.kill(os.getpid(), signal.SIGKILL)

        Connection._send = begin  # type: ignore[attr-defined]
        return bytes(100_000)

    with pytest.raises(UserError, match="ended before"), Forked(2, answer) as pool:
        pool.do(0).result()


def test_an_error_of_a_process_is_raised_here() -> None:
    with Forked(1, int) as pool:
        with pytest.raises(ValueError, match="invalid literal"):
            pool.do("a").result()
        assert pool.do("1").result() == 1


def test_processes_end_in_the_midst_of_their_work() -> None:
    begun = get_context("fork").Event()

    def work(seconds: int) -> None:
        begun.set()
        time.sleep(seconds)

    with Forked(2, work) as pool:
        works = [pool.do(100_000) for _ in range(5)]
        begun.wait()
    assert all(each.done() for each in works)
