"""Three real brokers and client processes, for scripts of accidents."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import psutil
from confluent_kafka.admin import AdminClient, NewTopic

from brokertwin.kafka_io.kafka_broker import EmbeddedKafka
from tests.support.kafka_clusters import kafka_cluster
from tests.support.patience import wait_until
from tests.support.sources import ROOT

BROKERS = 3
SESSION_MS = 6_000
SETTINGS = {
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
    "auto.create.topics.enable": "false",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
HASTY = {
    "group.initial.rebalance.delay.ms": "300",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.share.delivery.count.limit": "3",
    "group.share.record.lock.duration.ms": "15000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "broker.session.timeout.ms": "6000",
    "replica.lag.time.max.ms": "6000",
}
"""Times that let an accident take seconds."""

PATIENCE_S = 180


class RealClient:
    def __init__(self, process: "subprocess.Popen[str]", name: str) -> None:
        self.name = name
        self.said: list[dict[str, Any]] = []
        self._process = process
        self._thread = Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.said.append(json.loads(line))

    def count(self, what: str) -> int:
        return sum(each["what"] == what for each in list(self.said))

    def await_(self, what: str, more: int = 1) -> None:
        """Wait until it has said something once more, or some times more."""
        self.await_count(what, self.count(what) + more)

    def await_count(self, what: str, count: int) -> None:
        wait_until(
            lambda: self.count(what) >= count,
            f"{self.name}: {what} {count}: {self.said[-3:]}",
            PATIENCE_S,
        )

    def close(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._end()

    def kill(self) -> None:
        self._process.kill()
        self._end()

    def freeze(self, is_frozen: bool) -> None:
        self._process.send_signal(signal.SIGSTOP if is_frozen else signal.SIGCONT)

    def hang(self) -> None:
        """Let its application hang or go on, and its client work."""
        before = len(self.said)
        self._process.send_signal(signal.SIGUSR1)
        wait_until(
            lambda: any(e["what"] in ("hangs", "goes on") for e in self.said[before:]), self.name
        )

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def _end(self) -> None:
        self._process.wait(PATIENCE_S)
        self._thread.join()


class RealCluster:
    """Brokers, client processes, and an administrator.

    Attributes:
        facts: what scripts did to brokers: time in ms, broker and change.
    """

    def __init__(
        self, nodes: Mapping[int, tuple[EmbeddedKafka, str]], settings: Mapping[str, str]
    ) -> None:
        self._settings = settings
        self.nodes = {node_id: node for node_id, (node, _) in nodes.items()}
        self.bootstrap = ",".join(address for _, address in nodes.values())
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap, "client.id": "admin"})
        self.clients: list[RealClient] = []
        self.facts: list[dict[str, Any]] = []
        self._logs = dict.fromkeys(self.nodes, b"")

    def client(
        self, role: str, name: str, topics: list[str], more: Any = None, **config: Any
    ) -> RealClient:
        """Start a client process; settings have `_` in place of `.`."""
        given = {key.replace("_", "."): value for key, value in config.items()}
        own = {"bootstrap.servers": self.bootstrap, "client.id": name, **given}
        document = {"role": role, "config": own, "topics": topics, "more": more or {}}
        command = [sys.executable, "-m", "tests.score.real_client", json.dumps(document)]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=dict(os.environ)
        )
        client = RealClient(process, name)
        self.clients.append(client)
        return client

    def consumer(self, name: str, group: str, topics: list[str], **config: Any) -> RealClient:
        """Start a member of a group, and wait for its assignment."""
        is_modern = config.get("group_protocol") == "consumer"
        times = {"session_timeout_ms": SESSION_MS, "heartbeat_interval_ms": 1000}
        settings = {
            "group_id": group,
            "auto_offset_reset": "earliest",
            "auto_commit_interval_ms": 1000,
            **({} if is_modern else times),
            **config,
        }
        client = self.client("consume", name, topics, **settings)
        client.await_count("assigned", 1)
        return client

    def topic(self, name: str, partitions: int = 2, replicas: int = 3, **config: str) -> None:
        given = {key.replace("_", "."): value for key, value in config.items()}
        new = NewTopic(name, partitions, replicas, config=given)
        self.admin.create_topics([new])[name].result(PATIENCE_S)
        wait_until(lambda: self._is_led(name, replicas), f"no leaders of {name}", PATIENCE_S)

    def _is_led(self, name: str, replicas: int) -> bool:
        found = self.admin.list_topics(name, timeout=PATIENCE_S).topics[name]
        parts = found.partitions.values()
        return bool(parts) and all(p.leader > 0 and len(p.isrs) == replicas for p in parts)

    def await_in_sync(self) -> None:
        def is_whole() -> bool:
            topics = self.admin.list_topics(timeout=PATIENCE_S).topics.values()
            return all(
                len(p.isrs) == len(p.replicas) for t in topics for p in t.partitions.values()
            )

        wait_until(is_whole, "a replica is behind", PATIENCE_S)

    # Brokers

    def stop(self, broker: int) -> None:
        self._note(broker, "stop-broker")
        self.nodes[broker].stop(timeout_s=60)

    def kill(self, broker: int) -> None:
        self._note(broker, "kill-broker")
        psutil.Process(self.nodes[broker].status().pid).kill()
        wait_until(lambda: not self.nodes[broker].status().running, "it runs")

    def freeze(self, broker: int, is_frozen: bool) -> None:
        self._note(broker, "freeze-broker" if is_frozen else "start-broker")
        process = psutil.Process(self.nodes[broker].status().pid)
        (process.suspend if is_frozen else process.resume)()

    def start(self, broker: int) -> None:
        self._logs[broker] = self.log(broker)  # a start begins a new file
        self.nodes[broker].start(self._settings, request_log=True)
        self._note(broker, "start-broker")
        self.await_in_sync()

    def _note(self, broker: int, change: str) -> None:
        fact = {"what": "broker", "time": int(time.time() * 1000)}
        self.facts.append({**fact, "broker": broker, "change": change})

    # Logs

    def log(self, broker: int) -> bytes:
        """Return what a broker has logged since its first start."""
        return self._logs[broker] + self.nodes[broker].log_file.read_bytes()

    def sizes(self) -> dict[int, tuple[int, int]]:
        """Return the lengths of each broker's log and request log."""
        return {
            broker: (len(self.log(broker)), node.request_log.stat().st_size)
            for broker, node in self.nodes.items()
        }

    def end_clients(self) -> None:
        for client in self.clients:
            if client.is_running:
                client.close()
        self.clients.clear()


@contextmanager
def real_cluster(home: Path, settings: Mapping[str, str]) -> Iterator[RealCluster]:
    """Start the cluster; at the end all its processes have ended."""
    with kafka_cluster(home, BROKERS, settings, request_log=True) as nodes:
        cluster = RealCluster(nodes, settings)
        try:
            yield cluster
        finally:
            for client in cluster.clients:
                if client.is_running:
                    client.kill()


def wait_s(seconds: float, holds: Callable[[], bool] = lambda: False) -> None:
    """Let time pass, which is what an accident consists of, or until something holds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and not holds():
        time.sleep(0.05)
