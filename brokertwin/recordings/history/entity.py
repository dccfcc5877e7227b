"""The base of all machines: exchanges are taken in the order of their responses."""

from bisect import insort
from collections.abc import Callable, Iterable, Iterator
from typing import ClassVar, NamedTuple

import msgspec

from brokertwin.recordings.history.exchange import KnownFacts, RecordedExchange
from brokertwin.recordings.history.findings import Finding

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

    def step(self, part: RecordedExchange, known: KnownFacts) -> list[Finding]:
        """Take the part of an exchange, as `EntityKind.parts_of` returns it.

        Returns:
            the findings that are due.
        """
        self.wait(part)
        return self._take_until(self.newest - WAIT_MS, known)

    def wait(self, part: RecordedExchange) -> None:
        """Let the part of an exchange wait, without taking any."""
        self.newest = max(self.newest, part.line.end)
        if not self.waiting or self.waiting[-1].line.end < part.line.end:
            self.waiting.append(part)
        else:
            insort(self.waiting, part, key=lambda each: each.line.order)

    def expire(self, now: float, known: KnownFacts) -> list[Finding]:
        """Take the exchanges that need not wait any longer at a time in ms since 1970."""
        return self._take_until(now - WAIT_MS, known)

    def take(self, exchange: RecordedExchange, known: KnownFacts) -> Iterator[Finding]:
        """Take an exchange in its turn."""
        raise AssertionError(f"{type(self).__name__} does not take {exchange.line.api}")

    def judge(self, exchange: RecordedExchange, known: KnownFacts) -> Iterator[Finding]:
        """Judge an exchange when those of the next `LOOKAHEAD_MS` have been taken."""
        raise AssertionError(f"{type(self).__name__} does not judge {exchange.line.api}")

    def _take_until(self, end: float, known: KnownFacts) -> list[Finding]:
        found: list[Finding] = []
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


Parts = Iterable[tuple[EntityKey, RecordedExchange]]
"""Entities, each with the part of an exchange that its machine uses."""


class EntityKind(NamedTuple):
    """A kind of entity: the exchanges that name one, and its machine.

    Attributes:
        name: name of the kind.
        apis: the APIs whose exchanges may name an entity of this kind.
        parts_of: the entities that an exchange of these APIs names, each with the part that it
            uses, so that little of an exchange waits. Reads the exchange once for all entities.
        machine: creates the state of an entity that is seen for the first time.
    """

    name: str
    apis: frozenset[str]
    parts_of: Callable[[RecordedExchange, KnownFacts], Parts]
    machine: Callable[[EntityKey], ObservedEntity]


class ObservedEntities(NamedTuple):
    """All entities of a kind in a recording, and what their machines found."""

    entities: dict[EntityKey, ObservedEntity]
    findings: list[Finding]


def observe(
    kind: EntityKind, exchanges: Iterable[RecordedExchange], known: KnownFacts
) -> ObservedEntities:
    """Run the machines of a kind over a whole recording.

    Findings are in the order of their exchanges, then of their subjects. The last one with an id
    replaces earlier ones. Withdrawn findings are left out.
    """
    entities: dict[EntityKey, ObservedEntity] = {}
    found: dict[str, Finding] = {}

    def keep(findings: Iterable[Finding]) -> None:
        for each in findings:
            found[each.id] = each

    for exchange in exchanges:
        if exchange.line.api in kind.apis:
            for key, part in kind.parts_of(exchange, known):
                entity = entities.get(key)
                if entity is None:
                    entity = entities[key] = kind.machine(key)
                keep(entity.step(part, known))
    for entity in entities.values():
        keep(entity.expire(float("inf"), known))
    kept = [each for each in found.values() if not each.is_withdrawn]
    return ObservedEntities(
        entities, sorted(kept, key=lambda each: (each.line.order, each.subject.name))
    )
