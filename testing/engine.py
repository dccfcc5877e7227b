"""The local engine with troubles: rules for requests and responses, and a settable clock.

A failed request never reaches the state machine. A lost or delayed response belongs to a processed
request.
"""

import asyncio
import copy
import itertools
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from brokertwin.errors import UserError
from brokertwin.gateway.engine.engine import (
    Body,
    EdgeRequest,
    EngineResponse,
    NoResponseError,
    now_ms,
)
from brokertwin.gateway.engine.local_engine import LocalEngine
from brokertwin.gateway.protocol.frames import Request
from brokertwin.gateway.refusals import listed_items
from brokertwin.state.cluster import failed_dirs, image
from brokertwin.state.cluster.image import Topic
from brokertwin.state.core import outputs
from brokertwin.state.core.decision import CONTROLLER
from brokertwin.state.core.events import Kind
from brokertwin.state.core.kafka_apis import FETCH, METADATA, PRODUCE
from brokertwin.state.core.settings import BrokerSettings
from brokertwin.state.fetch.fetch_session import SessionCache
from brokertwin.state.fetch.session_items import FetchSession
from brokertwin.state.fetch.shards import ShardLayout
from brokertwin.state.groups import groups
from brokertwin.state.replication import network
from brokertwin.testing import failures
from brokertwin.testing.failures import RequestedFetchPartition
from brokertwin.testing.trouble import Effect, RequestFilter, Trouble, first_of

REQUESTS_KEPT = 10_000
"""Maximum of remembered requests; the oldest is dropped."""

ANONYMOUS = "User:ANONYMOUS"
FAULTS = frozenset({Effect.FAIL, Effect.LOSE, Effect.DROP})
DELAYS = frozenset({Effect.DELAY})

_Future = asyncio.Future[EngineResponse]


class TroubledEngine(LocalEngine):
    """A cluster in this process whose requests are subject to rules.

    Args:
        cluster: name of the cluster.
        brokers: ids of its brokers.
        settings: broker settings.

    Attributes:
        troubles: rules, in order of evaluation.
        seen: received requests as documents, oldest first.
        ahead_ms: difference of the cluster's clock and this machine's.
        paused: brokers that send no responses.
    """

    def __init__(self, cluster: str, brokers: list[int], settings: BrokerSettings) -> None:
        self.troubles: list[Trouble] = []
        self.seen: deque[Body] = deque(maxlen=REQUESTS_KEPT)
        self.ahead_ms = 0
        self.paused: set[int] = set()
        self._held: deque[tuple[EdgeRequest, Body, _Future]] = deque()
        self._intervention_count = itertools.count(1)
        super().__init__(cluster, brokers, settings, clock=self.now, may_intervene=True)

    def now(self) -> int:
        """Return the cluster's time in ms since 1970."""
        return now_ms() + self.ahead_ms

    @property
    def principal(self) -> str:
        """Principal of the test itself: a super user if there is one."""
        return self._settings.broker_settings.super_users.split(";")[0] or ANONYMOUS

    def submit(self, request: EdgeRequest) -> _Future:
        """Process a request according to the rules."""
        document = {
            "broker": request.broker,
            "connection": request.connection,
            "principal": request.principal,
            "time": self.now(),
            "requestHeader": request.header,
            "request": request.body,
            "response": None,
            "trouble": None,
        }
        self.seen.append(document)
        if request.broker not in self.paused:
            return self._decide(request, document)
        future = self._future()
        self._held.append((request, document, future))
        return future

    def submit_untroubled(self, request: EdgeRequest) -> _Future:
        """Process a request of the test itself."""
        return super().submit(request)

    def resume(self, brokers: list[int]) -> None:
        """Resume brokers, starting with held requests in order."""
        self.paused.difference_update(brokers)
        for _ in range(len(self._held)):
            request, document, future = self._held.popleft()
            if request.broker in self.paused:
                self._held.append((request, document, future))
            else:
                _carry_over(self._decide(request, document), future)

    def advance(self, milliseconds: int) -> None:
        """Advance the clock; everything due by then happens now."""
        self.ahead_ms += milliseconds
        self._tick()
        self._schedule(self._deadline)

    def move_leader(self, topic: str, partition: int, leader: int) -> None:
        """Make a broker the leader of a partition. Raises UserError."""
        move = {"topic": topic, "partition": partition, "leader": leader}
        self._intervene(Kind.MOVE_LEADER, move=move)

    def fail_log_dir(self, broker: int, directory: str) -> None:
        """Fail a log directory. Raises UserError if the broker does not have it."""
        self._intervene(Kind.FAIL_LOG_DIR, broker=broker, directory=directory)

    def repair(self, broker: int) -> None:
        """Restart a broker that has halted or has failed log directories."""
        tables = self._cell.tables
        if failed_dirs.of(tables.replication, broker):
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
            found = groups.find_in_tables(self._cell.tables, broker, group)
            clients = {} if found is None else {i: m.client_id for i, m in found.members.items()}
            ids = [each for each, its_client in clients.items() if client in (None, its_client)]
            if ids:
                self._intervene(Kind.EXPIRE_MEMBERS, broker=broker, group=group, members=ids)
            expired += ids
        return expired

    def topic(self, name: str) -> Topic | None:
        """Return a topic known to the controller."""
        return image.topic_by_name(self._cell.tables.metadata, CONTROLLER, name)

    def _intervene(self, kind: Kind, **fields: Any) -> None:
        event_id = f"{self._events.incarnation}-intervention-{next(self._intervention_count)}"
        frame = {"id": event_id, "cluster": self.cluster, "time": self.now(), "kind": kind}
        rows = self._handle(
            msgspec.json.encode({"broker": self.brokers[0], **frame, **fields}), True
        )
        letters = [row for row in rows or () if row.topic == outputs.DEAD_LETTERS]
        self._dispatch([row for row in rows or () if row not in letters])
        if letters:
            raise UserError(msgspec.json.decode(letters[0].value or b"")["detail"])

    def _decide(self, request: EdgeRequest, document: Body) -> _Future:
        fault = first_of(self.troubles, FAULTS, lambda where: self._is_for(where, request))
        delay = first_of(self.troubles, DELAYS, lambda where: self._is_for(where, request))
        if fault is not None or delay is not None:
            document["trouble"] = " and ".join(str(each) for each in (fault, delay) if each)
        future = super().submit(request) if fault is None else self._in_trouble(request, fault)
        if delay is not None:
            future = self._late(future, delay.delay_ms)
        _when_done(future, lambda done: _note(document, done))
        return future

    def _in_trouble(self, request: EdgeRequest, trouble: Trouble) -> _Future:
        if trouble.effect is Effect.FAIL:
            return self._failed(request, trouble)
        lost = self._future()
        if trouble.effect is Effect.DROP:
            self._forget_refused(request.body)
            lost.set_exception(NoResponseError(str(trouble)))
            return lost
        decided = super().submit(request)
        if trouble.closes:
            _when_done(decided, lambda _: _refuse(lost, str(trouble)))
        return lost

    def _is_for(self, where: RequestFilter, request: EdgeRequest) -> bool:
        header = request.header
        if (
            header["requestApiKey"] != where.api_key
            or where.client not in (None, header.get("clientId"))
            or where.broker not in (None, request.broker)
        ):
            return False
        if where.topic is None and where.api_key != METADATA.key:
            return True
        if where.api_key == FETCH.key:
            return any(where.has_place(p.topic, p.partition) for p in self._fetched(request))
        parts = self._split(request, where)
        return bool(parts and parts.failing)

    def _split(self, request: EdgeRequest, where: RequestFilter) -> failures.Parts | None:
        """Split a request's items by the filter; None if the API has no topics."""
        wanted = self._spelled_out(request)
        mirror = failures.mirror_of(wanted)
        if mirror is None:
            return None
        return failures.split(
            listed_items(wanted.body, mirror), mirror, where.has_place, self._name_of
        )

    def _spelled_out(self, request: EdgeRequest) -> Request:
        """Expand a Metadata request for all topics to their names."""
        wanted = Request(request.header, request.body)
        if wanted.api_key != METADATA.key:
            return wanted
        topics = request.body["topics"]
        if topics is None or (wanted.version == 0 and not topics):
            names = image.topic_names(self._cell.tables.metadata, CONTROLLER)
            return wanted._replace(body={**wanted.body, "topics": [{"name": n} for n in names]})
        return wanted

    def _name_of(self, topic_id: str) -> str | None:
        topic = image.topic_by_id(self._cell.tables.metadata, CONTROLLER, topic_id)
        return topic.name if topic is not None else None

    def _failed(self, request: EdgeRequest, trouble: Trouble) -> _Future:
        """Return an error response; only the rest of the request is processed."""
        where = trouble.where
        if where.api_key == METADATA.key:
            return self._failed_metadata(request, trouble)
        if where.api_key == FETCH.key and trouble.error not in failures.OF_FETCH_SESSIONS:
            return self._failed_fetch(request, trouble)
        wanted = Request(request.header, request.body)
        mirror = failures.mirror_of(wanted)
        parts = self._split(request, where)
        if where.topic is None or where.api_key == FETCH.key or parts is None or mirror is None:
            self._forget_refused(request.body)
            return self._respond(request, failures.whole(wanted, trouble.error))
        errors = failures.part(wanted, parts.failing, mirror, trouble.error)
        if not parts.rest:
            self._forget_refused(request.body)
            return self._respond(request, errors)
        if where.api_key == PRODUCE.key:
            self._forget_refused({"topicData": parts.failing})
        decided = super().submit(
            request._replace(body={**request.body, mirror.request_list: parts.rest})
        )

        def merged(outcome: EngineResponse) -> EngineResponse:
            if outcome.response is None:
                return outcome._replace(closes_connection=outcome.error is None)
            return outcome._replace(response=failures.merge(outcome.response, errors, mirror))

        return self._then(decided, merged)

    def _failed_metadata(self, request: EdgeRequest, trouble: Trouble) -> _Future:
        """Process Metadata for brokers; topics get the error and are not created."""
        parts = self._split(request, trouble.where)
        assert parts is not None
        decided = super().submit(request._replace(body={**request.body, "topics": parts.rest}))

        def with_errors(outcome: EngineResponse) -> EngineResponse:
            if outcome.response is None:
                return outcome
            response = outcome.response
            if not parts.rest:
                response = {**response, "topics": []}  # in version 0 no names mean all topics
            response = failures.put_into_metadata(response, parts.failing, trouble.error)
            return outcome._replace(response=response)

        return self._then(decided, with_errors)

    def _failed_fetch(self, request: EdgeRequest, trouble: Trouble) -> _Future:
        """Process the session; its partitions get the error and no records.

        If the Fetch itself is rejected, it fails as a whole.
        """
        body = {**request.body, "maxWaitMs": 0}
        decided = super().submit(request._replace(body=body))

        def with_errors(outcome: EngineResponse) -> EngineResponse:
            places = [
                place
                for place in self._fetched(request)
                if trouble.where.has_place(place.topic, place.partition)
            ]
            if outcome.response is None or outcome.response.get("errorCode") or not places:
                wanted = Request(request.header, request.body)
                return EngineResponse(failures.whole(wanted, trouble.error))
            response = failures.put_into_fetch(outcome.response, places, trouble.error)
            return outcome._replace(response=response)

        return self._then(decided, with_errors)

    def _fetched(self, request: EdgeRequest) -> Iterator[RequestedFetchPartition]:
        """Yield the partitions of a Fetch: named ones, and those of its session."""
        body, version = request.body, request.header["requestApiVersion"]
        yield from failures.named_in_fetch(body, version, self._name_of)
        session_id = body.get("sessionId", 0)
        layout = ShardLayout.of(self._settings.broker_settings)
        cache = SessionCache(self._cell.tables.fetch_sessions, request.broker, layout, self.now())
        for cached in cache.partitions(session_id) if session_id else ():
            wanted = cached.requested
            by_id = version >= failures.TOPIC_IDS_SINCE
            name = self._name_of(wanted.topic_id) if by_id else wanted.topic
            identity = ("topicId", wanted.topic_id) if by_id else ("topic", wanted.topic)
            yield RequestedFetchPartition(name, identity, wanted.partition)

    def _respond(self, request: EdgeRequest, body: Body) -> _Future:
        """Return a response; Produce with acks 0 closes its connection instead."""
        future = self._future()
        is_one_way = request.body.get("acks") == 0
        future.set_result(EngineResponse(None, None, True) if is_one_way else EngineResponse(body))
        return future

    def _future(self) -> _Future:
        assert self._loop is not None, "start() comes first"
        return self._loop.create_future()

    def _then(self, decided: _Future, make: Callable[[EngineResponse], EngineResponse]) -> _Future:
        outer = self._future()
        _when_done(decided, lambda done: _carry_over(done, outer, make))
        return outer

    def _late(self, decided: _Future, milliseconds: int) -> _Future:
        late = self._future()
        loop = late.get_loop()

        def begin(done: _Future) -> None:
            loop.call_later(milliseconds / 1000, _carry_over, done, late)

        _when_done(decided, begin)
        return late


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


def _note(document: Body, done: _Future) -> None:
    """Put a response into the document of its request."""
    if done.cancelled() or done.exception() is not None:
        return
    outcome = done.result()
    document["response"] = copy.deepcopy(outcome.response)
    if outcome.error is not None:
        document["error"] = outcome.error
