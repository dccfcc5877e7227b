"""The engine `spark`: a cluster of a running job.

    request -> event -> topic `requests` -> job -> topic `responses` -> answer

An answer takes about a micro-batch. Several gateways may serve one job: each reads its own
partition of `responses` (`replyTo` of its events), and ids that begin with its incarnation.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec
import structlog
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from brokertwin.errors import UserError
from brokertwin.gateway.admin import known_settings
from brokertwin.gateway.admin.api_versions import PROBE_HEADER
from brokertwin.gateway.admin.known_settings import ToldSettings
from brokertwin.gateway.bounded_rates import RateLimit, RequestLimit
from brokertwin.gateway.engine.answer_reader import AnswerReader, Found
from brokertwin.gateway.engine.cell_watch import CellWatch
from brokertwin.gateway.engine.engine import (
    Answer,
    Body,
    EdgeRequest,
    EventWriter,
    HeedBroker,
    UnansweredError,
    heed_nothing,
)
from brokertwin.gateway.records.data_topic import DataTopic
from brokertwin.gateway.records.sealed_segments import SealedSegments
from brokertwin.kafka_io.kafka_clients import ClientProperties
from brokertwin.kafka_io.placement import Placement
from brokertwin.kafka_io.topic_reader import ID_HEADER
from brokertwin.kafka_io.topic_writer import reason_of
from brokertwin.kafka_io.topics import KAFKA_TIMEOUT_S, REQUESTS, full_name, writer_configuration
from brokertwin.state.configs.codecs import TopicCodec
from brokertwin.state.core.events import EVENT_BYTES_MAX, Kind, Reason
from brokertwin.state.core.kafka_apis import UNKNOWN, Trait, api_of_key
from brokertwin.state.core.outputs import BrokerChange
from brokertwin.state.core.settings import BrokerSettings

ANSWER_TIMEOUT_S = 60.0
"""How long the job may be silent before those who wait for it are sent away."""

IN_FLIGHT_MAX = 10_000
"""Requests that may wait for an answer; one more is written when another one is answered."""

IN_FLIGHT_BYTES_MAX = 128 * 1024 * 1024
"""The same of the bytes of their events: what one gateway adds to a micro-batch at most."""

THROTTLE_MAX_MS = 1_000
"""What answers ask clients to wait where as many requests wait as may; half of them: nothing."""

SETTINGS_S, OUTSTANDING_S = 5.0, 60.0
"""How old what is known of settings may be where requests come, and others may alter them."""

POLL_S = 0.1

_log = structlog.get_logger("brokertwin.gateway")

TELL_S = 60.0
OTHER_CELLS = "the job has other cells than when this gateway started: restart the gateway"
MISPLACED = frozenset(
    {
        *(Reason.WRONG_KEY, Reason.WRONG_PARTITION, Reason.UNKNOWN_CLUSTER),
        *(Reason.UNKNOWN_BROKER, Reason.REPLY_TO),
    }
)
"""Why a job refuses what a gateway of another placement writes, as after `snapshot reshard`."""


class _Waiting(NamedTuple):
    """What was written about a broker and is not answered."""

    cell: str
    broker: int
    future: asyncio.Future[Answer]
    size: int


class _Held(NamedTuple):
    """An event that is written when there is room; who waits for it knows nothing of that."""

    event_id: str
    document: bytes
    waiting: _Waiting


class SparkEngine:
    """A cluster of a running job.

    Args:
        client: how to reach Kafka.
        prefix: of the job's topics.
        placed: the cluster, as the topic `placement` has it.
        data: where record batches lie.
        segments: the sealed parts of logs.
        answer_timeout_s: how long the job may be silent.
        in_flight_max: how many requests may wait for an answer.
        in_flight_bytes_max: how many bytes their events may have.

    Attributes:
        heed_broker: is told of brokers that have stopped or started, from `start` on.
        heed_settings: is told that settings of brokers may have changed.
    """

    def __init__(
        self,
        client: ClientProperties,
        prefix: str,
        placed: Placement,
        data: DataTopic,
        segments: SealedSegments,
        answer_timeout_s: float = ANSWER_TIMEOUT_S,
        in_flight_max: int = IN_FLIGHT_MAX,
        in_flight_bytes_max: int = IN_FLIGHT_BYTES_MAX,
    ) -> None:
        self.cluster = placed.cluster
        self.brokers = placed.brokers
        self.heed_broker: HeedBroker = heed_nothing
        self.heed_settings: Callable[[], None] = heed_nothing
        self._placed = placed
        self._data = data
        self._segments = segments
        self._answer_timeout_s = answer_timeout_s
        self._in_flight_max = in_flight_max
        self._in_flight_bytes_max = in_flight_bytes_max
        self._in_flight_bytes = 0
        self._held: deque[_Held] = deque()
        self._requests = full_name(prefix, REQUESTS)
        self._configuration = {
            **writer_configuration(client),
            "message.timeout.ms": int(answer_timeout_s * 1000),
        }
        self._producer = Producer(self._configuration)
        self._events = EventWriter(placed.cluster, placed.responses_partitions)
        self._reader = AnswerReader(
            client,
            prefix,
            self._events.reply_to,
            self._events.incarnation,
            placed.cluster,
            self._deliver,
        )
        self._watches = {cell: CellWatch(answer_timeout_s) for cell in placed.cells}
        self._waiting: dict[str, _Waiting] = {}
        self._told: ToldSettings | None = None
        self._question = ""
        self._asked_at = -SETTINGS_S
        self._told_misplaced_at = -TELL_S
        self._watching: asyncio.Task[None] | None = None
        self._is_closed = False
        self._loop: asyncio.AbstractEventLoop | None = None

    async def start(self) -> None:
        """Be ready to read answers before the first event is written. Raises UserError."""
        self._loop = asyncio.get_running_loop()
        await self._data.start()
        await self._segments.start()
        await asyncio.to_thread(self._reader.open)
        self._reader.start()
        self._watching = self._loop.create_task(self._watch())
        if self._placed.interventions:
            self._find_stopped()

    def _find_stopped(self) -> None:
        """Ask each broker something: one that has stopped is refused, and `_answer` says so."""
        for broker in self.brokers:
            self.submit(_probe(broker))

    async def close(self) -> None:
        """Let no request wait any longer; events that were handed over are written."""
        self._is_closed = True
        if self._watching is not None:
            self._watching.cancel()
        for waiting in [*self._waiting.values(), *(held.waiting for held in self._held)]:
            waiting.future.cancel()
        await self._data.close()
        await asyncio.to_thread(self._producer.flush, KAFKA_TIMEOUT_S)
        if self._reader.is_alive():
            await asyncio.to_thread(self._reader.stop)
        await self._segments.close()

    def submit(self, request: EdgeRequest) -> asyncio.Future[Answer]:
        """Write a request's event; those of one cell are decided in the order of the calls."""
        assert self._loop is not None, "start() comes first"
        future = self._send(request.broker, *self._events.request(request))
        api = api_of_key(request.header.get("requestApiKey", UNKNOWN.key))
        if Trait.CHANGES_SETTINGS in api.traits:
            future.add_done_callback(partial(self._has_altered, request.broker))
        patience_s = OUTSTANDING_S if self._question else SETTINGS_S
        if not self._is_closed and self._loop.time() - self._asked_at >= patience_s:
            self._ask_settings(request.broker)
        return future

    def _has_altered(self, broker: int, _future: asyncio.Future[Answer]) -> None:
        """Settings may be others now."""
        if not self._is_closed:
            self._ask_settings(broker)

    def disconnected(self, broker: int, connection: str) -> None:
        """Tell the broker that a connection has ended that it may hold something for."""
        if not self._is_closed:
            cell = self._placed.cell_of(broker)
            self._write(cell, *self._events.disconnection(broker, connection), is_answered=False)

    def intervene(self, kind: Kind, broker: int, directory: str = "") -> asyncio.Future[Answer]:
        """Do to a broker what `ABOUT_BROKERS` names."""
        return self._send(broker, *self._events.intervention(kind, broker, directory))

    def _send(self, broker: int, event_id: str, document: bytes) -> asyncio.Future[Answer]:
        assert self._loop is not None, "start() comes first"
        future: asyncio.Future[Answer] = self._loop.create_future()
        if self._is_closed:
            _fail(future, "the gateway ends")
            return future
        if len(document) > EVENT_BYTES_MAX:
            detail = f"{len(document)} bytes; at most {EVENT_BYTES_MAX} are accepted"
            future.set_result(Answer(None, {"reason": Reason.TOO_LARGE, "detail": detail}))
            return future
        waiting = _Waiting(self._placed.cell_of(broker), broker, future, len(document))
        self._held.append(_Held(event_id, document, waiting))
        self._write_held()
        return future

    users_file: Path | None = None

    @property
    def throttle_ms(self) -> int:
        """What answers ask clients to wait: nothing while half of the room is free."""
        rows = len(self._waiting) / self._in_flight_max
        full = max(rows, self._in_flight_bytes / self._in_flight_bytes_max)
        return round(max(2 * min(full, 1) - 1, 0) * THROTTLE_MAX_MS)

    def _write_held(self) -> None:
        """Write what there is room for, in the order in which it came."""
        while (
            self._held
            and len(self._waiting) < self._in_flight_max
            and self._in_flight_bytes < self._in_flight_bytes_max
        ):
            event_id, document, waiting = self._held.popleft()
            if waiting.future.done():
                continue
            self._waiting[event_id] = waiting
            self._in_flight_bytes += waiting.size
            waiting.future.add_done_callback(partial(self._forget, event_id))
            self._write(waiting.cell, event_id, document)

    def _forget(self, event_id: str, _future: asyncio.Future[Answer]) -> None:
        """Nobody waits any more; another request has its turn."""
        self._in_flight_bytes -= self._waiting.pop(event_id).size
        self._write_held()

    def _write(self, cell: str, event_id: str, document: bytes, is_answered: bool = True) -> None:
        assert self._loop is not None
        try:
            self._producer.produce(
                self._requests,
                key=cell,
                value=document,
                partition=self._placed.partition_of(cell),
                headers={ID_HEADER: event_id.encode()},
                on_delivery=partial(self._written, event_id),
            )
        except BufferError as error:
            self._not_written(event_id, str(error))
            return
        except KafkaException as error:
            if error.args[0].code() == KafkaError._FATAL:
                self._producer = Producer(self._configuration)
            self._not_written(event_id, reason_of(error.args[0]))
            return
        if is_answered:
            self._watches[cell].written(event_id, self._loop.time())
        self._producer.poll(0)

    def _written(self, event_id: str, error: KafkaError | None, _message: Message) -> None:
        """Kafka has, or has not, taken an event."""
        if error is not None:
            self._not_written(event_id, reason_of(error))

    def _not_written(self, event_id: str, why: str) -> None:
        if event_id in self._waiting:
            _fail(self._waiting[event_id].future, f"Kafka does not take the request: {why}")

    def _deliver(self, found: list[Found]) -> None:
        """Hand answers to the event loop; called in the reader's thread."""
        assert self._loop is not None
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._answer, found)

    def _answer(self, found: list[Found]) -> None:
        """Answer those who wait; nobody waits for a row that comes again."""
        for each in found:
            if isinstance(each, BrokerChange):
                self.heed_broker(each.broker, each.is_stopped)
                continue
            event_id, answer = each
            if event_id == self._question:
                self._question = ""
                self._take_settings(answer)
                continue
            for watch in self._watches.values():
                watch.heard(event_id)
            waiting = self._waiting.get(event_id)
            if waiting is not None and not waiting.future.done():
                waiting.future.set_result(answer)
                reason = (answer.error or {}).get("reason")
                if reason == Reason.BROKER_STOPPED:
                    self.heed_broker(waiting.broker, True)
                elif reason in MISPLACED:
                    self._tell_misplaced(answer.error or {})

    def _tell_misplaced(self, error: Mapping[str, object]) -> None:
        """Log, once a minute, that the job has other cells than when this gateway started."""
        assert self._loop is not None
        if self._loop.time() - self._told_misplaced_at >= TELL_S:
            self._told_misplaced_at = self._loop.time()
            _log.error(OTHER_CELLS, cluster=self.cluster, **error)

    async def _watch(self) -> None:
        """Take Kafka's word on what was written, and notice when the job is silent."""
        assert self._loop is not None
        while True:
            await asyncio.sleep(POLL_S)
            self._producer.poll(0)
            for cell, watch in self._watches.items():
                self._look(cell, watch, self._loop.time())

    def _look(self, cell: str, watch: CellWatch, now: float) -> None:
        """Send those away who wait in vain; find out where that cannot be told."""
        if watch.is_silent(now):
            watch.forget()
            self._reader.begin_again()
            why = f"the job has answered nothing for {self._answer_timeout_s:g} s; does it run?"
            held = [each.waiting for each in self._held]
            every = [*self._waiting.values(), *held]
            waiting = [each.future for each in every if each.cell == cell]
            _log.error(why, cell=cell, requests=len(waiting))
            for future in waiting:
                _fail(future, why)
        elif watch.wants_probe(now) and any(each.cell == cell for each in self._waiting.values()):
            broker = next(each for each in self.brokers if self._placed.cell_of(each) == cell)
            self._write(cell, *self._events.request(_probe(broker)))

    def features_epoch(self) -> int:
        """Return 0: it is not known without asking the job."""
        return 0

    def known_features(self) -> None:
        """They are the job's: it has to be asked."""

    def _ask_settings(self, broker: int) -> None:
        """Ask for the settings that the gateway acts on; the answer comes with the others."""
        assert self._loop is not None
        self._asked_at = self._loop.time()
        self._question, document = self._events.question(broker)
        self._write(self._placed.cell_of(broker), self._question, document, is_answered=False)

    def _take_settings(self, answer: Answer) -> None:
        if answer.response is None:
            return
        try:
            self._told = known_settings.of_told(answer.response)
        except (msgspec.MsgspecError, UserError) as error:
            _log.error("invalid settings", error=str(error))
            return
        self.heed_settings()

    def settings_of(self, broker: int) -> BrokerSettings:
        """The settings that hold for a broker, without secrets."""
        return BrokerSettings() if self._told is None else self._told.known.of(broker)

    def changed_settings(self, broker: int) -> Mapping[str, str]:
        """The settings that hold for a broker other than those that it was started with."""
        return {} if self._told is None else self._told.known.changed(broker)

    def connection_limit(self, broker: int, host: str) -> RateLimit | None:
        """How fast a broker takes connections from an address; None: as fast as they come."""
        return None if self._told is None else self._told.known.connection_limit(broker, host)

    def request_limit(
        self, broker: int, principal: str, client_id: str | None
    ) -> RequestLimit | None:
        """How much of the gateway's time a client's requests may take; None: all of it."""
        if self._told is None:
            return None
        return self._told.known.request_limit(broker, principal, client_id)

    def codec_of(self, broker: int, topic: Body) -> TopicCodec | None:
        """The codec that a topic of a Produce request asks for; None: that of the producer."""
        return None if self._told is None else self._told.codec_of(broker, topic)

    def put(self, data: bytes) -> asyncio.Future[str]:
        """Write the bytes of a batch to the data topic; their locator, or OSError."""
        assert self._loop is not None, "start() comes first"
        return self._loop.create_task(self._data.put(data))

    async def get(self, locator: str) -> bytes | None:
        """The bytes at a locator, None where they are lost."""
        return await self._data.get(locator)

    async def segment(self, topic_id: str, partition: int, base_offset: int) -> list[Body] | None:
        """The batches of a sealed part of a log."""
        return await self._segments.segment(topic_id, partition, base_offset)


def _probe(broker: int) -> EdgeRequest:
    """A request that is answered at once."""
    return EdgeRequest(broker, "probe", "User:ANONYMOUS", "", PROBE_HEADER, {})


def _fail(future: asyncio.Future[Answer], why: str) -> None:
    """Tell who waits that no answer will come; nobody may wait any more."""
    if not future.done():
        future.set_exception(UnansweredError(why))
        future.exception()
