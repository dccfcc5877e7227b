"""Kafka's command-line tools, run from its jars without an installation."""

import difflib
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from brokertwin.errors import UserError
from brokertwin.kafka_io import jars
from brokertwin.kafka_io.java import java_executable

PACKAGE = "org.apache.kafka.tools"
CLASSES = {
    "kafka-acls": "AclCommand",
    "kafka-broker-api-versions": "BrokerApiVersionsCommand",
    "kafka-client-metrics": "ClientMetricsCommand",
    "kafka-cluster": "ClusterTool",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-console-consumer": "consumer.ConsoleConsumer",
    "kafka-console-producer": "ConsoleProducer",
    "kafka-console-share-consumer": "consumer.ConsoleShareConsumer",
    "kafka-consumer-groups": "consumer.group.ConsumerGroupCommand",
    "kafka-consumer-perf-test": "ConsumerPerformance",
    "kafka-delegation-tokens": "DelegationTokenCommand",
    "kafka-delete-records": "DeleteRecordsCommand",
    "kafka-dump-log": "DumpLogSegments",
    "kafka-e2e-latency": "EndToEndLatency",
    "kafka-features": "FeatureCommand",
    "kafka-get-offsets": "GetOffsetShell",
    "kafka-groups": "GroupsCommand",
    "kafka-jmx": "JmxTool",
    "kafka-leader-election": "LeaderElectionCommand",
    "kafka-log-dirs": "LogDirsCommand",
    "kafka-metadata-quorum": "MetadataQuorumCommand",
    "kafka-producer-perf-test": "ProducerPerformance",
    "kafka-reassign-partitions": "reassign.ReassignPartitionsCommand",
    "kafka-replica-verification": "ReplicaVerificationTool",
    "kafka-share-groups": "consumer.group.ShareGroupCommand",
    "kafka-streams-application-reset": "StreamsResetter",
    "kafka-streams-groups": "streams.StreamsGroupCommand",
    "kafka-topics": "TopicCommand",
    "kafka-transactions": "TransactionsCommand",
    "kafka-verifiable-consumer": "VerifiableConsumer",
    "kafka-verifiable-producer": "VerifiableProducer",
}
"""Script in Kafka's `bin` to its class, in `PACKAGE` or with its own package."""


def class_of(name: str) -> str:
    """Return the class of a tool, named with or without `kafka-` and `.sh`.

    Raises:
        UserError: unknown tool.
    """
    plain = name.removesuffix(".sh")
    class_name = CLASSES.get(plain) or CLASSES.get(f"kafka-{plain}")
    if class_name is None:
        near = difflib.get_close_matches(plain, CLASSES, 1)
        hint = f"Did you mean {near[0]}?" if near else "Without a name all are listed."
        raise UserError(f"Kafka has no tool {name}.", hint)
    return class_name if class_name.startswith("kafka.") else f"{PACKAGE}.{class_name}"


def run(
    name: str,
    words: Sequence[str],
    jars_home: Path,
    ivy_settings: Path | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> int:
    """Run a tool with this process's standard streams; return its exit code.

    Args:
        name: name of the tool.
        words: its arguments.
        jars_home: the directory of `Settings.home`, with the jars.
        ivy_settings: an Ivy settings file, for a mirror.
        say: called before slow steps.

    Raises:
        UserError: unknown tool, no Java, or the jars cannot be downloaded.
    """
    class_name = class_of(name)
    sets = [jars.tools_jars()]
    sets += [jars.kafka_jars()] if class_name.startswith("kafka.") else []
    found = {
        jar.name: jar for each in sets for jar in jars.fetch(each, jars_home, ivy_settings, say)
    }  # SLF4J warns about a binding that is there twice
    path = ":".join(map(str, found.values()))
    command = [java_executable(), "-XX:TieredStopAtLevel=1", "-Xmx256m", "-cp", path, class_name]
    with subprocess.Popen([*command, *words]) as tool:
        try:
            return tool.wait()
        except KeyboardInterrupt:  # the tool received the signal, too
            return tool.wait()
