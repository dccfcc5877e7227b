"""The engine `local`: one cell in this process, with responses in milliseconds.

Events have the machine's time and a secret nonce. Deadlines of the cell become timers of the event
loop, which create ticks. With a journal the state survives a restart: its events are replayed in
order, after a snapshot if there is one.
"""

import asyncio
from collections.abc import Callable
from typing import Any, cast, get_args

import msgspec
import structlog

from brokertwin.errors import UserError
from brokertwin.gateway.admin.known_settings import KnownSettings
from brokertwin.gateway.bounded_rates import RequestLimit
from brokertwin.gateway.engine import journal_snapshot
from brokertwin.gateway.engine.engine import (
    NOT_KEPT,
    Clock,
    EdgeRequest,
    EngineResponse,
    EventWriter,
    OnBroker,
    ResponseRow,
    ignore,
    now_ms,
)
from brokertwin.gateway.engine.freed_memory import FreedMemory, malloc_trim
from brokertwin.gateway.engine.journal import Journal
from brokertwin.gateway.engine.journal_snapshot import EngineSnapshot, SegmentKey
from brokertwin.gateway.engine.persistence import JournalOptions, Persistence
from brokertwin.gateway.records import log_cleaner
from brokertwin.gateway.records.batch_store import OF_LOGS, BatchStore, KeptBatches, MemoryStore
from brokertwin.protocol.bodies import ZERO_UUID, Body, Uuid, render
from brokertwin.protocol.codec import response_type
from brokertwin.protocol.generated.produce import ProduceRequest, TopicProduceData
from brokertwin.protocol.kafka_apis import api_of_key
from brokertwin.state.cell import expiry
from brokertwin.state.cell.cell import Cell
from brokertwin.state.cell.output_rows import Rows
from brokertwin.state.cell.restart_image import columns_at_rest
from brokertwin.state.cluster import broker_configs, features, metadata_log
from brokertwin.state.configs.codecs import TopicCodec
from brokertwin.state.core import outputs
from brokertwin.state.core.decision import AnyRequest
from brokertwin.state.core.events import EVENT_BYTES_MAX, Event, Kind, document_of
from brokertwin.state.core.outputs import Output, Position
from brokertwin.state.core.records import ConfigChanged, LineLogged, Record
from brokertwin.state.core.settings import BrokerSettings, CellSettings
from brokertwin.state.core.tables import CellTables
from brokertwin.state.logs.log import SealedSegment
from brokertwin.state.replication import network

RECORDS_READ = OF_LOGS | ConfigChanged | LineLogged
"""Records that are returned."""

_RECORDS_READ = frozenset(get_args(RECORDS_READ))


class LocalResponse(Output, frozen=True, gc=False):
    """A row of `responses` as an object; `id` is that of the request."""

    outcome: EngineResponse


class LocalRecord(Output, frozen=True, gc=False):
    """A row of `records` as an object, applied by `machine`."""

    machine: int
    record: RECORDS_READ


class LocalSegment(Output, frozen=True, gc=False):
    """A row of `segments` as an object: topic id, partition and base offset, and the batches."""

    place: tuple[Uuid, int, int]
    batches: list[dict[str, Any]] | None


class LocalTimer(Output, frozen=True, gc=False):
    """A row of `timers` as an object; the deadline is in ms since 1970."""

    deadline: int


class LocalRows(Rows):
    """Collects the outputs of one event; unused ones are dropped."""

    def begin(self, position: Position) -> None:
        """Start with the event at a position; rows have no ids of their own."""
        self._ids_begin, self._ordinal = "", 0
        self.position, self.rows = position, []

    def response(
        self,
        source: AnyRequest,
        now: int,
        response: Body | dict[str, Any] | None,
        closes_connection: bool = False,
        mute_ms: int = 0,
    ) -> None:
        if isinstance(response, dict):  # prepared before it was committed
            response = msgspec.convert(response, response_type(source.header.request_api_key))
        outcome = EngineResponse(response, None, closes_connection, mute_ms)
        row = LocalResponse(outputs.RESPONSES, None, None, None, source.event_id, outcome)
        self.rows.append(row)

    def record(self, machine: int, now: int, event_id: str, record: Record) -> None:
        """Add a record that changes the batches of a log, or a setting, or a log line."""
        if type(record) in _RECORDS_READ:
            read = cast("RECORDS_READ", record)
            self.rows.append(
                LocalRecord(outputs.RECORDS, None, None, None, event_id, machine, read)
            )

    def of_group(self, record: Record) -> None:
        """Ignore records of groups."""

    def segment(self, sealed: SealedSegment) -> None:
        """Add a chunk of an index that has left the state."""
        place = (sealed.topic_id, sealed.partition, sealed.base_offset)
        batches = [render(batch, 0) for batch in sealed.batches]
        self.rows.append(LocalSegment(outputs.SEGMENTS, None, None, None, "", place, batches))

    def segment_gone(self, topic_id: Uuid, partition: int, base_offset: int) -> None:
        """Add the tombstone of a sealed chunk that no log has any longer."""
        place = (topic_id, partition, base_offset)
        self.rows.append(LocalSegment(outputs.SEGMENTS, None, None, None, "", place, None))

    def timer(self, deadline: int) -> None:
        self.rows.append(LocalTimer(outputs.TIMERS, None, None, None, "", deadline))


OUTPUT_BYTES_MAX = 64 * 1024 * 1024
"""A safety limit, because no topic limits the outputs here."""

NO_DEADLINE = -1
CHECK_LEAST_MS = 100
"""Least time between checks of an idle cluster, whose settings may have shorter intervals."""

_log = structlog.get_logger("brokertwin.gateway")


class LocalEngine:
    """A cluster in this process.

    Args:
        journal: where events are stored, beside a directory of batches; None: in memory only.
            `start` opens it.
        clock: time of events and deadlines.
        may_intervene: whether `intervene` is allowed.

    Attributes:
        on_broker: called when brokers stop or start, after `start`.
        on_settings: called after broker settings have changed.
        on_line: called with each line that a broker logs (`brokertwin.trace.…`).
        users_file: file of SCRAM users, if no client authenticates with them.
    """

    def __init__(
        self,
        cluster: str,
        brokers: list[int],
        settings: BrokerSettings,
        journal: JournalOptions | None = None,
        clock: Clock = now_ms,
        may_intervene: bool = False,
    ) -> None:
        self.cluster = cluster
        self.brokers = brokers
        self.on_broker: OnBroker = ignore
        self.on_settings: Callable[[], None] = ignore
        self.on_line: Callable[[str], None] = ignore
        self._settings = CellSettings(
            name=cluster,
            cluster=cluster,
            brokers=brokers,
            broker_settings=settings,
            event_time="recorded",
            output_bytes_max=OUTPUT_BYTES_MAX,
            may_intervene=may_intervene,
            may_clean=True,
        )
        path = journal.path if journal is not None else None
        self.users_file = path and path.with_name(path.name + ".users")
        self._journal = journal
        self._persistence: Persistence | None = None
        self._store: BatchStore = MemoryStore()
        self._cell = Cell(self._settings, make_rows=LocalRows)
        self._clock = clock
        self._events = EventWriter(cluster, clock=clock)
        self._pending: dict[str, asyncio.Future[EngineResponse]] = {}
        self._kept = KeptBatches(self._store)
        self._freed = FreedMemory(malloc_trim())
        self._segments: dict[SegmentKey, list[dict[str, Any]]] = {}
        self._deadline = NO_DEADLINE
        self._timer: asyncio.TimerHandle | None = None
        self._check: asyncio.TimerHandle | None = None
        self._cleaner: asyncio.Task[None] | None = None
        self._offset = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._change_decoder = msgspec.json.Decoder(outputs.BrokerChange)
        self._response_decoder = msgspec.json.Decoder(ResponseRow)

    decides_here = True
    throttle_ms = 0
    """Always 0, because requests are processed at once."""

    @property
    def tables(self) -> CellTables:
        """State of the cluster, read only."""
        return self._cell.tables

    async def columns(self) -> dict[str, bytes]:
        """Return the current state by table, as bytes for another thread."""
        return self._cell.columns()

    async def start(self) -> None:
        """Open and replay the journal.

        Raises:
            UserError: as `Journal`, or it belongs to another cluster.
        """
        self._loop = asyncio.get_running_loop()
        if self._journal is not None:
            self._persistence = self._opened(self._journal)
            self._replay(self._persistence.journal)
            self._persistence.begin(self._snapshot)
            self._persistence.collect(self._kept.locators)
        self._schedule(self._deadline)
        self._check_expiry()
        self._cleaner = self._loop.create_task(self._clean_for_ever())

    def _opened(self, options: JournalOptions) -> Persistence:
        persistence = Persistence(options)
        self._store = persistence.store
        self._kept = KeptBatches(self._store)
        return persistence

    async def _clean_for_ever(self) -> None:
        broker_settings = self._settings.broker_settings
        first = self.brokers[0]
        while True:
            settings = broker_configs.settings_of(
                self._cell.tables.of(first), first, broker_settings
            )
            await asyncio.sleep(max(settings.log_cleaner_backoff_ms, 1) / 1000)
            try:
                await self.clean_logs()
                await self._freed.give_back(self._kept.dropped)
            except Exception:  # noqa: BLE001 (logged; the next round follows)
                _log.exception("the log cleaner")

    async def clean_logs(self) -> int:
        """Clean the compacted logs that are due; return their number.

        Also frees the space of unreferenced batches.
        """
        now, tables = self._clock(), self._cell.tables
        found = list(log_cleaner.due(tables, self.brokers, self._settings.broker_settings, now))
        cleaned = sum([await self._clean(due, now) for due in found])
        if self._persistence is not None:
            self._persistence.collect(self._kept.locators)
        return cleaned

    async def _clean(self, due: log_cleaner.CleaningPass, now: int) -> bool:
        one = log_cleaner.OnePass(self._cell.tables, self._store, due, now, self._sealed)
        try:
            for _ in one.steps() if one.is_still_due() else ():
                await asyncio.sleep(0)
        except OSError as error:
            _log.error("cannot clean a log", topic=due.log.topic, error=str(error))
            one.cleaned = None
        rows = None
        if one.cleaned is not None and one.is_still_due():
            rows = self._handle(self._events.cleaning(due.broker, one.cleaned, due.mark), True)
        self._dispatch(rows or [])
        is_taken = any(isinstance(row, LocalRecord) for row in rows or ())
        for locator in one.written if not is_taken else ():
            self._store.drop(locator, False)
        return is_taken

    def _sealed(
        self, topic_id: str, partition: int, base_offset: int
    ) -> list[dict[str, Any]] | None:
        return self._segments.get((topic_id, partition, base_offset))

    def _replay(self, journal: Journal) -> None:
        """Process the journal's events; only note their deadlines."""
        loop, self._loop = self._loop, None
        documents, decided = journal.replay(), 0
        last_settings = None
        for document in documents:
            if document.startswith(journal_snapshot.HEAD):
                last_settings = self._restore(
                    journal_snapshot.read(document, lambda: next(documents, None))
                )
                journal.snapshot_read()
            elif document.startswith(b'{"settings"'):
                last_settings = self._take_settings(document)
            else:
                decided += 1
                self._offset += 1
                self._dispatch(self._cell.handle(document, Position(0, self._offset)))
        if journal.dropped_bytes:
            _log.warning(
                "dropped an incomplete last line of the journal",
                journal=str(journal.path),
                bytes=journal.dropped_bytes,
            )
        if last_settings != self._settings:
            journal.write_settings(msgspec.to_builtins(self._settings))
        self._cell.settings = self._settings
        self._loop = loop
        _log.info("journal read", journal=str(journal.path), events=decided)

    def _take_settings(self, document: bytes) -> CellSettings:
        settings = msgspec.convert(msgspec.json.decode(document)["settings"], CellSettings)
        self._check_fits(settings)
        self._cell.settings = settings
        return settings

    def _check_fits(self, settings: CellSettings) -> None:
        if (settings.cluster, settings.brokers) != (self.cluster, self.brokers):
            raise UserError(
                f"The journal belongs to the cluster {settings.cluster}"
                f" with brokers {settings.brokers},"
                f" not to {self.cluster} with {self.brokers}.",
                "Pass the same --cluster and --brokers, or another --journal.",
            )

    def _snapshot(self) -> EngineSnapshot:
        """Return a snapshot for the beginning of a new journal."""
        columns, kept = columns_at_rest(self._cell), self._kept.all()
        return EngineSnapshot(
            self._offset, columns, kept, dict(self._segments), self._cell.settings
        )

    def _restore(self, snapshot: EngineSnapshot) -> CellSettings:
        self._check_fits(snapshot.settings)
        self._cell = Cell(snapshot.settings, snapshot.columns, make_rows=LocalRows)
        self._offset = snapshot.events
        for key, kept in snapshot.kept:
            self._kept.restore(key, kept)
        self._segments.update(snapshot.sealed)
        self._deadline = self._cell.meta.outstanding
        for broker in network.stopped(self._cell.tables.cluster):
            self.on_broker(broker, True)
        return snapshot.settings

    async def close(self) -> None:
        """Cancel pending requests and close the files."""
        for timer in (self._timer, self._check):
            if timer is not None:
                timer.cancel()
        if self._cleaner is not None:
            self._cleaner.cancel()
            await asyncio.wait([self._cleaner])
        for future in list(self._pending.values()):
            future.cancel()
        if self._persistence is not None:
            await self._persistence.close()

    def submit(self, request: EdgeRequest) -> asyncio.Future[EngineResponse]:
        """Process a request; the future is done unless the request is pending."""
        event = self._events.request(request)
        self._kept.appended.clear()
        is_kept = self._persistence is not None and not api_of_key(request.api_key).only_reads
        future = self._take(event, is_kept)
        if isinstance(request.body, ProduceRequest):
            self._forget_refused(request.body)
        return future

    def disconnected(self, broker: int, connection: str) -> None:
        """Report the end of a connection for which the broker may keep state."""
        self._dispatch(self._handle(self._events.disconnection(broker, connection), True) or [])

    def intervene(
        self, kind: Kind, broker: int, directory: str = ""
    ) -> asyncio.Future[EngineResponse]:
        """Process an intervention of `ABOUT_BROKERS`."""
        return self._take(self._events.intervention(kind, broker, directory=directory), True)

    def _take(self, event: Event, is_kept: bool) -> asyncio.Future[EngineResponse]:
        assert self._loop is not None, "start() comes first"
        future: asyncio.Future[EngineResponse] = self._loop.create_future()
        self._pending[event.id] = future
        rows = self._handle(event, is_kept)
        if rows is None:
            del self._pending[event.id]
            future.set_result(
                EngineResponse(
                    None, {"reason": NOT_KEPT, "detail": "the journal cannot be written"}
                )
            )
            return future
        self._dispatch(rows, event.id)
        if not future.done():
            future.add_done_callback(lambda _: self._pending.pop(event.id, None))
        return future

    def _handle(self, event: Event, is_kept: bool) -> list[Output] | None:
        """Return the outputs of an event, or None if the journal cannot be written."""
        handled: Event | bytes = event
        if self._persistence is not None and is_kept:
            document = document_of(event)
            if len(document) > EVENT_BYTES_MAX:
                handled = document  # refused, as when the journal is read
            try:
                self._persistence.write(document)
            except OSError as error:
                _log.error("cannot write to the journal", error=str(error))
                return None
        self._offset += 1
        return self._cell.handle(handled, Position(0, self._offset))

    def _dispatch(self, rows: list[Output], event_id: str = "") -> None:
        """Pass on the outputs; `event_id` is the event of a caller that reads its response now."""
        for row in rows:
            if isinstance(row, LocalRecord):
                if isinstance(row.record, ConfigChanged | LineLogged):
                    self._report(row.record)
                else:
                    self._kept.follow(row.machine, row.record)
            elif isinstance(row, LocalSegment):
                self._seal(row)
            elif isinstance(row, LocalTimer):
                self._schedule(row.deadline)
            elif row.topic == outputs.RESPONSES and row.id.startswith(outputs.BROKER_CHANGES):
                change = self._change_decoder.decode(row.value or b"")
                self.on_broker(change.broker, change.is_stopped)
            elif row.topic == outputs.RESPONSES:
                future = self._pending.pop(row.id, None)
                if future is None or future.done():
                    continue
                if not isinstance(row, LocalResponse):
                    outcome = self._response_decoder.decode(row.value or b"").to_response()
                else:
                    outcome = row.outcome if row.id == event_id else row.outcome.copied()
                future.set_result(outcome)
            elif row.topic == outputs.DEAD_LETTERS:
                letter = msgspec.json.decode(row.value or b"")
                _log.warning("dead letter", reason=letter["reason"], detail=letter["detail"])

    def _report(self, record: ConfigChanged | LineLogged) -> None:
        """Report a changed setting, or a line unless the journal is read."""
        if isinstance(record, ConfigChanged):
            self.on_settings()
        elif self._loop is not None:
            self.on_line(record.line)

    def _forget_refused(self, body: ProduceRequest) -> None:
        """Drop the bytes of batches that no log has appended."""
        for topic in body.topic_data:
            for partition in topic.partition_data:
                for batch in partition.batches:
                    locator = batch.locator
                    if locator is not None and locator not in self._kept.appended:
                        self._store.drop(locator, False)

    def _seal(self, row: LocalSegment) -> None:
        """Store a sealed segment of a log's index until its tombstone."""
        if row.batches is None:
            self._segments.pop(row.place, None)
        else:
            self._segments[row.place] = row.batches

    def _schedule(self, deadline: int) -> None:
        """Schedule a tick for the deadline; during a replay only note it."""
        self._deadline = deadline
        if self._loop is None or deadline == NO_DEADLINE:
            return
        if self._timer is not None:
            self._timer.cancel()
        delay = max(deadline - self._clock(), 0) / 1000
        self._timer = self._loop.call_later(delay, self._due, deadline)

    def _due(self, deadline: int) -> None:
        if self._clock() < deadline:
            self._schedule(deadline)
        else:
            self._timer = None
            self._tick()

    def _check_expiry(self) -> None:
        """Advance time, and again at the next expiry check, even if no event comes."""
        assert self._loop is not None, "start() comes first"
        self._tick()
        now = self._clock()
        wait_ms = expiry.next_check(self._settings.broker_settings, now) - now
        wait_s = max(wait_ms, CHECK_LEAST_MS) / 1000
        self._check = self._loop.call_later(wait_s, self._check_expiry)

    def _tick(self) -> None:
        """Advance time. Ticks are not in the journal: every event fires earlier deadlines."""
        rows = self._handle(self._events.tick(), False)
        self._dispatch(rows or [])

    def features_epoch(self) -> int:
        return max(metadata_log.end_offset(self._cell.tables.metadata) - 1, 0)

    def known_features(self) -> list[dict[str, Any]]:
        """Return the finalized features with levels, as the first broker reports them."""
        broker_settings = self._settings.broker_settings
        levels = features.finalized(self._cell.tables.of(self.brokers[0]), broker_settings)
        return [
            {"name": name, "maxVersionLevel": level, "minVersionLevel": level}
            for name, level in levels.items()
            if level > 0
        ]

    def known(self, broker: int) -> KnownSettings:
        return KnownSettings(self._cell.tables.of(broker), self._settings.broker_settings)

    def request_limit(
        self, broker: int, principal: str, client_id: str | None
    ) -> RequestLimit | None:
        if not self._cell.broker(broker).has_quotas:
            return None
        return self.known(broker).request_limit(broker, principal, client_id)

    def codec_of(self, broker: int, topic: TopicProduceData) -> TopicCodec | None:
        """Return the codec that a topic requires, by name or id, or None for `producer`."""
        machine = self._cell.broker(broker)
        known = machine.topic_by_name(topic.name or "")
        if known is None and topic.topic_id != ZERO_UUID:
            known = machine.topic_by_id(topic.topic_id)
        return None if known is None else machine.rules_of(known).codec

    def put(self, data: bytes) -> str | asyncio.Future[str]:
        """Store the bytes of a batch; return their locator. Raises OSError."""
        return self._store.put(data)

    async def get(self, locator: str) -> bytes | None:
        """Return the bytes at a locator, or None if they are lost."""
        return self._store.get(locator)

    async def segment(
        self, topic_id: str, partition: int, base_offset: int
    ) -> list[dict[str, Any]] | None:
        """Return the batches of a sealed segment, or None."""
        return self._segments.get((topic_id, partition, base_offset))
