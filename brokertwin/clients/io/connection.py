"""A client's connection: a non-blocking socket, TLS, a login, then frames.

    CONNECTING -> SHAKING (TLS) -> LOGGING_IN (SASL) -> OPEN

A broker can limit the session time. The client then logs in again on the same connection, before a
request near the end of that time (KIP-368).

Source: `KafkaChannel`, `SslTransportLayer`, `SaslClientAuthenticator` in Kafka.
"""

import random
import selectors
import socket
import ssl
import struct
from collections.abc import Iterator, Mapping
from contextlib import suppress
from enum import Enum, auto
from typing import Any

from brokertwin.clients.client_loop import Connected, NetworkEvent, ResponseReceived, Send
from brokertwin.clients.fetcher import Records
from brokertwin.clients.io.records import decode_records
from brokertwin.clients.io.sasl import Exchange, SaslAuthenticationError, SaslRequest, exchange
from brokertwin.clients.io.security import ClientSecurity
from brokertwin.clients.partitions import Node
from brokertwin.protocol.errors import Error
from brokertwin.protocol.frames import RequestFrame, decode_response, encode_request
from brokertwin.protocol.kafka_apis import API_KEYS, API_VERSIONS, KAFKA_APIS
from brokertwin.protocol.primitives import MalformedError
from brokertwin.wording import counted, with_full_stop

WITH_RECORDS = frozenset({"FETCH", "SHARE_FETCH"})
CORRELATION_ID = struct.Struct(">i")


def decode_frame(
    node: int, in_flight: dict[int, tuple[int, int]], frame: bytes
) -> ResponseReceived:
    """Decode a response frame and remove its request from `in_flight`.

    `in_flight` has API and version by correlation id. Raises MalformedError for an unknown request.
    """
    (request_id,) = CORRELATION_ID.unpack_from(frame)
    if request_id not in in_flight:
        raise MalformedError(f"a response to request {request_id}, which is not in flight")
    key, version = in_flight.pop(request_id)
    if key == API_VERSIONS.key and frame[4:6] == Error.UNSUPPORTED_VERSION.to_bytes(2, "big"):
        version = 0  # sent by a broker that does not support the version (KIP-511)
    _, body = decode_response(key, version, frame)
    records = _take_records(body) if KAFKA_APIS[key].name in WITH_RECORDS else {}
    return ResponseReceived(node, request_id, body, records)


def _take_records(body: dict[str, Any]) -> Mapping[tuple[str, int], Records]:
    """Remove and decode the record bytes of a Fetch or ShareFetch response.

    A ShareFetch response can have more records than are acquired, because batches are whole.
    """
    result = {}
    for topic in body["responses"]:
        name = topic.get("topic") or topic.get("topicId")
        for partition in topic["partitions"]:
            data = partition.pop("records", None)
            records = decode_records(data, partition.get("abortedTransactions")) if data else None
            if records is not None:
                result[name, partition["partitionIndex"]] = records
    return result


READ_BYTES = 1 << 18
FRAME_BYTES_MAX = 1 << 30
SIZE = struct.Struct(">i")
LOGIN_ID = -2
"""Correlation id of login requests; those of requests are not negative."""

RENEWAL = (0.85, 0.95)
"""When the client logs in again, as fractions of the session time.

Source: `SaslClientAuthenticator` in Kafka.
"""

_NOT_NOW = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class ConnectionPhase(Enum):
    CONNECTING = auto()
    SHAKING = auto()
    LOGGING_IN = auto()
    OPEN = auto()


class ClientConnection:
    """One socket.

    Attributes:
        in_flight: API and version of each request, by correlation id.
    """

    def __init__(
        self, node: Node, made: socket.socket, client_id: str, security: ClientSecurity
    ) -> None:
        self.node = node.id
        self.socket = made
        self.in_flight: dict[int, tuple[int, int]] = {}
        self.phase = ConnectionPhase.CONNECTING
        self._at = f"{node.host}:{node.port}"
        self._host = node.host
        self._client_id = client_id
        self._security = security
        self._exchange: Exchange | None = None
        self._handshake_wants_write = False
        self._renew_at_ms: float | None = None
        self._out = bytearray()
        self._held = bytearray()
        self._read = bytearray()

    @property
    def interest(self) -> int:
        if self.phase is ConnectionPhase.CONNECTING:
            return selectors.EVENT_WRITE
        wants_write = bool(self._out) or self._handshake_wants_write
        return selectors.EVENT_READ | (selectors.EVENT_WRITE if wants_write else 0)

    # Connection setup

    @property
    def is_open(self) -> bool:
        return self.phase is ConnectionPhase.OPEN

    def happened(self, now_ms: int) -> Iterator[NetworkEvent]:
        """Process a ready socket; yields events.

        Raises:
            OSError: the connection is lost.
            MalformedError: the bytes are no response.
            SaslAuthenticationError: the broker rejects the client.
        """
        if self.phase is ConnectionPhase.CONNECTING:
            self._connected()
        if self.phase is ConnectionPhase.SHAKING and self._shaken():
            self._begin_login(ConnectionPhase.LOGGING_IN)
            if self.is_open:
                yield Connected(self.node)
        if self.phase in (ConnectionPhase.LOGGING_IN, ConnectionPhase.OPEN):
            self._flush()
            yield from self._frames(now_ms)

    def _connected(self) -> None:
        if self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            raise ConnectionError
        self.phase = ConnectionPhase.SHAKING
        if self._security.context is not None:
            self.socket = self._security.context.wrap_socket(
                self.socket, server_hostname=self._host, do_handshake_on_connect=False
            )

    def _shaken(self) -> bool:
        """Whether TLS is established. Raises OSError, SaslAuthenticationError."""
        if not isinstance(self.socket, ssl.SSLSocket):
            return True
        self._handshake_wants_write = False
        try:
            self.socket.do_handshake()
        except ssl.SSLWantReadError:
            return False
        except ssl.SSLWantWriteError:
            self._handshake_wants_write = True
            return False
        except ssl.SSLEOFError as error:
            raise ConnectionError from error
        except ssl.SSLError as error:
            raise self._not_trusted(error) from None
        return True

    def _not_trusted(self, error: ssl.SSLError) -> SaslAuthenticationError:
        reason = getattr(error, "verify_message", None) or (error.reason or str(error)).lower()
        return SaslAuthenticationError(
            with_full_stop(f"TLS with {self._at} failed: {reason.replace('_', ' ')}"),
            "Check that its listener uses TLS and that ssl.truststore.location has its authority.",
        )

    def _begin_login(self, phase: ConnectionPhase) -> None:
        """Start a login if configured; otherwise the connection is open."""
        if self._security.login is None:
            self.phase = ConnectionPhase.OPEN
            return
        self.phase = phase
        self._exchange = exchange(self._security.login)
        self._send_login_request(next(self._exchange))

    def _send_login_request(self, login_request: SaslRequest) -> None:
        api, version, body = login_request
        self.in_flight[LOGIN_ID] = API_KEYS[api], version
        self._out += self._framed(api, version, LOGIN_ID, body)

    def _take_login(self, now_ms: int, frame: bytes) -> None:
        """Continue the login. Raises SaslAuthenticationError, MalformedError."""
        assert self._exchange is not None, "a login is in progress"
        _, body = decode_response(*self.in_flight.pop(LOGIN_ID), frame)
        try:
            self._send_login_request(self._exchange.send(body))
        except StopIteration as done:
            lifetime_ms: int = done.value
            if lifetime_ms:
                self._renew_at_ms = now_ms + lifetime_ms * random.uniform(*RENEWAL)
            self._exchange = None
            self.phase = ConnectionPhase.OPEN
            self._out += self._held
            self._held.clear()

    # Frames

    def send(self, now_ms: int, send: Send, body: dict[str, Any]) -> None:
        """Send a request, after a new login if the session ends soon. Raises OSError."""
        framed = self._framed(send.api, send.version, send.request_id, body)
        if send.expects_response:
            self.in_flight[send.request_id] = API_KEYS[send.api], send.version
        if self._renew_at_ms is not None and now_ms >= self._renew_at_ms:
            self._renew_at_ms = None
            self._begin_login(ConnectionPhase.OPEN)
        (self._held if self._exchange else self._out).extend(framed)
        self._flush()

    def _framed(self, api: str, version: int, request_id: int, body: dict[str, Any]) -> bytes:
        header = {
            "requestApiKey": API_KEYS[api],
            "requestApiVersion": version,
            "correlationId": request_id,
            "clientId": self._client_id,
        }
        frame = encode_request(RequestFrame(header, body))
        return SIZE.pack(len(frame)) + frame

    def _flush(self) -> None:
        if self._out:
            with suppress(*_NOT_NOW):
                del self._out[: self.socket.send(self._out)]

    def _frames(self, now_ms: int) -> Iterator[NetworkEvent]:
        is_lost = self._receive()
        while len(self._read) >= SIZE.size:
            (size,) = SIZE.unpack_from(self._read)
            if not CORRELATION_ID.size <= size <= FRAME_BYTES_MAX:
                raise MalformedError(f"a frame of {counted(size, 'byte')}")
            end = SIZE.size + size
            if len(self._read) < end:
                break
            frame = bytes(self._read[SIZE.size : end])
            del self._read[:end]
            if self._exchange is None or CORRELATION_ID.unpack_from(frame)[0] != LOGIN_ID:
                yield decode_frame(self.node, self.in_flight, frame)
                continue
            was_open = self.is_open
            self._take_login(now_ms, frame)
            self._flush()
            if self.is_open and not was_open:
                yield Connected(self.node)
        if is_lost:
            raise ConnectionError

    def _receive(self) -> bool:
        """Read all available bytes; returns whether the connection ended.

        Reads TLS until nothing is pending, because a selector does not see decrypted bytes.
        """
        while True:
            try:
                data = self.socket.recv(READ_BYTES)
            except _NOT_NOW:
                return False
            except ssl.SSLEOFError as error:
                raise ConnectionError from error
            except ssl.SSLError as error:  # with TLS 1.3 a missing certificate is reported here
                raise self._not_trusted(error) from None
            if not data:
                return True
            self._read += data
            if not (isinstance(self.socket, ssl.SSLSocket) and self.socket.pending()):
                return False
