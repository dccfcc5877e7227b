"""Request bodies of scenarios: JSON with expressions.

| expression | value |
|---|---|
| `{"$ref": "3.topics.0.topicId", "add": 1}` | value in the response of step 3, plus 1 |
| `{"$name": "a"}` | name of a topic, group or user of this scenario |
| `{"$id": "a"}` | id of the topic that a TOPIC step created |
| `{"$uuid": "x"}` | a random UUID, the same in the whole scenario |
| `{"$node": 1}` | node id of the first broker |
| `{"$at": 5}` | time of the scenario plus 5 ms |
| `{"$repeat": ["x", 3]}` | `xxx` |
| `{"$concat": ["x", {"$name": "a"}]}` | a text of several |
| `{"$text": "x"}`, `{"$hex": "00"}` | bytes |
| `{"$batch": {…}}` | a record batch: `batches.from_fields` |
| `{"$subscription": ["a"]}` | metadata of a consumer in a classic group |
| `{"$join": […]}`, `{"$cut": [data, 3]}` | concatenated bytes; bytes without the last three |
| `{"$frame": {…}}` | a request with its header: `_frame` |
"""

import base64
import struct
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from brokertwin.protocol.frames import RequestFrame, encode_request
from brokertwin.protocol.schemas import API_KEYS
from brokertwin.testing.exam import batches

CLIENT_ID = "exam"
RAW_CORRELATION_ID = 7
"""Correlation id of frames that a scenario encodes itself."""


HEADER_BYTES = 10
"""API key, version, correlation id and the size of the client id."""

UNKNOWN_TAGS = bytes([1, 0xE8, 0x07, 3]) + b"new"
"""Tagged fields: one with tag 1000 and three bytes."""


class MissingError(LookupError):
    """A step refers to a value that an earlier response does not have."""


EACH = "*"
"""Part of a path: all elements of a list."""


def at_path(value: Any, path: str) -> Any:
    """Return the part of a response at `topics.0.errorCode`; `topics.*.name` is a list.

    Raises MissingError.
    """
    found = value
    parts = path.split(".") if path else []
    for at, part in enumerate(parts):
        if part == EACH and isinstance(found, list):
            return [at_path(each, ".".join(parts[at + 1 :])) for each in found]
        try:
            found = found[int(part)] if isinstance(found, list) else found[part]
        except (LookupError, TypeError, ValueError):
            raise MissingError(f"no {part} in {path}") from None
    return found


class World:
    """The values that expressions refer to.

    Args:
        prefix: prefix of all names.
        time: time of the scenario, in ms since 1970.
        nodes: node ids of the brokers, the home broker first if only one is used.
    """

    def __init__(self, prefix: str, time: int, nodes: list[int]) -> None:
        self.prefix, self.time, self.nodes = prefix, time, nodes
        self.responses: dict[int, Any] = {}
        self.topic_ids: dict[str, str] = {}
        self.names: dict[str, str] = {}
        self.uuids: dict[str, str] = {}

    def name(self, short: str) -> str:
        return self.names.setdefault(short, self.prefix + short)

    def uuid(self, label: str) -> str:
        """Return a random UUID in Kafka's text form, always the same for a label."""
        if label not in self.uuids:
            drawn = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
            self.uuids[label] = "A" + drawn[1:]  # a leading hyphen is not allowed everywhere
        return self.uuids[label]

    def value(self, part: Any) -> Any:
        """Return a body with all expressions evaluated. Raises MissingError."""
        if isinstance(part, list):
            return [self.value(each) for each in part]
        if not isinstance(part, dict):
            return part
        for name, evaluate in EXPRESSIONS.items():
            if name in part:
                return evaluate(self, part)
        return {name: self.value(each) for name, each in part.items()}

    def _ref(self, part: Mapping[str, Any]) -> Any:
        step, _, path = part["$ref"].partition(".")
        if int(step) not in self.responses:
            raise MissingError(f"step {step} has no response")
        found = at_path(self.responses[int(step)], path)
        try:
            return found + part["add"] if "add" in part else found
        except TypeError:
            raise MissingError(f"{found!r} at {path}") from None

    def _id(self, part: Mapping[str, Any]) -> str:
        if part["$id"] not in self.topic_ids:
            raise MissingError(f"no topic id of {part['$id']}")
        return self.topic_ids[part["$id"]]

    def _cut(self, part: Mapping[str, Any]) -> bytes:
        data, count = part["$cut"]
        found: bytes = self.value(data)
        return found[: len(found) - count]

    def _frame(self, part: Mapping[str, Any]) -> bytes:
        """Return a request's header and body.

        Args:
            part: `api`, `version` and `body`; `key` and `sentVersion` in place of the true ones;
                `clientId`; `hasUnknownTags`: header and body end with a tagged field that no
                version of the API has.
        """
        given = part["$frame"]
        header = {
            "requestApiKey": API_KEYS[given["api"]],
            "requestApiVersion": given["version"],
            "correlationId": RAW_CORRELATION_ID,
            "clientId": given.get("clientId", CLIENT_ID),
        }
        data = encode_request(RequestFrame(header, self.value(given.get("body") or {})))
        if given.get("hasUnknownTags"):
            at = HEADER_BYTES + len(header["clientId"].encode())
            assert data[at] == data[-1] == 0, "no flexible version, or a tagged field is set"
            data = data[:at] + UNKNOWN_TAGS + data[at + 1 : -1] + UNKNOWN_TAGS
        key = given.get("key", header["requestApiKey"])
        version = given.get("sentVersion", header["requestApiVersion"])
        return struct.pack(">hh", key, version) + data[4:]


def _subscription(topics: list[str]) -> bytes:
    """Return `ConsumerProtocolSubscription` v0 without user data."""
    data = struct.pack(">hi", 0, len(topics))
    for topic in topics:
        data += struct.pack(">h", len(topic)) + topic.encode()
    return data + struct.pack(">i", -1)


EXPRESSIONS: dict[str, Callable[[World, Mapping[str, Any]], Any]] = {
    "$ref": World._ref,
    "$name": lambda world, part: world.name(part["$name"]),
    "$id": World._id,
    "$uuid": lambda world, part: world.uuid(part["$uuid"]),
    "$node": lambda world, part: world.nodes[part["$node"] - 1],
    "$at": lambda world, part: world.time + part["$at"],
    "$repeat": lambda world, part: part["$repeat"][0] * part["$repeat"][1],
    "$concat": lambda world, part: "".join(map(world.value, part["$concat"])),
    "$text": lambda world, part: world.value(part["$text"]).encode(),
    "$hex": lambda world, part: bytes.fromhex(part["$hex"]),
    "$batch": lambda world, part: batches.from_fields(world.value(part["$batch"]), world.time),
    "$subscription": lambda world, part: _subscription(world.value(part["$subscription"])),
    "$join": lambda world, part: b"".join(world.value(part["$join"])),
    "$cut": World._cut,
    "$frame": World._frame,
}
