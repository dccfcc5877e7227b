"""A recording with the findings of all machines."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Protocol, TypeVar

from brokertwin.recordings.history.batches import PARTITIONS
from brokertwin.recordings.history.clients import CLIENTS
from brokertwin.recordings.history.entity import EntityKind
from brokertwin.recordings.history.exchange import KnownFacts, RecordedExchange, exchanges_of
from brokertwin.recordings.history.findings import (
    Finding,
    Incident,
    IsrGrew,
    IsrShrank,
    LeaderChanged,
    Refused,
    SessionLost,
    ShareSessionLost,
    UnderMinIsr,
)
from brokertwin.recordings.history.incidents import BrokerSigns, Signs, incidents
from brokertwin.recordings.history.recording import ObservedRecording
from brokertwin.recordings.history.replication import REPLICATION
from brokertwin.recordings.history.sessions import CACHES
from brokertwin.recordings.history.shares import SHARE_GROUPS
from brokertwin.recordings.history.undecoded import Undecoded
from brokertwin.recordings.observed.watching import ObservedReplication
from brokertwin.recordings.replay.recording import Exchange

F = TypeVar("F", bound=Finding)


class EntityHistory(Protocol):
    """The findings of machines, as most finders need them.

    Attributes:
        undecoded: requests without a legible body.
    """

    undecoded: Undecoded

    @property
    def incidents(self) -> Sequence[Incident]:
        """What happened to brokers, each with the findings that follow from it."""

    def found(self, kind: EntityKind, *classes: type[F]) -> Iterator[F]:
        """The findings of these classes that are no part of an incident, in order."""


class FoldedFindings(ABC):
    """The findings of machines, with incidents that fold those that follow from them.

    Attributes:
        undecoded: requests without a legible body.
    """

    undecoded: Undecoded

    @abstractmethod
    def unfolded(self, kind: EntityKind, *classes: type[F]) -> Iterator[F]:
        """The findings of these classes in order, those of incidents too."""

    @property
    @abstractmethod
    def signs(self) -> Mapping[int, BrokerSigns]:
        """Signs of life of the brokers."""

    @property
    @abstractmethod
    def time(self) -> float:
        """The last moment, in ms since 1970."""

    def found(self, kind: EntityKind, *classes: type[F]) -> Iterator[F]:
        """The findings of these classes that are no part of an incident, in order."""
        folded = self._folded
        yield from (e for e in self.unfolded(kind, *classes) if id(e) not in folded)

    @cached_property
    def incidents(self) -> Sequence[Incident]:
        """What happened to brokers, each with the findings that follow from it."""
        found = self.unfolded_changes()
        if not found:
            return ()
        found += self.unfolded(PARTITIONS, UnderMinIsr)
        found += self.unfolded(CLIENTS, Refused)
        found += self.unfolded(CACHES, SessionLost)
        found += self.unfolded(SHARE_GROUPS, ShareSessionLost)
        return incidents(found, self.signs, self.time)

    def unfolded_changes(self) -> list[Finding]:
        """Changes of leaders and in-sync sets, those of incidents too."""
        return [*self.unfolded(REPLICATION, IsrShrank, IsrGrew, LeaderChanged)]

    @cached_property
    def _folded(self) -> set[int]:
        return {id(each) for incident in self.incidents for each in incident.consequences}


class History(FoldedFindings):
    """A recording with all its exchanges, as pages show it.

    Args:
        exchanges: those of clients, as `recording.read` returns them.
        replication: the findings about replication in the whole cluster.
        undecoded: requests without a legible body.

    Attributes:
        replication: the findings about replication in the whole cluster.
        recording: the exchanges with a response, and the findings of the machines.
    """

    def __init__(
        self,
        exchanges: Sequence[Exchange],
        replication: ObservedReplication | None = None,
        undecoded: Undecoded | None = None,
    ) -> None:
        self.undecoded = undecoded or Undecoded()
        self.replication = replication or ObservedReplication(())
        cluster = self.replication.known
        facts = KnownFacts(dict(cluster.topics), holes=cluster.holes)
        self.recording = ObservedRecording(exchanges_of(exchanges), known=facts)

    @property
    def span(self) -> tuple[float, float]:
        """When the first request arrived, and the last response was sent, in ms since 1970."""
        lines = [each.line for each in self.recording.exchanges]
        begin = min((each.time for each in lines), default=0)
        return begin, max((each.end for each in lines), default=0)

    @property
    def names(self) -> dict[str, str]:
        return self.recording.known.topics

    def of(self, *apis: str) -> Iterator[RecordedExchange]:
        """The exchanges of some APIs, in the order of their responses."""
        yield from (each for each in self.recording.exchanges if each.line.api in apis)

    def unfolded(self, kind: EntityKind, *classes: type[F]) -> Iterator[F]:
        """The findings of these classes in order, those of incidents too."""
        if kind is REPLICATION:
            yield from self.replication.found(*classes)
        else:
            yield from self.recording.found(kind, *classes)

    @property
    def signs(self) -> Mapping[int, BrokerSigns]:
        found = Signs()
        for each in self.replication.exchanges:
            found.take(each)
        return found.by_broker

    @property
    def time(self) -> float:
        """The last moment, in ms since 1970."""
        return self.replication.time

    def named(self, topic: str) -> str:
        """Name of a topic, given its name or id."""
        return self.recording.known.named(topic)
