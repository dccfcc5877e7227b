"""One client's connection: frames in, answers out, in the order of the requests.

The next request is taken when the one before is answered, as a broker does; only those with
`Trait.PIPELINED` are handed over one after the other without waiting. A frame that makes no sense
ends this connection, with the reason in the log, and no other.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

import structlog

from brokertwin.gateway import answers, refusals
from brokertwin.gateway.admin import altered_settings, api_versions, broker_loggers, client_metrics
from brokertwin.gateway.admin.altered_settings import AlteredSettings
from brokertwin.gateway.admin.features import Features
from brokertwin.gateway.answers import Addresses, Answered, Write
from brokertwin.gateway.bounded_rates import RequestLimit
from brokertwin.gateway.engine.engine import Answer, Body, EdgeRequest, Engine, UnansweredError
from brokertwin.gateway.limits import Limits
from brokertwin.gateway.listeners import Listener
from brokertwin.gateway.protocol.frames import (
    SIZE_BYTES,
    Request,
    api_key_of,
    decode_request,
    encode_sized_response,
)
from brokertwin.gateway.protocol.primitives import MalformedError, NotEncodableError
from brokertwin.gateway.request_times import RequestTimes, Stopwatch
from brokertwin.gateway.security import delegation_tokens, scram_users
from brokertwin.gateway.security.credentials import Users
from brokertwin.gateway.security.delegation_tokens import Tokens
from brokertwin.gateway.security.denials import RESOURCE_TYPES, Denials
from brokertwin.gateway.traffic import Traffic
from brokertwin.state.core.errors import Error
from brokertwin.state.core.events import Reason
from brokertwin.state.core.kafka_apis import Trait, api_of_key

FAREWELL_S = 0.05
"""How long a connection stays after the answer that it has failed: some clients (kafka-python) drop
what they have not read when it ends."""


_log = structlog.get_logger("brokertwin.gateway")


class ClosedError(Exception):
    """The connection has to be closed; the text says why."""


class Context(NamedTuple):
    """What the connections of a gateway share."""

    engine: Engine
    addresses: Addresses
    limits: Limits
    listener: Listener
    on_lost: Callable[["Connection"], None]
    traffic: Traffic
    denials: Denials
    features: Features
    tokens: Tokens
    times: RequestTimes
    altered: AlteredSettings
    users: Users


class _Produced(NamedTuple):
    """A request that was handed over without waiting, and the time that it takes.

    Its batches are kept: an answer may be about single records.
    """

    request: Request
    future: asyncio.Future[Answer]
    watch: Stopwatch
    writes: list[Write]


class Connection(asyncio.Protocol):
    """A connection to a logical broker.

    Args:
        context: what all connections share.
        broker: the id of the logical broker.
        name: what events and the log call it.

    Attributes:
        listener: by which it came.
        last_active: when it last had a request or an answer, by the event loop's clock.
        is_busy: whether a request is not answered yet.
    """

    def __init__(self, context: Context, broker: int, name: str) -> None:
        self.broker = broker
        self.name = name
        self.listener = context.listener
        self.is_busy = False
        self._is_lost = False
        self._tells_end = False
        self._software = client_metrics.Software()
        self._muted_until = 0.0
        self._is_aborted = False
        self._context = context
        self._loop = asyncio.get_running_loop()
        self.last_active = self._loop.time()
        self._buffer = bytearray()
        self._host, self._port = "", 0
        self._frames: deque[bytes] = deque()
        self._frame_there: asyncio.Future[None] | None = None
        self._answered = asyncio.Event()
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
        """Begin."""
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
        """End: nobody waits for answers any more. Requests that came before are still decided."""
        self._is_lost = True
        for task in (self._late,) if self._frames else (self._task, self._replies, self._late):
            if task is not None:
                task.cancel()
        self._writable.set()
        self._context.on_lost(self)
        if not self._frames:
            self._tell_end()

    def _tell_end(self) -> None:
        """Share sessions and client instances end with a connection; no other state does."""
        if self._tells_end:
            self._tells_end = False
            self._context.engine.disconnected(self.broker, self.name)

    def pause_writing(self) -> None:
        """The client reads more slowly than it is answered."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """The client has caught up."""
        self._writable.set()

    def data_received(self, data: bytes) -> None:
        """Cut what has come into frames; read no more while enough requests wait."""
        if self._failure is not None or self._is_aborted:
            return
        self._buffer += data
        self._cut()
        if len(self._frames) >= self._frames_ahead():
            self._transport.pause_reading()

    def _frames_ahead(self) -> int:
        """How many frames may wait: one only while it is not known whose they are."""
        return self._context.limits.requests_ahead if self._authentication.is_complete else 1

    def _cut(self) -> None:
        """Take whole frames out of the buffer, as many as may wait."""
        buffer = self._buffer
        most = self._authentication.frame_bytes_max or self._context.limits.frame_bytes
        while len(buffer) >= SIZE_BYTES and len(self._frames) < self._frames_ahead():
            size = int.from_bytes(buffer[:SIZE_BYTES], "big", signed=True)
            if not 0 < size <= most:
                self._failure = ClosedError(f"invalid frame size {size}; the limit is {most}")
                buffer.clear()
                self._wake()
                return
            end = SIZE_BYTES + size
            if len(buffer) < end:
                return
            self._frames.append(bytes(buffer[SIZE_BYTES:end]))
            del buffer[:end]
            self._wake()

    def _wake(self) -> None:
        """Who waits for a frame need not wait any longer."""
        if self._frame_there is not None and not self._frame_there.done():
            self._frame_there.set_result(None)

    def close(self, reason: str) -> None:
        """Close, and say why in the log."""
        if self._task is not None and not self._transport.is_closing():
            self._log.warning("connection closed", reason=reason)
            self._frames.clear()
            self._transport.close()

    def end_if_idle(self, before: float, for_how_long: str) -> None:
        """Close where nothing has come or gone since; called now and then.

        A client that waits for its answer is not idle. One that does not take its answer is, or its
        connection, and what is written to it, would stay for ever.

        Args:
            before: a time by the event loop's clock.
            for_how_long: what the log says.
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
        """Close without writing what is not written yet."""
        self._is_aborted = True
        if self._task is not None:
            self._transport.abort()

    async def finished(self) -> None:
        """End what runs for this connection; the engine is told while it is there."""
        self._tell_end()
        produced = [each.future for each in self._produced]
        tasks = [task for task in (self._task, self._replies, *produced) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self) -> None:
        try:
            while self._frames or not self._is_lost:
                frame = await self._next_frame()
                self.is_busy = True
                if self._muted_until:
                    await self._unmuted()
                await self._handle(frame)
                self.is_busy = bool(self._produced)
                self.last_active = self._loop.time()
                if self._frames:
                    await asyncio.sleep(0)  # the other connections' turn
            self._tell_end()
        except Exception as error:  # noqa: BLE001 (a fault ends its connection, not the gateway)
            self._end(error)

    async def _unmuted(self) -> None:
        """A throttled client is not heard for as long as its answer says (KIP-219)."""
        await self._produced_answered()
        await asyncio.sleep(self._muted_until - self._loop.time())
        self._muted_until = 0.0

    def _end(self, error: Exception) -> None:
        if not isinstance(error, MalformedError | ClosedError | UnansweredError):
            self._log.error("fault", error=f"{type(error).__name__}: {error}", exc_info=error)
        self.close(str(error))

    async def _next_frame(self) -> bytes:
        while not self._frames:
            if self._failure is not None:
                raise self._failure
            self._frame_there = self._loop.create_future()
            await self._frame_there
        frame = self._frames.popleft()
        if self._buffer and self._failure is None:
            self._cut()
        if len(self._frames) < self._frames_ahead():
            self._transport.resume_reading()
        return frame

    async def _handle(self, frame: bytes) -> None:
        api_key = api_key_of(frame)
        traits = api_of_key(api_key).traits
        if Trait.ANY_VERSION in traits:
            self._software = client_metrics.software_of(frame) or self._software
        if self._authentication.takes(frame):
            await self._authenticate(frame)
            return
        if Trait.ANY_VERSION in traits:
            await self._produced_answered()
            self._write(api_versions.answer_to(frame, self._context.features)[0])
            self._context.traffic.answered(api_key, None, 0)
            await self._writable.wait()
            return
        watch = Stopwatch(self._loop.time())
        request = decode_request(frame)
        if api_key in scram_users.NEEDED:
            await self._produced_answered(watch)
            await self._reply(request, await self._about_users(request), watch)
            await self._writable.wait()
            return
        if api_key in delegation_tokens.APIS:
            await self._produced_answered(watch)
            may_ask = self.listener.security.may_ask_for_tokens(self._authentication)
            asked = self._edge_request(request)
            await self._reply(request, await self._context.tokens.answer(asked, may_ask), watch)
            await self._writable.wait()
            return
        _check_served(request)
        if api_key in altered_settings.APIS or broker_loggers.are_asked(api_key, request.body):
            await self._produced_answered(watch)
            await self._reply(request, await self._about_settings(request, watch), watch)
            await self._writable.wait()
            return
        if Trait.HAS_RECORDS in traits:
            request.body["requestSizeInBytes"] = len(frame)
            await self._produce(request, watch)
            return
        if Trait.PIPELINED in traits:
            future = self._context.engine.submit(self._edge_request(request))
            await self._reply_in_turn(_Produced(request, future, watch, []))
            return
        if self._replies is not None:
            await self._produced_answered(watch)
        future = self._context.engine.submit(self._edge_request(request))
        if future.done():
            answer = future.result()
        else:
            watch.stop(self._loop.time())
            answer = await future
        await self._reply(request, answer, watch)
        if not self._writable.is_set():
            await self._writable.wait()

    async def _about_users(self, request: Request) -> Answer:
        asked = self._edge_request(request)
        engine, users = self._context.engine, self._context.users
        return Answer(await scram_users.answer(engine, users, request.api_key, asked))

    async def _about_settings(self, request: Request, watch: Stopwatch) -> Answer:
        """Settings that change, and loggers: what the edge has to do with."""
        asked = self._edge_request(request)
        watch.stop(self._loop.time())
        if request.api_key in altered_settings.APIS:
            return await self._context.altered.answer(asked)
        return await broker_loggers.answer(self._context.engine, asked)

    async def _authenticate(self, frame: bytes) -> None:
        await self._produced_answered()
        outcome = await self._authentication.receive(frame)
        if outcome.is_delayed:  # said now: the client may be gone when the connection is closed
            claimed = self._authentication.claimed
            self._context.traffic.failed_authentications += 1
            said = {"host": self._host, **claimed, "reason": outcome.reason}
            self._log.warning("authentication failed", **said)
            await asyncio.sleep(self.listener.security.failure_delay_s)
        if outcome.answer is not None:
            self._write(outcome.answer)
        if outcome.reason is not None:
            if outcome.answer is not None:
                await asyncio.sleep(FAREWELL_S)
            raise ClosedError(f"{self._host}: {outcome.reason}")
        if self._late is not None and self._authentication.is_complete:
            self._late.cancel()
        await self._writable.wait()

    def _edge_request(self, request: Request) -> EdgeRequest:
        traits = api_of_key(request.api_key).traits
        if Trait.BINDS_CONNECTION in traits:
            self._tells_end = True
        if request.api_key in client_metrics.APIS:
            most = self._context.limits.telemetry_bytes
            client_metrics.complete(request.body, self._software, self._port, most)
        return EdgeRequest(
            self.broker,
            self.name,
            self._authentication.principal,
            self._host,
            request.header,
            request.body,
            self.listener.told if Trait.NAMES_BROKERS in traits else "",
        )

    async def _produce(self, request: Request, watch: Stopwatch) -> None:
        """Hand a Produce request over; its answer follows those before it."""
        writes = answers.store_batches(
            self._context.engine, self.broker, request.version, request.body
        )
        future: asyncio.Future[Answer]
        if self._produced or not all(write.locator.done() for write in writes):
            future = self._loop.create_task(self._submit_in_turn(request, watch, writes))
            future.add_done_callback(_take_note)
        else:
            await answers.put_locators(writes)
            future = self._context.engine.submit(self._edge_request(request))
        await self._reply_in_turn(_Produced(request, future, watch, writes))

    async def _reply_in_turn(self, produced: _Produced) -> None:
        """Answer at once what is decided, where nothing is before it; else behind what is."""
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
            self._answered.clear()
            await self._answered.wait()

    async def _submit_in_turn(
        self, request: Request, watch: Stopwatch, writes: list[Write]
    ) -> Answer:
        """Whichever data write ends first, requests go to the engine in the order they came."""
        async with self._in_turn:  # first come, first served
            await answers.put_locators(writes)
            watch.go_on(self._loop.time())
            future = self._context.engine.submit(self._edge_request(request))
            watch.stop(self._loop.time())
        return await future

    async def _reply_in_order(self) -> None:
        try:
            while self._produced:
                request, future, watch, writes = self._produced[0]
                answer = await asyncio.shield(future)  # it is written, whoever waits for it
                await self._reply(request, answer, watch, writes)
                self._produced.popleft()
                self._answered.set()
                self.is_busy = bool(self._produced)
                await self._writable.wait()
        except Exception as error:  # noqa: BLE001 (a fault ends its connection, not the gateway)
            self._end(error)

    async def _produced_answered(self, watch: Stopwatch | None = None) -> None:
        if self._replies is None or self._replies.done():
            return
        if watch is not None:
            watch.stop(self._loop.time())
        await asyncio.wait([self._replies])
        if watch is not None:
            watch.go_on(self._loop.time())

    async def _reply(
        self, request: Request, answer: Answer, watch: Stopwatch, writes: Sequence[Write] = ()
    ) -> None:
        watch.go_on(self._loop.time())
        body, api_key = answer.response, request.api_key
        if answer.error is not None:
            body = self._refusal(request, answer.error)
        waited_s = self._loop.time() - watch.came
        errors = self._context.traffic.answered(api_key, body, waited_s)
        if errors and body is not None and not RESOURCE_TYPES.keys().isdisjoint(errors):
            self._context.denials.look(self._edge_request(request), body)
        if answer.closes_connection:
            raise ClosedError(_why_closed(request))
        if body is None:
            self._mute(answer.mute_ms)
            return
        engine, addresses = self._context.engine, self._context.addresses
        if self.listener.is_added and api_key not in answers.ON_EVERY_LISTENER:
            addresses = {}
        if answer.error is None:
            protocol = str(self.listener.security.protocol)
            answered = Answered(
                engine, addresses, request.version, request.body, body, writes, protocol
            )
            put_bytes = answers.READ_BYTES.get(api_key)
            if put_bytes is not None:
                await put_bytes(answered)
            answers.complete(api_key, answered)
            await self._context.features.heed(api_key, body)
        limit = self._context.times.limit(self.broker, self._authentication.principal, request)
        throttle_ms = body.get("throttleTimeMs", 0)
        if limit is not None:
            throttle_ms = max(throttle_ms, self._count(limit, watch))
        if "throttleTimeMs" in body:
            throttle_ms = body["throttleTimeMs"] = max(throttle_ms, engine.throttle_ms)
        self._mute(throttle_ms)
        self._send(request, body)
        if limit is not None:
            self._count(limit, watch)

    def _refusal(self, request: Request, why: Body) -> Body:
        """What a client is told whose request is a dead letter. Raises ClosedError."""
        if why.get("reason") == Reason.BROKER_STOPPED:
            raise ClosedError(f"broker {self.broker} is stopped")
        body = refusals.error_response(request, refusals.error_of(why, request.api_key))
        is_unanswered = _has_records(request) and request.body["acks"] == 0
        if body is None or is_unanswered:
            raise ClosedError(f"{request.header['requestApiKeyName']}: {why}")
        return body

    def _count(self, limit: RequestLimit, watch: Stopwatch) -> int:
        """What a request has taken so far; for how many ms the client is not heard."""
        return self._context.times.count(self.broker, limit, watch, self._loop.time())

    def _mute(self, throttle_ms: int) -> None:
        if throttle_ms > 0:
            self._muted_until = self._loop.time() + throttle_ms / 1000

    def _send(self, request: Request, body: Body) -> None:
        """Write an answer; -1 where that cannot be written: a text is longer than the wire has it.

        As in Kafka, what the request has changed holds. Raises ClosedError.
        """
        sent = request.api_key, request.version, request.header["correlationId"]
        try:
            frame = encode_sized_response(*sent, body)
        except NotEncodableError as error:
            _log.warning("cannot encode a response", api=sent[0], error=str(error))
            refusal = refusals.error_response(request, Error.UNKNOWN_SERVER_ERROR)
            if refusal is None:
                raise ClosedError(f"cannot encode the response of API {sent[0]}") from error
            frame = encode_sized_response(*sent, refusal)
        self._write_sized(frame)

    def _write(self, frame: bytes | bytearray) -> None:
        self._write_sized(len(frame).to_bytes(SIZE_BYTES, "big") + frame)

    def _write_sized(self, frame: bytes | bytearray) -> None:
        if self._is_lost:
            return
        self._transport.write(frame)
        self.last_active = self._loop.time()


def _take_note(future: asyncio.Future[Answer]) -> None:
    """The client may have gone; then nobody asks what became of its request."""
    if not future.cancelled():
        future.exception()


def _has_records(request: Request) -> bool:
    return Trait.HAS_RECORDS in api_of_key(request.api_key).traits


def _check_served(request: Request) -> None:
    """Refuse what ApiVersions does not list. Raises ClosedError."""
    api = api_versions.SERVED.get(request.api_key)
    if api is None or not api.versions[0] <= request.version <= api.versions[1]:
        name = request.header["requestApiKeyName"]
        raise ClosedError(f"unsupported version {request.version} of {name}")


def _why_closed(request: Request) -> str:
    """Why a connection ends without an answer, where the broker says that it does."""
    if _has_records(request):
        return "a Produce request with acks 0 was refused"
    return f"a request that has no answer: {request.header['requestApiKeyName']}"
