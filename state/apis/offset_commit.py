"""OffsetCommit (key 8, versions 2 to 10): a group stores how far it has read.

Source: seed 003; KIP-98, KIP-320, KIP-345, KIP-848; `KafkaApis.handleOffsetCommitRequest`,
`OffsetMetadataManager.commitOffset`, `ClassicGroup.validateOffsetCommit` in Kafka.

Partitions that do not exist are answered by the broker itself (3; an unknown topic id 100) and
never reach the coordinator; where none is left, the group is not looked at. Then, in this order:

    this broker does not coordinate the group         16 NOT_COORDINATOR
    no such group, generation >= 0                    69 (version 9 and later), 22 (earlier)
    group without members, generation >= 0            25 UNKNOWN_MEMBER_ID
    metadata longer than offset.metadata.max.bytes    12, for that partition alone

A commit with a generation below 0 makes a group that is not there yet ("simple"). The time of the
commit is the event's; it expires at a time of its own only where versions 2 to 4 give a retention.
From version 10 on topics go by their ids (KIP-848). Partitions with an error of the broker come
first in the answer, as in Kafka's.

Not done: groups with members, the authorization (29, 30).
"""

from typing import Annotated, NamedTuple

from brokerstream.state import committed_offsets, coordinators
from brokerstream.state.apis import Api
from brokerstream.state.decision import Decision, Request
from brokerstream.state.errors import Error
from brokerstream.state.machines import Broker
from brokerstream.state.records import OffsetCommitted
from brokerstream.state.schema import ZERO_UUID, Body, Int16, Int32, Int64, Uuid, since

TOPIC_IDS_SINCE = 10
GROUP_ID_NOT_FOUND_SINCE = 9
NO_RETENTION = -1


class CommitPartition(Body):
    """An offset to store; `committed_metadata` null counts as empty."""

    partition_index: Int32
    committed_offset: Int64
    committed_leader_epoch: Annotated[Int32, since(6)] = -1
    committed_metadata: str | None = None


class CommitTopic(Body, kw_only=True):
    """The offsets of one topic."""

    name: Annotated[str, since(0, 9)] = ""
    topic_id: Annotated[Uuid, since(10)] = ZERO_UUID
    partitions: list[CommitPartition]


class OffsetCommitRequest(Body, kw_only=True):
    """Offsets of a group; generation -1 and member "" come from outside the group protocol."""

    group_id: str
    generation_id_or_member_epoch: Int32 = -1
    member_id: str = ""
    group_instance_id: Annotated[str | None, since(7)] = None
    retention_time_ms: Annotated[Int64, since(2, 4)] = NO_RETENTION
    topics: list[CommitTopic]


class CommittedPartition(Body):
    """What became of one partition's offset."""

    partition_index: Int32
    error_code: Int16


class CommittedTopic(Body, kw_only=True):
    """The answers of one topic."""

    name: Annotated[str, since(0, 9)] = ""
    topic_id: Annotated[Uuid, since(10)] = ZERO_UUID
    partitions: list[CommittedPartition]


class OffsetCommitResponse(Body, kw_only=True):
    """The answers by topic and partition."""

    throttle_time_ms: Annotated[Int32, since(3)] = 0
    topics: list[CommittedTopic]


class _Place(NamedTuple):
    """A topic of the request: how the answer names it, and its name here; None if unknown."""

    request: CommitTopic
    name: str | None
    partition_count: int


def handle(broker: Broker, request: Request) -> Decision:
    """Stores the offsets that may be stored."""
    body: OffsetCommitRequest = request.body
    answers = _Answers()
    left: list[tuple[_Place, list[CommitPartition]]] = []
    for topic in body.topics:
        place = _place_of(broker, topic, request.version)
        known = [p for p in topic.partitions if 0 <= p.partition_index < place.partition_count]
        unknown = (
            Error.UNKNOWN_TOPIC_ID
            if place.name is None and request.version >= TOPIC_IDS_SINCE
            else Error.UNKNOWN_TOPIC_OR_PARTITION
        )
        for partition in topic.partitions:
            if partition not in known:
                answers.add(topic, partition.partition_index, unknown)
        if known:
            left.append((place, known))
    records = _commit(broker, request, left, answers) if left else []
    return Decision(records=records, response=answers.response())


def _commit(
    broker: Broker,
    request: Request,
    left: list[tuple[_Place, list[CommitPartition]]],
    answers: "_Answers",
) -> list[OffsetCommitted]:
    body: OffsetCommitRequest = request.body
    error = _group_error(broker, body, request.version)
    records = []
    for place, partitions in left:
        for partition in partitions:
            answer = error
            if error is Error.NONE and _is_too_large(broker, partition):
                answer = Error.OFFSET_METADATA_TOO_LARGE
            elif error is Error.NONE:
                assert place.name is not None
                records.append(_record(broker, body, place.name, partition))
            answers.add(place.request, partition.partition_index, answer)
    return records


def _group_error(broker: Broker, body: OffsetCommitRequest, version: int) -> Error:
    """Why the group does not take the offsets, if so."""
    error = coordinators.group_error(broker, body.group_id)
    if error is not Error.NONE:
        return error
    if body.generation_id_or_member_epoch < 0:
        return Error.NONE
    if committed_offsets.group(broker.tables.groups, broker.id, body.group_id) is not None:
        return Error.UNKNOWN_MEMBER_ID
    if version >= GROUP_ID_NOT_FOUND_SINCE:
        return Error.GROUP_ID_NOT_FOUND
    return Error.ILLEGAL_GENERATION


def _place_of(broker: Broker, topic: CommitTopic, version: int) -> _Place:
    if version >= TOPIC_IDS_SINCE:
        known = broker.topic_by_id(topic.topic_id)
    else:
        known = broker.topic_by_name(topic.name)
    if known is None:
        return _Place(topic, None, 0)
    return _Place(topic, known.name, len(known.partitions))


def _is_too_large(broker: Broker, partition: CommitPartition) -> bool:
    """Whether the metadata has too many characters, counted as Java does (UTF-16 units)."""
    metadata = partition.committed_metadata or ""
    limit = broker.settings.offset_metadata_max_bytes
    return 2 * len(metadata) > limit and len(metadata.encode("utf-16-le")) // 2 > limit


def _record(
    broker: Broker, body: OffsetCommitRequest, topic: str, partition: CommitPartition
) -> OffsetCommitted:
    retention = body.retention_time_ms
    return OffsetCommitted(
        group_id=body.group_id,
        topic=topic,
        partition=partition.partition_index,
        offset=partition.committed_offset,
        leader_epoch=partition.committed_leader_epoch,
        metadata=partition.committed_metadata or "",
        commit_timestamp=broker.now,
        expire_timestamp=-1 if retention == NO_RETENTION else broker.now + retention,
    )


class _Answers:
    """Gathers the answer: a topic is where its first partition came, and stays one entry."""

    def __init__(self) -> None:
        self._topics: dict[tuple[str, Uuid], CommittedTopic] = {}

    def add(self, topic: CommitTopic, partition: int, error: Error) -> None:
        key = (topic.name, topic.topic_id)
        if key not in self._topics:
            self._topics[key] = CommittedTopic(
                name=topic.name, topic_id=topic.topic_id, partitions=[]
            )
        self._topics[key].partitions.append(
            CommittedPartition(partition_index=partition, error_code=error)
        )

    def response(self) -> OffsetCommitResponse:
        return OffsetCommitResponse(topics=list(self._topics.values()))


API = Api(
    key=8,
    name="OFFSET_COMMIT",
    versions=(2, 10),
    request_type=OffsetCommitRequest,
    handle=handle,
)
