"""Renames fields of other Kafka releases' request logs to those of 4.3.1.

`python -m tests.support.message_schemas` compares the schemas in kafka-clients jars and lists all
renamed fields. Fields without a counterpart in 4.3.1 keep their names.
"""

from typing import Any, NamedTuple

import msgspec

from brokertwin.protocol.kafka_apis import (
    ADD_PARTITIONS_TO_TXN,
    DESCRIBE_LOG_DIRS,
    ELECT_LEADERS,
    FETCH,
    LIST_CONFIG_RESOURCES,
    OFFSET_COMMIT,
    STREAMS_GROUP_HEARTBEAT,
    TXN_OFFSET_COMMIT,
    VOTE,
)
from brokertwin.recordings.formats.documents import raw

Names = dict[str, tuple[str, "Names"]]
"""New name and nested names by old name."""


class _Renaming(NamedTuple):
    """Renamed fields of a body that has the field `sign`."""

    sign: bytes
    names: Names


_REQUESTS = {
    OFFSET_COMMIT.key: _Renaming(
        b'"generationId"', {"generationId": ("generationIdOrMemberEpoch", {})}
    ),
    ADD_PARTITIONS_TO_TXN.key: _Renaming(
        b'"transactionalId"',
        {
            "transactionalId": ("v3AndBelowTransactionalId", {}),
            "producerId": ("v3AndBelowProducerId", {}),
            "producerEpoch": ("v3AndBelowProducerEpoch", {}),
            "topics": ("v3AndBelowTopics", {}),
        },
    ),
    TXN_OFFSET_COMMIT.key: _Renaming(
        b'"generationIdOrMemberEpoch"', {"generationIdOrMemberEpoch": ("generationId", {})}
    ),
    DESCRIBE_LOG_DIRS.key: _Renaming(
        b'"partitionIndex"', {"topics": ("topics", {"partitionIndex": ("partitions", {})})}
    ),
    ELECT_LEADERS.key: _Renaming(
        b'"partitionId"',
        {"topicPartitions": ("topicPartitions", {"partitionId": ("partitions", {})})},
    ),
    VOTE.key: _Renaming(
        b'"candidateId"',
        {
            "topics": (
                "topics",
                {
                    "partitions": (
                        "partitions",
                        {
                            "candidateEpoch": ("replicaEpoch", {}),
                            "candidateId": ("replicaId", {}),
                            "candidateDirectoryId": ("replicaDirectoryId", {}),
                        },
                    )
                },
            )
        },
    ),
}
_RESPONSES = {
    FETCH.key: _Renaming(
        b'"partitionResponses"',
        {
            "responses": (
                "responses",
                {
                    "partitionResponses": (
                        "partitions",
                        {
                            "partition": ("partitionIndex", {}),
                            "recordSet": ("records", {}),
                            "recordSetSizeInBytes": ("recordsSizeInBytes", {}),
                        },
                    )
                },
            )
        },
    ),
    ADD_PARTITIONS_TO_TXN.key: _Renaming(
        b'"results"',
        {
            "results": (
                "resultsByTopicV3AndBelow",
                {"results": ("resultsByPartition", {"errorCode": ("partitionErrorCode", {})})},
            )
        },
    ),
    LIST_CONFIG_RESOURCES.key: _Renaming(
        b'"clientMetricsResources"',
        {"clientMetricsResources": ("configResources", {"name": ("resourceName", {})})},
    ),
    STREAMS_GROUP_HEARTBEAT.key: _Renaming(
        b'"acceptableRecoveryLagLegacy"',
        {"acceptableRecoveryLagLegacy": ("acceptableRecoveryLag", {})},
    ),
}


def renamed(
    key: int, request: msgspec.Raw, response: msgspec.Raw
) -> tuple[msgspec.Raw, msgspec.Raw]:
    """Return the bodies of an exchange with the field names of Kafka 4.3.1."""
    return _body(request, _REQUESTS.get(key)), _body(response, _RESPONSES.get(key))


def _body(body: msgspec.Raw, renaming: _Renaming | None) -> msgspec.Raw:
    if renaming is None or renaming.sign not in bytes(body):
        return body
    return raw(rename(msgspec.json.decode(body), renaming.names))


def rename(value: Any, names: Names) -> Any:
    """Rename fields of a decoded body or a part of it."""
    if not names:
        return value
    if isinstance(value, list):
        return [rename(part, names) for part in value]
    if not isinstance(value, dict):
        return value
    made = {}
    for name, part in value.items():
        new, within = names.get(name, (name, {}))
        made[new] = rename(part, within)
    return made
