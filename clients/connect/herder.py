"""What a worker of a group does next: begin and end work, and write its connectors' tasks.

Source: `DistributedHerder` in Kafka Connect. Between the membership (`worker_coordinator.py`) and
the config topic (`config_log.py`); who runs it does what `tick` says, and tells `stopped`.

A task begins when the config topic has been read as far as the leader had read it that assigned
the task; one whose configuration has changed is stopped and begun again. The worker that has a
connector computes its tasks' configurations and writes them, where the topic has others: Kafka's
sends them to the leader, which writes.

With exactly-once tasks of sources wait until the leader has fenced those of the generation before
(KIP-618), and all begin anew then. The leader sees by the config topic that this is due, where
Kafka's is asked by the workers. It needs not where both generations have one task, or none had run:
a task fences its own predecessor.
"""

from collections.abc import Iterable
from typing import NamedTuple

from brokertwin.clients.connect.config_log import (
    Config,
    ConfigLog,
    Record,
    fencing_record,
    task_records,
)
from brokertwin.clients.connect.file_stream import (
    ConnectorConfigError,
    ConnectorKind,
    file_stream,
    task_configs,
)
from brokertwin.clients.connect.work import TaskId
from brokertwin.clients.connect.worker_coordinator import WorkerCoordinator
from brokertwin.clients.consumer_coordinator import ClientMemberState


class StartWork(NamedTuple):
    """Begin a connector or a task."""

    item: TaskId
    config: Config


class StopWork(NamedTuple):
    """End it; `stopped` has to follow."""

    item: TaskId


class WriteConfigs(NamedTuple):
    """Write these to the config topic, in order."""

    records: list[Record]


class Fail(NamedTuple):
    """A connector whose configuration can not be run."""

    item: TaskId
    reason: str


class Fence(NamedTuple):
    """Fence the producers of these tasks; `fenced` or `not_fenced` has to follow."""

    connector: str
    generation: int
    tasks: list[TaskId]


Command = StartWork | StopWork | WriteConfigs | Fail | Fence


class Herder:
    """One worker's.

    Attributes:
        running: what has been begun and is not ended, with its configuration.
    """

    def __init__(
        self, coordinator: WorkerCoordinator, log: ConfigLog, *, is_exact: bool = False
    ) -> None:
        """`is_exact`: whether sources write each record once."""
        self.coordinator = coordinator
        self.log = log
        self.running: dict[TaskId, Config] = {}
        self._stopping: set[TaskId] = set()
        self._written: dict[str, list[Config]] = {}
        self._failed: dict[TaskId, Config] = {}
        self._is_exact = is_exact
        self._begun: dict[TaskId, int] = {}
        self._fencing: dict[str, int] = {}

    def tick(self) -> list[Command]:
        """What is to be done now."""
        commands: list[Command] = self._stop_taken()
        wanted = self._wanted()
        if wanted is not None:
            commands += self._change(wanted)
            commands += self._look_at_connectors()
            commands += self._look_at_generations()
        return commands

    def stopped(self, item: TaskId) -> None:
        """Something has ended."""
        self._stopping.discard(item)
        self.running.pop(item, None)
        if item.is_connector:
            self._written.pop(item.connector, None)
        self.coordinator.stopped([item])

    def fenced(self, connector: str, generation: int) -> list[Command]:
        """The tasks of the generation before are fenced: those of this one may begin."""
        if self.log.generations.get(connector) != generation or not self._leads:
            self.not_fenced(connector)
            return []
        count = self.log.known.task_counts[connector]
        return [WriteConfigs([fencing_record(connector, count, generation)])]

    def not_fenced(self, connector: str) -> None:
        """It is tried again."""
        self._fencing.pop(connector, None)

    def _stop_taken(self) -> list[Command]:
        taken, self.coordinator.taken = self.coordinator.taken, []
        items = [item for each in taken for item in each.items]
        self.coordinator.stopped(item for item in items if item not in self.running)
        return self._stop(item for item in items if item in self.running)

    def _stop(self, items: Iterable[TaskId]) -> list[Command]:
        wanted = [item for item in items if item not in self._stopping]
        self._stopping.update(wanted)
        return [StopWork(item) for item in wanted]

    def _wanted(self) -> dict[TaskId, Config] | None:
        """What is to run now, with its configuration; None while that is not known."""
        assignment = self.coordinator.assignment
        if assignment is None:
            return {}
        if assignment.has_failed or self.log.offset < assignment.config_offset:
            return None
        configs: dict[TaskId, Config] = {}
        for item in assignment.assigned:
            connectors, tasks = self.log.connectors, self.log.tasks
            config = connectors.get(item.connector) if item.is_connector else tasks.get(item)
            may_run = self.log.is_started(item.connector) and not self._waits_for_fencing(item)
            if config is not None and may_run:
                configs[item] = config
        return configs

    def _waits_for_fencing(self, item: TaskId) -> bool:
        is_pending = not item.is_connector and item.connector in self.log.pending_fencing
        return is_pending and self._is_exact_source(item.connector)

    def _is_exact_source(self, connector: str) -> bool:
        config = self.log.connectors.get(connector)
        if not self._is_exact or config is None:
            return False
        try:
            return file_stream(config).kind is ConnectorKind.SOURCE
        except ConnectorConfigError:
            return False

    def _change(self, wanted: dict[TaskId, Config]) -> list[Command]:
        other = [
            item
            for item, config in self.running.items()
            if wanted.get(item) != config or self._generation(item) != self._begun[item]
        ]
        commands = self._stop(other)
        if self.coordinator.stopping:
            return commands
        for item, config in wanted.items():
            if item not in self.running:
                self.running[item] = config
                self._begun[item] = self._generation(item)
                commands.append(StartWork(item, config))
        return commands

    def _generation(self, item: TaskId) -> int:
        """Which one a task is of, where all of one begin anew; 0 where that does not count."""
        if item.is_connector or not self._is_exact_source(item.connector):
            return 0
        return self.log.generations.get(item.connector, 0)

    @property
    def _leads(self) -> bool:
        return self.coordinator.is_leader and self.coordinator.state is ClientMemberState.STABLE

    def _look_at_generations(self) -> list[Command]:
        """What the leader does before the tasks of a generation may begin."""
        if self.coordinator.state is not ClientMemberState.STABLE:
            return []  # the leader of the next generation goes on with what it has begun
        if not self.coordinator.is_leader:
            self._fencing.clear()
            return []
        commands: list[Command] = []
        for name in sorted(self.log.pending_fencing - self.log.inconsistent):
            generation = self.log.generations[name]
            if self._fencing.get(name) == generation or not self._is_exact_source(name):
                continue
            self._fencing[name] = generation
            had, has = self.log.fenced_counts.get(name, 0), self.log.known.task_counts[name]
            if had == 0 or had == has == 1:
                commands += self.fenced(name, generation)
            else:
                tasks = [TaskId(name, at) for at in range(had)]
                commands.append(Fence(name, generation, tasks))
        return commands

    def _look_at_connectors(self) -> list[Command]:
        """The tasks of connectors that run here, where the topic has others or none."""
        commands: list[Command] = []
        for item, config in self.running.items():
            if not item.is_connector or self._failed.get(item) == config:
                continue
            name = item.connector
            try:
                configs = task_configs(config)
            except ConnectorConfigError as error:
                self._failed[item] = config
                commands.append(Fail(item, str(error)))
                continue
            if self.log.tasks_of(name) == configs and name not in self.log.inconsistent:
                self._written.pop(name, None)
            elif self._written.get(name) != configs:
                self._written[name] = configs
                commands.append(WriteConfigs(task_records(name, configs)))
        return commands
