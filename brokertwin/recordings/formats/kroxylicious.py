"""Kroxylicious' protocol logger: pairs request and response entries.

Kroxylicious 0.24 introduced the filter `ProtocolLogger`. An entry is a JSON object over several
lines. Its wrapper depends on the proxy's log format:

- `KROXYLICIOUS_LOG_FORMAT=json`: a JSON document for each entry, with the entry in `message`, the
  time in `@timestamp`, and the connection in `sessionId`, there or in `mdc`;
- the text format: a prefix with the time in whole seconds, the entry, and
  `{..., sessionId=...}` after its last brace.

A layout with the bare message has no time and connection; such entries are skipped.

If a filter chain has the logger twice, each entry is logged twice and counted once: the request of
the last filter and the response of the first, which is what the broker received and sent.

Entries have no record sets or sizes, no principal and no client address. Bodies with credentials
are withheld. The proxy's own requests have negative correlation ids and are skipped.

Source: `ProtocolLoggerFilter`, `MessageFormatter` and `log4j2.yaml` in Kroxylicious.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from brokertwin.patterns import later
from brokertwin.protocol.bodies import Int16, Int32
from brokertwin.protocol.kafka_apis import API_KEYS
from brokertwin.recordings.formats.documents import (
    NO_RESPONSE,
    Document,
    UnpairedDocuments,
    UnreadableError,
    raw,
)
from brokertwin.recordings.formats.lines import SourceLine
from brokertwin.state.core.events import RequestHeader

PENDING_MAX = 100_000
"""Maximum number of pending requests; beyond it the oldest gets no response."""

DONE_MAX = 10_000
"""Maximum number of remembered complete exchanges."""

FILTERS_MS = 50
"""Maximum delay until another filter logs the same request."""

REPEATED = "an entry that another filter of the proxy has logged, too"
NO_REQUEST = "a response whose request is not in the log"
WITHHELD = "withheld by the proxy"
ENTRY_START = later(rb"\{\s*\"header\"")
SESSION = later(rb"\bsessionId=([^,}\s]+)")


class _Header(msgspec.Struct, rename="camel"):
    type: str
    api_key: str
    api_version: Int16
    correlation_id: Int32
    client_id: str | None = None


class _Entry(msgspec.Struct, rename="camel"):
    header: _Header
    payload: msgspec.Raw = msgspec.Raw(b"null")
    payload_withheld: str | None = None


_decoder = msgspec.json.Decoder(_Entry)


class Wrapped(NamedTuple):
    """A log entry: time in ms since 1970, connection, JSON.

    `unit_ms` is the precision of the time, `label` names a container or pod around it.
    """

    line: SourceLine
    time: int | None
    session: str
    entry: bytes
    unit_ms: int = 1
    label: str = ""


class _Request(NamedTuple):
    line: SourceLine
    time: int
    entry: _Entry
    label: str


class Pairs:
    def __init__(self) -> None:
        self._pending: dict[tuple[str, int], _Request] = {}
        self._done: dict[tuple[str, int], _Request] = {}

    def take(self, wrapped: Wrapped) -> Iterator[Document | UnpairedDocuments]:
        """Yield the documents that the entry completes.

        Raises:
            UnreadableError: the entry is damaged.
            msgspec.MsgspecError: it is not JSON, or has another shape.
        """
        entry = _decoder.decode(wrapped.entry)
        header = entry.header
        if header.api_key not in API_KEYS:
            raise UnreadableError("unknown API", f"apiKey is {header.api_key!r:.100}")
        if header.type not in ("REQUEST", "RESPONSE"):
            raise UnreadableError("wrong type", f"header.type is {header.type!r:.100}")
        if wrapped.time is None or not wrapped.session:
            yield _left(wrapped, "an entry without time or sessionId", header.api_key)
        elif entry.payload_withheld is not None:
            if header.type == "REQUEST":
                yield _left(wrapped, WITHHELD, header.api_key)
        elif header.correlation_id < 0:
            if header.type == "REQUEST":
                yield _left(wrapped, "a request of the proxy itself", header.api_key)
        elif header.type == "REQUEST":
            yield from self._request(wrapped, wrapped.time, entry)
        else:
            yield self._response(wrapped, wrapped.time, entry)

    def missed(self, wrapped: Wrapped) -> None:
        """Called with a response whose request is not in the log."""

    def rest(self) -> Iterator[Document]:
        """Yield the requests without a response at the end of the log."""
        for session, correlation_id in list(self._pending):
            yield self._without_response((session, correlation_id))

    def _request(
        self, wrapped: Wrapped, time: int, entry: _Entry
    ) -> Iterator[Document | UnpairedDocuments]:
        key = (wrapped.session, entry.header.correlation_id)
        before = self._pending.get(key)
        if before is None and _has_acks_0(entry):
            before = self._done.get(key)
        if before is not None and _is_by_another_filter(before, wrapped, time, entry):
            if key in self._pending:
                self._pending[key] = before._replace(entry=entry)
            yield _left(wrapped, REPEATED, entry.header.api_key)
            return
        if key in self._pending:
            yield self._without_response(key)
        self._pending[key] = _Request(wrapped.line, time, entry, wrapped.label)
        if _has_acks_0(entry):
            yield self._without_response(key)
        elif len(self._pending) > PENDING_MAX:
            yield self._without_response(next(iter(self._pending)))

    def _response(self, wrapped: Wrapped, time: int, entry: _Entry) -> Document | UnpairedDocuments:
        key = (wrapped.session, entry.header.correlation_id)
        request = self._pending.pop(key, None)
        if request is None:
            if key not in self._done:
                self.missed(wrapped)
            reason = REPEATED if key in self._done else NO_REQUEST
            return _left(wrapped, reason, entry.header.api_key)
        self._keep(key, request)
        response = _without_records(entry.payload, entry.header.api_key)
        # the latest time of the response: without a fraction it is up to 1 s early
        duration = float(max(time - request.time, 0) + wrapped.unit_ms - 1)
        return self._document(wrapped.session, request, response, duration)

    def _keep(self, key: tuple[str, int], request: _Request) -> None:
        """Remember a complete exchange, for the entries of another filter."""
        self._done.pop(key, None)
        self._done[key] = request
        if len(self._done) > DONE_MAX:
            del self._done[next(iter(self._done))]

    def _without_response(self, key: tuple[str, int]) -> Document:
        request = self._pending.pop(key)
        self._keep(key, request)
        none = msgspec.Raw(b"null") if _has_acks_0(request.entry) else NO_RESPONSE
        return self._document(key[0], request, none, 0.0)

    def _document(
        self, session: str, request: _Request, response: msgspec.Raw, duration: float
    ) -> Document:
        header = request.entry.header
        return Document(
            place=request.line.place,
            source=request.line.file,
            time=request.time,
            broker=None,
            is_from_log=True,
            connection=session,
            header=RequestHeader(
                request_api_key=API_KEYS[header.api_key],
                request_api_version=header.api_version,
                correlation_id=header.correlation_id,
                client_id=header.client_id,
                request_api_key_name=header.api_key,
            ),
            request=_without_records(request.entry.payload, header.api_key),
            response=response,
            fields={"responseTime": raw(duration), "principalIsAsserted": msgspec.Raw(b"true")},
            label=request.label,
        )


def _left(wrapped: Wrapped, reason: str, api: str) -> UnpairedDocuments:
    return UnpairedDocuments(wrapped.line, reason, api=api, is_dead=False)


def _is_by_another_filter(before: _Request, wrapped: Wrapped, time: int, entry: _Entry) -> bool:
    """Whether another filter logged the request at about the same time."""
    is_same = before.entry.header.api_key == entry.header.api_key
    return is_same and 0 <= time - before.time <= max(FILTERS_MS, wrapped.unit_ms)


def _has_acks_0(entry: _Entry) -> bool:
    if entry.header.api_key != "PRODUCE":
        return False
    body = msgspec.json.decode(entry.payload)
    return isinstance(body, dict) and body.get("acks") == 0


def _without_records(body: msgspec.Raw, api: str) -> msgspec.Raw:
    """Remove record sets, which the proxy always writes as ""."""
    lists = {"PRODUCE": ("topicData", "partitionData"), "FETCH": ("responses", "partitions")}
    if api not in lists:
        return body
    topics_name, partitions_name = lists[api]
    decoded = msgspec.json.decode(body)
    for topic in _dicts(decoded, topics_name):
        for partition in _dicts(topic, partitions_name):
            if partition.get("records") == "":
                partition["records"] = None
    return raw(decoded)


def _dicts(body: Any, name: str) -> list[dict[str, Any]]:
    values = body.get(name) if isinstance(body, dict) else None
    if not isinstance(values, list):
        return []
    return [value for value in values if isinstance(value, dict)]
