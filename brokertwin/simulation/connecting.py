"""A Connect worker: a source from a file to `lines`, and a sink that copies `orders`.

Works like `clients/io/connect/distributed.py`. The configurations change during the run: the
source's tasks get a new generation, and the sink gets one more task.
"""

from functools import partial
from typing import NamedTuple

from brokertwin.clients.assignors.group import NO_GENERATION
from brokertwin.clients.connect.config_log import Config, ConfigLog, Record, connector_record
from brokertwin.clients.connect.connect_protocol import ConnectProtocol
from brokertwin.clients.connect.file_stream import CONVERTERS, ISOLATION, ConnectorKind, file_stream
from brokertwin.clients.connect.herder import Command, Herder, StartWork, StopWork, WriteConfigs
from brokertwin.clients.connect.work import ConnectTaskId
from brokertwin.clients.connect.worker_config import WorkerConfig
from brokertwin.clients.connect.worker_coordinator import WorkerCoordinator
from brokertwin.clients.consumer_coordinator import ClientMemberState
from brokertwin.clients.log_client import LogClient
from brokertwin.clients.messages import ProducerRecord
from brokertwin.clients.producer_events import RecordFailed
from brokertwin.simulation.actors import REQUEST_MS, ActorContext, ApplicationActor
from brokertwin.simulation.clock import START_MS
from brokertwin.simulation.cluster import HEARTBEAT_MS, SESSION_MS
from brokertwin.simulation.connect_tasks import (
    ConnectTask,
    ExactSourceTask,
    MessageWriter,
    SinkTask,
    SourceTask,
)
from brokertwin.simulation.files import GROWING
from brokertwin.simulation.plan import CONFIGS, LINES, ClientPlan, Role
from brokertwin.simulation.sockets import Sockets

GROUP = "connect-cluster"
COPY = "orders.txt"
DELAY_MS = 1_500
RESTART_MS = 1_000
CHANGES_MS = 4_000
POLL_MS = 150

_STRING = next(name for name, form in CONVERTERS.items() if form == "string")


def connectors(elapsed_ms: int, *, is_exact: bool) -> list[Config]:
    is_changed = elapsed_ms >= CHANGES_MS
    source = {
        "name": "source",
        "connector.class": ConnectorKind.SOURCE,
        "topic": LINES,
        "file": GROWING,
        "batch.size": "5" if is_changed else "20",
        "value.converter": _STRING,
    }
    sink = {
        "name": "sink",
        "connector.class": ConnectorKind.SINK,
        "topics": "orders",
        "file": COPY,
        "tasks.max": "3" if is_changed else "2",
        "value.converter": _STRING,
        ISOLATION: "read_committed" if is_exact else "read_uncommitted",
    }
    return [{key: str(value) for key, value in each.items()} for each in (source, sink)]


class _Running(NamedTuple):
    """A task, and the command that restarts it."""

    task: ConnectTask
    start: StartWork


class WorkerActor(ApplicationActor):
    def __init__(self, place: ActorContext, plan: ClientPlan, name: str) -> None:
        super().__init__(place, plan, name)
        self._is_exact = plan.role is Role.EXACT_WORKER
        is_eager = plan.role is Role.EAGER_WORKER
        settings = WorkerConfig(
            group_id=GROUP,
            connect_protocol=ConnectProtocol.EAGER if is_eager else ConnectProtocol.SESSIONED,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            rebalance_timeout_ms=2 * SESSION_MS,
            scheduled_rebalance_max_delay_ms=DELAY_MS,
        )
        self._client = LogClient(
            frozenset([CONFIGS]),
            self.draw("worker"),
            coordinator=partial(WorkerCoordinator, settings, f"http://{name}"),
        )
        assert isinstance(self._client.coordinator, WorkerCoordinator)
        self._coordinator = self._client.coordinator
        self.sockets = self.reading_sockets_of(name)
        self._driver = self.driver_of(self._client, self.sockets)
        self._log = ConfigLog()
        self._herder = Herder(self._coordinator, self._log, is_exact=self._is_exact)
        self._writer = MessageWriter(self, f"{name}-configs")
        self._writes = self.driver_of(self._writer.client, self._writer.sockets)
        self._backlog: list[Record] = []
        self._given: dict[str, Config] = {}
        self._tasks: dict[ConnectTaskId, _Running] = {}
        self._again: dict[ConnectTaskId, tuple[int, StartWork]] = {}
        self._begun = 0

    @property
    def all_sockets(self) -> list[Sockets]:
        """Connections of its member, its config producer, and its tasks."""
        tasks = [each for running in self._tasks.values() for each in running.task.all_sockets]
        return [self.sockets, self._writer.sockets, *tasks]

    @property
    def is_at_rest(self) -> bool:
        """True if neither it nor a task has work in flight."""
        is_busy = any(running.task.is_busy for running in self._tasks.values())
        is_written = self._writer.client.producer.is_idle and not self._backlog
        return is_written and not is_busy and not self._again

    def _work(self, now: int) -> int:
        for _, offset, message in self._client.poll(now):
            self._log.take(offset, message.key, message.value)
        self._coordinator.known = self._log.known
        if self._client.is_at_end:
            self._coordinator.is_ready = True
        if self._coordinator.is_ready:
            self._give(now)
        self._look_after_tasks(now)
        self._do(self._herder.tick(), now)
        self._write(now)
        self._report(now)
        return POLL_MS

    def _give(self, now: int) -> None:
        """Write missing or changed configurations; changes are written by the connector's owner."""
        for config in connectors(now - START_MS, is_exact=self._is_exact):
            name, there = config["name"], self._log.connectors.get(config["name"])
            is_mine = there is None or ConnectTaskId(name) in self._herder.running
            if is_mine and there != config and self._given.get(name) != config:
                self._given[name] = config
                self._backlog.append(connector_record(name, config))

    def _look_after_tasks(self, now: int) -> None:
        for item, (task, start) in list(self._tasks.items()):
            task.work(now)
            if task.is_over:
                del self._tasks[item]
                if task.is_stopping:
                    self._herder.stopped(item)
                else:
                    self._again[item] = now + RESTART_MS, start
        for item, (due, start) in list(self._again.items()):
            if now >= due:
                del self._again[item]
                self._start(start)

    def _do(self, commands: list[Command], now: int) -> None:
        for command in commands:
            match command:
                case StartWork(item):
                    self.place.auditor.say(f"{self.name} begins {item}")
                    if not item.is_connector:
                        self._start(command)
                case StopWork(item):
                    self.place.auditor.say(f"{self.name} ends {item}")
                    self._stop(item, now)
                case WriteConfigs(records):
                    self._backlog += records
                case _:
                    self.place.auditor.violate(f"{self.name} is to {command}")

    def _start(self, start: StartWork) -> None:
        item, config = start
        self._begun += 1
        name = f"{self.name}-{item}-{self._begun}"
        stream = file_stream(config)
        if stream.kind is ConnectorKind.SINK:
            task: ConnectTask = SinkTask(self, name, stream)
        elif self._is_exact:
            generation = self._log.generations[item.connector]
            task = ExactSourceTask(self, name, stream, item, GROUP, generation)
        else:
            task = SourceTask(self, name, stream)
        self._tasks[item] = _Running(task, start)

    def _stop(self, item: ConnectTaskId, now: int) -> None:
        if item in self._tasks:
            self._tasks[item].task.stop(now)
        else:
            self._again.pop(item, None)
            self._herder.stopped(item)

    def _write(self, now: int) -> None:
        """Write to the config topic; a failure is a violation."""
        for event in self._writer.client.events():
            if isinstance(event, RecordFailed):
                self.place.auditor.violate(f"{self.name} ends: {event.error.name}")
        if self._backlog and self._writer.knows(now, CONFIGS):
            for record in self._backlog:
                self._writer.send(now, CONFIGS, ProducerRecord(*record), 0)
            self._backlog.clear()

    def _report(self, now: int) -> None:
        auditor, coordinator = self.place.auditor, self._coordinator
        if coordinator.fatal is not None:
            auditor.violate(f"{self.name} ends: {coordinator.fatal.name}")
        is_stable = coordinator.state is ClientMemberState.STABLE
        generation = coordinator.generation.id if is_stable else NO_GENERATION
        auditor.work.runs(
            GROUP, self.name, generation, frozenset(map(str, self._herder.running)), now
        )

    def _turn(self) -> int:
        self._driver.turn(REQUEST_MS)
        self._writes.turn(REQUEST_MS)
        pauses = [running.task.turn() for running in self._tasks.values()]
        return min(self.sockets.wait_ms, self._writer.sockets.wait_ms, *pauses)
