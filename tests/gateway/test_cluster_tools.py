"""Kafka's own tools for leaders and replicas, from its jars, against a gateway of three brokers."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from brokerstream.gateway import control
from brokerstream.gateway.answers import Address
from brokerstream.gateway.control import Control
from brokerstream.gateway.local_engine import LocalEngine
from brokerstream.state.replication.throttles import Side
from tests.support.batches import batch
from tests.support.gateways import Client, Running, running_gateway
from tests.support.kafka_clusters import kafka_cluster
from tests.support.kafka_tools import run_tool, try_tool
from tests.support.patience import wait_until

BROKERS = (1, 2, 3)
Tool = Callable[..., str]
REASSIGN = "reassign.ReassignPartitionsCommand"


@pytest.fixture(scope="module")
def gateway() -> Iterator[Running]:
    taking = partial(LocalEngine, may_intervene=True)
    with running_gateway(brokers=3, engine_type=taking) as found:  # type: ignore[arg-type]
        yield found


@pytest.fixture(scope="module")
def tool(gateway: Running) -> Tool:
    """Runs a tool against the gateway."""
    addresses = [gateway.addresses[broker] for broker in BROKERS]
    return partial(run_tool, ",".join(f"{each.host}:{each.port}" for each in addresses))


@pytest.fixture(scope="module")
def do(gateway: Running, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Any]]:
    """Stops and starts brokers."""
    path = tmp_path_factory.mktemp("control") / "socket"
    made = Control(gateway.engine, path)
    gateway.run(made.open())
    yield lambda kind, broker: control.ask(path, ask=kind, broker=broker)
    gateway.run(made.close())


def create(gateway: Running, name: str, *replicas: list[int]) -> None:
    """A topic with these replicas for its partitions, and a batch in each."""
    assignments = [
        {"partitionIndex": number, "brokerIds": each} for number, each in enumerate(replicas)
    ]
    topic = {"name": name, "numPartitions": -1, "replicationFactor": -1}
    with gateway.client() as client:
        body = {"topics": [{**topic, "assignments": assignments}], "timeoutMs": 30_000}
        answer = client.call("CREATE_TOPICS", 7, body)
        assert answer["topics"][0]["errorCode"] == 0
    for number, each in enumerate(replicas):
        with gateway.client(each[0]) as client:
            data = [{"index": number, "records": batch(b"a", b"b")}]
            topics = [{"name": name, "partitionData": data}]
            body = {"acks": -1, "timeoutMs": 30_000, "topicData": topics}
            answer = client.call("PRODUCE", 9, {"transactionalId": None, **body})
            assert answer["responses"][0]["partitionResponses"][0]["errorCode"] == 0


def described(tool: Tool, name: str, *words: str) -> list[dict[str, str]]:
    """The partitions of a topic as kafka-topics describes them."""
    lines = tool("TopicCommand", "--describe", "--topic", name, *words).splitlines()
    found = [line.strip().split("\t") for line in lines if "Leader:" in line]
    return [dict(field.split(": ", 1) for field in line if ": " in field) for line in found]


def plan(path: Path, name: str, **replicas: list[int]) -> str:
    """The file of a reassignment; `p0` are the replicas of partition 0."""
    partitions = [
        {"topic": name, "partition": int(number[1:]), "replicas": each}
        for number, each in replicas.items()
    ]
    path.write_text(json.dumps({"version": 1, "partitions": partitions}))
    return str(path)


@pytest.mark.kafka
def test_under_replicated_partitions_and_the_preferred_leader(
    gateway: Running, tool: Tool, do: Callable[..., Any]
) -> None:
    create(gateway, "elected", [2, 1, 3], [1, 3, 2])
    assert described(tool, "elected", "--under-replicated-partitions") == []
    do("stop-broker", 2)
    under = described(tool, "elected", "--under-replicated-partitions")
    assert [(each["Partition"], each["Leader"], each["Isr"]) for each in under] == [
        ("0", "1", "1,3"),
        ("1", "1", "1,3"),
    ]
    words = ("--election-type", "preferred", "--topic", "elected", "--partition", "0")
    bootstrap = f"localhost:{gateway.addresses[1].port}"
    failed = try_tool(bootstrap, "LeaderElectionCommand", *words)
    assert failed.returncode != 0
    assert "PreferredLeaderNotAvailableException" in failed.stdout + failed.stderr
    do("start-broker", 2)
    assert described(tool, "elected", "--under-replicated-partitions") == []
    printed = tool("LeaderElectionCommand", *words)
    assert "Successfully completed leader election (PREFERRED)" in printed
    assert [each["Leader"] for each in described(tool, "elected")] == ["2", "1"]
    assert "Valid replica already elected" in tool("LeaderElectionCommand", *words)
    everywhere = ("--election-type", "preferred", "--all-topic-partitions")
    tool("LeaderElectionCommand", *everywhere)
    assert [each["Leader"] for each in described(tool, "elected")] == ["2", "1"]


@pytest.mark.kafka
def test_an_unclean_election(gateway: Running, tool: Tool, do: Callable[..., Any]) -> None:
    create(gateway, "unclean", [3, 2])
    do("isolate-broker", 2)
    do("stop-broker", 2)
    do("stop-broker", 3)
    do("rejoin-broker", 2)
    do("start-broker", 2)
    assert [each["Leader"] for each in described(tool, "unclean")] == ["none"]
    words = ("--election-type", "unclean", "--topic", "unclean", "--partition", "0")
    assert "Successfully completed leader election (UNCLEAN)" in tool(
        "LeaderElectionCommand", *words
    )
    assert [each["Leader"] for each in described(tool, "unclean")] == ["2"]
    do("start-broker", 3)
    assert described(tool, "unclean", "--under-replicated-partitions") == []


@pytest.mark.kafka
def test_partitions_are_reassigned_verified_and_cancelled(
    gateway: Running, tool: Tool, do: Callable[..., Any], tmp_path: Path
) -> None:
    create(gateway, "moved", [1, 2], [2, 1])
    file = plan(tmp_path / "moves.json", "moved", p0=[3, 1], p1=[2, 3])
    words = ("--reassignment-json-file", file)
    started = tool(REASSIGN, *words, "--execute")
    assert "Successfully started partition reassignments for moved-0,moved-1" in started
    verified = tool(REASSIGN, *words, "--verify")
    assert "Reassignment of partition moved-0 is completed." in verified
    assert "Clearing topic-level throttles on topic moved" in verified
    assert [(e["Leader"], e["Replicas"]) for e in described(tool, "moved")] == [
        ("1", "3,1"),
        ("2", "2,3"),
    ]
    do("isolate-broker", 1)
    back = plan(tmp_path / "back.json", "moved", p1=[1, 2])
    words = ("--reassignment-json-file", back)
    tool(REASSIGN, *words, "--execute")
    assert "moved-1 is still in progress" in tool(REASSIGN, *words, "--verify")
    listed = tool(REASSIGN, "--list")
    assert "moved-1: replicas: 1,2,3. adding: 1. removing: 3." in listed
    cancelled = tool(REASSIGN, *words, "--cancel")
    assert "Successfully cancelled partition reassignment for: moved-1" in cancelled
    do("rejoin-broker", 1)
    assert "No partition reassignments found." in tool(REASSIGN, "--list")
    assert [each["Replicas"] for each in described(tool, "moved")] == ["3,1", "2,3"]


SLOW, FAST = 100_000, 100_000_000
"""Throttles in bytes a second: a fetch brings a MiB at most, whatever the rate."""


def fill(ask: Callable[[int], AbstractContextManager[Client]], name: str, mebibytes: int) -> None:
    """That many MiB in partition 0, which broker 1 leads, or is about to."""
    with ask(1) as client:
        for _ in range(2 * mebibytes):
            wait_until(partial(is_appended, client, name), "the batch is taken")


def is_appended(client: Client, name: str) -> bool:
    data = [{"index": 0, "records": batch(b"x" * 2**19)}]
    topics = [{"name": name, "partitionData": data}]
    body = {"acks": -1, "timeoutMs": 30_000, "topicData": topics}
    answer = client.call("PRODUCE", 9, {"transactionalId": None, **body})
    return bool(answer["responses"][0]["partitionResponses"][0]["errorCode"] == 0)


def throttles_of(ask: Callable[[int], AbstractContextManager[Client]], name: str) -> list[Any]:
    """The throttles that brokers and a topic are described with."""
    keys = [f"{side}.replication.throttled.{e}" for side in Side for e in ("rate", "replicas")]
    found = []
    for broker in BROKERS:
        for kind, resource in ((4, str(broker)), (2, name)):
            wanted = {"resourceType": kind, "resourceName": resource, "configurationKeys": keys}
            with ask(broker) as client:
                body = {"resources": [wanted], "includeSynonyms": True}
                found += client.call("DESCRIBE_CONFIGS", 4, body)["results"]
    return found


def throttled_moves(
    tool: Tool, ask: Callable[[int], AbstractContextManager[Client]], path: Path
) -> list[Any]:
    """What is printed and described of a reassignment that is slow, and then is not."""
    topic = {"name": "slow", "numPartitions": -1, "replicationFactor": -1}
    topic["assignments"] = [{"partitionIndex": 0, "brokerIds": [1, 2]}]
    with ask(1) as client:
        client.call("CREATE_TOPICS", 7, {"topics": [topic], "timeoutMs": 30_000})
        wait_until(partial(is_led, client), "the topic is led")
    fill(ask, "slow", 4)
    words = ("--reassignment-json-file", plan(path, "slow", p0=[3, 2]))
    said: list[Any] = [tool(REASSIGN, *words, "--execute", "--throttle", str(SLOW))]
    said += [tool(REASSIGN, *words, "--verify"), throttles_of(ask, "slow")]
    assert "slow-0 is still in progress" in said[1]
    said.append(tool(REASSIGN, "--list"))
    faster = ("--execute", "--additional", "--throttle", str(FAST))
    said.append(tool(REASSIGN, *words, *faster))
    with ask(1) as client:
        wait_until(partial(is_over, client), "no reassignment is under way")
    said += [tool(REASSIGN, *words, "--verify"), throttles_of(ask, "slow")]
    assert "slow-0 is completed" in said[-2]
    return said


def is_led(client: Client) -> bool:
    (found,) = client.call("METADATA", 12, {"topics": [{"name": "slow"}]})["topics"]
    return [sorted(each["isrNodes"]) for each in found["partitions"]] == [[1, 2]]


def is_over(client: Client) -> bool:
    body = {"timeoutMs": 1000, "topics": None}
    return client.call("LIST_PARTITION_REASSIGNMENTS", 0, body)["topics"] == []


@pytest.mark.kafka
def test_a_throttled_reassignment_is_slow_and_prints_what_a_real_cluster_has_it_print(
    gateway: Running, tool: Tool, tmp_path: Path
) -> None:
    ours = throttled_moves(tool, gateway.client, tmp_path / "ours.json")
    with kafka_cluster(tmp_path / "kafka", 3) as nodes:
        addresses = {broker: nodes[broker][1] for broker in BROKERS}

        def ask(broker: int) -> Client:
            host, _, port = addresses[broker].rpartition(":")
            return Client(Address(host, int(port)))

        of_kafka = partial(run_tool, ",".join(addresses.values()))
        real = throttled_moves(of_kafka, ask, tmp_path / "real.json")
    for found, expected in zip(ours, real, strict=True):
        assert without_disks(found) == without_disks(expected)


def without_disks(said: Any) -> Any:
    """What is printed, without where logs lie."""
    return re.sub(r'"log_dirs":\[[^]]*\]', "", said) if isinstance(said, str) else said


@pytest.mark.kafka
def test_log_directories_are_described(gateway: Running, tool: Tool) -> None:
    create(gateway, "sized", [1, 3])
    printed = tool("LogDirsCommand", "--describe", "--topic-list", "sized").splitlines()
    (line,) = [line for line in printed if line.startswith("{")]
    brokers = {each["broker"]: each["logDirs"] for each in json.loads(line)["brokers"]}
    assert set(brokers) == set(BROKERS)
    held = {broker: dirs[0]["partitions"] for broker, dirs in brokers.items()}
    assert held[2] == []
    assert held[1] == held[3]
    (partition,) = held[1]
    assert partition["partition"] == "sized-0"
    assert partition["size"] == len(batch(b"a", b"b"))


@pytest.mark.kafka
def test_hanging_transactions_are_looked_for(gateway: Running, tool: Tool) -> None:
    create(gateway, "quiet", [1, 2])
    for words in (("--topic", "quiet"), ("--broker-id", "1")):
        printed = tool("TransactionsCommand", "find-hanging", *words)
        assert printed.split() == [
            *("Topic", "Partition", "ProducerId", "ProducerEpoch", "CoordinatorEpoch"),
            *("StartOffset", "LastTimestamp", "Duration(min)"),
        ]
