"""A distributed worker: assignments come from its group, state is in topics.

Source: `DistributedHerder`, `ConnectDistributed` in Kafka Connect. One thread reads the config
topic and is the group member; each task has a thread. The worker writes its given connector
configurations if the topic has others. Not done: the REST interface.
"""

import os
import random
import socket
from collections.abc import Callable, Iterable
from contextlib import closing
from functools import partial

from brokertwin.clients.connect.config_log import Config, ConfigLog, Record, connector_record
from brokertwin.clients.connect.file_stream import (
    ConnectorConfigError,
    ConnectorKind,
    file_stream,
    task_configs,
)
from brokertwin.clients.connect.herder import (
    Command,
    Fail,
    Fence,
    Herder,
    StartWork,
    StopWork,
    WriteConfigs,
)
from brokertwin.clients.connect.offsets import WorkStatus, status_record
from brokertwin.clients.connect.work import ConnectTaskId
from brokertwin.clients.connect.worker_config import Support, WorkerConfig
from brokertwin.clients.connect.worker_coordinator import WorkerCoordinator
from brokertwin.clients.driver import ClientDriver
from brokertwin.clients.io.connect.fencing import Fencing
from brokertwin.clients.io.connect.logs import create_topics, read_places
from brokertwin.clients.io.connect.standalone import task_run
from brokertwin.clients.io.connect.stores import TopicStore
from brokertwin.clients.io.connect.tasks import TaskError, run_exactly_once
from brokertwin.clients.io.connect.threads import Run, Threads
from brokertwin.clients.io.producer import Producer
from brokertwin.clients.io.security import Kafka, addresses_to, overridden
from brokertwin.clients.io.sockets import SocketNetwork, monotonic_ms
from brokertwin.clients.log_client import LogClient
from brokertwin.clients.messages import ProducerRecord
from brokertwin.clients.producer_config import ProducerConfig
from brokertwin.clients.producer_events import RecordFailed
from brokertwin.protocol.errors import error_name

TURN_MS = 50
WRITE_MS = 30_000
LEAVE_MS = 5_000


class DistributedWorker:
    def __init__(
        self, kafka: Kafka, config: WorkerConfig, connectors: list[Config], name: str
    ) -> None:
        """Raises ConnectorConfigError."""
        for connector in connectors:
            task_configs(connector)
        self.name = name
        self.worker_id = f"{socket.gethostname()}:{os.getpid()}:{name.rpartition(' ')[2]}"
        self.threads = Threads(name)
        self.log = ConfigLog()
        self._kafka = kafka
        self._config = config
        self._given = {connector["name"]: connector for connector in connectors}
        self._is_exact = config.exactly_once_source_support is Support.ENABLED
        self._store = TopicStore(kafka, config.offset_storage_topic, is_committed=self._is_exact)
        self._reported_failures: set[ConnectTaskId] = set()
        self._fencing = Fencing(overridden(kafka, "producer."), config)
        url = f"http://{socket.gethostname()}/{os.getpid()}"
        self._client = LogClient(
            frozenset([config.config_storage_topic]),
            random.random,
            coordinator=partial(WorkerCoordinator, config, url),
        )
        coordinator = self._client.coordinator
        assert isinstance(coordinator, WorkerCoordinator)
        self._herder = Herder(coordinator, self.log, is_exact=self._is_exact)

    def run(self, is_over: Callable[[], bool], look: Callable[[Threads], None]) -> None:
        """Run until `is_over`; calls `look` repeatedly. Raises TaskError, KafkaException."""
        create_topics(self._kafka, self._config)
        client, coordinator = self._client, self._herder.coordinator
        client.metadata.bootstrap(addresses_to(self._kafka), monotonic_ms())
        client_id = f"connect-{self.worker_id}"
        with (
            closing(SocketNetwork(self._kafka, client_id)) as network,
            Producer(self._kafka, ProducerConfig(), client_id=client_id) as producer,
        ):
            driver = ClientDriver(client, network, monotonic_ms)
            while not is_over():
                self._turn(driver, producer)
                look(self.threads)
                if coordinator.fatal is not None:
                    code = coordinator.fatal
                    raise TaskError(f"the group failed: {code} {error_name(code)}")
            self._end(driver, producer, look)
            client.close(driver.now)
            driver.turn(0)
            driver.turn_until(lambda: client.is_quiet, LEAVE_MS)

    def _turn(self, driver: ClientDriver, producer: Producer) -> None:
        for _, offset, message in self._client.poll(driver.now):
            self.log.take(offset, message.key, message.value)
        coordinator = self._herder.coordinator
        coordinator.known = self.log.known
        if self._client.is_at_end and not coordinator.is_ready:
            coordinator.is_ready = True
            self._write_given(driver, producer)
        self._look_after_ended(producer)
        self._do(self._herder.tick(), driver, producer)
        for connector, generation, error in self._fencing.ended():
            if error is None:
                self._do(self._herder.fenced(connector, generation), driver, producer)
            else:
                self._herder.not_fenced(connector)
                item = ConnectTaskId(connector, 0)
                self._write_status(producer, item, WorkStatus.FAILED, error)
        producer.turn(0)
        driver.turn(TURN_MS)

    def _do(self, commands: Iterable[Command], driver: ClientDriver, producer: Producer) -> None:
        for command in commands:
            match command:
                case StartWork(item, config):
                    self.threads.start(item, self._run_of(item, config))
                    self._write_status(producer, item, WorkStatus.RUNNING)
                case StopWork(item):
                    self.threads.stop(item)
                case WriteConfigs(records):
                    self._write(driver, producer, records)
                case Fail(item, reason):
                    self._write_status(producer, item, WorkStatus.FAILED, reason)
                case Fence(connector, generation, tasks):
                    self._fencing.begin(connector, generation, tasks)

    def _write_given(self, driver: ClientDriver, producer: Producer) -> None:
        """Write the given configurations that the topic lacks or has differently."""
        other = {n: c for n, c in self._given.items() if self.log.connectors.get(n) != c}
        records = [connector_record(name, config) for name, config in other.items()]
        self._write(driver, producer, records)

    def _write(self, driver: ClientDriver, producer: Producer, records: Iterable[Record]) -> None:
        """Write to the config topic; stays a group member while waiting."""
        topic = self._config.config_storage_topic
        for record in records:
            producer.send(topic, ProducerRecord(*record), 0)
        until, results = driver.now + WRITE_MS, producer.flush(TURN_MS)
        while not producer.is_idle and driver.now < until:
            driver.turn(0)
            results += producer.flush(TURN_MS)
        failed = [each for each in results if isinstance(each, RecordFailed)]
        if failed:
            code = failed[0].error
            raise TaskError(f"could not write to {topic}: {code} {error_name(code)}")

    def _look_after_ended(self, producer: Producer) -> None:
        for item in self.threads.ended():
            self._reported_failures.discard(item)
            self._herder.stopped(item)
            self._write_status(producer, item, WorkStatus.UNASSIGNED)
        for item, trace in list(self.threads.failed.items()):
            if item not in self._reported_failures:
                self._reported_failures.add(item)
                self._write_status(producer, item, WorkStatus.FAILED, trace)

    def _write_status(
        self, producer: Producer, item: ConnectTaskId, state: WorkStatus, trace: str | None = None
    ) -> None:
        generation = self._herder.coordinator.generation.id
        record = status_record(
            item, state, worker_id=self.worker_id, generation=generation, trace=trace
        )
        producer.send(self._config.status_storage_topic, ProducerRecord(*record))

    def _run_of(self, item: ConnectTaskId, config: Config) -> Run | None:
        if item.is_connector:
            return None
        try:
            stream = file_stream(config, self._config.of_connectors)
        except ConnectorConfigError as error:
            return partial(_refuse, str(error))
        if self._is_exact and stream.kind is ConnectorKind.SOURCE:
            transactional_id = self._config.transactional_id(item)
            kafka = overridden(self._kafka, "producer.")
            generation = self.log.generations[item.connector]
            is_current = partial(self._is_current, item.connector, generation)
            return partial(
                run_exactly_once,
                kafka,
                stream,
                self._store,
                transactional_id,
                is_current=is_current,
            )
        return task_run(self._kafka, self._config, stream, self._store)

    def _is_current(self, connector: str, generation: int) -> bool:
        """Whether the generation is current in the config topic; runs in a task."""
        log = ConfigLog()
        for offset, message in read_places(self._kafka, self._config.config_storage_topic):
            log.take(offset, message.key, message.value)
        return log.generations.get(connector) == generation

    def _end(
        self, driver: ClientDriver, producer: Producer, look: Callable[[Threads], None]
    ) -> None:
        """Stop all work; stays a group member while waiting."""
        for item in list(self._herder.running):
            self.threads.stop(item)
        while not self.threads.is_empty:
            self._look_after_ended(producer)
            look(self.threads)
            driver.turn(0)
            producer.turn(TURN_MS)
        producer.flush(WRITE_MS)


def _refuse(reason: str, is_over: Callable[[], bool], moved: Callable[[int], None]) -> None:
    raise TaskError(reason)
