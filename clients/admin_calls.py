"""Admin calls: partitions are sent to their leaders and retried until they have outcomes.

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

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from brokertwin.clients.backoff import ExponentialBackoff, retry_backoff
from brokertwin.clients.metadata_snapshot import MetadataSnapshot
from brokertwin.clients.partitions import TopicPartition
from brokertwin.state.apis.delete_records import DeleteRecordsRequest
from brokertwin.state.core.errors import RETRIABLE, Error
from brokertwin.state.core.schema import Body


class AdminOutcome(NamedTuple):
    """The error of a partition, or NONE and its part of the response."""

    error: Error
    value: Any = None


class AdminCall(NamedTuple):
    """An API, the partitions, and a function that builds the body for some of them."""

    api: str
    partitions: tuple[TopicPartition, ...]
    body: Callable[[Sequence[TopicPartition]], Body]


class LeaderRequest(msgspec.Struct, frozen=True):
    """A request for the leader of some partitions."""

    node: int
    api: str
    body: Body
    partitions: tuple[TopicPartition, ...]


_MOVED = frozenset(
    {
        *(Error.UNKNOWN_TOPIC_OR_PARTITION, Error.LEADER_NOT_AVAILABLE),
        *(Error.NOT_LEADER_OR_FOLLOWER, Error.REPLICA_NOT_AVAILABLE),
        Error.LISTENER_NOT_FOUND,
    }
)


class _OpenPartition(msgspec.Struct):
    failures: int = 0
    not_before: int = 0
    is_in_flight: bool = False


class PendingAdminCall:
    """A call in progress; times in ms.

    Attributes:
        results: outcomes of the partitions that are done.
        needs_metadata: the metadata has no leader for a partition, or an outdated one.
    """

    def __init__(
        self,
        call: AdminCall,
        deadline: int,
        draw: Callable[[], float],
        backoff: ExponentialBackoff | None = None,
    ) -> None:
        self.call = call
        self.results: dict[TopicPartition, AdminOutcome] = {}
        self.needs_metadata = False
        self._deadline = deadline
        self._draw = draw
        self._backoff = backoff or retry_backoff()
        self._open = {partition: _OpenPartition() for partition in call.partitions}

    @property
    def is_done(self) -> bool:
        """Whether each partition has an outcome."""
        return not self._open

    def deadlines(self) -> list[int]:
        """The times of the next retries and of the timeout."""
        retries = [each.not_before for each in self._open.values() if not each.is_in_flight]
        return [] if self.is_done else [self._deadline, *retries]

    def requests(self, now: int, snapshot: MetadataSnapshot) -> list[LeaderRequest]:
        """The requests to send now."""
        if now >= self._deadline:
            timed_out = AdminOutcome(Error.REQUEST_TIMED_OUT)
            self.results |= dict.fromkeys(self._open, timed_out)
            self._open = {}
            return []
        by_leader: dict[int, list[TopicPartition]] = {}
        for partition, state in self._open.items():
            if state.is_in_flight or state.not_before > now:
                continue
            known = snapshot.partitions.get(partition)
            leader = None if known is None else known.leader_id
            if leader is None or leader not in snapshot.nodes:
                self.needs_metadata = True
                continue
            by_leader.setdefault(leader, []).append(partition)
            state.is_in_flight = True
        return [
            LeaderRequest(node, self.call.api, self.call.body(partitions), tuple(partitions))
            for node, partitions in by_leader.items()
        ]

    def on_response(self, now: int, request: LeaderRequest, response: Any) -> None:
        """Handle a response; partitions that it lacks are retried."""
        outcomes = {
            TopicPartition(topic.name, each.partition_index): each
            for topic in response.topics
            for each in topic.partitions
        }
        for partition in request.partitions:
            state = self._open.get(partition)
            if state is None:
                continue
            state.is_in_flight = False
            outcome = outcomes.get(partition)
            error = Error.LEADER_NOT_AVAILABLE if outcome is None else Error(outcome.error_code)
            if error in RETRIABLE:
                self._retry(now, state, is_moved=error in _MOVED)
            else:
                self.results[partition] = AdminOutcome(error, outcome)
                del self._open[partition]

    def on_failure(self, now: int, request: LeaderRequest) -> None:
        """Retry a request that gets no response."""
        for partition in request.partitions:
            state = self._open.get(partition)
            if state is not None:
                state.is_in_flight = False
                self._retry(now, state, is_moved=True)

    def _retry(self, now: int, state: _OpenPartition, *, is_moved: bool) -> None:
        state.not_before = now + self._backoff.backoff(state.failures, self._draw())
        state.failures += 1
        self.needs_metadata = self.needs_metadata or is_moved


def delete_records(offsets: Mapping[TopicPartition, int], timeout_ms: int = 30_000) -> AdminCall:
    """Delete the records below an offset of each partition; -1 deletes all."""

    def body(partitions: Iterable[TopicPartition]) -> Body:
        topics: dict[str, list[dict[str, int]]] = {}
        for each in partitions:
            wanted = {"partitionIndex": each.partition, "offset": offsets[each]}
            topics.setdefault(each.topic, []).append(wanted)
        named = [{"name": topic, "partitions": found} for topic, found in topics.items()]
        return msgspec.convert({"topics": named, "timeoutMs": timeout_ms}, DeleteRecordsRequest)

    return AdminCall("DELETE_RECORDS", tuple(offsets), body)
