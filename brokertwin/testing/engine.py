"""The local engine with faults (`gateway/faults`), and a settable clock.

A failed request never reaches the state machine. A lost or delayed response belongs to a processed
request. A request that waits before it is processed delays later ones of its connection.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import msgspec

from brokertwin.errors import UserError
from brokertwin.gateway import refusals
from brokertwin.gateway.engine.engine import (
    AnyBody,
    Body,
    EdgeRequest,
    EngineResponse,
    NoResponseError,
)
from brokertwin.gateway.engine.local_engine import LocalEngine
from brokertwin.gateway.faults import failures
from brokertwin.gateway.faults.failures import RequestedFetchPartition
from brokertwin.gateway.faults.fault import Effect, Fault
from brokertwin.gateway.faults.injection import NO_ACKS, FaultSet, InjectedFaults, Plan
from brokertwin.protocol.codec import request_type
from brokertwin.protocol.frames import RequestFrame
from brokertwin.protocol.generated.produce import ProduceRequest
from brokertwin.protocol.kafka_apis import PRODUCE
from brokertwin.state.cluster import failed_dirs, image
from brokertwin.state.cluster.image import Topic
from brokertwin.state.core import outputs
from brokertwin.state.core.decision import CONTROLLER
from brokertwin.state.core.events import Kind, Move
from brokertwin.state.core.settings import BrokerSettings
from brokertwin.state.fetch.fetch_session import SessionCache
from brokertwin.state.fetch.session_items import FetchSession
from brokertwin.state.fetch.shards import ShardLayout
from brokertwin.state.groups import groups
from brokertwin.state.replication import network

REQUESTS_KEPT = 10_000
"""Maximum of remembered requests; the oldest is dropped."""

ANONYMOUS = "User:ANONYMOUS"

_Future = asyncio.Future[EngineResponse]


class SeenRequest(msgspec.Struct, eq=False):
    """A received request, its time in ms since 1970, its faults, and its result."""

    request: EdgeRequest
    time: int
    fault: str | None = None
    outcome: EngineResponse | None = None

    def document(self) -> Body:
        """Return the exchange in the form of Kafka's request log."""
        request, outcome = self.request, self.outcome
        header, body = request.document()
        document: Body = {
            "broker": request.broker,
            "connection": request.connection,
            "principal": request.principal,
            "time": self.time,
            "requestHeader": header,
            "request": body,
            "response": None,
            "fault": self.fault,
        }
        if outcome is not None and outcome.response is not None:
            document["response"] = outcome.document(request.version)
        if outcome is not None and outcome.error is not None:
            document["error"] = outcome.error
        return document


class FaultyEngine(LocalEngine):
    """A cluster in this process whose requests are subject to faults.

    Attributes:
        seen: received requests, oldest first.
        ahead_ms: difference of the cluster's clock and this machine's.
        paused: brokers that send no responses.
    """

    def __init__(
        self, cluster: str, brokers: list[int], settings: BrokerSettings, faults: FaultSet
    ) -> None:
        self.faults = faults
        self.seen: deque[SeenRequest] = deque(maxlen=REQUESTS_KEPT)
        self.ahead_ms = 0
        self.paused: set[int] = set()
        self._held: deque[tuple[EdgeRequest, SeenRequest, _Future]] = deque()
        self._behind: dict[str, deque[Callable[[], None]]] = {}
        self._closed_gates: set[str] = set()
        super().__init__(cluster, brokers, settings, clock=self.now, may_intervene=True)

    def now(self) -> int:
        """Return the cluster's time in ms since 1970."""
        return time.time_ns() // 1_000_000 + self.ahead_ms

    @property
    def principal(self) -> str:
        """Principal of the test itself: a super user if there is one."""
        return self._settings.broker_settings.super_users.split(";")[0] or ANONYMOUS

    def submit(self, request: EdgeRequest) -> _Future:
        """Process a request according to the faults."""
        seen = SeenRequest(request, self.now())
        self.seen.append(seen)
        if not (self.faults.faults or self._behind or self.paused):
            future = super().submit(request)
            if future.done():
                _note(seen, future)
            else:
                future.add_done_callback(partial(_note, seen))
            return future
        if request.broker not in self.paused:
            return self._decide(request, seen)
        future = self._future()
        self._held.append((request, seen, future))
        return future

    def submit_without_faults(self, request: EdgeRequest) -> _Future:
        """Process a request of the test itself."""
        return super().submit(request)

    def resume(self, brokers: list[int]) -> None:
        """Resume brokers, starting with held requests in order."""
        self.paused.difference_update(brokers)
        for _ in range(len(self._held)):
            request, seen, future = self._held.popleft()
            if request.broker in self.paused:
                self._held.append((request, seen, future))
            else:
                _carry_over(self._decide(request, seen), future)

    def advance(self, milliseconds: int) -> None:
        """Advance the clock; everything due by then happens now."""
        self.ahead_ms += milliseconds
        self._tick()
        self._schedule(self._deadline)

    def move_leader(self, topic: str, partition: int, leader: int) -> None:
        """Make a broker the leader of a partition. Raises UserError."""
        self._intervene(Kind.MOVE_LEADER, move=Move(topic, partition, leader))

    def fail_log_dir(self, broker: int, directory: str) -> None:
        """Fail a log directory. Raises UserError if the broker does not have it."""
        self._intervene(Kind.FAIL_LOG_DIR, broker=broker, directory=directory)

    def kill(self, broker: int) -> None:
        """Kill a broker without a controlled shutdown."""
        self._intervene(Kind.KILL_BROKER, broker=broker)

    def repair(self, broker: int) -> None:
        """Restart a broker that has halted or has failed log directories."""
        tables = self._cell.tables
        if failed_dirs.of(tables.of(broker)):
            self._intervene(Kind.STOP_BROKER, broker=broker)
        if network.is_stopped(tables.cluster, broker):
            self._intervene(Kind.START_BROKER, broker=broker)

    def expire_sessions(self, client: str | None, brokers: list[int]) -> list[int]:
        """Drop the fetch sessions of a client, or all; return their ids."""
        expired = []
        for broker in brokers:
            sessions = self._cell.tables.fetch_sessions.items(f"{broker}/session/", FetchSession)
            ids = [s.session_id for _, s in sessions if client in (None, s.client_id)]
            if ids:
                self._intervene(Kind.DROP_SESSIONS, broker=broker, sessions=ids)
            expired += ids
        return expired

    def expire_members(self, group: str, client: str | None) -> list[str]:
        """Expire group members of a client, or all; return their ids."""
        expired = []
        for broker in self.brokers:
            found = groups.find(self._cell.tables.of(broker), group)
            clients = {} if found is None else {i: m.client_id for i, m in found.members.items()}
            ids = [each for each, its_client in clients.items() if client in (None, its_client)]
            if ids:
                self._intervene(Kind.EXPIRE_MEMBERS, broker=broker, group=group, members=ids)
            expired += ids
        return expired

    def topic(self, name: str) -> Topic | None:
        """Return a topic known to the controller."""
        return image.topic_by_name(self._cell.tables.of(CONTROLLER), name)

    def _intervene(self, kind: Kind, broker: int | None = None, **fields: Any) -> None:
        broker = self.brokers[0] if broker is None else broker
        rows = self._handle(self._events.intervention(kind, broker, **fields), True)
        letters = [row for row in rows or () if row.topic == outputs.DEAD_LETTERS]
        self._dispatch([row for row in rows or () if row not in letters])
        if letters:
            raise UserError(msgspec.json.decode(letters[0].value or b"")["detail"])

    def _decide(self, request: EdgeRequest, seen: SeenRequest) -> _Future:
        """Process a request after those of its connection that wait to be processed."""
        behind = self._behind.get(request.connection)
        if behind is None:
            return self._enter(request, seen)
        future = self._future()
        behind.append(lambda: _carry_over(self._enter(request, seen), future))
        return future

    def _enter(self, request: EdgeRequest, seen: SeenRequest) -> _Future:
        injection = None
        if self.faults.faults:
            injection = self.faults.inject(request.document(), request.broker, self)
        if injection is None:
            future = super().submit(request)
        else:
            seen.fault = str(injection)
            future = self._inject(request, injection)
        if future.done():
            _note(seen, future)
        else:
            future.add_done_callback(partial(_note, seen))
        return future

    def _inject(self, request: EdgeRequest, injection: InjectedFaults) -> _Future:
        timing = injection.timing_before
        if timing is not None:
            return self._wait_before(request, injection, timing)
        future = self._process(request, injection)
        timing = injection.timing_after
        return future if timing is None else self._late(future, timing)

    def _wait_before(
        self, request: EdgeRequest, injection: InjectedFaults, timing: Fault
    ) -> _Future:
        """Process a request after a wait, and then later ones of its connection in order."""
        future, connection = self._future(), request.connection
        behind = self._behind.setdefault(connection, deque())
        self._closed_gates.add(connection)

        def open_gate() -> None:
            self._closed_gates.discard(connection)
            _carry_over(self._process(request, injection), future)
            while behind and connection not in self._closed_gates:
                behind.popleft()()
            if connection not in self._closed_gates:
                del self._behind[connection]

        self._after(timing, open_gate)
        return future

    def _process(self, request: EdgeRequest, injection: InjectedFaults) -> _Future:
        """Process the rest of a request after its faults, and change its response."""
        document = request.document()
        plan = injection.plan(document, request.broker, self)
        if request.api_key == PRODUCE.key and plan.refused:
            self._forget_refused(msgspec.convert(plan.refused, ProduceRequest))
        lost = self._future()
        if injection.effect is Effect.CUT:
            lost.set_exception(NoResponseError(str(injection)))
            return lost
        if plan.forwarded is None:
            return self._respond(request, plan.respond(None), injection)
        if injection.effect is Effect.DUPLICATE:
            super().submit(request._replace(body=self._copied(to_struct(request, document.body))))
        decided = super().submit(request._replace(body=to_struct(request, plan.forwarded)))
        if injection.effect is not Effect.LOSE:
            return self._then(decided, lambda outcome: _planned(plan, injection, request, outcome))
        assert injection.outcome is not None
        if injection.outcome.spec.closes:
            _when_done(decided, lambda _: _refuse(lost, str(injection)))
        return lost

    def _copied(self, body: AnyBody) -> AnyBody:
        """Give a copy of a body the bytes of its batches again, which two logs cannot share."""
        for topic in body.topic_data if isinstance(body, ProduceRequest) else ():
            for partition in topic.partition_data:
                for batch in partition.batches:
                    data = self._store.get(batch.locator) if batch.locator else None
                    if data is not None:
                        batch.locator = self._store.put(data)
        return body

    def topic_names(self) -> list[str]:
        """Return all topics."""
        return list(image.topic_names(self._cell.tables.of(CONTROLLER)))

    def name_of(self, topic_id: str) -> str | None:
        """Return the name of a topic."""
        topic = image.topic_by_id(self._cell.tables.of(CONTROLLER), topic_id)
        return topic.name if topic is not None else None

    def fetched(
        self, request: RequestFrame, broker: int | None
    ) -> Iterator[RequestedFetchPartition]:
        """Yield the partitions of a Fetch: named ones, and those of its session."""
        body, version = request.body, request.version
        yield from failures.named_in_fetch(body, version, self.name_of)
        session_id = body.get("sessionId", 0)
        layout = ShardLayout.of(self._settings.broker_settings)
        assert broker is not None, "each request has a broker"
        cache = SessionCache(self._cell.tables.fetch_sessions, broker, layout, self.now())
        for cached in cache.partitions(session_id) if session_id else ():
            partition = cached.requested
            by_id = version >= failures.TOPIC_IDS_SINCE
            name = self.name_of(partition.topic_id) if by_id else partition.topic
            identity = ("topicId", partition.topic_id) if by_id else ("topic", partition.topic)
            yield RequestedFetchPartition(name, identity, partition.partition)

    def _respond(
        self, request: EdgeRequest, body: Body | None, injection: InjectedFaults
    ) -> _Future:
        """Return a response; without one the connection is closed."""
        future = self._future()
        response = None if body is None else refusals.to_struct(request.api_key, body)
        future.set_result(EngineResponse(response, None, body is None, injected=injection.error))
        return future

    def _future(self) -> _Future:
        assert self._loop is not None, "start() comes first"
        return self._loop.create_future()

    def _then(self, decided: _Future, make: Callable[[EngineResponse], EngineResponse]) -> _Future:
        outer = self._future()
        _when_done(decided, lambda done: _carry_over(done, outer, make))
        return outer

    def _late(self, decided: _Future, timing: Fault) -> _Future:
        late = self._future()
        _when_done(decided, lambda done: self._after(timing, lambda: _carry_over(done, late)))
        return late

    def _after(self, timing: Fault, go_on: Callable[[], None]) -> None:
        """Call a function in the event loop after a delay, or after the release of a hold."""
        loop = self._loop
        assert loop is not None, "start() comes first"
        if timing.effect is Effect.DELAY:
            loop.call_later((timing.spec.ms or 0) / 1000, go_on)
        else:
            timing.hold(lambda: loop.call_soon_threadsafe(go_on))


def _planned(
    plan: Plan, injection: InjectedFaults, request: EdgeRequest, outcome: EngineResponse
) -> EngineResponse:
    """Return the response according to the plan."""
    if outcome.response is None:
        has_no_acks = getattr(request.body, "acks", None) == NO_ACKS
        is_failed = injection.effect is Effect.FAIL and has_no_acks
        return outcome._replace(closes_connection=is_failed and outcome.error is None)
    response = plan.respond(outcome.document(request.version))
    if response is not None:
        made = refusals.to_struct(request.api_key, response)
        return outcome._replace(response=made, injected=injection.error)
    return outcome._replace(response=None)


def to_struct(request: EdgeRequest, body: Body) -> AnyBody:
    """Return the struct of a request's document."""
    struct: AnyBody = msgspec.convert(body, request_type(request.api_key))
    return struct


def _when_done(future: _Future, then: Callable[[_Future], object]) -> None:
    """Call a function when a future is done, or now."""
    if future.done():
        then(future)
    else:
        future.add_done_callback(then)


def _carry_over(
    inner: _Future,
    outer: _Future,
    make: Callable[[EngineResponse], EngineResponse] = lambda outcome: outcome,
) -> None:
    """Copy the result of one future to another."""
    if not inner.done():
        inner.add_done_callback(lambda done: _carry_over(done, outer, make))
        return
    error = None if inner.cancelled() else inner.exception()
    if outer.done():
        return
    if inner.cancelled():
        outer.cancel()
    elif error is not None:
        outer.set_exception(error)
    else:
        outer.set_result(make(inner.result()))


def _refuse(future: _Future, reason: str) -> None:
    if not future.done():
        future.set_exception(NoResponseError(reason))


def _note(seen: SeenRequest, done: _Future) -> None:
    """Keep a response with its request."""
    if not done.cancelled() and done.exception() is None:
        seen.outcome = done.result().copied()
