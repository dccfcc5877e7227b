"""Log directories of brokers: compare responses and elected leaders with a real controller.

The brokers 50 to 52 are none: they register and send heartbeats, and never fetch.
"""

from pathlib import Path
from typing import Any

import pytest

from brokertwin.state.cluster.image import LOST, MIGRATING, UNASSIGNED
from tests.support.patience import wait_until
from tests.support.real_controllers import Body, Both, as_text, real_controller

ONE, TWO, ONLY, NOWHERE = (bytes([50, n] * 8) for n in range(1, 5))
DIRS = {50: [ONE, TWO], 51: [ONLY], 52: [bytes([52, 1] * 8), bytes([52, 2] * 8)]}
PLACES = ([50, 1], [51, 1], [1, 50], [52, 1], [50, 51], [51, 50], [50, 52])
"""The replicas of each partition; the first one leads at first."""
PATIENT = {"broker.session.timeout.ms": "600000", "replica.lag.time.max.ms": "600000"}
RESERVED = {
    name: bytes.fromhex("00" * 15 + f"{number:02x}")
    for number, name in enumerate((UNASSIGNED, LOST, MIGRATING))
}


class Directories:
    """Both controllers, whose brokers are there, and a topic on them."""

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
        """Of each partition the leader, its epoch, who is in sync, who is offline."""
        asked: Body = {"topics": [{"name": "d"}], "includeTopicAuthorizedOperations": False}
        asked["allowAutoTopicCreation"] = False
        both = self.both
        told = (
            both.real("Metadata", 11, asked)
            if side == 0
            else both.bench.request("METADATA", 11, asked)
        )
        return [
            (
                each["partitionIndex"],
                each["leaderId"],
                each["leaderEpoch"],
                sorted(each["isrNodes"]),
                sorted(each["offlineReplicas"]),
            )
            for each in sorted(told["topics"][0]["partitions"], key=lambda p: p["partitionIndex"])
        ]

    def agree(self, after: object) -> None:
        """Waits until the real broker has heard, and both say the same."""
        ours = self.partitions(1)
        try:
            wait_until(lambda: self.partitions(0) == ours, "the broker has heard", 10)
        except AssertionError:
            assert (after, self.partitions(0)) == (after, ours)

    def assign(self, broker: int, more: int, said: list[tuple[bytes, bool, list[int]]]) -> Any:
        """The answers, without ids; `more` is added to the epoch, False is a topic that is none."""
        responses = []
        for side, none in ((0, bytes(15).hex() + "09"), (1, as_text(bytes(15) + b"\x09"))):
            dirs: list[Any] = []
            for directory, is_topic, numbers in said:
                partitions = [{"partitionIndex": each} for each in numbers]
                topic = {"topicId": self.ids[side] if is_topic else none, "partitions": partitions}
                named = as_text(directory) if side else directory.hex()
                dirs.append({"id": named, "topics": [topic]})
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
        """The answers to a heartbeat that names directories that have failed."""
        body: Body = {"brokerId": broker, "currentMetadataOffset": 10**6, "wantFence": False}
        body["wantShutDown"] = False
        real, ours = self.epochs.get(broker, (7, 7))
        names = [each.hex() for each in offline], [as_text(each) for each in offline]
        told = (
            self.both.controller(
                "BrokerHeartbeat",
                version,
                body | {"brokerEpoch": real + more, "offlineLogDirs": names[0]},
            ),
            self.both.bench.request(
                "BROKER_HEARTBEAT",
                version,
                body | {"brokerEpoch": ours + more, "offlineLogDirs": names[1]},
            ),
        )
        return [(each["errorCode"], each["isFenced"], each["shouldShutDown"]) for each in told]


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
"""What is said; a heartbeat of version 0 has no directories."""


@pytest.mark.compares
def test_reports_of_directories_have_the_effect_of_a_real_controller(tmp_path: Path) -> None:
    codes = set()
    with real_controller(tmp_path / "broker", "controller/directories", PATIENT) as both:
        directories = Directories(both)
        directories.agree("the topic is made")
        for what, *said in STEPS:
            real, ours = getattr(directories, what)(*said)
            assert real == ours, (what, said)
            codes.add(real[0])
            if what == "assign":
                codes.update(code for each in real[1] for _, code in each)
            directories.agree((what, said))
    assert codes == {0, 3, 6, 77, 100}
