"""TxnOffsetCommit (key 28, versions 0 to 5, in Kafka 4.4 to 6): commit with a transaction.

Source: KIP-98, KIP-447, KIP-890, KIP-1319; `KafkaApis.handleTxnOffsetCommitRequest`,
`GroupCoordinatorService.commitTransactionalOffsets`,
`OffsetMetadataManager.commitTransactionalOffset` in Kafka 4.3.1. The broker's checks:

    no WRITE permission on the transactional id   53 TRANSACTIONAL_ID_AUTHORIZATION_FAILED, for all
    no READ permission on the group               30 GROUP_AUTHORIZATION_FAILED, for all
    no READ permission on the topic               29 TOPIC_AUTHORIZATION_FAILED
    no such topic id, version 6                   100 UNKNOWN_TOPIC_ID; others continue
    no such partition                             3 UNKNOWN_TOPIC_OR_PARTITION; others continue
    group id ""                                   24 INVALID_GROUP_ID
    another broker coordinates the group          16 NOT_COORDINATOR
    no `__consumer_offsets`, verification needed  15 COORDINATOR_NOT_AVAILABLE
    no `__consumer_offsets`, none needed          16 NOT_COORDINATOR
    ZooKeeper keeps the offsets (our setting)     43 UNSUPPORTED_FOR_MESSAGE_FORMAT, because it has
                                                  no transactions

Then the transaction coordinator verifies that the group's partition of `__consumer_offsets` is in
the transaction; from version 5 on it adds the partition (KIP-890). Its errors are returned, with
these replacements:

    90 PRODUCER_FENCED                            47 INVALID_PRODUCER_EPOCH
    13 NETWORK_EXCEPTION                          14 COORDINATOR_LOAD_IN_PROGRESS
    120 TRANSACTION_ABORTABLE, version below 4    48 INVALID_TXN_STATE

The verification is skipped if the partition knows the producer in a later epoch (47
INVALID_PRODUCER_EPOCH), or has its pending offsets in this epoch. Then, like in OffsetCommit:

    no such group, generation >= 0                22 ILLEGAL_GENERATION, from version 6 on 69
                                                  GROUP_ID_NOT_FOUND
    members, generations                          see `commit_error` of the kind of group
    metadata > offset.metadata.max.bytes          12 OFFSET_METADATA_TOO_LARGE, per partition
    producer id without an epoch (-1)             -1 UNKNOWN_SERVER_ERROR, for all
    an epoch below the partition's                47 INVALID_PRODUCER_EPOCH, for all

Accepted offsets are pending until the marker (`state/transactions/transactional_offsets.py`);
without a producer id they are committed at once. That and the last two errors need
`transaction.partition.verification.enable=false`, or a log with rows: otherwise a partition without
followers remembers no epochs. If all offsets have 12 OFFSET_METADATA_TOO_LARGE, the group is
created (`groups.create_unwritten`), like in Kafka.
"""

import msgspec

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.batch_headers import Batch
from brokertwin.protocol.bodies import ZERO_UUID, Body, Uuid
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.add_partitions_to_txn import AddPartitionsToTxnResponse
from brokertwin.protocol.generated.offset_commit import OffsetCommitResponseTopic
from brokertwin.protocol.generated.shared import OffsetCommitResponsePartition
from brokertwin.protocol.generated.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponseTopic,
)
from brokertwin.state.access.authorizer import Operation, ResourceType
from brokertwin.state.apis import earlier_writes, uncommitted
from brokertwin.state.apis.offset_commit import CommitResponses, is_too_large
from brokertwin.state.cluster import coordinators
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.api import Api
from brokertwin.state.core.decision import Condition, Decision, Message, PendingRequest, Request
from brokertwin.state.core.records import (
    OffsetCommitted,
    ProducerNoted,
    Record,
    TransactionalOffset,
    TransactionalOffsetsWritten,
)
from brokertwin.state.core.tables import decode_item
from brokertwin.state.eras import zookeeper_offsets
from brokertwin.state.groups import groups
from brokertwin.state.groups.group_kind import OffsetCommitCheck
from brokertwin.state.groups.kinds import kind_of
from brokertwin.state.logs import producer as producers
from brokertwin.state.logs.producer import ProducerStateEntry
from brokertwin.state.replication import internal_logs
from brokertwin.state.transactions import transaction_verification as verifications
from brokertwin.state.transactions import transactional_offsets
from brokertwin.state.transactions.transactional_offsets import NO_PRODUCER_ID

KNOWS_ABORTABLE_SINCE = 4
"""The first version whose clients know TRANSACTION_ABORTABLE."""

ADDS_SINCE = 5
"""The first version of transactions V2."""

TOPIC_IDS_SINCE = 6


class TxnOffsetCommitState(msgspec.Struct):
    """A request that waits for the transaction's coordinator.

    Attributes:
        body: the request, with the partitions that exist and may be read.
        refused: topic, partition and error of rejected partitions; partition None if the request
            names a topic without partitions.
        by_id: whether the client names topics by id; `refused` then has ids.
    """

    body: TxnOffsetCommitRequest
    refused: list[tuple[str, int | None, int]]
    by_id: bool = False


def handle(broker: Broker, request: Request) -> Decision:
    """Verify the transaction, unless there is nothing to commit."""
    body: TxnOffsetCommitRequest = request.body
    by_id = request.version >= TOPIC_IDS_SINCE
    error = _request_error(broker, request, body)
    if error is not Error.NONE:
        return _respond(TxnOffsetCommitState(body, [], by_id), error)
    if by_id:
        body = msgspec.structs.replace(body, topics=[_named(broker, each) for each in body.topics])
    denied = broker.denied_topics(request, Operation.READ, {topic.name for topic in body.topics})
    state = TxnOffsetCommitState(msgspec.structs.replace(body, topics=[]), [], by_id)
    for topic in body.topics:
        own = topic.topic_id if by_id else topic.name
        if not topic.partitions and (topic.name in denied or not broker.topic_by_name(topic.name)):
            state.refused.append((own, None, Error.NONE))
        is_unknown_id = by_id and not topic.name
        accepted = []
        for partition in topic.partitions:
            index = partition.partition_index
            refusal = _partition_error(broker, denied, topic.name, index)
            if refusal is Error.NONE:
                accepted.append(partition)
            else:
                refusal = Error.UNKNOWN_TOPIC_ID if is_unknown_id else refusal
                state.refused.append((own, index, refusal))
        if accepted:
            state.body.topics.append(msgspec.structs.replace(topic, partitions=accepted))
    if not state.body.topics:
        return _respond(state, Error.NONE)
    error = Error.NONE if body.group_id else Error.INVALID_GROUP_ID
    if error is Error.NONE:
        error = _coordinator_error(broker, body.group_id, request.version)
    if error is Error.NONE and zookeeper_offsets.is_enabled(broker):
        error = Error.UNSUPPORTED_FOR_MESSAGE_FORMAT
    if error is not Error.NONE:
        return _respond(state, error)
    return _verify(broker, state, request.version)


def _named(broker: Broker, topic: TxnOffsetCommitRequestTopic) -> TxnOffsetCommitRequestTopic:
    """Return a topic with its name; an unknown id has none."""
    existing = broker.topic_by_id(topic.topic_id)
    return topic if existing is None else msgspec.structs.replace(topic, name=existing.name)


def _request_error(broker: Broker, request: Request, body: TxnOffsetCommitRequest) -> Error:
    name = body.transactional_id
    if not broker.allows(request, Operation.WRITE, ResourceType.TRANSACTIONAL_ID, name):
        return Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if not broker.allows(request, Operation.READ, ResourceType.GROUP, body.group_id):
        return Error.GROUP_AUTHORIZATION_FAILED
    return Error.NONE


def _partition_error(broker: Broker, denied: frozenset[str], name: str, index: int) -> Error:
    topic = broker.topic_by_name(name)
    if name in denied:
        return Error.TOPIC_AUTHORIZATION_FAILED
    if topic is None or not 0 <= index < len(topic.partitions):
        return Error.UNKNOWN_TOPIC_OR_PARTITION
    return Error.NONE


def _coordinator_error(broker: Broker, group_id: str, version: int) -> Error:
    """Return the error of the group's coordinator.

    Verification needs a partition of `__consumer_offsets`; without the topic it is not available.
    """
    error = coordinators.group_error(broker, group_id)
    is_gone = broker.topic_by_name(coordinators.GROUP_TOPIC) is None
    return (
        Error.COORDINATOR_NOT_AVAILABLE
        if is_gone and _needs_verification(broker, version)
        else error
    )


def _needs_verification(broker: Broker, version: int) -> bool:
    return version >= ADDS_SINCE or broker.settings.transaction_partition_verification_enable


def _verify(broker: Broker, state: TxnOffsetCommitState, version: int) -> Decision:
    """Send the group's partition to the transaction coordinator if needed."""
    is_v2 = version >= ADDS_SINCE
    if not _needs_verification(broker, version):
        return _commit(broker, state, version)
    body = state.body
    metadata = _known(broker, body)
    if metadata is not None and body.producer_epoch < metadata.producer_epoch:
        return _respond(state, Error.INVALID_PRODUCER_EPOCH)
    if (
        metadata is not None
        and body.producer_epoch == metadata.producer_epoch
        and _is_open(broker, body)
    ):
        return _commit(broker, state, version)
    batch = Batch(
        base_offset=-1,
        last_offset_delta=0,
        producer_id=body.producer_id,
        producer_epoch=body.producer_epoch,
    )
    requested = {coordinators.GROUP_TOPIC: [_place(broker, body)[1]]}
    message = verifications.request(broker, body.transactional_id, batch, requested, is_v2)
    if message is None:
        return _respond(state, Error.COORDINATOR_NOT_AVAILABLE)
    deadline = broker.now + broker.settings.request_timeout_ms
    return Decision(
        condition=Condition(deadline, [], msgspec.msgpack.encode(state)), messages=[message]
    )


def resume(
    broker: Broker, waiting: PendingRequest, _message: Message, response: AddPartitionsToTxnResponse
) -> Decision:
    """Commit if the coordinator has verified the transaction."""
    state = decode_item(waiting.state, TxnOffsetCommitState)
    errors, version = verifications.partition_errors(response), waiting.header.request_api_version
    error = next(iter(errors.values()), Error(response.error_code))
    if error is not Error.NONE:
        return _respond(state, _client_error(error, version))
    error = coordinators.group_error(broker, state.body.group_id)  # the group may have moved
    return _commit(broker, state, version) if error is Error.NONE else _respond(state, error)


def complete(_broker: Broker, waiting: PendingRequest) -> Decision:
    """Respond when the coordinator's time is up."""
    state = decode_item(waiting.state, TxnOffsetCommitState)
    return _respond(
        state, _client_error(Error.NETWORK_EXCEPTION, waiting.header.request_api_version)
    )


def _client_error(error: Error, version: int) -> Error:
    """Map an error of the transaction coordinator to the client's."""
    if error is Error.PRODUCER_FENCED:
        return Error.INVALID_PRODUCER_EPOCH
    if error is Error.NETWORK_EXCEPTION:
        return Error.COORDINATOR_LOAD_IN_PROGRESS
    if error is Error.TRANSACTION_ABORTABLE and version < KNOWS_ABORTABLE_SINCE:
        return Error.INVALID_TXN_STATE
    return error


def _commit(broker: Broker, state: TxnOffsetCommitState, version: int) -> Decision:
    error = _group_error(broker, state.body, version)
    if error is not Error.NONE:
        return _respond(state, error)
    too_large = frozenset(
        (topic.name, partition.partition_index)
        for topic in state.body.topics
        for partition in topic.partitions
        if is_too_large(broker, partition.committed_metadata)
    )
    offsets = [
        _offset(broker, topic.name, partition)
        for topic in state.body.topics
        for partition in topic.partitions
        if (topic.name, partition.partition_index) not in too_large
    ]
    error = _write_error(broker, state.body) if offsets else Error.NONE
    if error is not Error.NONE:
        return _respond(state, error)
    decision, body = _respond(state, Error.NONE, too_large), state.body
    if offsets:
        decision.records = _records(broker, body, offsets)
    elif groups.find(broker, body.group_id) is None:
        groups.create_unwritten(broker, body.group_id)
    return decision


def _write_error(broker: Broker, body: TxnOffsetCommitRequest) -> Error:
    """Return the error with which the partition rejects the batch."""
    if body.producer_id == NO_PRODUCER_ID:
        return Error.NONE
    if body.producer_epoch == producers.NO_PRODUCER_EPOCH:
        return Error.UNKNOWN_SERVER_ERROR
    metadata = _known(broker, body)
    is_old = metadata is not None and body.producer_epoch < metadata.producer_epoch
    return Error.INVALID_PRODUCER_EPOCH if is_old else Error.NONE


def _known(broker: Broker, body: TxnOffsetCommitRequest) -> ProducerStateEntry | None:
    """Return the producer's state in the group's partition."""
    key = producers.producer_key(broker.id, *_place(broker, body), body.producer_id)
    return broker.tables.producers.get(key, ProducerStateEntry)


def _is_open(broker: Broker, body: TxnOffsetCommitRequest) -> bool:
    partition = _place(broker, body)[1]
    return bool(transactional_offsets.groups_of(broker, body.producer_id, partition))


def _records(
    broker: Broker, body: TxnOffsetCommitRequest, offsets: list[TransactionalOffset]
) -> list[Record]:
    """Return the records of accepted offsets.

    Offsets without a producer id are committed at once. Without verification the partition has to
    remember the epoch.
    """
    if body.producer_id == NO_PRODUCER_ID:
        return [
            OffsetCommitted(
                group_id=body.group_id,
                topic=each.topic,
                partition=each.partition,
                offset=each.offset,
                leader_epoch=each.leader_epoch,
                metadata=each.metadata,
                commit_timestamp=broker.now,
                topic_id=each.topic_id,
            )
            for each in offsets
        ]
    ids, epoch = (body.group_id, body.producer_id), body.producer_epoch
    records: list[Record] = [TransactionalOffsetsWritten(*ids, broker.now, offsets, epoch)]
    place = _place(broker, body)
    is_unverified = not broker.settings.transaction_partition_verification_enable
    if is_unverified and not internal_logs.has_followers(broker, place):
        records.append(ProducerNoted(*place, body.producer_id, epoch, broker.now))
    return records


def _place(broker: Broker, body: TxnOffsetCommitRequest) -> tuple[Uuid, int]:
    """Return the group's partition of `__consumer_offsets`."""
    topic = broker.topic_by_name(coordinators.GROUP_TOPIC)
    assert topic is not None, body.group_id
    return topic.topic_id, coordinators.partition_for(body.group_id, len(topic.partitions))


def _group_error(broker: Broker, body: TxnOffsetCommitRequest, version: int) -> Error:
    group = groups.find(broker, body.group_id)
    if group is not None:
        commit = OffsetCommitCheck(
            body.member_id,
            body.group_instance_id,
            body.generation_id,
            version,
            _places(broker, body),
            is_transactional=True,
        )
        return kind_of(group).commit_error(group, commit)
    if body.generation_id < 0:
        return Error.NONE
    return Error.GROUP_ID_NOT_FOUND if version >= TOPIC_IDS_SINCE else Error.ILLEGAL_GENERATION


def _places(broker: Broker, body: TxnOffsetCommitRequest) -> list[tuple[str, Uuid, int]]:
    """Return the partitions with valid metadata."""
    topics = {topic.name: broker.topic_by_name(topic.name) for topic in body.topics}
    ids = {name: topic.topic_id for name, topic in topics.items() if topic is not None}
    return [
        (topic.name, ids.get(topic.name, ZERO_UUID), partition.partition_index)
        for topic in body.topics
        for partition in topic.partitions
        if not is_too_large(broker, partition.committed_metadata)
    ]


def _offset(
    broker: Broker, name: str, partition: TxnOffsetCommitRequestPartition
) -> TransactionalOffset:
    topic = broker.topic_by_name(name)
    assert topic is not None, name
    return TransactionalOffset(
        name,
        topic.topic_id,
        partition.partition_index,
        partition.committed_offset,
        partition.committed_leader_epoch,
        partition.committed_metadata or "",
    )


def _respond(
    state: TxnOffsetCommitState, error: Error, too_large: frozenset[tuple[str, int]] = frozenset()
) -> Decision:
    """Build the response: broker's rejections, then the group's results."""
    responses = CommitResponses()
    for own, index, refusal in state.refused:
        shown = _topic(state, own)
        if index is None:
            responses.refuse_topic(shown)
        else:
            responses.refuse(shown.name, index, Error(refusal), shown.topic_id)
    by_coordinator = []
    for topic in state.body.topics:
        response = _topic(state, topic.topic_id if state.by_id else topic.name)
        for partition in topic.partitions:
            index = partition.partition_index
            is_large = (topic.name, index) in too_large
            code = Error.OFFSET_METADATA_TOO_LARGE if is_large else error
            response.partitions.append(
                OffsetCommitResponsePartition(partition_index=index, error_code=code)
            )
        by_coordinator.append(response)
    responses.merge(by_coordinator)
    topics = [
        TxnOffsetCommitResponseTopic(name=t.name, topic_id=t.topic_id, partitions=t.partitions)
        for t in responses.topics
    ]
    return Decision(response=TxnOffsetCommitResponse(topics=topics))


def _topic(state: TxnOffsetCommitState, topic: str) -> OffsetCommitResponseTopic:
    """Return a topic of the response, by name or id like in the request."""
    if state.by_id:
        return OffsetCommitResponseTopic(topic_id=topic, partitions=[])
    return OffsetCommitResponseTopic(name=topic, partitions=[])


def pending_body(waiting: PendingRequest) -> Body:
    """Return the request's body with its verified partitions only."""
    return decode_item(waiting.state, TxnOffsetCommitState).body


API: Api = Api(
    kafka_apis.TXN_OFFSET_COMMIT,
    handle,
    complete=complete,
    resume=resume,
    earlier_writes=earlier_writes.of_commit,
    results=uncommitted.ACCEPTED | {Error.OFFSET_METADATA_TOO_LARGE},
    pending_body=pending_body,
)
