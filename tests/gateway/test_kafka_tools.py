"""Kafka's own command-line tools, from its jars, against the gateway."""

import subprocess
from collections.abc import Callable, Iterator

import pytest
from support.gateways import running_gateway

from brokerstream.streaming import jars
from brokerstream.streaming.java import java_executable
from brokerstream.streaming.settings import default_home

TIMEOUT_S = 60
LINES = [f"line {number}" for number in range(200)]

Tool = Callable[..., str]


@pytest.fixture(scope="module")
def tool() -> Iterator[Tool]:
    """Runs a tool by the end of its class's name; gives back what it prints."""
    binding = ("org.apache.logging.log4j", "log4j-slf4j-impl", jars.LOG4J_VERSION)
    wanted = jars.JarSet("org.apache.kafka", "kafka-tools", jars.KAFKA_VERSION, also=(binding,))
    class_path = ":".join(str(jar) for jar in jars.fetch(wanted, default_home()))
    java = [java_executable(), "-XX:TieredStopAtLevel=1", "-Xmx128m", "-cp", class_path]
    with running_gateway() as running:

        def run(name: str, *words: str, text: str = "") -> str:
            command = [*java, f"org.apache.kafka.tools.{name}"]
            command += ["--bootstrap-server", running.bootstrap, *words]
            done = subprocess.run(
                command, input=text, capture_output=True, text=True, timeout=TIMEOUT_S
            )
            assert done.returncode == 0, done.stdout + done.stderr
            return done.stdout

        yield run


@pytest.mark.kafka
def test_topics_are_created_listed_grown_and_deleted(tool: Tool) -> None:
    created = tool("TopicCommand", "--create", "--topic", "made", "--partitions", "2")
    assert "Created topic made." in created
    tool("TopicCommand", "--alter", "--topic", "made", "--partitions", "3")
    assert tool("GetOffsetShell", "--topic", "made").split() == ["made:0:0", "made:1:0", "made:2:0"]
    tool("TopicCommand", "--delete", "--topic", "made")
    assert "made" not in tool("TopicCommand", "--list").split()


@pytest.mark.kafka
def test_what_the_console_producer_sends_the_console_consumer_prints(tool: Tool) -> None:
    tool("TopicCommand", "--create", "--topic", "console", "--partitions", "1")
    tool("ConsoleProducer", "--topic", "console", text="\n".join(LINES) + "\n")
    printed = tool(
        "consumer.ConsoleConsumer",
        *("--topic", "console", "--partition", "0", "--offset", "earliest"),
        *("--max-messages", str(len(LINES))),
    )
    assert printed.splitlines() == LINES
    assert tool("GetOffsetShell", "--topic", "console").split() == [f"console:0:{len(LINES)}"]
