"""Instances of Streams over sockets, on Kafka and on a gateway."""

import threading
import time
from collections import Counter
from collections.abc import Iterator
from itertools import count
from typing import Any

import msgspec
import pytest

from brokertwin.clients.io.store_queries import StoreQuery, StoreQueryServer, query_instance
from brokertwin.clients.io.streams import StreamsInstance
from brokertwin.clients.messages import ProducerRecord
from brokertwin.clients.streams.applications import table_join, word_count
from brokertwin.clients.streams.layout import layout
from brokertwin.clients.streams.streams_config import Guarantee, StreamsConfig
from brokertwin.clients.streams.streams_protocol import HostInfo
from brokertwin.clients.streams.topology import Topology
from brokertwin.gateway.edge_fields import Address
from tests.support.gateways import HOST, Client, running_gateway
from tests.support.patience import PATIENCE_S, wait_until
from tests.support.socket_records import read_committed, written
from tests.support.typed_commands import free_port

pytestmark = pytest.mark.clients

SETTINGS = {
    "group.initial.rebalance.delay.ms": "100",
    "group.streams.initial.rebalance.delay.ms": "100",
    "group.streams.assignment.interval.ms": "0",
    "group.streams.min.heartbeat.interval.ms": "300",
    "group.streams.heartbeat.interval.ms": "300",
    "group.streams.min.session.timeout.ms": "3000",
    "group.streams.session.timeout.ms": "3000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
}
NUMBERS = count(1)
LINE = b"the quick fox jumps over the lazy dog"


@pytest.fixture(scope="module")
def gateway() -> Iterator[str]:
    with running_gateway(SETTINGS) as running:
        yield running.bootstrap


def prepared(bootstrap: str, topology: Topology, counts: dict[str, int]) -> StreamsConfig:
    application_id = f"app{next(NUMBERS)}-{time.time_ns()}"
    made = layout(application_id, topology, counts)
    host, _, port = bootstrap.rpartition(":")
    with Client(Address(host, int(port))) as client:
        for name, partitions in counts.items():
            client.topic(name, partitions)
        for topic in made.internal_topics.values():
            client.topic(topic.name, topic.partitions, **_named(topic.settings))
    return StreamsConfig(
        application_id=application_id,
        processing_guarantee=Guarantee.EXACTLY_ONCE_V2,
        session_timeout_ms=6_000,
        heartbeat_interval_ms=300,
        transaction_timeout_ms=3_000,
        num_standby_replicas=1,
        repartition_purge_interval_ms=500,
    )


def _named(settings: dict[str, str]) -> dict[str, str]:
    return {name.replace(".", "_"): value for name, value in settings.items()}


def left_in(bootstrap: str, topic: str, partitions: int) -> int:
    """Offsets between the beginnings and the ends of a topic."""
    host, _, port = bootstrap.rpartition(":")
    with Client(Address(host, int(port))) as client:
        first, end = (
            sum(client.list_offset(topic, time, at)["offset"] for at in range(partitions))
            for time in (-2, -1)
        )
    return int(end - first)


def tasks_of(*instances: StreamsInstance) -> list[str]:
    return sorted(task for each in instances for got in each.tasks().values() for task in got)


def test_words_are_counted_once_after_an_instance_kill(bootstrap: str) -> None:
    lines, counts = f"lines{next(NUMBERS)}", f"counts{next(NUMBERS)}"
    topology = word_count(lines, counts)
    config = prepared(bootstrap, topology, {lines: 3, counts: 1})
    every = ["0_0", "0_1", "0_2", "1_0", "1_1", "1_2"]
    killed = StreamsInstance(bootstrap, config, topology)
    with StreamsInstance(bootstrap, config, topology) as left:
        for instance in (left, killed, killed):
            instance.start_thread()
        wait_until(lambda: tasks_of(left, killed) == every, "all tasks run")
        wait_until(lambda: len(tasks_of(left)) == len(tasks_of(killed)) // 2, "in balance")
        written(bootstrap, lines, [ProducerRecord(b"%d" % n, LINE) for n in range(600)])
        wait_until(lambda: any(t.stream.worked for t in killed.threads.values()), "it works")
        killed.kill()
        written(bootstrap, lines, [ProducerRecord(b"%d" % n, LINE) for n in range(200)])
        wait_until(lambda: tasks_of(left) == every, "the other instance has all tasks")
        expected = {word: 800 * n for word, n in Counter(LINE.split()).items()}
        actual: dict[bytes, list[int]] = {}
        for message in read_committed(bootstrap, counts, sum(expected.values())):
            actual.setdefault(message.key or b"", []).append(int(message.value or b""))
        words = f"{config.application_id}-words-repartition"
        wait_until(lambda: not left_in(bootstrap, words, 3), "what was read of words is deleted")
        assert left_in(bootstrap, lines, 3) == 800, "of lines nothing is"
    assert actual == {word: list(range(1, n + 1)) for word, n in expected.items()}


def test_the_seeds_six_tasks_run_on_three_threads_then_two(bootstrap: str) -> None:
    left, right, sink = (f"{name}{next(NUMBERS)}" for name in ("l", "r", "joined"))
    topology = table_join(left, right, sink)
    config = prepared(bootstrap, topology, {left: 6, right: 6, sink: 1})
    with StreamsInstance(bootstrap, config, topology) as instance:
        for _ in range(3):
            instance.start_thread()

        def have_two_each() -> bool:
            assert not instance.failed
            return sorted(map(len, instance.tasks().values())) == [2, 2, 2]

        wait_until(have_two_each, "two each")
        assert tasks_of(instance) == [f"0_{partition}" for partition in range(6)]
        before = instance.tasks()
        instance.end_thread("thread 2")
        wait_until(lambda: sorted(map(len, instance.tasks().values())) == [0, 3, 3], "three each")
        after = instance.tasks()
        for name in ("thread 1", "thread 3"):
            assert set(before[name]) < set(after[name])
        written(bootstrap, left, [ProducerRecord(b"%d" % n, b"left %d" % n) for n in range(50)])
        written(
            bootstrap, right, [ProducerRecord(b"%d" % n, b"right %d" % n) for n in range(25, 75)]
        )
        actual = {m.key: m.value for m in read_committed(bootstrap, sink, 25)}
    assert actual == {b"%d" % n: b"left %d,right %d" % (n, n) for n in range(25, 50)}


def items_of(response: dict[str, Any]) -> list[tuple[bytes, str]]:
    return [(item["key"].encode(), item["value"]) for item in response["items"]]


def check_ranges(hosts: list[HostInfo], expected: dict[bytes, str]) -> None:
    """All keys, or those between two, of both instances' tasks and in order."""
    for host in hosts:
        assert items_of(query_instance(host, StoreQuery("counts"))) == sorted(expected.items())
        some = query_instance(host, StoreQuery("counts", first=b"f", last=b"lazy"))
        assert some["items"] == [{"key": each, "value": "10"} for each in ("fox", "jumps", "lazy")]
        assert "stale" not in some


def check_copies(left: HostInfo, expected: dict[bytes, str]) -> None:
    """The other instance is gone, and the group does not know yet: it has copies (KIP-535)."""
    lost = [
        word for word in expected if "error" in query_instance(left, StoreQuery("counts", word))
    ]
    assert lost, "it had some of the words"
    assert "did not respond" in query_instance(left, StoreQuery("counts"))["error"]
    for word in lost:
        found = query_instance(left, StoreQuery("counts", word, may_be_stale=True))
        assert (found["value"], found["stale"]) == (expected[word], True)
    everything = query_instance(left, StoreQuery("counts", may_be_stale=True))
    assert (items_of(everything), everything["stale"]) == (sorted(expected.items()), True)


def test_any_instance_serves_any_key(bootstrap: str) -> None:
    lines, counts = f"lines{next(NUMBERS)}", f"counts{next(NUMBERS)}"
    topology = word_count(lines, counts)
    config = prepared(bootstrap, topology, {lines: 2, counts: 1})
    made = layout(config.application_id, topology, {lines: 2})
    hosts = [HostInfo(HOST, free_port()) for _ in range(2)]
    instances = [StreamsInstance(bootstrap, config, topology, end_point=host) for host in hosts]
    pairs = list(zip(instances, hosts, strict=True))
    servers = [StoreQueryServer(instance, made, host) for instance, host in pairs]
    assert "no assignment yet" in query_instance(hosts[0], StoreQuery("counts", b"the"))["error"]
    written(bootstrap, lines, [ProducerRecord(b"%d" % n, LINE) for n in range(10)])
    with instances[0], instances[1]:
        for instance in instances:
            instance.start_thread()
        wait_until(lambda: tasks_of(*instances) == ["0_0", "0_1", "1_0", "1_1"], "all tasks run")
        wait_until(lambda: sorted(map(len, map(tasks_of, instances))) == [2, 2], "in balance")
        expected = {word: str(10 * n) for word, n in Counter(LINE.split()).items()}

        def result(host: HostInfo) -> dict[bytes, str | None]:
            return {
                word: query_instance(host, StoreQuery("counts", word)).get("value")
                for word in expected
            }

        wait_until(lambda: all(result(host) == expected for host in hosts), "all is counted")
        for word in expected:
            responses = [query_instance(host, StoreQuery("counts", word)) for host in hosts]
            assert responses[0] == responses[1]
            (other,) = {str(host) for host in hosts} - {responses[0]["active"]}
            assert responses[0]["standby"] == [other]
        assert query_instance(hosts[0], StoreQuery("counts", b"a cat"))["value"] is None
        assert query_instance(hosts[0], StoreQuery("none", b"the"))["error"] == "unknown store none"
        check_ranges(hosts, expected)
        gone = [str(host) for host in hosts].index(
            query_instance(hosts[0], StoreQuery("counts", b"the"))["active"]
        )
        servers[gone].close()
        instances[gone].kill()
        check_copies(hosts[1 - gone], expected)
    servers[1 - gone].close()
    assert "did not respond" in query_instance(hosts[0], StoreQuery("counts", b"the"))["error"]


def test_a_busy_thread_keeps_its_tasks_beyond_a_session() -> None:
    """Heartbeats have a separate thread."""
    working, go_on = threading.Event(), threading.Event()

    def slowly(message: ProducerRecord, _: object) -> list[ProducerRecord]:
        working.set()
        assert go_on.wait(PATIENCE_S)
        return [message]

    topology = Topology()
    topology.add_source("in", ["slow"])
    topology.add_processor("work", slowly, ["in"])
    topology.add_sink("out", "done", ["work"])
    session_ms = 1_000
    with running_gateway({**SETTINGS, "group.min.session.timeout.ms": "500"}) as gateway:
        config = prepared(gateway.bootstrap, topology, {"slow": 2, "done": 1})
        config = msgspec.structs.replace(
            config, session_timeout_ms=session_ms, num_standby_replicas=0
        )
        with StreamsInstance(gateway.bootstrap, config, topology) as instance:
            for _ in range(2):
                instance.start_thread()
            wait_until(lambda: sorted(map(len, instance.tasks().values())) == [1, 1], "one each")
            had, member = instance.tasks(), generations(instance)
            written(gateway.bootstrap, "slow", [ProducerRecord(b"k", b"v")])
            assert working.wait(PATIENCE_S)
            time.sleep(session_ms * 2.5 / 1_000)
            go_on.set()
            records = read_committed(gateway.bootstrap, "done", 1)
            assert [message.value for message in records] == [b"v"]
            assert (instance.tasks(), generations(instance)) == (had, member)


def generations(instance: StreamsInstance) -> list[object]:
    return [each.stream.consumer.coordinator.generation for each in instance.threads.values()]
