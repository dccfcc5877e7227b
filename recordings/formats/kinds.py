"""Files that are no recordings and are often taken for one: what they are, and what helps."""

import re
from typing import NamedTuple

from brokertwin.recordings.formats.request_log import BEFORE_28

LINE_BYTES_MAX = 2_000
"""The beginning of a line shows its kind."""

_REQUEST_LOG = (
    "Set kafka.request.logger to DEBUG on the brokers, and give kafka-request.log (docs/ingest.md)."
)
_OFFSETS = (
    "It holds committed offsets, no requests. `brokertwin offsets history FILE GROUP` and `show`"
    " read this file. To see who committed, import from the cluster: brokertwin offsets import."
)


class Kind(NamedTuple):
    """A kind of line.

    Attributes:
        name: what such a file is.
        hint: what to give in its place.
        form: what a line of it looks like.
    """

    name: str
    hint: str
    form: re.Pattern[bytes]


_RECORD = "record the client with `brokertwin capture`, or give the brokers' request logs."
_CLIENT = f"It shows one client: `brokertwin explain client` reads it. For the rest, {_RECORD}"
_JAVA = (
    "`brokertwin explain client` reads it if org.apache.kafka.clients.NetworkClient is at DEBUG."
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
        (rb"Completed request: ?(?:RequestHeader\(|Name: ?)",),
    ),
    (
        "TRACE log of KafkaApis",
        "It shows requests without their responses: only `brokertwin explain` reads it. "
        + _REQUEST_LOG,
        (rb"\[KafkaApi-\d+\] (?:Handling|Sending)", rb"Handling request:RequestHeader\("),
    ),
    (
        "debug log of a KafkaJS client",
        _CLIENT,
        (
            rb'"logger":"kafkajs"',
            rb"\[Connection\] (?:Request|Response) \w+\(key: \d+, version: \d+\)",
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
        "log of a Go or Python client",
        f"It is not read: {_RECORD}",
        (
            rb"<BrokerConnection ",
            rb"\b(?:aio)?kafka\.(?:conn|client|coordinator|cluster|consumer|producer)[\w.]*[:\s]",
            rb"\[sarama\]|client/(?:metadata|coordinator|brokers?) |consumergroup/|\bkgo\b",
        ),
    ),
    (
        "rows of __consumer_offsets, by kcat or by a formatter of the console consumer",
        _OFFSETS,
        (
            rb"\[[^\[\]]+,[^\[\]]+,\d+\]::",
            rb'^\{"key":\{"(?:type|version)":',
            rb'^\{"topic":"__consumer_offsets"',
            rb"::\[?(?:OffsetAndMetadata|OffsetMetadata|TransactionMetadata|GroupMetadata)\(",
        ),
    ),
    (
        "output of kafka-consumer-groups.sh --describe",
        _OFFSETS,
        (
            rb"^GROUP +(?:TOPIC|CONSUMER-ID|COORDINATOR)",
            rb"^\S+ +\S+ +\d+ +[\d-]+ +[\d-]+ +[\d-]+ ",
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
        (rb"^(?:\xd4\xc3\xb2\xa1|\xa1\xb2\xc3\xd4|\x4d\x3c\xb2\xa1|\x0a\x0d\x0d\x0a)",),
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
KINDS = tuple(Kind(name, hint, re.compile(b"|".join(forms))) for name, hint, forms in _FORMS)
BY_NAME = {kind.name: kind for kind in KINDS}


def kind_of(text: bytes) -> Kind | None:
    """The kind of a line that is no exchange; None if it is not known."""
    start = text[:LINE_BYTES_MAX].rstrip()
    return next((kind for kind in KINDS if kind.form.search(start)), None)
