"""Requests that Kafka logs as text.

    Completed request:RequestHeader(…) -- {group_id=g,…},response:{…} from connection …;totalTime:1…
    [KafkaApi-1] Handling request:RequestHeader(…) -- FetchRequestData(…) from connection …;…

The first is the request log of Kafka 0.11 to 2.7. The second is kafka.server.KafkaApis at TRACE in
any release, without responses. Fields of structs get Kafka 4's names.

Source: `RequestChannel.updateRequestMetrics`, `KafkaApis.handle` and `Protocol` in Kafka.
"""

import math
from typing import Any

import msgspec

from brokertwin.patterns import later
from brokertwin.protocol.kafka_apis import API_KEYS
from brokertwin.recordings.formats import java_text
from brokertwin.recordings.formats.documents import (
    NO_RESPONSE,
    Document,
    Fields,
    UnpairedDocuments,
    UnreadableError,
    raw,
)
from brokertwin.recordings.formats.lines import SourceLine
from brokertwin.recordings.formats.older_names import Names, rename, renamed
from brokertwin.recordings.formats.request_log import host_of
from brokertwin.state.access.redaction import may_hold_credentials
from brokertwin.state.core.events import RequestHeader

MARKS = later(rb"(?:Completed|Handling) request: ?RequestHeader\(")
NO_API = "an API that Kafka 4 does not have"

CUT = "cut"
_REQUEST = later(
    r"(?:\[KafkaApi-(?P<broker>\d+)\] )?(?P<what>Completed|Handling) request: ?RequestHeader\("
    r"apiKey=(?P<api>\w+), apiVersion=(?P<version>\d+), clientId=(?P<client>.*?),"
    r" correlationId=(?P<number>-?\d+)[^)]*\) -- "
)
_END = later(r" from connection (?P<connection>[^;\s]+);(?:totalTime:(?P<ms>[\d.]+))?")
_PRINCIPAL = later(r"principal:(.+?)(?=,listener:|,clientInformation:|\s\(|$)")
_LISTENER = later(r"listener:([\w.-]+)")
_RESPONSE = ",response:"

_PARTITION: Names = {"partition": ("partitionIndex", {})}
_COMMITTED: Names = {
    "topic": ("name", {}),
    "partitions": (
        "partitions",
        {
            **_PARTITION,
            "offset": ("committedOffset", {}),
            "leaderEpoch": ("committedLeaderEpoch", {}),
            "metadata": ("committedMetadata", {}),
        },
    ),
}
_BY_TOPIC: Names = {
    "responses": (
        "topics",
        {"topic": ("name", {}), "partitionResponses": ("partitions", _PARTITION)},
    )
}
_ADDED: Names = {
    "errors": (
        "results",
        {"topic": ("name", {}), "partitionErrors": ("results", _PARTITION)},
    )
}
_FETCHED: Names = {
    "responses": (
        "responses",
        {"partitionResponses": ("partitions", _PARTITION)},
    )
}
_WRITTEN: Names = {
    "responses": (
        "responses",
        {
            "topic": ("name", {}),
            "partitionResponses": ("partitionResponses", {"partition": ("index", {})}),
        },
    )
}
_METADATA: Names = {
    "topicMetadata": (
        "topics",
        {
            "topic": ("name", {}),
            "partitionMetadata": (
                "partitions",
                {
                    **_PARTITION,
                    "leader": ("leaderId", {}),
                    "replicas": ("replicaNodes", {}),
                    "isr": ("isrNodes", {}),
                },
            ),
        },
    )
}
_JOINED: Names = {
    "groupProtocol": ("protocolName", {}),
    "leaderId": ("leader", {}),
    "members": ("members", {"memberMetadata": ("metadata", {})}),
    "sessionTimeout": ("sessionTimeoutMs", {}),
    "rebalanceTimeout": ("rebalanceTimeoutMs", {}),
    "groupProtocols": (
        "protocols",
        {"protocolName": ("name", {}), "protocolMetadata": ("metadata", {})},
    ),
}
BEFORE_MESSAGES: dict[str, tuple[Names, Names]] = {
    "OFFSET_COMMIT": ({"topics": ("topics", _COMMITTED)}, _BY_TOPIC),
    "TXN_OFFSET_COMMIT": ({"topics": ("topics", _COMMITTED)}, _BY_TOPIC),
    "JOIN_GROUP": (_JOINED, _JOINED),
    "SYNC_GROUP": (
        {"groupAssignment": ("assignments", {})},
        {"memberAssignment": ("assignment", {})},
    ),
    "END_TXN": ({"transactionResult": ("committed", {})}, {}),
    "ADD_PARTITIONS_TO_TXN": ({"topics": ("topics", {"topic": ("name", {})})}, _ADDED),
    "LIST_OFFSETS": (
        {"topics": ("topics", {"topic": ("name", {}), "partitions": ("partitions", _PARTITION)})},
        _BY_TOPIC,
    ),
    "FIND_COORDINATOR": (
        {"coordinatorKey": ("key", {}), "coordinatorType": ("keyType", {})},
        {"coordinatorId": ("nodeId", {})},
    ),
    "PRODUCE": ({}, _WRITTEN),
    "METADATA": ({}, _METADATA),
    "FETCH": ({}, _FETCHED),
}
"""Names in requests and responses before message schemas, by API."""


def document_of(line: SourceLine, place: str, text: str, time: int) -> Document | UnpairedDocuments:
    """Create the document of a request, with its response if logged.

    Raises:
        UnreadableError: the line is cut.
    """
    match = _REQUEST.search(text)
    if match is None:
        raise UnreadableError(CUT, "the header of the request has no end")
    key = API_KEYS.get(match["api"])
    if key is None:
        return UnpairedDocuments(line, NO_API, api=match["api"], is_dead=False)
    request, at = _body(key, text, match.end())
    response: Any = None
    if text.startswith(_RESPONSE, at):
        response, at = _body(key, text, at + len(_RESPONSE))
    end = _END.search(text, at)
    if end is None:
        raise UnreadableError(CUT, "the text of the request has no end")
    if match["api"] == "FETCH":
        _flatten(response or {})
    of_request, of_response = BEFORE_MESSAGES.get(match["api"], ({}, {}))
    duration = float(end["ms"] or 0)
    bodies = renamed(
        key, raw(rename(request or {}, of_request)), raw(rename(response, of_response))
    )
    return Document(
        place=place,
        source=line.file,
        time=time - math.ceil(duration),
        broker=int(match["broker"]) if match["broker"] else None,
        is_from_log=True,
        connection=end["connection"],
        header=RequestHeader(key, int(match["version"]), int(match["number"]), match["client"]),
        request=bodies[0],
        response=bodies[1] if response is not None else NO_RESPONSE,
        fields=_rest(text[end.end() :], end["connection"], duration),
    )


def _flatten(response: dict[str, Any]) -> None:
    """Move the fields of `partition_header` (before Kafka 2.7) to the partition."""
    for topic in response.get("responses") or ():
        for partition in topic.get("partitionResponses") or ():
            partition.update(partition.pop("partitionHeader", {}))


def _body(key: int, text: str, at: int) -> tuple[Any, int]:
    """Parse the body at an offset; returns None if unreadable, and the end."""
    try:
        body, end = java_text.body_of(text, at)
    except java_text.UnparsableError:
        return None, _behind(text, at)
    return {} if may_hold_credentials(key) else body, end


def _behind(text: str, at: int) -> int:
    """Return where the response or the rest begins after an unreadable body."""
    begin = text.find(_RESPONSE, at)
    return begin if begin >= 0 else at


def _rest(text: str, connection: str, duration: float) -> Fields:
    principal, listener = _PRINCIPAL.search(text), _LISTENER.search(text)
    rest = {
        "responseTime": raw(duration),
        "host": raw(host_of(connection)),
        "principalIsAsserted": msgspec.Raw(b"true"),
        "isText": msgspec.Raw(b"true"),
    }
    if principal is not None:
        rest["principal"] = raw(principal[1])
    if listener is not None:
        rest["listener"] = raw(listener[1])
    return rest
