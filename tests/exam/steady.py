"""Examines a real Kafka again and again: it must never deviate from itself.

    python -m tests.exam.steady [--times N] [--only NAME] [--at HOST:PORT] [--patience N]

Each round plays all scenarios with the next broker of a cluster of three as the home broker, first
directly, then behind a network with delays of 5 to 200 ms. Exit code 1 if a scenario deviates.
"""

import argparse
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from queue import SimpleQueue
from random import Random

from brokertwin.gateway.edge_fields import Address
from brokertwin.testing.exam.examination import ExamOptions, examine
from brokertwin.testing.exam.model import selected
from brokertwin.testing.exam.reports import described
from brokertwin.testing.exam.site import Site, look
from brokertwin.testing.exam.verdicts import Outcome
from tests.exam.record import CLUSTER, SETTINGS, address_of
from tests.support.kafka_clusters import kafka_cluster

DELAYS_MS = (5, 200)
CHUNK = 64 * 1024


class SlowNetwork:
    """A port that relays to a broker; each piece of data arrives late, and in order."""

    def __init__(self, broker: Address, seed: int) -> None:
        self._broker, self._chance = broker, Random(seed)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = Address(*self._listener.getsockname())
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                broker = socket.create_connection(self._broker)
                for ends in ((client, broker), (broker, client)):
                    pieces: SimpleQueue[tuple[float, bytes]] = SimpleQueue()
                    for work in (self._take, self._give):
                        threading.Thread(target=work, args=(*ends, pieces), daemon=True).start()

    def _take(
        self, source: socket.socket, _: socket.socket, pieces: "SimpleQueue[tuple[float, bytes]]"
    ) -> None:
        data = b"start"
        while data:
            data = b""
            with suppress(OSError):
                data = source.recv(CHUNK)
            late_s = self._chance.uniform(*DELAYS_MS) / 1000
            pieces.put((time.monotonic() + late_s, data))

    def _give(
        self, _: socket.socket, sink: socket.socket, pieces: "SimpleQueue[tuple[float, bytes]]"
    ) -> None:
        with suppress(OSError):
            while True:
                due, data = pieces.get()
                time.sleep(max(0.0, due - time.monotonic()))
                if not data:
                    sink.shutdown(socket.SHUT_WR)
                    return
                sink.sendall(data)


@contextmanager
def behind(site: Site, seed: int) -> Iterator[Site]:
    with ExitStack() as stack:
        slow = {node: SlowNetwork(at, seed + node) for node, at in site.brokers.items()}
        for each in slow.values():
            stack.callback(each.close)
        yield site._replace(brokers={node: each.address for node, each in slow.items()})


def deviations(site: Site, names: Sequence[str], options: ExamOptions) -> Iterator[str]:
    """Examine brokers; yield a line for each deviating scenario."""
    for each in examine(list(selected(names)), site, options):
        if each.outcome is Outcome.DEVIATES:
            yield f"{each.scenario}: {described(each.deviations[0])}"


def main(arguments: Sequence[str]) -> int:
    """Examine; returns 1 if a scenario deviates."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=CLUSTER, help="number of rounds")
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--at", action="append", default=[], help="brokers of a running cluster")
    parser.add_argument("--patience", type=float, default=5, help="for a machine under load")
    given = parser.parse_args(arguments)
    with ExitStack() as stack:
        texts = given.at
        if not texts:
            directory = stack.enter_context(tempfile.TemporaryDirectory())
            nodes = stack.enter_context(kafka_cluster(Path(directory), CLUSTER, SETTINGS))
            texts = [address for _, address in nodes.values()]
        total = 0
        for turn in range(given.times):
            address = address_of(texts[turn % len(texts)])
            wanted = {n for _, each in selected(given.only) for n in each.described_settings}
            site = look(address, wanted, given.patience)
            for way, jobs in (("direct", 12), ("slow", 32)):
                began = time.monotonic()
                with behind(site, turn) if way == "slow" else nullcontext(site) as seen:
                    options = ExamOptions(jobs, given.patience)
                    found = list(deviations(seen, given.only, options))
                total += len(found)
                took = time.monotonic() - began
                name = f"round {turn + 1}, broker {site.home}, {way}"
                _say(f"{name}: {len(found)} deviations in {took:.0f} s")
                for line in found:
                    _say(f"  {line}")
        _say(f"{total} deviations")
    return int(total > 0)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
