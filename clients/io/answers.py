"""Answers out of frames, with the records that a Fetch answer has."""

import struct
from collections.abc import Mapping
from typing import Any

from brokertwin.clients.client_loop import Answered
from brokertwin.clients.fetcher import Records
from brokertwin.clients.io.records import decode_records
from brokertwin.gateway.protocol.frames import decode_response
from brokertwin.gateway.protocol.primitives import MalformedError
from brokertwin.state.core.errors import Error
from brokertwin.state.core.kafka_apis import API_VERSIONS, KAFKA_APIS

WITH_RECORDS = frozenset({"FETCH", "SHARE_FETCH"})
CORRELATION_ID = struct.Struct(">i")


def answer(node: int, asked: dict[int, tuple[int, int]], frame: bytes) -> Answered:
    """What a frame of at least a correlation id says; its request is under way no more.

    `asked` has API and version of what is under way. Raises MalformedError where it is not of that.
    """
    (request_id,) = CORRELATION_ID.unpack_from(frame)
    if request_id not in asked:
        raise MalformedError(f"a response to request {request_id}, which is not in flight")
    key, version = asked.pop(request_id)
    if key == API_VERSIONS.key and frame[4:6] == Error.UNSUPPORTED_VERSION.to_bytes(2, "big"):
        version = 0  # the answer of a broker that does not know the version (KIP-511)
    _, body = decode_response(key, version, frame)
    records = _take_records(body) if KAFKA_APIS[key].name in WITH_RECORDS else {}
    return Answered(node, request_id, body, records)


def _take_records(body: dict[str, Any]) -> Mapping[tuple[str, int], Records]:
    """Takes the record bytes out of the answer to a Fetch or a ShareFetch, and reads them.

    Of the latter there may be more than is acquired, whole batches.
    """
    found = {}
    for topic in body["responses"]:
        name = topic.get("topic") or topic.get("topicId")
        for partition in topic["partitions"]:
            data = partition.pop("records", None)
            records = decode_records(data, partition.get("abortedTransactions")) if data else None
            if records is not None:
                found[name, partition["partitionIndex"]] = records
    return found
