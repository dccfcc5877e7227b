"""Scenarios of the exam with some fields of their requests changed, or sent again.

The changes depend on a seed, the API and the field, not on the order of requests or on responses.
So two brokers get the same requests. One of the last steps is sent again, like a retry after a lost
response or a late delivery by the network.
"""

import copy
import json
import re
import secrets
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import msgspec

from brokertwin.clients.io.blocking import BlockingConnection
from brokertwin.gateway.edge_fields import Address
from brokertwin.protocol.frames import RequestFrame, encode_request
from brokertwin.protocol.kafka_apis import KAFKA_APIS
from brokertwin.protocol.schemas import API_KEYS
from brokertwin.testing.exam.examination import PREFIX
from brokertwin.testing.exam.model import Do, Observation, Scenario, Step, selected
from brokertwin.testing.exam.player import codes
from brokertwin.testing.exam.site import Site
from tests.support.exams import SkippingPlayer
from tests.support.stepped_clock import SkippingClock

PATIENCE = 0.3
"""Share of its usual time for a scenario that waits for an event that never comes."""

LIMIT_S = 20
"""Scenarios with longer limits are left out."""

AS_THEY_ARE = {"CreateTopics", "Metadata", "FindCoordinator", "ApiVersions"}
"""APIs that scenarios begin with."""

TIMES = {"maxWaitMs", "minBytes", "timeoutMs", "sessionTimeoutMs", "rebalanceTimeoutMs"}
TIMES |= {"transactionTimeoutMs"}
VERSIONS = {key: (api.first, api.last) for key, api in KAFKA_APIS.items()}
VERSIONS[API_KEYS["AddPartitionsToTxn"]] = (0, 3)
"""A broker's own AddPartitionsToTxn without a transaction Kafka never answers."""


AGAIN = "comes again behind step"
"""Marks a repeated request in the description of changes."""

LATE = 4
"""So many steps later, at most, a request comes again."""

LATE_S = 0.1
"""Delay before a repeat: Kafka reports a transaction's end before its markers are written."""

NOT_AGAIN = AS_THEY_ARE | {"JoinGroup", "SyncGroup"}
"""Who joins without an id joins twice, and its group waits for both."""

ONCE = {"protocols"}
"""Not duplicated: Kafka's coordinator counts a repeated protocol twice and never responds."""

STAYING = {"stateFilters", "producerIdFilters"}
"""Others than the scenario's would be listed."""

UNWRITABLE = (struct.error, ValueError, TypeError, LookupError, AttributeError)
"""Exceptions of the codec for an invalid value, and of a scenario for an unexpected response."""

NUMBERS = (-2, -1, 0, 1, 2, 5, 100, 2**15 - 1, 2**31 - 1, -(2**31), 2**63 - 1)


def scenarios() -> dict[str, Scenario]:
    """Return the scenarios that can be changed.

    They have one broker and requests alone, and do not show the settings of the tests' brokers.
    """
    return {
        scenario.name: scenario
        for _, scenario in selected()
        if scenario.brokers == 1
        and not scenario.is_alone
        and scenario.limit_s <= LIMIT_S
        and all(step.do is not Do.RAW for step in scenario.steps)
        and all(step.api != "DescribeConfigs" for step in scenario.steps)
        and any(step.label and step.api not in AS_THEY_ARE for step in scenario.steps)
    }


def _changed(chance: Random, field: str, value: Any) -> Any:
    """Another value of the same kind, as a client at fault might send it."""
    if isinstance(value, bool):
        return not value
    if field == "durationFilter":
        return value  # some milliseconds decide
    if isinstance(value, int):
        return chance.choice([-1, 0, 1] if field in TIMES else [*NUMBERS, value - 1, value + 1])
    if isinstance(value, str):
        return chance.choice(["", None, f"{value}x", value[:-1], f"{value}é", value + "x" * 300])
    if isinstance(value, bytes):
        at = chance.randrange(len(value)) if value else 0
        flipped = value[:at] + bytes([value[at] ^ 1 << chance.randrange(8)]) if value else b"x"
        return chance.choice([b"", value[:-1], flipped + value[at + 1 :], value + value])
    if isinstance(value, list):
        twice = value[:-1] if field in ONCE else value + copy.deepcopy(value)
        return chance.choice([[], None, twice, value[::-1]])
    return chance.choice(["", "x", [], 0])


def _kind(field: str, value: Any) -> str:
    """Return a value as both brokers report it: ids and names are specific to a broker."""
    if isinstance(value, int) and not field.lower().endswith("id"):
        return str(value) if -10 < value < 100 else "large"
    return f"{type(value).__name__} {bool(value)}"


class Changes:
    """Changes of requests by a seed; `made` lists them, a line each.

    Args:
        seed: seed of the random numbers.
        rate: the share of changed fields.
        again: the share of steps after which a request is sent again.
    """

    def __init__(self, seed: str, rate: float, again: float = 0) -> None:
        self._seed = seed
        self._rate = rate
        self._again = again
        self.made: dict[str, None] = {}

    def again(self, step: int, last: list[Step]) -> Step | None:
        """Which of the last steps comes again behind this one; None: none does."""
        chance = Random(f"{self._seed} again {step}")
        if not last or chance.random() >= self._again:
            return None
        chosen = chance.choice(last)
        self.made[f"{AGAIN} {step}: {chosen.api}"] = None
        return chosen

    def of(self, api: str, version: int, body: Any) -> tuple[int, Any]:
        """Return the version and the body to send; only encodable fields are changed."""
        if api in AS_THEY_ARE:
            return version, body
        body = copy.deepcopy(body)
        self._walk(body, api, lambda: _encode(api, version, body))
        chance = Random(f"{self._seed} {api} {version}")
        if chance.random() < self._rate:
            other = chance.randint(*VERSIONS[API_KEYS[api]])
            if _works(lambda: _encode(api, other, body)):
                self.made[f"{api} v{version} -> v{other}"] = None
                return other, body
        return version, body

    def _walk(self, part: Any, path: str, encode: Callable[[], object]) -> None:
        places: Iterator[tuple[Any, Any]] = iter(
            list(part.items()) if isinstance(part, dict) else list(enumerate(part))
        )
        field = path.rpartition(".")[2]
        for key, value in places:
            name = str(key) if isinstance(part, dict) else field
            at = f"{path}.{key}"
            chance = Random(f"{self._seed} {at} {_kind(name, value)}")
            is_leaf = not isinstance(value, dict) and name not in STAYING
            if is_leaf and chance.random() < self._rate:
                part[key] = _changed(chance, name, value)
                if _works(encode):
                    self.made[f"{at}: {str(value)[:40]!r} -> {str(part[key])[:40]!r}"] = None
                else:
                    part[key] = value
            if isinstance(part[key], dict | list):
                self._walk(part[key], at, encode)


def _encode(api: str, version: int, body: Any) -> bytes:
    header = {"requestApiKey": API_KEYS[api], "requestApiVersion": version, "correlationId": 1}
    return encode_request(RequestFrame({**header, "clientId": None}, body))


def _works(encode: Callable[[], object]) -> bool:
    try:
        encode()
    except UNWRITABLE:
        return False
    return True


class ChangingConnection(BlockingConnection):
    """A connection that sends what `changes` makes of a scenario's requests."""

    changes: Changes
    met: Counter[str]

    def call(self, api: str, version: int, body: Any, is_strict: bool = True) -> Any:
        """Send a request and return its response; those of the set-up are not strict."""
        if not is_strict:
            super().send(api, version, body)
            return self.receive(is_strict)
        response = super().call(api, version, body)
        self.met.update(f"{api} {code}" for code in codes(response))
        return response

    def send(self, api: str, version: int, body: Any, has_response: bool = True) -> None:
        version, body = self.changes.of(api, version, body)
        super().send(api, version, body, has_response)


NUMBER = re.compile(r"\d+")
"""Numbers of responses and of seconds in the reason differ in each run."""


class ChangingPlayer(SkippingPlayer):
    changes: Changes
    met: Counter[str]

    def _connected(self, address: Address, client: str) -> BlockingConnection:
        security = self._site.security
        connection = ChangingConnection(address, lambda: self._deadline, client, security)
        connection.changes, connection.met = self.changes, self.met
        return connection

    def _respond(self, number: int, step: Step) -> None:
        super()._respond(number, step)
        steps = [each for each in self._scenario.steps[: number + 1] if each.do is Do.CALL]
        last = [each for each in steps[-1 - LATE :] if each.api not in NOT_AGAIN]
        chosen = self.changes.again(number, last)
        if chosen is not None:
            self._wait(LATE_S)
            once = msgspec.structs.replace(chosen, until=None)
            response = self._called(once, self._world.value(once.body or {}))
            normal = self._normal.response(response, chosen.view)
            self.observations.append(Observation(f"again {chosen.api}", response=normal))


def played(
    scenario: Scenario,
    changes: Changes,
    site: Site,
    met: Counter[str],
    clock: SkippingClock | None = None,
) -> list[str]:
    """Return the observations, and why the scenario ended early or an empty text.

    Args:
        scenario: the scenario.
        changes: the changes of its requests.
        site: the broker.
        met: counts the errors of each API.
        clock: our broker's, if its time can be skipped.
    """
    prefix = f"{PREFIX}{secrets.token_hex(4)}-"
    player = ChangingPlayer(scenario, site, prefix, PATIENCE)
    player.changes, player.met, player.clock = changes, met, clock
    try:
        found = player.run()
        ended = "" if found is None else f"{found.step}: {found.path or NUMBER.sub('', found.text)}"
    except UNWRITABLE as error:
        ended = type(error).__name__
    finally:
        player.close()
    text = json.dumps(msgspec.to_builtins(player.observations), indent=1, sort_keys=True)
    return [*text.splitlines(), ended]
