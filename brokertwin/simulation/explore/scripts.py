"""A path to a violation as requests for a real broker: a scenario in the form of `exam`.

The model's ids become references to the responses that assign them. The requests of a client go
over its own connection; one that arrives late over another.
"""

import base64
import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from brokertwin.protocol.bodies import Body, render
from brokertwin.protocol.errors import error_name
from brokertwin.protocol.kafka_apis import API_KEYS
from brokertwin.protocol.schemas import API_NAMES
from brokertwin.simulation.explore import requests
from brokertwin.simulation.explore.api import Send
from brokertwin.simulation.explore.invariants import names_of
from brokertwin.simulation.explore.machine import T0, error_codes
from brokertwin.simulation.explore.shown import Story
from brokertwin.simulation.explore.world import Exchange, Happening

MARGIN_MS = 500
"""Added to each wait: a broker checks its deadlines now and then."""

MARKERS_MS = 500
"""Time in which a broker writes the markers of a transaction; in a model they are there at once."""

PASSING = (14, 15, 16, 51)
"""Errors of a broker that is still busy with an earlier request: the request is sent again."""

NAMED = frozenset({"transactionalId", "v3AndBelowTransactionalId", "groupId", "topic"})
TOPICS_BELOW = frozenset({"topicData", "topics", "v3AndBelowTopics"})
TOPIC_LISTS = frozenset({"subscribedTopicNames", "sourceTopics"})
BYTES = frozenset({"assignment", "metadata"})
"""Fields that models write as base64 or leave empty."""

SECOND = 1000
NO_RECORD = "no record"


class NotPlayableError(Exception):
    """A path with steps that no client can take."""


class Called(msgspec.Struct, frozen=True):
    """A labelled step, with the error codes of the model, and its `given` partitions."""

    label: str
    text: str
    codes: tuple[int, ...]
    given: str = ""


class Script(msgspec.Struct, frozen=True):
    """A scenario, what the model returns to its labelled steps, and the records it shows.

    Attributes:
        scenario: in the JSON form of `brokertwin/testing/exam/model.py`.
        called: the labelled steps, in order.
        committed: names of the records that read_committed shows in the end, by label.
    """

    scenario: dict[str, Any]
    called: tuple[Called, ...]
    committed: dict[str, list[str]]


class PlayedStep(NamedTuple):
    """A step on a real broker: what the model and the broker return; None without a response."""

    text: str
    model: str
    broker: str | None

    @property
    def is_same(self) -> bool:
        """True if both return the same."""
        return self.model == self.broker


class PlayedScript(NamedTuple):
    """A counterexample on a real broker.

    Attributes:
        golden: normalized responses, for an exam scenario.
        ended: why the play stopped before its last step; empty if it did not.
    """

    steps: list[PlayedStep]
    golden: list[dict[str, Any]]
    ended: str

    @property
    def is_same(self) -> bool:
        """True if the broker returns what the model returns to all steps."""
        return not self.ended and all(each.is_same for each in self.steps)


class _Writer:
    """Writes the steps; keeps the step that assigned each id."""

    def __init__(self, topics: Iterable[str]) -> None:
        self._topics = {requests.topic_id(topic): topic for topic in topics}
        self.steps: list[dict[str, Any]] = []
        self.called: list[Called] = []
        self._epochs: dict[tuple[int, int], int] = {}
        self._members: dict[str, int] = {}
        self._member_epochs: dict[tuple[str, int], int] = {}
        self._generations: dict[int, int] = {}
        self._pending: dict[tuple[str, str], None] = {}

    def add(self, **step: Any) -> int:
        """Add a step; return its number."""
        self.steps.append(step)
        return len(self.steps) - 1

    def exchange(self, each: Exchange) -> None:
        """Add the step of a line of the trace."""
        if each.kind is Happening.WAIT:
            self.add(do="wait", ms=each.wait_ms + MARGIN_MS)
        elif each.kind in (Happening.CALL, Happening.ARRIVAL):
            self._call(each)
        elif each.kind is Happening.RESPONSE:
            self._receive(each)
        elif each.kind is not Happening.GIVEN_UP:
            raise NotPlayableError(f"{each.sender} {each.text}")

    def _call(self, each: Exchange) -> None:
        send = each.send
        assert send is not None
        is_late = each.kind is Happening.ARRIVAL
        on = f"{each.sender}-late{len(self.steps)}" if is_late else each.sender
        step = {
            "on": on,
            "api": API_NAMES[API_KEYS[send.api]],
            "version": send.version,
            "body": self.body(send),
            "retry": [code for code in PASSING if code not in error_codes(each.body)],
        }
        if each.is_pending:
            self.add(do="send", **step)
            return
        number = self.add(label=self._label(each, each.text), **step)
        self._learn(number, each)
        if send.api == "END_TXN":
            self.add(do="wait", ms=MARKERS_MS)

    def _receive(self, each: Exchange) -> None:
        number = self.add(
            do="receive", on=each.receiver, label=self._label(each, f"response to {each.text}")
        )
        self._learn(number, each)

    def _label(self, each: Exchange, text: str) -> str:
        label = f"{len(self.called) + 1}: {text}"
        codes = {int(code) for code in error_codes(each.body)}
        text_of_partitions = given_partitions(msgspec.to_builtins(each.body))
        self.called.append(Called(label, text, tuple(sorted(codes)), text_of_partitions))
        return label

    def _learn(self, number: int, each: Exchange) -> None:
        """Note the ids that a response assigns."""
        body = each.body
        producer_id = getattr(body, "producer_id", -1)
        if isinstance(producer_id, int) and producer_id >= 0:
            self._epochs[producer_id, body.producer_epoch] = number
        if getattr(body, "member_id", ""):
            self._members[body.member_id] = number
            if isinstance(epoch := getattr(body, "member_epoch", 0), int) and epoch > 0:
                self._member_epochs[body.member_id, epoch] = number
        if isinstance(getattr(body, "generation_id", None), int):
            self._generations[body.generation_id] = number

    def body(self, send: Send) -> dict[str, Any]:
        """Return a request's body with references in place of the model's ids."""
        body = self._value(send.body, "", "", {})
        assert isinstance(body, dict)
        return body

    def _value(self, value: Any, name: str, parent: str, around: dict[str, Any]) -> Any:
        if isinstance(value, list):
            if name == "batches":
                return value
            return [self._value(each, "", name, around) for each in value]
        if isinstance(value, dict):
            result = {key: self._value(each, key, parent, value) for key, each in value.items()}
            if "batches" in result:
                result["records"] = self._batch(result.pop("batches")[0])
            return result
        is_topic = (name == "name" and parent in TOPICS_BELOW) or parent in TOPIC_LISTS
        if name in NAMED or (is_topic and isinstance(value, str)):
            return {"$name": value} if value is not None else None
        if value in self._topics:
            return {"$id": self._topics[value]}
        if name in BYTES:
            return _bytes(value)
        if name in ("memberId", "generationId", "generationIdOrMemberEpoch"):
            return self._group_id(name, value)
        if name == "memberEpoch":
            at = self._member_epochs.get((around["memberId"], value))
            return value if at is None else {"$ref": f"{at}.memberEpoch"}
        for ids in (("producerId", "producerEpoch"), _OLD_IDS):
            if name in ids and around.get(ids[0], -1) >= 0:
                return self._id(name == ids[1], around[ids[0]], around[ids[1]])
        return value

    def _group_id(self, name: str, value: Any) -> Any:
        if name == "memberId" and value in self._members:
            return {"$ref": f"{self._members[value]}.memberId"}
        if name != "memberId" and value in self._generations:
            return {"$ref": f"{self._generations[value]}.generationId"}
        return value

    def _id(self, is_epoch: bool, producer_id: int, epoch: int) -> Any:
        """Return a reference to the response with this producer id, and epoch."""
        number = self._epochs.get((producer_id, epoch))
        if number is not None:
            return {"$ref": f"{number}.{'producerEpoch' if is_epoch else 'producerId'}"}
        for (other, before), at in self._epochs.items():
            if other == producer_id:
                reference = {"$ref": f"{at}.{'producerEpoch' if is_epoch else 'producerId'}"}
                return {**reference, "add": epoch - before} if is_epoch else reference
        return epoch if is_epoch else producer_id

    def _batch(self, batch: dict[str, Any]) -> dict[str, Any]:
        fields: dict[str, Any] = {
            "values": [{"$text": name} for name in names_of(batch["locator"])],
            "txn": batch["isTransactional"],
        }
        if batch["producerId"] >= 0:
            ids = batch["producerId"], batch["producerEpoch"]
            fields |= {
                "pid": self._id(False, *ids),
                "epoch": self._id(True, *ids),
                "seq": batch["baseSequence"],
            }
        return {"$batch": fields}


def given_partitions(response: Any) -> str:
    """Return the partitions that a response to a heartbeat assigns, "" if it assigns none."""
    assignment = response.get("assignment") if isinstance(response, dict) else None
    if not isinstance(assignment, dict):
        return ""
    topics = assignment["topicPartitions"]
    numbers = sorted(str(each) for topic in topics for each in topic["partitions"])
    return f"partitions {', '.join(numbers)}" if numbers else "no partition"


_OLD_IDS = ("v3AndBelowProducerId", "v3AndBelowProducerEpoch")


def _bytes(value: Any) -> Any:
    return {"$hex": base64.b64decode(value or "").hex()}


def script(story: Story) -> Script:
    """Return the requests of a path, then a read of each partition with read_committed.

    Raises:
        NotPlayableError: brokers stop, start or are cut off, or messages between them are held.
    """
    model = story.model
    cluster = model.cluster
    if cluster.brokers > 1:
        raise NotPlayableError("it needs several brokers, which stop at given moments")
    writer = _Writer(cluster.topics)
    for topic, partitions in cluster.topics.items():
        writer.add(do="topic", name=topic, partitions=partitions)
    for group in cluster.groups:
        writer.add(do="coordinator", name=group, key_type=0)
    for each in cluster.transactional_ids:
        writer.add(do="coordinator", name=each, key_type=1)
    for send in cluster.setup:
        body, api = writer.body(send), API_NAMES[API_KEYS[send.api]]
        writer.add(api=api, version=send.version, body=body)
    for line in story.lines:
        writer.exchange(line)
    for topic, partition in story.committed:
        body = writer.body(requests.fetch(topic, partition, 0, is_committed=True))
        writer.add(label=read_label(topic, partition), api="Fetch", version=12, body=body)
    waited = sum(each.wait_ms for each in story.lines)
    scenario = {
        "name": model.name.replace("-", "_"),
        "rule": story.violation.partition(": ")[2],
        "source": model.about,
        "severity": "loses or duplicates data",
        "steps": writer.steps,
        "limit_s": 30 + 2 * waited // SECOND,
    }
    committed = {read_label(*place): names for place, names in story.committed.items()}
    return Script(scenario, tuple(writer.called), committed)


def read_label(topic: str, partition: int) -> str:
    """Return the label of the last read of a partition."""
    return f"read_committed {topic}-{partition}"


def compared(script: Script, outcomes: Mapping[str, str]) -> list[PlayedStep]:
    """Return the steps with what a broker did, by label: `returned`, or the records it shows."""
    steps = [
        PlayedStep(each.text, returned(each.codes, each.given), outcomes.get(each.label))
        for each in script.called
    ]
    steps += [
        PlayedStep(label, ", ".join(names) or NO_RECORD, outcomes.get(label))
        for label, names in script.committed.items()
    ]
    return steps


def returned(codes: Iterable[int], given: str) -> str:
    """Return a response's error codes and `given_partitions` in words."""
    named = [f"{code} {error_name(code)}" for code in sorted(set(codes))] or ["0 NONE"]
    return ", ".join([*named, given] if given else named)


def as_pytest(script: Script) -> str:
    """Return a test that plays a counterexample on the fixture's broker."""
    name = script.scenario["name"]
    called = {each.label: list(each.codes) for each in script.called}
    return f'''"""{script.scenario["source"]}. Written by `brokertwin explore`."""

import json

import msgspec

from brokertwin.gateway.edge_fields import Address
from brokertwin.protocol.errors import error_codes
from brokertwin.testing.exam.model import Scenario
from brokertwin.testing.exam.player import play
from brokertwin.testing.exam.site import look

SCENARIO = json.loads(r"""{json.dumps(script.scenario)}""")
CODES = {called!r}


def test_{name}(kafka_broker):
    host, _, port = kafka_broker.bootstrap.rpartition(":")
    site = look(Address(host, int(port)), ())
    played = play(msgspec.convert(SCENARIO, Scenario), site, "explored-")

    assert played.ended is None
    returned = {{
        observed.label: sorted(set(error_codes(exchange.response)))
        for observed, exchange in zip(played.observations, played.exchanges, strict=True)
        if observed.label in CODES
    }}
    assert returned == CODES
'''


def recording(story: Story, begin_ms: int = T0) -> list[dict[str, Any]]:
    """Return the exchanges in the form of a capture (docs/capture.md), for `explain`."""
    documents: list[dict[str, Any]] = []
    open_ones: dict[str, dict[str, Any]] = {}
    now = begin_ms
    for number, each in enumerate(story.lines):
        now += 10 + each.wait_ms
        send = each.send
        if send is None or each.kind is Happening.GIVEN_UP:
            continue
        if each.kind is Happening.RESPONSE:
            document = open_ones.pop(each.receiver, None)
            if document is not None:
                document["response"] = _rendered(each.body, send.version)
                document["responseTime"] = float(now - document["time"])
            continue
        document = {
            "time": now,
            "requestHeader": {
                "requestApiKey": API_KEYS[send.api],
                "requestApiVersion": send.version,
                "correlationId": number,
                "clientId": each.sender,
                "requestApiKeyName": send.api,
            },
            "request": send.body,
            "response": _rendered(each.body, send.version),
            "connection": each.sender + ("-late" if each.kind is Happening.ARRIVAL else ""),
            "responseTime": 1.0,
            "principal": "User:ANONYMOUS",
        }
        if each.is_pending:
            open_ones[each.sender] = document
        documents.append(document)
    return documents


def _rendered(body: Any, version: int) -> Any:
    return render(body, version) if isinstance(body, Body) else body
