"""Kafka's tools for leaders and replicas, against a gateway of three brokers."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from brokertwin.gateway.admin import control
from brokertwin.gateway.admin.control import Control
from brokertwin.gateway.edge_fields import Address
from brokertwin.gateway.engine.local_engine import LocalEngine
from brokertwin.state.replication.throttles import Side
from tests.support.batches import batch
from tests.support.gateways import Client, Running, running_gateway
from tests.support.kafka_clusters import kafka_cluster
from tests.support.kafka_tools import PACKAGE, Printed, ToolProcess
from tests.support.patience import wait_until

BROKERS = (1, 2, 3)
Tool = Callable[..., str]
REASSIGN = "reassign.ReassignPartitionsCommand"


@pytest.fixture(scope="module")
def gateway() -> Iterator[Running]:
    taking = partial(LocalEngine, may_intervene=True)
    with running_gateway(WINDOW, brokers=3, engine_type=taking) as found:  # type: ignore[arg-type]
        yield found


@pytest.fixture(scope="module")
def java() -> Iterator[ToolProcess]:
    """Return the runner of Java tools."""
    with ToolProcess() as process:
        yield process


@pytest.fixture(scope="module")
def tool(gateway: Running, java: ToolProcess) -> Tool:
    """Return a function that runs a tool against the gateway."""
    addresses = [gateway.addresses[broker] for broker in BROKERS]
    return partial(well_ended, java, ",".join(f"{each.host}:{each.port}" for each in addresses))


def run(java: ToolProcess, bootstrap: str, name: str, *words: str) -> Printed:
    """Run a tool by the end of its class name."""
    return java.run(f"{PACKAGE}.{name}", "--bootstrap-server", bootstrap, *words)


def well_ended(java: ToolProcess, bootstrap: str, name: str, *words: str) -> str:
    """Return the output of a tool that must succeed."""
    printed = run(java, bootstrap, name, *words)
    assert printed.status == 0, printed
    return printed.out


@pytest.fixture(scope="module")
def do(gateway: Running, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Any]]:
    """Return a function that stops and starts brokers."""
    path = tmp_path_factory.mktemp("control") / "socket"
    made = Control(gateway.engine, path)
    gateway.run(made.open())
    yield lambda kind, broker: control.ask(path, ask=kind, broker=broker)
    gateway.run(made.close())


def create(gateway: Running, name: str, *replicas: list[int]) -> None:
    """Create a topic with these replicas by partition, and write a batch to each."""
    assignments = [
        {"partitionIndex": number, "brokerIds": each} for number, each in enumerate(replicas)
    ]
    topic = {"name": name, "numPartitions": -1, "replicationFactor": -1}
    with gateway.client() as client:
        body = {"topics": [{**topic, "assignments": assignments}], "timeoutMs": 30_000}
        response = client.call("CREATE_TOPICS", 7, body)
        assert response["topics"][0]["errorCode"] == 0
    for number, each in enumerate(replicas):
        with gateway.client(each[0]) as client:
            data = [{"index": number, "records": batch(b"a", b"b")}]
            topics = [{"name": name, "partitionData": data}]
            body = {"acks": -1, "timeoutMs": 30_000, "topicData": topics}
            response = client.call("PRODUCE", 9, body, transactionalId=None)
            assert response["responses"][0]["partitionResponses"][0]["errorCode"] == 0


def described(tool: Tool, name: str, *words: str) -> list[dict[str, str]]:
    """Return the partitions of a topic as kafka-topics prints them."""
    lines = tool("TopicCommand", "--describe", "--topic", name, *words).splitlines()
    found = [line.strip().split("\t") for line in lines if "Leader:" in line]
    return [dict(field.split(": ", 1) for field in line if ": " in field) for line in found]


def plan(path: Path, name: str, **replicas: list[int]) -> str:
    """Write a reassignment file; `p0` are the replicas of partition 0."""
    partitions = [
        {"topic": name, "partition": int(number[1:]), "replicas": each}
        for number, each in replicas.items()
    ]
    path.write_text(json.dumps({"version": 1, "partitions": partitions}))
    return str(path)


@pytest.mark.kafka
def test_under_replicated_partitions_and_the_preferred_leader(
    gateway: Running, java: ToolProcess, tool: Tool, do: Callable[..., Any]
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
    failed = run(java, bootstrap, "LeaderElectionCommand", *words)
    assert failed.status != 0
    assert "PreferredLeaderNotAvailableException" in failed.out + failed.err
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


HELD, SLOW, FAST = 1, 100, 100_000_000
"""Throttles in bytes a second."""

WINDOW = {"replication.quota.window.size.seconds": "3600"}
"""A window of an hour: one batch exceeds SLOW, so a slow move lasts until it was inspected.

Windows of a second would each let something through.
"""

Send = Callable[[int], AbstractContextManager[Client]]
"""A function that opens a connection to a broker."""


def everywhere(send: Send, holds: Callable[[Client], object], what: str) -> None:
    """Wait until every broker returns it; tools use any of them."""
    for broker in BROKERS:
        with send(broker) as client:
            wait_until(partial(holds, client), what)


def fill(send: Send, batches: int) -> None:
    """Write that many batches of half a MiB to `slow`, which broker 1 leads."""
    with send(1) as client:
        for _ in range(batches):
            wait_until(partial(is_appended, client), "the batch is taken")


def is_appended(client: Client) -> bool:
    data = [{"index": 0, "records": batch(b"x" * 2**19)}]
    topics = [{"name": "slow", "partitionData": data}]
    body = {"acks": -1, "timeoutMs": 30_000, "topicData": topics}
    response = client.call("PRODUCE", 9, {"transactionalId": None, **body})
    return bool(response["responses"][0]["partitionResponses"][0]["errorCode"] == 0)


def has_replicas(replicas: list[int], in_sync: list[int], client: Client) -> bool:
    (topic,) = client.call("METADATA", 12, name="slow")["topics"]
    outputs = [(each["replicaNodes"], sorted(each["isrNodes"])) for each in topic["partitions"]]
    return outputs == [(replicas, in_sync)]


def hold_everything(send: Send) -> None:
    """Throttle in advance: a broker learns of a move before the move's throttle."""
    alter(send, 1, {"resourceType": 2, "resourceName": "slow", "configs": changed("replicas", "*")})
    for broker in BROKERS:
        own = {"resourceType": 4, "resourceName": str(broker)}
        alter(send, broker, {**own, "configs": changed("rate", str(HELD))})
    described_throttles(send, HELD)


def alter(send: Send, broker: int, resource: dict[str, Any]) -> None:
    with send(broker) as client:
        body = {"resources": [resource], "validateOnly": False}
        (response,) = client.call("INCREMENTAL_ALTER_CONFIGS", 1, body)["responses"]
    assert response["errorCode"] == 0, response


def changed(what: str, value: str) -> list[dict[str, Any]]:
    names = [f"{side}.replication.throttled.{what}" for side in Side]
    return [{"name": name, "configOperation": 0, "value": value} for name in names]


def described_throttles(send: Send, rate: int | None) -> list[Any]:
    result: list[Any] = []
    for broker in BROKERS:
        with send(broker) as client:
            wait_until(partial(is_throttled, client, broker, rate), f"{broker} has {rate}")
            result += throttles_of(client, broker)
    return result


def size_as(replica: int, client: Client) -> int:
    """Return how many bytes a client receives that fetches as a replica."""
    part = {"partition": 0, "fetchOffset": 0, "partitionMaxBytes": 2**20}
    topics = [{"topic": "slow", "partitions": [part]}]
    body = {"replicaId": replica, "maxBytes": 2**20, "sessionEpoch": -1, "topics": topics}
    response = client.call("FETCH", 12, {**body, "maxWaitMs": 0, "minBytes": 0})
    (partition,) = response["responses"][0]["partitions"]
    assert partition["errorCode"] == 0, partition
    return len(partition["records"] or "")


def is_throttled(client: Client, broker: int, rate: int | None) -> bool:
    of_broker, of_topic = (
        {each["value"] for each in one["configs"]} for one in throttles_of(client, broker)
    )
    if rate is None:
        return not of_broker and of_topic == {""}
    return of_broker == {str(rate)} and "" not in of_topic


def throttles_of(client: Client, broker: int) -> list[Any]:
    keys = [
        f"{side}.replication.throttled.{each}" for side in Side for each in ("rate", "replicas")
    ]
    resources = [
        {"resourceType": kind, "resourceName": resource, "configurationKeys": keys}
        for kind, resource in ((4, str(broker)), (2, "slow"))
    ]
    body = {"resources": resources, "includeSynonyms": True}
    return list(client.call("DESCRIBE_CONFIGS", 4, body)["results"])


def throttled_moves(tool: Tool, send: Send, path: Path) -> list[Any]:
    """Return outputs and descriptions of a throttled, then unthrottled, reassignment."""
    topic = {"name": "slow", "numPartitions": -1, "replicationFactor": -1}
    topic["assignments"] = [{"partitionIndex": 0, "brokerIds": [1, 2]}]
    with send(1) as client:
        client.call("CREATE_TOPICS", 7, topics=[topic], timeoutMs=30_000)
    everywhere(send, partial(has_replicas, [1, 2], [1, 2]), "the topic is led")
    fill(send, 4)
    hold_everything(send)
    words = ("--reassignment-json-file", plan(path, "slow", p0=[3, 2]))
    outputs: list[Any] = [tool(REASSIGN, *words, "--execute", "--throttle", str(SLOW))]
    everywhere(send, partial(has_replicas, [3, 2, 1], [1, 2]), "the move is under way")
    outputs += [tool(REASSIGN, *words, "--verify"), described_throttles(send, SLOW)]
    assert "slow-0 is still in progress" in outputs[1]
    with send(1) as client:
        wait_until(lambda: size_as(3, client) == 0, "who fetches as the replica gets nothing")
        outputs.append([size_as(replica, client) > 2**19 for replica in (-1, 2, 3)])
    outputs.append(tool(REASSIGN, "--list"))
    faster = ("--execute", "--additional", "--throttle", str(FAST))
    outputs.append(tool(REASSIGN, *words, *faster))
    everywhere(send, partial(has_replicas, [3, 2], [2, 3]), "the move is over")
    outputs += [tool(REASSIGN, *words, "--verify"), described_throttles(send, None)]
    assert "slow-0 is completed" in outputs[-2]
    return outputs


@pytest.mark.kafka
def test_throttled_reassignment_is_slow_and_prints_like_a_real_cluster(
    gateway: Running, java: ToolProcess, tool: Tool, tmp_path: Path
) -> None:
    ours = throttled_moves(tool, gateway.client, tmp_path / "ours.json")
    with kafka_cluster(tmp_path / "kafka", 3, WINDOW) as nodes:
        addresses = {broker: nodes[broker][1] for broker in BROKERS}

        def send(broker: int) -> Client:
            host, _, port = addresses[broker].rpartition(":")
            return Client(Address(host, int(port)))

        of_kafka = partial(well_ended, java, ",".join(addresses.values()))
        real = throttled_moves(of_kafka, send, tmp_path / "real.json")
    for found, expected in zip(ours, real, strict=True):
        assert without_disks(found) == without_disks(expected)


def without_disks(outputs: Any) -> Any:
    return re.sub(r'"log_dirs":\[[^]]*\]', "", outputs) if isinstance(outputs, str) else outputs


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
def test_hanging_transactions_are_searched(gateway: Running, tool: Tool) -> None:
    create(gateway, "quiet", [1, 2])
    for words in (("--topic", "quiet"), ("--broker-id", "1")):
        printed = tool("TransactionsCommand", "find-hanging", *words)
        assert printed.split() == [
            *("Topic", "Partition", "ProducerId", "ProducerEpoch", "CoordinatorEpoch"),
            *("StartOffset", "LastTimestamp", "Duration(min)"),
        ]
