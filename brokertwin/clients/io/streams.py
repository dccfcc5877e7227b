"""An instance of a Streams application on sockets, with its threads.

    with StreamsInstance("localhost:9092", config, topology) as instance:
        instance.start_thread()
        ...
        instance.tasks()             # {"thread 1": ["0_0", "0_2"], …}

Source: `KafkaStreams` in Kafka (`addStreamThread`, `removeStreamThread`). Each stream thread is a
Python thread with three clients. While it processes a record, a second thread sends the heartbeats,
as in `clients/io/consumer.py`.
"""

import base64
import random
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from brokertwin.clients.client_loop import ClientLoop
from brokertwin.clients.driver import ClientDriver
from brokertwin.clients.io.records import encode_batch
from brokertwin.clients.io.security import Kafka, addresses_to
from brokertwin.clients.io.sockets import SocketNetwork, monotonic_ms, wait_for_any
from brokertwin.clients.producer_batch import ProducerBatch
from brokertwin.clients.producer_client import ProducerClient
from brokertwin.clients.streams.stream_thread import Apart, StreamThread, ThreadState
from brokertwin.clients.streams.streams_config import StreamsConfig
from brokertwin.clients.streams.streams_protocol import HostInfo
from brokertwin.clients.streams.topology import Topology
from brokertwin.errors import UserError

BEAT_S = 0.1
"""Interval of the heartbeat thread."""

WAIT_MS = 20
"""Maximum sleep of an idle thread, and so the delay of its deadlines."""

CLOSE_S = 40.0
LOOK_S = 0.2
"""Interval at which `run` looks at its threads and at changes of their number."""

Look = Callable[[str, StreamThread], None]
"""Called in a thread after each of its rounds."""


class RunningThread:
    def __init__(
        self, kafka: Kafka, name: str, make: Callable[[Apart], StreamThread], look: Look
    ) -> None:
        """`make` creates the thread with a context manager around processing."""
        self.name = name
        self.stream = make(self._apart)
        self._kafka = kafka
        self._look = look
        self._is_killed = False
        self._refused: str | None = None
        self._driven: dict[ClientLoop, tuple[SocketNetwork, ClientDriver]] = {}
        self._lock = threading.Lock()
        self._has_ended = threading.Event()
        self._beats = threading.Thread(target=self._beat, name=f"{name} heartbeats", daemon=True)
        self._thread = threading.Thread(target=self._run, name=name)
        self._thread.start()
        self._beats.start()

    @property
    def error(self) -> str | None:
        """Why the thread failed, or None."""
        return self._refused or self.stream.error

    def kill(self) -> None:
        """Stop at once: nothing is committed, and the group is not left."""
        self._is_killed = True
        self._thread.join(CLOSE_S)

    def join(self, timeout_s: float) -> bool:
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    @contextmanager
    def _apart(self) -> Iterator[None]:
        """Let the heartbeat thread drive the consumer while a record is processed."""
        self._lock.release()
        try:
            yield
        finally:
            self._lock.acquire()

    def _beat(self) -> None:
        while not self._has_ended.wait(BEAT_S):
            if not self._lock.acquire(blocking=False):
                continue
            try:
                driven = self._driven.get(self.stream.consumer)
                if driven is not None and not self._is_killed:
                    driven[1].turn(0)
            except UserError as error:
                self._refused = str(error)
                return
            finally:
                self._lock.release()

    def _run(self) -> None:
        self._lock.acquire()
        try:
            while not self._is_over:
                has_more = self.stream.work(monotonic_ms())
                self._adopt()
                for _, driver in self._driven.values():
                    driver.turn(0)
                self._look(self.name, self.stream)
                if not has_more:
                    wait_for_any((network for network, _ in self._driven.values()), WAIT_MS)
        except UserError as error:
            self._refused = str(error)
        finally:
            self._has_ended.set()
            for network, _ in self._driven.values():
                network.close()
            self._look(self.name, self.stream)

    @property
    def _is_over(self) -> bool:
        is_dead = self.stream.state is ThreadState.DEAD
        return self._is_killed or is_dead or self._refused is not None

    def _encode(self, batch: ProducerBatch) -> bytes:
        return encode_batch(batch, self.stream.messages)

    def _adopt(self) -> None:
        """Open connections for new clients; close those of a fenced producer."""
        clients = self.stream.clients
        for client in [each for each in self._driven if each not in clients]:
            self._driven.pop(client)[0].close()
        for client in clients:
            if client not in self._driven:
                encode = self._encode if isinstance(client, ProducerClient) else None
                client_id = f"{self.stream.name}-{type(client).__name__}"
                network = SocketNetwork(self._kafka, client_id, encode)
                client.metadata.bootstrap(addresses_to(self._kafka), monotonic_ms())
                self._driven[client] = network, ClientDriver(client, network, monotonic_ms)


class StreamsInstance:
    """A process of the application.

    Attributes:
        process_id: identifies the process of its threads.
        threads: all started threads by name.
        is_closing: `close` was called.
    """

    def __init__(
        self,
        kafka: Kafka,
        config: StreamsConfig,
        topology: Topology,
        *,
        end_point: HostInfo | None = None,
        look: Look = lambda name, thread: None,
    ) -> None:
        self.config = config
        self.topology = topology
        self.end_point = end_point
        self.process_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        self.threads: dict[str, RunningThread] = {}
        self.is_closing = False
        self._ended: set[str] = set()
        self._kafka = kafka
        self._look = look
        self._last_worked, self._idle_since = -1, 0.0

    def __enter__(self) -> "StreamsInstance":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start_thread(self) -> str:
        number = len(self.threads) + 1
        name = f"thread {number}"
        make = partial(
            StreamThread,
            self.config,
            self.topology,
            self.process_id,
            number,
            random.random,
            end_point=self.end_point,
        )
        self.threads[name] = RunningThread(
            self._kafka, name, lambda apart: make(apart=apart), self._look
        )
        return name

    def run(
        self, threads: int, idle_s: float | None, changes: list[int], say: Callable[[str], None]
    ) -> None:
        """Run threads until no record came for `idle_s`, or one failed.

        `changes` may grow meanwhile: 1 adds a thread, -1 removes one, and `say` gets a message.
        """
        for _ in range(threads):
            self.start_thread()
        while not self.is_idle(idle_s) and not self.failed:
            time.sleep(LOOK_S)
            while changes:
                say(self.add_thread() if changes.pop(0) > 0 else self.remove_thread())

    def end_thread(self, name: str) -> None:
        """Let a thread commit and leave the group; its tasks move to other threads."""
        self._ended.add(name)
        self.threads[name].stream.close()

    def add_thread(self) -> str:
        """Start a thread; returns a message."""
        return f"added {self.start_thread()}"

    def remove_thread(self) -> str:
        """End the newest thread, but not the last one; returns a message."""
        *others, name = self.living
        if not others:
            return "the last thread is not removed"
        self.end_thread(name)
        return f"removing {name}"

    @property
    def worked(self) -> int:
        """Number of records that all threads have processed."""
        return sum(running.stream.worked for running in self.threads.values())

    @property
    def failed(self) -> dict[str, str]:
        """The errors of failed threads."""
        return {n: each.error for n, each in self.threads.items() if each.error is not None}

    def is_idle(self, idle_s: float | None) -> bool:
        """True if no record came for `idle_s` while all tasks run, as far as calls have shown."""
        all_run = all(e.stream.state is ThreadState.RUNNING for e in self.living.values())
        if self.worked != self._last_worked or not all_run:
            self._last_worked, self._idle_since = self.worked, time.monotonic()
        return idle_s is not None and time.monotonic() - self._idle_since >= idle_s

    @property
    def living(self) -> dict[str, RunningThread]:
        """The started threads that were not ended."""
        return {name: each for name, each in self.threads.items() if name not in self._ended}

    def tasks(self) -> dict[str, list[str]]:
        return {
            name: [str(task) for task in running.stream.running]
            for name, running in self.threads.items()
        }

    def close(self, timeout_s: float = CLOSE_S) -> None:
        """Commit and leave with all threads; kills them after the timeout."""
        self.is_closing = True
        for running in self.threads.values():
            running.stream.close()
        for running in self.threads.values():
            if not running.join(timeout_s):
                running.kill()

    def kill(self) -> None:
        for running in self.threads.values():
            running.kill()
