"""A group with members of both protocols on the bench; `Classic` behaves as a consumer's client."""

import base64
import struct
from typing import Any

from brokertwin.state.groups import consumer_protocol
from tests.support.consumer_groups import GROUP, ConsumerBench

Owned = dict[str, list[int]]


def subscription(*topics: str, owned: Owned | None = None, rack: str | None = None) -> str:
    """A ConsumerProtocolSubscription of version 3, in base64."""
    parts = [struct.pack(">hi", 3, len(topics)), *(_string(topic) for topic in topics)]
    parts.append(struct.pack(">ii", -1, len(owned or {})))
    for topic, numbers in (owned or {}).items():
        parts.append(_string(topic))
        parts.append(struct.pack(f">i{len(numbers)}i", len(numbers), *numbers))
    parts.append(struct.pack(">i", -1))
    parts.append(struct.pack(">h", -1) if rack is None else _string(rack))
    return base64.b64encode(b"".join(parts)).decode()


def assignment(owned: Owned) -> str:
    """A ConsumerProtocolAssignment, in base64."""
    return base64.b64encode(consumer_protocol.assignment_bytes(owned, 3)).decode()


def _string(text: str) -> bytes:
    return struct.pack(">h", len(text)) + text.encode()


class Classic:
    """A consumer of the classic protocol that follows its assignments without waiting.

    Attributes:
        member: its id, "" before it has one.
        generation: the last one that it received.
        owned: its partitions by topic name.
    """

    def __init__(self, bench: ConsumerBench, *topics: str, **given: Any) -> None:
        self._bench = bench
        self._fields = given
        self.topics = list(topics or ("foo",))
        self.member = ""
        self.generation = -1
        self.owned: Owned = {}

    def join_body(self, **changes: Any) -> dict[str, Any]:
        """A JoinGroup's body."""
        metadata = subscription(*self.topics, owned=self.owned)
        return {
            "groupId": GROUP,
            "sessionTimeoutMs": 30_000,
            "rebalanceTimeoutMs": 20_000,
            "memberId": self.member,
            "groupInstanceId": None,
            "protocolType": "consumer",
            "protocols": [{"name": "range", "metadata": metadata}],
            **self._fields,
            **changes,
        }

    def join(self, **changes: Any) -> int:
        """Sends a join that is answered at once; its error."""
        response = self._bench.request("JOIN_GROUP", 9, self.join_body(**changes))
        self.member = response["memberId"] or self.member
        if response["errorCode"] == 0:
            self.generation = response["generationId"]
        return int(response["errorCode"])

    def sync(self, **changes: Any) -> int:
        """Sends a sync that is answered at once; its error."""
        body = {
            "groupId": GROUP,
            "generationId": self.generation,
            "memberId": self.member,
            "groupInstanceId": self._fields.get("groupInstanceId"),
            "protocolType": "consumer",
            "protocolName": "range",
            "assignments": [],
            **changes,
        }
        response = self._bench.request("SYNC_GROUP", 5, body)
        if response["errorCode"] == 0:
            reported = base64.b64decode(response["assignment"])
            self.owned = consumer_protocol.assignment_of(reported).partitions
        return int(response["errorCode"])

    def heartbeat(self) -> int:
        body = {
            "groupId": GROUP,
            "generationId": self.generation,
            "memberId": self.member,
            "groupInstanceId": self._fields.get("groupInstanceId"),
        }
        return int(self._bench.request("HEARTBEAT", 4, body)["errorCode"])

    def beat(self) -> int:
        """Do the next step: a heartbeat, and a join and a sync if the response requires them."""
        if self.member and self.generation >= 0:
            error = self.heartbeat()
            if error != 27:
                return error
        if self.join() == 79:
            self.join()
        return self.sync()

    def places(self) -> set[tuple[str, int]]:
        return {(name, partition) for name, parts in self.owned.items() for partition in parts}


def classic_group(bench: ConsumerBench, *members: Classic) -> None:
    """These members form a stable classic group; the first one leads and gets everything."""
    for each in members:
        each.join()
    waiting = [_send(bench, "JOIN_GROUP", 9, each.join_body()) for each in members]
    bench.tick(2 * bench.settings.broker_settings.group_initial_rebalance_delay_ms)
    reported = [bench.responses[each]["response"] for each in waiting]
    assert [each["errorCode"] for each in reported] == [0] * len(members), reported
    leader = next(m for m, each in zip(members, reported, strict=True) if each["members"])
    leader.owned = {topic: list(range({"foo": 6, "bar": 3}[topic])) for topic in leader.topics}
    given = [{"memberId": leader.member, "assignment": assignment(leader.owned)}]
    for each, response in zip(members, reported, strict=True):
        each.generation = response["generationId"]
    followers = [each for each in members if each is not leader]
    for each in (*followers, leader):
        body = {
            "groupId": GROUP,
            "generationId": each.generation,
            "memberId": each.member,
            "protocolType": "consumer",
            "protocolName": reported[0]["protocolName"],
            "assignments": given if each is leader else [],
        }
        _send(bench, "SYNC_GROUP", 5, body)


def _send(bench: ConsumerBench, api: str, version: int, body: dict[str, Any]) -> str:
    key = {"JOIN_GROUP": 11, "SYNC_GROUP": 14}[api]
    header = {"requestApiKey": key, "requestApiVersion": version, "clientId": "app"}
    return bench.send(api, version, body, requestHeader=header)


def send_join(bench: ConsumerBench, member: Classic) -> str:
    """Sends a join that may wait; the request's id."""
    return _send(bench, "JOIN_GROUP", 9, member.join_body())
