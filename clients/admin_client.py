"""An admin on the loop: its calls go on side by side, each to the brokers that can answer.

Source: seed 001; `KafkaAdminClient` in Kafka. `admin_calls.py` says whom a call asks.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from brokertwin.clients.admin_calls import AdminCall, Asked, Call, Scope
from brokertwin.clients.client_loop import Answered, ClientLoop, UnderWay, Wanted
from brokertwin.clients.consumer_metadata import ConsumerMetadata
from brokertwin.clients.fetching_client import CONSUMER_NETWORK
from brokertwin.clients.metadata import MetadataSettings
from brokertwin.clients.network import Draw, NetworkSettings
from brokertwin.clients.partitions import TopicPartition
from brokertwin.state.core.schema import Body

API_TIMEOUT_MS = 60_000
"""`default.api.timeout.ms`."""


class _Tag(NamedTuple):
    """What a request is part of."""

    call: AdminCall
    asked: Asked


class AdminClient(ClientLoop):
    """The calls of one admin."""

    metadata: ConsumerMetadata

    def __init__(
        self,
        draw: Draw,
        *,
        network: NetworkSettings = CONSUMER_NETWORK,
        metadata: MetadataSettings | None = None,
    ) -> None:
        known = ConsumerMetadata(frozenset(), metadata, may_create=False)
        super().__init__(known, draw, network)
        self._draw = draw
        self._calls: list[AdminCall] = []

    def begin(self, call: Call, now: int, timeout_ms: int = API_TIMEOUT_MS) -> AdminCall:
        """Begins a call; it is done with each key's outcome, at the latest after `timeout_ms`."""
        begun = AdminCall.of(call, now + timeout_ms, self._draw)
        self._calls.append(begun)
        return begun

    # The loop's

    def _work(self, now: int) -> None:
        self._calls = [each for each in self._calls if not each.is_done]
        self.metadata.want(self.metadata.topics | _topics(each.call for each in self._calls))
        for call in self._calls:
            for asked in call.wants(now, self.metadata.snapshot):
                known = None if asked.node is None else self.metadata.snapshot.nodes.get(asked.node)
                if asked.node is not None and known is None:
                    call.failed(now, asked)
                    self.metadata.request_update()
                    continue
                self._want(Wanted(known, asked.api, asked.body, _Tag(call, asked)))
            if call.needs_metadata:
                call.needs_metadata = False
                self.metadata.request_update()

    def _deadlines(self, now: int) -> list[int]:
        return [time for each in self._calls for time in each.deadlines()]

    def _answered(self, now: int, request: UnderWay, response: Body, event: Answered) -> None:
        request.tag.call.answered(now, request.tag.asked, response)

    def _failed(self, now: int, tag: Any) -> None:
        tag.call.failed(now, tag.asked)

    def _lost(self, now: int, node: int) -> None:
        """Nothing but what `_failed` was told."""


def _topics(calls: Iterable[Call]) -> frozenset[str]:
    of_leaders = (each for each in calls if each.scope is Scope.LEADER)
    return frozenset(
        key.topic for call in of_leaders for key in call.keys if isinstance(key, TopicPartition)
    )
