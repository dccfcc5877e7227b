"""`brokertwin capture` in a separate process, and the recording of a first user."""

import json
import signal
import subprocess
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import kafka as kafka_python
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from kafka.admin import KafkaAdminClient, NewTopic

from tests.support.console import command
from tests.support.patience import PATIENCE_S

HOST = "127.0.0.1"
WAIT_S = PATIENCE_S
RECORDS = 5


@contextmanager
def capturing(broker: str, *words: object) -> Iterator[tuple[str, list[str]]]:
    """A capture in front of a broker: its address, and its output, complete at the end."""
    process = subprocess.Popen(
        command("capture", "--json", "--listen", f"{HOST}:0", broker, *words),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    printed: list[str] = []
    with process:
        try:
            assert process.stdout is not None
            printed.append(process.stdout.readline())
            assert printed[0], process.communicate()
            yield json.loads(printed[0])["at"], printed
            process.send_signal(signal.SIGTERM)
            out, errors = process.communicate(timeout=WAIT_S)
            assert process.returncode == 0, errors
            printed += out.splitlines()
        finally:
            process.kill()


def new_group(bootstrap: str) -> str:
    """Return the name of an unused group whose coordinator has loaded.

    `list_consumer_group_offsets` of confluent-kafka 2.16.1 crashes on NOT_COORDINATOR.
    """
    group = f"billing-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    deadline = time.monotonic() + WAIT_S
    while True:
        try:
            admin.describe_consumer_groups([group])[group].result(WAIT_S)
        except KafkaException:
            assert time.monotonic() < deadline
            time.sleep(0.2)
        else:
            return group


def consume_in_a_group(bootstrap: str, group: str) -> str:
    """Create a topic, write to it and read it in a group that commits; the topic's name."""
    topic = f"orders-{group}"
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.create_topics([NewTopic(topic, 2, 1)])
    admin.close()
    producer = kafka_python.KafkaProducer(bootstrap_servers=bootstrap)
    for number in range(RECORDS):
        producer.send(topic, b"order %d" % number, partition=number % 2).get(WAIT_S)
    producer.close()
    consumer = kafka_python.KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=group,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        consumer_timeout_ms=WAIT_S * 1000,
    )
    for _, _ in zip(range(RECORDS), consumer, strict=False):
        pass
    consumer.commit()
    consumer.close()
    return topic
