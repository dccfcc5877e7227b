"""An admin client: its calls run side by side, each at the leaders of its partitions.

Source: seed 001; `KafkaAdminClient` in Kafka. `admin_calls.py` has the retries.
"""

from typing import Any, NamedTuple

from brokertwin.clients.admin_calls import AdminCall, LeaderRequest, PendingAdminCall
from brokertwin.clients.client_loop import (
    ClientLoop,
    InFlightRequest,
    ResponseReceived,
    UnsentRequest,
)
from brokertwin.clients.consumer_metadata import ConsumerMetadata
from brokertwin.clients.fetching_client import CONSUMER_NETWORK
from brokertwin.clients.metadata import MetadataSettings
from brokertwin.clients.network import Draw, NetworkSettings
from brokertwin.state.core.schema import Body

API_TIMEOUT_MS = 60_000
"""`default.api.timeout.ms`."""


class _Tag(NamedTuple):
    call: PendingAdminCall
    request: LeaderRequest


class AdminClient(ClientLoop):
    """The calls of one admin client."""

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
        self._calls: list[PendingAdminCall] = []

    def begin(
        self, call: AdminCall, now: int, timeout_ms: int = API_TIMEOUT_MS
    ) -> PendingAdminCall:
        """Begin a call; each partition has an outcome after at most `timeout_ms`."""
        begun = PendingAdminCall(call, now + timeout_ms, self._draw)
        self._calls.append(begun)
        return begun

    def _work(self, now: int) -> None:
        self._calls = [each for each in self._calls if not each.is_done]
        topics = {partition.topic for each in self._calls for partition in each.call.partitions}
        self.metadata.want(self.metadata.topics | topics)
        snapshot = self.metadata.snapshot
        for call in self._calls:
            for request in call.requests(now, snapshot):
                node = snapshot.nodes[request.node]
                self._want(UnsentRequest(node, request.api, request.body, _Tag(call, request)))
            if call.needs_metadata:
                call.needs_metadata = False
                self.metadata.request_update()

    def _deadlines(self, now: int) -> list[int]:
        return [time for each in self._calls for time in each.deadlines()]

    def _on_response(
        self, now: int, request: InFlightRequest, response: Body, event: ResponseReceived
    ) -> None:
        request.tag.call.on_response(now, request.tag.request, response)

    def _failed(self, now: int, tag: Any) -> None:
        tag.call.on_failure(now, tag.request)

    def _lost(self, now: int, node: int) -> None:
        """Do nothing: `_failed` received each request."""
