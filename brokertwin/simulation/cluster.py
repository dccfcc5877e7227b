"""Cells of a cluster in virtual time: events in, rows out, ticks at deadlines.

    LocalCluster       processes each event at once, like the local engine of a gateway
    JobCluster         in micro-batches (`micro_batches.py`)

Between events `check(cell)` holds, or ViolationError is raised.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

import msgspec

from brokertwin.protocol.kafka_apis import API_KEYS
from brokertwin.simulation.clock import VirtualClock
from brokertwin.simulation.deliveries import Counted, Draws
from brokertwin.simulation.plan import FaultKind, RunPlan
from brokertwin.simulation.reach import Reach
from brokertwin.simulation.witness import Witness
from brokertwin.state.access.authorizer import CLASS_NAME
from brokertwin.state.cell.cell import Cell
from brokertwin.state.cell.check import Checker, hold
from brokertwin.state.cell.delivery import AtOnce, DeliveryOrder, RandomDelivery
from brokertwin.state.cell.output_rows import Rows
from brokertwin.state.core import outputs
from brokertwin.state.core.decision import Message
from brokertwin.state.core.events import Kind
from brokertwin.state.core.outputs import Output, Position
from brokertwin.state.core.records import Record
from brokertwin.state.core.settings import BrokerSettings, CellSettings

CLUSTER = "simulated"
SESSION_MS = 4_000
HEARTBEAT_MS = 800
TRANSACTION_MS = 4_000
BROKER_SESSION_MS = 2_000
RETENTION_CHECK_MS = {True: 600, False: 300_000}
"""Interval of retention checks: short if records expire, else Kafka's."""

SHARE_LOCK_MS = 1_500
DELIVERIES_MAX = 4
WHOLE_EVERY = 60
"""Interval, in events, of checks of the whole state; others check what an event touched."""

_json = msgspec.json.Encoder()


_FAST_EXPIRY: dict[str, Any] = {
    "offsets_retention_minutes": 1,
    "offsets_retention_check_interval_ms": 1_000,
    "transactional_id_expiration_ms": 6_000,
    "transaction_remove_expired_transaction_cleanup_interval_ms": 1_000,
}


def settings_of(plan: RunPlan) -> CellSettings:
    """Return the cluster's settings: Kafka's, with times scaled to seconds."""
    brokers = list(range(1, plan.brokers + 1))
    return CellSettings(
        name=CLUSTER,
        cluster=CLUSTER,
        brokers=brokers,
        event_time="recorded",
        may_intervene=True,
        writes_records=False,
        broker_settings=BrokerSettings(
            allow_everyone_if_no_acl_found=True,
            authorizer_class_name=CLASS_NAME if plan.has_acls else "",
            auto_create_topics_enable=False,
            broker_session_timeout_ms=BROKER_SESSION_MS,
            default_replication_factor=plan.replicas,
            group_consumer_heartbeat_interval_ms=HEARTBEAT_MS,
            group_consumer_session_timeout_ms=SESSION_MS,
            group_initial_rebalance_delay_ms=200,
            group_min_session_timeout_ms=1_000,
            min_insync_replicas=plan.in_sync_min,
            log_dirs=plan.disks,
            log_initial_task_delay_ms=500,
            log_retention_check_interval_ms=RETENTION_CHECK_MS[plan.has(FaultKind.RETENTION)],
            offsets_commit_timeout_ms=2_000,
            offsets_topic_num_partitions=2,
            offsets_topic_replication_factor=plan.replicas,
            replica_fetch_backoff_ms=300,
            replica_fetch_max_bytes=plan.follower_bytes,
            replica_lag_time_max_ms=plan.lag_ms,
            share_coordinator_write_timeout_ms=2_000,
            transaction_abort_timed_out_transaction_cleanup_interval_ms=500,
            transaction_partition_verification_enable=plan.verifies,
            transaction_state_log_num_partitions=2,
            **(_FAST_EXPIRY if plan.expires_fast else {}),
            brokertwin_transaction_version=plan.transaction_version,
            given={
                **_of_share_groups(plan),
                **({"metadata.log.dir": "/metadata"} if plan.disks else {}),
                "min.insync.replicas": str(plan.in_sync_min),
                "transaction.state.log.min.isr": str(plan.in_sync_min),
                "transaction.state.log.replication.factor": str(plan.replicas),
            },
        ),
    )


def _of_share_groups(plan: RunPlan) -> dict[str, str]:
    """Return settings of share groups and their state, with small minimums."""
    times = {
        "heartbeat.interval.ms": HEARTBEAT_MS,
        "session.timeout.ms": SESSION_MS,
        "record.lock.duration.ms": SHARE_LOCK_MS,
        "delivery.count.limit": DELIVERIES_MAX,
    }
    return {
        "group.share.assignment.interval.ms": "200",
        "group.share.initialize.retry.interval.ms": "500",
        "share.coordinator.state.topic.num.partitions": "2",
        "share.coordinator.state.topic.replication.factor": str(plan.replicas),
        "share.coordinator.state.topic.min.isr": str(plan.in_sync_min),
        **{f"group.share.{name}": str(value) for name, value in times.items()},
        **{f"group.share.min.{name}": str(value) for name, value in times.items()},
    }


class SimulatedCluster(ABC):
    """Accepts events and distributes their outputs.

    Attributes:
        on_response: receives the id of a connection's request and the response's document.
        on_broker: receives a broker, and whether it is stopped.
        dead_letters: documents of dead letters without an injected cause.
        decided: number of processed events.
        differing: differences of reprocessed events.
        witness: if any, observes each event in place of the checks of the state.
        reached: counts of situations.
    """

    def __init__(self, plan: RunPlan, clock: VirtualClock) -> None:
        self.plan = plan
        self.settings = settings_of(plan)
        self.on_response: Callable[[str, dict[str, Any]], None] = lambda *_: None
        self.on_broker: Callable[[int, bool], None] = lambda *_: None
        self.dead_letters: list[dict[str, Any]] = []
        self.decided = 0
        self.differing: list[str] = []
        self.witness: Witness | None = None
        self.reached: Counter[Reach] = Counter()
        self.cells: dict[str, Cell] = {}
        self._checkers: dict[str, Checker] = {}
        self._clock = clock
        self._ticks: dict[str, int] = {}
        self._calls: dict[str, Callable[[dict[str, Any]], None]] = {}
        self._count = 0

    @abstractmethod
    def take(self, cell: str, document: bytes) -> None:
        """Accept an event for a cell."""

    def cell_of(self, broker: int) -> str:
        cells = (name for name, held in self.settings.cells.items() if broker in held)
        return next(cells, self.settings.name)

    def request(self, fields: dict[str, Any]) -> None:
        """Write a client's request."""
        self._count += 1
        event = {"cluster": CLUSTER, "time": self._clock.now, "nonce": f"n{self._count}", **fields}
        self.take(self.cell_of(fields["broker"]), _json.encode(event))

    def call(
        self,
        client: str,
        api: str,
        version: int,
        body: dict[str, Any],
        broker: int,
        take: Callable[[dict[str, Any]], None],
    ) -> None:
        """Write a request without a connection; `take` receives the response's document."""
        name = f"{client}/{self._count}"
        self._calls[name] = take
        header: dict[str, Any] = {
            "requestApiKey": API_KEYS[api],
            "requestApiVersion": version,
        }
        fields = {"id": name, "broker": broker, "connection": client, "requestHeader": header}
        if self.witness is not None:
            header |= {"correlationId": self._count, "clientId": client}
            self.witness.requested(name, broker, header, body, client, f"{client}-{broker}")
        self.request({**fields, "request": body})

    def respond(self, request_id: str, document: dict[str, Any]) -> None:
        """Pass a response on to the receiver."""
        take = self._calls.pop(request_id, None)
        if take is not None:
            if self.witness is not None and document.get("response") is not None:
                self.witness.responded(request_id, document["response"])
            take(document)
        else:
            self.on_response(request_id, document)

    def intervene(self, kind: Kind, broker: int, **fields: Any) -> None:
        """Write an intervention of `ABOUT_BROKERS`."""
        self._count += 1
        named = {"id": f"intervention-{self._count}", "kind": kind, "broker": broker}
        self.request({**named, **fields})

    def disconnect(self, broker: int, connection: str) -> None:
        self._count += 1
        fields = {"id": f"disconnection-{self._count}", "kind": Kind.DISCONNECT, "broker": broker}
        self.request({**fields, "connection": connection})

    def tick(self, cell: str) -> None:
        self._count += 1
        tick = {"id": f"tick-{self._count}", "cluster": CLUSTER, "kind": Kind.TICK}
        self.take(cell, _json.encode({**tick, "time": self._clock.now}))

    def handle(self, name: str, document: bytes, offset: int) -> list[Output]:
        """Process an event and check the cell. Raises ViolationError."""
        cell = self.cells[name]
        rows = cell.handle(document, Position(0, offset, -1))
        self.decided += 1
        if self.witness is None:
            self._checkers[name].hold(cell)
        else:
            self.witness.take(cell, document)
        return rows

    def begin(self, name: str, cell: Cell) -> None:
        """Start with a cell's state: initial, or of its last commit."""
        if name not in self._checkers:
            self._checkers[name] = Checker(1 if self.plan.is_checked_whole else WHOLE_EVERY)
        self._checkers[name].begin(cell)
        self.cells[name] = cell

    def hold(self) -> None:
        """Check every cell. Raises ViolationError."""
        for cell in self.cells.values():
            hold(cell)

    def deliver(self, name: str, row: Output) -> None:
        """Deliver a row to its reader; the engine handles rows for other cells."""
        if row.topic == outputs.RESPONSES and row.id.startswith(outputs.BROKER_CHANGES):
            change = msgspec.json.decode(row.value or b"", type=outputs.BrokerChange)
            self.on_broker(change.broker, change.is_stopped)
        elif row.topic == outputs.RESPONSES:
            self.respond(row.id, msgspec.json.decode(row.value or b""))
        elif row.topic == outputs.TIMERS:
            self._wake(name, msgspec.json.decode(row.value or b"")["deadline"])
        elif row.topic == outputs.DEAD_LETTERS:
            self.dead_letters.append(msgspec.json.decode(row.value or b""))

    def _wake(self, name: str, deadline: int) -> None:
        """Schedule a tick at a cell's latest deadline."""
        self._ticks[name] = deadline

        def due() -> None:
            if self._ticks.get(name) == deadline:
                del self._ticks[name]
                self.tick(name)

        self._clock.at(deadline, due)


class _RowsHeld(Rows):
    """Compares the outputs of reprocessed events with the previous ones.

    Args:
        delivered: outputs since the last commit, by event offset.
        compare: called with previous and new outputs.
        witness: returns the one that observes records, if any.
    """

    def __init__(
        self,
        settings: CellSettings,
        delivered: Mapping[int, list[Output]],
        compare: Callable[[list[Output], list[Output]], None],
        witness: Callable[[], Witness | None],
    ) -> None:
        self._delivered, self._compare = delivered, compare
        self._witness: Callable[[], Witness | None] = lambda: None
        self.rows = []
        super().__init__(settings)  # begins no event: the last one's records are not taken yet
        self._witness = witness

    def begin(self, position: Position) -> None:
        """Finish the previous event; outputs of a failed event were never delivered."""
        before = self._delivered.get(self.position.offset) if self.rows else None
        if before is not None and before is not self.rows:
            self._compare(before, self.rows)
        if (witness := self._witness()) is not None:
            witness.begin()
        super().begin(position)

    def record(self, machine: int, now: int, event_id: str, record: Record) -> None:
        if (witness := self._witness()) is not None:
            witness.record(machine, event_id, record)
        super().record(machine, now, event_id, record)


class LocalCluster(SimulatedCluster):
    """One cell that processes each event at once.

    After a rejected event, such as a request to a stopped broker, the events since the last commit
    are reprocessed. Messages between brokers are delivered in the same order then, so all delivered
    outputs stay valid.
    """

    def __init__(self, plan: RunPlan, clock: VirtualClock) -> None:
        super().__init__(plan, clock)
        self._draws = Draws(Random(f"{plan.seed}/schedule"))
        self._commits = -1
        self._delivered: dict[int, list[Output]] = {}
        self.begin(CLUSTER, Cell(self.settings, None, self._rows, self._schedule))

    def _rows(self, settings: CellSettings) -> Rows:
        return _RowsHeld(settings, self._delivered, self._compare, lambda: self.witness)

    def _compare(self, before: list[Output], now: list[Output]) -> None:
        self.reached[Reach.AGAIN] += 1
        if before != now:
            self.differing.append(f"{[row.value for row in before]}, then {now}")

    def _schedule(self) -> DeliveryOrder:
        """Return the schedule of events since the last commit, also when reprocessed."""
        commits = self.cells[CLUSTER].tables.commits if self.cells else 0
        if commits != self._commits:
            self._delivered.clear()
            self._draws.forget()
        self._commits = commits
        self._draws.again()
        if not self.plan.is_any_order:
            return Counted(AtOnce(), self.reached, self._on_message)
        return Counted(RandomDelivery(self._draws), self.reached, self._on_message)

    def _on_message(self, message: Message) -> None:
        if self.witness is not None:
            self.witness.message(message)

    def take(self, cell: str, document: bytes) -> None:
        offset = self.decided
        rows = self._delivered[offset] = self.handle(cell, document, offset)
        for row in rows:
            self.deliver(cell, row)
