"""The base of all machines: exchanges are taken in the order of their responses."""

from bisect import insort
from collections.abc import Callable, Iterable, Iterator
from typing import ClassVar, NamedTuple

import msgspec

from brokertwin.recordings.history.exchange import KnownFacts, RecordedExchange
from brokertwin.recordings.history.finding import EntityFinding

WAIT_MS = 2_000
"""How much later than others of its entity an exchange may come and still be taken in its turn."""

WAITING_MAX = 1_000
"""Maximum number of exchanges of an entity that wait for earlier ones."""


class EntityKey(NamedTuple):
    """Identity of an entity within a cluster: `("group", "billing")`."""

    kind: str
    id: str


class ObservedEntity(msgspec.Struct, kw_only=True):
    """The state of an entity. It is encodable, and each of its collections has a limit.

    `LOOKAHEAD_MS` is how long a judgement waits for exchanges that may explain it.

    Attributes:
        waiting: exchanges that wait for earlier ones, in the order of their responses.
        pending: exchanges that were taken and are not judged yet, in the same order.
        newest: when the newest exchange had its response, in ms since 1970.
    """

    LOOKAHEAD_MS: ClassVar[int] = 0

    waiting: list[RecordedExchange] = []
    pending: list[RecordedExchange] = []
    newest: int = 0

    def step(self, exchange: RecordedExchange, known: KnownFacts) -> list[EntityFinding]:
        """Take an exchange; return the findings that are due."""
        self.wait(self.part_of(exchange, known))
        return self._take_until(self.newest - WAIT_MS, known)

    def wait(self, part: RecordedExchange) -> None:
        """Let the part of an exchange wait, as `part_of` returns it, without taking any."""
        self.newest = max(self.newest, part.line.end)
        if not self.waiting or self.waiting[-1].line.end < part.line.end:
            self.waiting.append(part)
        else:
            insort(self.waiting, part, key=lambda each: each.line.order)

    def expire(self, now: float, known: KnownFacts) -> list[EntityFinding]:
        """Take the exchanges that need not wait any longer at a time in ms since 1970."""
        return self._take_until(now - WAIT_MS, known)

    def part_of(self, exchange: RecordedExchange, known: KnownFacts) -> RecordedExchange:
        """Return the part of an exchange that this entity uses, so that little of it waits."""
        return exchange

    def take(self, exchange: RecordedExchange, known: KnownFacts) -> Iterator[EntityFinding]:
        """Take an exchange in its turn."""
        raise AssertionError(f"{type(self).__name__} does not take {exchange.line.api}")

    def judge(self, exchange: RecordedExchange, known: KnownFacts) -> Iterator[EntityFinding]:
        """Judge an exchange when those of the next `LOOKAHEAD_MS` have been taken."""
        raise AssertionError(f"{type(self).__name__} does not judge {exchange.line.api}")

    def _take_until(self, end: float, known: KnownFacts) -> list[EntityFinding]:
        found: list[EntityFinding] = []
        while _is_due(self.waiting, end):
            exchange = self.waiting.pop(0)
            found += self.take(exchange, known)
            if self.LOOKAHEAD_MS:
                self.pending.append(exchange)
        while _is_due(self.pending, end - self.LOOKAHEAD_MS):
            found += self.judge(self.pending.pop(0), known)
        return found


def _is_due(exchanges: list[RecordedExchange], end: float) -> bool:
    """Return whether the first exchange need not wait any longer, or too many wait."""
    return bool(exchanges) and (exchanges[0].line.end <= end or len(exchanges) > WAITING_MAX)


class EntityKind(NamedTuple):
    """A kind of entity: the exchanges that name one, and its machine.

    Attributes:
        name: name of the kind.
        apis: the APIs whose exchanges may name an entity of this kind.
        keys_of: the entities that an exchange of these APIs names.
        machine: creates the state of an entity that is seen for the first time.
    """

    name: str
    apis: frozenset[str]
    keys_of: Callable[[RecordedExchange, KnownFacts], Iterable[EntityKey]]
    machine: Callable[[EntityKey], ObservedEntity]


class ObservedEntities(NamedTuple):
    """All entities of a kind in a recording, and what their machines found."""

    entities: dict[EntityKey, ObservedEntity]
    findings: list[EntityFinding]


def observe(
    kind: EntityKind, exchanges: Iterable[RecordedExchange], known: KnownFacts
) -> ObservedEntities:
    """Run the machines of a kind over a whole recording.

    Findings are in the order of their exchanges, then of their subjects. The last one with an id
    replaces earlier ones. Withdrawn findings are left out.
    """
    entities: dict[EntityKey, ObservedEntity] = {}
    found: dict[str, EntityFinding] = {}

    def keep(findings: Iterable[EntityFinding]) -> None:
        for each in findings:
            found[each.id] = each

    for exchange in exchanges:
        if exchange.line.api in kind.apis:
            for key in kind.keys_of(exchange, known):
                entity = entities.get(key)
                if entity is None:
                    entity = entities[key] = kind.machine(key)
                keep(entity.step(exchange, known))
    for entity in entities.values():
        keep(entity.expire(float("inf"), known))
    kept = [each for each in found.values() if not each.is_withdrawn]
    return ObservedEntities(
        entities, sorted(kept, key=lambda each: (each.line.order, each.subject))
    )
