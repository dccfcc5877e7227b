"""Cordoned log directories (KIP-1066), compared with a real broker."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from brokertwin.gateway.edge_fields import Address
from tests.support.gateways import Client, running_gateway
from tests.support.goldens import golden
from tests.support.kafka_clusters import kafka_cluster
from tests.support.patience import wait_until

EVERYBODY, BROKER = "", "1"
DISKS = ("/disk-1", "/disk-2")


class Side:
    """A broker with two log directories, which responses call by number."""

    def __init__(self, client: Client, disks: list[str]) -> None:
        self.requested: list[Any] = []
        self._client = client
        self._disks = disks

    def create(self, name: str, count: int = 4, **more: Any) -> tuple[int, str | None]:
        self.requested.append(["create", name, count, more])
        wanted = {"name": name, "numPartitions": count, "replicationFactor": 1, **more}
        body = {"topics": [wanted], "timeoutMs": 10_000}
        (topic,) = self._client.call("CREATE_TOPICS", 7, body)["topics"]
        return topic["errorCode"], topic["errorMessage"]

    def cordon(self, text: str, of: str = BROKER) -> tuple[int, str | None]:
        """Cordon directories `1` and `2`, and wait until new topics avoid them."""
        self.requested.append(["cordon", text, of])
        text = re.sub("[12]", lambda number: self._disks[int(number[0]) - 1], text)
        setting = {"name": "cordoned.log.dirs", "configOperation": 0, "value": text}
        resource = {"resourceType": 4, "resourceName": of, "configs": [setting]}
        body = {"resources": [resource], "validateOnly": False}
        (response,) = self._client.call("INCREMENTAL_ALTER_CONFIGS", 1, body)["responses"]
        named = self._disks if text == "*" else text.split(",")
        is_any_left = not set(self._disks) <= set(named)

        def is_known() -> bool:
            wanted = {"name": "probe", "numPartitions": 1, "replicationFactor": 1}
            request = {"topics": [wanted], "timeoutMs": 10_000, "validateOnly": True}
            (topic,) = self._client.call("CREATE_TOPICS", 7, request)["topics"]
            cordoned = [each[1] for each in self.dirs()]
            are = [each in named for each in self._disks]
            return bool(topic["errorCode"] == 0) is is_any_left and cordoned == are

        if response["errorCode"] == 0:
            wait_until(is_known, "the controller and the broker know what is cordoned")
        return response["errorCode"], response["errorMessage"]

    def dirs(self) -> list[tuple[int, bool, list[tuple[str, int]]]]:
        """Return error, cordoned flag and logs of each directory."""
        results = self._client.call("DESCRIBE_LOG_DIRS", 5, topics=None)["results"]
        found = {
            each["logDir"]: (
                each["errorCode"],
                each["isCordoned"],
                sorted(
                    (topic["name"], log["partitionIndex"])
                    for topic in each["topics"]
                    for log in topic["partitions"]
                ),
            )
            for each in results
        }
        return [found[disk] for disk in self._disks]

    def settled(self, logs: int) -> Any:
        """Return the directories, once they have that many logs."""
        result: list[Any] = []

        def are_there() -> bool:
            result[:] = self.dirs()
            return sum(len(each[2]) for each in result) == logs

        wait_until(are_there, f"{logs} logs are there")
        return result

    def move(self, topic: str, partition: int, disk: int) -> int:
        self.requested.append(["move", topic, partition, disk])
        (response,) = self._client.call(
            "ALTER_REPLICA_LOG_DIRS", 2, path=self._disks[disk], name=topic, partitions=[partition]
        )["results"]
        return int(response["partitions"][0]["errorCode"])

    def grow(self, topic: str, count: int) -> Any:
        self.requested.append(["grow", topic, count])
        wanted = {"name": topic, "count": count, "assignments": None}
        body = {"topics": [wanted], "timeoutMs": 10_000, "validateOnly": False}
        return self._client.call("CREATE_PARTITIONS", 3, body)["results"]

    def play(self) -> Iterator[Any]:
        """Return the responses, step by step."""
        yield self.create("one")
        yield self.settled(4)
        yield self.cordon("2")
        yield self.create("two")
        yield self.settled(8)
        yield [self.move("two", 0, 1), self.move("two", 1, 0), self.move("later", 0, 1)]
        yield self.create("later", 1)
        yield self.settled(9)
        yield self.cordon("*")
        yield self.create("three")
        assignments = [{"partitionIndex": 0, "brokerIds": [1]}]
        yield self.create("manual", -1, replicationFactor=-1, assignments=assignments)
        yield self.grow("one", 6)
        yield self.settled(10)
        yield self.cordon("1,2")
        yield self.create("four")
        yield self.cordon("")
        yield self.create("five")
        yield self.settled(14)
        yield self.cordon("*", EVERYBODY)


def recorded_by_kafka(home: Path) -> list[Any]:
    with kafka_cluster(home, 1, disks=2) as nodes:
        own = home / "1"
        host, _, port = nodes[1][1].rpartition(":")
        with Client(Address(host, int(port))) as client:
            return list(Side(client, [str(own / "data"), str(own / "disk-2")]).play())


@pytest.mark.compares
def test_cordoned_directory_gets_no_new_logs(tmp_path: Path) -> None:
    with running_gateway({"log.dirs": ",".join(DISKS)}) as gateway, gateway.client() as client:
        side = Side(client, list(DISKS))
        ours = list(side.play())
    real = golden(
        "cluster/cordoned_dirs", lambda: recorded_by_kafka(tmp_path), scenario=side.requested
    )
    assert ours == real
    assert [each[0] for each in real if isinstance(each, tuple)].count(38) == 2
