"""An engine that notes its fetch requests, to show a client's sessions."""

import asyncio
from typing import Any, NamedTuple

from brokertwin.gateway.engine.engine import BrokerEngine, EdgeRequest, EngineResponse
from brokertwin.protocol.generated.fetch import FetchRequest

FETCH = 1


class NotedFetch(NamedTuple):
    client_id: str
    session_id: int
    epoch: int
    partitions: int


def noted(request: EdgeRequest) -> NotedFetch | None:
    """Return the note of a fetch request, None for other requests."""
    body = request.body
    if not isinstance(body, FetchRequest):
        return None
    requested = sum(len(topic.partitions) for topic in body.topics)
    client_id = str(request.header.client_id)
    return NotedFetch(client_id, body.session_id, body.session_epoch, requested)


def in_one_session(fetches: list[NotedFetch]) -> list[NotedFetch]:
    """The incremental fetches of a client; all of one session, its epochs 1, 2, 3 and so on."""
    incremental = [fetch for fetch in fetches if fetch.session_id and fetch.epoch > 0]
    assert len({fetch.session_id for fetch in incremental}) == 1, "several sessions"
    epochs = [fetch.epoch for fetch in incremental]
    assert epochs == list(range(1, len(epochs) + 1)), "an epoch was repeated or left out"
    return incremental


class WatchedEngine:
    """Another engine; `fetches` has the notes in the order of arrival."""

    def __init__(self, engine: BrokerEngine) -> None:
        self._engine = engine
        self.fetches: list[NotedFetch] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def submit(self, request: EdgeRequest) -> asyncio.Future[EngineResponse]:
        fetch = noted(request)
        if fetch is not None:
            self.fetches.append(fetch)
        return self._engine.submit(request)

    def of(self, client_id: str) -> list[NotedFetch]:
        return [fetch for fetch in self.fetches if fetch.client_id == client_id]

    def incremental(self, client_id: str) -> int:
        return sum(1 for fetch in self.of(client_id) if fetch.epoch > 0)
