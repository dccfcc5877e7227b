"""Log directories of brokers: compare responses and elected leaders with a real controller.

Brokers 50 to 52 are not real: they register and send heartbeats, and never fetch.
"""

from pathlib import Path
from typing import Any

import pytest

from brokertwin.protocol.primitives import uuid_of
from brokertwin.state.cluster.image import LOST, MIGRATING, UNASSIGNED
from tests.support.patience import wait_until
from tests.support.real_controllers import Body, Both, real_controller

ONE, TWO, ONLY, NOWHERE = (bytes([50, n] * 8) for n in range(1, 5))
DIRS = {50: [ONE, TWO], 51: [ONLY], 52: [bytes([52, 1] * 8), bytes([52, 2] * 8)]}
PLACES = ([50, 1], [51, 1], [1, 50], [52, 1], [50, 51], [51, 50], [50, 52])
"""The replicas of each partition; the first one is the initial leader."""
PATIENT = {"broker.session.timeout.ms": "600000", "replica.lag.time.max.ms": "600000"}
RESERVED = {
    name: bytes.fromhex("00" * 15 + f"{number:02x}")
    for number, name in enumerate((UNASSIGNED, LOST, MIGRATING))
}


class Directories:
    """Both controllers with their brokers, and a topic."""

    def __init__(self, both: Both) -> None:
        self.both = both
        self.epochs: dict[int, tuple[int, int]] = {}
        for broker, dirs in DIRS.items():
            real, ours = both.registered(broker, 4, {}, dirs)
            assert real["errorCode"] == ours["errorCode"] == 0, (real, ours)
            self.epochs[broker] = real["brokerEpoch"], ours["brokerEpoch"]
            both.unfenced(broker, self.epochs[broker])
        assignments = [{"partitionIndex": n, "brokerIds": b} for n, b in enumerate(PLACES)]
        topic = {"name": "d", "numPartitions": -1, "replicationFactor": -1, "configs": []}
        body: Body = {"topics": [topic | {"assignments": assignments}], "timeoutMs": 5000}
        body["validateOnly"] = False
        made = both.real("CreateTopics", 7, body), both.bench.request("CREATE_TOPICS", 7, body)
        assert [each["topics"][0]["errorCode"] for each in made] == [0, 0]
        self.ids = [each["topics"][0]["topicId"] for each in made]

    def partitions(self, side: int) -> Any:
        request: Body = {"topics": [{"name": "d"}], "includeTopicAuthorizedOperations": False}
        request["allowAutoTopicCreation"] = False
        both = self.both
        responses = (
            both.real("Metadata", 11, request)
            if side == 0
            else both.bench.request("METADATA", 11, request)
        )
        return [
            (
                each["partitionIndex"],
                each["leaderId"],
                each["leaderEpoch"],
                sorted(each["isrNodes"]),
                sorted(each["offlineReplicas"]),
            )
            for each in sorted(
                responses["topics"][0]["partitions"], key=lambda p: p["partitionIndex"]
            )
        ]

    def agree(self, after: object) -> None:
        ours = self.partitions(1)
        try:
            wait_until(lambda: self.partitions(0) == ours, "the metadata have arrived", 10)
        except AssertionError:
            assert (after, self.partitions(0)) == (after, ours)

    def assign(self, broker: int, more: int, reports: list[tuple[bytes, bool, list[int]]]) -> Any:
        """Responses without ids; `more` is added to the epoch, False is an unknown topic."""
        responses = []
        for side in (0, 1):
            dirs: list[Any] = []
            for directory, is_topic, numbers in reports:
                partitions = [{"partitionIndex": each} for each in numbers]
                topic_id = self.ids[side] if is_topic else uuid_of(bytes(15) + b"\x09")
                topic = {"topicId": topic_id, "partitions": partitions}
                dirs.append({"id": uuid_of(directory), "topics": [topic]})
            body: Body = {"brokerId": broker, "directories": dirs}
            body["brokerEpoch"] = self.epochs.get(broker, (7, 7))[side] + more
            responses.append(
                self.both.bench.request("ASSIGN_REPLICAS_TO_DIRS", 0, body)
                if side
                else self.both.controller("AssignReplicasToDirs", 0, body)
            )
        return [
            (
                each["errorCode"],
                [
                    [(p["partitionIndex"], p["errorCode"]) for p in topic["partitions"]]
                    for directory in each["directories"]
                    for topic in directory["topics"]
                ],
            )
            for each in responses
        ]

    def beat(self, broker: int, version: int, offline: list[bytes], more: int = 0) -> Any:
        body: Body = {"brokerId": broker, "currentMetadataOffset": 10**6, "wantFence": False}
        body["wantShutDown"] = False
        body["offlineLogDirs"] = [uuid_of(each) for each in offline]
        real, ours = (body | {"brokerEpoch": e + more} for e in self.epochs.get(broker, (7, 7)))
        responses = (
            self.both.controller("BrokerHeartbeat", version, real),
            self.both.bench.request("BROKER_HEARTBEAT", version, ours),
        )
        return [(each["errorCode"], each["isFenced"], each["shouldShutDown"]) for each in responses]


STEPS: list[tuple[Any, ...]] = [
    ("beat", 50, 1, []),
    ("assign", 50, 1, [(ONE, True, [0])]),
    ("assign", 99, 0, [(ONE, True, [0])]),
    ("assign", 50, 0, []),
    ("assign", 50, 0, [(ONE, True, [])]),
    ("assign", 50, 0, [(ONE, False, [0, 1])]),
    ("assign", 50, 0, [(ONE, True, [0, 9, -1, 1]), (TWO, True, [2, 3])]),
    ("assign", 50, 0, [(ONE, True, [4, 4]), (TWO, True, [5])]),
    ("assign", 51, 0, [(NOWHERE, True, [1])]),
    ("assign", 51, 0, [(ONLY, True, [1, 4, 5])]),
    ("assign", 52, 0, [(NOWHERE, True, [3])]),
    ("beat", 50, 0, [TWO]),
    ("beat", 50, 1, [TWO], 1),
    ("beat", 50, 1, [NOWHERE]),
    ("beat", 50, 1, [TWO]),
    ("beat", 50, 1, [TWO]),
    ("assign", 50, 0, [(TWO, True, [0])]),
    ("assign", 50, 0, [(ONE, True, [0, 2])]),
    ("assign", 50, 0, [(RESERVED[LOST], True, [4])]),
    ("assign", 50, 0, [(RESERVED[UNASSIGNED], True, [6]), (RESERVED[MIGRATING], True, [0])]),
    ("beat", 51, 1, [ONLY]),
    ("beat", 52, 1, [NOWHERE]),
    ("beat", 50, 1, [ONE, TWO]),
    ("beat", 50, 1, []),
]
"""Reports; a heartbeat of version 0 has no directories."""


@pytest.mark.compares
def test_directory_reports_have_the_effect_of_a_real_controller(tmp_path: Path) -> None:
    codes = set()
    with real_controller(tmp_path / "broker", "controller/directories", PATIENT) as both:
        directories = Directories(both)
        directories.agree("the topic is made")
        for what, *reports in STEPS:
            real, ours = getattr(directories, what)(*reports)
            assert real == ours, (what, reports)
            codes.add(real[0])
            if what == "assign":
                codes.update(code for each in real[1] for _, code in each)
            directories.agree((what, reports))
    assert codes == {0, 3, 6, 77, 100}
