"""The config topic: connectors and the configurations of their tasks.

Source: `KafkaConfigBackingStore` in Kafka Connect. The topic has one partition and is compacted.
Keys are text, values JSON without a schema, as Kafka's workers write them:

    connector-NAME      {"properties": {…}}          null deletes the connector
    task-NAME-0         {"properties": {…}}          ignored until the commit
    commit-NAME         {"tasks": 2}                 the connector has two tasks from now on
    target-state-NAME   {"state": "PAUSED"}          also STARTED, STOPPED
    tasks-fencing-NAME  {"task-count": 2}            tasks before the commit are fenced (KIP-618)

After compaction a commit can lack tasks. The connector is then inconsistent: it has no tasks until
its owner has written all of them again. Other keys (session keys, restarts) are ignored.

The offset of a commit identifies a generation of tasks. Our fencing records have it as `generation`
and apply to that generation alone, because a leader may not have read a later commit. A fencing
record of Kafka's leader, which alone writes commits there, applies to all earlier commits.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import msgspec

from brokertwin.clients.connect.leader import KnownConfigs
from brokertwin.clients.connect.work import ConnectTaskId

CONNECTOR, TASK, COMMIT, TARGET_STATE = "connector-", "task-", "commit-", "target-state-"
FENCING = "tasks-fencing-"
STARTED = "STARTED"

Config = dict[str, str]
Record = tuple[bytes, bytes | None]
"""Key and value."""


class ConfigLog:
    """The content read so far.

    Attributes:
        offset: after the last record, as workers report it; -1 at first.
        connectors: configurations by name.
        tasks: configurations of committed tasks.
        inconsistent: connectors whose tasks have to be written again.
        generations: the newest generation of tasks of each connector.
        pending_fencing: connectors whose tasks must wait for fencing.
        fenced_counts: task count of the last fenced generation, by connector.
    """

    def __init__(self) -> None:
        self.offset = -1
        self.connectors: dict[str, Config] = {}
        self.tasks: dict[ConnectTaskId, Config] = {}
        self.inconsistent: set[str] = set()
        self.generations: dict[str, int] = {}
        self.pending_fencing: set[str] = set()
        self.fenced_counts: dict[str, int] = {}
        self._counts: dict[str, int] = {}
        self._deferred: dict[str, dict[ConnectTaskId, Config]] = {}
        self._target_states: dict[str, str] = {}

    @property
    def known(self) -> KnownConfigs:
        counts = {name: self._counts.get(name, 0) for name in self.connectors}
        return KnownConfigs(self.offset, counts)

    def tasks_of(self, connector: str) -> list[Config]:
        numbers = range(self._counts.get(connector, 0))
        return [self.tasks[ConnectTaskId(connector, at)] for at in numbers]

    def is_started(self, connector: str) -> bool:
        """Whether the connector is neither paused nor stopped."""
        return self._target_states.get(connector, STARTED) == STARTED

    def take(self, offset: int, key: bytes | None, value: bytes | None) -> None:
        """Apply the next record; unreadable ones are ignored."""
        self.offset = offset + 1
        with suppress(ValueError, KeyError, TypeError, AttributeError):
            name = (key or b"").decode()
            body = None if value is None else msgspec.json.decode(value, type=dict[str, Any])
            self._take(name, body)

    def _take(self, key: str, body: dict[str, Any] | None) -> None:
        if key.startswith(TARGET_STATE):
            name = key.removeprefix(TARGET_STATE)
            self._target_states[name] = STARTED if body is None else str(body["state"])
        elif key.startswith(CONNECTOR):
            self._connector(key.removeprefix(CONNECTOR), body)
        elif key.startswith(FENCING) and body is not None:
            self._fenced(key.removeprefix(FENCING), body)
        elif key.startswith(COMMIT) and body is not None:
            self._commit(key.removeprefix(COMMIT), int(body["tasks"]))
        elif key.startswith(TASK) and body is not None:
            name, _, number = key.removeprefix(TASK).rpartition("-")
            deferred = self._deferred.setdefault(name, {})
            deferred[ConnectTaskId(name, int(number))] = _config(body)

    def _connector(self, name: str, body: dict[str, Any] | None) -> None:
        if body is not None:
            self.connectors[name] = _config(body)
            return
        self.connectors.pop(name, None)
        self._counts.pop(name, None)
        self._deferred.pop(name, None)
        self._target_states.pop(name, None)
        self.inconsistent.discard(name)
        self.generations.pop(name, None)
        self.pending_fencing.discard(name)
        self.tasks = {item: config for item, config in self.tasks.items() if item.connector != name}

    def _commit(self, name: str, count: int) -> None:
        self.generations[name] = self.offset - 1
        self.pending_fencing.add(name)
        deferred = self._deferred.pop(name, {})
        task_ids = {ConnectTaskId(name, at) for at in range(count)}
        old = {item: config for item, config in self.tasks.items() if item.connector == name}
        configs = {item: config for item, config in (old | deferred).items() if item in task_ids}
        for item in old:
            del self.tasks[item]
        if configs.keys() != task_ids:
            self.inconsistent.add(name)
            self._counts[name] = 0
            return
        self.inconsistent.discard(name)
        self.tasks |= configs
        self._counts[name] = count

    def _fenced(self, name: str, body: dict[str, Any]) -> None:
        self.fenced_counts[name] = int(body["task-count"])
        if body.get("generation") in (None, self.generations.get(name)):
            self.pending_fencing.discard(name)


def _config(body: Mapping[str, Any]) -> Config:
    return {
        str(name): str(value) for name, value in body["properties"].items() if value is not None
    }


def connector_record(name: str, config: Config | None) -> Record:
    """Return the record that creates, changes or deletes a connector."""
    body = None if config is None else msgspec.json.encode({"properties": config})
    return f"{CONNECTOR}{name}".encode(), body


def fencing_record(name: str, count: int, generation: int) -> Record:
    body = msgspec.json.encode({"task-count": count, "generation": generation})
    return f"{FENCING}{name}".encode(), body


def task_records(name: str, configs: list[Config]) -> list[Record]:
    tasks = [
        (f"{TASK}{name}-{at}".encode(), msgspec.json.encode({"properties": config}))
        for at, config in enumerate(configs)
    ]
    commit = (f"{COMMIT}{name}".encode(), msgspec.json.encode({"tasks": len(configs)}))
    return [*tasks, commit]
