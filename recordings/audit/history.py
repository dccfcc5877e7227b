"""A recording in the order of its answers, each body decoded once."""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from brokertwin.recordings.explain.story import in_order
from brokertwin.recordings.history import bodies
from brokertwin.recordings.history.entity import EntityKind
from brokertwin.recordings.history.exchange import exchanges_of
from brokertwin.recordings.history.finding import EntityFinding
from brokertwin.recordings.history.recording import ObservedRecording
from brokertwin.recordings.replay.recording import Exchange
from brokertwin.state.observed.replication import ReplicationObserver

ANSWERED_MS = 2_000
"""How long a follower's fetch may wait for its answer, generously (`replica.fetch.wait.max.ms`)."""


class Asked(NamedTuple):
    """An exchange with its request decoded."""

    exchange: Exchange
    body: Any

    @property
    def answer(self) -> Any:
        """The answer; an empty one where there is none (acks 0)."""
        return self.exchange.response or {}


class History:
    """What the finders go through.

    Args:
        exchanges: of clients, as `recording.read` has them.
        observer: what has observed all of the cluster.
        until: when the first of its logs ends, in ms since 1970.

    Attributes:
        asked: the exchanges that were answered, in the order of their answers.
        names: topic id to name, from responses that have both.
        recording: the exchanges as machines take them, and what the machines found.
    """

    def __init__(
        self,
        exchanges: Sequence[Exchange],
        observer: ReplicationObserver | None = None,
        until: float = math.inf,
    ) -> None:
        self.observer = observer or ReplicationObserver()
        self._until = until
        apis = {each.api for each in exchanges}
        self.asked = [Asked(*pair) for pair in in_order(exchanges, apis)]
        self._by_api: dict[str, list[Asked]] = defaultdict(list)
        self.names = {**self.observer.names, **bodies.topic_names(exchanges)}
        for asked in self.asked:
            self._by_api[asked.exchange.api].append(asked)
        self.recording = ObservedRecording(exchanges_of(exchanges), topics=self.observer.names)

    @property
    def span(self) -> tuple[float, float]:
        """When the first request came, and when the last was answered, in ms since 1970."""
        begin = min((each.exchange.time for each in self.asked), default=0)
        return begin, max((each.exchange.end for each in self.asked), default=0)

    def of(self, *apis: str) -> Iterator[Asked]:
        """The exchanges of some APIs, in the order of their answers."""
        if len(apis) == 1:
            yield from self._by_api[apis[0]]
        else:
            wanted = frozenset(apis)
            yield from (each for each in self.asked if each.exchange.api in wanted)

    def found(self, kind: EntityKind, *names: str) -> Iterator[EntityFinding]:
        """The findings of a kind of entity with these names, in the order of their responses."""
        yield from self.recording.found(kind, *names)

    def is_covered(self, time: float) -> bool:
        """Whether all logs have what was asked at a time: a line is written with the answer."""
        return time + ANSWERED_MS <= self._until

    def topic(self, part: Any) -> str:
        """The topic of a part of a body, by its name where any answer told it."""
        return self.named(str(part.get("topic") or bodies.topic_of(part)))

    def named(self, topic: str) -> str:
        """The name of a topic of which a name or an id is known."""
        return self.names.get(topic, topic)
