"""The state machine of a distributed worker: starts and stops its work.

Source: `DistributedHerder` in Kafka Connect. It connects the membership (`worker_coordinator.py`)
and the config topic (`config_log.py`). The caller executes the commands of `tick` and reports with
`stopped`.

A task starts once the config topic is read up to the offset of its assignment. A task with a
changed configuration is restarted. The worker that runs a connector computes the task
configurations and writes them if the topic has others. Kafka's worker sends them to the leader,
which writes them.

With exactly-once support, source tasks wait until the leader has fenced those of the generation
before (KIP-618), and all are restarted. Our leader detects this in the config topic; in Kafka the
workers request it. Fencing is skipped if no task ran before, or if both generations have one
task, because a task fences its predecessor.
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
from brokertwin.clients.connect.work import ConnectTaskId
from brokertwin.clients.connect.worker_coordinator import WorkerCoordinator
from brokertwin.clients.consumer_coordinator import ClientMemberState


class StartWork(NamedTuple):
    item: ConnectTaskId
    config: Config


class StopWork(NamedTuple):
    """Stop a connector or a task; `stopped` has to follow."""

    item: ConnectTaskId


class WriteConfigs(NamedTuple):
    """Write records to the config topic, in order."""

    records: list[Record]


class Fail(NamedTuple):
    """Report a connector with an invalid configuration."""

    item: ConnectTaskId
    reason: str


class Fence(NamedTuple):
    """Fence the producers of these tasks; call `fenced` or `not_fenced` after."""

    connector: str
    generation: int
    tasks: list[ConnectTaskId]


Command = StartWork | StopWork | WriteConfigs | Fail | Fence


class Herder:
    """The herder of one worker.

    Attributes:
        running: started work with its configuration.
    """

    def __init__(
        self, coordinator: WorkerCoordinator, log: ConfigLog, *, is_exact: bool = False
    ) -> None:
        """`is_exact`: sources write each record once."""
        self.coordinator = coordinator
        self.log = log
        self.running: dict[ConnectTaskId, Config] = {}
        self._stopping: set[ConnectTaskId] = set()
        self._written: dict[str, list[Config]] = {}
        self._failed: dict[ConnectTaskId, Config] = {}
        self._is_exact = is_exact
        self._begun: dict[ConnectTaskId, int] = {}
        self._fencing: dict[str, int] = {}

    def tick(self) -> list[Command]:
        taken, self.coordinator.taken = self.coordinator.taken, []
        self.coordinator.stopped(item for item in taken if item not in self.running)
        commands: list[Command] = self._stop(item for item in taken if item in self.running)
        configs = self._wanted()
        if configs is not None:
            commands += self._change(configs)
            commands += self._look_at_connectors()
            commands += self._look_at_generations()
        return commands

    def stopped(self, item: ConnectTaskId) -> None:
        """Record that work has ended."""
        self._stopping.discard(item)
        self.running.pop(item, None)
        if item.is_connector:
            self._written.pop(item.connector, None)
        self.coordinator.stopped([item])

    def fenced(self, connector: str, generation: int) -> list[Command]:
        if self.log.generations.get(connector) != generation or not self._leads:
            self.not_fenced(connector)
            return []
        count = self.log.known.task_counts[connector]
        return [WriteConfigs([fencing_record(connector, count, generation)])]

    def not_fenced(self, connector: str) -> None:
        self._fencing.pop(connector, None)

    def _stop(self, items: Iterable[ConnectTaskId]) -> list[Command]:
        wanted = [item for item in items if item not in self._stopping]
        self._stopping.update(wanted)
        return [StopWork(item) for item in wanted]

    def _wanted(self) -> dict[ConnectTaskId, Config] | None:
        """The work to run with its configuration; None while unknown."""
        assignment = self.coordinator.assignment
        if assignment is None:
            return {}
        if assignment.has_failed or self.log.offset < assignment.config_offset:
            return None
        configs: dict[ConnectTaskId, Config] = {}
        for item in assignment.assigned:
            connectors, tasks = self.log.connectors, self.log.tasks
            config = connectors.get(item.connector) if item.is_connector else tasks.get(item)
            may_run = self.log.is_started(item.connector) and not self._awaits_fencing(item)
            if config is not None and may_run:
                configs[item] = config
        return configs

    def _awaits_fencing(self, item: ConnectTaskId) -> bool:
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

    def _change(self, configs: dict[ConnectTaskId, Config]) -> list[Command]:
        other = [
            item
            for item, config in self.running.items()
            if configs.get(item) != config or self._generation(item) != self._begun[item]
        ]
        commands = self._stop(other)
        if self.coordinator.stopping:
            return commands
        for item, config in configs.items():
            if item not in self.running:
                self.running[item] = config
                self._begun[item] = self._generation(item)
                commands.append(StartWork(item, config))
        return commands

    def _generation(self, item: ConnectTaskId) -> int:
        """The generation of an exactly-once source task, else 0."""
        if item.is_connector or not self._is_exact_source(item.connector):
            return 0
        return self.log.generations.get(item.connector, 0)

    @property
    def _leads(self) -> bool:
        return self.coordinator.is_leader and self.coordinator.state is ClientMemberState.STABLE

    def _look_at_generations(self) -> list[Command]:
        """Fence generations as the leader, before their tasks start."""
        if self.coordinator.state is not ClientMemberState.STABLE:
            return []  # the next leader continues
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
                tasks = [ConnectTaskId(name, at) for at in range(had)]
                commands.append(Fence(name, generation, tasks))
        return commands

    def _look_at_connectors(self) -> list[Command]:
        """Write the tasks of connectors on this worker if the topic differs."""
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
