"""The local engine with trouble: rules on the way in, answers on the way out, a clock to turn.

What fails is not handled: the state machine never sees it. What is lost or late has been handled.
"""

import asyncio
import copy
import itertools
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from brokertwin.errors import UserError
from brokertwin.gateway.engine.engine import Answer, Body, EdgeRequest, UnansweredError, now_ms
from brokertwin.gateway.engine.local_engine import LocalEngine
from brokertwin.gateway.protocol.frames import Request
from brokertwin.gateway.refusals import asked_for
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
from brokertwin.testing.failures import FetchPlace
from brokertwin.testing.trouble import Effect, Trouble, Where, first_of

REQUESTS_KEPT = 10_000
"""Requests that are remembered; the oldest goes when there is one more."""

ANONYMOUS = "User:ANONYMOUS"
FAULTS = frozenset({Effect.FAIL, Effect.LOSE, Effect.DROP})
DELAYS = frozenset({Effect.DELAY})

_Future = asyncio.Future[Answer]


class TroubledEngine(LocalEngine):
    """A cluster in this process whose requests run into rules.

    Args:
        cluster: its name.
        brokers: the ids of its brokers.
        settings: their settings.

    Attributes:
        troubles: the rules, in the order in which they are looked at.
        seen: the requests that came in, as documents, the oldest first.
        ahead_ms: how far the cluster's clock is ahead of this machine's.
        paused: the brokers that answer nothing.
    """

    def __init__(self, cluster: str, brokers: list[int], settings: BrokerSettings) -> None:
        self.troubles: list[Trouble] = []
        self.seen: deque[Body] = deque(maxlen=REQUESTS_KEPT)
        self.ahead_ms = 0
        self.paused: set[int] = set()
        self._held: deque[tuple[EdgeRequest, Body, _Future]] = deque()
        self._told = itertools.count(1)
        super().__init__(cluster, brokers, settings, clock=self.now, may_intervene=True)

    def now(self) -> int:
        """The cluster's time in ms since 1970."""
        return now_ms() + self.ahead_ms

    @property
    def principal(self) -> str:
        """Who the test itself is: a super user where there are any."""
        return self._settings.broker_settings.super_users.split(";")[0] or ANONYMOUS

    def submit(self, request: EdgeRequest) -> _Future:
        """Decide a request, or what the rules make of it."""
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
        """Decide a request of the test itself."""
        return super().submit(request)

    def resume(self, brokers: list[int]) -> None:
        """Let brokers answer again: first what has come in meanwhile, in its order."""
        self.paused.difference_update(brokers)
        for _ in range(len(self._held)):
            request, document, future = self._held.popleft()
            if request.broker in self.paused:
                self._held.append((request, document, future))
            else:
                _carry_over(self._decide(request, document), future)

    def advance(self, milliseconds: int) -> None:
        """Turn the clock; what is due by then happens now."""
        self.ahead_ms += milliseconds
        self._tick()
        self._schedule(self._deadline)

    def move_leader(self, topic: str, partition: int, leader: int) -> None:
        """Make a broker the leader of a partition. Raises UserError where it cannot be."""
        move = {"topic": topic, "partition": partition, "leader": leader}
        self._intervene(Kind.MOVE_LEADER, move=move)

    def fail_log_dir(self, broker: int, directory: str) -> None:
        """Let a log directory fail. Raises UserError where the broker has none of that name."""
        self._intervene(Kind.FAIL_LOG_DIR, broker=broker, directory=directory)

    def repair(self, broker: int) -> None:
        """Start a broker again that has halted, or whose log directories have failed."""
        table = self._cell.tables.pending
        if failed_dirs.of(table, broker):
            self._intervene(Kind.STOP_BROKER, broker=broker)
        if network.is_stopped(table, broker):
            self._intervene(Kind.START_BROKER, broker=broker)

    def expire_sessions(self, client: str | None, brokers: list[int]) -> list[int]:
        """Forget the fetch sessions of a client, or all; gives back their ids."""
        expired = []
        for broker in brokers:
            sessions = self._cell.tables.fetch_sessions.items(f"{broker}/session/", FetchSession)
            ids = [s.session_id for _, s in sessions if client in (None, s.client_id)]
            if ids:
                self._intervene(Kind.DROP_SESSIONS, broker=broker, sessions=ids)
            expired += ids
        return expired

    def expire_members(self, group: str, client: str | None) -> list[str]:
        """Take members of a group for gone, those of a client or all; gives back their ids."""
        expired = []
        for broker in self.brokers:
            found = groups.known(self._cell.tables, broker, group)
            clients = {} if found is None else {i: m.client_id for i, m in found.members.items()}
            ids = [each for each, its_client in clients.items() if client in (None, its_client)]
            if ids:
                self._intervene(Kind.EXPIRE_MEMBERS, broker=broker, group=group, members=ids)
            expired += ids
        return expired

    def topic(self, name: str) -> Topic | None:
        """A topic as the controller knows it."""
        return image.topic_by_name(self._cell.tables.metadata, CONTROLLER, name)

    def _intervene(self, kind: Kind, **fields: Any) -> None:
        event_id = f"{self._events.incarnation}-told-{next(self._told)}"
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
            lost.set_exception(UnansweredError(str(trouble)))
            return lost
        decided = super().submit(request)
        if trouble.closes:
            _when_done(decided, lambda _: _refuse(lost, str(trouble)))
        return lost

    def _is_for(self, where: Where, request: EdgeRequest) -> bool:
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

    def _split(self, request: EdgeRequest, where: Where) -> failures.Parts | None:
        """What of a request is meant; None where it does not go by topics."""
        asked = self._spelled_out(request)
        mirror = failures.mirror_of(asked)
        if mirror is None:
            return None
        return failures.split(asked_for(asked.body, mirror), mirror, where.has_place, self._name_of)

    def _spelled_out(self, request: EdgeRequest) -> Request:
        """The request; Metadata of all topics as Metadata of each."""
        asked = Request(request.header, request.body)
        if asked.api_key != METADATA.key:
            return asked
        topics = request.body["topics"]
        if topics is None or (asked.version == 0 and not topics):
            names = image.topic_names(self._cell.tables.metadata, CONTROLLER)
            return asked._replace(body={**asked.body, "topics": [{"name": n} for n in names]})
        return asked

    def _name_of(self, topic_id: str) -> str | None:
        topic = image.topic_by_id(self._cell.tables.metadata, CONTROLLER, topic_id)
        return topic.name if topic is not None else None

    def _failed(self, request: EdgeRequest, trouble: Trouble) -> _Future:
        """The answer that tells the error; the state machine gets only what does not fail."""
        where = trouble.where
        if where.api_key == METADATA.key:
            return self._failed_metadata(request, trouble)
        if where.api_key == FETCH.key and trouble.error not in failures.OF_FETCH_SESSIONS:
            return self._failed_fetch(request, trouble)
        asked = Request(request.header, request.body)
        mirror = failures.mirror_of(asked)
        parts = self._split(request, where)
        if where.topic is None or where.api_key == FETCH.key or parts is None or mirror is None:
            self._forget_refused(request.body)
            return self._answered(request, failures.whole(asked, trouble.error))
        errors = failures.part(asked, parts.failing, mirror, trouble.error)
        if not parts.rest:
            self._forget_refused(request.body)
            return self._answered(request, errors)
        if where.api_key == PRODUCE.key:
            self._forget_refused({"topicData": parts.failing})
        decided = super().submit(request._replace(body={**request.body, mirror.asked: parts.rest}))

        def merged(answer: Answer) -> Answer:
            if answer.response is None:
                return answer._replace(closes_connection=answer.error is None)
            return answer._replace(response=failures.merge(answer.response, errors, mirror))

        return self._then(decided, merged)

    def _failed_metadata(self, request: EdgeRequest, trouble: Trouble) -> _Future:
        """Brokers are told as ever; topics have the error and are not created."""
        parts = self._split(request, trouble.where)
        assert parts is not None
        decided = super().submit(request._replace(body={**request.body, "topics": parts.rest}))

        def told(answer: Answer) -> Answer:
            if answer.response is None:
                return answer
            response = answer.response
            if not parts.rest:
                response = {**response, "topics": []}  # version 0 takes no names for all
            response = failures.put_into_metadata(response, parts.failing, trouble.error)
            return answer._replace(response=response)

        return self._then(decided, told)

    def _failed_fetch(self, request: EdgeRequest, trouble: Trouble) -> _Future:
        """The session goes on, its partitions have the error and no records.

        Where the Fetch itself is refused, it fails as a whole.
        """
        body = {**request.body, "maxWaitMs": 0}
        decided = super().submit(request._replace(body=body))

        def told(answer: Answer) -> Answer:
            places = [
                place
                for place in self._fetched(request)
                if trouble.where.has_place(place.topic, place.partition)
            ]
            if answer.response is None or answer.response.get("errorCode") or not places:
                asked = Request(request.header, request.body)
                return Answer(failures.whole(asked, trouble.error))
            response = failures.put_into_fetch(answer.response, places, trouble.error)
            return answer._replace(response=response)

        return self._then(decided, told)

    def _fetched(self, request: EdgeRequest) -> Iterator[FetchPlace]:
        """The partitions that a Fetch reads: those it names, and those of its session."""
        body, version = request.body, request.header["requestApiVersion"]
        yield from failures.named_in_fetch(body, version, self._name_of)
        session_id = body.get("sessionId", 0)
        layout = ShardLayout.of(self._settings.broker_settings)
        cache = SessionCache(self._cell.tables.fetch_sessions, request.broker, layout, self.now())
        for cached in cache.partitions(session_id) if session_id else ():
            asked = cached.requested
            by_id = version >= failures.TOPIC_IDS_SINCE
            name = self._name_of(asked.topic_id) if by_id else asked.topic
            identity = ("topicId", asked.topic_id) if by_id else ("topic", asked.topic)
            yield FetchPlace(name, identity, asked.partition)

    def _answered(self, request: EdgeRequest, body: Body) -> _Future:
        """An answer; a Produce with acks 0 has none but the end of its connection."""
        future = self._future()
        is_unanswered = request.body.get("acks") == 0
        future.set_result(Answer(None, None, True) if is_unanswered else Answer(body))
        return future

    def _future(self) -> _Future:
        assert self._loop is not None, "start() comes first"
        return self._loop.create_future()

    def _then(self, decided: _Future, make: Callable[[Answer], Answer]) -> _Future:
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
    """At once where it is done already."""
    if future.done():
        then(future)
    else:
        future.add_done_callback(then)


def _carry_over(
    inner: _Future, outer: _Future, make: Callable[[Answer], Answer] = lambda answer: answer
) -> None:
    """Give the end of one future to another, whenever it comes."""
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
        future.set_exception(UnansweredError(reason))


def _note(document: Body, done: _Future) -> None:
    """Put an answer into the document of its request."""
    if done.cancelled() or done.exception() is not None:
        return
    answer = done.result()
    document["response"] = copy.deepcopy(answer.response)
    if answer.error is not None:
        document["error"] = answer.error
