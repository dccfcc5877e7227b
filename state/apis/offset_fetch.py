"""OffsetFetch (key 9, versions 1 to 10): what a group has committed.

Source: seed 003; KIP-88, KIP-447, KIP-709, KIP-848; `KafkaApis.handleOffsetFetchRequest`,
`OffsetMetadataManager.fetchOffsets` and `fetchAllOffsets` in Kafka.

    no offset, no such partition, no such group    offset -1, epoch -1, metadata "", error 0
    topics null (version 2 and later)              every offset of the group
    unknown topic id (version 10)                  100 UNKNOWN_TOPIC_ID for its partitions
    the client may not DESCRIBE the group          30 for the group
    the client may not DESCRIBE a topic            29 for its partitions; left out of all offsets
    this broker does not coordinate the group      16 NOT_COORDINATOR for the group; version 1 has
                                                   no place for it and says it per partition
    requireStable (version 7 and later), and an    88 UNSTABLE_OFFSET_COMMIT for the partition
    offset is pending in a transaction

    an unknown member of a consumer group          25 for the group
    another epoch than the member's                113 for the group

With `brokerstream.missing.offset.error` (seed 003) a partition without an offset is answered with 3
UNKNOWN_TOPIC_OR_PARTITION, as Kafka 0.8.1 did: a consumer cannot tell it from a topic that is gone.
Versions up to 7 ask for one group, later ones for several. Members name themselves from version 9
on; for a classic group that does not matter.
"""

from collections.abc import Iterator
from typing import Annotated

from brokerstream.state.access.authorizer import Operation, ResourceType
from brokerstream.state.cluster import coordinators
from brokerstream.state.cluster.machines import Broker
from brokerstream.state.core.api import Api
from brokerstream.state.core.decision import Decision, Request
from brokerstream.state.core.errors import Error
from brokerstream.state.core.records import OFFSETS, OffsetCommitted, OffsetDeleted
from brokerstream.state.core.schema import ZERO_UUID, Body, Int16, Int32, Int64, Uuid, since
from brokerstream.state.core.tables import Table
from brokerstream.state.groups import committed_offsets, groups
from brokerstream.state.groups.committed_offsets import Offset
from brokerstream.state.groups.kinds import kind_of
from brokerstream.state.logs.log import Log, batches_from
from brokerstream.state.replication import internal_logs
from brokerstream.state.transactions import transactional_offsets

TOPIC_IDS_SINCE = 10
GROUPS_SINCE = 8
GROUP_ERROR_SINCE = 2
MISSING = Offset(-1, -1, "", -1, -1, ZERO_UUID)


class FetchTopic(Body, kw_only=True):
    """Partitions of a topic whose offsets are asked for."""

    name: Annotated[str, since(1, 9)] = ""
    topic_id: Annotated[Uuid, since(10)] = ZERO_UUID
    partition_indexes: list[Int32]


class FetchGroup(Body, kw_only=True):
    """A group; `topics` null stands for all that it has."""

    group_id: str
    member_id: Annotated[str | None, since(9)] = None
    member_epoch: Annotated[Int32, since(9)] = -1
    topics: list[FetchTopic] | None


class OffsetFetchRequest(Body):
    """One group (versions 1 to 7), or several."""

    group_id: Annotated[str, since(1, 7)] = ""
    topics: Annotated[list[FetchTopic] | None, since(1, 7)] = None
    groups: Annotated[list[FetchGroup], since(8)] = []
    require_stable: Annotated[bool, since(7)] = False


class PartitionOffset(Body):
    """A committed offset; -1 where there is none."""

    partition_index: Int32
    committed_offset: Int64 = -1
    committed_leader_epoch: Annotated[Int32, since(5)] = -1
    metadata: str | None = ""
    error_code: Int16 = 0


class TopicOffsets(Body, kw_only=True):
    """The offsets of one topic."""

    name: Annotated[str, since(1, 9)] = ""
    topic_id: Annotated[Uuid, since(10)] = ZERO_UUID
    partitions: list[PartitionOffset]


class GroupOffsets(Body):
    """The offsets of one group, or its error."""

    group_id: str
    topics: list[TopicOffsets] = []
    error_code: Int16 = 0


class OffsetFetchResponse(Body):
    """The answer about one group (versions 1 to 7) or several."""

    throttle_time_ms: Annotated[Int32, since(3)] = 0
    topics: Annotated[list[TopicOffsets], since(1, 7)] = []
    error_code: Annotated[Int16, since(2, 7)] = 0
    groups: Annotated[list[GroupOffsets], since(8)] = []


def handle(broker: Broker, request: Request) -> Decision:
    """Reads the committed offsets; nothing changes."""
    body: OffsetFetchRequest = request.body
    version = request.version
    if version >= GROUPS_SINCE:
        answers = [_group(broker, request, wanted) for wanted in body.groups]
        return Decision(response=OffsetFetchResponse(groups=answers))
    wanted = FetchGroup(group_id=body.group_id, topics=body.topics)
    answer = _group(broker, request, wanted)
    if answer.error_code != Error.NONE and version < GROUP_ERROR_SINCE:
        answer.topics = [_failed(topic, answer.error_code) for topic in body.topics or []]
    return Decision(
        response=OffsetFetchResponse(topics=answer.topics, error_code=answer.error_code)
    )


def _group(broker: Broker, request: Request, wanted: FetchGroup) -> GroupOffsets:
    if not broker.allows(request, Operation.DESCRIBE, ResourceType.GROUP, wanted.group_id):
        error = Error.GROUP_AUTHORIZATION_FAILED
    else:
        error = coordinators.group_error(broker, wanted.group_id)
    if error is not Error.NONE:
        return GroupOffsets(group_id=wanted.group_id, error_code=error)
    group = groups.find(broker, wanted.group_id)
    if group is not None:
        error = kind_of(group).fetch_error(group, wanted.member_id, wanted.member_epoch)
        if error is not Error.NONE:
            return GroupOffsets(group_id=wanted.group_id, error_code=error)
    reader = _Reader(broker, wanted.group_id, request.body.require_stable)
    if wanted.topics is None:
        topics = _all_topics(broker, request, reader)
    else:
        topics = _topics(broker, request, reader, wanted.topics)
    return GroupOffsets(group_id=wanted.group_id, topics=topics)


class _Reader:
    """Reads the offsets of one group."""

    def __init__(self, broker: Broker, group_id: str, require_stable: bool) -> None:
        self._broker = broker
        self._unstable = set[tuple[str, int]]()
        is_refused = broker.settings.brokerstream_missing_offset_error
        self._error_of_none = Error.UNKNOWN_TOPIC_OR_PARTITION if is_refused else Error.NONE
        self.table = _committed(broker, group_id)
        self.group_id = group_id
        if require_stable:
            table = broker.tables.groups
            self._unstable = transactional_offsets.unstable(table, broker.id, group_id)

    def offset(self, topic: str, partition: int) -> PartitionOffset:
        """The group's offset for a partition."""
        if (topic, partition) in self._unstable:
            unstable = Error.UNSTABLE_OFFSET_COMMIT
            return PartitionOffset(partition_index=partition, error_code=unstable)
        stored = committed_offsets.offset(
            self.table, self._broker.id, self.group_id, topic, partition
        )
        found = stored or MISSING
        return PartitionOffset(
            partition_index=partition,
            error_code=self._error_of_none if stored is None else Error.NONE,
            committed_offset=found.offset,
            committed_leader_epoch=found.leader_epoch,
            metadata=found.metadata,
        )


def _committed(broker: Broker, group_id: str) -> Table:
    """The table with what followers have, too: what is not committed yet nobody may see.

    While the log has something of the group above its high watermark, the offsets are those that
    the log says below it.
    """
    place = internal_logs.group_place(broker, group_id)
    log = broker.log(*place) if place is not None else None
    if log is None or log.high_watermark == log.log_end_offset:
        return broker.tables.groups
    if not any(_of_group(broker, log, group_id, log.high_watermark)):
        return broker.tables.groups
    table = Table()
    for offset, record in _of_group(broker, log, group_id, log.log_start_offset):
        if offset < log.high_watermark and isinstance(record, OffsetCommitted):
            committed_offsets.apply_committed(table, broker.id, record)
        elif offset < log.high_watermark and isinstance(record, OffsetDeleted):
            committed_offsets.apply_deleted(table, broker.id, record)
    return table


def _of_group(
    broker: Broker, log: Log, group_id: str, offset: int
) -> Iterator[tuple[int, OffsetCommitted | OffsetDeleted]]:
    """The offsets of a group in its log from an offset on, each with that of its batch's end."""
    for batch in batches_from(broker.tables.logs, broker.id, log, offset):
        for record in internal_logs.in_batch(batch.written):
            if isinstance(record, OFFSETS) and record.group_id == group_id:
                yield batch.last_offset, record


def _all_topics(broker: Broker, request: Request, reader: _Reader) -> list[TopicOffsets]:
    topics = []
    known_to_all = committed_offsets.partitions_of(reader.table, broker.id, reader.group_id)
    for name, partitions in known_to_all:
        if not broker.allows_topic(request, Operation.DESCRIBE, name):
            continue
        known = broker.topic_by_name(name)
        topics.append(
            TopicOffsets(
                name=name,
                topic_id=known.topic_id if known is not None else ZERO_UUID,
                partitions=[reader.offset(name, p) for p in partitions],
            )
        )
    return topics


def _topics(
    broker: Broker, request: Request, reader: _Reader, wanted: list[FetchTopic]
) -> list[TopicOffsets]:
    """The offsets asked for; topics with an unknown id, or not to be seen, come last."""
    topics, unknown = [], []
    for topic in wanted:
        name = topic.name
        if request.version >= TOPIC_IDS_SINCE:
            known = broker.topic_by_id(topic.topic_id)
            if known is None:
                unknown.append(_failed(topic, Error.UNKNOWN_TOPIC_ID))
                continue
            name = known.name
        if not broker.allows_topic(request, Operation.DESCRIBE, name):
            unknown.append(_failed(topic, Error.TOPIC_AUTHORIZATION_FAILED))
            continue
        partitions = [reader.offset(name, p) for p in topic.partition_indexes]
        topics.append(TopicOffsets(name=name, topic_id=topic.topic_id, partitions=partitions))
    return topics + unknown


def _failed(wanted: FetchTopic, error: int) -> TopicOffsets:
    partitions = [
        PartitionOffset(partition_index=partition, error_code=error)
        for partition in wanted.partition_indexes
    ]
    return TopicOffsets(name=wanted.name, topic_id=wanted.topic_id, partitions=partitions)


API = Api(
    key=9,
    name="OFFSET_FETCH",
    versions=(1, 10),
    request_type=OffsetFetchRequest,
    handle=handle,
)
