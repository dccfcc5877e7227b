"""The seed's figures, drawn from runs: the pages and `figures.md` show the same."""

from brokertwin.clients.backoff import constant_backoff
from brokertwin.clients.client_loop import Action, Connected, NetworkEvent, ResponseReceived, Send
from brokertwin.clients.consumer_client import ConsumerClient
from brokertwin.clients.driver import ClientDriver
from brokertwin.clients.era import Era
from brokertwin.clients.metadata import MetadataSettings
from brokertwin.clients.network import Connect
from brokertwin.clients.producer_client import ProducerClient
from brokertwin.clients.producer_config import ProducerConfig
from brokertwin.clients.timeline import Timeline
from tests.support.bench_network import FIRST_PORT, BenchNetwork, World
from tests.support.connect_world import GROUP, ConnectWorld
from tests.support.figures import FIGURES, PAGES, figure
from tests.support.machine import Bench
from tests.support.streams_world import StreamsWorld
from tests.support.topologies import copying

TOPIC = "test"
STEP_MS, CONNECT_MS, RESPONSE_MS = 10, 120, 180
WAITS, LINGERS = "1 send waits", "6 batch waits"
REQUESTED = {"METADATA": "3 Metadata", "PRODUCE": "9 Produce"}
CONNECTS = {-1: "2 connects to -1", 0: "7 connects to 0"}


class SlowNetwork:
    """A network with slow connections and responses; records requests in flight."""

    def __init__(self, bench: Bench, timeline: Timeline) -> None:
        self._bench = bench
        self._fast = BenchNetwork(bench, "seed", {})
        self._timeline = timeline
        self._under_way: dict[int, str] = {}
        self._connecting: set[str] = set()
        self._due: list[tuple[int, NetworkEvent]] = []
        self.requested: list[str] = []

    def do(self, action: Action) -> None:
        match action:
            case Connect(node):
                self._connecting.add(CONNECTS[node.id])
            case Send():
                self.requested.append(action.api)
                if action.api in REQUESTED:
                    self._under_way[action.request_id] = REQUESTED[action.api]
        self._fast.do(action)
        self._note()

    def wait(self, timeout_ms: int) -> list[NetworkEvent]:
        now = self._bench.now
        for event in self._fast.wait(timeout_ms):
            takes_ms = RESPONSE_MS
            if isinstance(event, Connected):
                takes_ms = CONNECT_MS
            elif isinstance(event, ResponseReceived) and event.request_id not in self._under_way:
                takes_ms = 0  # ApiVersions: the seed's clients do not ask
            self._due.append((now + takes_ms, event))
        come = [event for due, event in self._due if due <= now]
        self._due = [each for each in self._due if each[0] > now]
        for event in come:
            if isinstance(event, Connected):
                self._connecting.discard(CONNECTS[event.node])
            elif isinstance(event, ResponseReceived):
                self._under_way.pop(event.request_id, None)
        self._note()
        return come

    def _note(self) -> None:
        self._timeline.note(
            self._bench.now, "sender", [*self._connecting, *self._under_way.values()]
        )


class TwoMessages:
    """An application that sends two messages, a second after one another."""

    def __init__(self) -> None:
        self.bench = Bench(brokers=(0,))
        self.bench.topic(TOPIC, 3)
        self.timeline = Timeline(self.bench.now)
        self.timeline.note(self.bench.now, "application", [])
        self.network = SlowNetwork(self.bench, self.timeline)
        rules = MetadataSettings(refresh_backoff=constant_backoff(), era=Era.KAFKA_0_10)
        config = ProducerConfig(linger_ms=0, acks="1", enable_idempotence=False)
        self.client = ProducerClient(config, lambda: 0.5, metadata=rules)
        self.client.metadata.bootstrap([("localhost", FIRST_PORT)], self.bench.now)
        self._driver = ClientDriver(self.client, self.network, lambda: self.bench.now)

    def wait(self, milliseconds: int) -> None:
        until = self.bench.now + milliseconds
        while self.bench.now < until:
            self._step()

    def send(self) -> int:
        """How long the application has waited, in ms."""
        began = self.bench.now
        while self.client.offer(self.bench.now, TOPIC, None, 36) is None:
            self._step([WAITS])
        self.timeline.note(self.bench.now, "application", [])
        return self.bench.now - began

    def _step(self, application: list[str] | None = None) -> None:
        lingers = [] if self.client.producer.is_idle else [LINGERS]
        is_sent = "9 Produce" in self.timeline.owned().get("sender", [])
        waits = application or ([] if is_sent else lingers)
        self.timeline.note(self.bench.now, "application", waits)
        self._driver.turn(0)
        self.bench.tick(STEP_MS)


def test_figure_1_only_the_first_message_waits_for_metadata() -> None:
    made = TwoMessages()
    made.wait(200)
    first = made.send()
    made.wait(1_000)
    second = made.send()
    made.wait(400)
    events = made.client.events()
    shaking_hands_ms = 2 * STEP_MS
    assert (first, second) == (CONNECT_MS + shaking_hands_ms + RESPONSE_MS + STEP_MS, 0)
    assert [type(event).__name__ for event in events] == ["RecordAcked", "RecordAcked"]
    assert made.network.requested == [
        "API_VERSIONS",
        "METADATA",
        "API_VERSIONS",
        "PRODUCE",
        "PRODUCE",
    ]
    drawn = made.timeline.picture(made.bench.now, 66)
    assert drawn == figure(FIGURES, "Two messages")


def test_figure_3_consumers_and_workers_are_members_of_groups_at_one_coordinator() -> None:
    made = ConnectWorld()
    made.world.bench.topic("orders", 2)
    made.submit("sink", 2)
    consumers: dict[str, ConsumerClient] = {}

    def run(milliseconds: int) -> None:
        until = made.now + milliseconds
        while made.now < until:
            made.turn(50)
            for name, member in consumers.items():
                owned = [f"{at.topic}-{at.partition}" for at in member.subscription.assigned]
                made.timeline.note(made.now, name, owned)

    for number in (1, 2):
        consumers[f"consumer {number}"] = made.world.consumer("billing", "orders")
        made.start()
        run(6_000)
    run(3_000)
    described = made.world.bench.request(
        "DESCRIBE_GROUPS", 5, groups=["billing", GROUP], broker=coordinator_of(made.world)
    )
    reported = {
        group["groupId"]: (group["protocolType"], group["protocolData"], len(group["members"]))
        for group in described["groups"]
    }
    assert reported == {"billing": ("consumer", "range", 2), GROUP: ("connect", "sessioned", 2)}
    assert made.timeline.picture(made.now) == figure(FIGURES, "Consumers and workers")


def coordinator_of(world: World) -> int:
    request = {"keyType": 0, "coordinatorKeys": [GROUP, "billing"]}
    response = world.bench.request("FIND_COORDINATOR", 6, request)
    (broker,) = {each["nodeId"] for each in response["coordinators"]}
    return int(broker)


def test_figure_6_a_dead_consumers_partition_moves_to_the_other() -> None:
    world = World()
    world.bench.topic("orders", 2)
    timeline = Timeline(world.now)
    members = {
        f"consumer {number}": world.consumer("g", "orders", session_timeout_ms=6_000)
        for number in (1, 2)
    }

    def run(milliseconds: int) -> None:
        until = world.now + milliseconds
        while world.now < until:
            for name, member in members.items():
                owned = [f"{at.topic}-{at.partition}" for at in member.subscription.assigned]
                timeline.note(world.now, name, owned)
            world.turn()

    run(5_000)
    assert all(len(member.subscription.assigned) == 1 for member in members.values())
    world.remove(members.pop("consumer 2"))
    timeline.gone(world.now, "consumer 2")
    run(10_000)
    (left,) = members.values()
    assert len(left.subscription.assigned) == 2
    assert timeline.twice() == []
    assert timeline.picture(world.now) == figure(PAGES / "clients.md", "killed after five seconds")


def shared_and_killed(made: StreamsWorld, threads: int, runs_ms: int) -> list[str]:
    """Threads of one process share the tasks for a time, the second dies; the picture of all."""
    for _ in range(threads):
        made.start("a")
    made.run_until(made.all_run)
    made.run(runs_ms)
    made.kill("a-2")
    made.run_until(made.all_run)
    made.run(2_000)
    assert made.timeline.twice() == []
    return made.timeline.picture(made.now)


def test_figures_4_and_6_six_tasks_on_three_threads_and_one_dies() -> None:
    made = StreamsWorld(copying("t"), {"t": 6, "out": 1})
    drawn = shared_and_killed(made, threads=3, runs_ms=6_500)
    assert drawn == figure(PAGES / "streams.md", "Six tasks on three threads")


def test_figure_4_threads_are_added_and_removed_while_the_others_run() -> None:
    made = StreamsWorld(copying("t"), {"t": 6, "out": 1})

    def counts() -> list[int]:
        return sorted(len(tasks) for tasks in made.tasks().values())

    for expected in ([6], [3, 3], [2, 2, 2]):
        made.start("a")
        made.run_until(lambda wanted=expected: made.all_run() and counts() == wanted)
    made.threads["a-2"].close()
    made.run_until(lambda: made.all_run() and counts() == [3, 3])
    assert sorted(made.tasks()) == ["a-1", "a-3"]
    assert made.timeline.twice() == []
    assert made.errors == {}


def test_figures_5_to_6_one_of_two_threads_with_two_topics_dies() -> None:
    made = StreamsWorld(copying("t1", "t2"), {"t1": 2, "t2": 2, "out": 1})
    drawn = shared_and_killed(made, threads=2, runs_ms=3_000)
    assert drawn == figure(FIGURES, "One of two threads")
