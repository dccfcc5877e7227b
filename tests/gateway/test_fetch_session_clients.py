"""Real consumers of 200 partitions stay in one fetch session (KIP-227).

librdkafka does not use fetch sessions, so there is no test with it.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import confluent_kafka
import kafka
import pytest

from brokertwin.gateway.engine.local_engine import LocalEngine
from brokertwin.state.configs.broker_config import parse
from tests.support.examples import examples
from tests.support.gateways import Running, serving
from tests.support.kafka_tools import run_tool
from tests.support.patience import PATIENCE_S
from tests.support.watched_fetches import WatchedEngine, in_one_session

pytestmark = pytest.mark.clients

PARTITIONS = 200
POLLS = examples(200)
SETTINGS = {"group.initial.rebalance.delay.ms": "0"}


@pytest.fixture(scope="module")
def gateway() -> Iterator[Running]:
    typed, _ = parse(SETTINGS)
    with serving(WatchedEngine(LocalEngine("watched", [1], typed))) as running:
        yield running


@contextmanager
def records_trickling(
    gateway: Running, topic: str, may_go_on: Callable[[int], bool]
) -> Iterator[list[bytes]]:
    """Produce single records over all partitions while `may_go_on(sent)` is true."""
    with gateway.client() as client:
        client.topic(topic, PARTITIONS)
    producer = confluent_kafka.Producer({"bootstrap.servers": gateway.bootstrap, "linger.ms": 0})
    sent: list[bytes] = []
    ended = threading.Event()

    def trickle() -> None:
        while not ended.is_set() and may_go_on(len(sent)):
            value = b"%d" % len(sent)
            producer.produce(topic, value, partition=len(sent) % PARTITIONS)
            producer.poll(0)
            sent.append(value)
            time.sleep(0.002)
        producer.flush(PATIENCE_S)

    thread = threading.Thread(target=trickle)
    thread.start()
    try:
        yield sent
    finally:
        ended.set()
        thread.join(PATIENCE_S)


def test_kafka_python_consumer_stays_in_one_session(gateway: Running) -> None:
    read: list[bytes] = []
    with records_trickling(gateway, "python", lambda _: True) as sent:
        consumer = kafka.KafkaConsumer(
            bootstrap_servers=gateway.bootstrap,
            client_id="python-reader",
            group_id=None,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=5,
        )
        consumer.assign([kafka.TopicPartition("python", number) for number in range(PARTITIONS)])
        for _ in range(POLLS):
            for found in consumer.poll(timeout_ms=1000).values():
                read += [record.value for record in found]
    while len(read) < len(sent):
        for found in consumer.poll(timeout_ms=1000).values():
            read += [record.value for record in found]
    consumer.close()
    incremental = in_one_session(gateway.engine.of("python-reader"))
    assert len(incremental) >= POLLS - 1, "the first poll opens the session"
    assert max(fetch.partitions for fetch in incremental) < PARTITIONS / 2
    assert sorted(read, key=int) == sent


@pytest.mark.kafka
def test_java_console_consumer_of_a_group_stays_in_one_session(gateway: Running) -> None:
    watched: WatchedEngine = gateway.engine
    total = POLLS * 3

    def may_go_on(sent: int) -> bool:
        deadline = time.monotonic() + PATIENCE_S
        while sent == total - 1 and watched.incremental("java-reader") < POLLS:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        return sent < total

    with records_trickling(gateway, "java", may_go_on) as sent:
        printed = run_tool(
            gateway.bootstrap,
            "consumer.ConsoleConsumer",
            *("--topic", "java", "--group", "java-readers", "--max-messages", str(total)),
            *("--command-property", "auto.offset.reset=earliest"),
            *("--command-property", "client.id=java-reader"),
            *("--command-property", "fetch.max.wait.ms=2"),
        )
    assert len(in_one_session(watched.of("java-reader"))) >= POLLS
    assert sorted(printed.split(), key=int) == [value.decode() for value in sent]
