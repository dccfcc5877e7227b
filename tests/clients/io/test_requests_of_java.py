"""The requests of our clients beside those of Java's, field by field.

`Requests.java` beside this file has Java's clients; ours do the same. Both are captured. Java's ask
a real Kafka, and for transactions as of before KIP-890 a gateway that has nothing newer.
"""

import json
import os
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from brokertwin.clients.consumer_config import ConsumerConfig, GroupProtocol
from brokertwin.clients.consumer_requests import Generation
from brokertwin.clients.fetcher import FetchSettings, OffsetReset
from brokertwin.clients.io.consumer import Consumer
from brokertwin.clients.io.producer import Producer
from brokertwin.clients.messages import ProducerRecord
from brokertwin.clients.partitions import TopicPartition
from brokertwin.clients.producer_config import ProducerConfig
from brokertwin.gateway.edge_fields import Address
from tests.clients.io.test_consumer_members import make_topic
from tests.support.gateways import running_gateway
from tests.support.goldens import IS_LIVE, WRITTEN_MS, golden
from tests.support.kafka_tools import streams_command
from tests.support.patience import PATIENCE_S, wait_until
from tests.support.proxies import Capturing, capturing
from tests.support.request_fields import Fields, differences, fields

DRIVER = Path(__file__).with_name("Requests.java")
TOPIC = "requests-compared"
"""One name for all: it is also in fields that are bytes."""

AGAIN = "again"
"""A classic consumer that goes on where the one before it has committed."""

PATTERNS = ("pattern", "regex")
"""One of either protocol that subscribes to what matches."""

CONSUMERS = (*GroupProtocol, AGAIN, *PATTERNS)
MODERN = ("consumer", "regex")
CLIENTS = ("idempotent", "transactional", *CONSUMERS)
TRANSACTIONAL = ("transactional",)


def of(clients: tuple[str, ...], *apis: str) -> list[str]:
    return [f"{client} {each}" for client in clients for each in apis]


NAMES = [
    'name: - | "requests-compared"',
    "topicId: … | -",
]
"""Placeholder for a topic."""

DIFFERENCES = {
    "who we are": of(
        CLIENTS,
        'API_VERSIONS clientSoftwareName: "apache-kafka-java" | "brokertwin"',
        'API_VERSIONS clientSoftwareVersion: "4.3.1" | "1"',
    ),
    "topics go by their names where all brokers from Kafka 3.0 on take them": [
        *of(("idempotent", "transactional"), "PRODUCE (version): 13 | 12"),
        *of(("idempotent", "transactional"), *(f"PRODUCE topicData[].{each}" for each in NAMES)),
        *of(MODERN, "OFFSET_COMMIT (version): 10 | 9", "OFFSET_FETCH (version): 10 | 9"),
        *of(MODERN, *(f"OFFSET_COMMIT topics[].{each}" for each in NAMES)),
        *of(MODERN, *(f"OFFSET_FETCH groups[].topics[].{each}" for each in NAMES)),
    ],
}
"""The only differences, by their reasons: what Java's clients send, and what ours."""


def protocol_of(client: str) -> GroupProtocol:
    return GroupProtocol.CONSUMER if client in MODERN else GroupProtocol.CLASSIC


def settings_of(client: str, group: str) -> ConsumerConfig:
    protocol = protocol_of(client)
    beats = {"heartbeat_interval_ms": 100} if protocol is GroupProtocol.CLASSIC else {}
    return ConsumerConfig(group_id=group, group_protocol=protocol, **beats)


def produce(producer: Producer, topic: str) -> None:
    for at in range(6):
        value = b"%d" % at
        producer.send(topic, ProducerRecord(value, value, WRITTEN_MS), at % 2)
    producer.flush(60_000)


def transactional(bootstrap: str, topic: str, group: str) -> None:
    config = ProducerConfig(transactional_id=group, linger_ms=10_000)
    with Producer(bootstrap, config, client_id="transactional") as producer:
        producer.init_transactions()
        producer.begin_transaction()
        produce(producer, topic)
        offsets = {TopicPartition(topic, 0): 1}
        producer.send_offsets_to_transaction(group, offsets, Generation())
        producer.commit_transaction()
        producer.begin_transaction()
        produce(producer, topic)
        producer.abort_transaction()


def run_ours(proxy: Capturing, topic: str, clients: tuple[str, ...]) -> None:
    """Run our clients: first the producers, then the consumers side by side."""
    if "idempotent" in clients:
        config = ProducerConfig(linger_ms=10_000)
        with Producer(proxy.bootstrap, config, client_id="idempotent") as producer:
            produce(producer, topic)
    if "transactional" in clients:
        transactional(proxy.bootstrap, topic, f"{topic}-ours-transactional")
    consumers = [each for each in clients if each in CONSUMERS and each != AGAIN]
    with ThreadPoolExecutor() as pool:
        for done in [pool.submit(consume, proxy, topic, each, clients) for each in consumers]:
            done.result()


def consume(proxy: Capturing, topic: str, client: str, clients: tuple[str, ...]) -> None:
    """Run a consumer, and the one that goes on after it."""
    fetches = FetchSettings(auto_offset_reset=OffsetReset.EARLIEST)
    of_group = GroupProtocol.CLASSIC if client == AGAIN else client
    settings = settings_of(client, f"{topic}-ours-{of_group}")
    wanted: dict[str, Any] = {"topics": [topic]}
    if client in PATTERNS:
        wanted = {"pattern": f"{topic}.*"}
    with Consumer(
        proxy.bootstrap, settings, fetches=fetches, client_id=client, **wanted
    ) as consumer:
        wait_until(lambda: not consumer.poll(100) and has_read(proxy, client))
    if client == GroupProtocol.CLASSIC and AGAIN in clients:
        consume(proxy, topic, AGAIN, clients)


def run_java(proxy: Capturing, topic: str, clients: tuple[str, ...]) -> None:
    words = [str(DRIVER), proxy.bootstrap, topic, f"{topic}-java", *clients]
    java = subprocess.Popen(
        [*streams_command(), *words],
        stdin=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "WRITTEN_AT": str(WRITTEN_MS)},
    )
    assert java.stdin is not None
    with java:
        for client in clients:
            if client in CONSUMERS:
                wait_until(lambda at=client: has_read(proxy, at) or java.poll() is not None)
                java.stdin.write(b".")
                java.stdin.flush()
        java.communicate(timeout=PATIENCE_S)
    assert java.returncode == 0


def recorded(proxy: Capturing) -> list[dict[str, Any]]:
    """The requests that are in the file by now, to the end of its last whole line."""
    text = proxy.file.read_text()
    documents = [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]
    return [each for each in documents if "requestHeader" in each]


def has_read(proxy: Capturing, client: str) -> bool:
    """Whether a consumer has read everything and only sends heartbeats."""
    requests = [each for each in recorded(proxy) if each["requestHeader"]["clientId"] == client]
    names = {each["requestHeader"]["requestApiKeyName"] for each in requests}
    is_classic = protocol_of(client) is GroupProtocol.CLASSIC
    beats = "HEARTBEAT" if is_classic else "CONSUMER_GROUP_HEARTBEAT"
    fetches = [each for each in requests if each["requestHeader"]["requestApiKeyName"] == "FETCH"]
    is_idle = any(each["request"]["topics"] == [] for each in fetches)
    return beats in names and is_idle


def requests_no_topic(document: dict[str, Any]) -> bool:
    """Whether a consumer of the new protocol requests only the brokers.

    Java's thread requests metadata as soon as it has a connection (`ConsumerNetworkThread`), before
    or after `subscribe`: for its topics, which it may create, or for none. Ours know their topics
    from the start. A consumer with a pattern has no ids at first.
    """
    header = document["requestHeader"]
    if header["clientId"] not in MODERN or header["requestApiKeyName"] != "METADATA":
        return False
    return document["request"]["topics"] == []


def requested_by(proxy: Capturing) -> Fields:
    return fields(each for each in proxy.documents() if not requests_no_topic(each))


def compared(name: str, bootstrap: str, directory: Path, clients: tuple[str, ...]) -> list[str]:
    """Return the differences between Java's requests, from a golden, and ours."""
    make_topic(bootstrap, TOPIC)

    def send() -> Fields:
        with capturing(bootstrap, directory / "theirs.jsonl") as theirs:
            run_java(theirs, TOPIC, clients)
        return requested_by(theirs)

    output = golden(name, send, scenario=[DRIVER.read_text(encoding="utf-8"), clients, TOPIC])
    with capturing(bootstrap, directory / "ours.jsonl") as ours:
        run_ours(ours, TOPIC, clients)
    assert AGAIN not in clients or f"{AGAIN} OFFSET_FOR_LEADER_EPOCH" in output
    return differences(output, requested_by(ours))


def reported(*reasons: str) -> list[str]:
    return sorted(line for reason in reasons for line in DIFFERENCES[reason])


PATIENT = {
    "group.consumer.heartbeat.interval.ms": "15000",
    "group.initial.rebalance.delay.ms": "0",
}
"""No consumer sends a second heartbeat, which has less in it, also on a slow machine."""


@pytest.fixture
def bootstrap(real_kafka: Address) -> Iterator[str]:
    """A real Kafka if requested, otherwise a gateway for our clients."""
    if IS_LIVE:
        yield f"{real_kafka.host}:{real_kafka.port}"
        return
    with running_gateway(PATIENT) as gateway:
        yield gateway.bootstrap


def test_our_requests_equal_javas_except_for_listed_differences(
    bootstrap: str, tmp_path: Path
) -> None:
    found = compared("drivers/requests", bootstrap, tmp_path, CLIENTS)
    assert sorted(found) == reported(*DIFFERENCES)


@pytest.mark.compares
def test_transactions_before_kip_890_equal_javas(tmp_path: Path) -> None:
    with running_gateway({"brokertwin.transaction.version": "1"}) as gateway:
        found = compared(
            "drivers/requests_before_kip_890", gateway.bootstrap, tmp_path, TRANSACTIONAL
        )
    assert sorted(found) == [
        line for line in reported("who we are") if line.startswith(TRANSACTIONAL)
    ]
