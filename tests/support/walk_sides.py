"""Send the same random walks to a real broker and ours, and compare the responses.

Ours is given the topic ids of the other, so that maps by them have one order. Compared are all
fields except the lists that Kafka makes of maps by broker or group, or of maps whose order Java
draws when it starts, ids that are drawn, and throttle times.
"""

import json
import os
import re
import struct
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, NamedTuple, Protocol, cast

import msgspec

from brokertwin.gateway.edge_fields import Address
from brokertwin.gateway.engine.engine import EdgeRequest
from brokertwin.gateway.engine.local_engine import LocalEngine
from brokertwin.state.core.events import Choices, Event
from tests.support.gateways import Client, Running, running_gateway
from tests.support.goldens import MODE, Tape, tape
from tests.support.patience import wait_until
from tests.support.settled import GROUP_RESOURCE, settle

EXAMPLES = os.environ.get("EXAMPLES") if MODE == "compare" else None
ZERO = "AAAAAAAAAAAAAAAAAAAAAA"
MISSING = "missing"
"""Name of a topic that does not exist."""

NOT_COMPARED = ("throttleTimeMs", "clientHost", "nodeEndpoints")
BY = [
    ("groups", "groupId"),
    ("members", "memberId"),
    ("results", "groupId"),
    ("topicPartitions", "topicId"),
    ("topics", "name"),
    ("topics", "topicName"),
    ("partitions", "partitionIndex"),
    ("activePartitions", "topic"),
]
"""Lists that are compared in the order of a field, where they have it."""

OF_ENDPOINTS = ("activePartitions", "standbyPartitions")
"""Lists with partitions in the order of a map, which depends on how that one came about."""

DRAWN = re.compile(r"Static member [\w-]{22} ")
Body = dict[str, Any]
_BATCH_HEAD = struct.Struct(">qi")
"""A batch's first offset, and how many bytes follow."""


NO_TRANSACTIONAL_ID = 105
"""The error of one that its coordinator does not know."""


class Step(NamedTuple):
    """A request. Its body refers to topics by name; `id:NAME` is replaced by a topic's id."""

    api: str
    version: int
    body: Body


def seeds(count: int) -> dict[int, str]:
    """Return the names of walks: the recorded ones, or the number of others set by `EXAMPLES`."""
    first = uuid.uuid4().int >> 100 if EXAMPLES else 0
    run = f"{first:x}"
    count = max(int(EXAMPLES or count), count)
    return {seed: f"walk-{run}-{seed}" for seed in range(first, first + count)}


class Side:
    """A broker, real or ours, and its topic ids.

    Attributes:
        tape: the recording of a real broker; None for ours.
        ids: of topics, by name.
        choices: values that ours does not draw, as in an event.
    """

    def __init__(self, address: Address, stack: ExitStack, tape: Tape | None = None) -> None:
        self._address, self._stack, self.tape = address, stack, tape
        self._client = self.connection()
        self.choices: Body = {}
        self.ids = {MISSING: ZERO[:-1] + "Q"}

    def connection(self) -> Client:
        """One more connection; a real broker's is recorded."""
        if self.tape is None:
            return self._stack.enter_context(Client(self._address))
        found = self.tape.connection(lambda: Client(self._address))
        self._stack.callback(found.close)
        return cast(Client, found)

    def direct(self) -> Client:
        """Open a connection that is not recorded."""
        return self._stack.enter_context(Client(self._address))

    def create(self, names: Mapping[str, int]) -> None:
        topics = [
            {"name": name, "numPartitions": count, "replicationFactor": 1}
            | {"assignments": [], "configs": []}
            for name, count in names.items()
        ]
        body = {"topics": topics, "timeoutMs": 30_000, "validateOnly": False}
        for each in self._client.call("CREATE_TOPICS", 7, body)["topics"]:
            assert each["errorCode"] == 0, each
            self.ids[each["name"]] = each["topicId"]
        self.wait_for(names)

    def delete(self, names: Iterable[str]) -> None:
        there = [name for name, count in self.partition_counts(names).items() if count]
        if there:
            self._client.call("DELETE_TOPICS", 5, topicNames=there, timeoutMs=30_000)
            self.wait_for(dict.fromkeys(there, 0))

    def begin(self, groups: list[str], settings: Mapping[str, str]) -> None:
        request = {"groups": groups, "includeAuthorizedOperations": False}
        sought = {"keyType": 0, "coordinatorKeys": groups}

        def are_there() -> bool:
            self._client.call("FIND_COORDINATOR", 6, sought)
            described = self._client.call("DESCRIBE_GROUPS", 5, request)["groups"]
            return not any(each["errorCode"] for each in described)

        wait_until(are_there)
        for group in groups:
            self._set(group, settings)
        self.settle()

    def begin_transactions(self, name: str) -> None:
        """A transactional id has its coordinator, which knows nothing of it."""
        sought = {"keyType": 1, "coordinatorKeys": [name]}

        def is_there() -> bool:
            self._client.call("FIND_COORDINATOR", 6, sought)
            described = {"transactionalIds": [name]}
            reported = self._client.call("DESCRIBE_TRANSACTIONS", 0, described)["transactionStates"]
            return bool(reported[0]["errorCode"] == NO_TRANSACTIONAL_ID)

        wait_until(is_there)

    def _set(self, group: str, settings: Mapping[str, str]) -> None:
        configs = [
            {"name": name, "configOperation": 0, "value": value} for name, value in settings.items()
        ]
        resources = [{"resourceType": GROUP_RESOURCE, "resourceName": group, "configs": configs}]
        body = {"resources": resources, "validateOnly": False}
        response = self._client.call("INCREMENTAL_ALTER_CONFIGS", 1, body)
        assert not any(each["errorCode"] for each in response["responses"]), response

    def wait_for(self, topics: Mapping[str, int]) -> None:
        """Wait until topics have these partition counts (0: deleted) and groups know it."""
        wait_until(lambda: self.partition_counts(topics) == topics, f"not {topics}")
        self.settle()

    def partition_counts(self, names: Iterable[str]) -> dict[str, int]:
        """How many partitions topics have, 0 where there is none of the name."""
        requests = [{"topicId": ZERO, "name": name} for name in names]
        body = {"topics": requests, "allowAutoTopicCreation": False}
        body["includeTopicAuthorizedOperations"] = False
        topics = self._client.call("METADATA", 12, body)["topics"]
        return {each["name"]: len(each["partitions"]) for each in topics}

    def settle(self) -> None:
        """All that could be seen of the cluster before is known to its coordinators, too."""
        settle(self._client)

    def write(self, name: str, partition: int, records: bytes) -> None:
        reported = self._client.produce(name, records, partition)
        assert reported["errorCode"] == 0, reported

    def response(self, step: Step, names: list[str]) -> Body:
        """The response, with topics by their names; of all groups only those with these names."""
        body = json.dumps(step.body)
        for name, ident in self.ids.items():
            body = body.replace(f'"id:{name}"', f'"{ident}"')
        return self.shown(step, self._client.call(step.api, step.version, json.loads(body)), names)

    def call(self, api: str, version: int, body: Body | None = None, **fields: Any) -> Body:
        return self._client.call(api, version, body, **fields)

    def shown(self, step: Step, reported: Body, names: list[str]) -> Body:
        response = json.dumps(reported, default=_whole_batches)
        for name, ident in self.ids.items():
            response = response.replace(ident, f"id:{name}")
        document: Body = json.loads(DRAWN.sub("Static member … ", response))
        if step.api == "LIST_GROUPS":
            document["groups"] = [each for each in document["groups"] if each["groupId"] in names]
        return dict(_plain(document))


def _whole_batches(records: bytes) -> str:
    """Record batches; the beginning of one more, where a limit cuts within it, is left out."""
    end = 0
    while len(records) - end >= _BATCH_HEAD.size:
        size: int = _BATCH_HEAD.unpack_from(records, end)[1] + _BATCH_HEAD.size
        if end + size > len(records):
            break
        end += size
    return records[:end].hex()


def _plain(value: Any, name: str = "") -> Any:
    if isinstance(value, dict):
        return {key: _plain(value[key], key) for key in value if key not in NOT_COMPARED}
    if not isinstance(value, list):
        return value
    shown = [_plain(each) for each in value]
    fields = set(shown[0]) if shown and isinstance(shown[0], dict) else set()
    if name in OF_ENDPOINTS:
        shown = [{**each, "partitions": sorted(each["partitions"])} for each in shown]
    by = next((by for of, by in BY if of == name and by in fields), None)
    return sorted(shown, key=lambda each: str(each[by])) if by is not None else shown


class Sides(NamedTuple):
    """Ours and a real broker, with the same topics."""

    ours: Side
    real: Side


class Walking(Protocol):
    groups: list[str]

    def step(self) -> Step:
        """The next one."""

    def observe(self, step: Step, response: Body) -> None:
        """Responses of the real broker."""


def walked(sides: Sides, walk: Walking, seed: int, steps: int) -> Iterator[tuple[Step, Body]]:
    """Each step with its response, which is the same on both sides."""
    for at in range(steps):
        step = walk.step()
        ours, theirs = (side.response(step, walk.groups) for side in sides)
        assert ours == theirs, f"seed {seed}, step {at}: {step}"
        walk.observe(step, theirs)
        yield step, ours


def too_few(
    met: Counter[tuple[str, str]], least: Mapping[str, Mapping[str, int]]
) -> dict[tuple[str, str], int]:
    """Return the cases that a run has met less often than required."""
    return {
        (kind, code): met[kind, code]
        for kind, codes in least.items()
        for code, count in codes.items()
        if met[kind, code] < count
    }


@contextmanager
def both_sides(
    kafka: Address,
    golden: str,
    topics: Mapping[str, int],
    settings: Mapping[str, str] | None = None,
    engine_type: Callable[..., LocalEngine] = LocalEngine,
) -> Iterator[Sides]:
    """A gateway beside the real broker `kafka`, both with these topics and their partitions.

    The real broker's responses are those of the golden unless a live one is used.
    """
    with ExitStack() as stack:
        real = Side(kafka, stack, stack.enter_context(tape(golden, settings)))
        real.delete(topics)
        running = stack.enter_context(running_gateway(settings, engine_type=engine_type))
        ours = Side(running.addresses[1], stack)
        real.create(topics)
        ours.choices["topicIds"] = real.ids
        _take_over(running, ours.choices)
        ours.create(topics)
        yield Sides(ours, real)


def _take_over(running: Running, choices: Body) -> None:
    """Make ours use these values, in the given order, instead of drawing them."""
    write = running.engine._events.request

    def with_choices(request: EdgeRequest) -> Event:
        event = write(request)
        event.choices = msgspec.convert(choices, Choices)
        return event

    running.engine._events.request = with_choices
