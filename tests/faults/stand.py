"""What faults are tried on: a Kafka, a job, a gateway, each in its own processes, and clients."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path

import psutil
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from brokertwin.gateway.edge_fields import Address
from brokertwin.kafka_io.kafka_broker import EmbeddedKafka
from brokertwin.settings import default_home
from tests.faults import checks, processes
from tests.faults.load import Load
from tests.faults.processes import Server
from tests.support.commands import Commands
from tests.support.gateways import Client
from tests.support.jobs import JobBench
from tests.support.patience import PATIENCE_S, wait_until
from tests.support.standalone_clusters import Standalone
from tests.support.typed_commands import free_port

HOST = "127.0.0.1"
CELL = "a"
RESPONSE_TIMEOUT_S = 6
"""A gateway sends those away who wait longer: faults last longer than this."""

JAVA, WORKERS = "java", "worker_daemon"
LOOK_S = 0.1


class Stand:
    """Environment of a round; created once for the rounds of a case.

    Args:
        directory: a new directory.
        kafka: the broker; without it one that keeps everything below `directory`.
        checkpoint_home: parent of the checkpoint; by default also `directory`.
        report: called with messages about events.
        of_gateway: further variables of the gateway.
        cluster: of Spark, where the job is to run; without it the job is local.
        response_timeout_s: how long the gateway waits for a response.
        of_broker: settings of the brokers of the job, by Kafka's names.
        clusters: that the job holds; the gateway and its clients are the first one's.
        environment: further variables of the job.

    Attributes:
        report: called with messages about events.
        cluster: of Spark, where there is one.
        kafka_port: where the broker is reached.
        clusters: that the job holds.
    """

    def __init__(
        self,
        directory: Path,
        kafka: EmbeddedKafka | None = None,
        checkpoint_home: Path | None = None,
        report: Callable[[str], None] = lambda _: None,
        of_gateway: Mapping[str, str] | None = None,
        cluster: Standalone | None = None,
        response_timeout_s: int = RESPONSE_TIMEOUT_S,
        of_broker: Mapping[str, str] | None = None,
        clusters: tuple[str, ...] = (CELL,),
        **environment: str,
    ) -> None:
        self.directory = directory
        self.report = report
        self.cluster = cluster
        self._response_timeout_s = response_timeout_s
        self.kafka = kafka or EmbeddedKafka(directory / "kafka", default_home())
        bootstrap = self.kafka.start()
        self.kafka_port = int(bootstrap.rpartition(":")[2])
        self.clusters = clusters
        self.bench = JobBench(bootstrap, checkpoint_home or directory, clusters=clusters)
        given = {**Commands(self.bench).environment, **environment}
        given["BROKERTWIN_CLUSTERS"] = ",".join(clusters)
        if cluster is not None:
            given["BROKERTWIN_MASTER"] = cluster.url
        place = ("--prefix", self.bench.prefix, "--bootstrap", bootstrap, "--cluster", CELL)
        self.address = Address(HOST, free_port())
        listen = ("--listen", f"{HOST}:{self.address.port}")
        patience = ("--response-timeout", str(response_timeout_s))
        options = [word for each in (of_broker or {}).items() for word in ("--set", "=".join(each))]
        self.job = Server(("run", *options), given, directory / "job.log")
        self.gateway = Server(
            ("gateway", "--engine", "spark", *place, *listen, *patience),
            {**given, **(of_gateway or {})},
            directory / "gateway.log",
        )
        self._rounds = 0

    @property
    def bootstrap(self) -> str:
        return f"{HOST}:{self.address.port}"

    @property
    def mark(self) -> str:
        return str(self.bench.checkpoint)

    def start(self) -> None:
        self.job.start()
        wait_until(lambda: self.job.code is not None or "reading " in self.job.output(), "the job")
        assert self.job.code is None, self.job.output()
        self.gateway.start()
        self.wait_until_responding()

    def wait_until_responding(self) -> None:
        """Wait until a client gets a response; restart ended processes meanwhile."""
        deadline = time.monotonic() + PATIENCE_S
        while not self._is_responding():
            assert time.monotonic() < deadline, (
                self.job.output()[-3000:] + self.gateway.output()[-3000:]
            )
            self.tend()

    def _is_responding(self) -> bool:
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        try:
            return bool(admin.list_topics(timeout=self._response_timeout_s).brokers)
        except KafkaException:
            return False

    @property
    def starts(self) -> int:
        return self.job.starts + self.gateway.starts

    def has_ended(self) -> bool:
        servers = (self.job, self.gateway)
        return not self.kafka.status().running or any(each.code is not None for each in servers)

    def tend(self) -> list[str]:
        """Restart ended processes, like a supervisor; return their names."""
        again = []
        if not self.kafka.status().running:
            self.report("Kafka has ended and is started again")
            port = int(self.kafka.start().rpartition(":")[2])
            assert port == self.kafka_port, "Kafka's port is taken by another process"
            again.append("kafka")
        for name, server in (("job", self.job), ("gateway", self.gateway)):
            if server.code is not None:
                self.report(f"the {name} has ended with {server.code} and is started again")
                server.start()
                again.append(name)
        time.sleep(LOOK_S)
        return again

    @property
    def kafka_process(self) -> psutil.Process:
        pid = self.kafka.status().pid
        assert pid is not None, "Kafka does not run"
        return psutil.Process(pid)

    def client(self) -> Client:
        return Client(self.address, PATIENCE_S)

    def load(self) -> Load:
        """Clients on a separate topic, after their first responses."""
        self._rounds += 1
        name = f"round-{self._rounds}"
        with self.client() as client:
            client.topic(name)
        made = Load(self.bootstrap, name)
        made.wait_for(5)
        return made

    def wait_until_it_goes_on(self, load: Load) -> float:
        """Tend all until clients get on; how long it took, in seconds."""
        begin = time.monotonic()
        before = len(load.stream.acknowledged), load.commits.acknowledged
        deadline = begin + 2 * PATIENCE_S
        while (
            len(load.stream.acknowledged) < before[0] + 10 or load.commits.acknowledged <= before[1]
        ):
            assert time.monotonic() < deadline, self.output()
            self.tend()
        return time.monotonic() - begin

    def look(self) -> checks.Found:
        """Hold the topics and the state against a fresh replay. Raises AssertionError."""
        return checks.topics_and_state(self.bench, *self.clusters)

    def output(self) -> str:
        return f"{self.job.output()[-3000:]}\n{self.gateway.output()[-3000:]}"

    def close(self) -> None:
        """End all of it; nothing may be left behind. Raises AssertionError."""
        try:
            for server in (self.gateway, self.job):
                if server.starts:
                    server.end()
            processes.wait_until_gone(self.mark, 60)
            if self.cluster is not None:
                wait_until(lambda: not self.cluster.executors(), "executors are left behind", 60)
        finally:
            processes.end_all(self.mark)
            self.kafka.stop()
