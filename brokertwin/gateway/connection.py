"""One client's connection: request frames in, responses out, in request order.

As in a broker, a request is processed after the response to the previous one. Only requests with
`Trait.PIPELINED` are submitted without waiting. An invalid frame closes this connection, with the
reason in the log, and no other.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Sequence
from copy import copy
from typing import Any, NamedTuple, cast

import msgspec
import structlog

from brokertwin.gateway import edge_fields, refusals, request_times, slices
from brokertwin.gateway.admin import altered_settings, api_versions, broker_loggers, client_metrics
from brokertwin.gateway.bounded_rates import RequestLimit
from brokertwin.gateway.context import GatewayContext
from brokertwin.gateway.edge_fields import PendingResponse, PendingWrite
from brokertwin.gateway.engine.engine import AnyBody, EdgeRequest, EngineResponse, NoResponseError
from brokertwin.gateway.security import delegation_tokens, scram_users
from brokertwin.gateway.security.denials import RESOURCE_TYPES
from brokertwin.protocol.errors import Error
from brokertwin.protocol.frames import (
    SIZE_BYTES,
    FrameBuffer,
    api_key_of,
    decode_request,
    encode_sized_response,
    read_request,
)
from brokertwin.protocol.generated.produce import ProduceRequest
from brokertwin.protocol.generated.update_features import UpdateFeaturesResponse
from brokertwin.protocol.kafka_apis import KAFKA_APIS, UNKNOWN, Trait
from brokertwin.protocol.primitives import MalformedError, NotEncodableError
from brokertwin.state.core.events import Reason, RequestHeader

THROTTLE = "throttle_time_ms"
"""Field of most responses."""

FAREWELL_S = 0.05
"""Delay before a failed connection is closed.

Some clients (kafka-python) discard an unread response when the connection ends.
"""


OWN_RESPONSES = frozenset(
    {*scram_users.NEEDED, *altered_settings.APIS, *broker_loggers.APIS, *delegation_tokens.APIS}
)
"""APIs to which the gateway responds itself, at least to some requests."""

_log = structlog.get_logger("brokertwin.gateway")


class ClosedError(Exception):
    """The connection must be closed; the message has the reason."""


class Stopwatch(msgspec.Struct, eq=False):
    """Measures the time used by one request, in s, from its arrival by the event loop's clock."""

    came: float
    _excluded_s: float = 0.0
    _stopped: float | None = None

    def stop(self, now: float) -> None:
        if self._stopped is None:
            self._stopped = now

    def go_on(self, now: float) -> None:
        """Resume, unless it is running."""
        if self._stopped is not None:
            self._excluded_s += now - self._stopped
            self._stopped = None

    def take(self, now: float) -> float:
        """Return the time used since the start or the last call."""
        self.go_on(now)
        taken = now - self.came - self._excluded_s
        self._excluded_s += taken
        return taken


class _Produced(NamedTuple):
    """A request that was submitted without waiting, and its stopwatch.

    Its batches are kept because the response may name single records.
    """

    request: EdgeRequest
    future: asyncio.Future[EngineResponse]
    watch: Stopwatch
    writes: list[PendingWrite]


class BrokerConnection(asyncio.Protocol):
    """A connection to a logical broker.

    Args:
        context: objects shared by all connections.
        broker: id of the logical broker.
        name: name in events and in the log.

    Attributes:
        last_active: time of the last request or response, by the event loop's clock.
        is_busy: whether a request is pending.
    """

    def __init__(self, context: GatewayContext, broker: int, name: str) -> None:
        self.broker = broker
        self.name = name
        self.listener = context.listener
        self.is_busy = False
        self._is_lost = False
        self._reports_end = False
        self._software = client_metrics.Software()
        self._muted_until = 0.0
        self._is_aborted = False
        self._context = context
        self._loop = asyncio.get_running_loop()
        self.last_active = self._loop.time()
        self._input = FrameBuffer()
        self._frames = self._input.frames
        self._is_full = False
        self._host, self._port = "", 0
        self._frame_there: asyncio.Future[None] | None = None
        self._progress = asyncio.Event()
        self._writable = asyncio.Event()
        self._produced: deque[_Produced] = deque()
        self._in_turn = asyncio.Lock()
        self._replies: asyncio.Task[None] | None = None
        self._task: asyncio.Task[None] | None = None
        self._late: asyncio.TimerHandle | None = None
        self._failure: Exception | None = None
        self._unsent_bytes = 0
        self._log = _log.bind(connection=name, broker=broker)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start serving requests."""
        self._transport = cast("asyncio.Transport", transport)
        if self._is_aborted:
            self._transport.abort()
            return
        peer = transport.get_extra_info("peername")
        self._host, self._port = (str(peer[0]), int(peer[1])) if peer else ("", 0)
        self._authentication = self.listener.security.authentication(
            self._transport, self._context.features, self._context.tokens, self.broker
        )
        if not self._authentication.is_complete:
            self._late = self._loop.call_later(
                self.listener.security.time_max_s, self.close, "not authenticated in time"
            )
        self._writable.set()
        self.last_active = self._loop.time()
        self._task = self._loop.create_task(self._serve())
        self._transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        """Drop pending responses. Requests that were received are still processed."""
        self._is_lost = True
        for task in (self._late,) if self._frames else (self._task, self._replies, self._late):
            if task is not None:
                task.cancel()
        self._writable.set()
        self._context.on_lost(self)
        if not self._frames:
            self._report_end()

    def _report_end(self) -> None:
        """Report the end of the connection to the engine.

        Share sessions and client instances end with it; no other state does.
        """
        if self._reports_end:
            self._reports_end = False
            self._context.engine.disconnected(self.broker, self.name)

    def pause_writing(self) -> None:
        """Stop processing because the client reads too slowly."""
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def data_received(self, data: bytes) -> None:
        """Split data into frames; pause reading if enough requests are queued."""
        if self._failure is not None or self._is_aborted:
            return
        self._cut(data)
        waiter = self._frame_there
        has_work = self._frames or self._failure is not None
        if has_work and waiter is not None and not waiter.done():
            waiter.set_result(None)
        if self._is_full:
            self._transport.pause_reading()

    def _cut(self, data: bytes = b"") -> None:
        """Take complete frames out of the received bytes, only one before authentication."""
        limits, most, ahead = self._context.limits, self._context.limits.frame_bytes, 1
        if self._authentication.is_complete:
            ahead = limits.requests_ahead
        else:
            most = self._authentication.frame_bytes_max or most
        self._input.receive(data, ahead, most)
        self._is_full = len(self._frames) >= ahead
        size = self._input.wrong_size
        if size is None and self._input.received:
            api_key, next_size = self._input.next_frame
            longest = slices.bytes_max(api_key, most)
            if next_size > longest:
                size, most = next_size, longest
        if size is not None:
            self._failure = ClosedError(f"invalid frame size {size}; the limit is {most}")

    def close(self, reason: str) -> None:
        if self._task is not None and not self._transport.is_closing():
            self._log.warning("connection closed", reason=reason)
            self._frames.clear()
            self._transport.close()

    def end_if_idle(self, before: float, for_how_long: str) -> None:
        """Close the connection if it is idle; called periodically.

        A client that waits for a response is not idle. A client that does not read its response is,
        because otherwise the connection and its buffered data would stay forever.

        Args:
            before: time by the event loop's clock.
            for_how_long: text for the log.
        """
        if self._task is None:
            return
        unsent, self._unsent_bytes = self._unsent_bytes, self._transport.get_write_buffer_size()
        if self._unsent_bytes < unsent:
            self.last_active = self._loop.time()
        if self.last_active >= before:
            return
        if self._unsent_bytes:
            self._log.warning("connection closed", reason=f"idle for {for_how_long}")
            self.abort()
        elif not self.is_busy:
            self.close(f"idle for {for_how_long}")

    def abort(self) -> None:
        """Close without flushing."""
        self._is_aborted = True
        if self._task is not None:
            self._transport.abort()

    async def finished(self) -> None:
        self._report_end()
        produced = [each.future for each in self._produced]
        tasks = [task for task in (self._task, self._replies, *produced) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self) -> None:
        try:
            while self._frames or not self._is_lost:
                if not self._frames:
                    if self._failure is not None:
                        raise self._failure
                    self._frame_there = self._loop.create_future()
                    await self._frame_there
                    continue
                frame = self._frames.popleft()
                if self._is_full:
                    self._read_on()
                self.is_busy = True
                if self._muted_until:
                    await self._unmuted()
                await self._handle(frame)
                self.is_busy = bool(self._produced)
                self.last_active = self._loop.time()
                if self._frames:
                    await asyncio.sleep(0)  # let other connections run
            self._report_end()
        except Exception as error:  # noqa: BLE001 (a fault ends its connection, not the gateway)
            self._end(error)

    async def _unmuted(self) -> None:
        """Wait for the end of the client's throttle time (KIP-219)."""
        await self._produced_done()
        await asyncio.sleep(self._muted_until - self._loop.time())
        self._muted_until = 0.0

    def _end(self, error: Exception) -> None:
        if not isinstance(error, MalformedError | ClosedError | NoResponseError):
            self._log.error("fault", error=f"{type(error).__name__}: {error}", exc_info=error)
        self.close(str(error))

    def _read_on(self) -> None:
        """Continue to read if fewer requests are queued now."""
        self._is_full = False
        if self._failure is None:
            self._cut()
        if not self._is_full:
            self._transport.resume_reading()

    async def _handle(self, frame: bytes) -> None:
        api_key = api_key_of(frame)
        traits = KAFKA_APIS.get(api_key, UNKNOWN).traits
        if Trait.ANY_VERSION in traits:
            release = self._context.features.release
            self._software = client_metrics.software_of(frame, release) or self._software
        is_plain = self._authentication.is_plain and api_key not in api_versions.SASL_APIS
        if not is_plain and self._authentication.takes(frame):
            await self._authenticate(frame)
            return
        if Trait.ANY_VERSION in traits:
            await self._produced_done()
            self._write(api_versions.response_frame(frame, self._context.features, self.broker)[0])
            self._context.traffic.count(api_key, None, 0)
            await self._writable.wait()
            return
        watch = Stopwatch(self._loop.time())
        if len(frame) > slices.REQUEST_BYTES_MAX:
            most = slices.bytes_max(api_key, self._context.limits.frame_bytes)
            if len(frame) > most:
                raise ClosedError(f"invalid frame size {len(frame)}; the limit is {most}")
        own = self._own_response(frame, watch) if api_key in OWN_RESPONSES else None
        if own is not None:
            request, own_response = own
            await self._produced_done(watch)
            outcome = await own_response
            watch.go_on(self._loop.time())
            await self._reply(request, outcome, watch)
            await self._writable.wait()
            return
        header, body = read_request(frame, RequestHeader)
        request = self._edge_request(header, body)
        is_served = (api_key, header.request_api_version) in api_versions.SERVED_VERSIONS
        if not is_served or self._context.features.release is not None:
            self._check_served(request)
        if len(frame) > slices.SLICED_BYTES and Trait.HAS_RECORDS not in traits:
            await self._produced_done(watch)
            await self._reply(request, await self._in_slices(request), watch, is_large=True)
            await self._writable.wait()
            return
        if Trait.HAS_RECORDS in traits:
            await self._produce(request, len(frame), watch)
            return
        if Trait.PIPELINED in traits:
            future = self._context.engine.submit(request)
            await self._reply_in_turn(_Produced(request, future, watch, []))
            return
        if self._replies is not None:
            await self._produced_done(watch)
        future = self._context.engine.submit(request)
        if future.done():
            outcome = future.result()
        else:
            watch.stop(self._loop.time())
            outcome = await future
            watch.go_on(self._loop.time())
        await self._reply(request, outcome, watch)
        if not self._writable.is_set():
            await self._writable.wait()

    async def _in_slices(self, request: EdgeRequest) -> EngineResponse:
        """Decide a large request in slices; only one at a time, so that others wait for one."""
        engine, responses = self._context.engine, list[dict[str, Any]]()
        if not engine.decides_here or request.api_key not in slices.SLICED:
            return (await engine.submit(request)).copied()  # another thread encodes it
        whole = request.document()
        async with self._context.large:
            for body in slices.sliced(whole):
                await asyncio.sleep(0)
                outcome = await engine.submit(request._replace(body=body))
                if outcome.response is None:
                    return outcome
                responses.append(outcome.document(request.version))
        joined = slices.joined(whole, responses)
        return outcome._replace(response=refusals.to_struct(request.api_key, joined))

    def _own_response(
        self, frame: bytes, watch: Stopwatch
    ) -> tuple[EdgeRequest, Awaitable[EngineResponse]] | None:
        """Return a request of `OWN_RESPONSES`, and what responds to it in place of the engine."""
        header, body = decode_request(frame)
        request = self._edge_request(msgspec.convert(header, RequestHeader), body)
        api_key, engine = request.api_key, self._context.engine
        if api_key in scram_users.NEEDED:
            return request, scram_users.respond(engine, self._context.users, request)
        if api_key in delegation_tokens.APIS:
            is_allowed = self.listener.security.allows_token_requests(self._authentication)
            return request, self._context.tokens.respond(request, is_allowed)
        self._check_served(request)
        if api_key in altered_settings.APIS:
            watch.stop(self._loop.time())
            return request, self._context.altered.respond(request)
        if broker_loggers.names_loggers(api_key, body):
            watch.stop(self._loop.time())
            return request, broker_loggers.respond(engine, request)
        return None

    def _check_served(self, request: EdgeRequest) -> None:
        """Reject what ApiVersions does not list. Raises ClosedError."""
        release = self._context.features.release
        if not api_versions.is_served(request.api_key, request.version, release):
            name = request.header.request_api_key_name
            raise ClosedError(f"unsupported version {request.version} of {name}")

    async def _authenticate(self, frame: bytes) -> None:
        await self._produced_done()
        outcome = await self._authentication.receive(frame)
        if outcome.is_delayed:  # log now: the client may disconnect before the delayed close
            claimed = self._authentication.claimed
            self._context.traffic.failed_authentications += 1
            details = {"host": self._host, **claimed, "reason": outcome.reason}
            self._log.warning("authentication failed", **details)
            await asyncio.sleep(self.listener.security.failure_delay_s)
        if outcome.response is not None:
            self._write(outcome.response)
        if outcome.reason is not None:
            if outcome.response is not None:
                await asyncio.sleep(FAREWELL_S)
            raise ClosedError(f"{self._host}: {outcome.reason}")
        if self._late is not None and self._authentication.is_complete:
            self._late.cancel()
        await self._writable.wait()

    def _edge_request(self, header: RequestHeader, body: Any) -> EdgeRequest:
        api_key = header.request_api_key
        traits = KAFKA_APIS.get(api_key, UNKNOWN).traits
        if Trait.BINDS_CONNECTION in traits:
            self._reports_end = True
        if api_key in client_metrics.APIS:
            most = self._context.limits.telemetry_bytes
            client_metrics.complete(body, self._software, self._port, most)
        return EdgeRequest(
            self.broker,
            self.name,
            self._authentication.principal,
            self._host,
            header,
            body,
            self.listener.known_as if Trait.NAMES_BROKERS in traits else "",
        )

    async def _produce(self, request: EdgeRequest, size: int, watch: Stopwatch) -> None:
        """Submit a Produce request; its response follows earlier ones."""
        body = request.body
        assert isinstance(body, ProduceRequest), "the only API with records in requests"
        body.request_size_in_bytes = size
        engine = self._context.engine
        writes = edge_fields.store_batches(
            engine, self.broker, request.header.request_api_version, body
        )
        future: asyncio.Future[EngineResponse]
        is_stored = True
        for write in writes:
            is_stored = is_stored and write.locator is None
        if self._produced or not is_stored:
            future = self._loop.create_task(self._submit_in_turn(request, watch, writes))
            future.add_done_callback(_take_note)
        else:
            future = self._context.engine.submit(request)
        await self._reply_in_turn(_Produced(request, future, watch, writes))

    async def _reply_in_turn(self, produced: _Produced) -> None:
        """Send the response now if it is ready and next in order, or queue it."""
        request, future, watch, writes = produced
        if future.done() and not self._produced:
            await self._reply(request, future.result(), watch, writes)
            if not self._writable.is_set():
                await self._writable.wait()
            return
        watch.stop(self._loop.time())
        self._produced.append(produced)
        if self._replies is None or self._replies.done():
            self._replies = self._loop.create_task(self._reply_in_order())
        while len(self._produced) >= self._context.limits.requests_ahead:
            self._progress.clear()
            await self._progress.wait()

    async def _submit_in_turn(
        self, request: EdgeRequest, watch: Stopwatch, writes: list[PendingWrite]
    ) -> EngineResponse:
        """Submit requests in the order of arrival, even if their writes end in another order."""
        async with self._in_turn:  # first come, first served
            await edge_fields.put_locators(writes)
            watch.go_on(self._loop.time())
            future = self._context.engine.submit(request)
            watch.stop(self._loop.time())
        return await future

    async def _reply_in_order(self) -> None:
        try:
            while self._produced:
                request, future, watch, writes = self._produced[0]
                outcome = await asyncio.shield(future)  # cancelling must not cancel the write
                watch.go_on(self._loop.time())
                await self._reply(request, outcome, watch, writes)
                self._produced.popleft()
                self._progress.set()
                self.is_busy = bool(self._produced)
                await self._writable.wait()
        except Exception as error:  # noqa: BLE001 (a fault ends its connection, not the gateway)
            self._end(error)

    async def _produced_done(self, watch: Stopwatch | None = None) -> None:
        if self._replies is None or self._replies.done():
            return
        if watch is not None:
            watch.stop(self._loop.time())
        await asyncio.wait([self._replies])
        if watch is not None:
            watch.go_on(self._loop.time())

    async def _reply(
        self,
        request: EdgeRequest,
        outcome: EngineResponse,
        watch: Stopwatch,
        writes: Sequence[PendingWrite] = (),
        is_large: bool = False,
    ) -> None:
        """Complete and send a response; a large one is walked through in a thread."""
        now = self._loop.time()
        body, api_key = outcome.response, request.header.request_api_key
        if outcome.error is not None:
            body = self._refusal(request, outcome.error)
        count, took_s = self._context.traffic.count, now - watch.came
        if is_large:
            errors = await asyncio.to_thread(count, api_key, body, took_s)
        else:
            errors = count(api_key, body, took_s)
        if errors and body is not None and not RESOURCE_TYPES.keys().isdisjoint(errors):
            self._context.denials.look(request, body, outcome.injected)
        if outcome.closes_connection:
            raise ClosedError(
                f"a request without a response: {request.header.request_api_key_name}"
            )
        if body is None:
            self._mute(outcome.mute_ms)
            return
        has_records = Trait.HAS_RECORDS in KAFKA_APIS.get(api_key, UNKNOWN).traits
        is_accepted = has_records and not errors  # only refused batches name records
        if outcome.error is None and api_key in edge_fields.COMPLETED and not is_accepted:
            await self._complete(request, body, writes)
        if isinstance(body, UpdateFeaturesResponse):
            await self._context.features.note_response(body)
        limit = self._context.engine.request_limit(
            self.broker, request.principal, request.header.client_id
        )
        if limit is not None and request_times.is_exempt(request):
            limit = None
        own_ms = getattr(body, THROTTLE, None)
        throttle_ms = own_ms or 0
        if limit is not None:
            throttle_ms = max(throttle_ms, self._count(limit, watch))
        if own_ms is not None:
            throttle_ms = max(throttle_ms, self._context.engine.throttle_ms)
            if own_ms != throttle_ms:
                body = copy(body)
                setattr(body, THROTTLE, throttle_ms)
        elif isinstance(body, dict):
            body["throttleTimeMs"] = throttle_ms
        if throttle_ms:
            self._mute(throttle_ms)
        header = request.header
        sent = header.request_api_key, header.request_api_version, header.correlation_id
        try:
            if is_large:
                frame = await asyncio.to_thread(encode_sized_response, *sent, body)
            else:
                frame = encode_sized_response(*sent, body)
        except NotEncodableError as error:
            frame = self._encoded_error(request, error)
        self._write_sized(frame)
        if limit is not None:
            self._count(limit, watch)

    async def _complete(
        self, request: EdgeRequest, body: AnyBody, writes: Sequence[PendingWrite]
    ) -> None:
        """Fill in the fields that only the gateway knows."""
        header, addresses = request.header, self._context.addresses
        api_key = header.request_api_key
        if self.listener.is_added and api_key not in edge_fields.ON_EVERY_LISTENER:
            addresses = {}
        pending = PendingResponse(
            self._context.engine,
            addresses,
            header.request_api_version,
            request.body,
            body,
            writes,
            self.listener.security.protocol,
        )
        put_bytes = edge_fields.READ_BYTES.get(api_key)
        if put_bytes is not None:
            await put_bytes(pending)
        edge_fields.complete(api_key, pending)

    def _refusal(self, request: EdgeRequest, why: dict[str, Any]) -> AnyBody:
        """Return the error response of a dead letter. Raises ClosedError."""
        if why.get("reason") == Reason.BROKER_STOPPED:
            raise ClosedError(f"broker {self.broker} is stopped")
        error = refusals.error_of(why, request.api_key)
        body = refusals.error_response(request.document(), error)
        if body is None or getattr(request.body, "acks", None) == 0:
            raise ClosedError(f"{request.header.request_api_key_name}: {why}")
        return refusals.to_struct(request.api_key, body)

    def _count(self, limit: RequestLimit, watch: Stopwatch) -> int:
        """Record the request time so far; return the throttle time in ms."""
        now = self._loop.time()
        return self._context.times.count(self.broker, limit, watch.take(now), now)

    def _mute(self, throttle_ms: int) -> None:
        if throttle_ms > 0:
            self._muted_until = self._loop.time() + throttle_ms / 1000

    def _encoded_error(self, request: EdgeRequest, error: NotEncodableError) -> bytearray:
        """Encode `-1 UNKNOWN_SERVER_ERROR` for a response that cannot be encoded.

        As in Kafka, the request's changes stay in effect. Raises ClosedError.
        """
        header = request.header
        api_key = header.request_api_key
        _log.warning("cannot encode a response", api=api_key, error=str(error))
        refusal = refusals.error_response(request.document(), Error.UNKNOWN_SERVER_ERROR)
        if refusal is None:
            raise ClosedError(f"cannot encode the response of API {api_key}") from error
        return encode_sized_response(
            api_key, header.request_api_version, header.correlation_id, refusal
        )

    def _write(self, frame: bytes | bytearray) -> None:
        self._write_sized(len(frame).to_bytes(SIZE_BYTES, "big") + frame)

    def _write_sized(self, frame: bytes | bytearray) -> None:
        if self._is_lost:
            return
        self._transport.write(frame)
        self.last_active = self._loop.time()


def _take_note(future: asyncio.Future[EngineResponse]) -> None:
    """Retrieve an exception that no task may await after a disconnect."""
    if not future.cancelled():
        future.exception()
