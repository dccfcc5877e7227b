"""The gateway with the local engine next to a Kafka broker: table and plot.

    python bench/gateway.py [--rounds 5] [--beside DIR] [--plot gateway.svg]

Each side runs in its own process on this machine. They take turns in each round, so that other load
affects all equally; figures are medians over the rounds. `--beside` adds the gateway of another
checkout.

    produce, fetch, metadata  requests in sequence on each of 50 connections
                              (gateway_load.py describes them and the checks)
    records, read, committed  200-byte records with confluent-kafka: produced with idempotence,
                              consumed from the beginning, and in transactions of 200

`a second` counts requests or records; `µs` is the processor time of the side's process for one,
which depends less on other load. No figure is printed unless all sides return equal responses,
except for ids and addresses, and every record is read as it was sent.
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
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from gateway_load import FETCH, METADATA, Load

from brokertwin.kafka_io.kafka_broker import EmbeddedKafka
from brokertwin.protocol import record_batches as records
from brokertwin.protocol.bodies import render
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


class GatewaySide(NamedTuple):
    """A broker: its label, its address, its process."""

    name: str
    address: str
    process: psutil.Process

    def processor_s(self) -> float:
        times = self.process.cpu_times()
        return float(times.user + times.system)


class Figure(NamedTuple):
    """Rate per second and processor time in µs of one kind in one round."""

    rate: float
    processor: float


Figures = dict[tuple[str, str], list[Figure]]
"""By kind and side."""


def _as_packages(checkout: Path, package: Path) -> None:
    """Link the packages of a checkout, as mapped in pyproject.toml, in one directory."""
    package.mkdir(parents=True)
    for each in (*(checkout / "brokertwin").iterdir(), *checkout.iterdir()):
        is_part = each.parent.name == "brokertwin" or (each / "__init__.py").exists()
        if is_part and each.name not in ("brokertwin", "__pycache__"):
            (package / each.name).symlink_to(each)


@contextlib.contextmanager
def gateway(name: str, checkout: Path, directory: Path) -> Iterator[GatewaySide]:
    """Start the gateway of a checkout or of built packages, all in memory."""
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
        yield GatewaySide(name, f"127.0.0.1:{port}", psutil.Process(process.pid))
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
def kafka(directory: Path) -> Iterator[GatewaySide]:
    broker = EmbeddedKafka(directory / "kafka", default_home())
    try:
        bootstrap = broker.start()
        pid = broker.status().pid
        assert pid is not None
        yield GatewaySide("kafka", bootstrap, psutil.Process(pid))
    finally:
        broker.stop()


def comparable(load: Load) -> list[dict[str, Any]]:
    """Return the first responses without ids and addresses."""
    rows = []
    for api_key, answer in load.first_answers():
        if api_key == METADATA:
            answer.pop("brokers")
            answer.pop("clusterId")
            answer["topics"][0]["partitions"].sort(key=lambda each: each["partitionIndex"])
        elif api_key == FETCH:
            partition = answer["responses"][0]["partitions"][0]
            headers = [render(each, 0) for each in records.batch_headers(partition["records"])]
            for header in headers:
                del header["producerId"], header["crc"], header["baseTimestamp"]
                del header["maxTimestamp"]
            partition["records"] = headers
        rows.append(answer)
    return rows


def measured(side: GatewaySide, kind: str, figures: Figures, do: Callable[[], int]) -> None:
    """Measure `do`, which returns the number of requests or records."""
    before, begun = side.processor_s(), time.perf_counter()
    number = do()
    took, processor = time.perf_counter() - begun, side.processor_s() - before
    figure = Figure(number / took, processor / number * 1e6)
    figures.setdefault((kind, side.name), []).append(figure)


def requests(sides: list[GatewaySide], rounds: int, seconds: float, figures: Figures) -> bool:
    """Measure the three request kinds; return whether all sides agree."""
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
    """Records written to and read from a topic of a side."""

    def __init__(self, side: GatewaySide, topic: str, count: int) -> None:
        self._topic = topic
        self._count = count
        self._value = b"x" * RECORD_BYTES
        self._found: list[bytes | None] = []
        base: dict[str, str | int | float | bool] = {
            "bootstrap.servers": side.address,
            "log_level": 0,
        }
        admin = AdminClient(base)
        for made in admin.create_topics([NewTopic(topic, PARTITIONS, 1)]).values():
            made.result()
        self._plain = _producer({**base, "enable.idempotence": True}, topic)
        self._owned = _producer({**base, "transactional.id": topic}, topic)
        self._owned.init_transactions(TIMEOUT_S)
        self._consumer = Consumer({**base, "group.id": topic, "enable.auto.commit": False})

    def records(self) -> int:
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
        """Read all records from the beginning."""
        self._consumer.assign([TopicPartition(self._topic, each, 0) for each in range(PARTITIONS)])
        until = time.monotonic() + TIMEOUT_S
        while len(self._found) < self._count and time.monotonic() < until:
            self._found += [each.value() for each in self._consumer.consume(5000, 1)]
        self._consumer.close()
        return self._count

    def committed(self) -> int:
        """Produce a tenth of the records in transactions."""
        number = max(self._count // 10 // TRANSACTION_RECORDS, 1)
        for _ in range(number):
            self._owned.begin_transaction()
            for each in range(TRANSACTION_RECORDS):
                self._owned.produce(self._topic, self._value, partition=each % PARTITIONS)
            self._owned.commit_transaction(TIMEOUT_S)
        return number * TRANSACTION_RECORDS

    @property
    def is_whole(self) -> bool:
        """Whether the records read equal those produced."""
        return self._found == [self._value] * self._count


def _producer(configuration: dict[str, Any], topic: str) -> Producer:
    """Return a producer with the topic's metadata."""
    producer = Producer({**configuration, "queue.buffering.max.messages": 1_000_000})
    until = time.monotonic() + TIMEOUT_S
    while len(producer.list_topics(topic, TIMEOUT_S).topics[topic].partitions) < PARTITIONS:
        if time.monotonic() > until:
            raise ValueError(f"{topic} is not there")
        time.sleep(0.1)
    return producer


def plot(rows: list[dict[str, Any]], path: Path) -> None:
    """Plot the rates as bars: requests above, records below."""
    import altair

    order = [*REQUESTS, *RECORDS]
    charts = [
        altair.Chart(
            altair.InlineData(values=[row for row in rows if row["kind"] in kinds]), title=title
        )
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
