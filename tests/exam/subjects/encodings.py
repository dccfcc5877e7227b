"""Flexible versions: unknown tagged fields of each API, and unusual encodings (KIP-482)."""

from collections.abc import Callable
from typing import Any

from tests.exam.author import Author, frame, join, uuid, view
from tests.exam.script import Script, fetch_body, join_body, produce_body, sync_body
from tests.exam.subjects.malformed import alive

ENCODINGS = Author(
    "encodings", "Tagged fields and encodings", kip="KIP-482", source="ByteBufferAccessor"
)

Body = Callable[[Script], dict[str, Any]]


def _member(s: Script) -> dict[str, Any]:
    return {"groupId": s.name("g"), "memberId": uuid("m"), "memberEpoch": 3}


def _txn(s: Script) -> dict[str, Any]:
    return {"transactionalId": s.name("t"), "producerId": 5, "producerEpoch": 0}


def _topics(s: Script) -> list[dict[str, Any]]:
    return [{"name": s.name("none"), "partitions": [{"partitionIndex": 0}]}]


_OWN = {"resourceType": 2, "resourceName": "", "configs": []}

TAGGED: dict[tuple[str, int], Body] = {
    ("Produce", 9): lambda s: produce_body(s.name("none"), b""),
    ("Fetch", 12): lambda s: fetch_body([(s.name("none"), [(0, 0)])]),
    ("ListOffsets", 7): lambda s: {"replicaId": -1, "topics": _topics(s)},
    ("Metadata", 12): lambda s: {
        "topics": [{"name": s.name("none")}],
        "allowAutoTopicCreation": False,
    },
    ("OffsetCommit", 8): lambda s: {
        "groupId": s.name("g"),
        "generationIdOrMemberEpoch": 3,
        "memberId": "m",
        "topics": _topics(s),
    },
    ("OffsetFetch", 8): lambda s: {"groups": [{"groupId": s.name("g"), "topics": None}]},
    ("FindCoordinator", 4): lambda s: {"keyType": 9, "coordinatorKeys": [s.name("g")]},
    ("JoinGroup", 7): lambda s: join_body(s.name("g"), "unknown"),
    ("Heartbeat", 4): lambda s: {"groupId": s.name("g"), "generationId": 1, "memberId": "m"},
    ("LeaveGroup", 5): lambda s: {"groupId": s.name("g"), "members": [{"memberId": "m"}]},
    ("SyncGroup", 5): lambda s: sync_body(s.name("g"), "m", 1),
    ("DescribeGroups", 6): lambda s: {"groups": [s.name("g")]},
    ("ListGroups", 5): lambda s: {"statesFilter": ["NoSuchState"]},
    ("DeleteGroups", 2): lambda s: {"groupsNames": [s.name("g")]},
    ("ApiVersions", 3): lambda s: {"clientSoftwareName": "exam", "clientSoftwareVersion": "1"},
    ("CreateTopics", 7): lambda s: {
        "topics": [{"name": "", "numPartitions": 1, "replicationFactor": 1}]
    },
    ("DeleteTopics", 6): lambda s: {"topics": [{"name": s.name("none")}], "timeoutMs": 1000},
    ("CreatePartitions", 3): lambda s: {"topics": [{"name": s.name("none"), "count": 2}]},
    ("DeleteRecords", 2): lambda s: {
        "topics": [{"name": s.name("none"), "partitions": [{"partitionIndex": 0}]}],
        "timeoutMs": 1000,
    },
    ("InitProducerId", 4): lambda s: {"transactionalId": "", "transactionTimeoutMs": 60_000},
    ("AddPartitionsToTxn", 3): lambda s: {
        "v3AndBelowTransactionalId": s.name("t"),
        "v3AndBelowProducerId": 5,
        "v3AndBelowTopics": [],
    },
    ("AddOffsetsToTxn", 3): lambda s: {**_txn(s), "groupId": s.name("g")},
    ("EndTxn", 3): lambda s: {**_txn(s), "committed": True},
    ("TxnOffsetCommit", 3): lambda s: {**_txn(s), "groupId": s.name("g"), "topics": _topics(s)},
    ("OffsetForLeaderEpoch", 4): lambda s: {
        "replicaId": -1,
        "topics": [{"topic": s.name("none"), "partitions": [{"partition": 0}]}],
    },
    ("WriteTxnMarkers", 1): lambda s: {"markers": []},
    ("DescribeConfigs", 4): lambda s: {
        "resources": [{"resourceType": 2, "resourceName": s.name("none")}]
    },
    ("AlterConfigs", 2): lambda s: {"resources": [{**_OWN, "resourceName": s.name("none")}]},
    ("IncrementalAlterConfigs", 1): lambda s: {
        "resources": [{**_OWN, "resourceName": s.name("none")}]
    },
    ("AlterReplicaLogDirs", 2): lambda s: {"dirs": []},
    ("DescribeLogDirs", 4): lambda s: {"topics": []},
    ("ElectLeaders", 2): lambda s: {"topicPartitions": [], "timeoutMs": 1000},
    ("AlterPartitionReassignments", 0): lambda s: {"topics": [], "timeoutMs": 1000},
    ("ListPartitionReassignments", 0): lambda s: {"topics": [], "timeoutMs": 1000},
    ("DescribeClientQuotas", 1): lambda s: {
        "components": [{"entityType": "client-id", "matchType": 0, "match": s.name("none")}]
    },
    ("AlterClientQuotas", 1): lambda s: {"entries": []},
    ("DescribeUserScramCredentials", 0): lambda s: {"users": [{"name": s.name("none")}]},
    ("AlterUserScramCredentials", 0): lambda s: {"deletions": [], "upsertions": []},
    ("DescribeQuorum", 2): lambda s: {"topics": []},
    ("DescribeProducers", 0): lambda s: {
        "topics": [{"name": s.name("none"), "partitionIndexes": [0]}]
    },
    ("DescribeTransactions", 0): lambda s: {"transactionalIds": [s.name("t")]},
    ("ListTransactions", 1): lambda s: {"stateFilters": ["NoSuchState"]},
    ("DescribeTopicPartitions", 0): lambda s: {"topics": [{"name": s.name("none")}]},
    ("ConsumerGroupHeartbeat", 1): _member,
    ("ConsumerGroupDescribe", 1): lambda s: {"groupIds": [s.name("g")]},
    ("ShareGroupHeartbeat", 1): _member,
    ("ShareGroupDescribe", 1): lambda s: {"groupIds": [s.name("g")]},
    ("DescribeShareGroupOffsets", 1): lambda s: {
        "groups": [{"groupId": s.name("g"), "topics": []}]
    },
    ("StreamsGroupHeartbeat", 0): _member,
    ("StreamsGroupDescribe", 0): lambda s: {"groupIds": [s.name("g")]},
}
"""Requests without an effect on the cluster, in a flexible version."""

OF_THE_SITE = {
    "ApiVersions": view(
        only=["errorCode"], without=["apiKeys", "supportedFeatures", "finalizedFeatures"]
    ),
    "DescribeLogDirs": view(only=["errorCode"], without=["results"]),
    "DescribeQuorum": view(only=["errorCode"]),
    "ListGroups": view(own=["groups"]),
    "Metadata": view(own=["topics"], without=["brokers", "clusterId", "controllerId"]),
    "ListPartitionReassignments": view(own=["topics"]),
    "ListTransactions": view(own=["transactionStates"]),
    "ElectLeaders": view(own=["replicaElectionResults"]),
}
"""Responses that depend on what else is in the cluster."""


def _tagged(api: str, version: int, body: Body) -> Callable[[Script], None]:
    def play(s: Script) -> None:
        s.group()
        s.txn_id()
        s.raw(frame(api, version, body(s), hasUnknownTags=True), "c")
        shown = {"view": OF_THE_SITE[api]} if api in OF_THE_SITE else {}
        s.receive("with unknown tagged fields", "c", api=api, version=version, **shown)

    return play


for (_api, _version), _body in TAGGED.items():
    ENCODINGS.case(
        f"tags_{_api}",
        f"{_api} v{_version} ignores tagged fields that it does not know, in header and body.",
        _tagged(_api, _version, _body),
    )


def _api_versions(body: bytes, header_tags: bytes = b"\0") -> Any:
    """Return an ApiVersions v3 request with these bytes."""
    return join(b"\0\x12\0\x03\0\0\0\x07\0\x04exam", header_tags, body)


NAME = b"\x05exam\x02" + b"1"
"""`clientSoftwareName` and `clientSoftwareVersion`."""

ODD: dict[str, tuple[str, Any]] = {
    "long_varint": (
        "A length may be encoded in more bytes than it needs.",
        _api_versions(b"\x85\x80\x00exam\x02" + b"1\0"),
    ),
    "long_varint_of_tags": (
        "The number of tagged fields may be encoded in more bytes than it needs.",
        _api_versions(NAME + b"\x80\x80\x80\x80\x00"),
    ),
    "varint_of_six_bytes": (
        "A varint of more than five bytes closes the connection.",
        _api_versions(b"\x85\x80\x80\x80\x80\x00exam\x02" + b"1\0"),
    ),
    "length_above_frame": (
        "A text that is longer than its frame closes the connection.",
        _api_versions(b"\x7fexam\x02" + b"1\0"),
    ),
    "null_text": (
        "Null in place of a text that must not be null closes the connection.",
        _api_versions(b"\x00\x02" + b"1\0"),
    ),
    "not_utf_8": (
        "A software name that is not UTF-8 is an invalid request.",
        _api_versions(b"\x05ex\xff\xfe\x02" + b"1\0"),
    ),
    "tag_above_frame": (
        "A tagged field that is longer than its frame closes the connection.",
        _api_versions(NAME + b"\x01\x64\x40ab"),
    ),
    "tags_without_end": (
        "A number of tagged fields above those in the frame closes the connection.",
        _api_versions(NAME + b"\x03\x64\x01a"),
    ),
    "tag_twice": (
        "A tag that comes twice is not refused if the API does not know it.",
        _api_versions(NAME + b"\x02\x64\x01a\x64\x01b"),
    ),
    "tags_in_other_order": (
        "Unknown tags in descending order are not refused.",
        _api_versions(NAME + b"\x02\x65\x01a\x64\x01b"),
    ),
    "empty_tag": (
        "An unknown tagged field without bytes is ignored.",
        _api_versions(NAME + b"\x01\x64\x00"),
    ),
    "greatest_tag": (
        "An unknown tag of five bytes is ignored.",
        _api_versions(NAME + b"\x01\xff\xff\xff\xff\x07\x01a"),
    ),
    "tags_in_header": (
        "Several unknown tagged fields in the header are ignored.",
        _api_versions(NAME + b"\0", b"\x02\x0a\x02ab\x0b\x01c"),
    ),
    "no_tags": (
        "A flexible request that ends before its tagged fields closes the connection.",
        _api_versions(NAME),
    ),
    "array_above_frame": (
        "An array with more elements than its frame has bytes closes the connection.",
        join(b"\0\x03\0\x0c\0\0\0\x07\0\x04exam\0", b"\xff\xff\xff\xff\x07", b"\0\0\0"),
    ),
    "boolean_2": (
        "A boolean of 2 is true.",
        join(b"\0\x03\0\x0c\0\0\0\x07\0\x04exam\0", b"\x01", b"\x02", b"\0\0"),
    ),
    "empty_array": (
        "An empty array of topics is not null: no topic is described.",
        join(b"\0\x03\0\x0c\0\0\0\x07\0\x04exam\0", b"\x01", b"\0", b"\0\0"),
    ),
}
"""Bytes of requests; those with api key 3 are Metadata v12."""


def _odd(data: Any) -> Callable[[Script], None]:
    def play(s: Script) -> None:
        s.raw(data, "c")
        s.outcome("outcome", "c")
        alive(s)

    return play


for _name, (_rule, _data) in ODD.items():
    ENCODINGS.case(f"odd_{_name}", _rule, _odd(_data))
