"""The scenarios of the exam with some fields of their requests changed, or sent again.

The changes depend on a seed, the API and the field, not on the order of requests or on responses.
So two brokers get the same requests. One of the last steps is sent again, like a retry after a lost
response or a late delivery by the network.
"""

import copy
import json
import secrets
import struct
import time
from collections import Counter
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import msgspec

from brokertwin.gateway.edge_fields import Address
from brokertwin.gateway.protocol.frames import RequestFrame, encode_request
from brokertwin.state.core.kafka_apis import KAFKA_APIS
from brokertwin.testing.exam.bodies import CLIENT_ID
from brokertwin.testing.exam.model import KEYS, Do, Observation, Scenario, Step, selected
from brokertwin.testing.exam.normal import TEXTS
from brokertwin.testing.exam.player import Player, codes
from brokertwin.testing.exam.site import Site, look
from tests.support.stepped_clock import SkippingClock

WHOLE = "to its end"
"""How a transcript ends that no odd answer has cut."""

SCENARIOS = {
    scenario.name: scenario
    for _, scenario in selected()
    if scenario.brokers == 1
    and not scenario.is_alone
    and all(step.do is not Do.SEND for step in scenario.steps)
}
"""Scenarios in which no request overtakes another one."""

LIMIT_S = 6.0
"""Time for a scenario that waits for an event that never comes."""

AS_THEY_ARE = {"CreateTopics", "Metadata", "FindCoordinator", "ApiVersions"}
"""What scenarios begin with."""

TIMES = {"maxWaitMs", "minBytes", "timeoutMs", "sessionTimeoutMs", "rebalanceTimeoutMs"}
TIMES |= {"transactionTimeoutMs"}
VERSIONS = {
    "".join(word.capitalize() for word in api.name.split("_")): (api.first, api.last)
    for api in KAFKA_APIS.values()
} | {"AddPartitionsToTxn": (0, 3)}
"""A broker's own AddPartitionsToTxn without a transaction Kafka never answers."""

AGAIN = "comes again behind step"
"""Marks a repeated request in the description of changes."""

SKIPPED_S = 0.002
"""How long a wait takes that our clock skips."""

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


def _changed(chance: Random, field: str, value: Any) -> Any:
    """Another value of the same kind, as a client at fault might send it."""
    if isinstance(value, bool):
        return not value
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

    def again(self, step: int, last: list[Any]) -> Any:
        """Which of the last steps comes again behind this one; None: none does."""
        chance = Random(f"{self._seed} again {step}")
        return chance.choice(last) if last and chance.random() < self._again else None

    def came_again(self, step: int, api: str) -> None:
        """Says that a request was sent again."""
        self.made[f"{AGAIN} {step}: {api}"] = None

    def of(self, api: str, version: int, body: Any) -> tuple[int, Any]:
        """Return the version and the body to send; only encodable fields are changed."""
        if api in AS_THEY_ARE:
            return version, body
        body = copy.deepcopy(body)
        self._walk(body, api, lambda: _encoded(api, version, body))
        chance = Random(f"{self._seed} {api} {version}")
        if chance.random() < self._rate:
            other = chance.randint(*VERSIONS[api])
            if _works(lambda: _encoded(api, other, body)):
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


def _works(encode: Callable[[], object]) -> bool:
    try:
        encode()
    except UNWRITABLE:
        return False
    return True


def _encoded(api: str, version: int, body: Any) -> bytes:
    header = {"requestApiKey": KEYS[api], "requestApiVersion": version}
    return encode_request(RequestFrame({**header, "correlationId": 1, "clientId": CLIENT_ID}, body))


class ChangedPlayer(Player):
    """A player that sends what `changes` makes of a scenario's requests."""

    def __init__(
        self, scenario: Scenario, site: Site, changes: Changes, clock: SkippingClock | None
    ) -> None:
        prefix = f"changed-{secrets.token_hex(3)}-"
        super().__init__(scenario, site, prefix, LIMIT_S / scenario.limit_s, time.sleep)
        self.met = Counter[str]()
        self._changes, self._clock = changes, clock
        self._calls: list[tuple[int, Step, Any]] = []

    def _wait(self, seconds: float) -> None:
        """Wait, or have our clock skip the time."""
        if self._clock is not None:
            self._clock.skipped_ms += int(seconds * 1000)
            self._deadline -= seconds
            seconds = SKIPPED_S
        super()._wait(seconds)

    def _respond(self, number: int, step: Step) -> None:
        super()._respond(number, step)
        if step.do is not Do.CALL:
            return
        last = [each for each in self._calls[-1 - LATE :] if each[0].api not in NOT_AGAIN]
        chosen = self._changes.again(len(self._calls), last)
        if chosen is not None:
            step, body = chosen
            self._wait(LATE_S)
            self._changes.came_again(len(self._calls), step.api)
            response = self._normal.response(super()._called(step, body), step.view)
            self.observations.append(Observation(f"again {step.api}", response=response))

    def _called(self, step: Step, body: Any) -> Any:
        self._calls.append((step, body))
        version, body = self._changes.of(step.api, step.version, body)
        response = super()._called(msgspec.structs.replace(step, version=version), body)
        self.met.update(f"{step.api} {code}" for code in codes(response))
        return response


def played(
    name: str, changes: Changes, address: Address, clock: SkippingClock | None = None
) -> tuple[list[str], Counter[str]]:
    """Play a scenario; return the transcript with its end, and counts of the errors of each API.

    Args:
        name: the scenario's.
        changes: the changes of its requests.
        address: the broker's.
        clock: our broker's, if its time can be skipped.
    """
    player = ChangedPlayer(SCENARIOS[name], look(address, ()), changes, clock)
    try:
        ended = player.run() or WHOLE
    except UNWRITABLE as error:
        ended = type(error).__name__
    finally:
        player.close()
    shown = [msgspec.to_builtins(each) for each in player.observations]
    shown.append(player._normal.value(ended))
    return json.dumps(_without_texts(shown), indent=1).splitlines(), player.met


def _without_texts(value: Any) -> Any:
    """Return observations without error messages, which repeat changed values."""
    if isinstance(value, list):
        return [_without_texts(each) for each in value]
    if isinstance(value, dict):
        return {key: _without_texts(each) for key, each in value.items() if key not in TEXTS}
    return value
