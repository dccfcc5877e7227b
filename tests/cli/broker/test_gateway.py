"""`brokertwin gateway` in a separate process."""

import signal
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from brokertwin.protocol.kafka_apis import PRODUCE
from tests.support.batches import batch
from tests.support.console import brokertwin
from tests.support.gateway_processes import TIMEOUT_S, gateway
from tests.support.gateways import Client

pytestmark = pytest.mark.processes


def test_gateway_serves_until_a_signal() -> None:
    words = ("--brokers", "2", "--set", "num.partitions=3")
    with gateway(*words) as (process, addresses), Client(addresses[2]) as client:
        topic = {"name": "made", "numPartitions": -1, "replicationFactor": -1}
        client.call("CREATE_TOPICS", 7, {"topics": [topic], "timeoutMs": 30000})
        response = client.call("METADATA", 9, name="made")
        assert len(response["topics"][0]["partitions"]) == 3
        assert {(each["host"], each["port"]) for each in response["brokers"]} == {
            *addresses.values()
        }
        process.send_signal(signal.SIGTERM)
        assert process.wait(TIMEOUT_S) == 0


def test_acknowledged_writes_survive_a_kill(tmp_path: Path) -> None:
    words = ("--journal", str(tmp_path / "journal"))
    with gateway(*words) as (process, addresses):
        with Client(addresses[1]) as client:
            client.topic("kept")
            for number in range(100):
                assert client.produce("kept", batch(b"%d" % number))["baseOffset"] == number
            before = client.fetch("kept", 0)["records"]
        process.kill()
        process.wait(TIMEOUT_S)
    with gateway(*words) as (_, addresses), Client(addresses[1]) as client:
        assert client.fetch("kept", 0)["records"] == before
        assert client.produce("kept", batch(b"later"))["baseOffset"] == 100


@pytest.mark.parametrize(
    ("words", "rows"),
    [
        ((), 1),
        (("--control-listen", "0"), 1),
        (("--set", "brokertwin.internal.logs=false"), 0),
    ],
)
def test_internal_topics_are_written_unless_that_is_switched_off(
    words: tuple[str, ...], rows: int
) -> None:
    few = ("--set", "offsets.topic.num.partitions=1")
    with gateway(*few, *words) as (_, addresses), Client(addresses[1]) as client:
        client.topic("t")
        client.call("FIND_COORDINATOR", 4, coordinatorKeys=["g"])
        offset = {"partitionIndex": 0, "committedOffset": 1, "committedMetadata": ""}
        client.call("OFFSET_COMMIT", 8, offset, groupId="g", name="t")
        request = {
            "name": "__consumer_offsets",
            "partitions": [{"partitionIndex": 0, "timestamp": -1}],
        }
        (topic,) = client.call("LIST_OFFSETS", 7, {"replicaId": -1, "topics": [request]})["topics"]
        assert [each["offset"] for each in topic["partitions"]] == [rows]


def cluster_id(*words: str) -> str:
    with gateway(*words) as (_, addresses), Client(addresses[1]) as client:
        return str(client.call("METADATA", 9, topics=[])["clusterId"])


def test_a_cluster_id_is_drawn_and_a_journal_keeps_it(tmp_path: Path) -> None:
    kept = cluster_id("--journal", str(tmp_path / "journal"))
    assert cluster_id("--journal", str(tmp_path / "journal")) == kept
    assert len({kept, cluster_id(), cluster_id()}) == 3
    assert cluster_id("--cluster", "shop") == cluster_id("--cluster", "shop")


def test_a_broker_with_the_methods_of_the_fixture() -> None:
    words = ("--control-listen", "0", "--brokers", "2", "--version", "2.8")
    with gateway(*words) as (process, addresses):
        assert len(addresses) == 2
        with Client(addresses[2]) as client:
            listed = client.call("API_VERSIONS", 2, {})["apiKeys"]
            newest = {each["apiKey"]: each["maxVersion"] for each in listed}
            assert newest[PRODUCE.key] == 9, "the version of Kafka 2.8"
        process.send_signal(signal.SIGTERM)
        assert process.wait(TIMEOUT_S) == 0


PARTITIONS = 200
METADATA = "m" * 4096


def commit(client: Client, offset: int) -> None:
    """Commit offsets whose metadata makes an event of 0.8 MB: the journal is compacted often."""
    partitions = [
        {"partitionIndex": each, "committedOffset": offset, "committedMetadata": METADATA}
        for each in range(PARTITIONS)
    ]
    response = client.call("OFFSET_COMMIT", 8, groupId="g", name="t", partitions=partitions)
    assert response["topics"][0]["partitions"][0]["errorCode"] == 0


def committed(client: Client) -> int:
    requests = [{"name": "t", "partitionIndexes": list(range(PARTITIONS))}]
    response = client.call("OFFSET_FETCH", 7, {"groupId": "g", "topics": requests})
    (committed_offset,) = {each["committedOffset"] for each in response["topics"][0]["partitions"]}
    return int(committed_offset)


def test_acknowledged_writes_survive_kills_during_journal_compaction(tmp_path: Path) -> None:
    journal, reported = tmp_path / "journal", -1
    for kill_in_s in (0.0, 0.01, 0.03):
        with gateway("--journal", str(journal)) as (process, addresses):
            with Client(addresses[1]) as client:
                if reported < 0:
                    client.topic("t", PARTITIONS)
                    client.call("FIND_COORDINATOR", 4, coordinatorKeys=["g"])
                else:
                    assert committed(client) in (reported, reported + 1), (
                        "the one under way may be there"
                    )
                first, killing = journal.stat().st_ino, threading.Timer(kill_in_s, process.kill)
                with suppress(ConnectionError):
                    while True:
                        commit(client, reported + 1)
                        reported += 1
                        if journal.stat().st_ino != first and not killing.ident:
                            killing.start()
            process.wait(TIMEOUT_S)
    with gateway("--journal", str(journal)) as (_, addresses), Client(addresses[1]) as client:
        assert committed(client) in (reported, reported + 1)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--listen", "9092"), "Invalid value of --listen: '9092'."),
        (("--advertise", "host:99999"), "Invalid value of --advertise: 'host:99999'."),
        (("--set", "num.partition=3"), "Did you mean num.partitions"),
        (("--listen", "0.0.0.0:9092"), "Add --advertise HOST:PORT"),
        (("--listen", "localhost:0", "--journal", "/proc/none/journal"), "Cannot open the journal"),
        (("--journal-fsync", "1s"), "--journal-fsync requires --journal"),
        (("--journal", "j", "--journal-fsync", "soon"), "Pass always, never, or a time"),
        (("--prefix", "jobs"), "Cannot combine --prefix with --engine local"),
        (("--engine", "spark", "--brokers", "2"), "brokertwin.placement has the job's brokers"),
        (("--engine", "spark", "--journal", "file"), "the checkpoint has the job's state"),
        (
            ("--control-listen", "0", "--journal", "file"),
            "Cannot combine --journal with --control",
        ),
        (
            ("--control-listen", "0", "--cluster", "shop"),
            "Cannot combine --cluster with --control",
        ),
        (
            ("--control-listen", "0", "--store-passwords", "file"),
            "Cannot combine --store-passwords with --control",
        ),
        (("--control-listen", "port"), "Invalid value of --control-listen: 'port'"),
        (("--security-protocol", "SASL_PLAINTEXT"), "requires --credentials"),
        (
            (
                *("--security-protocol", "SSL", "--set", "ssl.keystore.type=BKS"),
                *("--set", "ssl.keystore.location=/dev/null"),
            ),
            "Unknown ssl.keystore.type BKS.\nUse one of: PEM, PKCS12, JKS.",
        ),
    ],
)
def test_invalid_options_are_refused_in_one_line(words: tuple[str, ...], text: str) -> None:
    done = brokertwin("gateway", *words)
    assert done.returncode == 2
    assert text in done.stderr
    assert "Traceback" not in done.stderr
