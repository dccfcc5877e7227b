"""Normalized responses: equal for all brokers that follow the same rules.

Masked fields (`recordings/replay/masking.py`) are removed. Generated ids, names and times become
symbols in order of appearance: `<pid1>`, `<id a>`, `<t0+5>`. Lists without an order are sorted.
docs/comparison.md has these rules.
"""

import base64
import json
import re
from collections.abc import Mapping
from typing import Any

from brokertwin.protocol.kafka_apis import api_of_key
from brokertwin.recordings.replay.masking import masked
from brokertwin.testing.exam import batches
from brokertwin.testing.exam.bodies import World
from brokertwin.testing.exam.model import View

SYMBOLS = {
    "sessionId": "session",
    "producerId": "pid",
    "memberId": "member",
    "topicId": "id",
    "clusterId": "cluster",
    "nodeId": "node",
    "leaderId": "node",
    "controllerId": "node",
    "replicaNodes": "node",
    "isrNodes": "node",
    "replicas": "node",
    "brokerId": "node",
    "brokerIds": "node",
    "offlineReplicas": "node",
    "eligibleLeaderReplicas": "node",
    "clientInstanceId": "instance",
    "preferredReadReplica": "node",
}
"""Name of a field with generated values to the class of its symbols."""

UNCHANGED: Mapping[str, tuple[Any, ...]] = {
    "session": (0,),
    "pid": (-1,),
    "member": ("",),
    "node": (-1,),
}
"""Values that mean "none" and are not replaced by symbols."""

NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
TIMES = frozenset(
    {
        "baseTimestamp",
        "maxTimestamp",
        "timestamp",
        "lastTimestamp",
        "transactionStartTimeMs",
        "logAppendTimeMs",
        "issueTimestampMs",
        "expiryTimestampMs",
        "maxTimestampMs",
    }
)
TIMES_OF_SCENARIO_MS = 4000
"""Times within this distance of the scenario's are those of its records."""

EPOCHS = frozenset({"memberEpoch", "groupEpoch", "assignmentEpoch"})
"""Epochs of groups, relative to the first one of the scenario, because a coordinator also bumps
them when it learns of a new topic."""

UNSORTED = frozenset({"records", "flags", "synonyms", "apiKeys", "abortedTransactions"})
"""Lists that keep their order. All others are sorted: their order depends on generated ids."""

POSITIONAL = frozenset({"errorCode", "errorMessage", "matchingAcls"})
"""Elements that have only these fields stay in the order of the request."""

NULL_AS_EMPTY = frozenset({"abortedTransactions", "records", "recordErrors"})
LEFT_OUT = frozenset(
    {"rack", "rackId", "logDir", "tokenId", "hmac", "throttleTimeMs", "coordinatorEpoch"}
)
"""Further fields that are not compared, because they depend on the site or the time."""

TEXTS = frozenset({"errorMessage", "batchIndexErrorMessage", "statusDetail"})
"""Fields with error messages."""

_EPOCH = re.compile(r"((?:epoch|coordinator) )\(\d+\)")
_NODE = re.compile(r"(?<=\bbroker )\d+|(?<=\bexpected )\d+")
_LONG_NUMBER = re.compile(r"(?<!\d)\d{10,}(?!\d)")
_SHORTEST = 8
"""Shorter texts are not replaced by their symbols inside other texts."""


class Normalizer:
    """Normalizes the responses of one scenario.

    Args:
        world: the scenario's names, ids and time.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._symbols: dict[tuple[str, Any], str] = {}
        self._counts: dict[str, int] = {}
        self._first_epoch: int | None = None
        for place, node in enumerate(world.nodes, 1):
            self._symbols["node", node] = f"<node{place}>"

    def response(self, body: Any, view: View | None = None) -> Any:
        self._learn()
        found = masked(body)
        if view is not None:
            found = _viewed(found, view, self._world)
        normal = self._value(found, "")
        if view is not None and view.throttle:
            normal["isThrottled"] = body["throttleTimeMs"] > 0
        return normal

    def value(self, value: Any) -> Any:
        self._learn()
        return self._value(value, "")

    def _learn(self) -> None:
        """Add symbols for the scenario's own ids."""
        for short, known in self._world.topic_ids.items():
            self._symbols["id", known] = f"<id {short}>"
        for label, known in self._world.uuids.items():
            for kind in ("id", "member", "instance"):
                self._symbols[kind, known] = f"<{label}>"

    def _value(self, value: Any, key: str, is_final: bool = True) -> Any:
        if value is None:
            return [] if key in NULL_AS_EMPTY else None
        if key == "records" and isinstance(value, bytes):
            value = batches.shown(value)
        if isinstance(value, dict):
            names = sorted(value, key=lambda name: isinstance(value[name], list | dict))
            made = {
                name: self._value(value[name], name, is_final)
                for name in names
                if name not in LEFT_OUT
            }
            return {name: made[name] for name in value if name in made}
        if isinstance(value, list):
            return self._list(value, key, is_final)
        return self._leaf(value, key, is_final)

    def _list(self, value: list[Any], key: str, is_final: bool) -> list[Any]:
        if key not in UNSORTED and not all(map(_is_positional, value)):
            value = sorted(value, key=lambda each: _text_of(self._value(each, key, False)))
        return [self._value(each, key, is_final) for each in value]

    def _leaf(self, value: Any, key: str, is_final: bool) -> Any:
        if key in TIMES and isinstance(value, int):
            return self._time(value)
        if key in EPOCHS and isinstance(value, int):
            return self._epoch(value, is_final)
        if key == "leader" and isinstance(value, str):
            return self._symbol("member", value, is_final)
        if key in SYMBOLS and not isinstance(value, bool):
            return self._symbol(SYMBOLS[key], value, is_final)
        if isinstance(value, bytes):
            value = value.decode("latin1")
        return self._text(value, key) if isinstance(value, str) else value

    def _symbol(self, kind: str, value: Any, is_final: bool) -> Any:
        if value in UNCHANGED.get(kind, ()):
            return value
        if kind == "id" and value == NO_ID:
            return "<no id>"
        if (kind, value) not in self._symbols:
            if not is_final:
                return f"<{kind}?>"
            self._counts[kind] = self._counts.get(kind, 0) + 1
            self._symbols[kind, value] = f"<{kind}{self._counts[kind]}>"
        return self._symbols[kind, value]

    def _epoch(self, value: int, is_final: bool) -> Any:
        if value <= 0:
            return value
        if self._first_epoch is None:
            if not is_final:
                return "<epoch?>"
            self._first_epoch = value
        passed = value - self._first_epoch
        return f"<epoch{passed:+d}>" if passed else "<epoch>"

    def _time(self, value: int) -> Any:
        if value < 0:
            return value
        passed = value - self._world.time
        return f"<t0{passed:+d}>" if abs(passed) < TIMES_OF_SCENARIO_MS else "<time>"

    def _text(self, value: str, key: str) -> str:
        """Replace names and ids in a text; bytes in base64 are decoded if they have a name."""
        if key in {"metadata", "assignment", "memberMetadata", "memberAssignment"}:
            value = _decoded(value)
        for short, name in sorted(self._world.names.items(), key=lambda pair: -len(pair[1])):
            value = value.replace(name, short)
        value = value.replace(self._world.prefix, "")
        for (_, known), symbol in self._symbols.items():
            if isinstance(known, str) and len(known) >= _SHORTEST and known in value:
                value = value.replace(known, symbol)
        if key in TEXTS:
            for (kind, known), symbol in self._symbols.items():
                if kind == "pid":
                    value = re.sub(rf"(?<!\d){known}(?!\d)", symbol, value)
            value = _NODE.sub(lambda found: self._node(found[0]), value)
            value = _EPOCH.sub(r"\1(<epoch>)", value)
            value = _LONG_NUMBER.sub("<number>", value)
        return value

    def _node(self, number: str) -> str:
        return self._symbols.get(("node", int(number)), number)


def _is_positional(element: Any) -> bool:
    return isinstance(element, dict) and element.keys() <= POSITIONAL


def _decoded(text: str) -> str:
    """Return bytes as Latin-1 text, from base64."""
    try:
        return base64.b64decode(text, validate=True).decode("latin1")
    except ValueError:
        return text


def _text_of(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _viewed(body: Any, view: View, world: World) -> Any:
    """Return the part of a response that a view selects."""
    if isinstance(body, list):
        return [_viewed(each, view, world) for each in body]
    if not isinstance(body, dict):
        return body
    found = {}
    for name, part in body.items():
        if name in view.without:
            continue
        if isinstance(part, list | dict):
            if name in view.own and isinstance(part, list):
                part = [each for each in part if _is_own(each, world)]
            found[name] = _viewed(part, view, world)
        elif not view.only or name in view.only:
            found[name] = part
    return found


def _is_own(element: Any, world: World) -> bool:
    """Whether an element of a list has a name or an id of the scenario."""
    if isinstance(element, dict):
        return any(_is_own(part, world) for part in element.values())
    if isinstance(element, list):
        return any(_is_own(part, world) for part in element)
    own = (*world.topic_ids.values(), *world.uuids.values())
    return isinstance(element, str) and (world.prefix in element or element in own)


KEYED: Mapping[str, tuple[str, ...]] = {
    "configs": ("name",),
    "partitions": ("partitionIndex", "partition"),
    "results": ("name", "topicName", "resourceName"),
    "topics": ("name", "topic", "topicName"),
}
"""Lists that are compared by key in all APIs, besides those of `KafkaApi.unordered`."""


def order_of(api_key: int) -> Mapping[str, tuple[str, ...]]:
    """Return the lists of a response that are compared by key."""
    return {**KEYED, **(api_of_key(api_key).unordered or {})}
