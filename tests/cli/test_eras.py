"""`--era` and `--trace`: clients and brokers of the seeds' time, with the seeds' log lines."""

import re
import signal
import threading

import pytest

from tests.support.console import brokertwin
from tests.support.gateway_processes import TIMEOUT_S, gateway
from tests.support.gateways import Client

pytestmark = pytest.mark.processes

TIME = re.compile(
    r"^\[\d\d:\d\d:\d\d,\d{3}\] (\[(MainThread|kafka-producer-network-thread .*?)\] )?"
)
BROKERS = ("--brokers", "2", "--era", "2.0", "--trace")
FAST = ("--set", "group.initial.rebalance.delay.ms=0", "--set", "offsets.topic.num.partitions=1")


def lines_of(text: str) -> list[str]:
    return [TIME.sub("", line) for line in text.splitlines() if TIME.match(line)]


def in_order(expected: list[str], lines: list[str]) -> bool:
    left = iter(lines)
    return all(any(re.fullmatch(pattern, line) for line in left) for pattern in expected)


PRODUCED = [
    r"TRACE Starting the Kafka producer",
    r"DEBUG Updated cluster metadata version 1 to Cluster\(nodes = \[.* \(id: -1 rack: null\)\],.*",
    r"TRACE Requesting metadata update for topic test\.",
    r"INFO \[Metadata\] awaitUpdate begin\.\.\.",
    r"DEBUG Sending metadata request \{topics=\[test\]\} to node -1",
    r"DEBUG Updated cluster metadata version 2 to Cluster\(.*Partition\(topic=test,partition=0.*",
    r"INFO \[Metadata\] awaitUpdate end\.\.\.",
    r"TRACE Sending record ProducerRecord\(topic=test, .*, value=m1, .* to topic test_0",
    r"TRACE Allocating a new 16384 byte message buffer for test_0",
    r"INFO \[accumulator\] drained batch: test-0",
    r"TRACE Created 1 produce requests: .*acks=1.*record_set=HeapByteBuffer\[pos=0 lim=36 .*",
    r"TRACE Received produce response from node 1",
    r"TRACE Produced messages to test-0 with base offset offset 0\.",
]
CONSUMED = [
    (
        r"DEBUG Node 1 sent a full fetch response that created a new incremental fetch session \d+"
        r" with response=\(test-0\)"
    ),
    r"DEBUG Node 1 sent an incremental fetch response for session \d+ with response=\(.*",
]
FOLLOWER = r"\[ReplicaFetcherThread-0-1\], Follower 2"
SERVED = [
    rf"{FOLLOWER} has replica log end offset 0 for partition test-0\. Received \d+ messages .*",
    rf"{FOLLOWER} set replica high watermark for partition \[test,0\] to 1",
    r"Created fetch session FetchSession\(id=\d+, privileged=false, .*size=1, .*, epoch=1\)",
    r"Full fetch context with session id \d+ returning \(test-0\)",
]


def test_produce_consume_and_gateway_print_the_seeds_lines() -> None:
    with gateway(*BROKERS, *FAST) as (process, addresses):
        assert process.stderr is not None
        messages: list[str] = []
        reader = threading.Thread(target=messages.extend, args=(process.stderr,))
        reader.start()
        boot = ("--bootstrap", "{}:{}".format(*addresses[1]))
        with Client(addresses[1]) as client:
            replicas = [{"partitionIndex": 0, "brokerIds": [1, 2]}]
            topic = {"name": "test", "numPartitions": -1, "replicationFactor": -1}
            topics = [{**topic, "assignments": replicas}]
            client.call("CREATE_TOPICS", 7, {"topics": topics, "timeoutMs": 30_000})
        sent = brokertwin("produce", "test", "--era", "0.10", "--trace", *boot, text="m1\n")
        assert sent.returncode == 0, sent.stderr
        assert in_order(PRODUCED, lines_of(sent.stderr)), sent.stderr
        assert re.search(r"\] \[kafka-producer-network-thread .*\] .*drained batch", sent.stderr)
        options = ("--era", "2.0", "--trace", "--threads", 2, "--idempotence", "--retries", 3)
        again = brokertwin("produce", "test", *options, *boot, text="m2\n")
        assert again.returncode == 0, again.stderr
        assigned = r"Assigned producerId \d+ and producerEpoch 0 to batch with base sequence 0"
        assert re.search(assigned, again.stderr), again.stderr
        words = ("--group", "g", "--from-beginning", "--timeout", 1)
        read = brokertwin("consume", "test", *words, "--era", "2.0", "--trace", *boot)
        assert read.stdout == "m1\nm2\n", read.stderr
        assert in_order(CONSUMED, lines_of(read.stderr)), read.stderr
        former = brokertwin("consume", "test", "-g", "f", *words[2:], "--era", "0.10", *boot)
        assert former.stdout == "m1\nm2\n", former.stderr
        process.send_signal(signal.SIGTERM)
        process.wait(TIMEOUT_S)
        reader.join(TIMEOUT_S)
    served = lines_of("".join(messages))
    assert in_order(SERVED, served), served
    created = [line for line in served if line.startswith("Created fetch session")]
    assert len(created) == 1, "a consumer of 0.10 has no sessions"


def test_kafka_0_10_has_no_idempotent_producer() -> None:
    done = brokertwin("produce", "test", "--era", "0.10", "--transactional-id", "t", text="")
    assert (done.returncode, done.stderr.split(";")[0]) == (
        2,
        "Kafka 0.10 has no idempotent producer",
    )


def test_spark_engine_refuses_them() -> None:
    done = brokertwin("gateway", "--engine", "spark", "--era", "0.10")
    assert done.returncode != 0
    assert "Cannot combine --era, --trace and --version with" in done.stderr
