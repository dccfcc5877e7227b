"""Where a job or a gateway stands, as one document: what the page, `top` and Prometheus show."""

from enum import StrEnum

import msgspec

from brokertwin.streaming.census import Census

POINTS_MAX = 120
"""How many micro-batches, or seconds of a gateway, a document goes back."""


class Phase(StrEnum):
    """How far a process is; it is ready while it runs."""

    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"


class Point(msgspec.Struct, frozen=True):
    """A moment: a micro-batch of a job, a second of a gateway.

    Attributes:
        time_ms: its end, in ms since 1970.
        rate: events, or answers, per second.
        seconds: how long the micro-batch took; of a gateway 0.
        lag: events that no micro-batch had taken yet; of a gateway 0.
    """

    time_ms: int
    rate: float
    seconds: float = 0.0
    lag: int = 0


class OfSnapshots(msgspec.Struct, frozen=True):
    """The snapshots that a job has taken.

    Attributes:
        results: how many, by what became of them: published, rejected, failed.
        batch: the micro-batch of the newest that was published; -1 before it.
        time_ms: when it was taken, in ms since 1970; -1 before it.
        seconds: how long it took.
        offsets: committed offsets in it.
    """

    results: dict[str, int] = {}
    batch: int = -1
    time_ms: int = -1
    seconds: float = 0.0
    offsets: int = 0


class OfChecks(msgspec.Struct, frozen=True):
    """The checks that a job has made of itself.

    Attributes:
        results: how many, by what became of them: met, unmet, failed.
        batch: the micro-batch of the newest that did not fail; -1 before it.
        findings: the expectations that it does not meet.
    """

    results: dict[str, int] = {}
    batch: int = -1
    findings: int = 0


class OfJob(msgspec.Struct, frozen=True):
    """What only a job has; its numbers are those of the newest micro-batch.

    Attributes:
        batch: its number; -1 before the first.
        batch_time_ms: when it was seen to have ended; -1 before the first.
        batch_events: events in it.
        batch_seconds: how long it took.
        lag: events in `requests` that it left.
        rows: rows by topic since the job's start.
        state_bytes: of the cells that were touched since then.
        fetch_session_partitions: cached in the sessions of these cells.
        fetch_session_evictions: since their caches began.
        dead_letters: since the job's start, by reason.
        snapshots: since the job's start.
        checks: since the job's start.
    """

    batch: int = -1
    batch_time_ms: int = -1
    batch_events: int = 0
    batch_seconds: float = 0.0
    lag: int = 0
    rows: dict[str, int] = {}
    state_bytes: int = 0
    fetch_session_partitions: int = 0
    fetch_session_evictions: int = 0
    dead_letters: dict[str, int] = {}
    snapshots: OfSnapshots = OfSnapshots()
    checks: OfChecks = OfChecks()


class AnswerTimes(msgspec.Struct, frozen=True):
    """How long the answers of an API took.

    Attributes:
        bounds_s: upper bounds of classes.
        classes: answers in each; one more than bounds.
        sum_s: of all answers.
    """

    bounds_s: list[float]
    classes: list[int]
    sum_s: float


class OfGateway(msgspec.Struct, frozen=True):
    """What only a gateway has.

    Attributes:
        engine: `local` or `spark`.
        connections: that are open.
        waiting: those of them with a request that is not answered yet.
        failed_authentications: since the gateway's start.
        brokers: where each broker is told to be.
        stopped: brokers that are stopped.
        times: by API, from a whole request to its answer, long polls too.
    """

    engine: str
    connections: int = 0
    waiting: int = 0
    failed_authentications: int = 0
    brokers: dict[int, str] = {}
    stopped: list[int] = []
    times: dict[str, AnswerTimes] = {}


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """Where a process stands.

    Attributes:
        kind: `job` or `gateway`.
        name: the job's prefix, the gateway's cluster.
        version: of brokertwin.
        phase: how far it is.
        time_ms: now, in ms since 1970.
        started_ms: when it began.
        rate: events, or answers, per second of late (`rates.py`).
        answers: by API, since its start.
        errors: by API and error, since its start; an answer may have several.
        points: the last moments, oldest first.
        job: of a job.
        gateway: of a gateway.
        state: what the state holds; None of a gateway of a job, and before the first micro-batch.
        state_time_ms: when that was; -1 without it.
        state_failure: why there is none, or no newer one.
    """

    kind: str
    name: str
    version: str
    phase: Phase
    time_ms: int
    started_ms: int
    rate: float
    answers: dict[str, int]
    errors: dict[str, dict[str, int]]
    points: list[Point]
    job: OfJob | None = None
    gateway: OfGateway | None = None
    state: Census | None = None
    state_time_ms: int = -1
    state_failure: str = ""
