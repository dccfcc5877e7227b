"""Scenarios of the exam: requests, golden responses and the rule that they test.

A scenario is data. Its requests are written by hand, one step a line; `python -m tests.exam.record`
writes the responses of a real Kafka below them. The exam only reads them.
"""

import json
from collections.abc import Iterable, Iterator
from enum import StrEnum
from functools import cache
from importlib import resources
from typing import Any

import msgspec

from brokertwin.protocol.schemas import API_KEYS

FILES = "brokertwin.testing.exam.scenarios"
SUFFIX = ".json"
RETRIED = (14, 15, 16)
"""Codes of requests that a client sends again: the coordinator is loading, absent or elsewhere."""


class ExamSeverity(StrEnum):
    """Consequence of a deviation, the worst first; `verdicts.consequence` decides."""

    DATA = "loses or duplicates data"
    CLIENTS = "breaks clients"
    FIELD = "differs in a field that clients read"
    UNREAD = "differs in what nobody reads"


class Do(StrEnum):
    """Action of a step."""

    CALL = "call"
    """Send a request and receive its response."""
    SEND = "send"
    """Send a request; a later step receives the response."""
    RECEIVE = "receive"
    """Receive the response to the oldest pending request of the connection."""
    RAW = "raw"
    """Send bytes in a frame, or without one."""
    OUTCOME = "outcome"
    """Observe whether the broker responds or closes the connection."""
    SILENT = "silent"
    """Observe whether the connection has nothing to read for `ms`."""
    CLOSE = "close"
    """Close the connection."""
    TOPIC = "topic"
    """Create a topic and wait until it is usable."""
    COORDINATOR = "coordinator"
    """Wait until this broker coordinates a name."""
    WAIT = "wait"
    """Wait for `ms`."""
    RESTART = "restart"
    """Restart the home broker; all connections end."""


class Until(msgspec.Struct, frozen=True, omit_defaults=True):
    """Condition that ends the repetition of a request: the value at `path` is one of `values`.

    With `is_not`, it is none of them. A path with `*` has several values; one is enough. If the
    value is missing, the condition is false. Values may be expressions.
    """

    path: str
    values: list[Any]
    is_not: bool = False


class View(msgspec.Struct, frozen=True, omit_defaults=True):
    """The compared part of a response.

    Attributes:
        own: lists; only their elements with names of this scenario are compared.
        only: names of the compared fields; empty: all.
        without: names of fields that are not compared.
        throttle: compare whether `throttleTimeMs` is positive.
    """

    own: list[str] = []
    only: list[str] = []
    without: list[str] = []
    throttle: bool = False


class Step(msgspec.Struct, frozen=True, omit_defaults=True):
    """A step of a scenario.

    Attributes:
        label: description in reports; only steps with a label are compared.
        on: name of the connection; empty: the default connection.
        client: name of the client id of a connection, without the prefix; empty: `exam`.
        api: name in Kafka's message schemas, like `CreateTopics`.
        version: version of the API.
        body: the request, with the expressions of `bodies.py`; RAW: an expression of bytes.
        retry: error codes; the request is repeated while the response has one of them.
        until: the request is repeated until this is true.
        follow: fields of the body that a repeated request copies from the last response.
        view: the compared part of the response; None: all of it.
        ms: WAIT, SILENT: duration.
        name: TOPIC, COORDINATOR: name without the prefix.
        partitions: TOPIC: number of partitions.
        replicas: TOPIC: for each partition, numbers of brokers, the leader first.
        configs: TOPIC: topic configurations.
        key_type: COORDINATOR: 0 group, 1 transaction.
        broker: number of the broker to connect to, from 1; 0: the home broker.
        is_bare: RAW: send the bytes without a size field.
        has_no_response: SEND: Produce with acks 0.
    """

    do: Do = Do.CALL
    label: str = ""
    on: str = ""
    client: str = ""
    api: str = ""
    version: int = 0
    body: Any = None
    retry: list[int] = msgspec.field(default_factory=lambda: list(RETRIED))
    until: Until | None = None
    follow: list[str] = []
    view: View | None = None
    ms: int = 0
    name: str = ""
    partitions: int = 1
    replicas: list[list[int]] = []
    configs: dict[str, str] = {}
    key_type: int = 0
    broker: int = 0
    is_bare: bool = False
    has_no_response: bool = False


class Observation(msgspec.Struct, frozen=True, omit_defaults=True):
    """Result of a labelled step: a normalized response, or a value."""

    label: str
    response: Any = None
    value: Any = None


class Scenario(msgspec.Struct, frozen=True, omit_defaults=True):
    """Requests, and the responses of Kafka to them.

    Attributes:
        name: unique in its subject.
        rule: one sentence.
        source: the class in Kafka that implements the rule.
        severity: worst consequence of a deviation: DATA or CLIENTS.
        steps: steps in order.
        golden: results of the labelled steps with Kafka 4.3.1.
        kip: Kafka Improvement Proposal; empty if there is none.
        brokers: number of brokers that it needs.
        is_single: it needs a cluster of one broker.
        settings: broker settings that the golden depends on.
        started_with: broker settings other than Kafka's defaults, which the broker must show.
        features: finalized feature levels that it needs, at least.
        is_anonymous: it needs connections in plain text, without a login.
        is_alone: no other scenario runs at the same time: for restarts, for topics of hundreds of
            partitions, and where a broker verifies transactions. It sends the verifications of
            several producers together, and their errors are those for the version of the first
            one's request (120 or 48).
    """

    name: str
    rule: str
    source: str
    severity: ExamSeverity
    steps: list[Step]
    golden: list[Observation] = []
    kip: str = ""
    brokers: int = 1
    is_single: bool = False
    settings: dict[str, str] = {}
    started_with: dict[str, str] = {}
    features: dict[str, int] = {}
    is_anonymous: bool = False
    is_alone: bool = False
    limit_s: int = 20

    @property
    def needs(self) -> set[tuple[str, int]]:
        requests = {(each.api, each.version) for each in self.steps if each.api in API_KEYS}
        return requests - {("ApiVersions", version) for version in range(100)}

    @property
    def labels(self) -> list[str]:
        return [step.label for step in self.steps if step.label]

    @property
    def described_settings(self) -> set[str]:
        """Names of broker settings that decide whether it is played."""
        return {*self.settings, *self.started_with}

    @property
    def has_restart(self) -> bool:
        return any(step.do is Do.RESTART for step in self.steps)


class ExamSubject(msgspec.Struct, frozen=True, omit_defaults=True):
    """Scenarios about one subject.

    Attributes:
        name: the name of its file.
        kafka: the version that the goldens were recorded with.
        scenarios: in order.
    """

    name: str
    title: str
    kafka: str
    scenarios: list[Scenario]


@cache
def subjects() -> tuple[ExamSubject, ...]:
    folder = resources.files(FILES)
    files = sorted(each.name for each in folder.iterdir() if each.name.endswith(SUFFIX))
    return tuple(read(folder.joinpath(name).read_bytes()) for name in files)


def read(data: bytes) -> ExamSubject:
    """Decode the file of a subject. Raises msgspec.ValidationError."""
    return msgspec.json.decode(data, type=ExamSubject)


def written(subject: ExamSubject) -> bytes:
    """Encode the file of a subject, a step or a response a line, so that changes are readable."""
    document = msgspec.to_builtins(subject)
    del document["scenarios"]
    scenarios = ",\n".join(map(as_text, subject.scenarios))
    return (f'{json.dumps(document)[:-1]}, "scenarios": [\n' + scenarios + "\n]}\n").encode()


def as_text(scenario: Scenario) -> str:
    """Encode a scenario: the rule and its source, then a step or a response a line."""
    document = msgspec.to_builtins(scenario)
    steps = [_short(step) for step in document["steps"]]
    return lines({**document, "steps": steps}, ("steps", "golden"))


def lines(document: dict[str, Any], lists: Iterable[str]) -> str:
    """Encode a document: its other fields in one line, then each element of these lists in one."""
    text = json.dumps({name: part for name, part in document.items() if name not in lists})[:-1]
    for name in lists:
        elements = ",\n  ".join(json.dumps(each) for each in document.get(name, []))
        text += f',\n "{name}": [\n  {elements}\n ]' if elements else ""
    return text + "}"


def _short(step: dict[str, Any]) -> dict[str, Any]:
    is_default = step["retry"] == list(RETRIED)
    return {name: part for name, part in step.items() if name != "retry" or not is_default}


def selected(names: Iterable[str] = ()) -> Iterator[tuple[ExamSubject, Scenario]]:
    """Yield scenarios with their subjects.

    Args:
        names: subjects, scenarios or beginnings of scenarios' names; none selects all.
    """
    wanted = tuple(names)
    for subject in subjects():
        for scenario in subject.scenarios:
            if not wanted or subject.name in wanted or scenario.name.startswith(wanted):
                yield subject, scenario
