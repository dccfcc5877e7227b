"""A standalone worker: all connectors and tasks, positions in a file.

Source: `StandaloneHerder`, `ConnectStandalone` in Kafka Connect.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from brokertwin.clients.connect.config_log import Config
from brokertwin.clients.connect.file_stream import (
    ConnectorKind,
    FileStream,
    file_stream,
    task_configs,
)
from brokertwin.clients.connect.work import ConnectTaskId
from brokertwin.clients.connect.worker_config import WorkerConfig
from brokertwin.clients.io.connect.stores import OffsetFileStore, Store
from brokertwin.clients.io.connect.tasks import run_sink, run_source
from brokertwin.clients.io.connect.threads import Run, Threads
from brokertwin.clients.io.security import Kafka, overridden


def task_run(kafka: Kafka, config: WorkerConfig, stream: FileStream, store: Store) -> Run:
    interval_ms = config.offset_flush_interval_ms
    if stream.kind is ConnectorKind.SINK:
        return partial(run_sink, overridden(kafka, "consumer."), stream, interval_ms)
    return partial(run_source, overridden(kafka, "producer."), stream, store, interval_ms)


class StandaloneWorker:
    def __init__(
        self, kafka: Kafka, config: WorkerConfig, connectors: list[Config], name: str
    ) -> None:
        """Raises ConnectorConfigError."""
        self.name = name
        self.threads = Threads(name)
        self._kafka = kafka
        self._config = config
        self._store = OffsetFileStore(Path(config.offset_storage_file_filename))
        self._work: dict[ConnectTaskId, FileStream] = {}
        for connector in connectors:
            for at, task in enumerate(task_configs(connector)):
                stream = file_stream(task, config.of_connectors)
                self._work[ConnectTaskId(stream.name)] = self._work[
                    ConnectTaskId(stream.name, at)
                ] = stream

    def run(self, is_over: Callable[[], bool], look: Callable[[Threads], None]) -> None:
        """Run until `is_over`; calls `look` repeatedly."""
        for item, stream in self._work.items():
            is_task = not item.is_connector
            run = task_run(self._kafka, self._config, stream, self._store) if is_task else None
            self.threads.start(item, run)
        while not is_over():
            look(self.threads)
        for item in self._work:
            self.threads.stop(item)
        while not self.threads.is_empty:
            self.threads.ended()
            look(self.threads)
