"""An admin client, which deletes records: its calls run side by side.

Source: seed 001; `KafkaAdminClient`, `AdminApiDriver`, `PartitionLeaderStrategy` in Kafka; KIP-699.
Partitions with the same leader share a request. The outcome of a partition depends on its error:

    no error                                        done
    3 UNKNOWN_TOPIC_OR_PARTITION,                   new metadata; retried after a backoff at the
    5 LEADER_NOT_AVAILABLE,                         new leader
    6 NOT_LEADER_OR_FOLLOWER,
    9 REPLICA_NOT_AVAILABLE, 72 LISTENER_NOT_FOUND
    any other retriable error                       retried after a backoff at the same leader
    no response                                     new metadata; retried after a backoff
    any other error                                 done, with that error
    the call times out                              7 REQUEST_TIMED_OUT
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from brokertwin.clients.backoff import retry_backoff
from brokertwin.clients.client_loop import (
    ClientLoop,
    InFlightRequest,
    ResponseReceived,
    UnsentRequest,
)
from brokertwin.clients.consumer_metadata import ConsumerMetadata
from brokertwin.clients.fetching_client import CONSUMER_NETWORK
from brokertwin.clients.metadata_snapshot import MetadataSnapshot
from brokertwin.clients.network import Draw
from brokertwin.clients.partitions import TopicPartition, grouped
from brokertwin.protocol.bodies import Body
from brokertwin.protocol.errors import RETRIABLE, Error
from brokertwin.protocol.generated.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)

API_TIMEOUT_MS = 60_000
"""`default.api.timeout.ms`."""

BROKER_TIMEOUT_MS = 30_000
"""How long a broker may take (`request.timeout.ms`)."""

_MOVED = frozenset(
    {
        *(Error.UNKNOWN_TOPIC_OR_PARTITION, Error.LEADER_NOT_AVAILABLE),
        *(Error.NOT_LEADER_OR_FOLLOWER, Error.REPLICA_NOT_AVAILABLE),
        Error.LISTENER_NOT_FOUND,
    }
)


class LeaderRequest(NamedTuple):
    node: int
    body: DeleteRecordsRequest
    partitions: tuple[TopicPartition, ...]


class _OpenPartition(msgspec.Struct):
    failures: int = 0
    not_before: int = 0
    is_in_flight: bool = False


class PendingDeletion:
    """A deletion of records below an offset of each partition; -1 deletes all. Times in ms.

    Attributes:
        results: errors of the partitions that are done, or NONE.
        needs_metadata: the metadata has no leader for a partition, or an outdated one.
    """

    def __init__(self, offsets: Mapping[TopicPartition, int], deadline: int, draw: Draw) -> None:
        self.offsets = offsets
        self.results: dict[TopicPartition, Error] = {}
        self.needs_metadata = False
        self._deadline = deadline
        self._draw = draw
        self._backoff = retry_backoff()
        self._open = {partition: _OpenPartition() for partition in offsets}

    @property
    def is_done(self) -> bool:
        return not self._open

    def deadlines(self) -> list[int]:
        retries = [each.not_before for each in self._open.values() if not each.is_in_flight]
        return [] if self.is_done else [self._deadline, *retries]

    def requests(self, now: int, snapshot: MetadataSnapshot) -> list[LeaderRequest]:
        if now >= self._deadline:
            self.results |= dict.fromkeys(self._open, Error.REQUEST_TIMED_OUT)
            self._open = {}
            return []
        by_leader: dict[int, list[TopicPartition]] = {}
        for partition, state in self._open.items():
            if state.is_in_flight or state.not_before > now:
                continue
            leader = snapshot.leader(partition)
            if leader is None:
                self.needs_metadata = True
                continue
            by_leader.setdefault(leader.id, []).append(partition)
            state.is_in_flight = True
        return [
            LeaderRequest(node, self._body(partitions), tuple(partitions))
            for node, partitions in by_leader.items()
        ]

    def _body(self, partitions: Iterable[TopicPartition]) -> DeleteRecordsRequest:
        offsets = self.offsets
        requested = grouped(
            (at.topic, DeleteRecordsPartition(partition_index=at.partition, offset=offsets[at]))
            for at in partitions
        )
        topics = [DeleteRecordsTopic(name=name, partitions=at) for name, at in requested.items()]
        return DeleteRecordsRequest(topics=topics, timeout_ms=BROKER_TIMEOUT_MS)

    def on_response(
        self, now: int, request: LeaderRequest, response: DeleteRecordsResponse
    ) -> None:
        """Handle a response; partitions that it lacks are retried."""
        errors = {
            TopicPartition(topic.name, each.partition_index): Error(each.error_code)
            for topic in response.topics
            for each in topic.partitions
        }
        for partition in request.partitions:
            state = self._open.get(partition)
            if state is None:
                continue
            state.is_in_flight = False
            error = errors.get(partition, Error.LEADER_NOT_AVAILABLE)
            if error in RETRIABLE:
                self._retry(now, state, is_moved=error in _MOVED)
            else:
                self.results[partition] = error
                del self._open[partition]

    def on_failure(self, now: int, request: LeaderRequest) -> None:
        for partition in request.partitions:
            state = self._open.get(partition)
            if state is not None:
                state.is_in_flight = False
                self._retry(now, state, is_moved=True)

    def _retry(self, now: int, state: _OpenPartition, *, is_moved: bool) -> None:
        state.not_before = now + self._backoff.backoff(state.failures, self._draw())
        state.failures += 1
        self.needs_metadata = self.needs_metadata or is_moved


class _Tag(NamedTuple):
    deletion: PendingDeletion
    request: LeaderRequest


class AdminClient(ClientLoop):
    metadata: ConsumerMetadata

    def __init__(self, draw: Draw) -> None:
        consumer_metadata = ConsumerMetadata(frozenset(), None, may_create=False)
        super().__init__(consumer_metadata, draw, CONSUMER_NETWORK)
        self._draw = draw
        self._pending: list[PendingDeletion] = []

    def delete_records(self, offsets: Mapping[TopicPartition, int], now: int) -> PendingDeletion:
        """Begin a deletion; each partition has an outcome after at most `API_TIMEOUT_MS`."""
        begun = PendingDeletion(offsets, now + API_TIMEOUT_MS, self._draw)
        self._pending.append(begun)
        return begun

    def _work(self, now: int) -> None:
        self._pending = [each for each in self._pending if not each.is_done]
        topics = {partition.topic for each in self._pending for partition in each.offsets}
        self.metadata.want(self.metadata.topics | topics)
        snapshot = self.metadata.snapshot
        for deletion in self._pending:
            for request in deletion.requests(now, snapshot):
                node, tag = snapshot.nodes[request.node], _Tag(deletion, request)
                self._want(UnsentRequest(node, "DELETE_RECORDS", request.body, tag))
            if deletion.needs_metadata:
                deletion.needs_metadata = False
                self.metadata.request_update()

    def _deadlines(self, now: int) -> list[int]:
        return [time for each in self._pending for time in each.deadlines()]

    def _on_response(
        self, now: int, request: InFlightRequest, response: Body, event: ResponseReceived
    ) -> None:
        assert isinstance(response, DeleteRecordsResponse)
        request.tag.deletion.on_response(now, request.tag.request, response)

    def _failed(self, now: int, tag: Any) -> None:
        tag.deletion.on_failure(now, tag.request)

    def _lost(self, now: int, node: int) -> None:
        """Do nothing: `_failed` received each request."""
