"""Steps with Kafka's command-line tools at a cluster of three brokers.

Like `tool_steps.py`, for cases in which several brokers matter. Topics have explicit replica
assignments, because Kafka places replicas at random.
"""

from tests.support.tool_steps import PAIRS, READ, Act, Clients, Difference, Step

PLACES = "1:2:3,2:3:1,3:1:2"
FILES = {
    "one.json": {"partitions": [{"topic": "orders", "partition": 0, "offset": 2}]},
    "topics.json": {"topics": [{"topic": "notes"}]},
    "swap.json": {
        "partitions": [
            {"topic": "orders", "partition": 0, "replicas": [3, 2]},
            {"topic": "orders", "partition": 1, "replicas": [1, 3, 2]},
        ]
    },
    "twice.json": {"partitions": [{"topic": "orders", "partition": 0, "replicas": [2, 2]}]},
    "nowhere.json": {"partitions": [{"topic": "orders", "partition": 0, "replicas": [7]}]},
}
"""Files that steps name as {one.json}."""

ASIDE = [
    (r"(?m)^(notes\s+0\s+)?\d+(?=\s+\d+\s+-1\s)", r"\1ID"),
    (r"/\d/data\b", "/DIRECTORY"),
    (r'(?<=\{"id": )[23](?=, "directoryId")', "2 or 3"),
]
"""Producers' ids are of the block of whoever gave them; each real broker has its own directory, and
observers come in any order."""

STEPS: list[Step | Act] = [
    Step(f"kafka-topics --create --topic orders --replica-assignment {PLACES}"),
    Step("kafka-topics --create --topic notes --replica-assignment 2:1"),
    Step("kafka-topics --create --topic wide --replication-factor 4"),
    Step("kafka-topics --create --topic wide --replica-assignment 1:2:1"),
    Step("kafka-topics --create --topic wide --replica-assignment 1:9"),
    Step("kafka-topics --describe --topic orders"),
    Step(
        "kafka-topics --alter --topic orders --partitions 5"
        f" --replica-assignment {PLACES},1:3:2,2:1:3"
    ),
    Step("kafka-topics --describe --topic orders"),
    Step("kafka-topics --describe --under-replicated-partitions"),
    Step("kafka-topics --describe --at-min-isr-partitions --topic notes"),
    Step(
        "kafka-console-producer --topic orders --reader-property parse.key=true"
        " --reader-property key.separator=:",
        PAIRS,
    ),
    Step(f"{READ} --topic orders --partition 1 --max-messages 2"),
    Step("kafka-get-offsets --topic orders"),
    Step("kafka-delete-records --offset-json-file {one.json}"),
    Step("kafka-get-offsets --topic orders --time earliest"),
    Step("kafka-log-dirs --describe --topic-list orders,notes"),
    Step("kafka-log-dirs --describe --topic-list orders --broker-list 2,3"),
    Step("kafka-log-dirs --describe --topic-list orders --broker-list 2,5"),
    Step(f"{READ} --topic orders --group readers --max-messages 18", is_ordered=False),
    Step("kafka-consumer-groups --describe --group readers"),
    Step("kafka-consumer-groups --list"),
    Step(
        "kafka-consumer-groups --reset-offsets --group readers --all-topics --to-earliest --execute"
    ),
    Step("kafka-configs --describe --entity-type brokers --entity-name 2"),
    Step(
        "kafka-configs --alter --entity-type brokers --entity-name 2"
        " --add-config log.retention.ms=100000000"
    ),
    Step(
        "kafka-configs --alter --entity-type brokers --entity-default"
        " --add-config message.max.bytes=2000000"
    ),
    Step("kafka-configs --describe --entity-type brokers --entity-name 2"),
    Step("kafka-configs --describe --entity-type brokers --entity-name 3"),
    Step("kafka-configs --describe --entity-type brokers"),
    Step("kafka-configs --describe --entity-type brokers --entity-name 9"),
    Step("kafka-leader-election --election-type preferred --topic orders --partition 1"),
    Step("kafka-leader-election --election-type unclean --all-topic-partitions"),
    Step(
        "kafka-reassign-partitions --generate --topics-to-move-json-file {topics.json}"
        " --broker-list 3"
    ),
    Step("kafka-reassign-partitions --reassignment-json-file {twice.json} --execute"),
    Step("kafka-reassign-partitions --reassignment-json-file {nowhere.json} --execute"),
    Step(
        "kafka-reassign-partitions --reassignment-json-file {swap.json} --execute"
        " --throttle 10000000"
    ),
    Step("kafka-reassign-partitions --reassignment-json-file {swap.json} --verify"),
    Step("kafka-reassign-partitions --list"),
    Step("kafka-reassign-partitions --reassignment-json-file {swap.json} --cancel"),
    Step("kafka-leader-election --election-type preferred --topic orders --partition 1"),
    Step("kafka-topics --describe --topic orders"),
    Step("kafka-configs --describe --entity-type topics --entity-name orders"),
    Clients.begin_transaction,
    Step("kafka-transactions describe-producers --topic notes --partition 0"),
    Step("kafka-transactions describe-producers --topic notes --partition 0 --broker-id 1"),
    Step("kafka-transactions describe-producers --topic notes --partition 0 --broker-id 3"),
    Clients.commit_transaction,
    Clients.leave_hanging,
    Step("kafka-transactions find-hanging --broker-id 2"),
    Step("kafka-transactions find-hanging --broker-id 3"),
    Step("kafka-transactions abort --topic notes --partition 0 --start-offset {hanging}"),
    Step("kafka-transactions find-hanging --topic notes"),
    Step("kafka-features describe"),
    Step("kafka-metadata-quorum describe --status"),
    Step("kafka-metadata-quorum describe --replication", is_ordered=False),
    Step("kafka-cluster list-endpoints", is_ordered=False),
    Step("kafka-cluster unregister --id 9"),
    Step("kafka-broker-api-versions", is_ordered=False),
    Step("kafka-topics --delete --topic orders"),
    Step("kafka-topics --describe --exclude-internal"),
]

DIFFERENCES = [
    Difference(
        "kafka-broker-api-versions",
        r"(Add|Remove)RaftVoter\(\d+\).*",
        "the cluster has one controller, which votes for itself",
    ),
]
"""All that may differ."""
