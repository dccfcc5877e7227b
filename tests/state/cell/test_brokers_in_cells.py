"""Brokers that stop, or are cut off, where a cluster is several cells: as where it is one."""

from typing import Any

import msgspec
import pytest

from brokertwin.state.cell import overview
from brokertwin.state.cluster import topics
from brokertwin.state.core.events import BETWEEN_CELLS, Reason
from brokertwin.state.core.outputs import BROKER_CHANGES, RESPONSES
from brokertwin.state.core.settings import BrokerSettings, CellSettings
from brokertwin.state.replication import registrations
from tests.support.cells import Cells, Repeat, Row, handle_in_both, kind_of, split
from tests.support.machine import header as batch_header
from tests.support.machine import produce_body
from tests.support.replicas import FEATURES

BROKERS = [1, 2, 3]
LAG_TIME_MS = 10_000
SESSION_MS = 9000
WITH_9 = [[9, 1], [9, 3], [2, 9], [3, 9]]
SETTINGS = CellSettings(
    name="c",
    cluster="c",
    brokers=BROKERS,
    event_time="recorded",
    may_intervene=True,
    responses_partitions=2,
    broker_settings=BrokerSettings(replica_lag_time_max_ms=LAG_TIME_MS),
)
START = 1_700_000_000_000
WHO = {
    "brokerId": 2,
    "clusterId": topics.derive_uuid("cluster", "c"),
    "incarnationId": "incarnationincarnation",
    "logDirs": ["dirdirdirdirdirdirdird"],
    "features": FEATURES,
}
"""A process that registers by a request."""

ASSIGNMENTS = {0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]}


def some_again(topic: list[Row]) -> list[Row]:
    reported = [row for row in topic if kind_of(row) in BETWEEN_CELLS]
    return [reported[-1], reported[len(reported) // 2]] if reported else []


class Clusters:
    """One history for a cluster of a single cell, and for one of several."""

    def __init__(
        self, cells: int, repeat: Repeat | None, settings: CellSettings = SETTINGS
    ) -> None:
        self.one = Cells(settings, {})
        self.many = Cells(settings, split(BROKERS, cells), repeat)
        self._count = 0
        self.now = START
        assignments = [{"partitionIndex": n, "brokerIds": ids} for n, ids in ASSIGNMENTS.items()]
        topic = {"name": "orders", "assignments": assignments, "numPartitions": -1}
        topic["configs"] = [{"name": "min.insync.replicas", "value": "2"}]
        body = {"topics": [{**topic, "replicationFactor": -1}], "timeoutMs": 30_000}
        self.request(1, 19, 7, body)

    def request(self, broker: int, key: int, version: int, body: dict[str, Any]) -> str:
        header = {"requestApiKey": key, "requestApiVersion": version, "clientId": "test"}
        return self._tell({"broker": broker, "requestHeader": header, "request": body})

    def do(self, verb: str, broker: int) -> str:
        return self._tell({"broker": broker, "kind": f"{verb}-broker"})

    def produce(self, broker: int, partition: int, timeout_ms: int = 30_000) -> str:
        fields = {"partition": partition, "timeoutMs": timeout_ms}
        body = produce_body("orders", batch_header(), **fields)
        return self.request(broker, 0, 9, body)

    def response(self, event_id: str) -> int | None:
        """The error of a Produce, None where there is no response."""
        response = self.many.responses.get(event_id)
        if response is None or response["response"] is None:
            return None
        return int(response["response"]["responses"][0]["partitionResponses"][0]["errorCode"])

    def found(self, event_id: str, name: str) -> dict[str, Any]:
        """The only item of a list in a response."""
        (item,) = self.many.responses[event_id]["response"][name]
        return dict(item)

    def partition(self, number: int) -> dict[str, Any]:
        tables = [cell.tables for cell in self.many.cells.values()]
        return overview.partitions(tables)[number]

    def states(self) -> list[str]:
        tables = [cell.tables for cell in self.many.cells.values()]
        return [row["state"] for row in overview.brokers(tables, BROKERS)]

    def pass_time(self, milliseconds: int) -> None:
        self.now += milliseconds
        is_there = [state not in (overview.STOPPED, overview.STARTING) for state in self.states()]
        self.request(BROKERS[is_there.index(True)], 18, 0, {})

    def _tell(self, event: dict[str, Any]) -> str:
        self._count += 1
        event_id = f"e{self._count}"
        frame = {"id": event_id, "cluster": "c", "time": self.now, "nonce": event_id}
        handle_in_both(msgspec.json.encode({**frame, **event}), self.one, self.many)
        assert self.many.responses == self.one.responses
        assert self.many.durable() == self.one.durable()
        return event_id


@pytest.fixture(params=[(2, None), (3, None), (3, some_again)], ids=["two", "three", "repeats"])
def clusters(request: pytest.FixtureRequest) -> Clusters:
    return Clusters(*request.param)


@pytest.mark.parametrize("broker", BROKERS)
def test_broker_stops_and_starts(clusters: Clusters, broker: int) -> None:
    led = broker - 1
    clusters.produce(broker, led)
    clusters.do("stop", broker)
    assert clusters.states()[led] == overview.STOPPED
    partition = clusters.partition(led)
    leader = partition["leader"]
    assert leader not in (broker, -1)
    assert broker not in partition["isr"]
    assert clusters.response(clusters.produce(leader, led)) == 0
    clusters.do("start", broker)
    partition = clusters.partition(led)
    assert (partition["leader"], sorted(partition["isr"]), partition["lag"]) == (leader, BROKERS, 0)
    assert clusters.response(clusters.produce(leader, led)) == 0
    assert clusters.partition(led)["highWatermark"] == 3
    assert clusters.many.dead_letters() == []


def test_rolling_restart_loses_nothing(clusters: Clusters) -> None:
    for broker in BROKERS:
        clusters.do("stop", broker)
        for number in ASSIGNMENTS:
            leader = clusters.partition(number)["leader"]
            assert clusters.response(clusters.produce(leader, number)) == 0
        clusters.do("start", broker)
    for number in ASSIGNMENTS:
        partition = clusters.partition(number)
        assert [row["logEndOffset"] for row in partition["logs"]] == [3, 3, 3]
        assert sorted(partition["isr"]) == BROKERS


@pytest.mark.parametrize("broker", BROKERS)
def test_cut_off_follower_leaves_and_rejoins_the_isr(clusters: Clusters, broker: int) -> None:
    led = broker % len(BROKERS)
    leader = ASSIGNMENTS[led][0]
    clusters.do("isolate", broker)
    waits = clusters.produce(leader, led)
    assert clusters.response(waits) is None
    clusters.pass_time(2 * LAG_TIME_MS)
    assert clusters.response(waits) == 0
    assert broker not in clusters.partition(led)["isr"]
    clusters.do("rejoin", broker)
    partition = clusters.partition(led)
    assert (sorted(partition["isr"]), partition["lag"]) == (BROKERS, 0)


def test_follower_leaves_at_the_same_time_with_any_number_of_cells(
    clusters: Clusters,
) -> None:
    """A leader with followers in other cells has looked at them before one was cut off."""
    clusters.produce(1, 0)
    clusters.pass_time(LAG_TIME_MS * 3 // 10)
    clusters.do("isolate", 2)
    clusters.produce(1, 0)
    for _ in range(2 * LAG_TIME_MS // 1000):
        clusters.pass_time(1000)
    assert sorted(clusters.partition(0)["isr"]) == [1, 3]


@pytest.mark.parametrize("broker", BROKERS)
def test_cut_off_leader_is_reached_after_it_rejoins(clusters: Clusters, broker: int) -> None:
    led = broker - 1
    clusters.do("isolate", broker)
    waits = clusters.produce(broker, led, timeout_ms=LAG_TIME_MS * 3)
    clusters.pass_time(LAG_TIME_MS // 2)
    assert clusters.response(waits) is None
    clusters.do("rejoin", broker)
    assert clusters.response(waits) == 0
    assert clusters.partition(led)["lag"] == 0


@pytest.mark.parametrize("broker", BROKERS)
@pytest.mark.parametrize("verb", ["kill", "sever"])
def test_killed_broker_is_fenced_after_its_session(
    clusters: Clusters, verb: str, broker: int
) -> None:
    led = broker - 1
    clusters.do(verb, broker)
    clusters.pass_time(SESSION_MS)
    assert clusters.partition(led)["leader"] == broker
    clusters.pass_time(1)
    leader = clusters.partition(led)["leader"]
    assert leader not in (broker, -1)
    assert clusters.response(clusters.produce(leader, led)) == 0
    if verb == "sever":
        clusters.produce(broker, led)
    clusters.do("start" if verb == "kill" else "rejoin", broker)
    partition = clusters.partition(led)
    assert (partition["leader"], sorted(partition["isr"]), partition["lag"]) == (leader, BROKERS, 0)
    assert partition["highWatermark"] == 1
    assert clusters.states() == [overview.RUNNING] * 3
    assert clusters.many.dead_letters() == []


@pytest.mark.parametrize("broker", BROKERS)
def test_broker_starts_after_the_former_session(clusters: Clusters, broker: int) -> None:
    clusters.do("kill", broker)
    clusters.do("start", broker)
    assert clusters.states()[broker - 1] == overview.STARTING
    clusters.pass_time(SESSION_MS + 1)
    assert clusters.states() == [overview.RUNNING] * 3
    for number in ASSIGNMENTS:
        assert sorted(clusters.partition(number)["isr"]) == BROKERS


@pytest.mark.parametrize("broker", [2, 3])
def test_new_process_needs_no_heartbeats(clusters: Clusters, broker: int) -> None:
    """The one before has registered by a request."""
    beat = {"brokerId": broker, "brokerEpoch": 0, "currentMetadataOffset": 1000}
    clusters.request(1, 63, 1, {**beat, "wantFence": True})
    clusters.request(1, 62, 4, {**WHO, "brokerId": broker})
    clusters.request(1, 63, 1, {**beat, "brokerEpoch": 1})
    clusters.do("stop", broker)
    clusters.do("start", broker)
    clusters.pass_time(SESSION_MS + 1)
    for number in ASSIGNMENTS:
        assert sorted(clusters.partition(number)["isr"]) == BROKERS


def test_unserved_broker_can_register(clusters: Clusters) -> None:
    clusters.request(2, 62, 4, {**WHO, "brokerId": 9})
    clusters.request(3, 63, 1, {"brokerId": 9, "brokerEpoch": 1, "currentMetadataOffset": 1000})
    assignments = [{"partitionIndex": n, "brokerIds": ids} for n, ids in enumerate(WITH_9)]
    topic = {"name": "other", "assignments": assignments, "numPartitions": -1}
    body = {"topics": [{**topic, "replicationFactor": -1}], "timeoutMs": 30_000}
    created = clusters.request(1, 19, 7, body)
    assert clusters.found(created, "topics")["errorCode"] == 0

    def leaders() -> list[int]:
        tables = [cell.tables for cell in clusters.many.cells.values()]
        rows = overview.partitions(tables)
        return [row["leader"] for row in rows if row["topic"] == "other"]

    assert leaders() == [9, 9, 2, 3]
    clusters.pass_time(SESSION_MS + 1)
    assert leaders() == [1, 3, 2, 3]


@pytest.mark.parametrize("broker", BROKERS)
def test_requests_of_a_severed_broker_arrive_later(clusters: Clusters, broker: int) -> None:
    led = broker - 1
    clusters.do("sever", broker)
    waits = clusters.produce(broker, led)
    clusters.pass_time(SESSION_MS)
    clusters.do("rejoin", broker)
    clusters.pass_time(SESSION_MS)
    assert clusters.response(waits) == 0
    assert clusters.partition(led)["leader"] == broker
    assert sorted(clusters.partition(led)["isr"]) == BROKERS


def test_isr_change_of_a_severed_leader_does_not_reach_the_controller() -> None:
    """The leader is in another cell and notices missing fetches before its session ends."""
    patient = msgspec.structs.replace(
        SETTINGS, broker_settings=BrokerSettings(replica_lag_time_max_ms=SESSION_MS // 3)
    )
    clusters = Clusters(2, None, patient)
    clusters.do("sever", 2)
    clusters.produce(2, 1)
    for _ in range(2):
        clusters.pass_time(SESSION_MS // 3 + 1)
    assert sorted(clusters.partition(1)["isr"]) == BROKERS
    clusters.pass_time(SESSION_MS)
    assert sorted(clusters.partition(1)["isr"]) == [1, 3]


def test_cut_off_follower_counts_as_caught_up_until_then(clusters: Clusters) -> None:
    """Not until its leader, in another cell, appends: that may be much later."""
    clusters.produce(1, 0)
    clusters.do("isolate", 2)
    clusters.pass_time(LAG_TIME_MS * 7 // 10)
    waits = clusters.produce(1, 0)
    clusters.pass_time(LAG_TIME_MS - 1000)
    assert clusters.response(waits) == 0
    assert sorted(clusters.partition(0)["isr"]) == [1, 3]


def test_restarted_follower_gets_the_high_watermark(clusters: Clusters) -> None:
    """Its file has an older one, and nothing was written meanwhile."""
    for _ in range(3):
        clusters.produce(1, 0)
    clusters.do("kill", 2)
    clusters.pass_time(LAG_TIME_MS)
    clusters.do("start", 2)
    watermarks = [row["highWatermark"] for row in clusters.partition(0)["logs"]]
    assert watermarks == [3, 3, 3]


def test_pending_requests_of_a_stopped_broker_get_no_response(clusters: Clusters) -> None:
    clusters.do("isolate", 2)
    waits = clusters.produce(1, 0)
    clusters.do("stop", 1)
    assert clusters.many.responses[waits]["closesConnection"]
    assert clusters.response(waits) is None


def test_broker_change_is_in_every_partition_of_responses(clusters: Clusters) -> None:
    clusters.do("stop", 3)
    reported = [
        (row.partition, msgspec.json.decode(row.value or b""))
        for row in clusters.many.out
        if row.topic == RESPONSES and row.id.startswith("brokers/")
    ]
    change = {"cluster": "c", "broker": 3, "isStopped": True}
    assert reported == [(0, change), (1, change)]


def test_another_cell_takes_over_from_a_stopped_coordinator(clusters: Clusters) -> None:
    """The committed offset is in the log of the one that is elected."""
    find = {"keyType": 0, "coordinatorKeys": ["readers"]}
    for _ in range(2):
        requested = clusters.request(2, 10, 4, find)
    coordinator = clusters.found(requested, "coordinators")["nodeId"]
    offset = {"partitionIndex": 0, "committedOffset": 42}
    topics = [{"name": "orders", "partitions": [offset]}]
    commit = clusters.request(coordinator, 8, 8, {"groupId": "readers", "topics": topics})
    assert clusters.found(commit, "topics")["partitions"][0]["errorCode"] == 0
    clusters.do("stop", coordinator)
    other = coordinator % len(BROKERS) + 1
    coordinator = clusters.found(clusters.request(other, 10, 4, find), "coordinators")["nodeId"]
    groups = [{"groupId": "readers", "topics": None}]
    fetched = clusters.request(coordinator, 9, 8, {"groups": groups})
    (topic,) = clusters.found(fetched, "groups")["topics"]
    assert topic["partitions"][0]["committedOffset"] == 42
    assert clusters.many.dead_letters() == []


class Starting:
    """A cluster of three cells in which broker 2 has stopped; what cells tell waits until `take`.

    Attributes:
        reported: rows that have not been taken yet, the oldest first.
    """

    def __init__(self) -> None:
        self.clusters = Clusters(3, None)
        self.clusters.do("stop", 2)
        self.many = self.clusters.many
        self.reported: list[Row] = []

    def start(self, *verbs: str) -> None:
        for verb in verbs:
            document = self._document(f"b{len(self.many.responses)}", kind=f"{verb}-broker")
            self.reported += self.many.take(("cell-1", document))

    def take(self) -> None:
        self.reported += self.many.take(self.reported.pop(0))

    def fetch_metadata(self) -> Any:
        name = f"m{len(self.many.responses)}"
        header = {"requestApiKey": 3, "requestApiVersion": 9}
        request = self._document(name, requestHeader=header, request={"topics": []})
        self.many.take(("cell-1", request))
        return self.many.responses[name].get("response")

    def state(self) -> str:
        return self.clusters.states()[1]

    def is_started(self) -> bool:
        begins = f"{BROKER_CHANGES}registered/2/"
        return any(each.startswith(begins) for each in self.many.responses)

    def _document(self, name: str, **fields: Any) -> bytes:
        frame = {"id": name, "cluster": "c", "time": self.clusters.now, "nonce": name, "broker": 2}
        return msgspec.json.encode({**frame, **fields})


def test_starting_broker_refuses_requests_until_it_is_registered() -> None:
    starting = Starting()
    starting.start("start", "stop", "start")
    count = 0
    while not starting.is_started():
        assert starting.state() == overview.STARTING
        assert starting.fetch_metadata() is None
        count += 1
        reasons = [each["reason"] for each in starting.many.dead_letters()]
        assert reasons == [Reason.BROKER_STOPPED] * count
        starting.take()
    assert count > 1
    assert starting.state() == overview.RUNNING
    assert len(starting.fetch_metadata()["brokers"]) == 3


def test_foreign_registration_does_not_start_a_broker() -> None:
    starting = Starting()
    starting.clusters.request(1, 62, 4, WHO)
    assert starting.clusters.states()[1] == overview.STOPPED
    starting.start("start")
    assert (starting.state(), starting.is_started()) == (overview.STARTING, False)
    while starting.reported:
        starting.take()
    assert (starting.state(), starting.is_started()) == (overview.RUNNING, True)


def test_start_succeeds_after_an_interrupted_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The controller's cell has not taken the registration before: it has raised there."""
    starting = Starting()
    starting.start("start")
    with monkeypatch.context() as patch:
        patch.setattr(registrations, "restarted", lambda *_: 1 // 0)
        while starting.reported:
            starting.take()
    (letter,) = starting.many.dead_letters()
    assert (letter["reason"], starting.state()) == (Reason.FAULT, overview.STARTING)
    starting.start("stop", "start")
    while starting.reported:
        starting.take()
    assert (starting.state(), starting.is_started()) == (overview.RUNNING, True)
    assert len(starting.fetch_metadata()["brokers"]) == 3
