"""One connection of a client: a socket that does not block, TLS over it, a login, then frames.

    CONNECTING -> SHAKING (TLS) -> LOGGING_IN (SASL) -> OPEN

A broker that ends sessions says how long one lasts; before it is over the client logs in again on
the same connection, with its next request, which waits for that (KIP-368).

Source: `KafkaChannel`, `SslTransportLayer`, `SaslClientAuthenticator` in Kafka.
"""

import random
import selectors
import socket
import ssl
import struct
from collections.abc import Iterator
from contextlib import suppress
from enum import Enum, auto

from brokertwin.clients.client_loop import Connected, NetworkEvent
from brokertwin.clients.io.answers import CORRELATION_ID, answer
from brokertwin.clients.io.sasl import Ask, AuthenticationError, Exchange, exchange
from brokertwin.clients.io.security import Security
from brokertwin.clients.partitions import Node
from brokertwin.gateway.protocol.frames import Request, decode_response, encode_request
from brokertwin.gateway.protocol.primitives import MalformedError
from brokertwin.state.core.kafka_apis import KAFKA_APIS
from brokertwin.wording import counted

READ_BYTES = 1 << 18
FRAME_BYTES_MAX = 1 << 30
SIZE = struct.Struct(">i")
KEYS = {api.name: key for key, api in KAFKA_APIS.items()}
LOGIN_ID = -2
"""The correlation id of a login's requests: the client's own are not negative."""

RENEWAL = (0.85, 0.95)
"""In which part of a session's time the client logs in again (`SaslClientAuthenticator`)."""

_NOT_NOW = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class Phase(Enum):
    """How far a connection is."""

    CONNECTING = auto()
    SHAKING = auto()
    LOGGING_IN = auto()
    OPEN = auto()


class Connection:
    """One socket.

    Attributes:
        asked: requests that wait for an answer, by correlation id: API and version.
    """

    def __init__(self, node: Node, made: socket.socket, client_id: str, security: Security) -> None:
        self.node = node.id
        self.socket = made
        self.asked: dict[int, tuple[int, int]] = {}
        self.phase = Phase.CONNECTING
        self._at = f"{node.host}:{node.port}"
        self._host = node.host
        self._client_id = client_id
        self._security = security
        self._exchange: Exchange | None = None
        self._wants_to_shake = False
        self._renew_at_ms: float | None = None
        self._out = bytearray()
        self._held = bytearray()
        self._read = bytearray()

    @property
    def interest(self) -> int:
        """What a selector has to look for."""
        if self.phase is Phase.CONNECTING:
            return selectors.EVENT_WRITE
        wants_to_write = bool(self._out) or self._wants_to_shake
        return selectors.EVENT_READ | (selectors.EVENT_WRITE if wants_to_write else 0)

    # The way to an open connection

    @property
    def is_open(self) -> bool:
        """Whether requests may be sent."""
        return self.phase is Phase.OPEN

    def happened(self, now_ms: int) -> Iterator[NetworkEvent]:
        """Goes on with it: that it is open, and answers.

        Raises:
            OSError: the connection is lost.
            MalformedError: what came is no answer.
            AuthenticationError: the broker does not let the client in.
        """
        if self.phase is Phase.CONNECTING:
            self._connected()
        if self.phase is Phase.SHAKING and self._shaken():
            self._begin_login(Phase.LOGGING_IN)
            if self.is_open:
                yield Connected(self.node)
        if self.phase in (Phase.LOGGING_IN, Phase.OPEN):
            self._flush()
            yield from self._frames(now_ms)

    def _connected(self) -> None:
        if self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            raise ConnectionError
        self.phase = Phase.SHAKING
        if self._security.context is not None:
            self.socket = self._security.context.wrap_socket(
                self.socket, server_hostname=self._host, do_handshake_on_connect=False
            )

    def _shaken(self) -> bool:
        """Whether TLS stands. Raises OSError, AuthenticationError."""
        if not isinstance(self.socket, ssl.SSLSocket):
            return True
        self._wants_to_shake = False
        try:
            self.socket.do_handshake()
        except ssl.SSLWantReadError:
            return False
        except ssl.SSLWantWriteError:
            self._wants_to_shake = True
            return False
        except ssl.SSLEOFError as error:
            raise ConnectionError from error
        except ssl.SSLError as error:
            raise self._not_trusted(error) from None
        return True

    def _not_trusted(self, error: ssl.SSLError) -> AuthenticationError:
        reason = getattr(error, "verify_message", None) or (error.reason or str(error)).lower()
        return AuthenticationError(
            f"TLS with {self._at} failed: {reason.replace('_', ' ').rstrip('.')}.",
            "Check that its listener uses TLS and that ssl.truststore.location has its authority.",
        )

    def _begin_login(self, phase: Phase) -> None:
        """Where there is a login; else the connection is open."""
        if self._security.login is None:
            self.phase = Phase.OPEN
            return
        self.phase = phase
        self._exchange = exchange(self._security.login)
        self._ask(next(self._exchange))

    def _ask(self, ask: Ask) -> None:
        key = KEYS[ask.api]
        header = {
            "requestApiKey": key,
            "requestApiVersion": ask.version,
            "correlationId": LOGIN_ID,
            "clientId": self._client_id,
        }
        frame = encode_request(Request(header, ask.body))
        self.asked[LOGIN_ID] = key, ask.version
        self._out += SIZE.pack(len(frame)) + frame

    def _take_login(self, now_ms: int, frame: bytes) -> None:
        """Raises AuthenticationError, MalformedError."""
        assert self._exchange is not None, "an answer is of an exchange"
        _, body = decode_response(*self.asked.pop(LOGIN_ID), frame)
        try:
            self._ask(self._exchange.send(body))
        except StopIteration as done:
            lifetime_ms: int = done.value
            if lifetime_ms:
                self._renew_at_ms = now_ms + lifetime_ms * random.uniform(*RENEWAL)
            self._exchange = None
            self.phase = Phase.OPEN
            self._out += self._held
            self._held.clear()

    # Frames

    def send(self, now_ms: int, frame: bytes) -> None:
        """Sends what goes out now, where the session ends soon behind a login. Raises OSError."""
        if self._renew_at_ms is not None and now_ms >= self._renew_at_ms:
            self._renew_at_ms = None
            self._begin_login(Phase.OPEN)
        (self._held if self._exchange else self._out).extend(SIZE.pack(len(frame)) + frame)
        self._flush()

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
                yield answer(self.node, self.asked, frame)
                continue
            was_open = self.is_open
            self._take_login(now_ms, frame)
            self._flush()
            if self.is_open and not was_open:
                yield Connected(self.node)
        if is_lost:
            raise ConnectionError

    def _receive(self) -> bool:
        """Takes what has come, of TLS all that is decrypted: no selector tells of it.

        Whether it was the last.
        """
        while True:
            try:
                data = self.socket.recv(READ_BYTES)
            except _NOT_NOW:
                return False
            except ssl.SSLEOFError as error:
                raise ConnectionError from error
            except ssl.SSLError as error:  # TLS 1.3 tells only now that it wants a certificate
                raise self._not_trusted(error) from None
            if not data:
                return True
            self._read += data
            if not (isinstance(self.socket, ssl.SSLSocket) and self.socket.pending()):
                return False
