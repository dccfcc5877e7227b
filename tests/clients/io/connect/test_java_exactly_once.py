"""Java's own Connect with exactly-once sources, of which something is killed (kill -9).

A worker that copies, on a gateway and on Kafka; and the gateway itself. Each time that is in the
middle of a transaction: lines have been sent whose commit is still to come.
"""

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from brokertwin.clients.io.connect.logs import read_whole
from brokertwin.gateway.edge_fields import Address
from tests.clients.io.test_consumer_members import PARTITIONS, topic_at
from tests.support.gateway_processes import gateway as gateway_process
from tests.support.gateways import HOST, Client, running_gateway
from tests.support.java_connect import JavaWorker
from tests.support.patience import wait_until
from tests.support.typed_commands import free_port

pytestmark = [pytest.mark.kafka, pytest.mark.processes]

SETTINGS = {"group.initial.rebalance.delay.ms": "100"}
STRING = "org.apache.kafka.connect.storage.StringConverter"
COMMIT_MS = 4_000
"""How long a transaction lasts at least. The source looks at its file each second."""
NUMBERS = count(1)


class Copy:
    """A file that grows, its topic, and the settings of the workers that copy it."""

    def __init__(self, bootstrap: str, directory: Path) -> None:
        self.bootstrap = bootstrap
        self.directory = directory
        self.topic = topic_at(bootstrap, f"exactly-{next(NUMBERS)}")
        self.file = directory / "in.txt"
        self.lines = 0
        self.grow(0)

    def grow(self, lines: int) -> None:
        with self.file.open("a") as file:
            file.writelines(f"line {self.lines + at}\n" for at in range(lines))
        self.lines += lines

    @property
    def expected(self) -> list[str]:
        return sorted(f"line {at}" for at in range(self.lines))

    def found(self, *, is_committed: bool) -> list[str]:
        read = read_whole(self.bootstrap, self.topic, is_committed=is_committed)
        return sorted((message.value or b"").decode() for message in read)

    def end(self, isolation_level: int) -> int:
        with self._client() as client:
            responses = (
                client.list_offset(self.topic, -1, at, isolation_level) for at in range(PARTITIONS)
            )
            return sum(int(response["offset"]) for response in responses)

    def is_in_transaction(self) -> bool:
        """Whether lines have been sent whose transaction is open, with no commit under way."""
        body = {"transactionalIds": [f"{self.topic}-workers-lines-0"]}
        with self._client() as client:
            (transaction_state,) = client.call("DESCRIBE_TRANSACTIONS", 0, body)[
                "transactionStates"
            ]
        return transaction_state["transactionState"] == "Ongoing" and self.end(0) > self.end(1)

    def _client(self) -> Client:
        host, _, port = self.bootstrap.rpartition(":")
        return Client(Address(host, int(port)))

    def worker(self, heartbeat_ms: int = 500) -> JavaWorker:
        """A worker; without a coordinator for longer than `heartbeat_ms` it ends its tasks."""
        topics = {
            f"{name}.storage.{setting}": value
            for name in ("config", "offset", "status")
            for setting, value in (("topic", f"{self.topic}-{name}"), ("replication.factor", 1))
        }
        settings = {
            **topics,
            "bootstrap.servers": self.bootstrap,
            "group.id": f"{self.topic}-workers",
            "exactly.once.source.support": "enabled",
            "session.timeout.ms": 12 * heartbeat_ms,
            "heartbeat.interval.ms": heartbeat_ms,
            "scheduled.rebalance.max.delay.ms": 1_000,
            "offset.storage.partitions": 2,
            "status.storage.partitions": 1,
            "key.converter": STRING,
            "value.converter": STRING,
            "plugin.discovery": "only_scan",
        }
        return JavaWorker(self.directory, settings)

    def begin(self, worker: JavaWorker) -> int:
        """The connector is there from now on; returns the port of the worker that copies."""
        config = {
            "connector.class": "FileStreamSource",
            "exactly.once.support": "required",
            "transaction.boundary": "interval",
            "transaction.boundary.interval.ms": COMMIT_MS,
            "topic": self.topic,
            "file": self.file,
        }
        words = {name: str(value) for name, value in config.items()}
        worker.put("/connectors/lines/config", words)
        wait_until(lambda: [state for state, _ in worker.tasks("lines")] == ["RUNNING"], "it runs")
        ((_, port),) = worker.tasks("lines")
        return port

    def grow_into_a_transaction(self) -> None:
        """The file grows until some lines are committed, and some more are sent and are not."""

        def grown(is_there: Callable[[], bool]) -> bool:
            self.grow(2)
            return is_there()

        wait_until(lambda: grown(lambda: self.end(1) > 0), "lines are copied")
        wait_until(lambda: grown(self.is_in_transaction), "and more, in the next transaction")

    def assert_goes_on(self, worker: JavaWorker) -> None:
        self.grow(500)
        wait_until(
            lambda: set(self.found(is_committed=False)) == set(self.expected), "the rest is copied"
        )
        running = [("RUNNING", worker.port)]
        wait_until(lambda: worker.tasks("lines") == running, "by this worker")
        worker.end()
        wait_until(lambda: len(self.found(is_committed=True)) >= self.lines, "and committed")
        assert self.found(is_committed=True) == self.expected


@pytest.fixture(scope="module")
def gateway() -> Iterator[str]:
    with running_gateway(SETTINGS) as running:
        yield running.bootstrap


@pytest.fixture(params=["gateway", "kafka"])
def copy(request: pytest.FixtureRequest, tmp_path: Path) -> Copy:
    return Copy(str(request.getfixturevalue(request.param)), tmp_path)


def test_example_23_each_line_is_written_once_after_a_worker_kill(
    copy: Copy,
) -> None:
    with copy.worker() as first, copy.worker() as second:
        wait_until(lambda: first.is_up() and second.is_up(), "both are in their group")
        port = copy.begin(first)
        killed, left = (first, second) if port == first.port else (second, first)
        copy.grow_into_a_transaction()
        killed.kill()
        copy.assert_goes_on(left)
        sent = copy.found(is_committed=False)
        assert len(sent) > copy.lines, "who reads all gets lines of the killed one's twice"


def test_example_24_a_killed_gateway_recovers_from_its_journal(tmp_path: Path) -> None:
    """The worker only sees broken connections; its transaction continues."""
    words = ["--journal", str(tmp_path / "journal")]
    for name, value in SETTINGS.items():
        words += ["--set", f"{name}={value}"]
    listen = f"{HOST}:{free_port()}"
    with gateway_process(*words, listen=listen) as (process, _):
        copy = Copy(listen, tmp_path)
        with copy.worker(heartbeat_ms=100_000) as worker:
            wait_until(worker.is_up, "it is in its group")
            copy.begin(worker)
            copy.grow_into_a_transaction()
            process.kill()
            process.wait()
            with gateway_process(*words, listen=listen):
                copy.assert_goes_on(worker)
                assert len(copy.found(is_committed=False)) == copy.lines, "no line was sent again"
