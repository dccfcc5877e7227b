"""Client metrics: the gateway answers clients like a real 4.3.1.

An id that a broker has drawn has no two alike; the id of what its client is subscribed to is told
without it, as that of the metrics alone.
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

from brokertwin.gateway.answers import Address
from brokertwin.state.core.java_hashes import uuid_hash
from brokertwin.state.core.schema import ZERO_UUID
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
"""A push interval that is waited for."""
MAX_BYTES = 1 << 20


class Talk:
    """What is said with a broker, and what came of it."""

    def __init__(self, address: Address) -> None:
        self.said: list[tuple[str, Any]] = []
        self._address = address
        self._connections: dict[str, Client] = {}
        self._subscriptions: dict[str, int] = {}
        self._drawn: set[str] = set()
        self._changes = 0
        self._probe = Real("{}:{}".format(*address))
        says = {"clientSoftwareName": MARKER, "clientSoftwareVersion": VERSION}
        self._probe.request("API_VERSIONS", 3, says)

    def connect(self, name: str, software: str | None = NAME, version: int = 3) -> None:
        """A connection by a name, in the place of the one of before."""
        if name in self._connections:
            self._connections.pop(name).close()
        client = self._connections[name] = Client(self._address)
        if software is not None:
            says = {"clientSoftwareName": software, "clientSoftwareVersion": VERSION}
            answer = client.call("API_VERSIONS", version, says)
            listed = [each["apiKey"] for each in answer["apiKeys"]]
            self._say(f"{name} is {software}", [answer["errorCode"], 71 in listed, 72 in listed])

    def subscribe(self, name: str, *changes: Change) -> None:
        """Alter a subscription, and wait until the broker acts on it."""
        answer = self._alter({name: changes})
        self._say(f"{name} is altered", answer["responses"][0]["errorCode"])
        self._wait()

    def forget_subscriptions(self) -> None:
        """No subscription is left, be it another test's."""
        gone = [(key, DELETE, None) for key in ("metrics", "interval.ms", "match")]
        self._alter(dict.fromkeys(self._listed(), gone))
        self._wait()
        self._alter({MARKER: gone})
        wait_until(lambda: not self._listed())

    def _alter(self, changes: Mapping[str, Sequence[Change]]) -> dict[str, Any]:
        wanted = [(METRICS, name, list(own)) for name, own in changes.items()]
        return dict(alter(self._probe, "INCREMENTAL_ALTER_CONFIGS", 1, wanted))

    def _listed(self) -> list[str]:
        answer = self._probe.request("LIST_CONFIG_RESOURCES", 1, {"resourceTypes": [METRICS]})
        return [each["resourceName"] for each in answer["configResources"]]

    def _wait(self) -> None:
        """Until a later change of another subscription shows: a broker takes them in order."""
        self._changes += 1
        marks = f"mark-{self._changes}."
        match = f"client_software_name={MARKER}"
        self._alter({MARKER: [("metrics", SET, marks), ("match", SET, match)]})

        def is_there() -> bool:
            answer = self._probe.request("GET_TELEMETRY_SUBSCRIPTIONS", 0, {})
            return marks in answer["requestedMetrics"]

        wait_until(is_there)

    def get(self, instance_id: str = FIRST, connection: str = "a") -> dict[str, Any]:
        """GetTelemetrySubscriptions."""
        asked = {"clientInstanceId": instance_id}
        answer = self._connections[connection].call("GET_TELEMETRY_SUBSCRIPTIONS", 0, asked)
        if answer["errorCode"] == 0:
            known = answer["clientInstanceId"]
            self._subscriptions[known] = answer["subscriptionId"]
            if instance_id == ZERO_UUID:
                assert re.fullmatch(r"[\w][\w-]{21}", known), known
                plain = (answer["subscriptionId"] ^ uuid_hash(known)) & 0xFFFFFFFF
                self._drawn.add(known)
                told = {**answer, "clientInstanceId": "drawn", "subscriptionId": plain}
                self._say(f"{connection} gets a new one", told)
                return answer
        self._say(f"{connection} gets {self._name(instance_id)}", answer)
        return answer

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
        """PushTelemetry, for the subscription that was told last, or one that is `off` by that."""
        body = {
            "clientInstanceId": instance_id,
            "subscriptionId": self._subscriptions.get(instance_id, 0) + off,
            "terminating": terminating,
            "compressionType": kind,
            "metrics": b64encode(metrics).decode(),
        }
        answer = self._connections[connection].call("PUSH_TELEMETRY", 0, body)
        said = f"{kind} {len(metrics)} {off} {terminating}"
        self._say(f"{connection} pushes {self._name(instance_id)} {said}", answer)

    def close(self) -> None:
        for client in (self._probe.client, *self._connections.values()):
            client.close()

    def _say(self, what: str, answer: Any) -> None:
        self.said.append((what, answer))


def _instances(talk: Talk) -> None:
    """Ids that are drawn, reserved or given; what refuses a push, and in which order."""
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
    """What is sent in every codec, right, cut off, too large, and too large when decompressed."""
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
        talk.push(THIRD, "b", metrics, kind)  # it has said that it ends, and is heard again
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
    """Who is meant by subscriptions, with which metrics, and what a change of one does."""
    mine = f"client_software_name={NAME}"
    interval = str(SHORT_MS)
    talk.subscribe("one", ("metrics", SET, "z.,a.,org.b,org.c"), ("match", SET, mine))
    talk.get(FIRST)
    talk.get(FIRST)
    more = f"{mine},client_software_version=1\\..,client_source_address=127\\.0\\.0\\.1"
    talk.subscribe("two", ("metrics", SET, "q.,a."), ("match", SET, more))
    talk.subscribe("two", ("interval.ms", SET, interval))
    told = talk.get(FIRST)
    assert told["pushIntervalMs"] == SHORT_MS
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
    for say in (talk.get, talk.push, talk.push, talk.get):
        time.sleep(SHORT_MS / 1000)
        say(FIRST)
    talk.subscribe("all", ("metrics", SET, "*,m."), ("match", SET, mine))
    talk.get(FIRST)


def _connections(talk: Talk) -> None:
    """What a client is called stays; an instance ends with the connection that it came by."""
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
    talk.get(FOURTH, "named")  # it is known by another name
    talk.connect("other", "other")  # the one that it came by is gone
    wait_until(lambda: talk.get(FOURTH, "named")["errorCode"] == 0)
    last = talk.said[-1]
    while talk.said[-1][0] == last[0]:
        talk.said.pop()
    talk.said.append(last)


PARTS = (_instances, _compressed, _subscriptions, _connections)


def talk(address: Address) -> list[tuple[str, Any]]:
    """Everything that is asked of a broker, and its answers."""
    found = Talk(address)
    found.forget_subscriptions()
    for part in PARTS:
        part(found)
    found.forget_subscriptions()
    found.close()
    return found.said


def test_telemetry_requests_get_kafkas_responses(real_kafka: Address) -> None:
    with running_gateway() as running:
        ours = talk(running.addresses[1])
    asked = [what for what, _ in ours]
    real = golden("telemetry/client_metrics", lambda: talk(real_kafka), scenario=asked)
    for expected, found in zip(real, ours, strict=True):
        assert found == expected
