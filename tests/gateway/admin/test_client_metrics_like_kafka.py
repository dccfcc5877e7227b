"""Client metrics (KIP-714): compare the responses with Apache Kafka 4.3.1.

Drawn instance ids differ and are masked; a subscription id is compared as that of its metrics,
without the part that depends on the instance.
"""

import gzip
import re
import time
from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any

import lz4.frame
import snappy
import zstandard

from brokertwin.gateway.edge_fields import Address
from brokertwin.protocol.bodies import ZERO_UUID
from brokertwin.state.core.java_hashes import uuid_hash
from tests.support.configs import DELETE, METRICS, SET, Change, Real, alter
from tests.support.gateways import Client, running_gateway
from tests.support.goldens import golden
from tests.support.patience import wait_until

ONE, NONE = "AAAAAAAAAAAAAAAAAAAAAQ", "none"
FIRST, SECOND, THIRD, FOURTH = ("A" * 20 + letter + "A" for letter in "BCDE")
NAME, VERSION = "told", "1.2"
MARKER = "marker"
TEXT = b"some metrics " * 50
SHORT_MS = 200
"""A push interval short enough to wait for."""
MAX_BYTES = 1 << 20


class Talk:
    """The requests to a broker and its responses."""

    def __init__(self, address: Address) -> None:
        self.responses: list[tuple[str, Any]] = []
        self._address = address
        self._connections: dict[str, Client] = {}
        self._subscriptions: dict[str, int] = {}
        self._drawn: set[str] = set()
        self._changes = 0
        self._probe = Real("{}:{}".format(*address))
        message = {"clientSoftwareName": MARKER, "clientSoftwareVersion": VERSION}
        self._probe.request("API_VERSIONS", 3, message)

    def connect(self, name: str, software: str | None = NAME, version: int = 3) -> None:
        """Open a connection under a name, in place of its former one."""
        if name in self._connections:
            self._connections.pop(name).close()
        client = self._connections[name] = Client(self._address)
        if software is not None:
            message = {"clientSoftwareName": software, "clientSoftwareVersion": VERSION}
            response = client.call("API_VERSIONS", version, message)
            listed = [each["apiKey"] for each in response["apiKeys"]]
            self._report(
                f"{name} is {software}", [response["errorCode"], 71 in listed, 72 in listed]
            )

    def subscribe(self, name: str, *changes: Change) -> None:
        response = self._alter({name: changes})
        self._report(f"{name} is altered", response["responses"][0]["errorCode"])
        self._wait()

    def forget_subscriptions(self) -> None:
        gone = [(key, DELETE, None) for key in ("metrics", "interval.ms", "match")]
        self._alter(dict.fromkeys(self._listed(), gone))
        self._wait()
        self._alter({MARKER: gone})
        wait_until(lambda: not self._listed())

    def _alter(self, changes: Mapping[str, Sequence[Change]]) -> dict[str, Any]:
        wanted = [(METRICS, name, list(own)) for name, own in changes.items()]
        return dict(alter(self._probe, "INCREMENTAL_ALTER_CONFIGS", 1, wanted))

    def _listed(self) -> list[str]:
        response = self._probe.request("LIST_CONFIG_RESOURCES", 1, resourceTypes=[METRICS])
        return [each["resourceName"] for each in response["configResources"]]

    def _wait(self) -> None:
        """Wait for a later change of another subscription: a broker applies them in order."""
        self._changes += 1
        marks = f"mark-{self._changes}."
        match = f"client_software_name={MARKER}"
        self._alter({MARKER: [("metrics", SET, marks), ("match", SET, match)]})

        def is_there() -> bool:
            response = self._probe.request("GET_TELEMETRY_SUBSCRIPTIONS", 0, {})
            return marks in response["requestedMetrics"]

        wait_until(is_there)

    def get(self, instance_id: str = FIRST, connection: str = "a") -> dict[str, Any]:
        """Send GetTelemetrySubscriptions."""
        body = {"clientInstanceId": instance_id}
        response = self._connections[connection].call("GET_TELEMETRY_SUBSCRIPTIONS", 0, body)
        if response["errorCode"] == 0:
            client_instance_id = response["clientInstanceId"]
            self._subscriptions[client_instance_id] = response["subscriptionId"]
            if instance_id == ZERO_UUID:
                assert re.fullmatch(r"[\w][\w-]{21}", client_instance_id), client_instance_id
                plain = (response["subscriptionId"] ^ uuid_hash(client_instance_id)) & 0xFFFFFFFF
                self._drawn.add(client_instance_id)
                fields = {**response, "clientInstanceId": "drawn", "subscriptionId": plain}
                self._report(f"{connection} gets a new one", fields)
                return response
        self._report(f"{connection} gets {self._name(instance_id)}", response)
        return response

    def _name(self, instance_id: str) -> str:
        return "what was drawn" if instance_id in self._drawn else instance_id

    def push(
        self,
        instance_id: str = FIRST,
        connection: str = "a",
        metrics: bytes = TEXT,
        kind: int = 0,
        off: int = 0,
        terminating: bool = False,
    ) -> None:
        """Send PushTelemetry with the last subscription id, or one that is `off` by that."""
        body = {
            "clientInstanceId": instance_id,
            "subscriptionId": self._subscriptions.get(instance_id, 0) + off,
            "terminating": terminating,
            "compressionType": kind,
            "metrics": b64encode(metrics).decode(),
        }
        response = self._connections[connection].call("PUSH_TELEMETRY", 0, body)
        given = f"{kind} {len(metrics)} {off} {terminating}"
        self._report(f"{connection} pushes {self._name(instance_id)} {given}", response)

    def close(self) -> None:
        for client in (self._probe.client, *self._connections.values()):
            client.close()

    def _report(self, what: str, response: Any) -> None:
        self.responses.append((what, response))


def _instances(talk: Talk) -> None:
    """Play drawn, reserved and given instance ids, and the order of refusals."""
    talk.connect("a")
    talk.push(ZERO_UUID)
    talk.push(ONE)
    drawn = talk.get(ZERO_UUID)["clientInstanceId"]
    talk.get(drawn)
    talk.push(drawn)
    talk.push(drawn)
    talk.get(ONE)
    talk.get(FIRST)
    talk.get(FIRST)
    talk.push(FIRST, off=1)
    talk.get(FIRST)
    talk.push(FIRST, kind=9)
    talk.push(FIRST, kind=9, terminating=True, off=1)
    talk.push(FIRST, terminating=True)
    talk.push(FIRST, terminating=False)
    talk.push(FIRST, terminating=True)
    talk.push(FIRST, terminating=True, kind=-1)
    talk.get(FIRST)
    talk.push(SECOND)
    talk.get(SECOND)
    talk.push(SECOND, metrics=b"", kind=4)


def _compressed(talk: Talk) -> None:
    """Play every codec: valid, cut off, too large, and too large when decompressed."""
    made = {
        0: TEXT,
        1: gzip.compress(TEXT),
        2: snappy.compress(TEXT),
        3: lz4.frame.compress(TEXT, block_linked=False),
        4: zstandard.compress(TEXT),
    }
    bomb = b"\0" * (MAX_BYTES + 1)
    packed = {1: gzip.compress(bomb), 2: snappy.compress(bomb), 4: zstandard.compress(bomb)}
    packed[3] = lz4.frame.compress(bomb, block_linked=False)
    talk.connect("b")
    talk.get(THIRD, "b")
    for kind, metrics in made.items():
        talk.push(THIRD, "b", metrics, kind, terminating=True)
        talk.push(THIRD, "b", metrics, kind)  # terminated before, and accepted again
        if kind:
            talk.push(THIRD, "b", metrics[: len(metrics) // 2], kind, terminating=True)
            talk.push(THIRD, "b")
            talk.push(THIRD, "b", b"no such thing", kind, terminating=True)
            talk.push(THIRD, "b")
            talk.push(THIRD, "b", packed[kind], kind, terminating=True)
            talk.push(THIRD, "b")
    for size in (MAX_BYTES, MAX_BYTES + 1):
        talk.push(THIRD, "b", b"\0" * size, terminating=True)
        talk.push(THIRD, "b")


def _subscriptions(talk: Talk) -> None:
    """Play matching of clients, metrics, and changes of a subscription."""
    mine = f"client_software_name={NAME}"
    interval = str(SHORT_MS)
    talk.subscribe("one", ("metrics", SET, "z.,a.,org.b,org.c"), ("match", SET, mine))
    talk.get(FIRST)
    talk.get(FIRST)
    more = f"{mine},client_software_version=1\\..,client_source_address=127\\.0\\.0\\.1"
    talk.subscribe("two", ("metrics", SET, "q.,a."), ("match", SET, more))
    talk.subscribe("two", ("interval.ms", SET, interval))
    response = talk.get(FIRST)
    assert response["pushIntervalMs"] == SHORT_MS
    for name, patterns in {
        "by id": "client_id=tester,client_source_port=[0-9]+",
        "by instance": f"client_instance_id={FIRST}",
        "of others": "client_id=teste",
        "of another port": "client_source_port=7",
    }.items():
        talk.subscribe(name, ("match", SET, f"{mine},{patterns}"), ("metrics", SET, f"{name}."))
    talk.push(FIRST)
    talk.get(FIRST)
    talk.get(SECOND)
    for report in (talk.get, talk.push, talk.push, talk.get):
        time.sleep(SHORT_MS / 1000)
        report(FIRST)
    talk.subscribe("all", ("metrics", SET, "*,m."), ("match", SET, mine))
    talk.get(FIRST)


def _connections(talk: Talk) -> None:
    """Play client names, and instances that end with their connection."""
    mine = f"client_software_name={NAME}"
    talk.forget_subscriptions()
    talk.subscribe("named", ("metrics", SET, "n."), ("match", SET, mine))
    for name, software, version in (
        ("wrong", "no name!", 3),
        ("old", NAME, 2),
        ("silent", None, 3),
        ("other", "other", 3),
    ):
        talk.connect(name, software, version)
        talk.get(ZERO_UUID, name)
    talk.subscribe(
        "unknown", ("metrics", SET, "u."), ("match", SET, "client_software_name=unknown")
    )
    talk.subscribe("empty", ("metrics", SET, "e."), ("match", SET, "client_software_name=(|x)"))
    for name in ("wrong", "old", "silent", "other"):
        talk.get(ZERO_UUID, name)
    talk.connect("other", "other")
    talk.get(FOURTH, "other")
    talk.connect("named")
    talk.get(FOURTH, "named")  # the same instance under another client name
    talk.connect("other", "other")  # its former connection is closed
    wait_until(lambda: talk.get(FOURTH, "named")["errorCode"] == 0)
    last = talk.responses[-1]
    while talk.responses[-1][0] == last[0]:
        talk.responses.pop()
    talk.responses.append(last)


PARTS = (_instances, _compressed, _subscriptions, _connections)


def talk(address: Address) -> list[tuple[str, Any]]:
    """Send all requests to a broker, and return its responses."""
    found = Talk(address)
    found.forget_subscriptions()
    for part in PARTS:
        part(found)
    found.forget_subscriptions()
    found.close()
    return found.responses


def test_telemetry_requests_get_kafkas_responses(real_kafka: Address) -> None:
    with running_gateway() as running:
        ours = talk(running.addresses[1])
    steps = [what for what, _ in ours]
    real = golden("telemetry/client_metrics", lambda: talk(real_kafka), scenario=steps)
    for expected, actual in zip(real, ours, strict=True):
        assert actual == expected
