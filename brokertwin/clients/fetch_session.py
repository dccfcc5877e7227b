"""The client side of incremental fetch sessions (KIP-227), one per broker.

Source: seed 000; `FetchSessionHandler`, `FetchMetadata`, `FetchRequest.Builder` in Kafka.

    response                                        next request      accepted
    70 FETCH_SESSION_ID_NOT_FOUND                   (0, 0)            no
    any other top-level error                       (S, 0)            no
    full, throttled and empty                       (0, 0)            no
    full, other partitions than requested           (0, 0)            no
    full, session id 0                              (0, 0)            yes
    full, session id S                              (S, 1)            yes
    incremental, a partition not in the session     (S, 0)            no
    incremental, session id 0                       (0, 0)            yes
    incremental, session id S                       (S, next epoch)   yes

Without a response, `handle_error` sets (S, 0), which closes S and requests a new session. The seed
calls that nextCloseExisting, which today is (S, -1) and only closes (`notify_close`). Without
sessions, as before KIP-227, each request is (0, -1).
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from brokertwin.clients.partitions import TopicIdPartition, TopicPartition, grouped
from brokertwin.protocol.bodies import ZERO_UUID, Uuid
from brokertwin.protocol.errors import Error, error_name
from brokertwin.protocol.generated.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchRequestForgottenTopic,
    FetchRequestPartition,
    FetchRequestTopic,
    FetchResponse,
)
from brokertwin.state.cluster.image import NO_EPOCH
from brokertwin.state.fetch.fetch_session import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    INVALID_SESSION_ID,
    TOPIC_ID_VERSION,
    next_epoch,
)

NAMES_VERSION = TOPIC_ID_VERSION - 1
"""The last version of Fetch that names topics."""


class FetchMetadata(NamedTuple):
    """Session id and epoch of a fetch request."""

    session_id: int
    epoch: int

    @property
    def is_full(self) -> bool:
        return self.epoch in (INITIAL_EPOCH, FINAL_EPOCH)

    def next_incremental(self) -> "FetchMetadata":
        return FetchMetadata(self.session_id, next_epoch(self.epoch))

    def next_close_existing_attempt_new(self) -> "FetchMetadata":
        return FetchMetadata(self.session_id, INITIAL_EPOCH)

    def next_close_existing(self) -> "FetchMetadata":
        return FetchMetadata(self.session_id, FINAL_EPOCH)


INITIAL = FetchMetadata(INVALID_SESSION_ID, INITIAL_EPOCH)
SESSIONLESS = FetchMetadata(INVALID_SESSION_ID, FINAL_EPOCH)


class PartitionData(msgspec.Struct, frozen=True):
    """A partition of a fetch request; unknown epochs are -1."""

    fetch_offset: int
    log_start_offset: int
    max_bytes: int
    topic_id: Uuid = ZERO_UUID
    current_leader_epoch: int = NO_EPOCH
    last_fetched_epoch: int = NO_EPOCH


class FetchRequestData(msgspec.Struct):
    """A fetch request and the full session.

    `to_replace` has partitions of recreated topics; their former ids are forgotten.
    """

    metadata: FetchMetadata
    to_send: dict[TopicPartition, PartitionData]
    to_forget: list[TopicIdPartition]
    to_replace: list[TopicIdPartition]
    session_partitions: dict[TopicPartition, PartitionData]
    can_use_topic_ids: bool

    def version(self, latest: int) -> int:
        """Return the version to use: below 13 if a topic id is unknown."""
        return latest if self.can_use_topic_ids else min(latest, NAMES_VERSION)

    def request(self, version: int) -> FetchRequest:
        """Return the body; the caller sets max wait, bytes and isolation."""
        forgotten = list(self.to_forget)
        if version >= TOPIC_ID_VERSION:
            forgotten += self.to_replace
        return FetchRequest(
            session_id=self.metadata.session_id,
            session_epoch=self.metadata.epoch,
            topics=_requested(self.to_send, version),
            forgotten_topics_data=_forgotten(forgotten, version),
        )


class ResponseCheck(NamedTuple):
    """Whether to accept a response; otherwise `problem` has the reason."""

    is_accepted: bool
    problem: str = ""


class Builder:
    """Collects the partitions of one request, in order."""

    def __init__(self, handler: "FetchSessionHandler") -> None:
        self._handler = handler
        self._next: dict[TopicPartition, PartitionData] = {}
        self._is_spent = False

    def add(self, partition: TopicPartition, data: PartitionData) -> None:
        self._next[partition] = data

    def build(self) -> FetchRequestData:
        """Return the request. Raises RuntimeError if called again."""
        if self._is_spent:
            raise RuntimeError("a builder builds one request")
        self._is_spent = True
        return self._handler.next_request(self._next)


class FetchSessionHandler:
    """The session with one broker.

    Attributes:
        next_metadata: session id and epoch of the next request.
        session_partitions: the session's partitions in order.
        session_topic_names: topic names by id; empty without ids.
    """

    def __init__(self, *, uses_sessions: bool = True) -> None:
        self._initial = INITIAL if uses_sessions else SESSIONLESS
        self.next_metadata = self._initial
        self.session_partitions: dict[TopicPartition, PartitionData] = {}
        self.session_topic_names: dict[Uuid, str] = {}

    @property
    def session_id(self) -> int:
        """The session's id, 0 if there is none."""
        return self.next_metadata.session_id

    def builder(self) -> Builder:
        return Builder(self)

    def next_request(self, partition_data: dict[TopicPartition, PartitionData]) -> FetchRequestData:
        """Return the request that makes the session hold this data. Usually called by `builder`."""
        removed: list[TopicIdPartition] = []
        replaced: list[TopicIdPartition] = []
        to_send = dict(partition_data)
        if self.next_metadata.is_full:
            self.session_partitions = dict(partition_data)
        else:
            removed, replaced = self._move_on(to_send)
        has_all_ids = all(data.topic_id != ZERO_UUID for data in partition_data.values())
        can_use_ids = has_all_ids and all(removed.topic_id != ZERO_UUID for removed in removed)
        self.session_topic_names = (
            {data.topic_id: partition.topic for partition, data in partition_data.items()}
            if can_use_ids
            else {}
        )
        session = dict(self.session_partitions)
        return FetchRequestData(
            self.next_metadata, to_send, removed, replaced, session, can_use_ids
        )

    def handle_response(self, response: FetchResponse, version: int) -> ResponseCheck:
        """Check a response to the last request; `version` is the request's."""
        if response.error_code != Error.NONE:
            return self._handle_refusal(response.error_code)
        if self.next_metadata.is_full:
            return self._handle_full(response, version)
        return self._handle_incremental(response, version)

    def handle_error(self) -> None:
        """Reset the session: close it and request a new one."""
        if self.session_id == INVALID_SESSION_ID:
            self.next_metadata = self._initial
        else:
            self.next_metadata = self.next_metadata.next_close_existing_attempt_new()

    def notify_close(self) -> bool:
        """Make the next request close the session; returns whether there is one."""
        self.next_metadata = self.next_metadata.next_close_existing()
        return self.session_id != INVALID_SESSION_ID

    def _move_on(
        self, to_send: dict[TopicPartition, PartitionData]
    ) -> tuple[list[TopicIdPartition], list[TopicIdPartition]]:
        """Update the session; keeps needed partitions in `to_send`.

        Added partitions come first, then altered or replaced ones.
        """
        removed, replaced = [], []
        for partition, former in list(self.session_partitions.items()):
            data = to_send.pop(partition, None)
            if data is None:
                del self.session_partitions[partition]
                removed.append(TopicIdPartition(former.topic_id, *partition))
                continue
            self.session_partitions[partition] = data
            if data != former:
                to_send[partition] = data
            if _is_replaced(former, data):
                replaced.append(TopicIdPartition(former.topic_id, *partition))
        for partition, data in to_send.items():
            self.session_partitions.setdefault(partition, data)
        return removed, replaced

    def _handle_refusal(self, code: int) -> ResponseCheck:
        if code == Error.FETCH_SESSION_ID_NOT_FOUND:
            self.next_metadata = self._initial
        else:
            self.handle_error()
        return ResponseCheck(False, error_name(code))

    def _handle_full(self, response: FetchResponse, version: int) -> ResponseCheck:
        self.next_metadata = self._initial
        named = set(self._named_partitions(response.responses, version))
        if not named and response.throttle_time_ms > 0:
            return ResponseCheck(False, f"throttled for {response.throttle_time_ms} ms")
        omitted = self.session_partitions.keys() - named
        problems = [
            *_problem("omits", omitted),
            *self._unexpected(named, response.responses, version),
        ]
        if problems:
            return ResponseCheck(False, ", ".join(problems))
        if response.session_id != INVALID_SESSION_ID:
            opened = FetchMetadata(response.session_id, INITIAL_EPOCH)
            self.next_metadata = opened.next_incremental()
        return ResponseCheck(True)

    def _handle_incremental(self, response: FetchResponse, version: int) -> ResponseCheck:
        named = set(self._named_partitions(response.responses, version))
        problems = self._unexpected(named, response.responses, version)
        if problems:
            self.handle_error()
            return ResponseCheck(False, ", ".join(problems))
        if response.session_id == INVALID_SESSION_ID:
            self.next_metadata = self._initial
        else:
            self.next_metadata = self.next_metadata.next_incremental()
        return ResponseCheck(True)

    def _named_partitions(
        self, topics: list[FetchableTopicResponse], version: int
    ) -> Iterator[TopicPartition]:
        """The partitions of a response; those of unknown ids are left out."""
        for topic in topics:
            name: str | None = topic.topic
            if version >= TOPIC_ID_VERSION:
                name = self.session_topic_names.get(topic.topic_id)
            if name is not None:
                for partition in topic.partitions:
                    yield TopicPartition(name, partition.partition_index)

    def _unexpected(
        self, named: set[TopicPartition], topics: list[FetchableTopicResponse], version: int
    ) -> list[str]:
        problems = _problem("has extra", named - self.session_partitions.keys())
        if version >= TOPIC_ID_VERSION:
            ids = {topic.topic_id for topic in topics}
            unknown = sorted(ids - self.session_topic_names.keys())
            problems += [f"has unknown topic ids {', '.join(unknown)}"] if unknown else []
        return problems


def _is_replaced(former: PartitionData, data: PartitionData) -> bool:
    """Whether the topic was recreated; between an id and none is no change."""
    has_ids = ZERO_UUID not in (former.topic_id, data.topic_id)
    return has_ids and former.topic_id != data.topic_id


def _problem(problem: str, partitions: Iterable[TopicPartition]) -> list[str]:
    names = [f"{topic}-{partition}" for topic, partition in sorted(partitions)]
    return [f"{problem} {', '.join(names)}"] if names else []


def _topic_key(topic: str, topic_id: Uuid, version: int) -> tuple[str, Uuid]:
    """Name a topic by id from version 13 on, otherwise by name."""
    return ("", topic_id) if version >= TOPIC_ID_VERSION else (topic, ZERO_UUID)


def _requested(
    to_send: dict[TopicPartition, PartitionData], version: int
) -> list[FetchRequestTopic]:
    """Group consecutive partitions by topic; a topic may occur again."""
    topics: list[FetchRequestTopic] = []
    for partition, data in to_send.items():
        named = _topic_key(partition.topic, data.topic_id, version)
        if not topics or (topics[-1].topic, topics[-1].topic_id) != named:
            topics.append(FetchRequestTopic(topic=named[0], topic_id=named[1], partitions=[]))
        topics[-1].partitions.append(
            FetchRequestPartition(
                partition=partition.partition,
                current_leader_epoch=data.current_leader_epoch,
                fetch_offset=data.fetch_offset,
                last_fetched_epoch=data.last_fetched_epoch,
                log_start_offset=data.log_start_offset,
                partition_max_bytes=data.max_bytes,
            )
        )
    return topics


def _forgotten(removed: list[TopicIdPartition], version: int) -> list[FetchRequestForgottenTopic]:
    topics = grouped((_topic_key(at.topic, at.topic_id, version), at.partition) for at in removed)
    return [
        FetchRequestForgottenTopic(topic=topic, topic_id=topic_id, partitions=partitions)
        for (topic, topic_id), partitions in topics.items()
    ]
