"""The scenarios of `tests/conformance` with some fields of their requests changed, or sent again.

The changes depend on a seed, the API and the field, not on the order of requests or on responses.
So two brokers get the same requests. One of the last steps is sent again, like a retry after a lost
response or a late delivery by the network.
"""

import copy
import json
import struct
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from brokertwin.gateway.edge_fields import Address
from brokertwin.state.core.kafka_apis import KAFKA_APIS
from tests.conformance import runs, wire
from tests.conformance.harness import S
from tests.conformance.transcript import REGISTRY, RETRY, codes
from tests.support.stepped_clock import SkippingClock

WHOLE = "to its end"
"""How a transcript ends that no odd answer has cut."""

NAMES = [name for name in runs.SCENARIOS if not REGISTRY[name]["optional"]]
PATIENCE = 0.6
"""Share of its usual time for a scenario that waits for an event that never comes."""

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
        self._walk(body, api, lambda: wire.encode_request(api, version, body, 1, None))
        chance = Random(f"{self._seed} {api} {version}")
        if chance.random() < self._rate:
            other = chance.randint(*VERSIONS[api])
            if _works(lambda: wire.encode_request(api, other, body, 1, None)):
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


class ChangedScenario(S):
    """A scenario's context that sends what `changes` makes of its requests."""

    changes: Changes
    met: Counter[str]
    steps: list[Any]
    clock: SkippingClock | None

    def sleep(self, sec: float) -> None:
        """Wait, or have our clock skip the time."""
        if self.clock is None:
            super().sleep(sec)
            return
        self.clock.skipped_ms += int(sec * 1000)
        self.deadline -= sec
        super().sleep(SKIPPED_S)

    def call(self, conn: Any, api: str, version: int, body: Any, *how: Any, **named: Any) -> Any:
        answer = super().call(conn, api, version, body, *how, **named)
        view = how[1] if len(how) > 1 else named.get("view")
        self.steps.append((conn, api, version, body, view))
        last = [step for step in self.steps[-1 - LATE :] if step[1] not in NOT_AGAIN]
        chosen = self.changes.again(len(self.steps), last)
        if chosen is not None:
            conn, api, version, body, view = chosen
            self.sleep(LATE_S)
            self.changes.came_again(len(self.steps), api)
            self.record(f"again {api} v{version}", self.raw(conn, api, version, body), view)
        return answer

    def raw(self, conn: Any, api: str, version: int, body: Any, retry: Any = RETRY) -> Any:
        version, body = self.changes.of(api, version, body)
        answer = super().raw(conn, api, version, body, retry)
        self.met.update(f"{api} {code}" for code in codes(answer))
        return answer


def played(
    name: str,
    changes: Changes,
    address: Address,
    met: Counter[str],
    clock: SkippingClock | None = None,
) -> list[str]:
    """Return the transcript and how it ended.

    Args:
        name: the scenario's.
        changes: the changes of its requests.
        address: the broker's.
        met: counts the errors of each API.
        clock: our broker's, if its time can be skipped.
    """
    limit = REGISTRY[name]["limit"]
    context = ChangedScenario(*address, name, uuid.uuid4().hex[:6], PATIENCE, limit)
    context.changes, context.met, context.steps, context.clock = changes, met, [], clock
    ended = WHOLE
    try:
        REGISTRY[name]["fn"](context)
    except (wire.ConnClosed, OSError, RuntimeError, *UNWRITABLE) as error:
        ended = type(error).__name__
    finally:
        context.close()
    return [*json.dumps(context.transcript, indent=1, sort_keys=True).splitlines(), ended]
