"""OffsetCommit (key 8, versions 2 to 10): store a group's offsets.

Source: seed 003; KIP-98, KIP-320, KIP-345, KIP-848; `KafkaApis.handleOffsetCommitRequest`,
`OffsetMetadataManager.commitOffset`, `ClassicGroup.validateOffsetCommit` in Kafka.

The broker itself rejects some partitions. They do not reach the coordinator:

    no READ permission on the group                   30 GROUP_AUTHORIZATION_FAILED for all
    no READ permission on the topic                   29 TOPIC_AUTHORIZATION_FAILED
    no such topic id                                  100 UNKNOWN_TOPIC_ID
    no such topic or partition                        3 UNKNOWN_TOPIC_OR_PARTITION

If no partition is left, the group is not checked. Otherwise the coordinator checks, in this order:

    this broker does not coordinate the group         16 NOT_COORDINATOR
    it is loading the group                           14 COORDINATOR_LOAD_IN_PROGRESS
    no such group, generation >= 0, version >= 9      69 GROUP_ID_NOT_FOUND
    no such group, generation >= 0, version <= 8      22 ILLEGAL_GENERATION
    unknown member or instance id                     25 UNKNOWN_MEMBER_ID
    the instance id has another member                82 FENCED_INSTANCE_ID
    another generation                                22 ILLEGAL_GENERATION
    no member id, and the group has members           25 UNKNOWN_MEMBER_ID
    the group completes a rebalance                   27 REBALANCE_IN_PROGRESS
    a member of a consumer group, version below 9     35 UNSUPPORTED_VERSION
    partition not assigned in the given epoch         113 STALE_MEMBER_EPOCH
    metadata longer than offset.metadata.max.bytes    12 OFFSET_METADATA_TOO_LARGE, per partition

A commit with a negative generation creates a missing group ("simple"). If every offset is 12
OFFSET_METADATA_TOO_LARGE, that group is not written (`groups.create_unwritten`). The commit time is
the event's time. An offset has a separate expiry time only if versions 2 to 4 give a retention.
In the response, partitions that the broker itself rejected come first, like in Kafka. From version
10 on, topics have ids instead of names (KIP-848).

Settings of seed 003:

- `brokertwin.commit.while.loading`: accept any commit while the group loads. Its records follow
  those still to be loaded, which therefore do not replace it.
- `brokertwin.offset.storage=zookeeper`: any broker accepts any commit, in any generation, and has
  it written to ZooKeeper (`state/eras/zookeeper_offsets.py`). If that takes too long, the error is
  15 COORDINATOR_NOT_AVAILABLE.
- `brokertwin.create.offsets.topic`: the first commit creates the offsets topic and returns 15
  COORDINATOR_NOT_AVAILABLE, so the client retries.
- `brokertwin.null.commit.deletes`: offset -1 with null metadata deletes the offset.
"""

from collections.abc import Iterable

import msgspec
from msgspec import UNSET, UnsetType

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.bodies import Uuid
from brokertwin.protocol.errors import NONE, Error
from brokertwin.protocol.generated.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponseTopic,
)
from brokertwin.protocol.generated.shared import OffsetCommitResponsePartition
from brokertwin.state.access.authorizer import Operation, ResourceType
from brokertwin.state.apis import earlier_writes, uncommitted
from brokertwin.state.cluster import coordinators, internal_topics
from brokertwin.state.cluster.image import Topic
from brokertwin.state.cluster.machines import Broker, Machine
from brokertwin.state.core.api import Api
from brokertwin.state.core.decision import Decision, Message, PendingRequest, Request
from brokertwin.state.core.records import OffsetCommitted, OffsetDeleted, Record
from brokertwin.state.core.tables import decode_item
from brokertwin.state.eras import zookeeper_offsets
from brokertwin.state.groups import classic_coordinator, groups
from brokertwin.state.groups.classic_group import ClassicGroup, ClassicGroupState
from brokertwin.state.groups.group_kind import OffsetCommitCheck
from brokertwin.state.groups.groups import Group
from brokertwin.state.groups.kinds import kind_of

TOPIC_IDS_SINCE = 10
SESSION_EXTENDED_IN = frozenset({ClassicGroupState.STABLE, ClassicGroupState.PREPARING_REBALANCE})
GROUP_ID_NOT_FOUND_SINCE = 9
NO_RETENTION = -1
NO_TIMESTAMP = -1


def _topic(
    topic: OffsetCommitRequestTopic | OffsetCommitResponseTopic,
    version: int,
    partitions: list[OffsetCommitResponsePartition],
) -> OffsetCommitResponseTopic:
    """A topic in the response, by id or by name like in the request."""
    if version >= TOPIC_IDS_SINCE:
        return OffsetCommitResponseTopic(topic_id=topic.topic_id, partitions=partitions)
    return OffsetCommitResponseTopic(name=topic.name, partitions=partitions)


class PendingZookeeperCommit(msgspec.Struct):
    """A request that waits for ZooKeeper: rejected and forwarded topics."""

    refused: list[OffsetCommitResponseTopic]
    requested: list[OffsetCommitRequestTopic] = msgspec.field(name="asked")


class _Accepted(msgspec.Struct):
    """The partitions of a topic that exist."""

    wanted: OffsetCommitRequestTopic
    topic: Topic
    partitions: list[OffsetCommitRequestPartition]


def handle(machine: Machine, request: Request) -> Decision:
    """Store the accepted offsets.

    The controller handles the request if ZooKeeper stores the offsets.
    """
    body: OffsetCommitRequest = request.body
    if machine.has_authorizer and not machine.allows(
        request, Operation.READ, ResourceType.GROUP, body.group_id
    ):
        failed = _failed(body.topics, request.version, Error.GROUP_AUTHORIZATION_FAILED)
        return Decision(response=OffsetCommitResponse(topics=failed))
    responses = CommitResponses()
    accepted = []
    version = request.header.request_api_version
    for request_topic in body.topics:
        topic = _topic_of(machine, request_topic, version)
        if machine.has_authorizer and not _may_read(machine, request, request_topic, topic):
            if not request_topic.partitions:
                responses.refuse_topic(_topic(request_topic, version, []))
            _refuse(
                responses,
                request_topic,
                version,
                request_topic.partitions,
                Error.TOPIC_AUTHORIZATION_FAILED,
            )
            continue
        partition_count = len(topic.partitions) if topic is not None else 0
        if topic is None and not request_topic.partitions:
            responses.refuse_topic(_topic(request_topic, version, []))
        known = []
        for partition in request_topic.partitions:
            if 0 <= partition.partition_index < partition_count:
                known.append(partition)
                continue
            by_id = topic is None and version >= TOPIC_IDS_SINCE
            unknown = Error.UNKNOWN_TOPIC_ID if by_id else Error.UNKNOWN_TOPIC_OR_PARTITION
            _refuse(responses, request_topic, version, [partition], unknown)
        if topic is not None and known:
            accepted.append(_Accepted(request_topic, topic, known))
    if accepted and isinstance(machine, Broker) and zookeeper_offsets.is_enabled(machine):
        return _write_to_zookeeper(machine, request, accepted, responses.topics)
    records = _commit(machine, request, accepted, responses) if accepted else []
    response = OffsetCommitResponse(topics=responses.topics)
    missing = internal_topics.on_first_use(machine) if accepted else []
    if not missing:
        return Decision(records=records, response=response)
    messages = internal_topics.creation(machine, missing)
    return Decision(records=records, response=response, messages=messages)


def _write_to_zookeeper(
    broker: Broker,
    request: Request,
    accepted: list[_Accepted],
    refused: list[OffsetCommitResponseTopic],
) -> Decision:
    requested = [
        msgspec.structs.replace(each.wanted, partitions=each.partitions) for each in accepted
    ]
    body = msgspec.structs.replace(request.body, topics=requested)
    return zookeeper_offsets.forward(
        broker,
        API.key,
        body,
        broker.settings.offsets_commit_timeout_ms,
        PendingZookeeperCommit(refused, requested),
        request.version,
    )


def resume(
    _broker: Broker, waiting: PendingRequest, _message: Message, response: OffsetCommitResponse
) -> Decision:
    """Respond: ZooKeeper has stored the offsets."""
    version = waiting.header.request_api_version
    responses = CommitResponses(
        _refused(decode_item(waiting.state, PendingZookeeperCommit), version)
    )
    responses.merge(response.topics)
    return Decision(response=OffsetCommitResponse(topics=responses.topics))


def complete(_broker: Broker, waiting: PendingRequest) -> Decision:
    """Respond when ZooKeeper's time is up."""
    state, version = (
        decode_item(waiting.state, PendingZookeeperCommit),
        waiting.header.request_api_version,
    )
    responses = CommitResponses(_refused(state, version))
    responses.merge(_failed(state.requested, version, Error.COORDINATOR_NOT_AVAILABLE))
    return Decision(response=OffsetCommitResponse(topics=responses.topics))


def _refused(state: PendingZookeeperCommit, version: int) -> list[OffsetCommitResponseTopic]:
    """Return rejected topics; old checkpoints have both name and id."""
    return [_topic(each, version, each.partitions) for each in state.refused]


def _may_read(
    broker: Machine, request: Request, request_topic: OffsetCommitRequestTopic, topic: Topic | None
) -> bool:
    """Check READ on the topic; an unknown id is not checked."""
    is_unknown_id = topic is None and request.version >= TOPIC_IDS_SINCE
    name = request_topic.name if topic is None else topic.name
    return is_unknown_id or broker.allows_topic(request, Operation.READ, name)


def _refuse(
    responses: "CommitResponses",
    topic: OffsetCommitRequestTopic,
    version: int,
    partitions: list[OffsetCommitRequestPartition],
    error: Error,
) -> None:
    """Reject some partitions of a topic without the coordinator."""
    for each in partitions:
        if version >= TOPIC_IDS_SINCE:
            responses.refuse(UNSET, each.partition_index, error, topic.topic_id)
        else:
            responses.refuse(topic.name, each.partition_index, error)


def _failed(
    topics: list[OffsetCommitRequestTopic], version: int, error: Error
) -> list[OffsetCommitResponseTopic]:
    failed = []
    for topic in topics:
        partitions = [_partition_response(each.partition_index, error) for each in topic.partitions]
        failed.append(_topic(topic, version, partitions))
    return failed


def _commit(
    broker: Machine, request: Request, accepted: list[_Accepted], responses: "CommitResponses"
) -> list[Record]:
    body: OffsetCommitRequest = request.body
    group, group_error, version = None, NONE, request.header.request_api_version
    if isinstance(broker, Broker):
        group = groups.find(broker, body.group_id)
        group_error = _group_error(broker, group, body, version, accepted)
        if group_error is NONE:
            _extend_session(broker, group, body)
    records: list[Record] = []
    by_coordinator = []
    deletes_null = broker.settings.brokertwin_null_commit_deletes
    for each in accepted:
        topic, results = each.topic, []
        for partition in each.partitions:
            metadata, error = partition.committed_metadata, group_error
            if error is NONE and metadata and is_too_large(broker, metadata):
                error = Error.OFFSET_METADATA_TOO_LARGE
            if deletes_null and error is NONE and _is_null(partition):
                place = (topic.name, partition.partition_index)
                records.append(OffsetDeleted(body.group_id, *place))
            elif error is NONE:
                records.append(_record(broker, body, topic, partition))
            results.append(_partition_response(partition.partition_index, error))
        by_coordinator.append(_topic(each.wanted, version, results))
    responses.merge(by_coordinator)
    is_new = group is None and group_error is NONE and not records
    if is_new and isinstance(broker, Broker):
        is_loading = coordinators.group_error(broker, body.group_id) is not NONE
        if not is_loading:
            groups.create_unwritten(broker, body.group_id)
    return records


def _places(broker: Broker, accepted: list[_Accepted]) -> list[tuple[str, Uuid, int]]:
    """Return topic, topic id and index of partitions with valid metadata."""
    places = []
    for each in accepted:
        name, topic_id = each.topic.name, each.topic.topic_id
        for partition in each.partitions:
            metadata = partition.committed_metadata
            if not metadata or not is_too_large(broker, metadata):
                places.append((name, topic_id, partition.partition_index))
    return places


def _group_error(
    broker: Broker,
    group: Group | None,
    body: OffsetCommitRequest,
    version: int,
    accepted: list[_Accepted],
) -> Error:
    """Return the error with which the group rejects the commit."""
    error = coordinators.group_error(broker, body.group_id)
    if internal_topics.on_first_use(broker):
        return Error.COORDINATOR_NOT_AVAILABLE
    if error is not NONE:
        is_loading = error is Error.COORDINATOR_LOAD_IN_PROGRESS
        is_taken = is_loading and broker.settings.brokertwin_commit_while_loading
        return NONE if is_taken else error
    if group is not None:
        generation = body.generation_id_or_member_epoch
        places = [] if isinstance(group, ClassicGroup) else _places(broker, accepted)
        commit = OffsetCommitCheck(
            body.member_id, body.group_instance_id, generation, version, places
        )
        return kind_of(group).commit_error(group, commit)
    if body.generation_id_or_member_epoch < 0:
        return NONE
    if version >= GROUP_ID_NOT_FOUND_SINCE:
        return Error.GROUP_ID_NOT_FOUND
    return Error.ILLEGAL_GENERATION


def _extend_session(broker: Broker, group: Group | None, body: OffsetCommitRequest) -> None:
    if not isinstance(group, ClassicGroup) or group.state not in SESSION_EXTENDED_IN:
        return
    member = group.members.get(body.member_id)
    if member is not None:
        classic_coordinator.expect_heartbeat(broker, body.group_id, member)


def _topic_of(broker: Machine, topic: OffsetCommitRequestTopic, version: int) -> Topic | None:
    if version >= TOPIC_IDS_SINCE:
        return broker.topic_by_id(topic.topic_id)
    return broker.topic_by_name(topic.name)


def _is_null(partition: OffsetCommitRequestPartition) -> bool:
    """True for the null payload of seed 003, which deletes the offset."""
    return partition.committed_offset == -1 and partition.committed_metadata is None


def is_too_large(broker: Machine, metadata: str | None) -> bool:
    """Compare the metadata's length in UTF-16 units, like Java."""
    if not metadata:
        return False
    limit = broker.settings.offset_metadata_max_bytes
    return 2 * len(metadata) > limit and len(metadata.encode("utf-16-le")) // 2 > limit


def _record(
    broker: Machine,
    body: OffsetCommitRequest,
    topic: Topic,
    partition: OffsetCommitRequestPartition,
) -> OffsetCommitted:
    return OffsetCommitted(
        group_id=body.group_id,
        topic=topic.name,
        partition=partition.partition_index,
        offset=partition.committed_offset,
        leader_epoch=partition.committed_leader_epoch,
        metadata=partition.committed_metadata or "",
        commit_timestamp=broker.now,
        expire_timestamp=NO_TIMESTAMP
        if body.retention_time_ms == NO_RETENTION
        else _expire_timestamp(broker.now, body.retention_time_ms),
        topic_id=topic.topic_id,
    )


def _expire_timestamp(now: int, retention: int) -> int:
    """Return the expiry in ms since 1970, with Java's int64 overflow."""
    return (now + retention + 2**63) % 2**64 - 2**63


class CommitResponses:
    """Collects a response in Kafka's order: broker, then coordinator."""

    def __init__(self, refused: Iterable[OffsetCommitResponseTopic] = ()) -> None:
        self.topics: list[OffsetCommitResponseTopic] = []
        self._by_topic: dict[
            tuple[str | UnsetType, Uuid | UnsetType], OffsetCommitResponseTopic
        ] = {}
        for topic in refused:
            self._add(topic)

    def refuse(
        self,
        name: str | UnsetType,
        partition: int,
        error: Error,
        topic_id: Uuid | UnsetType = UNSET,
    ) -> None:
        """Add a partition that the broker itself rejects."""
        key = (name, topic_id)
        if key not in self._by_topic:
            self._add(OffsetCommitResponseTopic(name=name, topic_id=topic_id, partitions=[]))
        self._by_topic[key].partitions.append(_partition_response(partition, error))

    def refuse_topic(self, topic: OffsetCommitResponseTopic) -> None:
        """Add a rejected topic that the request names without partitions."""
        if (topic.name, topic.topic_id) not in self._by_topic:
            self._add(topic)

    def merge(self, by_coordinator: list[OffsetCommitResponseTopic]) -> None:
        """Add the coordinator's topics; merge topics if any was rejected."""
        if not self.topics:
            self.topics = by_coordinator
            return
        for topic in by_coordinator:
            response_topic = self._by_topic.get((topic.name, topic.topic_id))
            if response_topic is None:
                self._add(topic)
            else:
                response_topic.partitions.extend(topic.partitions)

    def _add(self, topic: OffsetCommitResponseTopic) -> None:
        self.topics.append(topic)
        self._by_topic[topic.name, topic.topic_id] = topic


def _partition_response(partition: int, error: Error) -> OffsetCommitResponsePartition:
    return OffsetCommitResponsePartition(partition_index=partition, error_code=error)


API: Api = Api(
    kafka_apis.OFFSET_COMMIT,
    handle,
    resume=resume,
    complete=complete,
    earlier_writes=earlier_writes.of_commit,
    results=uncommitted.ACCEPTED | {Error.OFFSET_METADATA_TOO_LARGE},
)
