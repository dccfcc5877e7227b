"""Install, start and stop other stream processors, each in its own environment."""

import subprocess
import venv
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from brokertwin.kafka_io import jars
from brokertwin.settings import default_home

HERE = Path(__file__).with_name("peers")
BUILD = HERE.parents[1] / "build" / "peers"
PROCESSES = 2
PORT = 42_100
CHECKPOINT_S = "5"
SAID = 3_000
"""Characters of a processor's last output that are kept."""

FLINK_JAR = jars.JarSet("org.apache.flink", "flink-sql-connector-kafka", "5.0.0-2.2")
PACKAGES = {
    "quix": ("quixstreams==3.28.1", "msgspec==0.22.0"),
    "bytewax": ("bytewax[kafka]==0.21.1", "msgspec==0.22.0"),
    "flink": ("apache-flink==2.2.1", "msgspec==0.22.0"),
}


class Peer:
    """A processor's run.

    Args:
        name: of `COMMANDS`.
        bootstrap: Kafka's address.
        requests: the topic that it reads.
        answers: the topic that it writes, and its consumer group's name.
        directory: for its state and output.
    """

    def __init__(
        self, name: str, bootstrap: str, requests: str, answers: str, directory: Path
    ) -> None:
        self._name, self._directory = name, directory
        self.words = (bootstrap, requests, answers)
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def has_ended(self) -> bool:
        """Whether one of its processes has ended; normally none does."""
        return any(each.poll() is not None for each in self._processes)

    def part(self, name: str) -> str:
        return str(self._directory / name)

    def python(self) -> str:
        """Return the interpreter of its environment, created if missing."""
        directory = BUILD / self._name
        python, whole = directory / "bin" / "python", directory / "installed"
        if not whole.exists():
            venv.create(directory, with_pip=True, clear=True)
            install = [str(python), "-m", "pip", "install", "-q", *PACKAGES[self._name]]
            subprocess.run(install, check=True)
            whole.touch()
        return str(python)

    @contextmanager
    def running(self) -> Iterator[Callable[[], str]]:
        """Run its processes in the context; yield a function that returns their last output."""
        python, log = self.python(), self._directory / "log"
        with log.open("wb") as said:
            for words in COMMANDS[self._name](self, python):
                started = subprocess.Popen([python, *words], cwd=HERE, stdout=said, stderr=said)
                self._processes.append(started)
            try:
                yield lambda: log.read_text(errors="replace")[-SAID:]
            finally:
                for each in self._processes:
                    each.terminate()
                for each in self._processes:
                    each.wait()


def _quix(peer: Peer, _python: str) -> list[list[str]]:
    return [["quix_job.py", *peer.words, peer.part(str(number))] for number in range(PROCESSES)]


def _bytewax(peer: Peer, python: str) -> list[list[str]]:
    state = peer.part("state")
    Path(state).mkdir()
    subprocess.run([python, "-m", "bytewax.recovery", state, str(PROCESSES)], check=True)
    addresses = ";".join(f"127.0.0.1:{PORT + number}" for number in range(PROCESSES))
    flow = f"bytewax_job:flow({', '.join(map(repr, peer.words))})"
    kept = ["-r", state, "-s", CHECKPOINT_S, "-b", "0"]
    run = ["-m", "bytewax.run", flow, *kept, "-a", addresses]
    return [[*run, "-i", str(number)] for number in range(PROCESSES)]


def _flink(peer: Peer, _python: str) -> list[list[str]]:
    (jar,) = (
        each for each in jars.fetch(FLINK_JAR, default_home()) if FLINK_JAR.module in each.name
    )
    return [["flink_job.py", *peer.words, peer.part("state"), str(jar)]]


COMMANDS: dict[str, Callable[[Peer, str], list[list[str]]]] = {
    "quix": _quix,
    "bytewax": _bytewax,
    "flink": _flink,
}
"""Interpreter arguments for each process of a processor."""
