"""A command in a separate process, and its child processes."""

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psutil

from tests.support.console import command
from tests.support.patience import PATIENCE_S, wait_until

PIDFD_GETFD = 438
"""The number of the call by which Linux gives a process another one's open file."""


class Server:
    """`brokertwin …` that runs until it is stopped; its output goes to a file.

    Args:
        words: arguments after `brokertwin`.
        environment: its variables.
        log: its output file; a restart appends to it.
        program: a program to start instead.
    """

    def __init__(
        self,
        words: Iterable[str],
        environment: Mapping[str, str],
        log: Path,
        program: list[str] | None = None,
    ) -> None:
        self.words = tuple(words)
        self.environment = dict(environment)
        self.log = log
        self.starts = 0
        self._program = program
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.starts += 1
        with self.log.open("ab") as out:
            self._process = subprocess.Popen(
                [*(self._program or command()), *self.words],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def process(self) -> psutil.Process:
        """The process; it has been started."""
        assert self._process is not None
        return psutil.Process(self._process.pid)

    @property
    def code(self) -> int | None:
        """How it has ended, None while it runs."""
        assert self._process is not None
        return self._process.poll()

    def output(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def below(self, *names: str) -> list[psutil.Process]:
        """Its children, and theirs, whose command line has one of these words."""
        with contextlib.suppress(psutil.NoSuchProcess):
            found = self.process.children(recursive=True)
            return [each for each in found if any(name in _words_of(each) for name in names)]
        return []

    def end(self, patience_s: float = PATIENCE_S) -> int:
        """Ask it to end, and wait; gives back its exit code."""
        assert self._process is not None
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        return self._process.wait(patience_s)

    def kill(self) -> None:
        """Send SIGKILL to the process alone, not to its children."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(PATIENCE_S)


def _words_of(process: psutil.Process) -> str:
    with contextlib.suppress(psutil.Error):
        return " ".join(process.cmdline())
    return ""


@contextmanager
def stopped(processes: Iterable[psutil.Process]) -> Iterator[None]:
    """SIGSTOP, and SIGCONT at the end to those that are still there."""
    held = list(processes)
    for one in held:
        one.suspend()
    try:
        yield
    finally:
        for one in held:
            with contextlib.suppress(psutil.NoSuchProcess):
                one.resume()


def kill_all(processes: Iterable[psutil.Process]) -> None:
    """Send SIGKILL; skip processes that have ended."""
    for one in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            one.kill()


def break_connections(processes: Iterable[psutil.Process], port: int) -> int:
    """Shut down their connections to a port, like a network failure; return the number."""
    count = 0
    for one in processes:
        with contextlib.suppress(psutil.Error, ProcessLookupError):
            net_connections = one.net_connections("tcp")
            fds = [each.fd for each in net_connections if each.raddr and each.raddr.port == port]
            count += sum(_shut(one.pid, fd, port) for fd in fds)
    return count


def _shut(pid: int, fd: int, port: int) -> bool:
    """Shut down a process's file descriptor if it is still its connection to the port."""
    process = os.pidfd_open(pid)
    try:
        ours = ctypes.CDLL(None, use_errno=True).syscall(PIDFD_GETFD, process, fd, 0)
    finally:
        os.close(process)
    if ours < 0:
        return False
    try:
        connection = socket.socket(fileno=ours)
    except OSError:  # a file has the number by now
        os.close(ours)
        return False
    with connection, contextlib.suppress(OSError):
        if connection.getpeername()[1] == port:
            connection.shutdown(socket.SHUT_RDWR)
            return True
    return False


def marked(mark: str) -> list[psutil.Process]:
    """Every process whose environment has a value `BROKERTWIN_CHECKPOINT` of this text.

    Spark's JVM and its Python workers have it from the job that started them.
    """
    processes = []
    for one in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            is_marked = one.environ().get("BROKERTWIN_CHECKPOINT") == mark
            if is_marked and one.pid != os.getpid() and one.status() != psutil.STATUS_ZOMBIE:
                processes.append(one)
    return processes


def wait_until_gone(mark: str, patience_s: float = PATIENCE_S) -> float:
    """Wait until no process with this mark runs; return the duration in seconds."""
    begin = time.monotonic()
    wait_until(lambda: not marked(mark), f"left behind: {marked(mark)}", patience_s)
    return time.monotonic() - begin


def end_all(mark: str) -> None:
    kill_all(marked(mark))
