"""From a real broker's request log to agreement, as in docs/ingest.md.

A real broker logs its requests; real clients use a topic; the log is ingested with the batches from
the topics and replayed: every response equals the broker's.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient

from brokertwin.kafka_io.kafka_broker import EmbeddedKafka
from brokertwin.settings import default_home
from tests.support.console import brokertwin
from tests.support.patience import PATIENCE_S, wait_until
from tests.support.sources import ROOT

pytestmark = pytest.mark.kafka

LOGGER = "kafka.request.logger"
DOCUMENT = ROOT / "docs" / "ingest.md"
RECORDS = 300
PASSWORD = "open sesame"
WAIT_S = PATIENCE_S

LOG4J2 = """\
Configuration:
  Appenders:
    RollingFile:
      - name: KafkaAppender
        fileName: "${sys:kafka.logs.dir}/kafka.log"
        filePattern: "${sys:kafka.logs.dir}/kafka.log.%d{yyyy-MM-dd-HH}"
        PatternLayout:
          pattern: "[%d] %p %m (%c)%n"
        TimeBasedTriggeringPolicy: {}
      - name: RequestAppender
        fileName: "${sys:kafka.logs.dir}/kafka-request.log"
        filePattern: "${sys:kafka.logs.dir}/kafka-request.log.%d{yyyy-MM-dd-HH}"
        PatternLayout:
          pattern: "[%d] %p %m (%c)%n"
        TimeBasedTriggeringPolicy: {}
  Loggers:
    Root:
      level: INFO
      AppenderRef:
        - ref: KafkaAppender
    Logger:
"""
"""The context of the document's lines in Kafka's config/log4j2.yaml."""


class Logged(NamedTuple):
    """A broker that logs its requests: its address, and the directory of its logs."""

    bootstrap: str
    home: Path

    def admin(self, client_id: str = "admin") -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap, "client.id": client_id})

    def create(self, topic: str, **settings: str) -> None:
        admin = self.admin()  # its futures fail when it is gone
        for done in admin.create_topics([NewTopic(topic, 2, 1, config=settings)]).values():
            done.result(WAIT_S)
        wait_until(lambda: self.has_leaders(topic))

    def has_leaders(self, topic: str) -> bool:
        found = self.admin().list_topics(topic, WAIT_S).topics[topic]
        return len(found.partitions) == 2 and all(
            partition.leader == 1 for partition in found.partitions.values()
        )

    def files(self) -> list[Path]:
        return sorted(self.home.glob("kafka-request.log*"), key=lambda file: file.stat().st_mtime)

    def log_until(self, client_id: str) -> bytes:
        self.admin(client_id).list_topics(timeout=WAIT_S)
        mark = f'"clientId":"{client_id}","requestApiKeyName":"METADATA"'.encode()
        wait_until(lambda: any(mark in file.read_bytes() for file in self.files()))
        return b"".join(file.read_bytes() for file in self.files())


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Logged]:
    directory = tmp_path_factory.mktemp("logged")
    lines = re.search(r"```yaml\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    assert lines is not None
    log4j2 = directory / "log4j2.yaml"
    log4j2.write_text(LOG4J2 + lines[1], encoding="utf-8")
    broker = EmbeddedKafka(directory / "kafka", default_home(), log4j2=log4j2)
    try:
        yield Logged(broker.start(), directory / "kafka")
    finally:
        broker.stop()


def produce(logged: Logged, topic: str, records: int, **settings: Any) -> None:
    configuration = {"bootstrap.servers": logged.bootstrap, "client.id": "producer", **settings}
    producer = Producer(configuration)
    for number in range(records):
        producer.produce(topic, f"value {number}" * (number % 7), str(number))
        if number % 10 == 0:
            producer.flush(WAIT_S)
    assert producer.flush(WAIT_S) == 0


def consume(logged: Logged, topic: str, records: int) -> None:
    consumer = Consumer(
        {"bootstrap.servers": logged.bootstrap, "group.id": "g", "client.id": "consumer"}
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in (0, 1)])
    got = 0
    while got < records:
        got += sum(message.error() is None for message in consumer.consume(100, 5))
    consumer.commit(asynchronous=False)
    consumer.close()


def has_coordinator(consumer: Consumer) -> bool:
    try:
        consumer.committed([TopicPartition("__consumer_offsets", 0)], WAIT_S)
    except KafkaException:
        return False
    return True


def warm_up(logged: Logged) -> None:
    """Have the internal topic and a block of producer ids, however long the broker takes."""
    consumer = Consumer({"bootstrap.servers": logged.bootstrap, "group.id": "warm"})
    wait_until(lambda: has_coordinator(consumer))
    consumer.close()
    producer = Producer({"bootstrap.servers": logged.bootstrap, "enable.idempotence": True})
    producer.list_topics(timeout=WAIT_S)
    got_id = re.compile(rb'"INIT_PRODUCER_ID"[^\n]*"errorCode":0')
    wait_until(lambda: any(got_id.search(file.read_bytes()) for file in logged.files()))


def test_a_real_log_is_ingested_replayed_and_agrees(logged: Logged, empty_directory: Path) -> None:
    warm_up(logged)
    before = len(logged.log_until("beginning-of-the-story"))
    logged.create("orders")
    produce(logged, "orders", RECORDS, **{"enable.idempotence": True})
    produce(logged, "orders", RECORDS, **{"compression.type": "gzip", "acks": 1})
    consume(logged, "orders", 2 * RECORDS)
    log = logged.log_until("end-of-the-story")
    (empty_directory / "requests.log").write_bytes(log[before:])

    words = ["requests.log", "--batches-from", logged.bootstrap, "--out", "out.jsonl.gz", "--json"]
    done = brokertwin("ingest", *words, cwd=empty_directory)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["batches"]["missing"] == {}
    assert report["batches"]["completed"] >= report["events"]["PRODUCE"] > 0

    words = ["out.jsonl.gz", "--compare", "--broker-config", logged.home / "server.properties"]
    slow = ["--time-tolerance", "50"]  # of a broker on a busy machine
    done = brokertwin("replay", *words, *slow, cwd=empty_directory)
    last = done.stdout.splitlines()[-1]
    exchanges = int(last.split()[-1])
    assert last == f"agree {exchanges} of {exchanges}", done.stdout
    assert exchanges > report["events"]["PRODUCE"]


def test_deleted_batches_are_counted(logged: Logged, empty_directory: Path) -> None:
    logged.create("deleted")
    produce(logged, "deleted", 20)
    everything = [TopicPartition("deleted", number, -1) for number in (0, 1)]
    admin = logged.admin()
    for future in admin.delete_records(everything).values():
        future.result(WAIT_S)
    logged.create("compressed", **{"compression.type": "zstd"})
    produce(logged, "compressed", 40)
    logged.create("unanswered")
    produce(logged, "unanswered", 5, acks=0)
    logged.create("gone")
    produce(logged, "gone", 5)
    for future in admin.delete_topics(["gone"]).values():
        future.result(WAIT_S)
    file = empty_directory / "requests.log"
    file.write_bytes(logged.log_until("end-of-the-losses"))
    words = [file, "--batches-from", logged.bootstrap, "--out", "out.jsonl", "--json"]
    done = brokertwin("ingest", *words, cwd=empty_directory)
    missing = json.loads(done.stdout)["batches"]["missing"]
    a_moment_too_early = {"refused by the broker"}
    assert missing.keys() - a_moment_too_early == {
        "no response has an offset",
        "another size in the topic",
        "not in the topic any more",
        "nothing of the partition is there",
    }
    lines = (empty_directory / "out.jsonl").read_text(encoding="utf-8").splitlines()
    produced = [json.loads(line) for line in lines if '"acks":0' in line]
    assert produced
    assert all(exchange["response"] is None for exchange in produced)


def test_no_password_gets_out_of_a_real_log(logged: Logged, empty_directory: Path) -> None:
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    change = UserScramCredentialUpsertion("alice", info, PASSWORD.encode(), b"salt of the earth")
    admin = logged.admin()
    for future in admin.alter_user_scram_credentials([change]).values():
        future.result(WAIT_S)
    log = logged.log_until("end-of-the-password")
    secret = re.search(rb'"saltedPassword":"([^"]+)"', log)
    assert secret is not None, "Kafka logs it"
    file = empty_directory / "requests.log"
    file.write_bytes(log + log[: log.index(secret[1]) + len(secret[1]) + 2] + b"\n")
    words = [file, "--out", "out.jsonl", "--dead-letters", "dead.jsonl"]
    done = brokertwin("ingest", *words, cwd=empty_directory)
    assert done.returncode == 1, "the last line is cut"
    outputs = [done.stdout.encode(), done.stderr.encode()]
    outputs += [(empty_directory / name).read_bytes() for name in ("out.jsonl", "dead.jsonl")]
    assert b"ALTER_USER_SCRAM_CREDENTIALS" in outputs[2]
    assert len(outputs[3]) > 0
    for output in outputs:
        assert secret[1] not in output
        assert PASSWORD.encode() not in output


def test_the_logger_is_switched_while_the_broker_runs(logged: Logged) -> None:
    """As kafka-configs.sh --entity-type broker-loggers does."""

    def switch(level: str) -> None:
        resource = ConfigResource(ConfigResourceType.BROKER_LOGGER, "1", {LOGGER: level})
        admin.alter_configs([resource], incremental=True)

    with KafkaAdminClient(bootstrap_servers=logged.bootstrap) as admin:
        switch("WARN")
        logged.admin("unheard").list_topics(timeout=WAIT_S)
        switch("DEBUG")
        log = logged.log_until("heard-again")
    assert b'"clientId":"unheard"' not in log
    assert b"--add-config kafka.request.logger=DEBUG" in DOCUMENT.read_bytes()
