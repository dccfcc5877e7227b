"""AlterReplicaLogDirs: logs move, or will come to lie where they are wished."""

import json
from pathlib import Path
from typing import Any

import pytest

from brokertwin.kafka_io import properties
from brokertwin.kafka_io.kafka_broker import EmbeddedKafka
from brokertwin.settings import default_home
from brokertwin.state.replication import disk
from tests.support.goldens import Connection, connection_to, started, tape
from tests.support.machine import Bench, header
from tests.support.patience import wait_until

DISKS = ("/disk-1", "/disk-2")
Moves = tuple[tuple[str, dict[str, list[int]]], ...]


def body(moves: Moves) -> dict[str, Any]:
    return {
        "dirs": [
            {"path": path, "topics": [{"name": n, "partitions": p} for n, p in topics.items()]}
            for path, topics in moves
        ]
    }


def errors(response: Any) -> dict[tuple[str, int], int]:
    return {
        (topic["topicName"], each["partitionIndex"]): each["errorCode"]
        for topic in response["results"]
        for each in topic["partitions"]
    }


def places(response: Any) -> dict[tuple[str, int], tuple[str, int]]:
    return {
        (topic["name"], each["partitionIndex"]): (result["logDir"], each["partitionSize"])
        for result in response["results"]
        for topic in result["topics"]
        for each in topic["partitions"]
    }


def alter(bench: Bench, *moves: tuple[str, dict[str, list[int]]]) -> dict[tuple[str, int], int]:
    return errors(bench.request("ALTER_REPLICA_LOG_DIRS", 2, body(moves)))


def described(bench: Bench) -> dict[tuple[str, int], tuple[str, int]]:
    return places(bench.request("DESCRIBE_LOG_DIRS", 4, topics=None))


@pytest.fixture
def bench() -> Bench:
    bench = Bench(log_dirs=DISKS)
    bench.topic("t", 2)
    bench.append("t", header(1, size=100))
    return bench


def test_moved_log_keeps_its_contents(bench: Bench) -> None:
    assert described(bench) == {("t", 0): ("/disk-1", 100), ("t", 1): ("/disk-2", 0)}
    assert alter(bench, ("/disk-2", {"t": [0, 1]})) == {("t", 0): 0, ("t", 1): 0}
    assert described(bench)["t", 0] == ("/disk-2", 100)
    records = [entry["record"] for entry in bench.records()][-3:]
    kinds = [each["type"] for each in records]
    assert kinds == ["LogPlaced", "ReplicasAssigned", "ReplicasAssigned"], "controller and broker"
    assert records[0]["directory"] == "/disk-2"
    assert bench.append("t", header(1, size=50))["baseOffset"] == 1
    assert described(bench)["t", 0] == ("/disk-2", 150)


def test_last_directory_of_a_replica_wins(bench: Bench) -> None:
    assert alter(bench, ("/disk-2", {"t": [0]}), ("/disk-1", {"t": [0]})) == {("t", 0): 0}
    assert described(bench)["t", 0] == ("/disk-1", 100)


def test_moves_that_are_impossible_return_their_error(bench: Bench) -> None:
    long = "t" * 214
    actual = alter(bench, ("/nope", {"t": [0], long: [0]}), ("/disk-1", {"t": [9], "u": [0]}))
    assert actual == {("t", 0): 57, (long, 0): 17, ("t", 9): 3, ("u", 0): 3}


def test_a_log_that_comes_later_lies_where_it_was_wished(bench: Bench) -> None:
    alter(bench, ("/disk-2", {"u": [0, 1]}))
    bench.reload()
    bench.topic("u", 3)
    assert {place: at for place, (at, _) in described(bench).items() if place[0] == "u"} == {
        ("u", 0): "/disk-2",
        ("u", 1): "/disk-2",
        ("u", 2): "/disk-1",
    }
    assert not bench.cell.tables.replication.keys("1/wished-dirs"), "they are over"


def test_of_too_many_wishes_the_oldest_goes(bench: Bench, monkeypatch: Any) -> None:
    monkeypatch.setattr(disk, "REQUESTED_DIRS_MAX", 2)
    alter(bench, ("/disk-2", {"u": [0, 1, 2]}), ("/disk-2", {"u": [1]}))
    wished = bench.cell.tables.replication.get("1/wished-dirs", disk.RequestedDirs)
    assert wished is not None
    assert list(wished.paths) == ["u-1", "u-2"]


class TwoDisks(EmbeddedKafka):
    """A real broker with a second log directory."""

    def _write_properties(self, settings: Any) -> None:
        super()._write_properties(settings)
        own = properties.read(self._properties)
        own["log.dirs"] += f",{self.home / 'data2'}"
        self._properties.write_text(properties.dump(own), encoding="utf-8")


class Renamed:
    """A connection to a broker with two disks, whose directories are called `DISKS`."""

    def __init__(self, connection: Connection, first: Path) -> None:
        self._connection = connection
        self._paths = [(f"{first}2", DISKS[1]), (f"{first}", DISKS[0])]

    def call(self, api: str, version: int, body: dict[str, Any]) -> Any:
        text = json.dumps(body)
        for path, name in self._paths:
            text = text.replace(name, path)
        text = json.dumps(self._connection.call(api, version, json.loads(text)))
        for path, name in self._paths:
            text = text.replace(path, name)
        return json.loads(text)

    def close(self) -> None:
        self._connection.close()


@pytest.mark.compares
def test_kafka_moves_the_same_logs(tmp_path: Path) -> None:
    broker = TwoDisks(tmp_path / "broker", default_home())
    with tape("apis/alter_replica_log_dirs") as recording, started(broker) as address:
        real = recording.connection(lambda: Renamed(connection_to(address), broker.home / "data"))
        compare_moves(real)
        real.close()


def compare_moves(connection: Connection) -> None:
    first, second = DISKS
    bench = Bench(log_dirs=DISKS)
    long, no = "t" * 213, "/nope"

    def create(name: str) -> None:
        topic = {"name": name, "numPartitions": 3, "replicationFactor": 1}
        wanted = {"topics": [{**topic, "assignments": [], "configs": []}], "timeoutMs": 9000}
        for response in (
            connection.call("CreateTopics", 7, {**wanted, "validateOnly": False}),
            bench.request("CREATE_TOPICS", 7, wanted),
        ):
            assert response["topics"][0]["errorCode"] == 0

    def move(*moves: tuple[str, dict[str, list[int]]]) -> None:
        expected = errors(connection.call("AlterReplicaLogDirs", 2, body(moves)))
        assert alter(bench, *moves) == expected, moves

    def settle() -> None:
        """The real broker creates and copies logs gradually."""
        ours = described(bench)
        request = {"topics": None}
        wait_until(lambda: places(connection.call("DescribeLogDirs", 4, request)) == ours)

    move()
    move((no, {"t": [0]}), (first, {"t": [9], "nope": [0], long: [0], long + "t": [0]}))
    move((first, {"t": [0, 1, 2]}))
    create("t")
    settle()
    move((second, {"t": [0, 2]}), (first, {"t": [0]}))
    settle()
    move((second, {"t": [0], "u": [0, 2]}), (first, {"u": [1]}), (no, {"w": [1]}))
    settle()
    create("u")
    settle()
    move((first + "/", {"t": [0]}), ("", {"t": [1]}), (second, {"t": [2]}))
    settle()
    assert described(bench)["u", 2] == (second, 0)
