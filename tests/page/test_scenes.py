"""Scenes of the playground: each plays over the model as it says, and like a real broker."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from crc32c import crc32c

from brokertwin.gateway.edge_fields import Address
from brokertwin.page.assembly import ASSETS
from brokertwin.page.browser import SCENES
from brokertwin.page.scenes import Player, SceneError, error_codes
from brokertwin.protocol.errors import error_name
from brokertwin.protocol.kafka_apis import API_KEYS
from tests.support.batches import batch
from tests.support.gateways import Client, decode_response
from tests.support.goldens import IS_LIVE, real_broker, tape
from tests.support.patience import wait_until
from tests.support.schedules import SETTINGS, real_cluster

NAMES = sorted(path.name for path in (ASSETS / SCENES).iterdir())
Step = Mapping[str, Any]


def scene_of(name: str) -> dict[str, Any]:
    scene: dict[str, Any] = json.loads((ASSETS / SCENES / name).read_text(encoding="utf-8"))
    return scene


def shown(scene: Mapping[str, Any]) -> list[Step]:
    return [step for step in scene["steps"] if not step.get("hidden")]


@pytest.mark.parametrize("name", NAMES)
def test_a_scene_says_the_error_of_each_step(name: str) -> None:
    scene = scene_of(name)
    player = Player(scene)
    errors = [player.do(step)["errors"] for step in shown(scene)]
    assert errors == [step.get("errors", []) for step in shown(scene)]


@pytest.mark.parametrize("name", NAMES)
def test_a_scene_is_complete(name: str) -> None:
    scene = scene_of(name)
    assert scene["title"]
    assert len(scene["about"].split()) > 10
    assert 6 <= len(shown(scene)) <= 14, "at most a minute"
    assert all(step["say"] for step in shown(scene))
    assert sum("rule" in step for step in shown(scene)) >= 2
    assert all(step["source"] for step in shown(scene) if "rule" in step)


def test_there_are_ten_scenes_for_the_five_documents() -> None:
    documents = " ".join(scene_of(name)["document"] for name in NAMES)
    assert len(NAMES) >= 10
    assert all(number in documents for number in ("000", "001", "002", "003", "004"))


def test_changes_name_rows_and_their_values_before_and_after() -> None:
    scene = scene_of("02-idempotent-producer.json")
    player = Player(scene)
    found = [player.do(step) for step in shown(scene)[:2]]
    (log,) = (each for each in found[1]["changes"] if each["table"] == "logs")
    assert log["change"] == "changed"
    assert log["row"] == {"broker": 1, "topic": "orders", "partition": 0}
    assert log["fields"]["logEndOffset"] == [0, 1]


def test_a_lost_response_keeps_no_value() -> None:
    scene = scene_of("01-fetch-session.json")
    player = Player(scene)
    player.do({**shown(scene)[0], "lost": True})
    with pytest.raises(SceneError, match="No step has kept 'session' yet"):
        player.do(shown(scene)[2])


@pytest.mark.parametrize(
    ("step", "problem"),
    [
        ({"api": "FETCHES", "version": 1}, "There is no API 'FETCHES'"),
        ({"api": "METADATA", "version": 99}, "version"),
        ({"api": "METADATA", "version": 12, "request": {"topics": 7}}, "topics"),
    ],
)
def test_a_request_that_cannot_be_sent_says_why(step: Step, problem: str) -> None:
    player = Player({"steps": []})
    with pytest.raises(SceneError, match=problem):
        player.do(step)


# Compared with a real broker

LONGEST_MS = 5_000
"""A step that lets more time pass ends the comparison: a real broker has no other clock."""

COMPARED = {
    *("baseOffset", "highWatermark", "lastStableOffset", "generationId", "firstOffset"),
    *("lastOffset", "deliveryCount", "committedOffset", "acknowledgeErrorCode", "partitionIndex"),
}
"""Fields whose values are compared beside the error codes."""

TRANSIENT = {
    *("NOT_LEADER_OR_FOLLOWER", "NOT_COORDINATOR", "COORDINATOR_LOAD_IN_PROGRESS"),
    *("COORDINATOR_NOT_AVAILABLE", "CONCURRENT_TRANSACTIONS", "UNKNOWN_TOPIC_OR_PARTITION"),
}


@pytest.mark.compares
@pytest.mark.parametrize("name", NAMES)
def test_a_scene_plays_like_real_brokers(name: str, tmp_path: Path) -> None:
    scene = scene_of(name)
    player = Player(scene)
    steps = list(_soon(scene))
    assert len(steps) >= 3
    with tape(f"page/{name.removesuffix('.json')}") as recorded, _real(scene, tmp_path) as real:
        for step in steps:
            found = player.do(step)
            ours = [_outcome(each["response"]) for each in found["responses"]]
            request = [step.get("api"), step.get("version"), step.get("request"), found["waits"]]

            def send(step: Step = step, found: Mapping[str, Any] = found) -> list[Any]:
                assert real is not None
                made = real.outcomes(step, found)
                real.settle(player)
                return made

            assert ours == recorded.response(request, send), step["say"]


def _soon(scene: Mapping[str, Any]) -> Iterator[Step]:
    """The steps up to one that takes one broker too long; a cluster has shorter settings."""
    for step in shown(scene):
        if len(scene["brokers"]) == 1 and step.get("after_ms", 0) > LONGEST_MS:
            return
        yield step


@contextmanager
def _real(scene: Mapping[str, Any], directory: Path) -> "Iterator[Real | None]":
    if not IS_LIVE:
        yield None
        return
    with ExitStack() as stack:
        if len(scene["brokers"]) == 1:
            address = stack.enter_context(real_broker(directory))
            real = Real(scene, lambda _: address)
        else:
            cluster = stack.enter_context(real_cluster(directory, len(scene["brokers"]), SETTINGS))
            real = Real(scene, cluster.address, cluster.act)
        yield real
        real.close()


def _outcome(body: Any) -> list[Any]:
    return [[error_name(code) for code in error_codes(body)], list(_values(body))]


def _values(body: Any) -> Iterator[list[Any]]:
    if isinstance(body, list):
        for each in body:
            yield from _values(each)
    elif isinstance(body, dict):
        for name, value in body.items():
            if name in COMPARED:
                yield [name, value]
            elif name not in ("batches", "records"):
                yield from _values(value)


VERBS = {"isolate": "halt", "rejoin": "rejoin", "stop": "stop", "start": "start"}


class Real:
    """The same steps for real brokers: a connection for each client, and values of its own.

    Args:
        scene: the scene; its hidden steps are sent.
        address: of a real broker.
        act: stops, starts or halts one. Real broker 1 is the controller, which cannot be stopped:
            it changes its number with the first broker to which nothing happens.
    """

    def __init__(
        self,
        scene: Mapping[str, Any],
        address: Callable[[int], Address],
        act: Callable[[str, int], None] | None = None,
    ) -> None:
        self._address, self._act = address, act
        self._clients: dict[tuple[str, int], Client] = {}
        self._player = Player({"steps": []})
        self._waiting: dict[str, tuple[Step, Client]] = {}
        hit = {step["event"]["broker"] for step in scene["steps"] if "event" in step}
        first = next(broker for broker in scene["brokers"] if broker not in hit)
        self._numbers = {broker: broker for broker in scene["brokers"]} | {1: first, first: 1}
        for step in scene["steps"]:
            if step.get("hidden"):
                self._until_ready(step)

    def close(self) -> None:
        for client in self._clients.values():
            client.close()

    def _until_ready(self, step: Step) -> None:
        """Repeat a step that prepares the scene until a coordinator is there."""
        for _ in range(100):
            response = self._client(step).call(step["api"], step["version"], self._body(step))
            if not error_codes(response):
                self._player.keep(step.get("keep", {}), response)
                return
            time.sleep(0.2)
        raise AssertionError(f"{step['api']} is still refused: {response}")

    def outcomes(self, step: Step, found: Mapping[str, Any]) -> list[Any]:
        """The outcomes of the responses that the model gives in this step."""
        time.sleep(min(step.get("after_ms", 0), LONGEST_MS) / 1000)
        made = []
        if "event" in step:
            assert self._act is not None
            verb = VERBS[step["event"]["kind"].removesuffix("-broker")]
            self._act(verb, self._numbers[step["event"]["broker"]])
        if "api" in step:
            client = self._client(step)
            client.send(step["api"], step["version"], self._body(step))
            self._waiting[step["api"] + step["client"]] = (step, client)
        for each in found["responses"]:
            who, _, api = each["to"].partition(" ")
            asked, sender = self._waiting.pop(api + who)
            made.append(self._received(asked, sender, _outcome(each["response"])))
        return made

    def settle(self, player: Player) -> None:
        """Wait until the partitions have the leaders and in-sync sets of the model."""
        if self._act is None:
            return
        wanted = {
            (row["topic"], row["partition"]): (
                self._numbers[row["leader"]],
                sorted(self._numbers[broker] for broker in row["isr"]),
            )
            for row in player.tables()["partitions"]
        }
        with Client(self._address(1)) as client:
            wait_until(lambda: _described(client) == wanted, f"leaders and in-sync sets: {wanted}")

    def _received(self, step: Step, client: Client, expected: Any) -> list[Any]:
        """The outcome; a real broker needs a moment to become leader or coordinator."""
        response = self._decoded(step, client)
        for _ in range(100):
            names = {error_name(code) for code in error_codes(response)}
            if not names & TRANSIENT or names <= set(expected[0]):
                break
            time.sleep(0.1)
            client.send(step["api"], step["version"], self._body(step))
            response = self._decoded(step, client)
        if not step.get("lost"):
            self._player.keep(step.get("keep", {}), response)
        return _outcome(response)

    def _decoded(self, step: Step, client: Client) -> Any:
        _, response = decode_response(API_KEYS[step["api"]], step["version"], client.receive())
        return response

    def _client(self, step: Step) -> Client:
        name, broker = step.get("client", "client"), self._numbers[step.get("broker", 1)]
        if (name, broker) not in self._clients:
            self._clients[name, broker] = Client(self._address(broker), name=name)
        return self._clients[name, broker]

    def _body(self, step: Step) -> dict[str, Any]:
        body: dict[str, Any] = self._player.filled(step.get("request", {}))
        if step["api"] == "CREATE_TOPICS" and self._act is not None:
            replicas = {"partitionIndex": 0, "brokerIds": list(self._numbers.values())}
            for topic in body["topics"]:
                topic |= {"numPartitions": -1, "replicationFactor": -1, "assignments": [replicas]}
        if step["api"] == "PRODUCE":
            for topic in body["topicData"]:
                for part in topic["partitionData"]:
                    part["records"] = _records(part.pop("batches")[0])
        return body


def _described(client: Client) -> dict[tuple[str, int], tuple[int, list[int]]]:
    topics = client.call("METADATA", 12, topics=None)["topics"]
    return {
        (topic["name"], each["partitionIndex"]): (each["leaderId"], sorted(each["isrNodes"]))
        for topic in topics
        for each in topic["partitions"]
    }


def _records(header: Mapping[str, Any]) -> bytes:
    producer = tuple(
        header.get(name, -1) for name in ("producerId", "producerEpoch", "baseSequence")
    )
    made = batch(*[b"x"] * header["recordCount"], producer=producer)  # type: ignore[arg-type]
    return transactional(made) if header.get("isTransactional") else made


def transactional(records: bytes) -> bytes:
    """A batch with the flag of a transaction, and its checksum."""
    made = bytearray(records)
    made[22] |= 0x10
    made[17:21] = crc32c(bytes(made[21:])).to_bytes(4, "big")
    return bytes(made)
