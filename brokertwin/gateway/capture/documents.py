"""Documents: recorded exchanges, in the form of Kafka's request log.

`time` is the arrival of the request in ms since 1970. `responseTime` is the time from then to the
response in ms. A record set is `"records": null`, `recordsSizeInBytes` and `batches`, the headers
of its complete batches. Metrics pushed by clients are two sizes. Credentials are redacted
(`state/access/redaction.py`).

An exchange that cannot be decoded has a `reason`, the sizes of its frames, and the legible part of
its header.

The end of a connection is a document of its own if the broker keeps state for the connection
(`Trait.BINDS_CONNECTION`).
"""

import traceback
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
import structlog

from brokertwin.gateway.admin import client_metrics
from brokertwin.protocol import record_batches as records
from brokertwin.protocol.bodies import render
from brokertwin.protocol.codec import Body
from brokertwin.protocol.frames import (
    MINIMAL_HEADER,
    client_id_of,
    decode_request,
    decode_response,
)
from brokertwin.protocol.kafka_apis import API_VERSIONS, FETCH, KAFKA_APIS, PRODUCE, SHARE_FETCH
from brokertwin.protocol.primitives import MalformedError
from brokertwin.state.access.redaction import redact_exchange
from brokertwin.state.core.events import Kind

NO_ACKS = 0
NOT_AN_API = -1

_log = structlog.get_logger("brokertwin.capture")
_encode = msgspec.json.Encoder().encode


@dataclass
class CapturedExchange:
    """A request, and later its response.

    Attributes:
        time: arrival of the request, in ms since 1970.
        started: the same by the event loop's clock, in s.
        principal: principal of the client; None if unknown.
        api_key, version, correlation_id: from the header; `api_key` is NOT_AN_API without one.
        header: as in the request log; None if it is not legible.
        request: body as received, without record sets.
        response: body of the response, or None; see `is_complete`.
        is_complete: whether the response is known; True for acks 0, which has none.
        reasons: why something could not be decoded.
        sizes: frame sizes in bytes by field name, if one could not be decoded.
        fault: faults that a proxy has injected.
    """

    time: int
    started: float
    connection: str
    principal: str | None
    api_key: int = NOT_AN_API
    version: int = 0
    correlation_id: int = 0
    header: Body | None = None
    request: Body | None = None
    response: Body | None = None
    is_complete: bool = False
    reasons: list[str] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)
    fault: str | None = None

    @property
    def api(self) -> str:
        """Name of the API in the request log, or a substitute."""
        kafka_api = KAFKA_APIS.get(self.api_key)
        if kafka_api is not None:
            return kafka_api.name
        return "not read" if self.api_key == NOT_AN_API else f"API key {self.api_key}"

    @property
    def is_one_way(self) -> bool:
        """True if the broker sends no response: Produce with acks 0."""
        is_produce = self.api_key == PRODUCE.key and self.request is not None
        return is_produce and (self.request or {}).get("acks") == NO_ACKS

    def read_request(self, frame: bytes) -> None:
        """Decode a request frame. Never raises."""
        try:
            request = decode_request(frame)
            if request.api_key == PRODUCE.key:
                for topic in request.body["topicData"] or ():
                    _summarize(topic["partitionData"])
            elif request.api_key in client_metrics.APIS:
                client_metrics.summarize(request.body)
        except MalformedError as error:
            self._header_alone(frame, str(error))
        except Exception as error:  # noqa: BLE001 (a fault must not stop the traffic)
            self._header_alone(frame, fault("a request", error))
        else:
            self.header, self.request = request.header, request.body
            self.api_key, self.version = request.api_key, request.version
            self.correlation_id = int(request.header["correlationId"])

    def _header_alone(self, frame: bytes, reason: str) -> None:
        self.not_read("request", len(frame), reason)
        if len(frame) < MINIMAL_HEADER.size:
            return
        self.api_key, self.version, self.correlation_id = MINIMAL_HEADER.unpack_from(frame)
        self.header = {
            "requestApiKey": self.api_key,
            "requestApiVersion": self.version,
            "correlationId": self.correlation_id,
            "clientId": client_id_of(frame) if self.api_key in KAFKA_APIS else None,
            "requestApiKeyName": self.api,
        }

    def read_response(self, frame: bytes) -> None:
        """Decode a response frame; record sets stay bytes. Never raises."""
        if self.request is None:
            self.sizes["responseSizeInBytes"] = len(frame)
            return
        try:
            _, self.response = _decode_response(self.api_key, self.version, frame)
            self.is_complete = True
        except MalformedError as error:
            self.not_read("response", len(frame), str(error))
        except Exception as error:  # noqa: BLE001 (a fault must not stop the traffic)
            self.not_read("response", len(frame), fault("a response", error))

    def not_read(self, kind: str, size: int, reason: str) -> None:
        """Note why the frame of the `request` or `response` could not be decoded."""
        self.sizes[f"{kind}SizeInBytes"] = size
        self.reasons.append(f"{kind}: {reason}")

    def document(self, ended: float, is_delivered: bool, broker: int | None) -> bytes:
        """Return the document: one line of JSON without its end.

        Args:
            ended: time of the response by the event loop's clock, in s.
            is_delivered: whether the client received it.
            broker: node id; None if there is only one broker.
        """
        if self.response is not None and self.api_key in (FETCH.key, SHARE_FETCH.key):
            for topic in self.response["responses"] or ():
                _summarize(topic["partitions"])
        request, response = redact_exchange(self.api_key, self.request, self.response)
        duration_ms = round((ended - self.started) * 1000, 3)
        document: dict[str, Any] = {"time": self.time}
        if broker is not None:
            document["broker"] = broker
        if self.header is not None:
            document["requestHeader"] = self.header
        document["request"] = request
        if self.is_complete:
            document["response"] = response
        document["connection"] = self.connection
        document["responseTime"] = 0.0 if self.is_one_way else duration_ms
        if self.principal is not None:
            document["principal"] = self.principal
        if not is_delivered:
            document["delivered"] = False
        if self.fault is not None:
            document["fault"] = self.fault
        if self.reasons:
            document["reason"] = "; ".join(self.reasons)
        return _encode(document | self.sizes)


class End(NamedTuple):
    """End of a connection; `time` is in ms since 1970."""

    time: int
    connection: str

    def document(self, broker: int | None) -> bytes:
        """Return the document; `broker` as for an exchange."""
        document: dict[str, Any] = {"time": self.time, "kind": Kind.DISCONNECT}
        if broker is not None:
            document["broker"] = broker
        return _encode(document | {"connection": self.connection})


def fault(what: str, error: Exception) -> str:
    """Log an internal fault and return a reason without values.

    Neither the error message nor variables are logged, because they may contain credentials.
    """
    where = "".join(traceback.format_tb(error.__traceback__))
    _log.error("fault", what=what, error=type(error).__name__, where=where)
    return f"fault: {type(error).__name__}"


def _decode_response(api_key: int, version: int, frame: bytes) -> tuple[int, Body]:
    """Decode a response; the response to a refused ApiVersions version has version 0."""
    try:
        return decode_response(api_key, version, frame)
    except MalformedError:
        if api_key != API_VERSIONS.key or version == 0:
            raise
        return decode_response(api_key, 0, frame)


def _summarize(partitions: list[Body] | None) -> None:
    """Replace record sets by batch headers, once."""
    for partition in partitions or ():
        if "batches" in partition:
            continue
        data = partition.get("records") or b""
        partition["records"] = None
        partition["recordsSizeInBytes"] = len(data)
        partition["batches"] = [render(each, 0) for each in records.batch_headers(data)]
