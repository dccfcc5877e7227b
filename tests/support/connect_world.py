"""Connect's workers on a bench's brokers: they crash, pause, leave and come back.

world = ConnectWorld()
world.submit("source", tasks=2)
world.crash(world.start())
world.settle()
assert world.violations == []

Work is simulated: the starts and ends of a worker are noted. An end takes some turns.
"""

from collections import Counter
from functools import partial

from brokertwin.clients.connect.config_log import ConfigLog, Record, connector_record
from brokertwin.clients.connect.file_stream import ConnectorKind
from brokertwin.clients.connect.herder import Fail, Herder, StartWork, StopWork, WriteConfigs
from brokertwin.clients.connect.work import ConnectTaskId
from brokertwin.clients.connect.worker_config import WorkerConfig
from brokertwin.clients.connect.worker_coordinator import WorkerCoordinator
from brokertwin.clients.partitions import TopicPartition
from brokertwin.clients.timeline import Timeline
from tests.support.bench_network import World

GROUP, CONFIGS = "connect-cluster", "connect-configs"
BROKERS = (1, 2)
SESSION_MS, REBALANCE_MS, HEARTBEAT_MS, DELAY_MS = 6_000, 9_000, 1_000, 4_000
STEP_MS = 200
SETTLED_MS = SESSION_MS + 4 * REBALANCE_MS + 2 * DELAY_MS


class Worker:
    """A worker and its actions."""

    def __init__(self, play: "ConnectWorld", name: str) -> None:
        self.name = name
        self.log = ConfigLog()
        settings = WorkerConfig(
            group_id=GROUP,
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=HEARTBEAT_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            scheduled_rebalance_max_delay_ms=DELAY_MS,
        )
        made = partial(WorkerCoordinator, settings, f"http://{name}")
        self.client = play.world.log_client(frozenset([CONFIGS]), coordinator=made)
        coordinator = self.client.coordinator
        assert isinstance(coordinator, WorkerCoordinator)
        self.coordinator = coordinator
        self.herder = Herder(coordinator, self.log)
        self.failures: list[str] = []
        self._play = play
        self._ending: dict[ConnectTaskId, int] = {}
        self._seen = 0

    def turn(self) -> None:
        read = self._play.world.read[self.client][self._seen :]
        self._seen += len(read)
        for _, offset, record_id in read:
            self.log.take(offset, *self._play.contents[record_id])
        self.coordinator.known = self.log.known
        self.coordinator.is_ready |= self.client.is_at_end
        for item in [item for item, until in self._ending.items() if until <= self._play.now]:
            del self._ending[item]
            self.herder.stopped(item)
        for command in self.herder.tick():
            match command:
                case StopWork(item):
                    self._ending[item] = self._play.now + self._play.stop_ms
                case WriteConfigs(records):
                    self._play.write(records)
                case Fail(_, reason):
                    self.failures.append(reason)
                case StartWork():
                    self._play.moves += 1

    @property
    def running(self) -> set[ConnectTaskId]:
        return set(self.herder.running)


class ConnectWorld:
    """Events, and violations of the invariants."""

    def __init__(self) -> None:
        self.world = World(brokers=BROKERS)
        self.world.bench.topic(CONFIGS, 1)
        self.writer = self.world.producer()
        self.contents: dict[str, Record] = {}
        self.workers: list[Worker] = []
        self.paused: set[Worker] = set()
        self.violations: list[str] = []
        self.moves = 0
        self.wanted: dict[str, int] = {}
        self.timeline = Timeline(self.world.now)
        self.stop_ms = 0
        self._started = 0

    @property
    def now(self) -> int:
        return self.world.now

    def submit(self, name: str, tasks: int) -> None:
        self.wanted[name] = tasks
        config = {
            "name": name,
            "connector.class": ConnectorKind.SINK,
            "tasks.max": str(tasks),
            "topics": "orders",
            "file": "copy",
        }
        self.write([connector_record(name, {key: str(value) for key, value in config.items()})])

    def write(self, records: list[Record]) -> None:
        for record in records:
            record_id = self.writer.send(self.now, TopicPartition(CONFIGS, 0), 100)
            self.contents[str(record_id)] = record

    def start(self) -> Worker:
        self._started += 1
        self.workers.append(Worker(self, f"w{self._started}"))
        return self.workers[-1]

    def crash(self, worker: Worker) -> None:
        self.workers.remove(worker)
        self.timeline.gone(self.now, worker.name)
        if worker in self.paused:
            self.paused.discard(worker)
        else:
            self.world.remove(worker.client)

    def pause(self, worker: Worker) -> None:
        """It stops for a while; or it goes on."""
        if worker in self.paused:
            self.world.back(worker.client)
        else:
            self.world.remove(worker.client)
        self.paused ^= {worker}

    def leave(self, worker: Worker) -> None:
        if worker in self.paused:
            self.pause(worker)
        for item in list(worker.herder.running):
            worker.herder.stopped(item)
        worker.client.close(self.now)
        for _ in range(3):
            self.world.turn(1)
        self.crash(worker)

    def wait(self, milliseconds: int) -> None:
        until = self.now + milliseconds
        while self.now < until:
            self.turn(min(STEP_MS, until - self.now))

    def turn(self, milliseconds: int) -> None:
        self.world.turn(milliseconds)
        self.writer.events()
        for worker in self.workers:
            if worker not in self.paused:
                worker.turn()
            self.timeline.note(self.now, worker.name, [str(item) for item in worker.running])
        self._check()

    def _check(self) -> None:
        """Check that no two workers known to the coordinator run the same work."""
        here = self._members_of_group()
        owners: Counter[ConnectTaskId] = Counter()
        for worker in self.workers:
            if worker.coordinator.generation.member_id in here:
                owners.update(worker.running)
            if worker.coordinator.fatal is not None:
                self.violations.append(f"{worker.name} ended with {worker.coordinator.fatal}")
        self.violations += [
            f"{item} runs {count} times at {self.now}"
            for item, count in owners.items()
            if count > 1
        ]

    def _members_of_group(self) -> set[str]:
        """As its coordinator says; the other broker is none (16), and at first both are."""
        send, body = self.world.bench.request, {"groups": [GROUP]}
        responses = [send("DESCRIBE_GROUPS", 5, body, broker=broker) for broker in BROKERS]
        found = [
            each for response in responses for each in response["groups"] if not each["errorCode"]
        ]
        return {member["memberId"] for group in found for member in group["members"]}

    def settle(self) -> int:
        """Until all work is run, once; how long that took, in ms."""
        for worker in list(self.paused):
            self.pause(worker)
        if not self.workers:
            self.start()
        began = self.now
        while not (self.is_at_rest and self._are_counted):
            self.turn(STEP_MS)
            if self.now - began > SETTLED_MS:
                found = {w.name: sorted(map(str, w.running)) for w in self.workers}
                self.violations.append(f"not all of {self.wanted} is run: {found}")
                break
        return self.now - began

    @property
    def _are_counted(self) -> bool:
        """Return whether the coordinator knows all workers, so that their work is checked."""
        ids = {worker.coordinator.generation.member_id for worker in self.workers}
        return ids == self._members_of_group()

    @property
    def is_at_rest(self) -> bool:
        """Whether all that is configured is run once, with as many tasks as it is to have."""
        running = [item for worker in self.workers for item in worker.running]
        wanted = {ConnectTaskId(name) for name in self.wanted} | {
            ConnectTaskId(name, at) for name, tasks in self.wanted.items() for at in range(tasks)
        }
        return len(running) == len(set(running)) and set(running) == wanted
