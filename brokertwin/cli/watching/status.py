"""The status of a job, a live audit or a gateway, as shown by the page, `top` and Prometheus."""

from enum import StrEnum

import msgspec

from brokertwin.streaming.checkpoint.census import Census

POINTS_MAX = 120
"""Number of micro-batches, or seconds of a gateway, in a document."""


class Phase(StrEnum):
    """Phase of a process; it is ready while running."""

    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"


class Point(msgspec.Struct, frozen=True):
    """A micro-batch of a job, or a second of a gateway.

    Attributes:
        time_ms: its end, in ms since 1970.
        rate: rows of `requests`, or responses, per second.
        seconds: duration of the micro-batch; 0 for a gateway.
        lag: rows of `requests` not yet in a micro-batch; 0 for a gateway.
    """

    time_ms: int
    rate: float
    seconds: float = 0.0
    lag: int = 0


class OfSnapshots(msgspec.Struct, frozen=True):
    """Snapshots that a job has taken.

    Attributes:
        results: number by result: published, rejected, failed.
        batch: micro-batch of the newest published snapshot; -1 before it.
        time_ms: its time, in ms since 1970; -1 before it.
    """

    results: dict[str, int] = {}
    batch: int = -1
    time_ms: int = -1
    seconds: float = 0.0
    offsets: int = 0


class OfChecks(msgspec.Struct, frozen=True):
    """Checks of a job's data by the job.

    Attributes:
        results: number by result: met, unmet, failed.
        batch: micro-batch of the newest check that ran; -1 before it.
        findings: number of its failed expectations.
    """

    results: dict[str, int] = {}
    batch: int = -1
    findings: int = 0


class OfJob(msgspec.Struct, frozen=True):
    """Status of a job; its numbers are those of the newest micro-batch.

    Attributes:
        batch: its number; -1 before the first.
        batch_time_ms: when its end was observed; -1 before the first.
        batch_events: rows of `requests` in it; a pack is one.
        lag: rows of `requests` that are not in a committed micro-batch, now.
        rows: rows by topic since the job's start; of `requests`, events.
        state_bytes: size of the cells that were processed since then.
        fetch_session_partitions: partitions cached in the sessions of these cells.
        fetch_session_evictions: sessions that these cells have evicted.
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


class ApiTimes(msgspec.Struct, frozen=True):
    """Response times of an API.

    Attributes:
        bounds_s: upper bounds of the histogram's classes.
        classes: responses in each class; one more than bounds.
        sum_s: total of all responses.
    """

    bounds_s: list[float]
    classes: list[int]
    sum_s: float


class OfGateway(msgspec.Struct, frozen=True):
    """Status of a gateway.

    Attributes:
        engine: `local` or `spark`.
        waiting: open connections with a pending request.
        failed_authentications: since the gateway's start.
        brokers: advertised address of each broker.
        times: by API, from a request to its response, including long polls.
    """

    engine: str
    connections: int = 0
    waiting: int = 0
    failed_authentications: int = 0
    brokers: dict[int, str] = {}
    stopped: list[int] = []
    times: dict[str, ApiTimes] = {}


class LiveFinding(msgspec.Struct, frozen=True, kw_only=True):
    """A finding of a live audit, as the topic of findings has it.

    Attributes:
        id: a later document with the same id replaces it.
        severity: `error`, `warning`, `info`.
        kind: `offset-back`.
        subject: `group billing`.
        what: a sentence.
        cause: a sentence about the cause; "" if it is unknown.
        clients: the clients that are affected.
        begin: time of the first evidence, in ms since 1970.
        to: time of the last.
        error: name of the error; None if it is not about one.
        count: how often it is seen in the evidence.
        withdrawn: whether later exchanges have disproved it.
    """

    id: str
    cluster: str
    severity: str
    kind: str
    subject: str
    what: str
    cause: str
    clients: list[str]
    begin: float = msgspec.field(name="from")
    to: float
    error: str | None
    count: int
    withdrawn: bool = False


class LiveIncident(msgspec.Struct, frozen=True, kw_only=True):
    """Findings that belong together (`live_incidents.py`).

    Attributes:
        severity: the worst of them.
        kind: kind of the first; `what` and `cause` are those of the newest of this kind.
        subject: `group billing`, or `partition orders-0 and 6 more`.
        clients: the clients that are affected.
        begin: when it began, in ms since 1970.
        to: time of the last evidence.
        count: number of findings of its kind.
        also: the others, by kind and error: `refused NOT_LEADER_OR_FOLLOWER (12)`.
    """

    cluster: str
    severity: str
    kind: str
    subject: str
    what: str
    cause: str
    clients: list[str]
    begin: float = msgspec.field(name="from")
    to: float
    count: int
    also: list[str] = []


class FindingCount(msgspec.Struct, frozen=True):
    """Number of findings of a kind, in a cluster, of a client."""

    kind: str
    cluster: str
    client: str
    count: int


class PartitionLag(msgspec.Struct, frozen=True):
    topic: str
    partition: int
    rows: int


class OfLive(msgspec.Struct, frozen=True):
    """Status of a live audit; its numbers are those of the newest micro-batch.

    Attributes:
        batch: its number; -1 before the first.
        batch_time_ms: when its end was observed; -1 before the first.
        batch_rows: rows of topics in it.
        lag: rows of the topics that are not in a committed micro-batch, now.
        state_rows: rows of Spark's state.
        counts: lines, exchanges and damaged lines since the start.
        findings: since the start.
        incidents: the newest incidents, the newest first.
    """

    batch: int = -1
    batch_time_ms: int = -1
    batch_rows: int = 0
    batch_seconds: float = 0.0
    lag: int = 0
    state_rows: int = 0
    counts: dict[str, int] = {}
    findings: list[FindingCount] = []
    incidents: list[LiveIncident] = []


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """Status of a process.

    Attributes:
        kind: `job`, `live` or `gateway`.
        name: the prefix of a job or a live audit, or the gateway's cluster.
        time_ms: current time, in ms since 1970.
        rate: recent rows or responses per second (`rates.py`).
        responses: count by API, since the start.
        errors: by API and error, since the start; a response can have several.
        points: the last points, oldest first.
        live: set for a live audit.
        state: contents of the state; None for a gateway of a job, and before a first micro-batch.
        state_time_ms: when it was read; -1 if it was not.
        state_failure: why it is missing or out of date.
        lags: unread rows of each partition of a job's or live audit's topics.
        lag_time_ms: when they were counted; -1 if they were not.
    """

    kind: str
    name: str
    version: str
    phase: Phase
    time_ms: int
    started_ms: int
    rate: float
    responses: dict[str, int] = msgspec.field(name="answers")
    errors: dict[str, dict[str, int]]
    points: list[Point]
    job: OfJob | None = None
    live: OfLive | None = None
    gateway: OfGateway | None = None
    state: Census | None = None
    state_time_ms: int = -1
    state_failure: str = ""
    lags: list[PartitionLag] = []
    lag_time_ms: int = -1
