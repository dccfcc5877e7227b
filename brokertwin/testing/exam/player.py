"""Sends the requests of a scenario and observes the responses."""

import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from brokertwin.clients.io.blocking import (
    BlockingConnection,
    BrokerClosedError,
    Pending,
    UndecodableResponseError,
    decoded,
)
from brokertwin.gateway.edge_fields import Address
from brokertwin.protocol.errors import Error, error_name
from brokertwin.recordings.replay.comparison import ABSENT
from brokertwin.testing.exam.bodies import (
    CLIENT_ID,
    EACH,
    RAW_CORRELATION_ID,
    MissingError,
    World,
    at_path,
)
from brokertwin.testing.exam.model import RETRIED, Do, Observation, Scenario, Step, Until
from brokertwin.testing.exam.normal import Normalizer
from brokertwin.testing.exam.site import Site
from brokertwin.wording import counted

PREPARING = frozenset(
    {
        *(Error.NONE, Error.MEMBER_ID_REQUIRED, Error.REBALANCE_IN_PROGRESS),
        *(Error.INCONSISTENT_GROUP_PROTOCOL, Error.UNKNOWN_MEMBER_ID),
    }
)
"""Codes that Kafka, too, returns to preparations."""

POLL_S = 0.05
RESTART_S = 3.0
BEFORE_S = 5
"""A scenario's records are some seconds old, so that no broker refuses them."""

TOPIC_AUTHORIZATION_FAILED, CLUSTER_AUTHORIZATION_FAILED = 29, 31
NAMES_TRIED = 200
"""Names tried until the home broker coordinates one."""


class ExamExchange(NamedTuple):
    """A request and the body of its response, for reports."""

    api: str
    version: int
    request: Any
    response: Any


class Played(NamedTuple):
    """Results of a scenario.

    Attributes:
        observations: results of the labelled steps, in order.
        exchanges: request of each observation; None for bytes and connections.
        ended: why the scenario stopped before its last step; None if it did not.
        refused: the first preparation that Kafka accepts and the broker refused, with its error.
        refused_at: number of observations before it.
    """

    observations: list[Observation]
    exchanges: list[ExamExchange | None]
    ended: "Ended | None"
    elapsed_s: float
    refused: str = ""
    refused_at: int = 0


class Ended(NamedTuple):
    """Why a scenario stopped before its last step.

    Attributes:
        step: label or description of the step.
        text: what happened.
        path: field whose expected value never came; empty if that is not the reason.
        expected: values that the scenario waits for, in words.
        got: value in the last response.
        exchange: the last request and its response.
        code: error code of a set-up request; 0 otherwise.
    """

    step: str
    text: str
    path: str = ""
    expected: Any = None
    got: Any = None
    exchange: ExamExchange | None = None
    code: int = 0


class SetupError(Exception):
    """A topic or a coordinator is not ready in time; `code` is the reported error."""

    def __init__(self, reason: str, code: int = 0) -> None:
        super().__init__(f"{reason}: {code} {error_name(code)}" if code else reason)
        self.code = code


class NeverError(Exception):
    """A request was repeated in vain; `ended` describes the last response."""

    def __init__(self, ended: Ended) -> None:
        super().__init__(ended.text)
        self.ended = ended


def play(scenario: Scenario, site: Site, prefix: str, patience: float = 1.0) -> Played:
    """Play a scenario.

    Args:
        scenario: the scenario.
        site: the examined brokers.
        prefix: prefix of all names that it creates.
        patience: factor for the time limit, for slow brokers.
    """
    player = Player(scenario, site, prefix, patience)
    began = time.monotonic()
    try:
        ended = player.run()
    finally:
        player.close()
    elapsed_s = time.monotonic() - began
    refused = player.refused, player.refused_at
    return Played(player.observations, player.exchanges, ended, elapsed_s, *refused)


class Player:
    def __init__(self, scenario: Scenario, site: Site, prefix: str, patience: float) -> None:
        nodes = list(site.brokers)
        nodes = [site.home, *(node for node in nodes if node != site.home)]
        self.observations: list[Observation] = []
        self.exchanges: list[ExamExchange | None] = []
        self.refused, self.refused_at = "", 0
        self._scenario, self._site = scenario, site
        self._limit_s = scenario.limit_s * patience
        self._deadline = time.monotonic() + self._limit_s
        self._world = World(prefix, int((time.time() - BEFORE_S) * 1000), nodes)
        self._normal = Normalizer(self._world)
        self._connections: dict[str, BlockingConnection] = {}
        self._sent: dict[str, list[tuple[Step, Any]]] = {}

    def close(self) -> None:
        for each in self._connections.values():
            each.close()

    def run(self) -> Ended | None:
        """Run all steps; return why the scenario ended early."""
        for number, step in enumerate(self._scenario.steps):
            try:
                self._take(number, step)
            except NeverError as never:
                return never.ended
            except BrokerClosedError:
                return Ended(_described(step), "the broker closed the connection")
            except TimeoutError:
                return Ended(_described(step), f"no response within {self._limit_s:g} s")
            except SetupError as error:
                return Ended(_described(step), str(error), code=error.code)
            except (UndecodableResponseError, MissingError, OSError) as error:
                return Ended(_described(step), str(error))
        return None

    def _take(self, number: int, step: Step) -> None:
        if step.do in (Do.CALL, Do.RECEIVE):
            self._respond(number, step)
            return
        actions: dict[Do, Callable[[Step], None]] = {
            Do.SEND: self._send,
            Do.RAW: self._raw,
            Do.OUTCOME: self._outcome,
            Do.SILENT: self._silent,
            Do.CLOSE: self._close,
            Do.TOPIC: self._topic,
            Do.COORDINATOR: self._coordinator,
            Do.WAIT: lambda each: self._wait(each.ms / 1000),
            Do.RESTART: self._restart,
        }
        actions[step.do](step)

    # Requests

    def _respond(self, number: int, step: Step) -> None:
        if step.do is Do.RECEIVE:
            sent, response = self._receive(step)
            step = step if step.api else sent[0]
            body = sent[1]
        else:
            body = self._world.value(step.body or {})
            response = self._called(step, body)
        self._world.responses[number] = response
        if step.label or self._scenario.steps[number].label:
            label = self._scenario.steps[number].label
            view = self._scenario.steps[number].view
            normal = self._normal.response(response, view)
            self.observations.append(Observation(label, response=normal))
            self.exchanges.append(ExamExchange(step.api, step.version, body, response))
        elif not self.refused and step.until is None and (failed := codes(response) - PREPARING):
            code = min(failed)
            self.refused = f"{step.api}: got {code} {error_name(code)}"
            self.refused_at = len(self.observations)

    def _called(self, step: Step, body: Any) -> Any:
        connection, until = self._connection(step), step.until
        if until is not None:
            until = Until(until.path, self._world.value(until.values), until.is_not)
        response, count = None, 0
        try:
            while True:
                response = connection.call(step.api, step.version, body)
                count += 1
                is_passing = bool(step.retry) and bool(codes(response) & set(step.retry))
                if not is_passing and (until is None or holds(until, response)):
                    return response
                if not codes(response) - {0}:
                    body = body | {name: response[name] for name in step.follow if name in response}
                self._wait(POLL_S)
        except TimeoutError:
            if response is None:
                raise
            last = ExamExchange(step.api, step.version, body, response)
            raise NeverError(never(step, until, last, count, self._limit_s)) from None

    def _send(self, step: Step) -> None:
        body = self._world.value(step.body or {})
        connection = self._connection(step)
        connection.send(step.api, step.version, body, not step.has_no_response)
        if not step.has_no_response:
            self._sent.setdefault(step.on, []).append((step, body))

    def _receive(self, step: Step) -> tuple[tuple[Step, Any], Any]:
        connection = self._connection(step)
        if step.api:
            pending = Pending(step.api, step.version, RAW_CORRELATION_ID)
            return (step, None), decoded(pending, connection.receive_frame())
        return self._sent[step.on].pop(0), connection.receive()

    def _raw(self, step: Step) -> None:
        data = self._world.value(step.body)
        connection = self._connection(step)
        (connection.send_bytes if step.is_bare else connection.send_frame)(data)

    def _outcome(self, step: Step) -> None:
        try:
            self._connection(step).receive_frame()
            value = "response"
        except BrokerClosedError:
            value = "closed"
        self._observe(step, value)

    def _silent(self, step: Step) -> None:
        is_silent = self._connection(step).is_silent(step.ms)
        self._observe(step, "silent" if is_silent else "response")

    def _observe(self, step: Step, value: Any) -> None:
        self.observations.append(Observation(step.label, value=self._normal.value(value)))
        self.exchanges.append(None)

    def _close(self, step: Step) -> None:
        self._connections.pop(step.on).close()

    def _connection(self, step: Step) -> BlockingConnection:
        if step.on not in self._connections:
            number = step.broker
            home = self._site.brokers[self._site.home]
            nodes = self._world.nodes
            address = self._site.brokers[nodes[number - 1]] if number else home
            client = self._world.name(step.client) if step.client else CLIENT_ID
            self._connections[step.on] = self._connected(address, client)
        return self._connections[step.on]

    def _restart(self, _: Step) -> None:
        """Restart the home broker; the time limit begins again."""
        self.close()
        self._connections.clear()
        self._sent.clear()
        assert self._site.restart is not None, "Site.missing"
        self._site.restart()
        self._deadline = time.monotonic() + self._limit_s

    def _connected(self, address: Address, client: str) -> BlockingConnection:
        """Connect; a broker that has crashed may come back."""
        limit = time.monotonic() + RESTART_S
        while True:
            try:
                security = self._site.security
                return BlockingConnection(address, lambda: self._deadline, client, security)
            except ConnectionRefusedError:
                if time.monotonic() > limit:
                    raise
                self._wait(POLL_S)

    def _wait(self, seconds: float) -> None:
        if time.monotonic() + seconds > self._deadline:
            raise TimeoutError
        time.sleep(seconds)

    def _pause(self, reason: str, code: int) -> None:
        """Wait briefly. Raises SetupError with the reason at the time limit."""
        try:
            self._wait(POLL_S)
        except TimeoutError:
            raise SetupError(reason, code) from None

    # Set-up

    def _setup_call(self, api: str, most: int, body: Any) -> Any:
        """Send a request in the newest version that the broker claims."""
        version = self._site.version(api, most)
        if version is None:
            raise SetupError(f"{api} is not claimed")
        return self._connection(Step()).call(api, version, body, is_strict=False)

    def _topic(self, step: Step) -> None:
        name = self._world.name(step.name)
        can_create = "CreateTopics" in self._site.claims
        if can_create:
            self._create(step, name)
        wanted = {"topics": [{"name": name}], "allowAutoTopicCreation": not can_create}
        while True:
            (topic,) = self._setup_call("Metadata", 12, wanted)["topics"]
            led = [each for each in topic["partitions"] if each["leaderId"] >= 0]
            if not topic["errorCode"] and len(led) >= step.partitions and self._serves(step, name):
                break
            if topic["errorCode"] in (TOPIC_AUTHORIZATION_FAILED, CLUSTER_AUTHORIZATION_FAILED):
                raise SetupError("Metadata of the topic", topic["errorCode"])
            self._pause(
                f"the topic is not usable after {self._limit_s:g} s, {len(led)} of"
                f" {step.partitions} partitions have a leader",
                topic["errorCode"],
            )
        if "topicId" in topic:
            self._world.topic_ids[step.name] = topic["topicId"]

    def _create(self, step: Step, name: str) -> None:
        has_choice = len(self._site.brokers) > 1
        nodes = self._world.nodes
        replicas = step.replicas or [[1]] * step.partitions
        places = [
            {"partitionIndex": place, "brokerIds": [nodes[number - 1] for number in numbers]}
            for place, numbers in enumerate(replicas)
        ]
        topic = {
            "name": name,
            "numPartitions": -1 if has_choice else step.partitions,
            "replicationFactor": -1 if has_choice else 1,
            "assignments": places if has_choice else [],
            "configs": [{"name": key, "value": value} for key, value in step.configs.items()],
        }
        body = {"topics": [topic], "timeoutMs": 20_000}
        (created,) = self._setup_call("CreateTopics", 7, body)["topics"]
        if created["errorCode"]:
            raise SetupError("CreateTopics failed", created["errorCode"])

    def _serves(self, step: Step, name: str) -> bool:
        """True if the home broker leads all partitions that it should lead."""
        led = [p for p in range(step.partitions) if not step.replicas or step.replicas[p][0] == 1]
        places = [{"partitionIndex": place, "timestamp": -1} for place in led]
        body = {"replicaId": -1, "topics": [{"name": name, "partitions": places}]}
        response = self._setup_call("ListOffsets", 7, body)
        return not codes(response) - {0}

    def _coordinator(self, step: Step) -> None:
        names = [step.name, *(f"{step.name}.{number}" for number in range(NAMES_TRIED))]
        is_alone = len(self._site.brokers) == 1
        for short in names[:1] if is_alone else names:
            name = self._world.prefix + short
            if self._coordinates(name, step.key_type):
                self._world.names[step.name] = name
                return
        raise SetupError(f"the home broker coordinates none of {NAMES_TRIED} names")

    def _coordinates(self, name: str, key_type: int) -> bool:
        """Wait for a coordinator; return whether it is the home broker."""
        body = {"keyType": key_type, "coordinatorKeys": [name], "key": name}
        while True:
            response = self._setup_call("FindCoordinator", 4, body)
            (coordinator,) = response.get("coordinators") or [response]
            if coordinator["errorCode"] == 0:
                return (
                    bool(coordinator["nodeId"] == self._site.home) or len(self._site.brokers) == 1
                )
            if coordinator["errorCode"] not in RETRIED:
                raise SetupError("FindCoordinator failed", coordinator["errorCode"])
            self._pause(f"no coordinator after {self._limit_s:g} s", coordinator["errorCode"])


def _described(step: Step) -> str:
    return step.label or " ".join(part for part in (step.do.value, step.api, step.name) if part)


def codes(response: Any) -> set[int]:
    if isinstance(response, list):
        return set().union(*map(codes, response)) if response else set()
    if not isinstance(response, dict):
        return set()
    found = {response["errorCode"]} if "errorCode" in response else set()
    return found.union(*map(codes, response.values()))


def never(step: Step, until: Until | None, last: ExamExchange, count: int, limit_s: float) -> Ended:
    """Return why a repeated request ended the scenario."""
    text = f"after {counted(count, 'response')} in {limit_s:g} s"
    failed = next(_failures(last.response, ""), None)
    if until is None or (failed is not None and not until.path.endswith("errorCode")):
        path, code = failed or ("", 0)
        return Ended(_described(step), text, path, 0, code, last)
    try:
        got = at_path(last.response, until.path)
    except MissingError:
        got = ABSENT
    one = until.values[0] if len(until.values) == 1 else until.values
    expected = {"not": one} if until.is_not else one
    return Ended(_described(step), text, until.path, expected, got, last)


def _failures(response: Any, path: str) -> Iterator[tuple[str, int]]:
    """Yield path and value of each error code that is not 0."""
    if isinstance(response, list):
        for at, part in enumerate(response):
            yield from _failures(part, f"{path}[{at}]")
    elif isinstance(response, dict):
        for name, part in response.items():
            if name == "errorCode" and part:
                yield f"{path}.{name}".lstrip("."), part
            yield from _failures(part, f"{path}.{name}".lstrip("."))


def holds(until: Until, response: Any) -> bool:
    """True if the value at the path fulfils a condition."""
    try:
        found = at_path(response, until.path)
    except MissingError:
        return False
    is_list = EACH in until.path.split(".")
    is_there = any(each in until.values for each in (found if is_list else [found]))
    return is_there is not until.is_not
