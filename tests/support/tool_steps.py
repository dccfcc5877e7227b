"""Steps with Kafka's command-line tools at an empty cluster.

A step is a typed line without `--bootstrap-server`, or a client's action. `DIFFERENCES` are all
lines that differ at a gateway, with the reason.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import Consumer, Producer, TopicPartition

from brokertwin.gateway.edge_fields import Address
from tests.support.batches import START, numbered
from tests.support.gateways import Client, produce_body
from tests.support.patience import PATIENCE_S, wait_until

TOOLS = "org.apache.kafka.tools"
CLASSES = {
    "kafka-acls": f"{TOOLS}.AclCommand",
    "kafka-broker-api-versions": f"{TOOLS}.BrokerApiVersionsCommand",
    "kafka-client-metrics": f"{TOOLS}.ClientMetricsCommand",
    "kafka-cluster": f"{TOOLS}.ClusterTool",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-console-consumer": f"{TOOLS}.consumer.ConsoleConsumer",
    "kafka-console-producer": f"{TOOLS}.ConsoleProducer",
    "kafka-console-share-consumer": f"{TOOLS}.consumer.ConsoleShareConsumer",
    "kafka-consumer-groups": f"{TOOLS}.consumer.group.ConsumerGroupCommand",
    "kafka-consumer-perf-test": f"{TOOLS}.ConsumerPerformance",
    "kafka-delegation-tokens": f"{TOOLS}.DelegationTokenCommand",
    "kafka-delete-records": f"{TOOLS}.DeleteRecordsCommand",
    "kafka-e2e-latency": f"{TOOLS}.EndToEndLatency",
    "kafka-features": f"{TOOLS}.FeatureCommand",
    "kafka-get-offsets": f"{TOOLS}.GetOffsetShell",
    "kafka-groups": f"{TOOLS}.GroupsCommand",
    "kafka-leader-election": f"{TOOLS}.LeaderElectionCommand",
    "kafka-log-dirs": f"{TOOLS}.LogDirsCommand",
    "kafka-metadata-quorum": f"{TOOLS}.MetadataQuorumCommand",
    "kafka-producer-perf-test": f"{TOOLS}.ProducerPerformance",
    "kafka-reassign-partitions": f"{TOOLS}.reassign.ReassignPartitionsCommand",
    "kafka-share-groups": f"{TOOLS}.consumer.group.ShareGroupCommand",
    "kafka-streams-application-reset": f"{TOOLS}.StreamsResetter",
    "kafka-streams-groups": f"{TOOLS}.streams.StreamsGroupCommand",
    "kafka-topics": f"{TOOLS}.TopicCommand",
    "kafka-transactions": f"{TOOLS}.TransactionsCommand",
    "kafka-verifiable-consumer": f"{TOOLS}.VerifiableConsumer",
    "kafka-verifiable-producer": f"{TOOLS}.VerifiableProducer",
}
"""The tools' classes by the names of their scripts."""

SETTINGS = {
    "allow.everyone.if.no.acl.found": "true",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "transaction.partition.verification.enable": "false",
}
"""Settings of the brokers."""

FILES = {
    "delete.json": {"partitions": [{"topic": "orders", "partition": 0, "offset": 2}]},
    "move.json": {"partitions": [{"topic": "orders", "partition": 0, "replicas": [1]}]},
    "nowhere.json": {"partitions": [{"topic": "orders", "partition": 0, "replicas": [7]}]},
    "topics.json": {"topics": [{"topic": "orders"}]},
}
"""Files that steps name as {delete.json}."""

PAIRS = "".join(f"key-{number}:value-{number}\n" for number in range(20))
READ = "kafka-console-consumer --from-beginning"
ROWS = "kafka-console-consumer --offset earliest --timeout-ms 2000"
OFFSETS_READ = f"{TOOLS}.consumer.OffsetsMessageFormatter"
STATES_READ = f"{TOOLS}.consumer.TransactionLogMessageFormatter"
SHOWN = "--formatter-property print.key=true --formatter-property print.partition=true"


class Step(NamedTuple):
    """A line, the tool's input, and whether its output is unordered."""

    line: str
    text: str = ""
    is_ordered: bool = True


class Clients:
    """Clients that run while tools describe them."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self.hanging_from = -1
        self._producer: Producer | None = None
        self._consumers: list[Consumer] = []

    def begin_transaction(self) -> None:
        """One of `paying` is open, with a record in notes-0."""
        settings = {"bootstrap.servers": self._bootstrap, "transactional.id": "paying"}
        self._producer = Producer({**settings, "message.timeout.ms": 30_000})
        self._producer.init_transactions(PATIENCE_S)
        self._producer.begin_transaction()
        self._producer.produce("notes", b"paid", partition=0)
        assert self._producer.flush(PATIENCE_S) == 0

    def commit_transaction(self) -> None:
        """It ends; whoever comes next waits until its markers are written."""
        assert self._producer is not None
        self._producer.commit_transaction(PATIENCE_S)
        self._producer = None
        settings = {"bootstrap.servers": self._bootstrap, "transactional.id": "paying"}
        Producer(settings).init_transactions(PATIENCE_S)

    def leave_hanging(self) -> None:
        """A transaction in notes-0 of long ago that its coordinator knows nothing of."""
        request = {"transactionalId": "hung", "transactionTimeoutMs": 60_000}
        host, _, port = self._bootstrap.rpartition(":")
        found: dict[str, Any] = {}
        with Client(Address(host, int(port))) as client:

            def is_there() -> bool:
                found.update(client.call("FIND_COORDINATOR", 2, key="hung", keyType=1))
                return bool(found["errorCode"] == 0)

            wait_until(is_there, "there is a coordinator")
            metadata = client.call("METADATA", 12, name="notes")
        addresses = {e["nodeId"]: Address(e["host"], e["port"]) for e in metadata["brokers"]}
        (leader,) = [
            each["leaderId"]
            for each in metadata["topics"][0]["partitions"]
            if each["partitionIndex"] == 0
        ]
        with Client(addresses[found["nodeId"]]) as client:

            def is_known() -> bool:
                found.update(client.call("INIT_PRODUCER_ID", 4, request))
                return bool(found["errorCode"] == 0)

            wait_until(is_known, "the coordinator knows itself to be it")
        with Client(addresses[leader]) as client:
            ids = {"pid": found["producerId"], "epoch": found["producerEpoch"], "seq": 0}
            body = produce_body("notes", numbered(txn=True, time=START, **ids))
            response = client.call("PRODUCE", 9, body, transactionalId="hung")
            (partition,) = response["responses"][0]["partitionResponses"]
            assert partition["errorCode"] == 0, response
            self.hanging_from = partition["baseOffset"]

    def join(self) -> None:
        """A member in a group of each protocol has all partitions of `orders`."""
        for protocol in ("classic", "consumer"):
            settings = {"bootstrap.servers": self._bootstrap, "client.id": "worker"}
            group = {
                "group.id": f"{protocol}-workers",
                "group.protocol": protocol,
                "enable.auto.commit": False,
            }
            consumer = Consumer({**settings, **group, "auto.offset.reset": "earliest"})
            consumer.subscribe(["orders"])
            wait_until(lambda one=consumer: bool(one.poll(0.1) and one.assignment()), "a share")
            shares = [TopicPartition("orders", number, number + 1) for number in range(3)]
            consumer.commit(offsets=shares, asynchronous=False)
            self._consumers.append(consumer)

    def leave(self) -> None:
        for consumer in self._consumers:
            consumer.close()


Act = Callable[[Clients], None]


def line_of(step: Step, files: Mapping[str, Path], clients: Clients) -> str:
    line = step.line.replace("{hanging}", str(clients.hanging_from))
    for name, path in files.items():
        line = line.replace("{" + name + "}", str(path))
    return line


def write_files(directory: Path, files: Mapping[str, Any] = FILES) -> dict[str, Path]:
    result = {}
    for name, given in files.items():
        result[name] = directory / name
        result[name].write_text(json.dumps({"version": 1, **given}))
    return result


TOPICS: list[Step | Act] = [
    Step("kafka-topics --create --topic orders --partitions 3 --config retention.ms=3600000"),
    Step("kafka-topics --create --topic orders"),
    Step("kafka-topics --create --topic orders --if-not-exists"),
    Step("kafka-topics --create --topic wide --partitions 2 --replication-factor 2"),
    Step("kafka-topics --create --topic wide --replica-assignment 1,1:1"),
    Step("kafka-topics --create --topic notes --partitions 1"),
    Step("kafka-topics --create --topic a.b --config cleanup.policy=compact"),
    Step("kafka-topics --create --topic a_b"),
    Step("kafka-topics --create --topic 'not a topic'"),
    Step("kafka-topics --create --topic wrong --config retention.ms=soon"),
    Step("kafka-topics --create --topic wrong --config no.such=1"),
    Step("kafka-topics --list"),
    Step("kafka-topics --describe --topic orders"),
    Step("kafka-topics --describe --topic absent"),
    Step("kafka-topics --describe --topic absent --if-exists"),
    Step("kafka-topics --describe --topics-with-overrides"),
    Step("kafka-topics --describe --at-min-isr-partitions --topic orders"),
    Step("kafka-topics --describe --unavailable-partitions"),
    Step("kafka-topics --alter --topic orders --partitions 4"),
    Step("kafka-topics --alter --topic orders --partitions 2"),
    Step("kafka-topics --alter --topic absent --partitions 2"),
]
RECORDS: list[Step | Act] = [
    Step(
        "kafka-console-producer --topic orders --reader-property parse.key=true"
        " --reader-property key.separator=:",
        PAIRS,
    ),
    Step("kafka-console-producer --topic notes --compression-codec zstd", "one\ntwo\nthree\n"),
    Step("kafka-console-producer --topic absent --command-property max.block.ms=300", "one\n"),
    Step("kafka-console-producer --topic a.b", "no key\n"),
    Step(f"{READ} --topic orders --max-messages 20 --group readers {SHOWN}", is_ordered=False),
    Step("kafka-console-consumer --topic notes --partition 0 --offset 1 --max-messages 2"),
    Step(f"{READ} --topic notes --group impatient --timeout-ms 1500"),
    Step(f"{READ} --topic a.b --partition 0 --timeout-ms 200"),
    Step(
        f"{READ} --topic orders --max-messages 20 --group newer"
        " --command-property group.protocol=consumer",
        is_ordered=False,
    ),
    Step("kafka-get-offsets --topic orders"),
    Step("kafka-get-offsets --topic orders --time earliest"),
    Step("kafka-get-offsets --topic orders --time latest-tiered"),
    Step("kafka-get-offsets --topic orders --time earliest-local"),
    Step("kafka-get-offsets --topic orders --time -6"),
    Step("kafka-get-offsets --topic orders --time 0"),
    Step("kafka-get-offsets --topic orders --time 4000000000000"),
    Step("kafka-get-offsets --topic orders --time max-timestamp --partitions 7"),
    Step("kafka-get-offsets --topic-partitions notes:0,orders:1-3"),
    Step("kafka-get-offsets --exclude-internal-topics"),
    Step("kafka-delete-records --offset-json-file {delete.json}"),
    Step("kafka-get-offsets --topic orders --time earliest"),
    Step("kafka-log-dirs --describe --topic-list orders,notes"),
    Step("kafka-log-dirs --describe --topic-list orders --broker-list 1,5"),
    Step("kafka-verifiable-producer --topic notes --max-messages 5 --acks -1"),
    Step(
        "kafka-verifiable-consumer --topic notes --group-id verified --max-messages 8",
        is_ordered=False,
    ),
    Step(
        "kafka-producer-perf-test --topic notes --num-records 50 --record-size 10 --throughput -1"
    ),
    Step(
        "kafka-producer-perf-test --topic notes --num-records 50 --record-size 10 --throughput -1"
        " --transactional-id measured --transaction-duration-ms 1000"
    ),
    Step(
        "kafka-consumer-perf-test --topic notes --num-records 100 --group measurers --timeout 20000"
    ),
    Step("kafka-e2e-latency --topic notes --num-records 5 --producer-acks 1 --record-size 10"),
]
CODECS = ("uncompressed", "gzip", "snappy", "lz4", "zstd")
for codec in CODECS:
    RECORDS += [
        Step(f"kafka-topics --create --topic in-{codec} --config compression.type={codec}"),
        Step(f"kafka-console-producer --topic in-{codec} --compression-codec lz4", PAIRS),
        Step(f"{READ} --topic in-{codec} --partition 0 --max-messages 20"),
    ]
GROUPS: list[Step | Act] = [
    Clients.join,
    Step("kafka-consumer-groups --list", is_ordered=False),
    Step("kafka-consumer-groups --list --state", is_ordered=False),
    Step("kafka-consumer-groups --list --state stable,empty --type consumer", is_ordered=False),
    Step("kafka-consumer-groups --describe --group readers"),
    Step("kafka-consumer-groups --describe --group readers --state"),
    Step("kafka-consumer-groups --describe --group newer --members --verbose"),
    Step("kafka-consumer-groups --describe --group classic-workers"),
    Step("kafka-consumer-groups --describe --group classic-workers --members --verbose"),
    Step("kafka-consumer-groups --describe --group classic-workers --state --verbose"),
    Step("kafka-consumer-groups --describe --group consumer-workers --verbose"),
    Step("kafka-consumer-groups --describe --group consumer-workers --members --verbose"),
    Step("kafka-consumer-groups --describe --group consumer-workers --state --verbose"),
    Step("kafka-consumer-groups --delete --group consumer-workers"),
    Step("kafka-consumer-groups --delete-offsets --group classic-workers --topic orders"),
    Step(
        "kafka-consumer-groups --group classic-workers --reset-offsets --to-latest --topic orders"
        " --execute"
    ),
    Clients.leave,
    Step("kafka-consumer-groups --describe --group absent"),
    Step(
        "kafka-consumer-groups --group readers --reset-offsets --to-earliest --topic orders"
        " --dry-run"
    ),
    Step(
        "kafka-consumer-groups --group readers --reset-offsets --shift-by -2 --topic orders:1"
        " --execute"
    ),
    Step(
        "kafka-consumer-groups --group readers --reset-offsets --all-topics --export --dry-run"
        " --to-datetime 2020-01-01T00:00:00.000"
    ),
    Step(
        "kafka-consumer-groups --group fresh --reset-offsets --to-offset 3 --topic notes --execute"
    ),
    Step(f"{ROWS} --topic __consumer_offsets --partition 46 --formatter {OFFSETS_READ}"),
    Step(f"{ROWS} --topic __transaction_state --partition 46 --formatter {STATES_READ}"),
    Step(
        "kafka-consumer-groups --group fresh --reset-offsets --to-current --topic absent --execute"
    ),
    Step("kafka-consumer-groups --delete-offsets --group readers --topic orders:2"),
    Step("kafka-consumer-groups --delete --group newer"),
    Step("kafka-consumer-groups --delete --group absent"),
    Step("kafka-consumer-groups --describe --all-groups --offsets", is_ordered=False),
    Step("kafka-groups --list", is_ordered=False),
    Step("kafka-groups --list --group-type consumer --protocol consumer", is_ordered=False),
    Step("kafka-share-groups --list"),
    Step("kafka-share-groups --describe --all-groups"),
    Step("kafka-share-groups --describe --group absent"),
    Step("kafka-console-share-consumer --topic notes --group sharers --timeout-ms 1500"),
    Step("kafka-share-groups --describe --group sharers --state"),
    Step("kafka-share-groups --describe --group sharers"),
    Step(
        "kafka-share-groups --reset-offsets --group sharers --topic notes --to-earliest --execute"
    ),
    Step("kafka-share-groups --delete-offsets --group sharers --topic notes"),
    Step("kafka-share-groups --delete --group sharers"),
    Step("kafka-streams-groups --list"),
    Step("kafka-streams-groups --describe --group absent"),
    Step("kafka-streams-groups --delete --group readers"),
    Step("kafka-streams-application-reset --application-id readers --input-topics orders"),
]
CONFIGS: list[Step | Act] = [
    Step("kafka-configs --describe --entity-type topics --entity-name orders"),
    Step("kafka-configs --describe --entity-type topics --entity-name orders --all"),
    Step(
        "kafka-configs --alter --entity-type topics --entity-name orders"
        " --add-config segment.bytes=1048576,cleanup.policy=[compact,delete]"
    ),
    Step(
        "kafka-configs --alter --entity-type topics --entity-name orders"
        " --delete-config retention.ms"
    ),
    Step("kafka-configs --alter --entity-type topics --entity-name orders --add-config no.such=1"),
    Step(
        "kafka-configs --alter --entity-type topics --entity-name absent"
        " --add-config segment.bytes=1048576"
    ),
    Step("kafka-configs --describe --entity-type topics", is_ordered=False),
    Step("kafka-configs --describe --entity-type brokers --entity-name 1"),
    Step("kafka-configs --describe --entity-type brokers --entity-name 1 --all"),
    Step(
        "kafka-configs --alter --entity-type brokers --entity-name 1"
        " --add-config log.retention.ms=100000000"
    ),
    Step(
        "kafka-configs --alter --entity-type brokers --entity-default"
        " --add-config message.max.bytes=2000000"
    ),
    Step("kafka-configs --describe --entity-type brokers --entity-default"),
    Step("kafka-configs --describe --entity-type brokers --entity-name 1"),
    Step("kafka-configs --alter --entity-type brokers --entity-name 1 --add-config no.such=1"),
    Step("kafka-configs --alter --entity-type brokers --entity-name 1 --add-config log.dirs=/x"),
    Step("kafka-configs --describe --entity-type broker-loggers --entity-name 1"),
    Step(
        "kafka-configs --alter --entity-type broker-loggers --entity-name 1 --add-config root=INFO"
    ),
    Step(
        "kafka-configs --alter --entity-type users --entity-name alice"
        " --add-config consumer_byte_rate=1000"
    ),
    Step(
        "kafka-configs --alter --entity-type users --entity-name alice"
        " --add-config SCRAM-SHA-256=[iterations=8192,password=secret]"
    ),
    Step("kafka-configs --describe --entity-type users --entity-name alice"),
    Step("kafka-configs --describe --entity-type users"),
    Step(
        "kafka-configs --alter --entity-type clients --entity-default"
        " --add-config producer_byte_rate=100000"
    ),
    Step("kafka-configs --describe --entity-type clients"),
    Step(
        "kafka-configs --describe --entity-type users --entity-name alice --entity-type clients"
        " --entity-name app"
    ),
    Step(
        "kafka-configs --alter --entity-type ips --entity-name 10.0.0.1"
        " --add-config connection_creation_rate=10"
    ),
    Step("kafka-configs --describe --entity-type ips"),
    Step(
        "kafka-configs --alter --entity-type groups --entity-name readers"
        " --add-config consumer.session.timeout.ms=50000"
    ),
    Step("kafka-configs --describe --entity-type groups --entity-name readers"),
    Step("kafka-configs --describe --entity-type groups --entity-name readers --all"),
    Step(
        "kafka-configs --alter --entity-type client-metrics --entity-name all"
        " --add-config interval.ms=10000,metrics=[org.apache.kafka.producer.]"
    ),
    Step(
        "kafka-configs --alter --entity-type client-metrics --entity-name wrong"
        " --add-config interval.ms=1"
    ),
    Step("kafka-configs --describe --entity-type client-metrics --entity-name all"),
    Step("kafka-configs --describe --entity-type client-metrics"),
    Step("kafka-client-metrics --list"),
    Step(
        "kafka-client-metrics --alter --name new --metrics org.apache.kafka.consumer."
        " --interval 30000 --match client_id=app"
    ),
    Step("kafka-client-metrics --alter --name bad --match no_such=app"),
    Step("kafka-client-metrics --describe --name new"),
    Step("kafka-client-metrics --describe"),
    Step("kafka-client-metrics --delete --name new"),
    Step("kafka-client-metrics --list"),
]
ACLS: list[Step | Act] = [
    Step("kafka-acls --list"),
    Step("kafka-acls --add --allow-principal User:alice --operation Read --topic orders"),
    Step(
        "kafka-acls --add --allow-principal User:bob --producer --topic pay"
        " --resource-pattern-type prefixed",
        is_ordered=False,
    ),
    Step(
        "kafka-acls --add --allow-principal User:eve --consumer --topic orders --group readers"
        " --allow-host 10.0.0.1",
        is_ordered=False,
    ),
    Step(
        "kafka-acls --add --deny-principal User:eve --operation Write --topic orders",
        is_ordered=False,
    ),
    Step("kafka-acls --list --topic orders", is_ordered=False),
    Step("kafka-acls --list --principal User:bob", is_ordered=False),
    Step("kafka-acls --list --topic payments --resource-pattern-type match", is_ordered=False),
    Step(
        "kafka-acls --remove --allow-principal User:alice --operation Read --topic orders --force",
        is_ordered=False,
    ),
    Step("kafka-acls --remove --topic absent --force"),
    Step("kafka-acls --list", is_ordered=False),
]
CLUSTER: list[Step | Act] = [
    Step("kafka-leader-election --election-type preferred --topic orders --partition 0"),
    Step("kafka-leader-election --election-type unclean --topic absent --partition 0"),
    Step("kafka-leader-election --election-type preferred --all-topic-partitions"),
    Step(
        "kafka-reassign-partitions --generate --topics-to-move-json-file {topics.json}"
        " --broker-list 1"
    ),
    Step("kafka-reassign-partitions --reassignment-json-file {move.json} --execute"),
    Step("kafka-reassign-partitions --reassignment-json-file {move.json} --verify"),
    Step("kafka-reassign-partitions --reassignment-json-file {nowhere.json} --execute"),
    Step("kafka-reassign-partitions --list"),
    Step("kafka-reassign-partitions --reassignment-json-file {move.json} --cancel"),
    Clients.begin_transaction,
    Step("kafka-transactions list", is_ordered=False),
    Step("kafka-transactions list --transactional-id-pattern pay.*"),
    Step("kafka-transactions list --duration-filter 100000"),
    Step("kafka-transactions describe --transactional-id paying"),
    Step("kafka-transactions describe-producers --topic notes --partition 0", is_ordered=False),
    Step("kafka-transactions find-hanging --broker-id 1"),
    Clients.commit_transaction,
    Clients.leave_hanging,
    Step("kafka-transactions find-hanging --broker-id 1"),
    Step("kafka-transactions find-hanging --topic notes --partition 0"),
    Step("kafka-transactions describe-producers --topic notes --partition 0", is_ordered=False),
    Step("kafka-transactions abort --topic notes --partition 0 --start-offset {hanging}"),
    Step("kafka-transactions find-hanging --broker-id 1"),
    Step("kafka-transactions describe --transactional-id paying"),
    Step("kafka-transactions describe --transactional-id absent"),
    Step("kafka-transactions abort --topic orders --partition 0 --start-offset 0"),
    Step("kafka-transactions forceTerminateTransaction --transactionalId absent"),
    Step("kafka-features describe"),
    Step("kafka-features downgrade --feature group.version=0 --dry-run"),
    Step("kafka-features upgrade --release-version 4.3 --dry-run"),
    Step("kafka-features version-mapping --release-version 4.0"),
    Step("kafka-features feature-dependencies --feature transaction.version=2"),
    Step("kafka-features disable --feature absent"),
    Step("kafka-metadata-quorum describe --status"),
    Step("kafka-metadata-quorum describe --replication"),
    Step("kafka-cluster cluster-id"),
    Step("kafka-cluster unregister --id 9"),
    Step("kafka-cluster list-endpoints"),
    Step("kafka-cluster list-endpoints --include-fenced-brokers"),
    Step("kafka-broker-api-versions"),
    Step("kafka-delegation-tokens --describe --command-config /dev/null"),
    Step("kafka-topics --delete --topic orders"),
    Step("kafka-topics --delete --topic absent"),
    Step("kafka-topics --delete --topic absent --if-exists"),
    Step("kafka-topics --list --exclude-internal"),
]
STEPS = [*TOPICS, *RECORDS, *GROUPS, *CONFIGS, *ACLS, *CLUSTER]


class Difference(NamedTuple):
    """Lines of a step that differ; both are regular expressions."""

    step: str
    lines: str
    reason: str


LOGGERS = "the loggers of a gateway are not Kafka's"

DIFFERENCES = [
    Difference("kafka-configs --describe .* broker-loggers", ".*=.*", LOGGERS),
    Difference(
        "kafka-broker-api-versions",
        r"(Add|Remove)RaftVoter\(\d+\).*",
        "the cluster has one controller, which votes for itself",
    ),
]
"""All known differences; an unused one has to be removed."""
