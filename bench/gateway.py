"""The gateway with the local engine beside a real Kafka broker: a table and a plot.

    python bench/gateway.py [--rounds 5] [--beside DIR] [--plot gateway.svg]

Each side runs in a process of its own on this machine. They take turns in each round, so that what
the machine does besides falls on all alike; figures are medians over the rounds. `--beside` takes
the directory of another checkout, or build/compiled, whose gateway is measured, too.

    produce, fetch, metadata  one request after the other on each of 50 connections
                              (gateway_load.py says what they ask for, and how answers are checked)
    records, read, committed  200-byte records through confluent-kafka: produced with idempotence,
                              consumed from the beginning, and in transactions of 200

`a second` is requests or records; `µs` is the processor time that the side's process takes for
one, which a busy machine changes less. No figure is printed unless all sides give equal answers,
but for ids and addresses, and every record comes back as it was sent.
"""

import argparse
import contextlib
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import psutil
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from gateway_load import FETCH, METADATA, Load

from brokertwin.gateway.records import records
from brokertwin.kafka_io.kafka_broker import EmbeddedKafka
from brokertwin.settings import default_home

ROOT = Path(__file__).resolve().parent.parent
CONNECTIONS = 50
VALUE_BYTES = 100
RECORD_BYTES = 200
PARTITIONS = 4
TRANSACTION_RECORDS = 200
REQUESTS = ("produce", "fetch", "metadata")
RECORDS = ("records", "read", "committed")
TIMEOUT_S = 60.0


class Side(NamedTuple):
    """A broker: what it is called, where it is reached, its process."""

    name: str
    address: str
    process: psutil.Process

    def processor_s(self) -> float:
        """The processor time that it has taken so far."""
        times = self.process.cpu_times()
        return float(times.user + times.system)


class Figure(NamedTuple):
    """Of a kind in one round: how many a second, and processor time in µs for one."""

    rate: float
    processor: float


Figures = dict[tuple[str, str], list[Figure]]
"""By kind and side."""


def _as_packages(checkout: Path, package: Path) -> None:
    """What pyproject.toml maps into the package, at one place."""
    package.mkdir(parents=True)
    for each in (*(checkout / "brokertwin").iterdir(), *checkout.iterdir()):
        is_part = each.parent.name == "brokertwin" or (each / "__init__.py").exists()
        if is_part and each.name not in ("brokertwin", "__pycache__"):
            (package / each.name).symlink_to(each)


@contextlib.contextmanager
def gateway(name: str, checkout: Path, directory: Path) -> Iterator[Side]:
    """The gateway of a checkout, or of built packages, on a free port, all of it in memory."""
    path = checkout
    if not (checkout / "brokertwin" / "gateway").exists():
        path = directory / name
        _as_packages(checkout, path / "brokertwin")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen(
        (sys.executable, "-P", "-m", "brokertwin", "gateway", "--listen", f"127.0.0.1:{port}"),
        env={**os.environ, "PYTHONPATH": str(path)},
        cwd=directory,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_for(port)
        yield Side(name, f"127.0.0.1:{port}", psutil.Process(process.pid))
    finally:
        process.terminate()
        process.wait()


def _wait_for(port: int) -> None:
    until = time.monotonic() + TIMEOUT_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)


@contextlib.contextmanager
def kafka(directory: Path) -> Iterator[Side]:
    """A real broker."""
    broker = EmbeddedKafka(directory / "kafka", default_home())
    try:
        bootstrap = broker.start()
        pid = broker.status().pid
        assert pid is not None
        yield Side("kafka", bootstrap, psutil.Process(pid))
    finally:
        broker.stop()


def comparable(load: Load) -> list[dict[str, Any]]:
    """The first answers, without ids and addresses, which no two clusters share."""
    found = []
    for api_key, answer in load.first_answers():
        if api_key == METADATA:
            answer.pop("brokers")
            answer.pop("clusterId")
            answer["topics"][0]["partitions"].sort(key=lambda each: each["partitionIndex"])
        elif api_key == FETCH:
            partition = answer["responses"][0]["partitions"][0]
            headers = records.batch_headers(partition["records"])
            for header in headers:
                del header["producerId"], header["crc"], header["baseTimestamp"]
                del header["maxTimestamp"]
            partition["records"] = headers
        found.append(answer)
    return found


def measured(side: Side, kind: str, figures: Figures, do: Callable[[], int]) -> None:
    """Does something of a kind, which gives back how many of what it was."""
    before, begun = side.processor_s(), time.perf_counter()
    number = do()
    took, processor = time.perf_counter() - begun, side.processor_s() - before
    figure = Figure(number / took, processor / number * 1e6)
    figures.setdefault((kind, side.name), []).append(figure)


def requests(sides: list[Side], rounds: int, seconds: float, figures: Figures) -> bool:
    """The three kinds of requests; whether all sides gave equal answers."""
    loads = {}
    for side in sides:
        host, _, port = side.address.rpartition(":")
        loads[side] = Load(host, int(port), CONNECTIONS, VALUE_BYTES)
    answers = [comparable(load) for load in loads.values()]
    if any(each != answers[0] for each in answers):
        return False
    for kind in REQUESTS:
        for number in range(rounds + 1):
            for side, load in loads.items():
                took: Figures = figures if number else {}  # the first round warms up

                def run(load: Load = load, kind: str = kind) -> int:
                    return len(load.run(kind, seconds).latencies)

                measured(side, kind, took, run)
    return True


class Transfer:
    """Records into a topic of a side and out of it."""

    def __init__(self, side: Side, topic: str, count: int) -> None:
        self._topic = topic
        self._count = count
        self._value = b"x" * RECORD_BYTES
        self._found: list[bytes | None] = []
        base = {"bootstrap.servers": side.address, "log_level": 0}
        admin = AdminClient(base)
        for made in admin.create_topics([NewTopic(topic, PARTITIONS, 1)]).values():
            made.result()
        self._plain = _producer({**base, "enable.idempotence": True}, topic)
        self._owned = _producer({**base, "transactional.id": topic}, topic)
        self._owned.init_transactions(TIMEOUT_S)
        self._consumer = Consumer({**base, "group.id": topic, "enable.auto.commit": False})

    def records(self) -> int:
        """Produced one after the other."""
        for number in range(self._count):
            while True:
                try:
                    self._plain.produce(self._topic, self._value, partition=number % PARTITIONS)
                    break
                except BufferError:
                    self._plain.poll(0.1)
            if number % 1000 == 0:
                self._plain.poll(0)
        if self._plain.flush(TIMEOUT_S):
            raise ValueError("not all records were taken")
        return self._count

    def read(self) -> int:
        """All of them, from the beginning."""
        self._consumer.assign([TopicPartition(self._topic, each, 0) for each in range(PARTITIONS)])
        until = time.monotonic() + TIMEOUT_S
        while len(self._found) < self._count and time.monotonic() < until:
            self._found += [each.value() for each in self._consumer.consume(5000, 1)]
        self._consumer.close()
        return self._count

    def committed(self) -> int:
        """A tenth as many, in transactions."""
        number = max(self._count // 10 // TRANSACTION_RECORDS, 1)
        for _ in range(number):
            self._owned.begin_transaction()
            for each in range(TRANSACTION_RECORDS):
                self._owned.produce(self._topic, self._value, partition=each % PARTITIONS)
            self._owned.commit_transaction(TIMEOUT_S)
        return number * TRANSACTION_RECORDS

    @property
    def is_whole(self) -> bool:
        """Whether what was read is what was produced."""
        return self._found == [self._value] * self._count


def _producer(configuration: dict[str, Any], topic: str) -> Producer:
    """A producer that knows its topic."""
    producer = Producer({**configuration, "queue.buffering.max.messages": 1_000_000})
    until = time.monotonic() + TIMEOUT_S
    while len(producer.list_topics(topic, TIMEOUT_S).topics[topic].partitions) < PARTITIONS:
        if time.monotonic() > until:
            raise ValueError(f"{topic} is not there")
        time.sleep(0.1)
    return producer


def plot(rows: list[dict[str, Any]], path: Path) -> None:
    """How many a second as bars: requests above, records below."""
    import altair

    order = [*REQUESTS, *RECORDS]
    charts = [
        altair.Chart(altair.Data(values=[row for row in rows if row["kind"] in kinds]), title=title)
        .mark_bar()
        .encode(
            y=altair.Y("kind:N", sort=order, title=None),
            yOffset=altair.YOffset("side:N", sort=None),
            x=altair.X("a second:Q"),
            color=altair.Color("side:N", sort=None, title=None),
        )
        .properties(width=420)
        for kinds, title in ((REQUESTS, "Requests a second"), (RECORDS, "Records a second"))
    ]
    altair.vconcat(*charts).save(path)


def main() -> int:
    """Measures and prints a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each kind of request")
    parser.add_argument("--count", type=int, default=100_000, help="of records in a round")
    parser.add_argument("--beside", type=Path, help="another checkout, or built packages")
    parser.add_argument("--plot", type=Path, help="a file for the plot: .svg, .png or .html")
    given = parser.parse_args()
    figures: Figures = {}
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        sides = [stack.enter_context(gateway("gateway", ROOT, directory))]
        if given.beside is not None:
            other = gateway("beside", given.beside.resolve(), directory)
            sides.append(stack.enter_context(other))
        sides.append(stack.enter_context(kafka(directory)))
        is_equal = requests(sides, given.rounds, given.seconds, figures)
        for number in range(given.rounds + 1 if is_equal else 0):
            for side in sides:
                took = figures if number else {}
                transfer = Transfer(side, f"records-{number}", given.count)
                for kind in RECORDS:
                    measured(side, kind, took, getattr(transfer, kind))
                is_equal &= transfer.is_whole
    if not is_equal:
        print("the answers differ: no figures", file=sys.stderr)
        return 1
    rows = []
    names = [side.name for side in sides]
    print(f"{'':10}" + "".join(f"{name + ' a second':>19}{'µs':>8}" for name in names))
    for kind in (*REQUESTS, *RECORDS):
        line = f"{kind:10}"
        for name in names:
            rate = statistics.median(each.rate for each in figures[kind, name])
            processor = statistics.median(each.processor for each in figures[kind, name])
            rows.append({"kind": kind, "side": name, "a second": round(rate)})
            line += f"{rate:>19,.0f}{processor:>8.1f}"
        print(line)
    if given.plot is not None:
        plot(rows, given.plot)
        print(f"the plot is in {given.plot}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
