"""The base of all machines: exchanges are taken in the order of their responses."""

from bisect import insort
from collections.abc import Callable, Collection, Iterable
from typing import ClassVar, NamedTuple

import msgspec

from brokertwin.recordings.history.exchange import KnownFacts, RecordedExchange
from brokertwin.recordings.history.findings import Finding

WAIT_MS = 2_000
"""How much later than others of its entity an exchange may come and still be taken in its turn."""

WAITING_MAX = 1_000
"""Maximum number of exchanges of an entity that wait for earlier ones."""


SWEPT_AFTER = 20_000
"""Exchanges of a kind after which idle entities are looked for."""

IDLE_MS = 60_000
"""An entity is idle if it had no exchange for so long; more than any lookahead."""

ENTITIES_MAX = 100_000
"""Maximum number of entities of a kind. A forgotten one begins anew, as in a cut recording."""


class EntityKey(NamedTuple):
    """Identity of an entity within a cluster: `("group", "billing")`."""

    kind: str
    id: str


class ObservedEntity(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
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

    @property
    def ends_ms(self) -> int | None:
        """After how long without exchanges the state changes by itself; None if never."""
        return None

    def lookahead_ms(self, known: KnownFacts) -> int:
        return self.LOOKAHEAD_MS

    def step(self, part: RecordedExchange, known: KnownFacts) -> list[Finding]:
        """Take the part of an exchange, as `EntityKind.parts_of` returns it.

        Returns:
            the findings that are due.
        """
        waiting, time = self.waiting, part.line.end
        if time > self.newest:
            self.newest = time
            waiting.append(part)
        else:
            self.wait(part)
        end = self.newest - WAIT_MS
        if not self.pending and waiting[0].line.end > end and len(waiting) <= WAITING_MAX:
            return []
        return self._take_until(end, known)

    def wait(self, part: RecordedExchange) -> None:
        """Let the part of an exchange wait, without taking any."""
        line, waiting = part.line, self.waiting
        if line.end > self.newest:
            self.newest = line.end
        last = waiting[-1].line if waiting else None
        if last is None or last.end < line.end or last.order <= line.order:
            waiting.append(part)
        else:
            insort(waiting, part, key=lambda each: each.line.order)

    def expire(self, now: float, known: KnownFacts) -> list[Finding]:
        """Take the exchanges that need not wait any longer at a time in ms since 1970."""
        return self._take_until(now - WAIT_MS, known)

    def settle(self, known: KnownFacts) -> list[Finding]:
        """Take the exchanges that wait, as the next one does if it comes much later."""
        return self._take_until(float("inf"), known)

    def take(self, exchange: RecordedExchange, known: KnownFacts) -> Iterable[Finding]:
        raise AssertionError(f"{type(self).__name__} does not take {exchange.line.api}")

    def judge(self, exchange: RecordedExchange, known: KnownFacts) -> Iterable[Finding]:
        """Judge an exchange when those of the next `LOOKAHEAD_MS` have been taken."""
        raise AssertionError(f"{type(self).__name__} does not judge {exchange.line.api}")

    def _take_until(self, end: float, known: KnownFacts) -> list[Finding]:
        """Take and judge the exchanges that need not wait any longer, or of which too many wait."""
        findings: list[Finding] = []
        waiting, pending, take = self.waiting, self.pending, self.take
        is_judged = bool(self.LOOKAHEAD_MS)
        while waiting and (waiting[0].line.end <= end or len(waiting) > WAITING_MAX):
            exchange = waiting.pop(0)
            findings += take(exchange, known)
            if is_judged:
                pending.append(exchange)
        if pending:
            end -= self.lookahead_ms(known)
        while pending and (pending[0].line.end <= end or len(pending) > WAITING_MAX):
            findings += self.judge(pending.pop(0), known)
        return findings


Parts = Iterable[tuple[EntityKey, RecordedExchange]]
"""Entities, each with the part of an exchange that its machine uses."""


class EntityKind(NamedTuple):
    """A kind of entity: the exchanges that name one, and its machine.

    Attributes:
        apis: the APIs whose exchanges may name an entity of this kind.
        parts_of: the entities that an exchange of these APIs names, each with the part that it
            uses, so that little of an exchange waits. Reads the exchange once for all entities.
        machine: creates the state of an entity that is seen for the first time.
    """

    name: str
    apis: frozenset[str]
    parts_of: Callable[[RecordedExchange, KnownFacts], Parts]
    machine: Callable[[EntityKey], ObservedEntity]


class ObservedEntities:
    """All entities of a kind, and what their machines find.

    Args:
        kind: the kind.
        known: the facts of the whole recording.
        kept: the classes of findings that are kept; all if None.

    Attributes:
        entities: the state of each entity.
    """

    def __init__(
        self, kind: EntityKind, known: KnownFacts, kept: Collection[type[Finding]] | None = None
    ) -> None:
        self.entities: dict[EntityKey, ObservedEntity] = {}
        self._kind = kind
        self._known = known
        self._kept = kept
        self._found: dict[str, Finding] = {}
        self._count = 0
        self._part = 0

    def take(self, exchange: RecordedExchange) -> None:
        """Take an exchange of the kind's APIs, in the order of the responses.

        Exchanges in a hole are ignored, and all entities start anew after it.
        """
        known, entities = self._known, self.entities
        if known.holes:
            number = known.part_of(exchange.line.end)
            if number < 0:
                return
            if number != self._part:
                self._part = number
                self.expire()
                entities.clear()
        for key, part in self._kind.parts_of(exchange, known):
            entity = entities.get(key)
            if entity is None:
                entity = entities[key] = self._kind.machine(key)
            found = entity.step(part, known)
            if found:
                self._keep(found)
        self._count += 1
        if not self._count % SWEPT_AFTER:
            self._sweep(exchange.line.end)

    def expire(self, now: float = float("inf")) -> None:
        """Take the exchanges that need not wait any longer at a time in ms since 1970."""
        for entity in self.entities.values():
            self._keep(entity.expire(now, self._known))

    @property
    def findings(self) -> list[Finding]:
        """Findings in the order of their exchanges, then of their subjects.

        The last one with an id replaces earlier ones. Withdrawn findings are left out.
        """
        kept = (each for each in self._found.values() if not each.is_withdrawn)
        return sorted(kept, key=lambda each: (each.line.order, each.subject.name))

    def _keep(self, findings: Iterable[Finding]) -> None:
        for each in findings:
            if self._kept is None or type(each) in self._kept:
                self._found[each.id] = each

    def _sweep(self, now: int) -> None:
        """Bound what idle entities hold, and their number: the longest idle ones are forgotten."""
        for entity in self.entities.values():
            if entity.newest < now - IDLE_MS:
                self._keep(entity.settle(self._known))
        if len(self.entities) > ENTITIES_MAX:
            by_age = sorted(self.entities, key=lambda key: self.entities[key].newest)
            for key in by_age[: len(by_age) - ENTITIES_MAX]:
                self._keep(self.entities.pop(key).expire(float("inf"), self._known))


def observe(
    kind: EntityKind, exchanges: Iterable[RecordedExchange], known: KnownFacts
) -> ObservedEntities:
    """Run the machines of a kind over a whole recording."""
    found = ObservedEntities(kind, known)
    for exchange in exchanges:
        if exchange.line.api in kind.apis:
            found.take(exchange)
    found.expire()
    return found
