"""Relay of one client connection that injects faults.

A request is decoded before it is forwarded. Responses go through the outbox, in the order of their
requests: those of the broker, error responses of the relay, and the end of the connection.
"""

import asyncio
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

import structlog

from brokertwin.gateway.capture.documents import CapturedExchange
from brokertwin.gateway.capture.relay import (
    RESPONSES_TIMEOUT_S,
    Pipe,
    Relay,
    RelayHost,
    RelayTarget,
    UnframedError,
    write_frame,
)
from brokertwin.gateway.capture.rewriting import may_have_addresses
from brokertwin.gateway.faults.fault import Effect, Fault
from brokertwin.gateway.faults.injection import FaultSet, InjectedFaults, Plan
from brokertwin.gateway.proxy.learned import Learned
from brokertwin.protocol.frames import RequestFrame, decode_request, encode_request, encode_response
from brokertwin.protocol.primitives import NotEncodableError

_log = structlog.get_logger("brokertwin.proxy")


class FaultHost(RelayHost, Protocol):
    faults: FaultSet
    learned: Learned


@dataclass(eq=False)
class _Slot:
    """Place of an exchange in the outbox.

    Attributes:
        frame: response for the client; None: the connection ends here.
        is_copy: whether the response belongs to the first copy of a duplicated request.
        is_end: whether there is no exchange, only the end of the connection.
        is_passed: whether the exchange is recorded, and nothing is to be sent.
        ended: time of the response by the event loop's clock.
    """

    exchange: CapturedExchange
    injection: InjectedFaults | None = None
    plan: Plan | None = None
    is_copy: bool = False
    is_end: bool = False
    is_passed: bool = False
    ended: float | None = None
    frame: "asyncio.Future[bytes | bytearray | None]" = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )


class FaultRelay(Relay):
    """Connects a client with a broker, subject to faults. Arguments are those of `Relay`."""

    def __init__(
        self, host: FaultHost, target: RelayTarget, name: str, client: Pipe, broker: Pipe
    ) -> None:
        self._host = host
        self._outbox: deque[_Slot] = deque()
        self._slots: dict[int, _Slot] = {}
        self._filled = asyncio.Event()
        self._muted_until = 0.0
        super().__init__(host, target, name, client, broker)

    @property
    def broker(self) -> int | None:
        return self._target.node_id

    @property
    def pending(self) -> list[CapturedExchange]:
        """Exchanges whose response the client has not received."""
        return [slot.exchange for slot in self._outbox if not slot.is_end]

    def _pending(self) -> int:
        return len(self._outbox)

    async def _pass_request(self, exchange: CapturedExchange, frame: bytes) -> None:
        """Decode a request, apply its faults and forward it."""
        self._read_request(exchange, frame)
        if self._muted_until:
            await asyncio.sleep(self._muted_until - self._loop.time())
            self._muted_until = 0.0
        injection = self._injection(exchange)
        if injection is None:
            if not exchange.is_one_way:
                self._put(_Slot(exchange))
            write_frame(self._broker.writer, frame)
            await self._forwarded(exchange)
            return
        exchange.fault = str(injection)
        if injection.timing_before is not None:
            await self._pass_time(injection.timing_before)
        await self._inject(exchange, frame, injection)

    def _injection(self, exchange: CapturedExchange) -> InjectedFaults | None:
        if exchange.request is None or exchange.header is None:
            return None
        request = RequestFrame(exchange.header, exchange.request)
        return self._host.faults.inject(request, self._target.node_id, self._host.learned)

    async def _inject(
        self, exchange: CapturedExchange, frame: bytes, injection: InjectedFaults
    ) -> None:
        request, is_one_way = decode_request(frame), exchange.is_one_way
        plan = injection.plan(request, self._target.node_id, self._host.learned)
        slot = _Slot(exchange, injection, plan)
        if plan.forwarded is None:
            exchange.response = plan.respond(None)
            exchange.is_complete = exchange.response is not None
            self._put(slot)
            slot.frame.set_result(self._encoded(exchange))
            if exchange.response is None:
                await self._silence()
            return
        if plan.forwarded is not request.body:
            frame = encode_request(request._replace(body=plan.forwarded))
        if injection.effect is Effect.DUPLICATE:
            await self._forward_copy(exchange, frame)
        write_frame(self._broker.writer, frame)
        if not is_one_way:
            self._put(slot)
        await self._forwarded(exchange)
        if is_one_way and injection.effect in (Effect.FAIL, Effect.LOSE):
            self._put_end()
            await self._silence()

    async def _forward_copy(self, exchange: CapturedExchange, frame: bytes) -> None:
        """Forward the first copy of a duplicated request; its response is dropped."""
        copy = self._exchange()
        copy.time, copy.started = exchange.time, exchange.started
        copy.fault = exchange.fault
        copy.read_request(frame)
        write_frame(self._broker.writer, frame)
        if not copy.is_one_way:
            self._put(_Slot(copy, is_copy=True))
        await self._forwarded(copy)

    def _put(self, slot: _Slot) -> None:
        self._outbox.append(slot)
        self._slots[id(slot.exchange)] = slot
        self._filled.set()

    def _put_end(self) -> None:
        """End the connection after the responses in the outbox."""
        end = _Slot(self._exchange(), is_end=True)
        end.frame.set_result(None)
        self._put(end)

    async def _silence(self) -> None:
        """Stop reading requests: the connection ends after earlier responses."""
        await asyncio.Event().wait()

    async def _pass_time(self, timing: Fault) -> None:
        """Wait for a delay, or for the release of a hold."""
        if timing.effect is Effect.DELAY:
            await asyncio.sleep((timing.spec.ms or 0) / 1000)
            return
        released = asyncio.Event()

        def release() -> None:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(released.set)

        timing.hold(release)
        await released.wait()

    async def _pass_response(self, exchange: CapturedExchange, frame: bytes, ended: float) -> None:
        """Put a response into the outbox, changed by its faults."""
        exchange.read_response(frame)
        self._log_in(exchange, frame)
        self._received(exchange)
        slot = self._slots.get(id(exchange))
        if slot is None:
            slot = _Slot(exchange)
            self._put(slot)
        slot.ended = ended
        changed: bytes | bytearray = frame
        if exchange.response is not None and exchange.request is not None:
            request = RequestFrame(exchange.header or {}, exchange.request)
            self._host.learned.learn(request, self._target.node_id, exchange.response)
            if slot.plan is not None and slot.injection is not None and _changes(slot.injection):
                exchange.response = slot.plan.respond(exchange.response)
                changed = self._encoded(exchange) or frame
            if may_have_addresses(exchange.api_key, exchange.version):
                changed = await self._rewritten(exchange, bytes(changed))
        slot.frame.set_result(changed)

    def _skipped(self, frame: bytes) -> list[CapturedExchange]:
        skipped = super()._skipped(frame)
        for exchange in skipped:
            self._pass_by(self._slots.get(id(exchange)))
        return skipped

    async def _large_response(self, error: UnframedError, reader: asyncio.StreamReader) -> None:
        """Forward a response above the size limit after earlier ones."""
        slot = self._slots.get(id(self._waiting[0])) if self._waiting else None
        while slot is not None and self._outbox[0] is not slot:
            self._progress.clear()
            await self._progress.wait()
        await super()._large_response(error, reader)
        self._pass_by(slot)

    def _pass_by(self, slot: _Slot | None) -> None:
        """Skip an exchange in the outbox that is already recorded."""
        if slot is not None:
            slot.is_passed = True
            slot.frame.set_result(b"")

    def _encoded(self, exchange: CapturedExchange) -> bytearray | None:
        """Encode a response of the relay; None if the connection ends instead."""
        if exchange.response is None:
            return None
        key, version, number = exchange.api_key, exchange.version, exchange.correlation_id
        try:
            return encode_response(key, version, number, exchange.response)
        except NotEncodableError as error:
            _log.error("cannot encode a response", api=exchange.api, error=str(error))
            return None

    async def _responses(self) -> None:
        """Receive and send responses until the broker or a fault ends the connection."""
        receiver = self._loop.create_task(super()._responses())
        sender = self._loop.create_task(self._send_all())
        try:
            await asyncio.wait((receiver, sender), return_when=asyncio.FIRST_COMPLETED)
            if not sender.done():
                for slot in self._outbox:
                    if not slot.frame.done():
                        slot.frame.set_result(None)
                self._put_end()
                await sender
                await receiver
            await sender
        finally:
            for task in (receiver, sender):
                task.cancel()
            await asyncio.gather(receiver, sender, return_exceptions=True)

    async def _send_all(self) -> None:
        """Send responses in order, until one ends the connection."""
        while True:
            while not self._outbox:
                self._filled.clear()
                await self._filled.wait()
            slot = self._outbox[0]
            frame = await asyncio.shield(slot.frame)
            if frame is None:
                return
            injection = slot.injection
            if injection is not None and injection.timing_after is not None:
                await self._pass_time(injection.timing_after)
            is_lost = injection is not None and injection.effect is Effect.LOSE
            self._outbox.popleft()
            del self._slots[id(slot.exchange)]
            if not slot.is_passed:
                is_delivered = not is_lost and not slot.is_copy and self._send(frame)
                await self._record(slot.exchange, slot.ended, is_delivered)
            self._progress.set()
            if injection is not None and injection.throttle is not None:
                self._muted_until = self._loop.time() + injection.throttle_ms / 1000
            if is_lost and injection is not None and injection.outcome is not None:
                if injection.outcome.spec.closes:
                    return
                await self._silence()
            await self._drain()

    async def _last_responses(self, responses: "asyncio.Task[None]") -> None:
        await super()._last_responses(responses)
        with suppress(TimeoutError):
            async with asyncio.timeout(RESPONSES_TIMEOUT_S):
                while self._has_client and self._outbox and not responses.done():
                    self._progress.clear()
                    await self._progress.wait()

    async def _record_rest(self) -> None:
        self._waiting.clear()
        for slot in self._outbox:
            if not slot.is_end:
                await self._record(slot.exchange, slot.ended, is_delivered=False)
        self._outbox.clear()


def _changes(injection: InjectedFaults) -> bool:
    """True if the broker's response changes."""
    return injection.effect is Effect.FAIL or injection.throttle is not None
