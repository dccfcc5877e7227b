"""The engine `spark`: a cluster of a running job.

    request -> event -> topic `requests` -> job -> topic `responses` -> response

A response takes about a micro-batch. Several gateways can serve one job: each reads its own
partition of `responses` (`replyTo` of its events), and ids with its incarnation.
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
from brokertwin.gateway.admin.api_versions import PROBE
from brokertwin.gateway.admin.known_settings import UNKNOWN_SETTINGS, JobSettings, KnownSettings
from brokertwin.gateway.bounded_rates import RequestLimit
from brokertwin.gateway.engine.cell_watch import CellWatch
from brokertwin.gateway.engine.engine import (
    Body,
    EdgeRequest,
    EngineResponse,
    EventWriter,
    NoResponseError,
    OnBroker,
    ignore,
)
from brokertwin.gateway.engine.response_reader import Found, ResponseReader
from brokertwin.gateway.records.data_topic import DataTopic
from brokertwin.gateway.records.sealed_segments import SealedSegments
from brokertwin.kafka_io.kafka_clients import ClientProperties
from brokertwin.kafka_io.placement import Placement
from brokertwin.kafka_io.topic_reader import ID_HEADER
from brokertwin.kafka_io.topics import KAFKA_TIMEOUT_S, REQUESTS, full_name, writer_configuration
from brokertwin.protocol.generated.produce import TopicProduceData
from brokertwin.protocol.kafka_apis import Trait, api_of_key
from brokertwin.sinks.topic_writer import NewRow, pack_of, packs, reason_of
from brokertwin.state.configs.codecs import TopicCodec
from brokertwin.state.core.events import EVENT_BYTES_MAX, Event, Kind, Reason, document_of
from brokertwin.state.core.outputs import BrokerChange
from brokertwin.state.core.packs import PACK_EVENTS_MAX

RESPONSE_TIMEOUT_S = 60.0
"""Time without responses after which pending requests fail."""

IN_FLIGHT_MAX = 10_000
"""Maximum number of pending requests; further ones are queued."""

IN_FLIGHT_BYTES_MAX = 128 * 1024 * 1024
"""Maximum size of their events: what one gateway adds to a micro-batch."""

THROTTLE_MAX_MS = 1_000
"""Throttle time at the maximum of pending requests; 0 at half of it."""

SETTINGS_S, OUTSTANDING_S = 5.0, 60.0
"""Maximum age of known settings when requests arrive; the second if a query is pending."""

POLL_S = 0.1

_log = structlog.get_logger("brokertwin.gateway")

LOG_EVERY_S = 60.0
OTHER_CELLS = "the job has other cells than when this gateway started: restart the gateway"
MISPLACED = frozenset(
    {
        *(Reason.WRONG_KEY, Reason.WRONG_PARTITION, Reason.UNKNOWN_CLUSTER),
        *(Reason.UNKNOWN_BROKER, Reason.REPLY_TO),
    }
)
"""Reasons of a job with another placement, as after `snapshot reshard`."""


class _PendingEvent(NamedTuple):
    cell: str
    broker: int
    future: asyncio.Future[EngineResponse]
    size: int


class _QueuedEvent(NamedTuple):
    """A queued request, not written yet."""

    event_id: str
    document: bytes
    pending: _PendingEvent


class SparkEngine:
    """A cluster of a running job.

    Args:
        placed: the cluster, from the topic `placement`.
        data: store of record batches.
        segments: sealed segments of logs.
        response_timeout_s: time without responses after which requests fail.
        in_flight_max: maximum number of pending requests.
        in_flight_bytes_max: maximum size of their events.

    Attributes:
        on_broker: called when brokers stop or start, after `start`.
        on_settings: called when broker settings may have changed.
    """

    def __init__(
        self,
        client: ClientProperties,
        prefix: str,
        placed: Placement,
        data: DataTopic,
        segments: SealedSegments,
        response_timeout_s: float = RESPONSE_TIMEOUT_S,
        in_flight_max: int = IN_FLIGHT_MAX,
        in_flight_bytes_max: int = IN_FLIGHT_BYTES_MAX,
    ) -> None:
        self.cluster = placed.cluster
        self.brokers = placed.brokers
        self.on_broker: OnBroker = ignore
        self.on_settings: Callable[[], None] = ignore
        self._placed = placed
        self._data = data
        self._segments = segments
        self._response_timeout_s = response_timeout_s
        self._in_flight_max = in_flight_max
        self._in_flight_bytes_max = in_flight_bytes_max
        self._in_flight_bytes = 0
        self._queued: deque[_QueuedEvent] = deque()
        self._unwritten: list[NewRow] = []
        self._requests = full_name(prefix, REQUESTS)
        self._configuration = {
            **writer_configuration(client),
            "message.timeout.ms": int(response_timeout_s * 1000),
        }
        self._producer = Producer(self._configuration)
        self._events = EventWriter(placed.cluster, placed.responses_partitions)
        self._reader = ResponseReader(
            client,
            prefix,
            self._events.reply_to,
            self._events.incarnation,
            placed.cluster,
            self._deliver,
        )
        self._watches = {cell: CellWatch(response_timeout_s) for cell in placed.cells}
        self._pending: dict[str, _PendingEvent] = {}
        self._job_settings: JobSettings | None = None
        self._query_id = ""
        self._queried_at = -SETTINGS_S
        self._misplaced_logged_at = -LOG_EVERY_S
        self._watching: asyncio.Task[None] | None = None
        self._is_closed = False
        self._loop: asyncio.AbstractEventLoop | None = None

    async def start(self) -> None:
        """Start reading responses before the first event is written. Raises UserError."""
        self._loop = asyncio.get_running_loop()
        await self._data.start()
        await self._segments.start()
        await asyncio.to_thread(self._reader.open)
        self._reader.start()
        self._watching = self._loop.create_task(self._watch())
        if self._placed.interventions:
            self._find_stopped()

    def _find_stopped(self) -> None:
        """Probe each broker; a stopped one is rejected, which `_complete` notes."""
        for broker in self.brokers:
            self.submit(_probe(broker))

    async def close(self) -> None:
        """Cancel pending requests and flush written events."""
        self._is_closed = True
        if self._watching is not None:
            self._watching.cancel()
        for pending in [*self._pending.values(), *(queued.pending for queued in self._queued)]:
            pending.future.cancel()
        await self._data.close()
        self._write_packs()
        await asyncio.to_thread(self._producer.flush, KAFKA_TIMEOUT_S)
        if self._reader.is_alive():
            await asyncio.to_thread(self._reader.stop)
        await self._segments.close()

    def submit(self, request: EdgeRequest) -> asyncio.Future[EngineResponse]:
        """Write a request's event; events of one cell are processed in call order."""
        assert self._loop is not None, "start() comes first"
        future = self._send(self._events.request(request))
        api = api_of_key(request.api_key)
        if Trait.CHANGES_SETTINGS in api.traits:
            future.add_done_callback(partial(self._has_altered, request.broker))
        patience_s = OUTSTANDING_S if self._query_id else SETTINGS_S
        if not self._is_closed and self._loop.time() - self._queried_at >= patience_s:
            self._query_settings(request.broker)
        return future

    def _has_altered(self, broker: int, _future: asyncio.Future[EngineResponse]) -> None:
        if not self._is_closed:
            self._query_settings(broker)

    def disconnected(self, broker: int, connection: str) -> None:
        """Report the end of a connection for which the broker may keep state."""
        if not self._is_closed:
            cell = self._placed.cell_of(broker)
            event = self._events.disconnection(broker, connection)
            self._write(cell, event.id, document_of(event))

    def intervene(
        self, kind: Kind, broker: int, directory: str = ""
    ) -> asyncio.Future[EngineResponse]:
        """Write an intervention of `ABOUT_BROKERS`."""
        return self._send(self._events.intervention(kind, broker, directory=directory))

    def _send(self, event: Event) -> asyncio.Future[EngineResponse]:
        assert self._loop is not None, "start() comes first"
        future: asyncio.Future[EngineResponse] = self._loop.create_future()
        if self._is_closed:
            _fail(future, "the gateway ends")
            return future
        document = document_of(event)
        if len(document) > EVENT_BYTES_MAX:
            detail = f"{len(document)} bytes; at most {EVENT_BYTES_MAX} are accepted"
            future.set_result(EngineResponse(None, {"reason": Reason.TOO_LARGE, "detail": detail}))
            return future
        cell = self._placed.cell_of(event.broker)
        pending = _PendingEvent(cell, event.broker, future, len(document))
        self._queued.append(_QueuedEvent(event.id, document, pending))
        self._write_queued()
        return future

    users_file: Path | None = None
    decides_here = False

    @property
    def throttle_ms(self) -> int:
        """Return the throttle time: 0 below half of the maximum of pending requests."""
        rows = len(self._pending) / self._in_flight_max
        full = max(rows, self._in_flight_bytes / self._in_flight_bytes_max)
        return round(max(2 * min(full, 1) - 1, 0) * THROTTLE_MAX_MS)

    def _write_queued(self) -> None:
        """Write queued requests in order while there is room."""
        while (
            self._queued
            and len(self._pending) < self._in_flight_max
            and self._in_flight_bytes < self._in_flight_bytes_max
        ):
            event_id, document, pending = self._queued.popleft()
            if pending.future.done():
                continue
            self._pending[event_id] = pending
            self._in_flight_bytes += pending.size
            pending.future.add_done_callback(partial(self._forget, event_id))
            self._write(pending.cell, event_id, document)

    def _forget(self, event_id: str, _future: asyncio.Future[EngineResponse]) -> None:
        """Remove a completed request and write queued ones."""
        self._in_flight_bytes -= self._pending.pop(event_id).size
        self._write_queued()

    def _write(self, cell: str, event_id: str, document: bytes) -> None:
        """Write an event together with the others of this turn of the event loop."""
        assert self._loop is not None
        if not self._unwritten:
            self._loop.call_soon(self._write_packs)
        self._unwritten.append(NewRow(cell, document, self._placed.partition_of(cell), event_id))

    def _write_packs(self) -> None:
        rows, self._unwritten = self._unwritten, []
        for pack in packs(rows, PACK_EVENTS_MAX):
            self._write_pack([row.id for row in pack], pack_of(pack))

    def _write_pack(self, event_ids: list[str], row: NewRow) -> None:
        assert self._loop is not None
        try:
            self._producer.produce(
                self._requests,
                key=row.key,
                value=row.value,
                partition=row.partition,
                headers={ID_HEADER: row.id.encode()},
                on_delivery=partial(self._written, event_ids),
            )
        except BufferError as error:
            self._not_written(event_ids, str(error))
            return
        except KafkaException as error:
            if error.args[0].code() == KafkaError._FATAL:
                self._producer = Producer(self._configuration)
            self._not_written(event_ids, reason_of(error.args[0]))
            return
        for event_id in event_ids:
            if event_id in self._pending:
                self._watches[row.key].written(event_id, self._loop.time())
        self._producer.poll(0)

    def _written(self, event_ids: list[str], error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            self._not_written(event_ids, reason_of(error))

    def _not_written(self, event_ids: list[str], why: str) -> None:
        for event_id in event_ids:
            if event_id in self._pending:
                _fail(self._pending[event_id].future, f"Kafka does not take the request: {why}")

    def _deliver(self, responses: list[Found]) -> None:
        """Pass responses to the event loop; called in the reader's thread."""
        assert self._loop is not None
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._complete, responses)

    def _complete(self, responses: list[Found]) -> None:
        """Complete pending requests; ignore repeated rows."""
        for each in responses:
            if isinstance(each, BrokerChange):
                self.on_broker(each.broker, each.is_stopped)
                continue
            event_id, outcome = each
            if event_id == self._query_id:
                self._query_id = ""
                self._take_settings(outcome)
                continue
            for watch in self._watches.values():
                watch.responded(event_id)
            pending = self._pending.get(event_id)
            if pending is not None and not pending.future.done():
                pending.future.set_result(outcome)
                reason = (outcome.error or {}).get("reason")
                if reason == Reason.BROKER_STOPPED:
                    self.on_broker(pending.broker, True)
                elif reason in MISPLACED:
                    self._log_misplaced(outcome.error or {})

    def _log_misplaced(self, error: Mapping[str, object]) -> None:
        """Log, once a minute, that the job has other cells than at this gateway's start."""
        assert self._loop is not None
        if self._loop.time() - self._misplaced_logged_at >= LOG_EVERY_S:
            self._misplaced_logged_at = self._loop.time()
            _log.error(OTHER_CELLS, cluster=self.cluster, **error)

    async def _watch(self) -> None:
        """Poll delivery reports and watch for a silent job."""
        assert self._loop is not None
        while True:
            await asyncio.sleep(POLL_S)
            self._producer.poll(0)
            for cell, watch in self._watches.items():
                self._look(cell, watch, self._loop.time())

    def _look(self, cell: str, watch: CellWatch, now: float) -> None:
        """Fail the requests of a silent cell, or probe it."""
        if watch.is_silent(now):
            watch.forget()
            self._reader.begin_again()
            why = f"the job has not responded for {self._response_timeout_s:g} s; does it run?"
            queued = [each.pending for each in self._queued]
            every = [*self._pending.values(), *queued]
            pending = [each.future for each in every if each.cell == cell]
            _log.error(why, cell=cell, requests=len(pending))
            for future in pending:
                _fail(future, why)
        elif watch.wants_probe(now) and any(each.cell == cell for each in self._pending.values()):
            broker = next(each for each in self.brokers if self._placed.cell_of(each) == cell)
            probe = self._events.request(_probe(broker))
            self._write(cell, probe.id, document_of(probe))
            watch.written(probe.id, now)

    def features_epoch(self) -> int:
        """Return 0: the epoch is unknown without a request to the job."""
        return 0

    def known_features(self) -> None:
        """Return None: only the job knows them."""

    def _query_settings(self, broker: int) -> None:
        """Query the settings for gateways; the response arrives with the others."""
        assert self._loop is not None
        self._queried_at = self._loop.time()
        query = self._events.settings_query(broker)
        self._query_id = query.id
        cell = self._placed.cell_of(broker)
        self._write(cell, query.id, document_of(query))

    def _take_settings(self, outcome: EngineResponse) -> None:
        if outcome.response is None:
            return
        try:
            self._job_settings = known_settings.of_response(outcome.document(0))
        except (msgspec.MsgspecError, UserError) as error:
            _log.error("invalid settings", error=str(error))
            return
        self.on_settings()

    def known(self, _broker: int) -> KnownSettings:
        """Return the current settings; the defaults before the job has reported them."""
        return UNKNOWN_SETTINGS if self._job_settings is None else self._job_settings.known

    def request_limit(
        self, broker: int, principal: str, client_id: str | None
    ) -> RequestLimit | None:
        """Return the request time quota of a client, if any."""
        if self._job_settings is None:
            return None
        return self._job_settings.known.request_limit(broker, principal, client_id)

    def codec_of(self, broker: int, topic: TopicProduceData) -> TopicCodec | None:
        """Return the codec that a topic of a Produce request requires, or None for `producer`."""
        return None if self._job_settings is None else self._job_settings.codec_of(broker, topic)

    def put(self, data: bytes) -> asyncio.Future[str]:
        """Write the bytes of a batch to the data topic; the result is their locator or OSError."""
        assert self._loop is not None, "start() comes first"
        return self._loop.create_task(self._data.put(data))

    async def get(self, locator: str) -> bytes | None:
        """Return the bytes at a locator, or None if they are lost."""
        return await self._data.get(locator)

    async def segment(self, topic_id: str, partition: int, base_offset: int) -> list[Body] | None:
        """Return the batches of a sealed segment, or None."""
        return await self._segments.segment(topic_id, partition, base_offset)


def _probe(broker: int) -> EdgeRequest:
    return EdgeRequest(broker, "probe", "User:ANONYMOUS", "", PROBE, {})


def _fail(future: asyncio.Future[EngineResponse], why: str) -> None:
    """Fail a pending request, whose caller may be gone."""
    if not future.done():
        future.set_exception(NoResponseError(why))
        future.exception()
