"""Incremental fetch sessions (KIP-227), the client's side: one handler for each broker.

Source: seed 000; `FetchSessionHandler`, `FetchMetadata`, `FetchRequest.Builder` in Kafka.

    answer                                      next request          accepted
    error 70 (session not found)                (0, 0)                no
    any other error of the whole answer         (S, 0)                no
    full, throttled (nothing in it)             (0, 0)                no
    full, other partitions than were asked      (0, 0)                no
    full, session id 0                          (0, 0)                yes
    full, session id S                          (S, 1)                yes
    incremental, a partition not of the session (S, 0)                no
    incremental, session id 0                   (0, 0)                yes
    incremental, session id S                   (S, next epoch)       yes

No answer at all is `handle_error`: (S, 0). (S, 0) closes S and asks for a new session; in the
seed's version it was named nextCloseExisting, which today is (S, -1) and closes only.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from brokertwin.clients.partitions import TopicIdPartition, TopicPartition
from brokertwin.state.cluster.image import NO_EPOCH
from brokertwin.state.core.errors import Error, error_name
from brokertwin.state.core.schema import ZERO_UUID, Uuid
from brokertwin.state.fetch.fetch_bodies import (
    FetchForgottenTopic,
    FetchRequest,
    FetchRequestPartition,
    FetchRequestTopic,
    FetchResponse,
    FetchResponseTopic,
)
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
    """Session id and epoch, as a fetch request carries them."""

    session_id: int
    epoch: int

    @property
    def is_full(self) -> bool:
        """Whether the request names every partition."""
        return self.epoch in (INITIAL_EPOCH, FINAL_EPOCH)

    def next_incremental(self) -> "FetchMetadata":
        """The session goes on."""
        return FetchMetadata(self.session_id, next_epoch(self.epoch))

    def next_close_existing(self) -> "FetchMetadata":
        """Close the session and make none."""
        return FetchMetadata(self.session_id, FINAL_EPOCH)

    def next_close_existing_attempt_new(self) -> "FetchMetadata":
        """Close the session and ask for a new one."""
        return FetchMetadata(self.session_id, INITIAL_EPOCH)


INITIAL = FetchMetadata(INVALID_SESSION_ID, INITIAL_EPOCH)
LEGACY = FetchMetadata(INVALID_SESSION_ID, FINAL_EPOCH)


class PartitionData(msgspec.Struct, frozen=True):
    """What a client asks of one partition; epochs are -1 where it knows none."""

    fetch_offset: int
    log_start_offset: int
    max_bytes: int
    topic_id: Uuid = ZERO_UUID
    current_leader_epoch: int = NO_EPOCH
    last_fetched_epoch: int = NO_EPOCH


class FetchRequestData(msgspec.Struct):
    """What one fetch request says, and the whole session that it stands for.

    `to_replace` are partitions of a topic that was made anew: their former ids are forgotten.
    """

    metadata: FetchMetadata
    to_send: dict[TopicPartition, PartitionData]
    to_forget: list[TopicIdPartition]
    to_replace: list[TopicIdPartition]
    session_partitions: dict[TopicPartition, PartitionData]
    can_use_topic_ids: bool

    def version(self, latest: int) -> int:
        """The version to send: below 13 where a topic's id is not known."""
        return latest if self.can_use_topic_ids else min(latest, NAMES_VERSION)

    def request(self, version: int) -> FetchRequest:
        """The body, without the limits (max wait, bytes, isolation), which the caller sets."""
        forgotten = list(self.to_forget)
        if version >= TOPIC_ID_VERSION:
            forgotten += self.to_replace
        return FetchRequest(
            session_id=self.metadata.session_id,
            session_epoch=self.metadata.epoch,
            topics=_requested(self.to_send, version),
            forgotten_topics_data=_forgotten(forgotten, version),
        )


class Verdict(NamedTuple):
    """Whether an answer counts; if not, `problem` says why and its payload is to be dropped."""

    is_accepted: bool
    problem: str = ""


class Builder:
    """Collects the partitions that are wanted now, in their order, for one request."""

    def __init__(self, handler: "FetchSessionHandler") -> None:
        self._handler = handler
        self._next: dict[TopicPartition, PartitionData] = {}
        self._is_spent = False

    def add(self, partition: TopicPartition, data: PartitionData) -> None:
        """A partition that is wanted."""
        self._next[partition] = data

    def build(self) -> FetchRequestData:
        """The request. Raises RuntimeError when called again."""
        if self._is_spent:
            raise RuntimeError("a builder gives one request")
        self._is_spent = True
        return self._handler.next_request(self._next)


class FetchSessionHandler:
    """The session with one broker, as the client sees it.

    Attributes:
        next_metadata: what the next request carries.
        session_partitions: the partitions of the session in its order, with what was last asked.
        session_topic_names: topic ids and names; empty where the session has no ids.
    """

    def __init__(self) -> None:
        self.next_metadata = INITIAL
        self.session_partitions: dict[TopicPartition, PartitionData] = {}
        self.session_topic_names: dict[Uuid, str] = {}

    @property
    def session_id(self) -> int:
        """The session's id, 0 where there is none."""
        return self.next_metadata.session_id

    def builder(self) -> Builder:
        """Collects the partitions of the next request."""
        return Builder(self)

    def next_request(self, wanted: dict[TopicPartition, PartitionData]) -> FetchRequestData:
        """The request that makes the session hold `wanted`; `builder` is the usual way to it."""
        removed: list[TopicIdPartition] = []
        replaced: list[TopicIdPartition] = []
        to_send = dict(wanted)
        if self.next_metadata.is_full:
            self.session_partitions = dict(wanted)
        else:
            removed, replaced = self._move_on(to_send)
        has_all_ids = all(data.topic_id != ZERO_UUID for data in wanted.values())
        can_use_ids = has_all_ids and all(gone.topic_id != ZERO_UUID for gone in removed)
        self.session_topic_names = (
            {data.topic_id: partition.topic for partition, data in wanted.items()}
            if can_use_ids
            else {}
        )
        session = dict(self.session_partitions)
        return FetchRequestData(
            self.next_metadata, to_send, removed, replaced, session, can_use_ids
        )

    def handle_response(self, response: FetchResponse, version: int) -> Verdict:
        """Takes an answer to the last request; `version` is that of the request."""
        if response.error_code != Error.NONE:
            return self._handle_refusal(response.error_code)
        if self.next_metadata.is_full:
            return self._handle_full(response, version)
        return self._handle_incremental(response, version)

    def handle_error(self) -> None:
        """No answer came: the broker may have moved the session on or not, so it is given up."""
        self.next_metadata = self.next_metadata.next_close_existing_attempt_new()

    def notify_close(self) -> None:
        """The client closes: the next request, an empty one, only frees the session."""
        self.next_metadata = self.next_metadata.next_close_existing()

    def _move_on(
        self, to_send: dict[TopicPartition, PartitionData]
    ) -> tuple[list[TopicIdPartition], list[TopicIdPartition]]:
        """Brings the session to what is wanted; leaves in `to_send` what the broker must hear.

        Added partitions come first in `to_send`, then those that were altered or replaced.
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

    def _handle_refusal(self, code: int) -> Verdict:
        if code == Error.FETCH_SESSION_ID_NOT_FOUND:
            self.next_metadata = INITIAL
        else:
            self.next_metadata = self.next_metadata.next_close_existing_attempt_new()
        return Verdict(False, error_name(code))

    def _handle_full(self, response: FetchResponse, version: int) -> Verdict:
        self.next_metadata = INITIAL
        answered = set(self._answered(response.responses, version))
        if not answered and response.throttle_time_ms > 0:
            return Verdict(False, f"throttled for {response.throttle_time_ms} ms")
        omitted = self.session_partitions.keys() - answered
        problems = [
            *_problem("omits", omitted),
            *self._strangers(answered, response.responses, version),
        ]
        if problems:
            return Verdict(False, ", ".join(problems))
        if response.session_id != INVALID_SESSION_ID:
            opened = FetchMetadata(response.session_id, INITIAL_EPOCH)
            self.next_metadata = opened.next_incremental()
        return Verdict(True)

    def _handle_incremental(self, response: FetchResponse, version: int) -> Verdict:
        answered = set(self._answered(response.responses, version))
        problems = self._strangers(answered, response.responses, version)
        if problems:
            self.next_metadata = self.next_metadata.next_close_existing_attempt_new()
            return Verdict(False, ", ".join(problems))
        if response.session_id == INVALID_SESSION_ID:
            self.next_metadata = INITIAL
        else:
            self.next_metadata = self.next_metadata.next_incremental()
        return Verdict(True)

    def _answered(self, topics: list[FetchResponseTopic], version: int) -> Iterator[TopicPartition]:
        """The partitions of an answer; those of an id that is not of the session are left out."""
        for topic in topics:
            name: str | None = topic.topic
            if version >= TOPIC_ID_VERSION:
                name = self.session_topic_names.get(topic.topic_id)
            if name is not None:
                for partition in topic.partitions:
                    yield TopicPartition(name, partition.partition_index)

    def _strangers(
        self, answered: set[TopicPartition], topics: list[FetchResponseTopic], version: int
    ) -> list[str]:
        """What an answer names that is not of the session."""
        problems = _problem("has extra", answered - self.session_partitions.keys())
        if version >= TOPIC_ID_VERSION:
            ids = {topic.topic_id for topic in topics}
            unknown = sorted(ids - self.session_topic_names.keys())
            problems += [f"has unknown topic ids {', '.join(unknown)}"] if unknown else []
        return problems


def _is_replaced(former: PartitionData, data: PartitionData) -> bool:
    """Whether the topic was made anew. From an id to none, or back, is a mere alteration."""
    has_ids = ZERO_UUID not in (former.topic_id, data.topic_id)
    return has_ids and former.topic_id != data.topic_id


def _problem(what: str, partitions: Iterable[TopicPartition]) -> list[str]:
    names = [f"{topic}-{partition}" for topic, partition in sorted(partitions)]
    return [f"{what} {', '.join(names)}"] if names else []


def _named(topic: str, topic_id: Uuid, version: int) -> tuple[str, Uuid]:
    """How a version names a topic: by its id from 13 on, by its name before."""
    return ("", topic_id) if version >= TOPIC_ID_VERSION else (topic, ZERO_UUID)


def _requested(
    to_send: dict[TopicPartition, PartitionData], version: int
) -> list[FetchRequestTopic]:
    """Runs of partitions of one topic; a topic comes again where another one came in between."""
    topics: list[FetchRequestTopic] = []
    for partition, data in to_send.items():
        named = _named(partition.topic, data.topic_id, version)
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


def _forgotten(gone: list[TopicIdPartition], version: int) -> list[FetchForgottenTopic]:
    topics: dict[tuple[str, Uuid], FetchForgottenTopic] = {}
    for topic_id, topic, partition in gone:
        named = _named(topic, topic_id, version)
        if named not in topics:
            topics[named] = FetchForgottenTopic(topic=named[0], topic_id=named[1], partitions=[])
        topics[named].partitions.append(partition)
    return list(topics.values())
