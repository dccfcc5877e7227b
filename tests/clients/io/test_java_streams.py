"""Our Streams instances in one group with Java's, on Kafka and on a gateway.

`WordCountMember.java` is Java's word count with the same tasks and topics.
"""

import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from brokertwin.clients.io.streams import StreamsInstance
from brokertwin.clients.messages import ProducerRecord
from brokertwin.clients.streams.applications import word_count
from brokertwin.clients.streams.streams_config import Guarantee, StreamsConfig
from brokertwin.gateway.edge_fields import Address
from tests.clients.io.test_streams import LINE, NUMBERS, gateway, prepared, tasks_of
from tests.support.gateways import Client
from tests.support.kafka_tools import streams_command
from tests.support.patience import wait_until
from tests.support.socket_records import read_committed, written

__all__ = ["gateway"]

pytestmark = pytest.mark.kafka

DRIVER = Path(__file__).with_name("WordCountMember.java")
EVERY = ["0_0", "0_1", "0_2", "1_0", "1_1", "1_2"]


class JavaInstance:
    """An instance of Java's Streams with one thread."""

    def __init__(
        self,
        bootstrap: str,
        config: StreamsConfig,
        topics: tuple[str, str],
        directory: Path,
        *,
        protocol: str = "classic",
    ) -> None:
        settings = {
            "group.protocol": protocol,
            "application.id": config.application_id,
            "bootstrap.servers": bootstrap,
            "processing.guarantee": config.processing_guarantee,
            "commit.interval.ms": config.commit_ms,
            "transaction.timeout.ms": config.transaction_timeout_ms,
            "state.dir": directory / f"state-{next(NUMBERS)}",
            "statestore.cache.max.bytes": 0,
        }
        if protocol == "classic":
            settings |= {
                "num.standby.replicas": config.num_standby_replicas,
                "session.timeout.ms": config.session_timeout_ms,
                "heartbeat.interval.ms": config.heartbeat_interval_ms,
            }
        words = [f"{name}={value}" for name, value in settings.items()]
        self._java = subprocess.Popen(
            [*streams_command(), str(DRIVER), *topics, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=(directory / "java.txt").open("a"),
            text=True,
        )

    def __enter__(self) -> "JavaInstance":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def tasks(self) -> list[str]:
        assert self._java.stdin is not None
        assert self._java.stdout is not None
        self._java.stdin.write("\n")
        self._java.stdin.flush()
        return self._java.stdout.readline().split()

    def kill(self) -> None:
        """It dies (kill -9)."""
        with self._java:
            self._java.kill()


def has_records(bootstrap: str, topic: str) -> bool:
    host, _, port = bootstrap.rpartition(":")
    with Client(Address(host, int(port))) as client:
        return bool(client.list_offset(topic, -1, 0)["offset"])


def assert_counted(bootstrap: str, topic: str, lines: int) -> None:
    """Check that each word's counts are 1, 2, 3 … up to its number in `lines` lines."""
    expected = {word: lines * n for word, n in Counter(LINE.split()).items()}
    actual: dict[bytes, list[int]] = {}
    for message in read_committed(bootstrap, topic, sum(expected.values())):
        actual.setdefault(message.key or b"", []).append(int(message.value or b""))
    assert actual == {word: list(range(1, n + 1)) for word, n in expected.items()}


def test_our_and_java_instances_count_each_word_once(bootstrap: str, tmp_path: Path) -> None:
    """Ours leads and Java's is killed; then Java's leads, and ours come and go."""
    topics = f"lines{next(NUMBERS)}", f"counts{next(NUMBERS)}"
    topology = word_count(*topics)
    config = prepared(bootstrap, topology, {topics[0]: 3, topics[1]: 1})
    sent = 0

    def write(count: int) -> None:
        nonlocal sent
        written(bootstrap, topics[0], [ProducerRecord(b"%d" % n, LINE) for n in range(count)])
        sent += count

    def are_shared(java: JavaInstance, ours: StreamsInstance) -> bool:
        its, own = java.tasks(), tasks_of(ours)
        return len(its) == len(own) and sorted(its + own) == EVERY

    with StreamsInstance(bootstrap, config, topology) as ours:
        ours.start_thread()
        wait_until(lambda: tasks_of(ours) == EVERY, "ours runs all")
        with JavaInstance(bootstrap, config, topics, tmp_path) as killed:
            wait_until(lambda: are_shared(killed, ours), "Java's has half, given by ours")
            write(200)
        write(50)
        wait_until(lambda: tasks_of(ours) == EVERY, "ours has what Java's had")
        java = JavaInstance(bootstrap, config, topics, tmp_path)
        with java:
            wait_until(lambda: are_shared(java, ours), "another one of Java's has half")
            ours.close()
            wait_until(lambda: java.tasks() == EVERY, "Java's has all, and leads")
            write(50)
            with StreamsInstance(bootstrap, config, topology) as second:
                second.start_thread()
                wait_until(lambda: are_shared(java, second), "ours has half, given by Java's")
                write(100)
                assert_counted(bootstrap, topics[1], sent)


def test_java_instances_count_once_on_a_gateway_after_a_kill(gateway: str, tmp_path: Path) -> None:
    topics = f"lines{next(NUMBERS)}", f"counts{next(NUMBERS)}"
    config = prepared(gateway, word_count(*topics), {topics[0]: 3, topics[1]: 1})

    def write(count: int) -> None:
        written(gateway, topics[0], [ProducerRecord(b"%d" % n, LINE) for n in range(count)])

    with JavaInstance(gateway, config, topics, tmp_path) as left:
        wait_until(lambda: left.tasks() == EVERY, "one runs all")
        with JavaInstance(gateway, config, topics, tmp_path) as killed:
            wait_until(lambda: sorted(left.tasks() + killed.tasks()) == EVERY, "all have an owner")
            wait_until(lambda: len(killed.tasks()) == len(EVERY) // 2, "two share them")
            write(300)
            wait_until(lambda: has_records(gateway, topics[1]), "both work")
        write(100)
        wait_until(lambda: left.tasks() == EVERY, "the other has all")
        assert_counted(gateway, topics[1], 400)


def test_a_streams_group_has_topics_and_tasks_from_the_broker(gateway: str, tmp_path: Path) -> None:
    """KIP-1071: there is no leader, and one of two instances is killed."""
    topics = f"lines{next(NUMBERS)}", f"counts{next(NUMBERS)}"
    config = StreamsConfig(
        application_id=f"app{next(NUMBERS)}-{time.time_ns()}",
        processing_guarantee=Guarantee.EXACTLY_ONCE_V2,
        transaction_timeout_ms=3_000,
    )
    host, _, port = gateway.rpartition(":")
    with Client(Address(host, int(port))) as client:
        for topic, partitions in zip(topics, (3, 1), strict=True):
            client.topic(topic, partitions)

        def described() -> dict[str, Any]:
            body = {"groupIds": [config.application_id], "includeAuthorizedOperations": False}
            group: dict[str, Any] = client.call("STREAMS_GROUP_DESCRIBE", 0, body)["groups"][0]
            return group

        def write(count: int) -> None:
            written(gateway, topics[0], [ProducerRecord(b"%d" % n, LINE) for n in range(count)])

        def started() -> JavaInstance:
            return JavaInstance(gateway, config, topics, tmp_path, protocol="streams")

        with started() as left:
            wait_until(lambda: left.tasks() == EVERY, "one runs all")
            with started() as killed:
                wait_until(lambda: len(killed.tasks()) == len(EVERY) // 2, "two share them")
                wait_until(lambda: described()["groupState"] == "Stable", "both have their part")
                assert sorted(left.tasks() + killed.tasks()) == EVERY
                write(300)
                wait_until(lambda: has_records(gateway, topics[1]), "both work")
            write(100)
            wait_until(lambda: left.tasks() == EVERY, "the other has all")
            assert_counted(gateway, topics[1], 400)
            (member,) = described()["members"]
            assert len(member["assignment"]["activeTasks"]) == 2, "of both subtopologies"
