"""A blocking connection for request and response bodies, with TLS and SASL."""

import select
import socket
import ssl
import struct
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

from brokertwin.clients.io.sasl import SaslLogin, exchange
from brokertwin.clients.io.security import ClientSecurity
from brokertwin.gateway.edge_fields import Address
from brokertwin.protocol import kafka_apis
from brokertwin.protocol.frames import RequestFrame, encode_request, read_response
from brokertwin.protocol.primitives import MalformedError
from brokertwin.protocol.schemas import API_KEYS, API_NAMES

_SIZE = struct.Struct(">i")
CONNECT_S = 10.0
FRAME_BYTES_MAX = 100 * 1024 * 1024

PLAINTEXT = ClientSecurity()


class BrokerClosedError(Exception):
    """The broker has closed the connection."""

    def __init__(self) -> None:
        super().__init__("it closed the connection")


class UndecodableResponseError(Exception):
    """A response cannot be decoded, or belongs to another request."""


class Pending(NamedTuple):
    """A request without a response."""

    api: str
    version: int
    correlation_id: int


class BlockingConnection:
    """A connection to a broker.

    Args:
        address: address of the broker.
        deadline: returns the end of all reads and writes, in seconds of the monotonic clock.
        client: client id.
        security: TLS and SASL.

    Raises:
        OSError: the broker cannot be reached.
        BrokerClosedError: the broker closed the connection during the login.
        UserError: the login fails.
    """

    def __init__(
        self,
        address: Address,
        deadline: Callable[[], float],
        client: str,
        security: ClientSecurity = PLAINTEXT,
    ) -> None:
        self._deadline, self._client = deadline, client
        self._count = 100
        self.pending: deque[Pending] = deque()
        self._socket = socket.create_connection(address, CONNECT_S)
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if security.context is not None:
                self._limit()
                self._socket = security.context.wrap_socket(
                    self._socket, server_hostname=address.host
                )
            if security.login is not None:
                self._log_in(security.login)
        except BaseException:
            self.close()
            raise

    def _log_in(self, login: SaslLogin) -> None:
        steps = exchange(login)
        request = next(steps)
        with suppress(StopIteration):
            while True:
                name = API_NAMES[kafka_apis.API_KEYS[request.api]]
                response = self.call(name, request.version, request.body, False)
                request = steps.send(response)

    def close(self) -> None:
        self._socket.close()

    def call(self, api: str, version: int, body: Any, is_strict: bool = True) -> Any:
        """Send a request and return its response. Raises as `receive`."""
        self.send(api, version, body)
        return self.receive(is_strict)

    def send(self, api: str, version: int, body: Any, has_response: bool = True) -> None:
        """Send a request. Raises BrokerClosedError, NotEncodableError."""
        self._count += 1
        header = {
            "requestApiKey": API_KEYS[api],
            "requestApiVersion": version,
            "correlationId": self._count,
            "clientId": self._client,
        }
        self.send_frame(encode_request(RequestFrame(header, body)))
        if has_response:
            self.pending.append(Pending(api, version, self._count))

    def send_frame(self, frame: bytes) -> None:
        self.send_bytes(_SIZE.pack(len(frame)) + frame)

    def send_bytes(self, data: bytes) -> None:
        """Send bytes. Raises BrokerClosedError."""
        self._limit()
        try:
            self._socket.sendall(data)
        except (ConnectionError, ssl.SSLError):
            raise BrokerClosedError from None

    def receive(self, is_strict: bool = True) -> Any:
        """Return the response to the oldest pending request.

        Args:
            is_strict: reject bytes after the response. Clients ignore them.

        Raises:
            BrokerClosedError: the broker closed the connection.
            UndecodableResponseError: the response cannot be decoded, or belongs to another request.
            TimeoutError: the deadline has passed.
        """
        request = self.pending.popleft()
        return decoded(request, self.receive_frame(), is_strict)

    def receive_frame(self) -> bytes:
        """Return the next frame. Raises as `receive`."""
        (size,) = _SIZE.unpack(self._exactly(_SIZE.size))
        if not 0 <= size <= FRAME_BYTES_MAX:
            raise UndecodableResponseError(f"a response of {size} bytes")
        return self._exactly(size)

    def is_silent(self, for_ms: int) -> bool:
        """True if nothing can be read for a time."""
        if isinstance(self._socket, ssl.SSLSocket) and self._socket.pending():
            return False
        ready = select.poll()
        ready.register(self._socket, select.POLLIN)
        return not ready.poll(for_ms)

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            self._limit()
            try:
                part = self._socket.recv(size - len(data))
            except (ConnectionError, ssl.SSLError):
                raise BrokerClosedError from None
            if not part:
                raise BrokerClosedError
            data += part
        return bytes(data)

    def _limit(self) -> None:
        left = self._deadline() - time.monotonic()
        if left <= 0:
            raise TimeoutError("no response in time")
        self._socket.settimeout(left)


def decoded(request: Pending, frame: bytes, is_strict: bool = True) -> Any:
    """Return the body of a response. Raises UndecodableResponseError."""
    try:
        found, body, end = read_response(API_KEYS[request.api], request.version, frame)
    except (MalformedError, IndexError, struct.error) as error:
        raise UndecodableResponseError(
            f"{request.api} v{request.version} cannot be read: {error}"
        ) from None
    if found != request.correlation_id:
        raise UndecodableResponseError(
            f"correlation id {found} in place of {request.correlation_id}"
        )
    if is_strict and end != len(frame):
        rest = len(frame) - end
        raise UndecodableResponseError(
            f"{rest} bytes after the {request.api} v{request.version} response"
        )
    return body
