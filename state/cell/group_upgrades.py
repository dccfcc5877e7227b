"""Step 6 -> 7 of `upgrades.py`: groups and their records in the form of Kafka's rows.

Records of groups are in batches of internal topics with followers, and in uncommitted writes. A
batch with a coordinator's whole state has encoded items, too.
"""

from base64 import b64decode
from collections.abc import Callable
from typing import Any

import msgspec

from brokertwin.state.core.check import kind_of

Document = dict[str, Any]

WRITTEN = 17
"""Place of a coordinator's records in a stored batch."""

RECORDS, ROWS = 2, 5
"""Places of records in the continuation of an uncommitted write."""

_KEY = ("groupId", "memberId", "regularExpression")
_decode, _encode = msgspec.msgpack.decode, msgspec.msgpack.encode


def group(item: Document) -> Document:
    """Return an item of the table `groups` of the kind `group`."""
    if item["type"] == "classic":
        return {**item, "metadata": item.get("metadata") and _classic(item["metadata"])}
    if item["type"] == "consumer":
        members = {name: _consumer_member(each) for name, each in item["members"].items()}
        value = "ConsumerGroupRegularExpressionValue"
        resolved = {regex: {"type": value, **each} for regex, each in item["resolved"].items()}
        return {**item, "members": members, "resolved": resolved}
    if item["type"] == "share":
        states = ("initializing", "initialized")
        return {
            **item,
            **{name: {i: {"topicId": i, **s} for i, s in item[name].items()} for name in states},
        }
    return {**item, "topology": item["topology"] and _topology(item["topology"])}


def chunk(item: list[Any]) -> list[Any]:
    """Return an item of the table `logs` of the kind `chunk`."""
    for batch in item[0]:
        if len(batch) > WRITTEN and batch[WRITTEN] is not None:
            batch[WRITTEN] = _written(batch[WRITTEN])
    return item


def commit(item: Document) -> Document:
    """Return an item of the table `pending` of the kind `commit`."""
    state = _decode(item["state"])
    for place in (RECORDS, ROWS):
        state[place] = [record(each) for each in state[place]]
    return {**item, "state": _encode(state)}


def _written(encoded: bytes) -> bytes:
    found = _decode(encoded)
    if isinstance(found, list):
        return _encode([record(each) for each in found])
    return _encode({**found, "records": [record(each) for each in found["records"]]})


def record(old: Document) -> Document:
    """Return a record; those that are not of groups are as before."""
    kind = old["type"]
    if kind == "PartitionTaken":
        return {**old, "items": {name: _taken(name, each) for name, each in old["items"].items()}}
    if kind == "GroupRemoved":
        return _row("GroupMetadata", {"group": old["groupId"]}, None)
    if kind == "GroupMetadataWritten":
        return _row("GroupMetadata", {"group": old["groupId"]}, _classic(old["metadata"]))
    name = kind.removesuffix("Written").removesuffix("Removed")
    if not name.startswith(("ConsumerGroup", "ShareGroup", "StreamsGroup")):
        return old
    key = {each: old[each] for each in _KEY if each in old}
    return _row(
        name, key, _value(name, {each: old[each] for each in old if each not in (*_KEY, "type")})
    )


def _row(name: str, key: Document, value: Document | None) -> Document:
    row = value and {"type": f"{name}Value", **value}
    return {"type": "GroupRecord", "key": {"type": f"{name}Key", **key}, "value": row}


def _taken(table: str, items: dict[str, bytes]) -> dict[str, bytes]:
    return {key: upgraded(table, f"0/{key}", encoded) or encoded for key, encoded in items.items()}


def upgraded(table: str, key: str, encoded: bytes) -> bytes | None:
    """Return an encoded item in the new form; None if it is as before."""
    step = _STEPS.get((table, kind_of(key)))
    return None if step is None else _encode(step(_decode(encoded)))


_STEPS: dict[tuple[str, str], Callable[[Any], Any]] = {
    ("groups", "group"): group,
    ("logs", "chunk"): chunk,
    ("pending", "commit"): commit,
}
"""The function for items of a table and a kind."""


def _classic(metadata: Document) -> Document:
    return {
        "type": "GroupMetadataValue",
        **metadata,
        "members": [_classic_member(each) for each in metadata["members"]],
    }


def _classic_member(member: Document) -> Document:
    found = dict(member)
    found["rebalanceTimeout"] = found.pop("rebalanceTimeoutMs")
    found["sessionTimeout"] = found.pop("sessionTimeoutMs")
    return found | {name: b64decode(found[name]) for name in ("subscription", "assignment")}


def _consumer_member(member: Document, name: str = "classic_member_metadata") -> Document:
    classic = member.get(name)
    if classic is None:
        return member
    protocols = [
        {"name": each, "metadata": b64decode(data)} for each, data in classic["supportedProtocols"]
    ]
    return {**member, name: {**classic, "supportedProtocols": protocols}}


def _topology(topology: Document) -> Document:
    for part in topology["subtopologies"]:
        for topic in (*part["stateChangelogTopics"], *part["repartitionSourceTopics"]):
            topic["topicConfigs"] = _pairs(dict(topic["topicConfigs"]))
    return {"type": "StreamsGroupTopologyValue", **topology}


def _pairs(configs: dict[str, str]) -> list[Document]:
    return [{"key": key, "value": value} for key, value in configs.items()]


def _topics(topics: dict[str, Any]) -> list[Document]:
    return [{"topicId": topic_id, **_partitions(each)} for topic_id, each in topics.items()]


def _tasks(tasks: Document, ending: str = "") -> Document:
    """Return the lists of tasks by role, each by subtopology."""
    return {
        f"{role}Tasks{ending}": [
            {"subtopologyId": part, **_partitions(numbers)}
            for part, numbers in sorted(tasks[role].items())
        ]
        for role in ("active", "standby", "warmup")
    }


def _partitions(numbers: list[int] | dict[int, int]) -> Document:
    document: Document = {"partitions": sorted(numbers)}
    if isinstance(numbers, dict):
        document["assignmentEpochs"] = [numbers[each] for each in sorted(numbers)]
    return document


def _value(name: str, content: Document) -> Document | None:
    """Return the value of a row from the fields of a record that are not of its key."""
    epoch = content.get("epoch", content.get("assignmentEpoch"))
    if name.endswith(("GroupMetadata", "TargetAssignmentMetadata")):
        configs = content.get("lastAssignmentConfigs")
        more = {} if configs is None else {"lastAssignmentConfigs": _pairs(configs)}
        return None if epoch is None else content | more
    value: Document | None = next(iter(content.values()), None)
    if value is None:
        return None
    match name.removeprefix("Consumer").removeprefix("Share").removeprefix("Streams"):
        case "GroupTargetAssignmentMember":
            is_streams = name.startswith("Streams")
            return _tasks(value) if is_streams else {"topicPartitions": _topics(value)}
        case "GroupCurrentMemberAssignment":
            epochs = {each: value[each] for each in ("memberEpoch", "previousMemberEpoch", "state")}
            if "assigned" in value:
                revoked = _tasks(value["pendingRevocation"], "PendingRevocation")
                return {**epochs, **_tasks(value["assigned"]), **revoked}
            names = [each for each in value if each not in epochs]
            return {**epochs, **{each: _topics(value[each]) for each in names}}
        case "GroupMemberMetadata" if name.startswith("Streams"):
            return {**value, "clientTags": _pairs(dict(sorted(value["clientTags"].items())))}
        case "GroupMemberMetadata":
            return _consumer_member(value, "classicMemberMetadata")
        case "GroupTopology":
            return _topology(value)
        case "GroupStatePartitionMetadata":
            return {
                f"{state}Topics": [
                    {
                        "topicId": topic_id,
                        **({"topicName": each} if isinstance(each, str) else each),
                    }
                    for topic_id, each in value[state].items()
                ]
                for state in ("initializing", "initialized", "deleting")
            }
    return value
