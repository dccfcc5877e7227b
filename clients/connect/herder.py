"""What a worker of a group does next: begin and end work, and write its connectors' tasks.

Source: `DistributedHerder` in Kafka Connect. Between the membership (`worker_coordinator.py`) and
the config topic (`config_log.py`); who runs it does what `tick` says, and tells `stopped`.

A task begins when the config topic has been read as far as the leader had read it that assigned
the task; one whose configuration has changed is stopped and begun again. The worker that has a
connector computes its tasks' configurations and writes them, where the topic has others: Kafka's
sends them to the leader, which writes.
"""

from collections.abc import Iterable
from typing import NamedTuple

from brokerstream.clients.connect.config_log import Config, ConfigLog, Record, task_records
from brokerstream.clients.connect.file_stream import ConfigError, task_configs
from brokerstream.clients.connect.work import TaskId
from brokerstream.clients.connect.worker_coordinator import WorkerCoordinator


class Start(NamedTuple):
    """Begin a connector or a task."""

    item: TaskId
    config: Config


class Stop(NamedTuple):
    """End it; `stopped` has to follow."""

    item: TaskId


class Write(NamedTuple):
    """Write these to the config topic, in order."""

    records: list[Record]


class Fail(NamedTuple):
    """A connector whose configuration can not be run."""

    item: TaskId
    reason: str


Command = Start | Stop | Write | Fail


class Herder:
    """One worker's.

    Attributes:
        running: what has been begun and is not ended, with its configuration.
    """

    def __init__(self, coordinator: WorkerCoordinator, log: ConfigLog) -> None:
        self.coordinator = coordinator
        self.log = log
        self.running: dict[TaskId, Config] = {}
        self._stopping: set[TaskId] = set()
        self._written: dict[str, list[Config]] = {}
        self._failed: dict[TaskId, Config] = {}

    def tick(self) -> list[Command]:
        """What is to be done now."""
        commands: list[Command] = self._stop_taken()
        wanted = self._wanted()
        if wanted is not None:
            commands += self._change(wanted)
            commands += self._look_at_connectors()
        return commands

    def stopped(self, item: TaskId) -> None:
        """Something has ended."""
        self._stopping.discard(item)
        self.running.pop(item, None)
        if item.is_connector:
            self._written.pop(item.connector, None)
        self.coordinator.stopped([item])

    def _stop_taken(self) -> list[Command]:
        taken, self.coordinator.taken = self.coordinator.taken, []
        items = [item for each in taken for item in each.items]
        self.coordinator.stopped(item for item in items if item not in self.running)
        return self._stop(item for item in items if item in self.running)

    def _stop(self, items: Iterable[TaskId]) -> list[Command]:
        wanted = [item for item in items if item not in self._stopping]
        self._stopping.update(wanted)
        return [Stop(item) for item in wanted]

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
            if config is not None and self.log.is_started(item.connector):
                configs[item] = config
        return configs

    def _change(self, wanted: dict[TaskId, Config]) -> list[Command]:
        other = [item for item, config in self.running.items() if wanted.get(item) != config]
        commands = self._stop(other)
        if self.coordinator.stopping:
            return commands
        for item, config in wanted.items():
            if item not in self.running:
                self.running[item] = config
                commands.append(Start(item, config))
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
            except ConfigError as error:
                self._failed[item] = config
                commands.append(Fail(item, str(error)))
                continue
            if self.log.tasks_of(name) == configs and name not in self.log.inconsistent:
                self._written.pop(name, None)
            elif self._written.get(name) != configs:
                self._written[name] = configs
                commands.append(Write(task_records(name, configs)))
        return commands
