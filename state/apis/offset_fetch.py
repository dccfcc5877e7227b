"""OffsetFetch (key 9, versions 1 to 10): return committed offsets.

Source: seed 003; KIP-88, KIP-447, KIP-709, KIP-848; `KafkaApis.handleOffsetFetchRequest`,
`OffsetMetadataManager.fetchOffsets` and `fetchAllOffsets` in Kafka.

    no offset, no such partition, no such group    offset -1, epoch -1, metadata "", no error
    topics null (version 2 and later)              every offset of the group

Errors of a group. Version 1 has no field for them and repeats them for each partition:

    no DESCRIBE permission on the group            30 GROUP_AUTHORIZATION_FAILED
    this broker does not coordinate the group      16 NOT_COORDINATOR
    an unknown member of a consumer group          25 UNKNOWN_MEMBER_ID
    another epoch than the member's                113 STALE_MEMBER_EPOCH
    an epoch without a member id                   -1 UNKNOWN_SERVER_ERROR

Errors of a partition:

    unknown topic id (version 10)                  100 UNKNOWN_TOPIC_ID
    no DESCRIBE permission on the topic            29 TOPIC_AUTHORIZATION_FAILED; omitted if topics
                                                   is null
    pending offset of a transaction, and           88 UNSTABLE_OFFSET_COMMIT
    requireStable (version 7 and later)

Without requireStable the response has the offsets below the high watermark. With it the response
has all offsets and waits until followers have them (`earlier_writes.py`).

Settings of seed 003:

- `brokertwin.missing.offset.error`: a partition without an offset has 3 UNKNOWN_TOPIC_OR_PARTITION,
  like in Kafka 0.8.1. A consumer cannot distinguish it from a deleted topic.
- `brokertwin.forward.offset.fetch`: a broker that does not coordinate the group forwards the
  request to the coordinator and returns its response. Without a coordinator the error is 15
  COORDINATOR_NOT_AVAILABLE. The first broker authorizes the client. If ZooKeeper keeps
  the offsets, requests to it are forwarded likewise.
- `brokertwin.create.offsets.topic`: a fetch creates a missing offsets topic and returns offset -1
  for every partition.
- `brokertwin.offset.age.from.fetch`: a fetch writes the returned offsets again with its own time,
  which restarts their retention.
- `brokertwin.offset.timestamps`: a partition has the timestamp of its offset, in the topic of
  responses only. No version of Kafka's protocol has a field for it.

Versions up to 7 name one group, later ones several. From version 9 on members give their ids; for a
classic group these do not matter.
"""

from collections.abc import Iterator

import msgspec
from msgspec import UNSET

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.bodies import ZERO_UUID
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from brokertwin.state.access.authorizer import Operation, ResourceType
from brokertwin.state.apis import earlier_writes
from brokertwin.state.cluster import internal_topics
from brokertwin.state.cluster.machines import Broker, Machine
from brokertwin.state.core.api import Api
from brokertwin.state.core.decision import Condition, Decision, Message, PendingRequest, Request
from brokertwin.state.core.records import OFFSETS, OffsetCommitted, OffsetDeleted
from brokertwin.state.core.settings import BrokerSettings
from brokertwin.state.core.tables import CellTables, MachineTables, decode_item
from brokertwin.state.eras import zookeeper_offsets
from brokertwin.state.groups import committed_offsets, groups
from brokertwin.state.groups.committed_offsets import Offset
from brokertwin.state.groups.kinds import kind_of
from brokertwin.state.logs.log import Log, batches_from
from brokertwin.state.replication import internal_logs
from brokertwin.state.transactions import transactional_offsets

TOPIC_IDS_SINCE = 10
GROUPS_SINCE = 8
GROUP_ERROR_SINCE = 2
MISSING = Offset(-1, -1, "", -1, -1, ZERO_UUID)


class Forwarded(msgspec.Struct):
    """A request that was forwarded to other brokers for some groups.

    Attributes:
        responses: results in the request's order; pending ones have 15 COORDINATOR_NOT_AVAILABLE.
        awaited: positions of the groups requested from each broker.
        hidden: topics that the client may not see.
        topics: the topics requested in versions 1 to 7.
    """

    responses: list[OffsetFetchResponseGroup] = msgspec.field(name="answers")
    awaited: dict[int, list[int]]
    hidden: list[str]
    topics: list[OffsetFetchRequestTopics] | None


def handle(machine: Machine, request: Request) -> Decision:
    """Return the committed offsets, or forward the request to other brokers.

    The controller handles the request if ZooKeeper stores the offsets.
    """
    body: OffsetFetchRequest = request.body
    is_of_several = request.version >= GROUPS_SINCE
    requested = (
        body.groups
        if is_of_several
        else [OffsetFetchRequestGroup(group_id=body.group_id, topics=body.topics)]
    )
    if isinstance(machine, Broker):
        elsewhere = _kept_elsewhere(machine, request, requested)
        if elsewhere:
            return _forward(machine, request, requested, elsewhere)
    responses = [_group(machine, request, group) for group in requested]
    return Decision(
        records=[record for response in responses for record in _renewed(machine, response)],
        response=_response(request.version, responses, body.topics),
        messages=internal_topics.creation(machine, internal_topics.on_first_use(machine)),
    )


def _renewed(machine: Machine, response: OffsetFetchResponseGroup) -> Iterator[OffsetCommitted]:
    """Yield returned offsets with a new time if fetches reset their age."""
    for topic in response.topics if machine.settings.brokertwin_offset_age_from_fetch else ():
        for partition in topic.partitions:
            place = (response.group_id, topic.name, partition.partition_index)
            stored = committed_offsets.offset(machine, *place)
            if stored is not None and partition.error_code == Error.NONE:
                fields = msgspec.structs.asdict(stored) | {"commit_timestamp": machine.now}
                yield OffsetCommitted(*place, **fields)


def _response(
    version: int,
    responses: list[OffsetFetchResponseGroup],
    requested: list[OffsetFetchRequestTopics] | None,
) -> OffsetFetchResponse:
    """Build a version's response; `requested` has the topics up to version 7."""
    if version >= GROUPS_SINCE:
        return OffsetFetchResponse(groups=responses)
    (response,) = responses
    if response.error_code != Error.NONE and version < GROUP_ERROR_SINCE:
        response.topics = [_failed(topic, response.error_code) for topic in requested or []]
    return OffsetFetchResponse(topics=response.topics, error_code=response.error_code)


def _kept_elsewhere(
    broker: Broker, request: Request, requested: list[OffsetFetchRequestGroup]
) -> dict[int, list[int]]:
    """Return positions of the groups kept elsewhere, by machine."""
    result: dict[int, list[int]] = {}
    may_forward = broker.settings.brokertwin_forward_offset_fetch or zookeeper_offsets.is_enabled(
        broker
    )
    if not may_forward or request.is_from_machine:
        return result
    for place, group in enumerate(requested):
        keeper = zookeeper_offsets.offset_store(broker, group.group_id)
        if keeper is None or keeper == broker.id:
            continue
        if broker.allows(request, Operation.DESCRIBE, ResourceType.GROUP, group.group_id):
            result.setdefault(keeper, []).append(place)
    return result


def _forward(
    broker: Broker,
    request: Request,
    requested: list[OffsetFetchRequestGroup],
    awaited: dict[int, list[int]],
) -> Decision:
    """Request groups from their coordinators; read local ones now."""
    state = Forwarded([], awaited, [], request.body.topics)
    if any(group.topics is None for group in requested):
        hidden = broker.denied_topics(request, Operation.DESCRIBE, broker.topic_names())
        state.hidden = sorted(hidden)
    elsewhere = {place for places in awaited.values() for place in places}
    sent = dict[int, OffsetFetchRequestGroup]()
    for place, group in enumerate(requested):
        if place not in elsewhere:
            state.responses.append(_group(broker, request, group))
            continue
        seen, refused = _split_topics(broker, request, group.topics or [])
        state.responses.append(
            OffsetFetchResponseGroup(
                group_id=group.group_id, topics=refused, error_code=Error.COORDINATOR_NOT_AVAILABLE
            )
        )
        topics = None if group.topics is None else [topic for topic, _ in seen]
        sent[place] = msgspec.structs.replace(group, topics=topics)
    version = max(request.version, GROUPS_SINCE)
    messages = []
    for coordinator, places in awaited.items():
        body = OffsetFetchRequest(
            groups=[sent[place] for place in places], require_stable=request.body.require_stable
        )
        messages.append(Message(broker.id, coordinator, API.key, body, version=version))
    deadline = broker.event_time + broker.settings.request_timeout_ms
    condition = Condition(deadline, [], msgspec.msgpack.encode(state))
    return Decision(condition=condition, messages=messages)


def resume(
    broker: Broker, waiting: PendingRequest, message: Message, response: OffsetFetchResponse
) -> Decision:
    """Store a coordinator's results; respond when all have arrived."""
    state = decode_item(waiting.state, Forwarded)
    for place, result in zip(state.awaited.pop(message.receiver), response.groups, strict=True):
        result.topics = [topic for topic in result.topics if topic.name not in state.hidden]
        if result.error_code == Error.NONE:
            result.topics += state.responses[place].topics
        state.responses[place] = result
    if state.awaited:
        return Decision(condition=Condition(waiting.deadline, [], msgspec.msgpack.encode(state)))
    return complete(broker, waiting, state)


def complete(_broker: Broker, waiting: PendingRequest, state: Forwarded | None = None) -> Decision:
    """Respond with the results so far."""
    state = state or decode_item(waiting.state, Forwarded)
    for response in state.responses:
        if response.error_code != Error.NONE:
            response.topics = []
    version = waiting.header.request_api_version
    return Decision(response=_response(version, state.responses, state.topics))


def _not_coordinator(
    response: OffsetFetchResponse, _error: Error, _settings: BrokerSettings
) -> OffsetFetchResponse:
    """Return 16 NOT_COORDINATOR for each group, whatever the log's error."""
    error = int(Error.NOT_COORDINATOR)
    if not response.groups:
        return msgspec.structs.replace(response, topics=[], error_code=error)
    groups = [
        each
        if each.error_code
        else OffsetFetchResponseGroup(group_id=each.group_id, error_code=error)
        for each in response.groups
    ]
    return msgspec.structs.replace(response, groups=groups)


def _group(
    broker: Machine, request: Request, request_group: OffsetFetchRequestGroup
) -> OffsetFetchResponseGroup:
    if not broker.allows(request, Operation.DESCRIBE, ResourceType.GROUP, request_group.group_id):
        error = Error.GROUP_AUTHORIZATION_FAILED
    else:
        is_new = internal_topics.on_first_use(broker)
        error = (
            Error.NONE
            if is_new
            else zookeeper_offsets.offset_store_error(broker, request_group.group_id)
        )
    if error is not Error.NONE:
        return OffsetFetchResponseGroup(group_id=request_group.group_id, error_code=error)
    group = groups.find(broker, request_group.group_id) if isinstance(broker, Broker) else None
    if group is not None:
        error = kind_of(group).fetch_error(
            group, request_group.member_id, request_group.member_epoch
        )
        if error is not Error.NONE:
            return OffsetFetchResponseGroup(group_id=request_group.group_id, error_code=error)
    reader = _Reader(broker, request_group.group_id, request.body.require_stable)
    if request_group.topics is None:
        topics = _all_topics(broker, request, reader)
    else:
        topics = _topics(broker, request, reader, request_group.topics)
    return OffsetFetchResponseGroup(group_id=request_group.group_id, topics=topics)


class _Reader:
    def __init__(self, broker: Machine, group_id: str, require_stable: bool) -> None:
        self._broker = broker
        self._unstable = set[tuple[str, int]]()
        settings, is_new = broker.settings, internal_topics.on_first_use(broker)
        is_refused = settings.brokertwin_missing_offset_error and not is_new
        self._has_timestamps = settings.brokertwin_offset_timestamps
        self._error_of_none = Error.UNKNOWN_TOPIC_OR_PARTITION if is_refused else Error.NONE
        self.at = broker if require_stable else _committed(broker, group_id)
        self.group_id = group_id
        if require_stable:
            self._unstable = transactional_offsets.unstable(broker, group_id)

    def offset(self, topic: str, partition: int) -> OffsetFetchResponsePartitions:
        if (topic, partition) in self._unstable:
            unstable = Error.UNSTABLE_OFFSET_COMMIT
            return OffsetFetchResponsePartitions(partition_index=partition, error_code=unstable)
        stored = committed_offsets.offset(self.at, self.group_id, topic, partition)
        found = stored or MISSING
        return OffsetFetchResponsePartitions(
            partition_index=partition,
            error_code=self._error_of_none if stored is None else Error.NONE,
            committed_offset=found.offset,
            committed_leader_epoch=found.leader_epoch,
            metadata=found.metadata,
            commit_timestamp=found.commit_timestamp if self._has_timestamps else UNSET,
        )


def _committed(broker: Machine, group_id: str) -> MachineTables:
    """Return the tables with the offsets, without uncommitted writes.

    If the group's log has records of the group above its high watermark, the offsets are replayed
    from the records below it.
    """
    if not isinstance(broker, Broker):
        return broker
    place = internal_logs.group_place(broker, group_id)
    log = broker.log(*place) if place is not None else None
    if log is None or log.high_watermark == log.log_end_offset:
        return broker
    if not any(_of_group(broker, log, group_id, log.high_watermark)):
        return broker
    at = CellTables().of(broker.id)
    for offset, record in _of_group(broker, log, group_id, log.log_start_offset):
        if offset < log.high_watermark and isinstance(record, OffsetCommitted):
            committed_offsets.apply_committed(at, record)
        elif offset < log.high_watermark and isinstance(record, OffsetDeleted):
            committed_offsets.apply_deleted(at, record)
    return at


def _of_group(
    broker: Broker, log: Log, group_id: str, offset: int
) -> Iterator[tuple[int, OffsetCommitted | OffsetDeleted]]:
    """Yield a group's offset records with their batch's last offset."""
    for batch in batches_from(broker, log, offset):
        for record in internal_logs.in_batch(batch.written):
            if isinstance(record, OFFSETS) and record.group_id == group_id:
                yield batch.last_offset, record


def _all_topics(
    broker: Machine, request: Request, reader: _Reader
) -> list[OffsetFetchResponseTopics]:
    topics = []
    known_to_all = committed_offsets.partitions_of(reader.at, reader.group_id)
    for name, partitions in known_to_all:
        if not broker.allows_topic(request, Operation.DESCRIBE, name):
            continue
        topic = broker.topic_by_name(name)
        topics.append(
            OffsetFetchResponseTopics(
                name=name,
                topic_id=topic.topic_id if topic is not None else ZERO_UUID,
                partitions=[reader.offset(name, p) for p in partitions],
            )
        )
    return topics


def _topics(
    broker: Machine,
    request: Request,
    reader: _Reader,
    request_topics: list[OffsetFetchRequestTopics],
) -> list[OffsetFetchResponseTopics]:
    """Return offsets; unknown or unauthorized topics come last."""
    seen, refused = _split_topics(broker, request, request_topics)
    topics = [
        OffsetFetchResponseTopics(
            name=name,
            topic_id=topic.topic_id,
            partitions=[reader.offset(name, p) for p in topic.partition_indexes],
        )
        for topic, name in seen
    ]
    return topics + refused


def _split_topics(
    broker: Machine, request: Request, topics: list[OffsetFetchRequestTopics]
) -> tuple[list[tuple[OffsetFetchRequestTopics, str]], list[OffsetFetchResponseTopics]]:
    """Return visible topics with their names, and errors of the others."""
    seen, refused = [], []
    for topic in topics:
        name = topic.name
        if request.version >= TOPIC_IDS_SINCE:
            known = broker.topic_by_id(topic.topic_id)
            if known is None:
                refused.append(_failed(topic, Error.UNKNOWN_TOPIC_ID))
                continue
            name = known.name
        if not broker.allows_topic(request, Operation.DESCRIBE, name):
            refused.append(_failed(topic, Error.TOPIC_AUTHORIZATION_FAILED))
            continue
        seen.append((topic, name))
    return seen, refused


def _failed(topic: OffsetFetchRequestTopics, error: int) -> OffsetFetchResponseTopics:
    partitions = [
        OffsetFetchResponsePartitions(partition_index=partition, error_code=error)
        for partition in topic.partition_indexes
    ]
    return OffsetFetchResponseTopics(
        name=topic.name, topic_id=topic.topic_id, partitions=partitions
    )


API = Api(
    kafka_apis.OFFSET_FETCH,
    handle,
    resume=resume,
    complete=complete,
    earlier_writes=earlier_writes.of_fetch,
    uncommitted=_not_coordinator,
)
