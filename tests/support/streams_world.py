"""Threads of Streams on brokers of a bench: no sockets, no clock.

    made = StreamsWorld(word_count("text", "counts"), {"text": 2, "counts": 2})
    made.send("text", b"a line of words")
    thread = made.start("a")                      # a thread of the instance a
    made.run(5_000)
    made.newest("counts")                         # {b"a": b"1", …}
    made.kill(thread)

The topics are there, also the internal ones.
"""

import base64
from collections import Counter
from typing import Any

from brokertwin.clients.client_loop import ClientLoop
from brokertwin.clients.messages import ProducerRecord, size_of
from brokertwin.clients.producer_client import ProducerClient
from brokertwin.clients.streams.layout import TaskId, layout
from brokertwin.clients.streams.stream_thread import StreamThread, ThreadState
from brokertwin.clients.streams.streams_config import Guarantee, StreamsConfig
from brokertwin.clients.streams.streams_protocol import HostInfo
from brokertwin.clients.streams.topology import Topology
from brokertwin.clients.timeline import Timeline
from brokertwin.protocol.errors import Error
from tests.support.bench_network import STEP_MS, BenchNetwork, World, records_of

APPLICATION = "app"
SESSION_MS, HEARTBEAT_MS, POLL_INTERVAL_MS = 6_000, 1_000, 9_000
TRANSACTION_MS = 4_000
EVERYTHING_BYTES = 1 << 26


class StreamsWorld:
    """One application, with what feeds it.

    Attributes:
        threads: those that live, by name, as `a-1`: the first thread of the instance a.
        timeline: who ran which task, and when.
        errors: why threads ended that were not asked to.
    """

    def __init__(
        self,
        topology: Topology,
        counts: dict[str, int],
        *,
        exactly_once: bool = False,
        brokers: tuple[int, ...] = (1,),
        **config: Any,
    ) -> None:
        self.world = World(
            brokers,
            transaction_state_log_num_partitions=1,
            transaction_abort_timed_out_transaction_cleanup_interval_ms=500,
        )
        self.topology = topology
        self.counts = dict(counts)
        self.layout = layout(APPLICATION, topology, counts)
        for topic in self.layout.internal_topics.values():
            self.counts[topic.name] = topic.partitions
        for name, count in self.counts.items():
            self.world.bench.topic(name, count)
        guarantee = Guarantee.EXACTLY_ONCE_V2 if exactly_once else Guarantee.AT_LEAST_ONCE
        self.config = StreamsConfig(
            **{
                "application_id": APPLICATION,
                "processing_guarantee": guarantee,
                "commit_interval_ms": 300,
                "session_timeout_ms": SESSION_MS,
                "heartbeat_interval_ms": HEARTBEAT_MS,
                "max_poll_interval_ms": POLL_INTERVAL_MS,
                "transaction_timeout_ms": TRANSACTION_MS,
                "fetch_max_wait_ms": 200,
                **config,
            }
        )
        self.messages: dict[int, ProducerRecord] = {}
        self.feeder = self.world.producer(self.messages)
        self.threads: dict[str, StreamThread] = {}
        self.timeline = Timeline(self.world.now)
        self.errors: dict[str, str] = {}
        self._clients: dict[str, list[ClientLoop]] = {}
        self._started: Counter[str] = Counter()

    @property
    def now(self) -> int:
        return self.world.now

    def start(self, instance: str, end_point: HostInfo | None = None) -> str:
        """One more thread of an instance; its name."""
        self._started[instance] += 1
        number = self._started[instance]
        process_id = base64.urlsafe_b64encode(instance.encode().ljust(16)).decode().rstrip("=")
        name = f"{instance}-{number}"
        self.threads[name] = StreamThread(
            self.config,
            self.topology,
            process_id,
            number,
            self.world.draw(),
            end_point=end_point,
        )
        self._clients[name] = []
        self._adopt(name)
        return name

    def _adopt(self, name: str) -> None:
        """Drive a thread's clients; skip one that it no longer has."""
        had, clients = self._clients[name], self.threads[name].clients
        for client in clients:
            if client not in had:
                is_producer = isinstance(client, ProducerClient)
                self.world.added(client, self.threads[name].messages if is_producer else None)
                self.world.stalled.add(client)
        for client in had:
            if client not in clients:
                self.world.remove(client)
        self._clients[name] = clients

    def kill(self, name: str) -> StreamThread:
        """Crash a thread without a message to the group."""
        thread = self.threads.pop(name)
        for client in self._clients.pop(name):
            self.world.remove(client)
        self.timeline.gone(self.now, name)
        return thread

    def pause(self, name: str) -> StreamThread:
        """A thread stops where it is; its connections stand."""
        thread = self.threads.pop(name)
        for client in self._clients[name]:
            self.world.remove(client)
        return thread

    def go_on(self, name: str, thread: StreamThread) -> None:
        self.threads[name] = thread
        for client in self._clients[name]:
            self.world.back(client)

    def networks(self, name: str) -> list[BenchNetwork]:
        return [self.world.networks[client] for client in self.threads[name].clients]

    def turn(self, milliseconds: int = STEP_MS) -> None:
        for name, thread in list(self.threads.items()):
            thread.work(self.now)
            self._adopt(name)
            self.timeline.note(self.now, name, [str(task) for task in thread.running])
            if thread.state is ThreadState.DEAD:
                self.kill(name)
                self.errors |= {name: thread.error} if thread.error is not None else {}
        for event in self.feeder.events():
            self.messages.pop(event.record_id, None)
        self.world.turn(milliseconds)

    def run(self, milliseconds: int) -> None:
        until = self.now + milliseconds
        while self.now < until:
            self.turn()

    def run_until(self, is_done: Any, milliseconds: int = 60_000) -> int:
        """Until something holds; how long that took in ms."""
        began = self.now
        while not is_done():
            assert self.now - began < milliseconds, f"not within {milliseconds} ms"
            self.turn()
        return self.now - began

    def send(self, topic: str, value: bytes | None, key: bytes | None = None) -> None:
        """A record by the partition of its key, or to the next one."""
        message = ProducerRecord(key, value, self.now)
        for _ in range(100):
            record_id = self.feeder.offer(
                self.now, topic, key, size_of(message), timestamp=self.now
            )
            if record_id is not None:
                self.messages[record_id] = message
                return
            self.turn()
        raise AssertionError(f"no partition of {topic} is known")

    def tasks(self) -> dict[str, list[TaskId]]:
        return {name: thread.running for name, thread in self.threads.items()}

    def all_run(self) -> bool:
        return sorted(t for got in self.tasks().values() for t in got) == sorted(self.layout.tasks)

    def read(self, topic: str) -> list[ProducerRecord]:
        """Return the committed records of a topic by partition."""
        records: list[ProducerRecord] = []
        for partition in range(self.counts[topic]):
            part = {
                "partition": partition,
                "fetchOffset": 0,
                "partitionMaxBytes": EVERYTHING_BYTES,
            }
            body = {
                "maxBytes": EVERYTHING_BYTES,
                "isolationLevel": 1,
                "topics": [{"topic": topic, "partitions": [part]}],
            }
            for broker in self.world.bench.settings.brokers:
                response = self.world.bench.request("FETCH", 11, body, broker=broker)
                result = response["responses"][0]["partitions"][0]
                if result["errorCode"] == Error.NONE and result["batches"]:
                    records += [m for _, m in records_of(result, self.world.contents).items]
        return records

    def newest(self, topic: str) -> dict[bytes | None, bytes | None]:
        return {message.key: message.value for message in self.read(topic)}
