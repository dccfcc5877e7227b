"""Consumer groups beside a real broker: all answers of random walks are the same.

Ours is given the topic ids of the other, so that maps by them have one order. Compared is
everything but the lists that Kafka makes of maps by broker or group, ids that are drawn, and
throttle times. `EXAMPLES=500` goes that many walks, others each time.
"""

import json
import os
import re
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from brokerstream.gateway.answers import Address
from tests.support.gateways import Client, Running, running_gateway
from tests.support.group_rows import as_kafka_reads
from tests.support.group_walks import MISSING, TOPICS, Step, Walk
from tests.support.patience import wait_until

EXAMPLES = os.environ.get("EXAMPLES")
WALKS, STEPS = int(EXAMPLES or "25"), 50
GROUP_RESOURCE = 32
ZERO = "AAAAAAAAAAAAAAAAAAAAAA"
NOT_COMPARED = ("throttleTimeMs", "clientHost")
BY = [
    ("groups", "groupId"),
    ("members", "memberId"),
    ("results", "groupId"),
    ("topicPartitions", "topicId"),
    ("topics", "name"),
    ("partitions", "partitionIndex"),
]
"""Lists that are compared in the order of a field, where they have it."""

DRAWN = re.compile(r"Static member [\w-]{22} ")
Body = dict[str, Any]


class Side:
    """A broker, real or ours, and what it calls topics."""

    def __init__(self, address: Address, stack: ExitStack) -> None:
        self._client = stack.enter_context(Client(address))
        self.ids = {MISSING: ZERO[:-1] + "Q"}

    def create(self, names: dict[str, int]) -> None:
        topics = [
            {"name": name, "numPartitions": count, "replicationFactor": 1}
            | {"assignments": [], "configs": []}
            for name, count in names.items()
        ]
        body = {"topics": topics, "timeoutMs": 30_000, "validateOnly": False}
        for each in self._client.call("CREATE_TOPICS", 7, body)["topics"]:
            assert each["errorCode"] == 0, each
            self.ids[each["name"]] = each["topicId"]

    def begin(self, groups: list[str]) -> None:
        """Targets of the groups are computed at once."""
        asked = {"groups": groups, "includeAuthorizedOperations": False}
        sought = {"keyType": 0, "coordinatorKeys": groups}

        def is_there() -> bool:
            self._client.call("FIND_COORDINATOR", 6, sought)
            described = self._client.call("DESCRIBE_GROUPS", 5, asked)["groups"]
            return not any(each["errorCode"] for each in described)

        wait_until(is_there)
        given = {"name": "consumer.assignment.interval.ms", "configOperation": 0, "value": "0"}
        resources = [
            {"resourceType": GROUP_RESOURCE, "resourceName": group, "configs": [given]}
            for group in groups
        ]
        body = {"resources": resources, "validateOnly": False}
        answer = self._client.call("INCREMENTAL_ALTER_CONFIGS", 1, body)
        assert not any(each["errorCode"] for each in answer["responses"]), answer

    def answer(self, step: Step, names: list[str]) -> Body:
        """The answer, with topics by their names; of all groups only those with these names."""
        body = json.dumps(step.body)
        for name, ident in self.ids.items():
            body = body.replace(f'"id:{name}"', f'"{ident}"')
        answer = json.dumps(self._client.call(step.api, step.version, json.loads(body)))
        for name, ident in self.ids.items():
            answer = answer.replace(ident, f"id:{name}")
        found: Body = json.loads(DRAWN.sub("Static member … ", answer))
        if step.api == "LIST_GROUPS":
            found["groups"] = [each for each in found["groups"] if each["groupId"] in names]
        return dict(_plain(found))


def _plain(value: Any, name: str = "") -> Any:
    if isinstance(value, dict):
        return {key: _plain(value[key], key) for key in value if key not in NOT_COMPARED}
    if not isinstance(value, list):
        return value
    shown = [_plain(each) for each in value]
    fields = set(shown[0]) if shown and isinstance(shown[0], dict) else set()
    by = next((by for of, by in BY if of == name and by in fields), None)
    return sorted(shown, key=lambda each: str(each[by])) if by is not None else shown


@pytest.fixture(scope="module")
def written() -> Iterator[list[Row]]:
    """The rows of groups and offsets that ours has for `offsets.<cluster>`, as they come."""
    rows: list[Row] = []

    def note(_: LocalRows, record: Record) -> None:
        row = group_rows.encode(record)
        if row is not None:
            rows.append(row)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(LocalRows, "of_group", note)
        yield rows


@pytest.fixture(scope="module")
def sides(kafka: str, written: list[Row]) -> Iterator[tuple[Side, Side]]:
    """Ours and a real broker, with the same topics."""
    host, _, port = kafka.rpartition(":")
    with ExitStack() as stack:
        real = Side(Address(host, int(port)), stack)
        running = stack.enter_context(running_gateway())
        ours = Side(running.addresses[1], stack)
        real.create(TOPICS)
        _take_over(running, real.ids)
        ours.create(TOPICS)
        yield ours, real


def _take_over(running: Running, topic_ids: dict[str, str]) -> None:
    """Ours gives new topics these ids."""
    write = running.engine._events._write

    def with_choices(document: Body) -> tuple[str, bytes]:
        written: tuple[str, bytes] = write({**document, "choices": {"topicIds": topic_ids}})
        return written

    running.engine._events._write = with_choices


def test_every_answer_of_a_random_walk_is_kafkas(sides: tuple[Side, Side]) -> None:
    first = uuid.uuid4().int >> 100 if EXAMPLES else 0
    heard = set()
    for seed in range(first, first + WALKS):
        name = f"walk-{seed}"
        walk = Walk(seed, name)
        for side in sides:
            side.begin(walk.groups)
        for at in range(STEPS):
            step = walk.step()
            ours, theirs = (side.answer(step, walk.groups) for side in sides)
            assert ours == theirs, f"seed {seed}, step {at}: {step}"
            walk.hear(step, theirs)
            heard |= {
                (step.api, code) for code in re.findall(r'"errorCode": (-?\d+)', json.dumps(ours))
            }
    wanted = {("CONSUMER_GROUP_HEARTBEAT", each) for each in ("0", "25", "42", "69", "110", "111")}
    wanted |= {("OFFSET_COMMIT", each) for each in ("0", "3", "12", "25", "35", "100", "113")}
    wanted |= {("OFFSET_DELETE", each) for each in ("0", "3", "24", "69", "86")}
    wanted |= {("OFFSET_FETCH", each) for each in ("0", "-1", "25", "100", "113")}
    assert wanted <= heard


def test_every_row_of_a_random_walk_is_kafkas(
    kafka: str, sides: tuple[Side, Side], written: list[Row]
) -> None:
    """What each group's walk leaves in `__consumer_offsets`, row by row."""
    name, count = f"rows-{uuid.uuid4()}", len(written)
    walks = [Walk(seed, f"{name}-{seed}") for seed in range(WALKS)]
    for walk in walks:
        for side in sides:
            side.begin(walk.groups)
        for _ in range(STEPS):
            step = walk.step()
            for side in sides:
                answer = side.answer(step, walk.groups)
            walk.hear(step, answer)
    theirs = [(row.key, row.value) for row in group_offsets.rows(client_of(kafka, None), {})]
    ours = written[count:]
    for walk in walks:
        for group in walk.groups:
            said = [
                as_kafka_reads([row for row in rows if group.encode() in row[0]])
                for rows in (ours, theirs)
            ]
            assert said[0] == said[1], group
