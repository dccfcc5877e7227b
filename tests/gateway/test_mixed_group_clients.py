"""Real clients of both protocols in one group, with upgrade and downgrade.

Six members at once, one of them Java's console consumer, one with a regular expression; they join,
leave and crash. All traffic is recorded: within one epoch no partition was assigned to two members,
and no committed offset is lost or decreases. `ROUNDS=20` repeats joins, leaves and crashes.
"""

import base64
import os
import queue
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from brokertwin.state.groups.consumer_protocol import assignment_of
from tests.gateway.test_group_clients import (
    RECORDS,
    ConfluentMember,
    Member,
    NewProtocolMember,
    PythonMember,
    fill,
    poll_until,
)
from tests.support.gateways import Running, running_gateway
from tests.support.kafka_tools import PACKAGE, java_command
from tests.support.patience import PATIENCE_S
from tests.support.proxies import Capturing, Document, capturing, name_of

pytestmark = pytest.mark.clients

GROUP = "moved"
PARTITIONS = 10
ROUNDS = int(os.environ.get("ROUNDS", "1"))
SETTINGS = {
    "group.initial.rebalance.delay.ms": "100",
    "group.consumer.heartbeat.interval.ms": "300",
    "group.consumer.assignment.interval.ms": "100",
    "group.consumer.session.timeout.ms": "10000",
}
CRASHES = """
import sys, confluent_kafka
settings = {"bootstrap.servers": sys.argv[1], "group.id": sys.argv[2], "group.protocol": "consumer"}
consumer = confluent_kafka.Consumer(settings)
consumer.subscribe([sys.argv[2]])
while True:
    consumer.poll(0.1)
    print(len(consumer.assignment()), flush=True)
"""
"""A member that is killed while running; it prints how many partitions it has."""


class JavaMember:
    """Java's console consumer in a consumer group (KIP-848), with auto-commit."""

    def __init__(self, gateway: Running, through: str, topic: str) -> None:
        self._gateway, self._group = gateway, topic
        self._client_id = f"java-{uuid.uuid4()}"
        given = ("group.protocol=consumer", f"client.id={self._client_id}")
        given += ("auto.offset.reset=earliest", "auto.commit.interval.ms=200")
        words = [word for each in given for word in ("--command-property", each)]
        tool = (f"{PACKAGE}.consumer.ConsoleConsumer", "--bootstrap-server", through)
        self._process = subprocess.Popen(
            [*java_command(), *tool, "--topic", topic, "--group", topic, *words],
            stdout=subprocess.PIPE,
        )
        self._read: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._lines, daemon=True)
        self._thread.start()

    def _lines(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._read.put(line.removesuffix(b"\n"))

    def poll(self) -> list[bytes]:
        assert self._process.poll() is None
        return [self._read.get() for _ in range(self._read.qsize())]

    def assigned(self) -> set[int]:
        """Return the coordinator's assignment, once the member has reached its target."""
        body = {"groupIds": [self._group], "includeAuthorizedOperations": False}
        with self._gateway.client() as client:
            (group,) = client.call("CONSUMER_GROUP_DESCRIBE", 1, body)["groups"]
        return {
            number
            for member in group["members"]
            if member["clientId"] == self._client_id
            for topic in member["assignment"]["topicPartitions"]
            for number in topic["partitions"]
        }

    def commit(self) -> None:
        """Do nothing: it commits every 200 ms."""

    def close(self) -> None:
        self._end(self._process.terminate)

    def crash(self) -> None:
        self._end(self._process.kill)

    def _end(self, how: Callable[[], None]) -> None:
        how()
        self._process.wait(PATIENCE_S)
        self._thread.join()
        assert self._process.stdout is not None
        self._process.stdout.close()


def is_shared(members: list[Member]) -> bool:
    owned = [member.assigned() for member in members]
    places = [place for each in owned for place in each]
    return all(owned) and sorted(places) == list(range(PARTITIONS))


def group_type(gateway: Running) -> str:
    with gateway.client() as client:
        listed = client.call("LIST_GROUPS", 5, statesFilter=[], typesFilter=[])
    return next(str(each["groupType"]) for each in listed["groups"] if each["groupId"] == GROUP)


def crash(bootstrap: str, members: list[Member]) -> None:
    command = [sys.executable, "-c", CRASHES, bootstrap, GROUP]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = iter(process.stdout.readline, "")
        poll_until(members, lambda _: next(lines).strip() not in ("", "0"))
        process.kill()


def assignments(documents: list[Document], topic_id: str) -> list[tuple[int, str, set[int]]]:
    result = []
    for document in documents:
        if "response" not in document:  # its member was killed
            continue
        request, response = document["request"], document["response"] or {}
        if name_of(document) == "SYNC_GROUP" and response["errorCode"] == 0:
            data = base64.b64decode(response["assignment"])
            owned = assignment_of(data).partitions.get(GROUP, []) if data else []
            result.append((request["generationId"], request["memberId"], set(owned)))
        is_heartbeat = name_of(document) == "CONSUMER_GROUP_HEARTBEAT"
        if is_heartbeat and response.get("assignment") is not None:
            parts: list[Any] = response["assignment"]["topicPartitions"]
            assert {each["topicId"] for each in parts} <= {topic_id}
            owned = [number for each in parts for number in each["partitions"]]
            result.append((response["memberEpoch"], response["memberId"], set(owned)))
    return result


def owners_of_single_partitions(recorded: Capturing, topic_id: str) -> int:
    """Check that no epoch has a partition with two owners; return the number of owners."""
    owners: dict[tuple[int, int], str] = {}
    for epoch, member_id, partitions in assignments(recorded.documents(), topic_id):
        for partition in partitions:
            owner = owners.setdefault((epoch, partition), member_id)
            assert owner == member_id, (epoch, partition, owner, member_id)
    return len(set(owners.values()))


def topic_of(given: dict[str, Any]) -> str:
    """Return the topic, which version 10 and later name by id; there is one."""
    return str(given.get("name", GROUP))


def assert_offsets_are_kept(documents: list[Document]) -> None:
    """Check that fetched offsets are at least the committed ones, which never decrease."""
    acknowledged: list[tuple[float, tuple[str, int], int]] = []
    last: dict[tuple[str, int], int] = {}
    for document in documents:
        if "response" not in document or name_of(document) != "OFFSET_COMMIT":
            continue
        done = document["time"] + document["responseTime"]
        responses = {topic_of(each): each["partitions"] for each in document["response"]["topics"]}
        for topic in document["request"]["topics"]:
            name = topic_of(topic)
            errors = {each["partitionIndex"]: each["errorCode"] for each in responses[name]}
            for each in topic["partitions"]:
                place, offset = (name, each["partitionIndex"]), each["committedOffset"]
                if errors[place[1]] == 0:
                    assert offset >= last.get(place, 0), (place, offset, last)
                    last[place] = offset
                    acknowledged.append((done, place, offset))
    fetched = 0
    for document in documents:
        if "response" not in document or name_of(document) != "OFFSET_FETCH":
            continue
        before = {place: n for done, place, n in acknowledged if done < document["time"]}
        response = document["response"]
        for group in response.get("groups") or [response]:
            for topic in group.get("topics", []):
                for each in topic["partitions"]:
                    place = (topic_of(topic), each["partitionIndex"])
                    fetched += place in before
                    if each["errorCode"] == 0:
                        assert each["committedOffset"] >= before.get(place, -1), place
    assert len(last) == PARTITIONS
    assert fetched > 0


def work(gateway: Running, members: list[Member]) -> None:
    """Produce more records, let members read them, and commit each one's position."""
    producer = confluent_kafka.Producer({"bootstrap.servers": gateway.bootstrap})
    values = [uuid.uuid4().hex.encode() for _ in range(4 * PARTITIONS)]
    for number, value in enumerate(values):
        producer.produce(GROUP, value, partition=number % PARTITIONS)
    assert producer.flush(PATIENCE_S) == 0
    poll_until(members, lambda read: set(values) <= set(read) and is_shared(members))
    for each in members:
        each.commit()


def come_and_go(gateway: Running, recorded: Capturing, members: list[Any]) -> None:
    """Start Java's member, kill it and another, let one leave and one join."""
    java = JavaMember(gateway, recorded.bootstrap, GROUP)
    members.append(java)
    poll_until(members, lambda _: is_shared(members))
    work(gateway, members)
    crash(recorded.bootstrap, members)
    members.remove(java)
    java.crash()
    poll_until(members, lambda _: is_shared(members))
    through: Any = recorded
    leaves = next(each for each in members if isinstance(each, NewProtocolMember))
    members.remove(leaves)
    leaves.close()
    members.append(NewProtocolMember(through, GROUP))
    poll_until(members, lambda _: is_shared(members))
    work(gateway, members)


def test_group_upgrades_to_the_new_protocol_and_back(tmp_path: Path) -> None:
    with running_gateway(SETTINGS) as gateway:
        with capturing(gateway.bootstrap, tmp_path / "moved.jsonl") as recorded:
            fill(gateway, GROUP, PARTITIONS)
            with gateway.client() as client:
                named = client.call("METADATA", 12, name=GROUP)
            through: Any = recorded
            old: list[Member] = [PythonMember(through, GROUP), ConfluentMember(through, GROUP)]
            poll_until(old, lambda read: len(set(read)) == RECORDS and is_shared(old))
            assert group_type(gateway) == "classic"
            old[0].commit()

            members: list[Any] = [
                *old,
                NewProtocolMember(through, GROUP),
                NewProtocolMember(through, GROUP, f"^{GROUP[:3]}.*"),
                PythonMember(through, GROUP),
            ]
            poll_until(members, lambda _: is_shared(members))
            assert group_type(gateway) == "consumer"
            for _ in range(ROUNDS):
                come_and_go(gateway, recorded, members)

            members.remove(old[0])
            old[0].close()
            poll_until(members, lambda _: is_shared(members))

            back = [each for each in members if not isinstance(each, NewProtocolMember)]
            for each in members:
                if each not in back:
                    each.close()
            poll_until(back, lambda _: is_shared(back))
            assert group_type(gateway) == "classic"
            work(gateway, back)
            for each in back:
                each.close()
        assert owners_of_single_partitions(recorded, named["topics"][0]["topicId"]) >= 6
        assert_offsets_are_kept(recorded.documents())
