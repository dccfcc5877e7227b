"""A whole recording with the machines of all kinds, each run when it is needed."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

from brokertwin.recordings.history import (
    batches,
    clients,
    groups,
    lag,
    producers,
    replication,
    sessions,
    shares,
)
from brokertwin.recordings.history.entity import EntityKind, ObservedEntities, observe
from brokertwin.recordings.history.exchange import (
    KnownFacts,
    RecordedExchange,
    exchange_of,
    exchanges_of,
    known_of,
)
from brokertwin.recordings.history.findings import Finding
from brokertwin.recordings.replay.recording import Exchange

F = TypeVar("F", bound=Finding)

KINDS: Mapping[str, EntityKind] = {
    each.name: each
    for each in (
        *(batches.PARTITIONS, batches.PRODUCERS, clients.CLIENTS, groups.GROUPS, lag.LAGS),
        *(producers.PRODUCERS, replication.REPLICATION, sessions.CACHES, shares.SHARE_GROUPS),
    )
}
"""The table of kinds by name."""


class ObservedRecording:
    """A recording in the order of its responses.

    Attributes:
        exchanges: those with a recorded response.
        without_response: requests in text logs without responses.
        known: the facts that belong to no entity.
    """

    def __init__(
        self,
        exchanges: Sequence[RecordedExchange],
        without_response: Sequence[RecordedExchange] = (),
        known: KnownFacts | None = None,
    ) -> None:
        self.exchanges = exchanges
        self.without_response = without_response
        self.known = known_of(exchanges, known or KnownFacts())
        self._observed: dict[str, ObservedEntities] = {}

    def observed(self, kind: EntityKind) -> ObservedEntities:
        entities = self._observed.get(kind.name)
        if entities is None:
            entities = self._observed[kind.name] = observe(kind, self.exchanges, self.known)
        return entities

    def of(self, exchanges: Sequence[RecordedExchange]) -> "ObservedRecording":
        """A recording of some exchanges, with the names of topics of this one."""
        return ObservedRecording(exchanges, known=KnownFacts(dict(self.known.topics)))

    def found(self, kind: EntityKind, *classes: type[F]) -> Iterator[F]:
        """The findings of these classes, in the order of their responses."""
        yield from (each for each in self.observed(kind).findings if isinstance(each, classes))

    def at_places(self, *kinds: EntityKind) -> Mapping[str, list[Finding]]:
        """The findings of some kinds of entities by the places of their exchanges."""
        by_place: dict[str, list[Finding]] = {}
        for kind in kinds:
            for each in self.observed(kind).findings:
                by_place.setdefault(each.line.place, []).append(each)
        return by_place


def observed_recording(exchanges: Sequence[Exchange] | ObservedRecording) -> ObservedRecording:
    """Return the recording of exchanges; one that is observed already is not observed again."""
    if isinstance(exchanges, ObservedRecording):
        return exchanges
    without_response = [
        exchange_of(each) for each in exchanges if each.is_text and not each.is_recorded
    ]
    return ObservedRecording(exchanges_of(exchanges), without_response)
