"""Documents of a job, a live audit and a gateway for the views; their servers and readers."""

import urllib.request

import msgspec

from brokertwin.cli.watching.sources import Pulse
from brokertwin.cli.watching.status import (
    ApiTimes,
    FindingCount,
    LiveIncident,
    OfChecks,
    OfGateway,
    OfJob,
    OfLive,
    OfSnapshots,
    PartitionLag,
    Phase,
    Point,
    Status,
)
from brokertwin.streaming.checkpoint.census import Census, Shrunk
from tests.support.patience import PATIENCE_S

STARTED_MS = 1_700_000_000_000
NOW_MS = STARTED_MS + 61_500

CENSUS = Census(
    groups={"Empty": 2, "Stable": 5},
    sessions=40,
    producers=12,
    transactions={"Ongoing": 1},
    waiting=3,
    partitions=30,
    under_replicated=2,
    offline=1,
    shrunk=[
        Shrunk("a", "orders", 0, 1, [1, 2, 3], [1, 2]),
        Shrunk("a", "orders", 1, -1, [2, 3], []),
    ],
)
JOB = Status(
    kind="job",
    name="shop",
    version="0.1.0",
    phase=Phase.RUNNING,
    time_ms=NOW_MS,
    started_ms=STARTED_MS,
    rate=1234.5,
    responses={"FETCH": 5000, "PRODUCE": 70},
    errors={"FETCH": {"FETCH_SESSION_ID_NOT_FOUND": 4}, "PRODUCE": {"INVALID_PRODUCER_EPOCH": 1}},
    points=[Point(STARTED_MS + 1000 * n, 100.0 * n, 0.5 + n / 100, 3 * n) for n in range(30)],
    job=OfJob(
        batch=17,
        batch_time_ms=NOW_MS - 500,
        batch_events=900,
        batch_seconds=0.75,
        lag=1700,
        rows={"requests": 5072, "responses": 5071},
        state_bytes=20_400_000,
        fetch_session_partitions=3400,
        fetch_session_evictions=5,
        dead_letters={"not JSON": 2},
        snapshots=OfSnapshots({"published": 3, "failed": 1}, 15, NOW_MS - 3000, 0.25, 70),
        checks=OfChecks({"met": 4, "unmet": 1}, 15, 1),
    ),
    state=CENSUS,
    state_time_ms=NOW_MS - 2000,
    lags=[PartitionLag("shop.requests", 0, 1500), PartitionLag("shop.requests", 1, 200)],
    lag_time_ms=NOW_MS - 100,
)
GATEWAY = Status(
    kind="gateway",
    name="local",
    version="0.1.0",
    phase=Phase.RUNNING,
    time_ms=NOW_MS,
    started_ms=STARTED_MS,
    rate=12.0,
    responses={"METADATA": 7},
    errors={},
    points=[],
    gateway=OfGateway(
        engine="local",
        connections=4,
        waiting=1,
        failed_authentications=6,
        brokers={1: "localhost:9092", 2: "localhost:9093"},
        stopped=[2],
        times={"METADATA": ApiTimes([0.001, 0.01], [4, 2, 1], 0.25)},
    ),
)

LIVE = Status(
    kind="live",
    name="audited",
    version="0.1.0",
    phase=Phase.RUNNING,
    time_ms=NOW_MS,
    started_ms=STARTED_MS,
    rate=2310.0,
    responses={},
    errors={},
    points=[Point(STARTED_MS + 10_000 * n, 2000 + 10 * n, 3 + n / 10, 7 * n) for n in range(6)],
    live=OfLive(
        batch=5,
        batch_time_ms=NOW_MS - 700,
        batch_rows=23_100,
        batch_seconds=3.5,
        lag=35,
        state_rows=64,
        counts={"lines": 138_700, "exchanges": 138_600, "damaged": 3},
        findings=[
            FindingCount("offset-back", "shop", "billing-1", 2),
            FindingCount("producer-fenced", "bank", "", 1),
        ],
        incidents=[
            LiveIncident(
                cluster="bank", severity="error", kind="producer-fenced",
                subject="producer orders-tx", what="Another client fenced producer orders-tx.",
                cause="client second's INIT_PRODUCER_ID bumped the epoch", clients=["first"],
                begin=NOW_MS - 2000.0, to=NOW_MS - 2000.0, count=1,
            ),
            LiveIncident(
                cluster="shop", severity="warning", kind="leader-changed",
                subject="partition orders-0 and 6 more", what="Broker 1 leads in epoch 4.",
                cause="", clients=["billing-1"], begin=NOW_MS - 59000.0, to=NOW_MS - 9000.0,
                count=7, also=["refused NOT_LEADER_OR_FOLLOWER (12)"],
            ),
        ],
    ),
    lags=[PartitionLag("requests", 0, 35)],
    lag_time_ms=NOW_MS,
)  # fmt: skip


class Shown:
    """Serves one document, whatever happens."""

    def __init__(self, status: Status) -> None:
        self.pulse = Pulse()
        self._status = status

    def status(self) -> Status:
        return self._status


def document_at(port: int) -> Status:
    """Documents that a job or a gateway serves at a port of this machine."""
    url = f"http://127.0.0.1:{port}/status.json"
    with urllib.request.urlopen(url, timeout=PATIENCE_S) as response:
        return msgspec.json.decode(response.read(), type=Status)
