"""Checks the bodies of recorded exchanges against Kafka's message schemas.

Later readers take bodies as they are, so a line whose body has another shape is damaged.
"""

from collections.abc import Iterable
from functools import cache
from typing import Any

import msgspec

from brokertwin.protocol.batch_headers import Batch
from brokertwin.protocol.bodies import Float64, Int8, Int16, Int32, Int64, UInt16
from brokertwin.protocol.schemas import MODELLED_NAMES, NO_VERSIONS, Field, message
from brokertwin.recordings.formats.documents import Document
from brokertwin.state.core.events import RequestHeader

_TYPES: dict[str, Any] = {
    "bool": bool,
    "int8": Int8,
    "int16": Int16,
    "uint16": UInt16,
    "int32": Int32,
    "int64": Int64,
    "float64": Float64,
    "string": str,
    "uuid": str,
}
"""Types of values by Kafka's names; bytes and records are not checked."""

REQUIRED = frozenset({"brokerId", "transactionTimeoutMs"})
"""The fields of a body that later readers take for granted. Captures may lack others."""

REQUIRED_IN_LISTS = REQUIRED | frozenset(
    {
        "acknowledgeTypes",
        "baseOffset",
        "committedOffset",
        "deliveryCount",
        "deliveryState",
        "endOffset",
        "errorCode",
        "fetchOffset",
        "firstOffset",
        "groupId",
        "highWatermark",
        "index",
        "isr",
        "lastOffset",
        "lastOffsetDelta",
        "leaderEpoch",
        "leaderId",
        "lowWatermark",
        "memberId",
        "name",
        "nodeId",
        "offset",
        "partition",
        "partitionData",
        "partitionEpoch",
        "partitionErrorCode",
        "partitionIndex",
        "partitionIndexes",
        "partitionResponses",
        "partitions",
        "producerEpoch",
        "producerId",
        "resultsByPartition",
        "statusCode",
        "statusDetail",
        "timestamp",
        "topicId",
        "topicResults",
        "topics",
        "transactionResult",
        "transactionalId",
        "value",
    }
)
"""The same for the elements of lists."""

_BATCH: Any = msgspec.defstruct(
    "Batch",
    [
        (field.encode_name, field.type)
        if field.encode_name in REQUIRED_IN_LISTS
        else (field.encode_name, field.type | msgspec.UnsetType, msgspec.UNSET)
        for field in msgspec.structs.fields(Batch)
    ],
    kw_only=True,
)


def check(document: Document) -> None:
    """Raise msgspec.ValidationError if a body of a request does not fit Kafka's schema."""
    if document.read is None and "isText" in document.rest:
        return  # a text log may lack bodies
    check_bodies(document.header, document.request, document.response)


def check_bodies(header: RequestHeader, request: msgspec.Raw, response: msgspec.Raw) -> None:
    """Raise msgspec.ValidationError if a body does not fit Kafka's schema of its version."""
    decoders = _decoders(header.request_api_key, header.request_api_version)
    if decoders is None:
        return
    name = "request"
    try:
        decoders[0].decode(request)
        if bytes(response):
            name = "response"
            decoders[1].decode(response)
    except msgspec.ValidationError as error:
        where = str(error).replace("`$", f"`$.{name}", 1)
        raise msgspec.ValidationError(where) from None


_Decoders = tuple[msgspec.json.Decoder[Any], msgspec.json.Decoder[Any]]


@cache
def _decoders(key: int, version: int) -> _Decoders | None:
    """The decoders of requests and responses; None for APIs without a schema."""
    name = MODELLED_NAMES.get(key)
    if name is None:
        return None
    request, response = (
        _struct(name, message(f"{name}{kind}").fields, version, REQUIRED)
        for kind in ("Request", "Response")
    )
    return msgspec.json.Decoder(request), msgspec.json.Decoder(response | None)


def _struct(
    name: str, fields: Iterable[Field], version: int, required: frozenset[str]
) -> type[msgspec.Struct]:
    """A struct with the fields of a version, without those that are bytes."""
    found: list[tuple[str, Any, Any]] = []
    for field in fields:
        if version not in field.versions:
            continue
        if field.type == "records":
            found.append(("batches", list[_BATCH] | msgspec.UnsetType, msgspec.UNSET))
        if field.fields:
            made: Any = _struct(field.name, field.fields, version, REQUIRED_IN_LISTS)
        elif field.type in _TYPES:
            made = _TYPES[field.type]
        else:
            continue
        made = list[made] if field.is_array else made
        if field.nullable != NO_VERSIONS:
            made = made | None
        if field.name in required and field.tag is None:
            found.append((field.name, made, msgspec.NODEFAULT))
        else:
            found.append((field.name, made | msgspec.UnsetType, msgspec.UNSET))
    return msgspec.defstruct(name, found, kw_only=True, gc=False)
