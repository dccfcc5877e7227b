"""Relay of one client connection: frames pass through, exchanges are recorded.

A frame is forwarded before it is decoded for the recording. Only a response that may contain broker
addresses is decoded first and rewritten; all other bytes are forwarded unchanged. Requests do not
wait for earlier responses, up to `GatewayLimits.requests_ahead` pending ones. Each direction waits
for its reader (TCP backpressure) and for the recorder.

After the client has disconnected, responses to its pending requests are awaited briefly and
recorded as not delivered.
"""

import asyncio
import base64
import binascii
import time
from collections import deque
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, NamedTuple, Protocol

import structlog

from brokertwin.gateway.capture.documents import CapturedExchange, End, fault
from brokertwin.gateway.capture.logins import LoginTracker
from brokertwin.gateway.capture.rewriting import may_have_addresses
from brokertwin.gateway.edge_fields import Address
from brokertwin.gateway.limits import GatewayLimits
from brokertwin.protocol.codec import Body
from brokertwin.protocol.frames import encode_response
from brokertwin.protocol.kafka_apis import SASL_AUTHENTICATE, SASL_HANDSHAKE, Trait, api_of_key
from brokertwin.protocol.primitives import NotEncodableError

SIZE_BYTES = 4
CHUNK_BYTES = 1 << 16
RESPONSES_TIMEOUT_S = 5.0
"""How long pending responses are awaited after the last request."""


_log = structlog.get_logger("brokertwin.capture")


class RelayTarget:
    """A real broker.

    Attributes:
        node_id: its id; None until a response has named it.
    """

    def __init__(self, address: Address, node_id: int | None = None) -> None:
        self.address = address
        self.node_id = node_id


class RelayHost(Protocol):
    """Interface of the proxy for a relay."""

    limits: GatewayLimits

    async def put_addresses(self, api_key: int, response: Body) -> bool:
        """Put the proxy's addresses into a response; return whether it has any."""

    async def record(
        self, exchange: CapturedExchange, ended: float, is_delivered: bool, target: RelayTarget
    ) -> None:
        """Record a completed exchange; `ended` by the event loop's clock, in s."""

    async def record_end(self, end: End, target: RelayTarget) -> None:
        """Record the end of a connection for which the broker keeps state."""


class Pipe(NamedTuple):
    """Both directions of a connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


class UnframedError(Exception):
    """The next frame's size is invalid or above the limit; `head` has its bytes."""

    def __init__(self, head: bytes) -> None:
        self.head = head
        self.size = int.from_bytes(head, "big", signed=True)
        super().__init__(f"a frame of {self.size} bytes is not read")


class _EndedError(Exception):
    """The connection ended; `rest` has the bytes of an incomplete frame."""

    def __init__(self, rest: bytes) -> None:
        super().__init__()
        self.rest = rest


class Relay:
    """Connects a client with a broker until one of them disconnects.

    Args:
        name: name of the connection in documents and in the log.
    """

    def __init__(
        self, cluster: RelayHost, target: RelayTarget, name: str, client: Pipe, broker: Pipe
    ) -> None:
        self._cluster = cluster
        self._target = target
        self._name = name
        self._client = client
        self._broker = broker
        self._login = LoginTracker()
        self._token: CapturedExchange | None = None
        self._waiting: deque[CapturedExchange] = deque()
        self._progress = asyncio.Event()
        self._has_client = True
        self._is_bound = False
        self._loop = asyncio.get_running_loop()
        self._requests_task = self._loop.create_task(self._until_end(self._requests()))

    async def run(self) -> None:
        """Relay until both directions have ended, then close both connections."""
        requests = self._requests_task
        responses = self._loop.create_task(self._until_end(self._responses()))
        try:
            await asyncio.wait((requests, responses), return_when=asyncio.FIRST_COMPLETED)
            if requests.done():
                self._has_client = requests.cancelled()
                await self._last_responses(responses)
        finally:
            for task in (requests, responses):
                task.cancel()
            await asyncio.gather(requests, responses, return_exceptions=True)
            for pipe in (self._client, self._broker):
                pipe.writer.close()
        end = End(_now_ms(), self._name)
        await self._record_rest()
        if self._is_bound:
            await self._cluster.record_end(end, self._target)

    async def _record_rest(self) -> None:
        while self._waiting:
            await self._record(self._waiting.popleft(), is_delivered=False)

    def end(self) -> None:
        """Accept no more requests; `run` ends after the pending responses or a timeout."""
        self._requests_task.cancel()

    async def _last_responses(self, responses: asyncio.Task[None]) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(RESPONSES_TIMEOUT_S):
                while self._waiting and not responses.done():
                    self._progress.clear()
                    await self._progress.wait()

    async def _until_end(self, direction: Coroutine[Any, Any, None]) -> None:
        """Run one direction; a broken connection is no error."""
        try:
            await direction
        except OSError:
            pass
        except Exception as error:  # noqa: BLE001 (a fault ends its connection, not the proxy)
            fault(f"connection {self._name}", error)
        finally:
            self._progress.set()

    async def _requests(self) -> None:
        reader, writer = self._client.reader, self._broker.writer
        while True:
            try:
                frame = await self._frame(reader)
            except UnframedError as error:
                exchange = self._exchange()
                exchange.not_read("request", error.size, f"{error}, and nothing behind it")
                await self._record(exchange)
                await _pass_on(error.head, reader, writer)
                return
            except _EndedError as error:
                writer.write(error.rest)
                return
            await self._pass_request(self._exchange(), frame)
            while self._pending() >= self._cluster.limits.requests_ahead:
                self._progress.clear()
                await self._progress.wait()

    def _pending(self) -> int:
        """Return the number of requests without a response."""
        return len(self._waiting)

    async def _pass_request(self, exchange: CapturedExchange, frame: bytes) -> None:
        write_frame(self._broker.writer, frame)
        self._read_request(exchange, frame)
        await self._forwarded(exchange)

    async def _forwarded(self, exchange: CapturedExchange) -> None:
        """Let a request that was forwarded wait for its response, if it has one."""
        traits = api_of_key(exchange.api_key).traits
        self._is_bound = self._is_bound or Trait.BINDS_CONNECTION in traits
        if exchange.is_one_way:
            exchange.is_complete = True
            await self._record(exchange)
        else:
            self._waiting.append(exchange)
        await self._broker.writer.drain()

    async def _frame(self, reader: asyncio.StreamReader) -> bytes:
        """Read a frame without its size. Raises UnframedError, _EndedError, OSError."""
        head = b""
        try:
            head = await reader.readexactly(SIZE_BYTES)
            size = int.from_bytes(head, "big", signed=True)
            if not 0 <= size <= self._cluster.limits.frame_bytes:
                raise UnframedError(head)
            return await reader.readexactly(size)
        except asyncio.IncompleteReadError as error:
            raise _EndedError(head + error.partial) from None

    def _exchange(self) -> CapturedExchange:
        return CapturedExchange(_now_ms(), self._loop.time(), self._name, self._login.principal)

    def _read_request(self, exchange: CapturedExchange, frame: bytes) -> None:
        if self._login.takes_raw(frame):
            exchange.not_read("request", len(frame), "a SASL token without header")
            self._login.token(frame)
            self._token = exchange
            return
        exchange.read_request(frame)
        if exchange.api_key == SASL_AUTHENTICATE.key and exchange.request is not None:
            self._login.token(_bytes_of(exchange.request["authBytes"]))

    async def _responses(self) -> None:
        reader, writer = self._broker.reader, self._client.writer
        while True:
            try:
                frame = await self._frame(reader)
            except UnframedError as error:
                await self._large_response(error, reader)
                continue
            except _EndedError as error:
                if self._has_client:
                    writer.write(error.rest)
                return
            ended = self._loop.time()
            for skipped in self._skipped(frame):
                await self._record(skipped)
            await self._pass_response(self._exchange_of(frame), frame, ended)

    async def _pass_response(self, exchange: CapturedExchange, frame: bytes, ended: float) -> None:
        if may_have_addresses(exchange.api_key, exchange.version):
            exchange.read_response(frame)
            is_delivered = self._send(await self._rewritten(exchange, frame))
        else:
            is_delivered = self._send(frame)
            exchange.read_response(frame)
        self._log_in(exchange, frame)
        self._received(exchange)
        await self._record(exchange, ended, is_delivered)
        self._progress.set()
        await self._drain()

    def _received(self, exchange: CapturedExchange) -> None:
        if self._waiting and self._waiting[0] is exchange:
            self._waiting.popleft()

    async def _drain(self) -> None:
        """Wait until the client has read enough."""
        if self._has_client:
            with suppress(OSError):  # the other direction fails, too
                await self._client.writer.drain()

    def _skipped(self, frame: bytes) -> list[CapturedExchange]:
        """Remove requests that were not decoded and have no response.

        A response to a later request shows that none will come.
        """
        ids = [exchange.correlation_id for exchange in self._waiting]
        correlation_id = int.from_bytes(frame[:4], "big", signed=True)
        if not ids or self._waiting[0].header is None or correlation_id not in ids:
            return []
        return [self._waiting.popleft() for _ in range(ids.index(correlation_id))]

    def _exchange_of(self, frame: bytes) -> CapturedExchange:
        """Return the exchange of a response; it stays pending until it is recorded."""
        correlation_id = int.from_bytes(frame[:4], "big", signed=True)
        if self._waiting:
            first = self._waiting[0]
            if first.header is None or first.correlation_id == correlation_id:
                return first
        exchange = self._exchange()
        exchange.not_read("response", len(frame), "no request waits for it")
        return exchange

    async def _rewritten(self, exchange: CapturedExchange, frame: bytes) -> bytes | bytearray:
        """Return the response with the proxy's addresses, or unchanged if it has none."""
        if exchange.response is None:
            return frame
        if not await self._cluster.put_addresses(exchange.api_key, exchange.response):
            return frame
        try:
            return encode_response(
                exchange.api_key, exchange.version, exchange.correlation_id, exchange.response
            )
        except NotEncodableError as error:
            _log.error("cannot rewrite a response", api=exchange.api, error=str(error))
            return frame

    def _send(self, frame: bytes | bytearray) -> bool:
        """Send a response; return whether the client is still connected."""
        reader, writer = self._client
        if not self._has_client or reader.at_eof() or writer.is_closing():
            return False
        write_frame(writer, frame)
        return True

    async def _large_response(self, error: UnframedError, reader: asyncio.StreamReader) -> None:
        """Forward a response above the size limit, or everything that follows."""
        exchange = self._waiting.popleft() if self._waiting else self._exchange()
        exchange.not_read("response", error.size, str(error))
        await self._record(exchange, is_delivered=self._has_client)
        size = error.size if error.size > 0 else None
        await _pass_on(error.head, reader, self._client.writer, size)

    def _log_in(self, exchange: CapturedExchange, frame: bytes) -> None:
        """Track a login after a response to one of its requests."""
        is_refused = exchange.response is None or exchange.response.get("errorCode") != 0
        if exchange is self._token:
            self._login.accepted(frame)
        elif exchange.api_key == SASL_HANDSHAKE.key and not is_refused:
            self._login.handshake(exchange.version, (exchange.request or {}).get("mechanism"))
        elif exchange.api_key == SASL_AUTHENTICATE.key and exchange.response and not is_refused:
            self._login.accepted(_bytes_of(exchange.response["authBytes"]))

    async def _record(
        self, exchange: CapturedExchange, ended: float | None = None, is_delivered: bool = True
    ) -> None:
        when = self._loop.time() if ended is None else ended
        await self._cluster.record(exchange, when, is_delivered, self._target)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def write_frame(writer: asyncio.StreamWriter, frame: bytes | bytearray) -> None:
    writer.writelines((len(frame).to_bytes(SIZE_BYTES, "big"), frame))


async def _pass_on(
    head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, size: int | None = None
) -> None:
    """Forward bytes without decoding: `size`, or all until the end."""
    writer.write(head)
    while size is None or size > 0:
        data = await reader.read(CHUNK_BYTES if size is None else min(CHUNK_BYTES, size))
        if not data:
            return
        size = None if size is None else size - len(data)
        writer.write(data)
        await writer.drain()


def _bytes_of(text: Any) -> bytes:
    try:
        return base64.b64decode(text)
    except (TypeError, binascii.Error):
        return b""
