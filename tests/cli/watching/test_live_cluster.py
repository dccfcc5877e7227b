"""`brokertwin live` beside a real cluster whose request logs an agent ships while clients err."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow.parquet as pq
import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from brokertwin.kafka_io.topic_reader import read_all
from brokertwin.recordings.audit.finders import findings
from brokertwin.recordings.audit.reading import read
from brokertwin.recordings.formats.pipeline import FileReading
from brokertwin.streaming.checkpoint import checkpoint_log
from tests.cli.watching.test_live import PREFIX, SOURCE, Kind, LiveBench, kinds
from tests.support.commands import WAIT_S, kill_tree
from tests.support.kafka_clusters import kafka_cluster
from tests.support.log_agents import shipped
from tests.support.patience import PATIENCE_S, wait_until

TOPIC, PLACE = "orders", TopicPartition("orders", 0)
GROUP, STATIC_GROUP, TRANSACTIONAL_ID = "billing", "fleet", "orders-tx"
BEHIND = 1_500
"""Records that the slow consumer leaves."""

LONG_S = 2 * PATIENCE_S
"""How long Spark may take to start and to run some micro-batches, beside four brokers."""

TRIGGERS_MAX = 2
SETTINGS = {
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "group.initial.rebalance.delay.ms": "0",
}
FENCED = ("producer-fenced", f"producer {TRANSACTIONAL_ID}")
LAG = ("lag-growing", f"group {GROUP} in {TOPIC}-0")
REPLACED = ("instance-fenced", f"group {STATIC_GROUP}")
RESET = ("offset-back", f"group {GROUP}")

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


class ErringClients:
    """Clients of a cluster that do what `live` has to report."""

    def __init__(self, bootstrap: str) -> None:
        self._address = {"bootstrap.servers": bootstrap}
        self._admin = AdminClient(self._address)
        for made in self._admin.create_topics([NewTopic(TOPIC, 1, 3)]).values():
            made.result()

    def fence_each_other(self) -> None:
        first, second = (
            Producer({**self._address, "client.id": name, "transactional.id": TRANSACTIONAL_ID})
            for name in ("first", "second")
        )
        first.init_transactions()
        first.begin_transaction()
        first.produce(TOPIC, b"paid", partition=0)
        first.flush()
        second.init_transactions()
        with pytest.raises(KafkaException):
            first.commit_transaction()

    def fall_behind(self) -> None:
        consumer = self._consumer("slow", GROUP)
        consumer.subscribe([TOPIC])
        wait_until(lambda: consumer.poll(0.1) is not None)
        consumer.commit(offsets=[TopicPartition(TOPIC, 0, 1)], asynchronous=False)
        self._high_watermark()
        producer = Producer({**self._address, "client.id": "fast"})
        for number in range(BEHIND):
            producer.produce(TOPIC, f"order {number}", partition=0)
        producer.flush()
        self._high_watermark()
        consumer.commit(offsets=[TopicPartition(TOPIC, 0, 2)], asynchronous=False)
        consumer.close()

    def replace_a_static_member(self) -> None:
        """A consumer starts with the `group.instance.id` of another one."""
        errors: list[int] = []
        old = self._consumer(
            "old",
            STATIC_GROUP,
            **{"group.instance.id": "car-1", "error_cb": lambda error: errors.append(error.code())},
        )
        new = self._consumer("new", STATIC_GROUP, **{"group.instance.id": "car-1"})
        old.subscribe([TOPIC])
        wait_until(lambda: old.poll(0.1) is not None)
        new.subscribe([TOPIC])

        def is_fenced() -> bool:
            new.poll(0.1)
            message = old.poll(0.1)
            if message is not None and message.error() is not None:
                errors.append(message.error().code())
            return KafkaError.FENCED_INSTANCE_ID in errors or KafkaError._FATAL in errors

        wait_until(is_fenced)
        new.close()
        old.close()

    def reset_offsets(self) -> None:
        back = ConsumerGroupTopicPartitions(GROUP, [TopicPartition(TOPIC, 0, 0)])
        for done in self._admin.alter_consumer_group_offsets([back]).values():
            done.result()

    def _consumer(self, client: str, group: str, **more: object) -> Consumer:
        settings = {"client.id": client, "group.id": group, "enable.auto.commit": False}
        settings |= {"isolation.level": "read_uncommitted"}
        return Consumer({**self._address, **settings, "auto.offset.reset": "earliest", **more})

    def _high_watermark(self) -> None:
        """Ask for the end of the log, as a tool that shows lag does."""
        self._admin.list_offsets({PLACE: OffsetSpec.latest()})[PLACE].result()


@pytest.fixture
def live(own_kafka: str, tmp_path: Path) -> Iterator[LiveBench]:
    """A Kafka beside the audited one, so that the audit does not read its own requests."""
    made = LiveBench(own_kafka, tmp_path)
    yield made
    made.commands.close()


def found(live: LiveBench) -> set[tuple[str, str]]:
    return {(kind, subject) for _, kind, subject, _ in kinds(live.findings())}


class AuditedLines(NamedTuple):
    """The findings of `audit` in the lines that agents have shipped, and the names of topic ids."""

    kinds: set[Kind]
    names: dict[str, str]

    def are_found(self, live: LiveBench) -> bool:
        """Return whether `live` has the same findings."""
        return self.kinds == {
            (cluster, kind, self._named(subject), error)
            for cluster, kind, subject, error in kinds(live.findings())
        }

    def _named(self, subject: str) -> str:
        for topic_id, name in self.names.items():
            subject = subject.replace(topic_id, name)
        return subject


def audited(live: LiveBench, directory: Path) -> AuditedLines:
    """Run `audit` on the lines in the topic."""
    paths: dict[str, Path] = {}
    for row in read_all(live.client, SOURCE):
        line = json.loads(row.value or b"{}")
        host = line["host"]["name"]
        path = paths.setdefault(host, directory / f"{host}.log")
        with path.open("a", encoding="utf-8") as log:
            log.write(line["message"] + "\n")
    history = read(sorted(paths.values()), FileReading()).history
    documents = [each.document(1) for each in findings(history)]
    found = {("shop", each["kind"], each["subject"], each["error"]) for each in documents}
    return AuditedLines(found, history.names)


def triggers(live: LiveBench) -> Iterator[tuple[str, int]]:
    """Kind of each finding, and micro-batches from the one that read its last line."""
    for path in sorted((live.tables / "findings").glob("batch-*.parquet")):
        batch = int(path.stem.partition("-")[2])
        for finding in pq.read_table(path).to_pylist():
            place = finding["evidence"][-1]["place"]
            source, _, offset = place.rpartition(":")
            partition = source.rpartition("/")[2]
            read_in = next(
                number
                for number in range(batch + 1)
                if end_of(live, number).get(partition, 0) > int(offset)
            )
            yield finding["kind"], batch - read_in


def end_of(live: LiveBench, batch: int) -> dict[str, int]:
    """Where a micro-batch ends in the topic of lines, by partition."""
    for line in (live.checkpoint / "offsets" / str(batch)).read_text().splitlines():
        document = json.loads(line) if line.startswith("{") else {}
        if SOURCE in document:
            ends: dict[str, int] = document[SOURCE]
            return ends
    return {}


def test_faults_of_real_clients_are_reported_within_two_triggers_and_once(
    live: LiveBench, tmp_path: Path
) -> None:
    home = tmp_path / "cluster"
    with kafka_cluster(home, 3, SETTINGS, request_log=True) as cluster:
        logs = {f"kafka-{number}": node.request_log for number, (node, _) in cluster.items()}
        agents = tmp_path / "agents"
        bootstrap = live.client.bootstrap
        with shipped(logs, bootstrap, SOURCE, agents):
            killed = live.start("--trigger", "10 seconds")
            clients = ErringClients(",".join(address for _, address in cluster.values()))
            clients.fence_each_other()
            clients.fall_behind()
            wait_until(lambda: found(live) >= {FENCED, LAG}, "no finding", LONG_S)
            clients.replace_a_static_member()
            planned = checkpoint_log.planned(live.checkpoint)
            wait_until(lambda: checkpoint_log.planned(live.checkpoint) > planned)
            kill_tree(killed)
            assert killed.returncode == -signal.SIGKILL
            clients.reset_offsets()
            again = live.start("--trigger", "10 seconds")
            every = {FENCED, LAG, REPLACED, RESET}
            wait_until(lambda: found(live) >= every, "a finding is lost", LONG_S)
    wanted = audited(live, tmp_path)
    wait_until(lambda: wanted.are_found(live), "live and audit differ", LONG_S)
    checked = live.commands.call("check", "--live", PREFIX, "--on", "state")
    assert checked[0] == 0, checked
    again.send_signal(signal.SIGTERM)
    _, errors = again.communicate(timeout=WAIT_S)
    assert again.returncode == 0, errors
    rows = live.findings()
    assert len(set(rows)) == len(rows), "a finding is reported twice"
    late = [each for each in triggers(live) if each[1] > TRIGGERS_MAX]
    assert late == []
