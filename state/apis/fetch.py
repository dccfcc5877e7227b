"""Fetch (key 1), versions 4 to 18: reads logs, inside a fetch session or without one.

Behaviour: `ReplicaManager.fetchMessages`, `DelayedFetch`, `FetchManager` in Kafka. The answer
names batches and, where they have one, their locators; the edge puts the bytes in. Where there is
less than min bytes to read, the request waits until a log it asks for changes or max wait is over,
and then reads again.

KIPs: 74 (max bytes), 98 (transactions), 101/320 (leader epochs), 227 (sessions), 516 (topic ids),
595 (diverging epoch), 951 (current leader in the answer).

A topic that the client may not READ is refused (29), in a session from the next request on.

A consumer that reads committed records only (`isolationLevel` 1) gets what lies below the last
stable offset, and is told which transactions in it were aborted.

A broker that follows needs CLUSTER_ACTION, or every partition is refused (29). It reads up to the
log end offset and its session is privileged. One that is not among the replicas of a partition gets
75, or 6 where it names no leader epoch (`Partition.followerReplicaOrThrow`).

A consumer that is faster than its quota gets an answer without partitions that tells it for how
long to wait (`state/cluster/quota_rates.py`); the session stays as it is.

What a follower's fetch says of it moves the high watermark and the in-sync set
(`state/replication/leader.py`); the answer has the high watermark from before.

Not done: preferred read replicas, remote storage.
"""

from typing import NamedTuple

import msgspec

from brokerstream.state.access.authorizer import Operation
from brokerstream.state.cluster import quota_rates
from brokerstream.state.cluster.client_quotas import Limit
from brokerstream.state.cluster.image import LeaderIdAndEpoch, Partition, Topic
from brokerstream.state.cluster.machines import Broker
from brokerstream.state.core.api import Api
from brokerstream.state.core.decision import Decision, Delay, Request, Waiting
from brokerstream.state.core.errors import Error
from brokerstream.state.core.events import RequestHeader
from brokerstream.state.core.schema import ZERO_UUID, Uuid
from brokerstream.state.core.tables import decode_item
from brokerstream.state.fetch import fetch_errors
from brokerstream.state.fetch.fetch_bodies import (
    AbortedTransaction,
    AnsweredPartition,
    AnsweredTopic,
    EpochEndOffset,
    FetchRequest,
    FetchResponse,
    SealedBatches,
)
from brokerstream.state.fetch.fetch_session import (
    TOPIC_ID_VERSION,
    Answered,
    CachedPartition,
    Context,
    ContextKind,
    FetchPartition,
    NewSession,
    SessionCache,
    session_key,
)
from brokerstream.state.logs import log as logs
from brokerstream.state.logs.log import topic_id_of as log_topic_id
from brokerstream.state.replication import copying

CONSUMER = -1
"""The replica id of who follows nothing."""


class Readable(msgspec.Struct, array_like=True):
    """A partition that can be read: what is asked of it, and its topic's id."""

    requested: FetchPartition
    topic_id: Uuid


class Refused(msgspec.Struct, array_like=True):
    """A partition that was refused before reading, and the error."""

    requested: FetchPartition
    error: int


class FetchState(msgspec.Struct, array_like=True):
    """What a waiting fetch needs to be answered; `replica_id` is -1 for a consumer's."""

    context: Context
    readable: list[Readable]
    refused: list[Refused]
    max_bytes: int
    min_bytes: int
    isolation_level: int
    nonce: str
    chosen_session_id: int | None
    replica_id: int = CONSUMER


class _Asker(NamedTuple):
    """Who has asked, in which version, and the quota that holds; followers have none here."""

    version: int
    client_id: str | None
    limit: Limit | None


def _asker(broker: Broker, header: RequestHeader, principal: str, replica_id: int) -> _Asker:
    limit = None
    if replica_id < 0:
        limit = quota_rates.fetch_limit(broker, principal, header.client_id)
    return _Asker(header.request_api_version, header.client_id, limit)


class Read(NamedTuple):
    """A partition's part of the answer; `is_at_end` where there is nothing more to read."""

    requested: FetchPartition
    answer: AnsweredPartition
    is_at_end: bool = False


def handle(broker: Broker, request: Request) -> Decision:
    """Answers at once where there is enough to read, an error, or nothing to wait for."""
    body: FetchRequest = request.body
    replica_id = body.follower_id
    context = _open(broker, request, body)
    if context.kind is ContextKind.ERROR:
        return Decision(response=FetchResponse(error_code=context.error))
    isolation_level = logs.LOG_END if replica_id >= 0 else body.isolation_level
    if context.kind is ContextKind.INCREMENTAL:
        _cache(broker).read_as(context.session_id, isolation_level)
        if broker.settings.authorizer_class_name:
            _rouse_denied(broker, request, context.session_id, replica_id)
    readable, refused = _screen(broker, request, _wanted(broker, body, context), replica_id)
    if context.kind is ContextKind.INCREMENTAL:
        _watch(broker, context.session_id, readable)
    asker = _asker(broker, request.header, request.principal, replica_id)
    max_bytes = min(
        body.max_bytes,
        broker.settings.fetch_max_bytes,
        quota_rates.max_bytes(broker, asker.limit),
    )
    state = FetchState(
        context,
        readable,
        refused,
        max_bytes,
        min(body.min_bytes, max_bytes),
        isolation_level,
        request.nonce,
        request.choices.session_id,
        replica_id,
    )
    reads = _read_all(broker, state)
    if replica_id < 0:
        return _answer_or_wait(broker, request, state, reads, asker)
    followed = _follow(broker, replica_id, reads, context)
    decision = _answer_or_wait(broker, request, state, reads, asker)
    decision.records, decision.copies = followed.records, followed.copies
    return decision


def _answer_or_wait(
    broker: Broker, request: Request, state: FetchState, reads: list[Read], asker: _Asker
) -> Decision:
    body: FetchRequest = request.body
    is_over = body.max_wait_ms <= 0 or not _has_readable(broker, state)
    if is_over or _is_enough(reads, state) or _may_answer(broker, state):
        return _answer(broker, state, reads, asker)
    deadline = broker.now + body.max_wait_ms
    return Decision(delay=Delay(deadline, _woken_by(broker, state), msgspec.msgpack.encode(state)))


def _follow(broker: Broker, replica_id: int, reads: list[Read], context: Context) -> Decision:
    """What the leader learns of a follower, before it answers: how far it has each partition.

    In a session that goes for the partitions that the request does not name, too: the follower is
    where it was.
    """
    wanted = {read.requested.identity: read.requested for read in reads}
    if context.kind is ContextKind.INCREMENTAL:
        for cached in _cache(broker).partitions(context.session_id):
            wanted.setdefault(cached.requested.identity, cached.requested)
    failed = {
        read.requested.identity
        for read in reads
        if read.answer.error_code or read.answer.diverging_epoch.epoch >= 0
    }
    decision = Decision()
    for identity, item in wanted.items():
        topic = _topic(broker, item)
        if topic is None or identity in failed:
            continue
        place, at = (topic.topic_id, item.partition), (item.fetch_offset, item.log_start_offset)
        if copying.is_follower(broker, replica_id, place):
            copying.followed(broker, place, replica_id, *at, decision)
    return decision


def ready(broker: Broker, waiting: Waiting) -> bool:
    """Whether a waiting fetch may be answered before its deadline (`DelayedFetch.tryComplete`)."""
    return _may_answer(broker, _state_of(broker, waiting))


def complete(broker: Broker, waiting: Waiting) -> Decision:
    """Reads again and answers."""
    state = _state_of(broker, waiting)
    asker = _asker(broker, waiting.header, waiting.principal, state.replica_id)
    return _answer(broker, state, _read_all(broker, state), asker)


def _state_of(broker: Broker, waiting: Waiting) -> FetchState:
    """What a waiting fetch may read now: in a session that includes what has changed meanwhile."""
    state = decode_item(waiting.state, FetchState)
    session_id = state.context.session_id
    if state.context.kind is ContextKind.INCREMENTAL and _cache(broker).session(session_id):
        refused = {item.requested.identity for item in state.refused}
        state.readable = [
            Readable(cached.requested, _topic_id_of(cached))
            for cached in _cache(broker).active(session_id)
            if cached.requested.identity not in refused
        ]
    return state


def _topic_id_of(cached: CachedPartition) -> Uuid:
    """The id of a partition's topic; sessions of names have it from the log that they watch."""
    if cached.requested.topic_id != ZERO_UUID or not cached.watched_log:
        return cached.requested.topic_id
    return log_topic_id(cached.watched_log)


def _watch(broker: Broker, session_id: int, readable: list[Readable]) -> None:
    cache = _cache(broker)
    for item in readable:
        log = broker.log_key(item.topic_id, item.requested.partition)
        cache.watch(session_id, item.requested.identity, log)


def _rouse_denied(broker: Broker, request: Request, session_id: int, replica_id: int) -> None:
    """Makes partitions active that the client could read when it last asked, and may no more."""
    cache = _cache(broker)
    cached = [each.requested for each in cache.partitions(session_id)]
    denied = _denied(broker, request, cached, replica_id)
    for item in cached:
        if denied and _name(broker, item) in denied:
            cache.activate(session_id, item.identity)


def _has_readable(broker: Broker, state: FetchState) -> bool:
    """Whether there is anything to wait for: a partition that was not refused."""
    session = _cache(broker).session(state.context.session_id)
    if state.context.kind is ContextKind.INCREMENTAL and session is not None:
        return session.size > len(state.refused)
    return bool(state.readable)


def _woken_by(broker: Broker, state: FetchState) -> list[str]:
    """What ends the wait: a change of the session, or of any log where there is no session."""
    if state.context.kind is ContextKind.INCREMENTAL:
        return [session_key(broker.id, state.context.session_id)]
    return [broker.log_key(item.topic_id, item.requested.partition) for item in state.readable]


def _cache(broker: Broker) -> SessionCache:
    slots = broker.settings.max_incremental_fetch_session_cache_slots
    return SessionCache(broker.tables.sessions, broker.id, slots, broker.now)


def _open(broker: Broker, request: Request, body: FetchRequest) -> Context:
    forgotten = [
        FetchPartition(topic.topic_id, topic.topic, partition, 0, 0, 0, 0, 0).identity
        for topic in body.forgotten_topics_data
        for partition in topic.partitions
    ]
    return _cache(broker).open(
        body.session_id, body.session_epoch, request.version, _requested(broker, body), forgotten
    )


def _requested(broker: Broker, body: FetchRequest) -> list[FetchPartition]:
    """The partitions that the request names; the last one counts where it names one twice."""
    named = {}
    for topic in body.topics:
        known = broker.topic_by_id(topic.topic_id) if topic.topic_id != ZERO_UUID else None
        name = topic.topic if known is None else known.name
        for partition in topic.partitions:
            wanted = FetchPartition(
                topic.topic_id,
                name,
                partition.partition,
                partition.fetch_offset,
                partition.partition_max_bytes,
                partition.log_start_offset,
                partition.current_leader_epoch,
                partition.last_fetched_epoch,
            )
            named[wanted.identity] = wanted
    return list(named.values())


def _wanted(broker: Broker, body: FetchRequest, context: Context) -> list[FetchPartition]:
    if context.kind is ContextKind.INCREMENTAL:
        return [cached.requested for cached in _cache(broker).active(context.session_id)]
    return _requested(broker, body)


def _screen(
    broker: Broker, request: Request, wanted: list[FetchPartition], replica_id: int
) -> tuple[list[Readable], list[Refused]]:
    """What can be read, and what is refused: first ids without a known name, then partitions."""
    if replica_id >= 0 and not broker.allows_cluster(request, Operation.CLUSTER_ACTION):
        return [], [Refused(item, int(Error.TOPIC_AUTHORIZATION_FAILED)) for item in wanted]
    readable, unknown_ids, unknown_partitions = [], [], []
    denied = _denied(broker, request, wanted, replica_id)
    for item in wanted:
        topic = _topic(broker, item)
        if topic is None and not item.topic:
            unknown_ids.append(Refused(item, int(Error.UNKNOWN_TOPIC_ID)))
        elif denied and _name(broker, item) in denied:
            unknown_partitions.append(Refused(item, int(Error.TOPIC_AUTHORIZATION_FAILED)))
        elif topic is None and fetch_errors.of_gone(broker, item) is Error.INCONSISTENT_TOPIC_ID:
            readable.append(Readable(item, item.topic_id))
        elif topic is None or not 0 <= item.partition < len(topic.partitions):
            unknown_partitions.append(Refused(item, int(Error.UNKNOWN_TOPIC_OR_PARTITION)))
        else:
            readable.append(Readable(item, topic.topic_id))
    return readable, [*unknown_ids, *unknown_partitions]


def _denied(
    broker: Broker, request: Request, wanted: list[FetchPartition], replica_id: int
) -> frozenset[str]:
    """The topics that who asks may not read; a follower that may act in the cluster reads all."""
    if not broker.settings.authorizer_class_name:
        return frozenset()
    if replica_id >= 0:
        may_read = broker.allows_cluster(request, Operation.CLUSTER_ACTION)
        return frozenset() if may_read else frozenset(_name(broker, item) for item in wanted)
    return broker.denied_topics(request, Operation.READ, (_name(broker, item) for item in wanted))


def _name(broker: Broker, wanted: FetchPartition) -> str:
    topic = _topic(broker, wanted)
    return wanted.topic if topic is None else topic.name


def _topic(broker: Broker, wanted: FetchPartition) -> Topic | None:
    if wanted.topic_id != ZERO_UUID:
        return broker.topic_by_id(wanted.topic_id)
    return broker.topic_by_name(wanted.topic)


def _read_all(broker: Broker, state: FetchState) -> list[Read]:
    """The readable partitions in their order, within max bytes."""
    reads = []
    room = state.max_bytes
    is_first = True
    for item in state.readable:
        wanted = item.requested
        max_bytes = min(room, wanted.max_bytes)
        log = broker.log(item.topic_id, wanted.partition)
        answer = _read(broker, item, log, max_bytes, is_first, state)
        size = answer.records_size_in_bytes
        if size:
            room, is_first = max(0, room - size), False
        is_at_end = log is not None and wanted.fetch_offset >= log.readable_end(
            state.isolation_level
        )
        reads.append(Read(wanted, answer, is_at_end))
    return reads


def _refused(refused: Refused) -> Read:
    requested = refused.requested
    answer = AnsweredPartition(
        partition_index=requested.partition, error_code=refused.error, aborted_transactions=[]
    )
    return Read(requested, answer)


def _read(
    broker: Broker,
    item: Readable,
    log: logs.Log | None,
    max_bytes: int,
    is_first: bool,
    state: FetchState,
) -> AnsweredPartition:
    wanted = item.requested
    topic = broker.topic_by_id(item.topic_id)
    if topic is None:
        error = fetch_errors.of_gone(broker, wanted)
        return AnsweredPartition(partition_index=wanted.partition, error_code=int(error))
    partition = topic.partitions[wanted.partition]
    if log is None:
        return _failed(wanted, Error.NOT_LEADER_OR_FOLLOWER, partition)
    error = broker.leader_error(partition, fetch_errors.epoch_of(wanted))
    if error is Error.NONE:
        error = fetch_errors.of_replica(partition, wanted, state.replica_id)
    if error is not Error.NONE:
        return _failed(wanted, error, partition)
    diverging = logs.diverging(log, wanted.fetch_offset, wanted.last_fetched_epoch)
    if wanted.fetch_offset < log.log_start_offset or diverging == logs.UNKNOWN_EPOCH:
        return _failed(wanted, Error.OFFSET_OUT_OF_RANGE, partition)
    if diverging is not None:
        epoch_end = EpochEndOffset(epoch=diverging.epoch, end_offset=diverging.end_offset)
        return _found(broker, log, wanted, logs.EMPTY, 0, state, epoch_end)
    if wanted.fetch_offset > log.log_end_offset:
        return _failed(wanted, Error.OFFSET_OUT_OF_RANGE, partition)
    end = log.readable_end(state.isolation_level)
    found = logs.read(
        broker.tables.logs, broker.id, log, wanted.fetch_offset, end, max_bytes, is_first
    )
    return _found(broker, log, wanted, found, max_bytes, state, EpochEndOffset())


def _failed(wanted: FetchPartition, error: Error, partition: Partition) -> AnsweredPartition:
    answer = AnsweredPartition(partition_index=wanted.partition, error_code=int(error))
    if error in (Error.NOT_LEADER_OR_FOLLOWER, Error.FENCED_LEADER_EPOCH):
        answer.current_leader = LeaderIdAndEpoch.of(partition)
    return answer


def _found(
    broker: Broker,
    log: logs.Log,
    wanted: FetchPartition,
    found: logs.Slice,
    max_bytes: int,
    state: FetchState,
    diverging: EpochEndOffset,
) -> AnsweredPartition:
    sealed = None
    if found.segment is not None:
        sealed = SealedBatches(
            topic_id=log.topic_id,
            base_offset=found.segment.base_offset,
            fetch_offset=wanted.fetch_offset,
            end_offset=log.readable_end(state.isolation_level),
            max_bytes=max_bytes,
        )
    return AnsweredPartition(
        partition_index=wanted.partition,
        high_watermark=log.high_watermark,
        last_stable_offset=log.last_stable_offset,
        log_start_offset=log.log_start_offset,
        diverging_epoch=diverging,
        aborted_transactions=_aborted(broker, log, wanted, found, max_bytes, state),
        records_size_in_bytes=found.size_in_bytes,
        batches=[batch.header() for batch in found.batches],
        sealed=sealed,
    )


def _aborted(
    broker: Broker,
    log: logs.Log,
    wanted: FetchPartition,
    found: logs.Slice,
    max_bytes: int,
    state: FetchState,
) -> list[AbortedTransaction] | None:
    """The aborted transactions in what was read; null for who reads uncommitted records, too.

    A first batch that is left out because it does not fit takes them with it
    (`ReplicaManager.readFromLog`: firstEntryIncomplete); without any room the log is not read.
    """
    is_left_out = (
        max_bytes > 0
        and found is logs.EMPTY
        and wanted.fetch_offset < log.readable_end(state.isolation_level)
    )
    if state.isolation_level != logs.READ_COMMITTED or is_left_out:
        return None
    if not found.size_in_bytes:
        return []
    return [
        AbortedTransaction(producer_id=each.producer_id, first_offset=each.first_offset)
        for each in logs.aborted_in(broker.tables.logs, broker.id, log, wanted.fetch_offset, found)
    ]


def _is_enough(reads: list[Read], state: FetchState) -> bool:
    """Whether what was read is an answer: an error, a cut log, or min bytes."""
    answers = [read.answer for read in reads]
    size = sum(answer.records_size_in_bytes for answer in answers)
    return size >= state.min_bytes or any(
        answer.error_code or answer.diverging_epoch.epoch >= 0 for answer in answers
    )


def _may_answer(broker: Broker, state: FetchState) -> bool:
    """Whether there are min bytes now, or a partition has gone, moved or been cut."""
    size = 0
    for item in state.readable:
        wanted = item.requested
        topic = broker.topic_by_id(item.topic_id)
        log = broker.log(item.topic_id, wanted.partition)
        if topic is None or log is None:
            return True
        if (
            broker.leader_error(topic.partitions[wanted.partition], fetch_errors.epoch_of(wanted))
            is not Error.NONE
        ):
            return True
        end = log.readable_end(state.isolation_level)
        if wanted.fetch_offset > end:
            return True
        available = logs.bytes_between(broker.tables.logs, broker.id, log, wanted.fetch_offset, end)
        size += min(available, wanted.max_bytes)
    return size >= state.min_bytes


def _answer(broker: Broker, state: FetchState, reads: list[Read], asker: _Asker) -> Decision:
    context = state.context
    throttle = _throttle_ms(broker, asker.limit, reads)
    if throttle:
        return Decision(response=_throttled(broker, context, throttle))
    reads = [*reads, *(_refused(refused) for refused in state.refused)]
    shown = reads
    session_id = context.session_id
    if context.kind is ContextKind.INCREMENTAL:
        selected = _cache(broker).select(context, [_answered(read) for read in reads])
        if selected is None:
            error = int(Error.INVALID_FETCH_SESSION_EPOCH)
            return Decision(response=FetchResponse(error_code=error, session_id=session_id))
        shown = [read for read, is_shown in zip(reads, selected, strict=True) if is_shown]
    elif context.kind is ContextKind.FULL:
        new = NewSession(
            asker.client_id or "",
            state.replica_id >= 0,
            asker.version >= TOPIC_ID_VERSION,
            state.nonce,
            state.chosen_session_id,
            state.isolation_level,
        )
        answered = [(read.requested, _answered(read)) for read in reads]
        session_id = _cache(broker).create(new, answered)
        if session_id:
            _watch(broker, session_id, state.readable)
    return Decision(response=FetchResponse(session_id=session_id, responses=_by_topic(shown)))


def _throttle_ms(broker: Broker, limit: Limit | None, reads: list[Read]) -> int:
    """For how long a consumer that was too fast has to wait."""
    if limit is None:
        return 0
    size = sum(read.answer.records_size_in_bytes for read in reads)
    return quota_rates.throttle_ms(broker, limit, size)


def _throttled(broker: Broker, context: Context, throttle: int) -> FetchResponse:
    """An answer without partitions: they are read when the client comes back."""
    response = FetchResponse(throttle_time_ms=throttle)
    if context.kind is ContextKind.INCREMENTAL:
        response.session_id = context.session_id
        if _cache(broker).is_superseded(context):
            response.error_code = int(Error.INVALID_FETCH_SESSION_EPOCH)
    return response


def _answered(read: Read) -> Answered:
    answer = read.answer
    return Answered(
        read.requested.identity,
        answer.error_code,
        answer.high_watermark,
        answer.log_start_offset,
        answer.records_size_in_bytes,
        answer.diverging_epoch.epoch >= 0,
        read.is_at_end,
    )


def _by_topic(reads: list[Read]) -> list[AnsweredTopic]:
    """Runs of partitions of one topic; a topic comes again where another one came in between."""
    topics: list[AnsweredTopic] = []
    last = None  # an empty name is one, too
    for read in reads:
        topic, topic_id = read.requested.topic, read.requested.topic_id
        place = topic if topic_id == ZERO_UUID else topic_id
        if place != last:
            topics.append(AnsweredTopic(topic=topic, topic_id=topic_id, partitions=[]))
            last = place
        topics[-1].partitions.append(read.answer)
    return topics


API = Api(1, "FETCH", (4, 18), FetchRequest, handle, ready=ready, complete=complete)
