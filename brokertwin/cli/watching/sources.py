"""Status documents of a running job or gateway."""

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec

import brokertwin
from brokertwin.cli.watching.rates import Rate
from brokertwin.cli.watching.status import (
    POINTS_MAX,
    ApiTimes,
    OfChecks,
    OfGateway,
    OfJob,
    OfSnapshots,
    PartitionLag,
    Phase,
    Point,
    Status,
)
from brokertwin.errors import UserError
from brokertwin.gateway.engine.engine import now_ms
from brokertwin.gateway.traffic import BOUNDS_S
from brokertwin.streaming.checkpoint import checkpoint_log, state_reader
from brokertwin.streaming.checkpoint.census import Census, census
from brokertwin.streaming.job.lag import NO_LAG, Lag
from brokertwin.tables.stored_states import Cells

if TYPE_CHECKING:
    from brokertwin.gateway.engine.engine import BrokerEngine
    from brokertwin.gateway.server import Gateway
    from brokertwin.sinks.snapshot_store import Published
    from brokertwin.streaming.checks.batch_checks import BatchCheck
    from brokertwin.streaming.job.measures import QueryProgress

SILENT_MAX_S = 60.0
"""A process is no longer alive if its loop has stopped for this long."""

REST = 20
"""The state is read for at most a twentieth of the time: the pause is this many times as long."""

REST_LEAST_S = 1.0
LOOP_TIMEOUT_S = 10.0
SAMPLE_S = 1.0

Found = tuple[Census | None, int, str]
"""The state's contents, their time in ms since 1970 (-1: never), and why there is no newer one."""

NO_STATE: Found = (None, -1, "")

Columns = Callable[[], Coroutine[Any, Any, dict[str, bytes]]]


class Pulse:
    """Phase of a process and the liveness of its loop.

    Args:
        ending: set to stop the process.
    """

    def __init__(self, ending: threading.Event | None = None) -> None:
        self.started_ms = now_ms()
        self._ending = ending or threading.Event()
        self._phase = Phase.STARTING
        self._beaten = time.monotonic()

    @property
    def phase(self) -> Phase:
        return Phase.STOPPING if self._ending.is_set() else self._phase

    def beat(self) -> None:
        """Note a round of the loop; the process is running unless it is stopping."""
        self._beaten = time.monotonic()
        if self._phase is Phase.STARTING:
            self._phase = Phase.RUNNING

    def stopping(self) -> None:
        self._phase = Phase.STOPPING

    def is_alive(self) -> bool:
        """True if the loop is live; always true before and after it runs."""
        is_late = time.monotonic() - self._beaten > SILENT_MAX_S
        return not (is_late and self.phase is Phase.RUNNING)


class StatusSource(Protocol):
    """Source of the document; the server calls it in its own threads."""

    pulse: Pulse

    def status(self) -> Status:
        """Return the document."""


class StatusBase:
    """Common part of the sources: phase, rate, points and lag.

    Args:
        kind: `job`, `live` or `gateway`.
        name: as in `Status`.
        ending: set to stop the process.

    Attributes:
        lag: returns the lag of a query; called for each document.
    """

    def __init__(self, kind: str, name: str, ending: threading.Event | None = None) -> None:
        self.pulse = Pulse(ending)
        self.lag: Callable[[], Lag] = lambda: NO_LAG
        self._kind, self._name = kind, name
        self._rate = Rate()
        self._points: deque[Point] = deque(maxlen=POINTS_MAX)

    def _note_batch(self, count: int, seconds: float, lag: int) -> int:
        """Note a micro-batch that ends now; returns this time in ms since 1970."""
        seen_ms = now_ms()
        self._rate.add(count, seconds)
        self._points.append(Point(seen_ms, count / max(seconds, 0.001), seconds, lag))
        return seen_ms

    def _status(
        self, responses: dict[str, int], errors: dict[str, dict[str, int]], **parts: Any
    ) -> Status:
        return Status(
            kind=self._kind,
            name=self._name,
            version=brokertwin.__version__,
            phase=self.pulse.phase,
            time_ms=now_ms(),
            started_ms=self.pulse.started_ms,
            rate=self._rate.value(),
            responses=responses,
            errors=errors,
            points=list(self._points),
            **parts,
        )


class StateReader:
    """Count the contents of a state on request, but not more often than the load allows.

    Args:
        read: returns the cells or raises UserError; runs in the caller's thread.
        version: cheap version of the state, to skip unchanged states; None if there is none.
        clock: monotonic, in seconds.
    """

    def __init__(
        self,
        read: Callable[[], Cells],
        version: Callable[[], object] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read = read
        self._version = version
        self._clock = clock
        self._lock = threading.Lock()
        self._seen: object = None
        self._not_before = clock()
        self._found = NO_STATE

    def newest(self) -> Found:
        """Return the newest counts."""
        with self._lock:
            version = self._version() if self._version is not None else object()
            if version != self._seen and self._clock() >= self._not_before:
                began = self._clock()
                try:
                    self._found = (census(self._read()), now_ms(), "")
                    self._seen = version
                except UserError as error:
                    self._found = (*self._found[:2], error.message)
                took = self._clock() - began
                self._not_before = self._clock() + max(REST * took, REST_LEAST_S)
            return self._found


Counts = TypeVar("Counts", OfSnapshots, OfChecks)


class JobSource(StatusBase):
    """Status of a job; `observe` is called for each micro-batch, `pulse` in each loop.

    Args:
        name: the prefix of its topics.
        checkpoint: its checkpoint.
        ending: set to stop the job.
    """

    def __init__(self, name: str, checkpoint: Path, ending: threading.Event | None = None) -> None:
        super().__init__("job", name, ending)
        self._progress: QueryProgress | None = None
        self._seen_ms = -1
        self._snapshots = OfSnapshots()
        self._checks = OfChecks()
        self._state = StateReader(
            lambda: state_reader.read_cells(checkpoint),
            lambda: checkpoint_log.committed(checkpoint),
        )

    def observe(self, progress: "QueryProgress") -> None:
        self._progress = progress
        self._seen_ms = self._note_batch(progress.events, progress.seconds, progress.lag)

    def snapshot(self, taken: "Published", seconds: float) -> None:
        """Note a snapshot; a rejected one is only counted."""
        if taken.reasons:
            self._snapshots = _counted(self._snapshots, "rejected")
            return
        self._snapshots = msgspec.structs.replace(
            _counted(self._snapshots, "published"),
            batch=taken.snapshot.batch,
            time_ms=taken.snapshot.taken_ms,
            seconds=seconds,
            offsets=taken.snapshot.offsets,
        )

    def no_snapshot(self) -> None:
        self._snapshots = _counted(self._snapshots, "failed")

    def check(self, batch: int, results: "Sequence[BatchCheck]") -> None:
        findings = sum(len(each.checked.findings) for each in results)
        counted = _counted(self._checks, "unmet" if findings else "met")
        self._checks = msgspec.structs.replace(counted, batch=batch, findings=findings)

    def no_check(self) -> None:
        """Note a check that could not run."""
        self._checks = _counted(self._checks, "failed")

    def status(self) -> Status:
        """Return the document."""
        progress = self._progress
        state, state_time_ms, failure = self._state.newest() if progress else NO_STATE
        lag = self.lag()
        job = _of_job(progress, self._seen_ms, self._snapshots, self._checks)
        return self._status(
            progress.tallies.answers if progress else {},
            progress.tallies.errors if progress else {},
            job=job if lag is NO_LAG else msgspec.structs.replace(job, lag=lag.total),
            **of_lag(lag),
            state=state,
            state_time_ms=state_time_ms,
            state_failure=failure,
        )


def of_lag(lag: Lag) -> dict[str, Any]:
    lags = [PartitionLag(*place, rows) for place, rows in sorted(lag.rows.items())]
    return {"lags": lags, "lag_time_ms": lag.time_ms}


def _counted(counts: Counts, result: str) -> Counts:
    results = {**counts.results, result: counts.results.get(result, 0) + 1}
    return msgspec.structs.replace(counts, results=results)


def _of_job(
    progress: "QueryProgress | None", seen_ms: int, snapshots: OfSnapshots, checks: OfChecks
) -> OfJob:
    if progress is None:
        return OfJob(snapshots=snapshots, checks=checks)
    return OfJob(
        batch=progress.batch,
        batch_time_ms=seen_ms,
        batch_events=progress.events,
        batch_seconds=progress.seconds,
        lag=progress.lag,
        rows=progress.counts,
        state_bytes=progress.state_bytes,
        fetch_session_partitions=progress.fetch_sessions.partitions_cached,
        fetch_session_evictions=progress.fetch_sessions.evictions,
        dead_letters=progress.tallies.reasons,
        snapshots=snapshots,
        checks=checks,
    )


class GatewaySource(StatusBase):
    """Status of a gateway; `sample` runs in its event loop, the rest in callers' threads.

    Args:
        columns: returns the state, in the event loop; None if it is in another process.
    """

    def __init__(
        self, gateway: "Gateway", engine: "BrokerEngine", columns: Columns | None = None
    ) -> None:
        super().__init__("gateway", engine.cluster)
        self._gateway = gateway
        self._engine_name = "local" if columns is not None else "spark"
        self._columns = columns
        self._loop = asyncio.get_running_loop()
        self._state = StateReader(self._cells)

    async def sample(self) -> None:
        """Count once a second until cancelled."""
        before = 0
        while True:
            self.pulse.beat()
            responses = sum(self._gateway.traffic.responses.values())
            self._rate.add(responses - before, SAMPLE_S)
            self._points.append(Point(now_ms(), (responses - before) / SAMPLE_S))
            before = responses
            await asyncio.sleep(SAMPLE_S)

    def status(self) -> Status:
        """Return the document."""
        traffic = self._gateway.traffic
        is_read = self._columns is not None and self.pulse.phase is Phase.RUNNING
        state, state_time_ms, failure = self._state.newest() if is_read else NO_STATE
        return self._status(
            traffic.responses_by_name,
            traffic.errors_by_name,
            gateway=self._of_gateway(),
            state=state,
            state_time_ms=state_time_ms,
            state_failure=failure,
        )

    def _cells(self) -> Cells:
        """Return the state, read in the event loop. Raises UserError."""
        assert self._columns is not None
        found = asyncio.run_coroutine_threadsafe(self._columns(), self._loop)
        try:
            return {self._name: found.result(LOOP_TIMEOUT_S)}
        except TimeoutError:
            raise UserError("The gateway is too busy to return its state.") from None

    def _of_gateway(self) -> OfGateway:
        gateway = self._gateway
        return OfGateway(
            engine=self._engine_name,
            connections=gateway.connections,
            waiting=gateway.waiting,
            failed_authentications=gateway.traffic.failed_authentications,
            brokers={
                broker: f"{host}:{port}" for broker, (host, port) in gateway.addresses.items()
            },
            stopped=gateway.stopped,
            times={
                api: ApiTimes(list(BOUNDS_S), list(times.classes), times.sum_s)
                for api, times in gateway.traffic.times_by_name.items()
            },
        )
