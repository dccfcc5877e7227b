"""Recognizes files that are often mistaken for recordings."""

import re
from typing import NamedTuple

from brokertwin.patterns import later
from brokertwin.recordings.formats.request_log import BEFORE_011, BEFORE_28

LINE_BYTES_MAX = 2_000
"""Only the beginning of a line is examined."""

_REQUEST_LOG = "Set kafka.request.logger to DEBUG on the brokers, and give kafka-request.log."
_OFFSETS = (
    "It holds committed offsets, no requests. `brokertwin offsets history FILE GROUP` and `show`"
    " read this file. To see who committed, import from the cluster: brokertwin offsets import."
)


class FileKind(NamedTuple):
    """A kind of line.

    Attributes:
        name: the kind of file.
        hint: what to pass instead.
        form: matches a line of it.
    """

    name: str
    hint: str
    form: re.Pattern[bytes]


_RECORD = "record the client with `brokertwin capture`, or give the brokers' request logs."
_CLIENT = (
    "It shows one client: `brokertwin explain client` reads the refusals in it, and the requests if"
    " it was written at debug level."
    f" For the rest, {_RECORD}"
)
_JAVA = (
    "Of these lines, `brokertwin explain client` reads those of Kafka's own client about refused"
    " requests, and all requests if org.apache.kafka.clients.NetworkClient is at DEBUG."
    f" For the rest, {_RECORD}"
)
_BATCHES = (
    "It holds batches, no requests. Give it by --batches beside a request log. For committed"
    " offsets, `brokertwin offsets import` reads them from the cluster itself."
)
_FORMS: tuple[tuple[str, str, tuple[bytes, ...]], ...] = (
    (
        BEFORE_28,
        (
            "Only `brokertwin explain` and `audit` read it; the rest needs the JSON of Kafka 2.8 or"
            " later, or `brokertwin capture`."
        ),
        (rb"Completed request: ?RequestHeader\(",),
    ),
    (
        BEFORE_011,
        "It is not read: record traffic with `brokertwin capture` instead.",
        (rb"Completed request: ?(?:Name: |\{api_key=)",),
    ),
    (
        "TRACE log of KafkaApis",
        "It shows requests without their responses: only `brokertwin explain` reads it. "
        + _REQUEST_LOG,
        (rb"\[KafkaApi-\d+\] (?:Handling|Sending)", rb"Handling request:RequestHeader\("),
    ),
    (
        "debug log of a KafkaJS client",
        (
            "It shows one client: `brokertwin explain client` reads lines that have KafkaJS's"
            " fields (broker, clientId, correlationId, error) as JSON beside the message: log with"
            " JSON.stringify, not util.inspect; with pino-pretty's singleLine."
            f" For the rest, {_RECORD}"
        ),
        (
            rb'"logger":"kafkajs"',
            rb"\b(?:Request|Response) \w+\(key: \d+, version: \d+\)",
        ),
    ),
    (
        "debug log of a librdkafka client",
        _CLIENT,
        (rb"%\d\|\d+\.\d+\|[A-Z_]+\|", rb"\[thrd:[^\]]+\]"),
    ),
    (
        "log of a Java client",
        _JAVA,
        (rb"\[(?:Consumer|Producer|AdminClient|ShareConsumer) clientId=", rb"kafka\.clients\."),
    ),
    (
        "journal entry without its text",
        "journalctl leaves out long texts of JSON. Export again with `journalctl --all -o json`.",
        (rb'"MESSAGE" ?: ?null\b',),
    ),
    (
        "log of a kafka-python or aiokafka client",
        _CLIENT,
        (
            rb"<\w*Connection (?:client_id|node_id|host)=",
            rb"\b(?:aio)?kafka\.(?:conn|client|coordinator|cluster|consumer|producer)[\w.]*[:\s]",
        ),
    ),
    (
        "log of a franz-go or Sarama client",
        _CLIENT,
        (
            rb"\[sarama\]|client/(?:metadata|coordinator|brokers?) |consumergroup/|\bkgo\b",
            rb"[;,] broker: (?:seed_)?\d+|immediate metadata update triggered; why: ",
        ),
    ),
    (
        "log of a Go client",
        (
            "Of these lines, `brokertwin explain client` reads those about refused requests."
            f" For the rest, {_RECORD}"
        ),
        (rb"segmentio/kafka-go|entering loop for consumer group, |committed offsets for group ",),
    ),
    (
        "rows of __consumer_offsets, by kcat or by a formatter of the console consumer",
        _OFFSETS,
        (
            rb"\[[^\[\]]+,[^\[\]]+,\d+\]::",
            rb'^\{"key":\{"(?:type|version)":',
            rb'^\{"topic":"__consumer_offsets"',
            rb"::\[?(?:OffsetAndMetadata|OffsetMetadata|GroupMetadata)\(",
        ),
    ),
    (
        "table of a group's offsets",
        _OFFSETS,
        (
            rb"\bTOPIC +PARTITION +(?:LEADER-EPOCH +)?(?:CURRENT|NEW)-OFFSET\b",
            rb"^Group ID:|^(?:COORDINATOR|BALANCER|TOTAL-LAG) +\w+$",
            rb"^\S+ +\S+ +\d+ +[\d-]+ +[\d-]+ +[\d-]+ ",
            rb"^kafka_consumergroup_(?:current|group)_offset\{",
        ),
    ),
    (
        "table of groups, their members or their states",
        "It holds no requests. " + _REQUEST_LOG,
        (rb"^GROUP +(?:CONSUMER-ID|COORDINATOR|STATE|TYPE)",),
    ),
    (
        "output of kafka-transactions.sh, or rows of __transaction_state",
        "It shows transactions, no requests. " + _REQUEST_LOG,
        (
            rb"^TransactionalId\s|^(?:Topic\s+Partition\s+)?ProducerId\s|^CoordinatorId\s",
            rb"::TransactionMetadata\(",
        ),
    ),
    (
        "output of kcat -J",
        "It holds records, no requests. " + _REQUEST_LOG,
        (rb'^\{"topic":"(?!__consumer_offsets)[^"]*","partition":\d+,"offset":\d+',),
    ),
    (
        "output of kafka-topics.sh or kafka-get-offsets.sh",
        "It holds no requests. " + _REQUEST_LOG,
        (rb"^\s*Topic: \S+\s+(?:TopicId|Partition): ", rb"^[\w.-]+:\d+:\d+$"),
    ),
    (
        "output of kafka-dump-log.sh",
        _BATCHES,
        (rb"^Dumping \S+\.log", rb"^Log starting offset: ", rb"^\|? ?(?:baseO|o)ffset: \d+ "),
    ),
    (
        "log segment of a topic",
        "Print it with `kafka-dump-log.sh --files FILE`. " + _BATCHES,
        (rb"^\0\0[\0-\xff]{6}\0[\0-\xff]{7}\x02",),
    ),
    (
        "packet capture",
        "Record traffic with `brokertwin capture` instead.",
        (
            rb"^(?:\xd4\xc3\xb2\xa1|\x4d\x3c\xb2\xa1|\xa1\xb2(?:\xc3\xd4|\x3c\x4d))",
            rb"^[\0-\xff]{4}(?:\x4d\x3c\x2b\x1a|\x1a\x2b\x3c\x4d)",  # pcapng begins with \n\r\r\n
        ),
    ),
    (
        "Kafka's server.log",
        "It holds no requests. `brokertwin explain group` reads the coordinator's lines. "
        + _REQUEST_LOG,
        (
            rb"\((?:org\.apache\.)?kafka\.(?!request)[\w.$]+\)$",
            rb"\(state\.change\.logger\)$",
            rb"\[(?:Group|Transaction)Coordinator ",
            rb"\[(?:Kafka|Broker|Controller|KafkaRaft|Socket)Server ",
            rb"\[(?:ReplicaManager|Controller|LogLoader|UnifiedLog|RaftManager|QuorumController)\b",
        ),
    ),
)
KINDS = tuple(FileKind(name, hint, later(b"|".join(forms))) for name, hint, forms in _FORMS)
BY_NAME = {kind.name: kind for kind in KINDS}


def kind_of(text: bytes) -> FileKind | None:
    """Return the kind of a line that is no exchange, if known."""
    start = text[:LINE_BYTES_MAX].rstrip()
    return next((kind for kind in KINDS if kind.form.search(start)), None)
