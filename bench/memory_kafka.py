"""Bytes of one producer, fetch session, group and offset in the heap of Kafka, or of kfake.

    python bench/memory_kafka.py [--count 4000] [--kfake]

Starts a broker and sends requests on one connection. Before and after the objects of a kind the
heap is counted: Kafka's by `jcmd PID GC.class_histogram`, which collects garbage, kfake's by Go's
`MemStats`. As in `memory.py`, a producer has written one batch, a session has ten partitions, a
group one member and its timer. Kafka's records are on disk, so a batch takes no heap; kfake keeps
them there.
"""

import argparse
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import gateway_load
from gateway_load import CREATE_TOPICS, FETCH, INIT_PRODUCER_ID, PRODUCE, LoadClient
from kafka.record.default_records import DefaultRecordBatchBuilder
from memory import PARTITIONS

from brokertwin.kafka_io.kafka_broker import EmbeddedKafka
from brokertwin.settings import default_home

OFFSET_COMMIT, FIND_COORDINATOR, JOIN_GROUP, SYNC_GROUP = 8, 10, 11, 14
TOPIC, MANY = gateway_load.TOPIC, "many"
KFAKE = Path(__file__).parent / "peers" / "kfake"
OFFSETS_OF_GROUP = 500
WARM = 100
"""Objects before the first count, for what Kafka creates once."""

gateway_load.VERSIONS |= {OFFSET_COMMIT: 8, FIND_COORDINATOR: 3, JOIN_GROUP: 5, SYNC_GROUP: 4}


def producer(client: LoadClient, _number: int) -> None:
    _, _, found = client.call(INIT_PRODUCER_ID, {"transactionTimeoutMs": 60000})
    builder = DefaultRecordBatchBuilder(2, 0, 0, found["producerId"], 0, 0, 1 << 20)
    builder.append(0, gateway_load.TIMESTAMP, None, b"", [])
    parts = [{"index": 0, "records": bytes(builder.build())}]
    topics = [{"name": TOPIC, "partitionData": parts}]
    body = {"acks": -1, "timeoutMs": 30000, "topicData": topics}
    _, _, response = client.call(PRODUCE, body)
    assert not response["responses"][0]["partitionResponses"][0]["errorCode"], response


def session(client: LoadClient, _number: int) -> None:
    """A fetch session without records."""
    wanted = [
        {"partition": each, "fetchOffset": 0, "partitionMaxBytes": 1000}
        for each in range(1, PARTITIONS + 1)
    ]
    topics = [{"topic": TOPIC, "partitions": wanted}]
    body = {"maxBytes": 1000, "sessionEpoch": 0, "topics": topics}
    _, _, response = client.call(FETCH, body)
    assert response["sessionId"], response


def classic_group(client: LoadClient, number: int) -> None:
    named, member = f"group-{number}", ""
    protocols = [{"name": "range", "metadata": bytes(6)}]
    body = {"groupId": named, "sessionTimeoutMs": 1_000_000, "rebalanceTimeoutMs": 60000}
    body |= {"protocolType": "consumer", "protocols": protocols}
    while True:
        _, _, joined = client.call(JOIN_GROUP, {**body, "memberId": member})
        member = joined["memberId"]
        if not joined["errorCode"]:
            break
        assert joined["errorCode"] == 79, joined  # 79 MEMBER_ID_REQUIRED
    body = {"groupId": named, "generationId": 1, "memberId": member}
    given = [{"memberId": member, "assignment": bytes(6)}]
    _, _, synced = client.call(SYNC_GROUP, {**body, "assignments": given})
    assert not synced["errorCode"], synced


def offset(client: LoadClient, number: int) -> None:
    """A committed offset of a group without members, one of many."""
    parts = [{"partitionIndex": number % OFFSETS_OF_GROUP, "committedOffset": number}]
    named = f"offsets-{number // OFFSETS_OF_GROUP}"
    body = {"groupId": named, "generationIdOrMemberEpoch": -1, "memberId": ""}
    body |= {"topics": [{"name": MANY, "partitions": parts}]}
    _, _, response = client.call(OFFSET_COMMIT, body)
    assert not response["topics"][0]["partitions"][0]["errorCode"], response


KINDS: dict[str, Callable[[LoadClient, int], None]] = {
    "producer": producer,
    "session": session,
    "group": classic_group,
    "offset": offset,
}


def prepare(client: LoadClient) -> None:
    """Create the topics, and wait until the coordinator is there."""
    for name, partitions in ((TOPIC, PARTITIONS + 1), (MANY, OFFSETS_OF_GROUP)):
        topic = {"name": name, "numPartitions": partitions, "replicationFactor": 1}
        _, _, answer = client.call(CREATE_TOPICS, {"topics": [topic], "timeoutMs": 30000})
        assert not answer["topics"][0]["errorCode"], answer
    error = 15
    while error:
        _, _, answer = client.call(FIND_COORDINATOR, {"key": "any", "keyType": 0})
        error = answer["errorCode"]
        time.sleep(0.1)


def heap(pid: int) -> int:
    """Return the bytes of all reachable objects of a JVM."""
    command = ["jcmd", str(pid), "GC.class_histogram"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    total = next(line for line in done.stdout.splitlines() if line.startswith("Total"))
    return int(total.split()[2])


@contextmanager
def kafka(count: int) -> Iterator[tuple[str, Callable[[], int]]]:
    """Start Kafka; give its address, and the function that counts its heap."""
    settings = {
        "max.incremental.fetch.session.cache.slots": str(2 * count),
        "group.initial.rebalance.delay.ms": "0",
        "group.max.session.timeout.ms": "1000000",
        "offsets.topic.num.partitions": "1",
    }
    with tempfile.TemporaryDirectory() as directory:
        broker = EmbeddedKafka(Path(directory) / "kafka", default_home())
        try:
            address = broker.start(settings)
            pid = broker.status().pid
            assert pid is not None
            yield address, lambda: heap(pid)
        finally:
            broker.stop()


@contextmanager
def kfake(_count: int) -> Iterator[tuple[str, Callable[[], int]]]:
    """Build and start kfake, as `kafka` does Kafka; needs Go."""
    with tempfile.TemporaryDirectory() as directory:
        build = ["go", "build", "-C", str(KFAKE), "-o", f"{directory}/kfake", "."]
        subprocess.run(build, check=True)
        pipe = subprocess.PIPE
        with subprocess.Popen(
            [f"{directory}/kfake"], stdin=pipe, stdout=pipe, text=True
        ) as process:
            into, out = process.stdin, process.stdout
            assert into is not None and out is not None

            def count_heap() -> int:
                print(file=into, flush=True)
                return int(out.readline())

            yield out.readline().strip(), count_heap
            into.close()


def measure(address: str, count_heap: Callable[[], int], count: int) -> dict[str, float]:
    """Return the bytes per object of each kind."""
    host, _, port = address.partition(":")
    client = LoadClient(host, int(port), 0, b"")
    prepare(client)
    found: dict[str, float] = {}
    for name, kind in KINDS.items():
        for number in range(WARM):
            kind(client, count + number)
        before = count_heap()
        for number in range(count):
            kind(client, number)
        found[name] = (count_heap() - before) / count
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--count", type=int, default=4000)
    parser.add_argument("--kfake", action="store_true", help="in kfake's heap, not in Kafka's")
    args = parser.parse_args()
    with (kfake if args.kfake else kafka)(args.count) as (address, count_heap):
        for name, figure in measure(address, count_heap, args.count).items():
            print(f"{name:14}{figure:9,.0f}", flush=True)


if __name__ == "__main__":
    main()
