"""A real cluster with clients, in which a broker is stopped until the controller fences it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

import psutil
from confluent_kafka import (
    Consumer,
    ElectionType,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic, PartitionMetadata

from brokertwin.kafka_io.kafka_broker import EmbeddedKafka
from tests.support.kafka_clusters import kafka_cluster
from tests.support.patience import PATIENCE_S, wait_until

BROKERS = 3
MIN_ISR = 2
LAG_TIME_MAX_MS = 10_000
SETTINGS = {
    "auto.leader.rebalance.enable": "false",
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "3000",
    "default.replication.factor": "3",
    "min.insync.replicas": str(MIN_ISR),
    "offsets.topic.num.partitions": "3",
    "offsets.topic.replication.factor": "3",
    "replica.lag.time.max.ms": str(LAG_TIME_MAX_MS),
    "transaction.state.log.min.isr": str(MIN_ISR),
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.replication.factor": "3",
}
CONTROLLER = 1
ORDERS, COPIES, PLAIN = "orders", "copies", "plain"
REPLICAS = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
PACE_S = 0.05
SOCKET_TIMEOUT_MS = 2_000
"""How long a client waits for a broker that was stopped."""


class Clients:
    """An idempotent and a plain producer, a copier in transactions, and a reader, in threads."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._is_over = Event()
        self._done = dict.fromkeys(("idempotent", "plain", "copied", "read"), 0)
        self._failures: list[str] = []
        works = (self._produce_idempotently, self._produce_plainly, self._copy, self._read)
        self._threads = [Thread(target=self._guard, args=(work,)) for work in works]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join(PATIENCE_S)

    def await_more(self, count: int = 30) -> None:
        enough = {kind: done + count for kind, done in self._done.items()}
        wait_until(
            lambda: self._failures or all(self._done[kind] >= n for kind, n in enough.items()),
            f"not all of {enough}",
        )
        assert not self._failures

    def _guard(self, work: Callable[[], None]) -> None:
        try:
            work()
        except (KafkaException, AssertionError) as error:
            self._failures.append(f"{work.__name__}: {error!r}")

    def _settings(self, **settings: object) -> dict[str, Any]:
        named = {name.replace("_", "."): value for name, value in settings.items()}
        own = {"bootstrap.servers": self._bootstrap, "socket.timeout.ms": SOCKET_TIMEOUT_MS}
        return own | named

    def _produce(self, kind: str, topic: str, **settings: object) -> None:
        def on_delivery(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                self._failures.append(f"{kind}: {error}")
            self._done[kind] += 1

        producer = Producer(self._settings(client_id=kind, acks="all", **settings))
        number = 0
        while not self._is_over.wait(PACE_S):
            number += 1
            producer.produce(topic, b"%d" % number, b"%d" % number, on_delivery=on_delivery)
            producer.poll(0)
        assert producer.flush(PATIENCE_S) == 0

    def _produce_idempotently(self) -> None:
        self._produce("idempotent", ORDERS, enable_idempotence=True)

    def _produce_plainly(self) -> None:
        self._produce("plain", PLAIN)

    def _consumer(self, group: str, *topics: str) -> Consumer:
        settings = {"group_id": group, "client_id": group, "auto_offset_reset": "earliest"}
        consumer = Consumer(self._settings(isolation_level="read_committed", **settings))
        consumer.subscribe([*topics])
        return consumer

    def _copy(self) -> None:
        consumer = self._consumer("copiers", ORDERS)
        producer = Producer(self._settings(transactional_id="copier", client_id="copier"))
        producer.init_transactions(PATIENCE_S)
        while not self._is_over.is_set():
            found = [each for each in consumer.consume(5, 0.2) if each.error() is None]
            if not found:
                continue
            ends = {(each.topic(), each.partition()): each.offset() + 1 for each in found}
            offsets = [TopicPartition(*place, end) for place, end in ends.items()]
            member = consumer.consumer_group_metadata()
            producer.begin_transaction()
            try:
                for each in found:
                    producer.produce(COPIES, each.value(), each.key())
                producer.send_offsets_to_transaction(offsets, member, PATIENCE_S)
                producer.commit_transaction(PATIENCE_S)
                self._done["copied"] += len(found)
            except KafkaException as error:
                if error.args[0].fatal():
                    raise
                producer.abort_transaction(PATIENCE_S)
        consumer.close()

    def _read(self) -> None:
        consumer = self._consumer("readers", ORDERS, COPIES, PLAIN)
        while not self._is_over.is_set():
            self._done["read"] += sum(each.error() is None for each in consumer.consume(100, 0.1))
        consumer.close()


class FencedCluster:
    """The cluster, whose clients work.

    Args:
        nodes: brokers and addresses by node id; the first is the controller, too.
    """

    def __init__(self, nodes: dict[int, tuple[EmbeddedKafka, str]]) -> None:
        self._nodes = {node_id: node for node_id, (node, _) in nodes.items()}
        self._admin = AdminClient({"bootstrap.servers": nodes[CONTROLLER][1]})
        topics = (ORDERS, COPIES, PLAIN)
        new = [NewTopic(each, len(REPLICAS), replica_assignment=REPLICAS) for each in topics]
        for created in self._admin.create_topics(new).values():
            created.result(PATIENCE_S)
        self.clients = Clients(",".join(address for _, address in nodes.values()))

    @property
    def logs(self) -> list[Path]:
        return [node.request_log for node in self._nodes.values()]

    def fence(self, broker: int) -> None:
        """Stop a broker until the controller has fenced it, and wait until it is in sync again.

        The controller's log shows the fencing, because metadata would show the in-sync sets.
        """
        fenced = f"Fencing broker {broker} "
        log = self._nodes[CONTROLLER].log_file
        before = log.read_text().count(fenced)
        process = psutil.Process(self._nodes[broker].status().pid)
        process.suspend()
        try:
            wait_until(lambda: log.read_text().count(fenced) > before, "no broker is fenced")
            self.clients.await_more()
        finally:
            process.resume()
        self._await(lambda each: len(each.isrs) == BROKERS)

    def elect(self) -> None:
        self._admin.elect_leaders(ElectionType.PREFERRED).result(PATIENCE_S)
        self._await(lambda each: each.leader == each.replicas[0])

    def _await(self, holds: Callable[[PartitionMetadata], bool]) -> None:
        def partitions() -> Iterator[PartitionMetadata]:
            for topic in self._admin.list_topics(timeout=PATIENCE_S).topics.values():
                yield from topic.partitions.values()

        wait_until(lambda: all(map(holds, partitions())), "partitions differ")
        self.clients.await_more()


@contextmanager
def fenced_cluster(home: Path, **settings: str) -> Iterator[FencedCluster]:
    """Start the cluster and its clients; at the end all has stopped, and the logs are whole."""
    named = {name.replace("_", "."): value for name, value in settings.items()}
    with kafka_cluster(home, BROKERS, SETTINGS | named, request_log=True) as nodes:
        cluster = FencedCluster(nodes)
        cluster.clients.start()
        try:
            cluster.clients.await_more()
            yield cluster
        finally:
            cluster.clients.stop()
