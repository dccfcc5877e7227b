"""Field names of the request logs of Kafka 2.8 to 3.x, renamed to those of Kafka 4.

Found by a comparison of the schemas in kafka-clients 2.8.2, 3.4.1 and 3.9.1 with those in 4.3.1:
the same place in the same version of a message has another name. Bodies of versions that Kafka 4
does not support are left as they are.
"""

from typing import Any, NamedTuple

import msgspec

from brokertwin.recordings.formats.documents import raw
from brokertwin.state.core.kafka_apis import (
    ADD_PARTITIONS_TO_TXN,
    DESCRIBE_LOG_DIRS,
    ELECT_LEADERS,
    FETCH,
    OFFSET_COMMIT,
    VOTE,
)

Names = dict[str, tuple[str, "Names"]]
"""Old name to new name, and the names within it."""


class _Renaming(NamedTuple):
    """Renamed fields of a body; only a body that has the field `sign` needs it."""

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
}


def renamed(
    key: int, request: msgspec.Raw, response: msgspec.Raw
) -> tuple[msgspec.Raw, msgspec.Raw]:
    """The bodies of an exchange with the field names of Kafka 4.

    Args:
        key: of the API.
        request: body of the request.
        response: body of the response.
    """
    return _body(request, _REQUESTS.get(key)), _body(response, _RESPONSES.get(key))


def _body(body: msgspec.Raw, renaming: _Renaming | None) -> msgspec.Raw:
    if renaming is None or renaming.sign not in bytes(body):
        return body
    return raw(rename(msgspec.json.decode(body), renaming.names))


def rename(value: Any, names: Names) -> Any:
    """A decoded body, or a part of it, with fields renamed."""
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
