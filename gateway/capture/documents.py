"""Documents: what is recorded of an exchange, in the shape of Kafka's request log.

`time` is when the request had arrived, in ms since 1970; `responseTime` is how many ms later the
answer was there. A record set is `"records": null`, `recordsSizeInBytes` and `batches`, the headers
of its whole batches; of metrics that clients push there are two sizes. Credentials are hidden
(`state/access/redaction.py`).

An exchange that cannot be read is recorded, too: with a `reason`, the sizes of its frames, and as
much of the header as is legible.

The end of a connection is a document of its own where a broker forgets something with it
(`Trait.BINDS_CONNECTION`).
"""

import traceback
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
import structlog

from brokertwin.gateway.admin import client_metrics
from brokertwin.gateway.protocol.codec import Body
from brokertwin.gateway.protocol.frames import MINIMAL_HEADER_BYTES, decode_request, decode_response
from brokertwin.gateway.protocol.primitives import NUMBERS, MalformedError, Reader
from brokertwin.gateway.records import records
from brokertwin.state.access.redaction import redact_exchange
from brokertwin.state.core.events import Kind
from brokertwin.state.core.kafka_apis import API_VERSIONS, FETCH, KAFKA_APIS, PRODUCE, SHARE_FETCH

NO_ACKS = 0
NOT_AN_API = -1

_log = structlog.get_logger("brokertwin.capture")
_encode = msgspec.json.Encoder().encode


@dataclass
class Exchange:
    """A request, and later its answer.

    Attributes:
        time: when the request had arrived, in ms since 1970.
        started: the same by the event loop's clock, in seconds.
        connection: the connection's name.
        principal: who asked; None where that is not known.
        api_key, version, correlation_id: from the header; `api_key` is NOT_AN_API where there is
            none.
        header: as the request log has it; None where it is not legible.
        request: the body as it came; record sets are taken out.
        response: the answer's body, None where there is none; see `is_answered`.
        is_answered: whether it is known what the broker answered; no answer is one, with acks 0.
        reasons: why something could not be read.
        sizes: of the frames in bytes, by field name, where one could not be read.
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
    is_answered: bool = False
    reasons: list[str] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)

    @property
    def api(self) -> str:
        """The name of the API in the request log, or what stands for it."""
        known = KAFKA_APIS.get(self.api_key)
        if known is not None:
            return known.name
        return "not read" if self.api_key == NOT_AN_API else f"API key {self.api_key}"

    @property
    def is_one_way(self) -> bool:
        """Whether the broker sends no answer: a Produce with acks 0."""
        is_produce = self.api_key == PRODUCE.key and self.request is not None
        return is_produce and (self.request or {}).get("acks") == NO_ACKS

    def read_request(self, frame: bytes) -> None:
        """Take over what a request's frame says. Never raises."""
        try:
            request = decode_request(frame)
            if request.api_key == PRODUCE.key:
                for topic in request.body["topicData"] or ():
                    _summarize(topic["partitionData"])
            elif request.api_key in client_metrics.APIS:
                client_metrics.summarize(request.body)
        except MalformedError as error:
            self._header_alone(frame, str(error))
        except Exception as error:  # noqa: BLE001 (traffic goes on, whatever is wrong here)
            self._header_alone(frame, fault("a request", error))
        else:
            self.header, self.request = request.header, request.body
            self.api_key, self.version = request.api_key, request.version
            self.correlation_id = int(request.header["correlationId"])

    def _header_alone(self, frame: bytes, reason: str) -> None:
        self.not_read("request", len(frame), reason)
        if len(frame) < MINIMAL_HEADER_BYTES:
            return
        reader = Reader(frame)
        self.api_key = reader.number(NUMBERS["int16"])
        self.version = reader.number(NUMBERS["int16"])
        self.correlation_id = reader.number(NUMBERS["int32"])
        self.header = {
            "requestApiKey": self.api_key,
            "requestApiVersion": self.version,
            "correlationId": self.correlation_id,
            "clientId": None,
            "requestApiKeyName": self.api,
        }

    def read_answer(self, frame: bytes) -> None:
        """Take over what the answer's frame says; its record sets stay bytes. Never raises."""
        if self.request is None:
            self.sizes["responseSizeInBytes"] = len(frame)
            return
        try:
            _, self.response = _decode_response(self.api_key, self.version, frame)
            self.is_answered = True
        except MalformedError as error:
            self.not_read("response", len(frame), str(error))
        except Exception as error:  # noqa: BLE001 (traffic goes on, whatever is wrong here)
            self.not_read("response", len(frame), fault("an answer", error))

    def not_read(self, kind: str, size: int, reason: str) -> None:
        """Note that the frame of the `request` or `response` cannot be read, and why."""
        self.sizes[f"{kind}SizeInBytes"] = size
        self.reasons.append(f"{kind}: {reason}")

    def document(self, ended: float, is_delivered: bool, broker: int | None) -> bytes:
        """The document, one line of JSON without its end.

        Args:
            ended: when the answer was there, by the event loop's clock, in seconds.
            is_delivered: whether the client got it.
            broker: the node id, None where it goes without saying.
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
        if self.is_answered:
            document["response"] = response
        document["connection"] = self.connection
        document["responseTime"] = 0.0 if self.is_one_way else duration_ms
        if self.principal is not None:
            document["principal"] = self.principal
        if not is_delivered:
            document["delivered"] = False
        if self.reasons:
            document["reason"] = "; ".join(self.reasons)
        return _encode(document | self.sizes)


class End(NamedTuple):
    """A connection has ended; `time` is when, in ms since 1970."""

    time: int
    connection: str

    def document(self, broker: int | None) -> bytes:
        """The document; `broker` as that of an exchange."""
        told: dict[str, Any] = {"time": self.time, "kind": Kind.DISCONNECT}
        if broker is not None:
            told["broker"] = broker
        return _encode(told | {"connection": self.connection})


def fault(what: str, error: Exception) -> str:
    """Log a fault of ours in reading or writing something; gives back a reason without values.

    Neither the error's text nor variables are logged: they may have bytes of a login.
    """
    where = "".join(traceback.format_tb(error.__traceback__))
    _log.error("fault", what=what, error=type(error).__name__, where=where)
    return f"fault: {type(error).__name__}"


def _decode_response(api_key: int, version: int, frame: bytes) -> tuple[int, Body]:
    """As `frames.decode_response`; ApiVersions refuses a version in the form of version 0."""
    try:
        return decode_response(api_key, version, frame)
    except MalformedError:
        if api_key != API_VERSIONS.key or version == 0:
            raise
        return decode_response(api_key, 0, frame)


def _summarize(partitions: list[Body] | None) -> None:
    """Put headers in the place of the record sets."""
    for partition in partitions or ():
        data = partition.get("records") or b""
        partition["records"] = None
        partition["recordsSizeInBytes"] = len(data)
        partition["batches"] = records.batch_headers(data)
