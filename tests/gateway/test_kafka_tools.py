"""Kafka's command-line tools, from its jars, against the gateway."""

from collections.abc import Callable, Iterator
from functools import partial

import pytest

from tests.support.gateways import Running, running_gateway
from tests.support.kafka_tools import run_tool

LINES = [f"line {number}" for number in range(200)]

Tool = Callable[..., str]


@pytest.fixture(scope="module")
def gateway() -> Iterator[Running]:
    """A gateway whose share members outlive the start of several tools."""
    timeouts = ("group.share.session.timeout.ms", "group.share.max.session.timeout.ms")
    with running_gateway(dict.fromkeys(timeouts, "600000")) as running:
        yield running


@pytest.fixture(scope="module")
def bootstrap(gateway: Running) -> str:
    return gateway.bootstrap


@pytest.fixture(scope="module")
def tool(bootstrap: str) -> Tool:
    """Return a function that runs a tool against the gateway."""
    return partial(run_tool, bootstrap)


@pytest.mark.kafka
def test_topics_are_created_listed_grown_and_deleted(tool: Tool) -> None:
    created = tool("TopicCommand", "--create", "--topic", "made", "--partitions", "2")
    assert "Created topic made." in created
    tool("TopicCommand", "--alter", "--topic", "made", "--partitions", "3")
    assert tool("GetOffsetShell", "--topic", "made").split() == ["made:0:0", "made:1:0", "made:2:0"]
    tool("TopicCommand", "--delete", "--topic", "made")
    assert "made" not in tool("TopicCommand", "--list").split()


@pytest.mark.kafka
def test_topics_and_their_settings_are_described(tool: Tool) -> None:
    words = ("--topic", "shown", "--partitions", "2", "--config", "cleanup.policy=compact")
    tool("TopicCommand", "--create", *words, "--config", "retention.ms=60000")
    described = tool("TopicCommand", "--describe", "--topic", "shown").splitlines()
    topic, *partitions = [line.split("\t") for line in described]
    assert topic[0] == "Topic: shown"
    assert topic[2:4] == ["PartitionCount: 2", "ReplicationFactor: 1"]
    settings = topic[4].removeprefix("Configs: ").split(",")
    assert {"cleanup.policy=compact", "retention.ms=60000"} <= set(settings)
    actual = [line[1:6] for line in partitions]
    assert actual == [
        ["Topic: shown", f"Partition: {number}", "Leader: 1", "Replicas: 1", "Isr: 1"]
        for number in range(2)
    ]


@pytest.mark.kafka
def test_console_producer_and_consumer_exchange_records(tool: Tool) -> None:
    tool("TopicCommand", "--create", "--topic", "console", "--partitions", "1")
    tool("ConsoleProducer", "--topic", "console", text="\n".join(LINES) + "\n")
    printed = tool(
        "consumer.ConsoleConsumer",
        *("--topic", "console", "--partition", "0", "--offset", "earliest"),
        *("--max-messages", str(len(LINES))),
    )
    assert printed.splitlines() == LINES
    assert tool("GetOffsetShell", "--topic", "console").split() == [f"console:0:{len(LINES)}"]


@pytest.mark.kafka
def test_console_consumer_reads_in_a_consumer_group(tool: Tool) -> None:
    tool("TopicCommand", "--create", "--topic", "new-protocol", "--partitions", "2")
    tool("ConsoleProducer", "--topic", "new-protocol", text="\n".join(LINES) + "\n")
    words = ("--topic", "new-protocol", "--from-beginning", "--max-messages", str(len(LINES)))
    protocol = ("--command-property", "group.protocol=consumer", "--group", "new")
    printed = tool("consumer.ConsoleConsumer", *words, *protocol)
    assert sorted(printed.splitlines()) == sorted(LINES)
    groups = tool("consumer.group.ConsumerGroupCommand", "--describe", "--group", "new", "--state")
    assert "Empty" in groups
    assert "uniform" in groups


@pytest.mark.kafka
def test_features_are_described_lowered_and_raised(bootstrap: str) -> None:
    tool = partial(run_tool, bootstrap, "FeatureCommand")

    def level(of: str) -> str:
        lines = [line.split() for line in tool("describe").splitlines()]
        words = next(each for each in lines if each[:2] == ["Feature:", of])
        return words[words.index("FinalizedVersionLevel:") + 1]

    assert level("transaction.version") == "2"
    assert "downgraded to 1" in tool("downgrade", "--feature", "transaction.version=1")
    assert level("transaction.version") == "1"
    assert "upgraded to 2" in tool("upgrade", "--feature", "transaction.version=2")


@pytest.mark.kafka
def test_quorum_is_the_single_controller(bootstrap: str) -> None:
    printed = run_tool(bootstrap, "MetadataQuorumCommand", "describe", "--status")
    status = {line.split(":")[0]: line.split(":", 1)[1].strip() for line in printed.splitlines()}
    assert (status["LeaderId"], status["LeaderEpoch"], status["MaxFollowerLag"]) == ("1", "1", "0")
    port = bootstrap.rpartition(":")[2]
    assert f":{port}" in status["CurrentVoters"]


def _offsets(tool: Callable[..., str]) -> set[tuple[str, ...]]:
    """Return partition, start offset and lag of all partitions of the group `workers`."""
    lines = tool("--describe", "--group", "workers").splitlines()
    shown = [line.split() for line in lines if line.startswith("workers")]
    return {(each[2], *each[-2:]) for each in shown}


@pytest.mark.kafka
def test_share_groups_are_listed_described_and_deleted(gateway: Running) -> None:
    tool = partial(run_tool, gateway.bootstrap, "consumer.group.ShareGroupCommand")
    run_tool(
        gateway.bootstrap, "TopicCommand", "--create", "--topic", "shared", "--partitions", "2"
    )
    fields = {"groupId": "workers", "memberId": "worker-1", "rackId": None}
    request = {"keyType": 0, "coordinatorKeys": ["workers"]}
    with gateway.client() as client:
        while client.call("FIND_COORDINATOR", 6, request)["coordinators"][0]["errorCode"]:
            pass
        for _ in range(2):
            body = {**fields, "memberEpoch": 0, "subscribedTopicNames": ["shared"]}
            assert client.call("SHARE_GROUP_HEARTBEAT", 1, body)["errorCode"] == 0
        assert tool("--list").split() == ["workers"]
        members = tool("--describe", "--group", "workers", "--members").splitlines()
        (shown,) = [line.split() for line in members if line.startswith("workers")]
        assert shown[:2] == ["workers", "worker-1"]
        body = {**fields, "memberEpoch": -1, "subscribedTopicNames": None}
        assert client.call("SHARE_GROUP_HEARTBEAT", 1, body)["errorCode"] == 0
    state = tool("--describe", "--group", "workers", "--state").splitlines()
    (shown,) = [line.split() for line in state if line.startswith("workers")]
    assert shown[-2:] == ["Empty", "0"]
    reset = ["--reset-offsets", "--group", "workers", "--topic", "shared", "--to-earliest"]
    assert tool(*reset, "--execute").count("shared") == 2
    assert _offsets(tool) == {("0", "0", "0"), ("1", "0", "0")}
    assert "Successful" in tool("--delete-offsets", "--group", "workers", "--topic", "shared")
    assert _offsets(tool) == set()
    assert "successful" in tool("--delete", "--group", "workers")
    assert tool("--list").split() == []


@pytest.mark.kafka
def test_console_share_consumer_reads_unaccepted_records(gateway: Running) -> None:
    """One consumer releases some, another accepts all; then none remain."""
    tool = partial(run_tool, gateway.bootstrap)
    tool("TopicCommand", "--create", "--topic", "jobs", "--partitions", "2")
    tool("ConsoleProducer", "--topic", "jobs", text="\n".join(LINES) + "\n")
    earliest = {"name": "share.auto.offset.reset", "configOperation": 0, "value": "earliest"}
    group = {"resourceType": 32, "resourceName": "crew", "configs": [earliest]}
    with gateway.client() as client:
        body = {"resources": [group], "validateOnly": False}
        assert client.call("INCREMENTAL_ALTER_CONFIGS", 1, body)["responses"][0]["errorCode"] == 0
    words = ("--topic", "jobs", "--group", "crew", "--max-messages", str(len(LINES)))
    read = partial(tool, "consumer.ConsoleShareConsumer", *words)
    assert sorted(read("--release").splitlines()) == sorted(LINES)
    assert sorted(read().splitlines()) == sorted(LINES)
    assert not set(LINES) & set(read("--timeout-ms", "3000").splitlines())
