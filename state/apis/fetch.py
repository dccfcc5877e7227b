"""Fetch (key 1, versions 4 to 18): read logs.

Behaviour: `ReplicaManager.fetchMessages`, `DelayedFetch`, `FetchManager` in Kafka. The response
lists batches and, if present, their locators; the gateway adds the bytes. If fewer than min bytes
are available, the request waits until a log changes or max wait expires, and reads again.

KIPs: 74 (max bytes), 98 (transactions), 101/320 (leader epochs), 227 (sessions), 392 (replicas
nearby), 516 (topic ids), 595 (diverging epoch), 951 (current leader in the response).

    no READ on the topic                              29 TOPIC_AUTHORIZATION_FAILED; in a session
                                                      from the next request on
    a follower without CLUSTER_ACTION on the cluster  29 TOPIC_AUTHORIZATION_FAILED, for all
    unknown isolation level, any readable partition   -1 UNKNOWN_SERVER_ERROR, for all
    a broker that is not a replica of the partition   75 UNKNOWN_LEADER_EPOCH; without a leader
    (`Partition.followerReplicaOrThrow`)              epoch 6 NOT_LEADER_OR_FOLLOWER

Consumers:

- With `isolationLevel` 1 a consumer reads below the last stable offset, and the response lists the
  aborted transactions in that range.
- A consumer that exceeds its quota gets a response without partitions and with a throttle time
  (`state/cluster/quota_rates.py`). Its session does not change.
- From version 11 every replica serves consumers, and a leader may redirect a consumer to a replica
  in its rack (`state/replication/preferred_replica.py`).

Followers:

- A follower reads up to the log end offset, and its session is privileged.
- A throttled replica that is not in sync gets no data while the leader exceeds the throttle rate
  (`state/replication/throttles.py`).
- The request updates the high watermark and the in-sync set (`state/replication/leader.py`). The
  response contains the previous high watermark.

Not implemented: remote storage.
"""

from collections.abc import Container
from itertools import compress, starmap

import msgspec

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.bodies import ZERO_UUID, Uuid
from brokertwin.protocol.errors import NONE, Error
from brokertwin.protocol.generated.fetch import FetchRequest, FetchResponse
from brokertwin.state.access.authorizer import Operation
from brokertwin.state.cluster import quota_rates
from brokertwin.state.cluster.client_quotas import QuotaLimit
from brokertwin.state.cluster.image import Topic
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.api import Api
from brokertwin.state.core.decision import Condition, Decision, PendingRequest, Request
from brokertwin.state.core.events import RequestHeader
from brokertwin.state.core.records import Record
from brokertwin.state.core.settings import UNLIMITED
from brokertwin.state.core.tables import decode_item
from brokertwin.state.eras import session_lines
from brokertwin.state.fetch import fetch_bodies, fetch_errors, places, reading, response_size
from brokertwin.state.fetch.fetch_bodies import FetchResponseById, FetchResponseTopicById
from brokertwin.state.fetch.fetch_session import (
    CONSUMER,
    INCREMENTAL,
    TOPIC_ID_VERSION,
    ContextKind,
    FetchContext,
    NewSession,
    SessionCache,
)
from brokertwin.state.fetch.places import NO_NOTES, FetchPlace, ReadNotes
from brokertwin.state.fetch.reading import PartitionRead, ReadLimits
from brokertwin.state.fetch.session_items import FetchPartition, session_key
from brokertwin.state.fetch.shards import ShardLayout
from brokertwin.state.logs import log as logs
from brokertwin.state.replication import copying, preferred_replica, throttles
from brokertwin.state.replication.throttles import Side

_REPLICAS_SERVE_SINCE = 11
"""The first version in which every replica serves consumers (KIP-392)."""


class Readable(msgspec.Struct, array_like=True):
    requested: FetchPartition
    topic_id: Uuid


class RefusedPartition(msgspec.Struct, array_like=True):
    """A partition that was refused before reading, with its error."""

    requested: FetchPartition
    error: int


class DelayedFetch(msgspec.Struct, array_like=True):
    """A pending fetch as stored; a consumer has the replica id -1."""

    context: FetchContext
    readable: list[Readable]
    refused: list[RefusedPartition]
    max_bytes: int
    min_bytes: int
    isolation_level: int
    nonce: str
    chosen_session_id: int | None
    replica_id: int = CONSUMER
    rack_id: str | None = None


class _Requester(msgspec.Struct, frozen=True):
    """Version, client id and quota of a request; followers have no quota."""

    version: int
    client_id: str | None
    limit: QuotaLimit | None


def _requester(
    broker: Broker, header: RequestHeader, principal: str, replica_id: int
) -> _Requester:
    limit = None
    if replica_id < 0:
        limit = quota_rates.fetch_limit(broker, principal, header.client_id)
    return _Requester(header.request_api_version, header.client_id, limit)


class Fetch(msgspec.Struct, gc=False):
    """A fetch that is in progress.

    Attributes:
        cache: the sessions of the broker.
        context: the context of the fetch's session.
        places: the readable partitions.
        refused: the partitions with an error.
        limits: the maximum sizes, and the isolation level and replica of the reader.
        min_bytes: the minimum size of a response before the deadline.
        nonce: the seed for the id of a new session.
        chosen_session_id: the id of a new session, if chosen by the event.
    """

    cache: SessionCache
    context: FetchContext
    places: list[FetchPlace]
    refused: list[RefusedPartition]
    limits: ReadLimits
    min_bytes: int
    nonce: str
    chosen_session_id: int | None

    def stored(self) -> bytes:
        """Encode the fetch as a `DelayedFetch`."""
        limits = self.limits
        readable = [Readable(place.cached.requested, place.topic_id) for place in self.places]
        state = DelayedFetch(
            self.context,
            readable,
            self.refused,
            limits.max_bytes,
            self.min_bytes,
            limits.isolation_level,
            self.nonce,
            self.chosen_session_id,
            limits.replica_id,
            limits.rack_id,
        )
        return msgspec.msgpack.encode(state)


def handle(broker: Broker, request: Request) -> Decision:
    """Respond at once if the data suffices or nothing can be awaited."""
    body: FetchRequest = request.body
    replica_id = fetch_bodies.follower_of(body)
    cache, version = _cache(broker), request.version
    requested = fetch_bodies.requested(body)
    forgotten = fetch_bodies.forgotten(body) if body.forgotten_topics_data else []
    context = cache.open(body.session_id, body.session_epoch, version, requested, forgotten)
    if context.error:
        if context.error == Error.UNKNOWN_SERVER_ERROR:
            refused = fetch_bodies.refused(body, version, Error.UNKNOWN_SERVER_ERROR)
            return Decision(response=refused)
        return Decision(response=FetchResponse(error_code=context.error))
    level = logs.LOG_END if replica_id >= 0 else body.isolation_level
    if context.kind is INCREMENTAL:
        if broker.settings.authorizer_class_name:
            _activate_denied(broker, request, cache, context.session_id, replica_id)
        fetch_places = cache.active_for(context.session_id, level)
    else:
        fetch_places = [
            places.of_request(broker.id, identity, item, item.topic_id)
            for identity, item in requested.items()
        ]
    rack_id = body.rack_id if version >= _REPLICAS_SERVE_SINCE else None
    requester = _requester(broker, request.header, request.principal, replica_id)
    max_bytes = min(body.max_bytes, broker.settings.fetch_max_bytes)
    if requester.limit is not None:
        max_bytes = min(max_bytes, quota_rates.max_bytes(broker, requester.limit))
    fetch = Fetch(
        cache,
        context,
        [],
        [],
        ReadLimits(max_bytes, level, replica_id, rack_id),
        min(body.min_bytes, max_bytes),
        request.nonce,
        request.choices.session_id,
    )
    _screen(broker, request, fetch, fetch_places, requested)
    if fetch.places and body.isolation_level not in logs.ISOLATION_LEVELS:
        refused = fetch_bodies.refused(body, version, Error.UNKNOWN_SERVER_ERROR)
        return Decision(response=refused)
    reads, quiet = _read_all(broker, fetch)
    if replica_id < 0:
        return _respond_or_wait(broker, body, fetch, reads, quiet, requester)
    followed = _follow(broker, replica_id, reads, fetch)
    decision = _respond_or_wait(broker, body, fetch, reads, quiet, requester)
    decision.records, decision.copies = followed.records, followed.copies
    return decision


def _respond_or_wait(
    broker: Broker,
    body: FetchRequest,
    fetch: Fetch,
    reads: list[PartitionRead],
    quiet: list[str],
    requester: _Requester,
) -> Decision:
    is_over = body.max_wait_ms <= 0 or _is_enough(reads, fetch)
    if is_over or not _has_readable(fetch) or _may_respond(broker, fetch):
        return _respond(broker, fetch, reads, quiet, requester)
    deadline = broker.now + body.max_wait_ms
    return Decision(condition=Condition(deadline, _wake_keys(broker, fetch), fetch.stored()))


def _follow(broker: Broker, replica_id: int, reads: list[PartitionRead], fetch: Fetch) -> Decision:
    """Record a follower's progress in each partition, before the response.

    In a session this includes the partitions that the request omits, because their offsets have not
    changed.
    """
    partitions = {read.identity: read.requested for read in reads}
    if fetch.context.kind is INCREMENTAL:
        for cached in fetch.cache.partitions(fetch.context.session_id):
            partitions.setdefault(cached.requested.identity, cached.requested)
    failed = {read.identity for read in reads if read.is_elsewhere}
    decision = Decision()
    for identity, item in partitions.items():
        topic = _topic_of(broker, item)
        if topic is None or identity in failed:
            continue
        place, at = (topic.topic_id, item.partition), (item.fetch_offset, item.log_start_offset)
        if copying.is_follower(broker, replica_id, place):
            copying.note_fetch(broker, place, replica_id, *at, decision)
    return decision


def ready(broker: Broker, waiting: PendingRequest) -> bool:
    """Return whether a fetch may complete early (`DelayedFetch.tryComplete`)."""
    fetch = _fetch_of(broker, waiting)
    _mark_throttled(broker, fetch)
    return _may_respond(broker, fetch)


def complete(broker: Broker, waiting: PendingRequest) -> Decision:
    fetch = _fetch_of(broker, waiting)
    requester = _requester(broker, waiting.header, waiting.principal, fetch.limits.replica_id)
    return _respond(broker, fetch, *_read_all(broker, fetch), requester)


def _read_all(broker: Broker, fetch: Fetch) -> tuple[list[PartitionRead], list[str]]:
    """Read the partitions, except those with a preferred or throttled replica."""
    limits = fetch.limits
    if limits.replica_id < 0 and limits.rack_id:
        for place in fetch.places:
            _prefer(broker, place, limits.rack_id)
    _mark_throttled(broker, fetch)
    return reading.read_all(broker, fetch.places, limits)


def _mark_throttled(broker: Broker, fetch: Fetch) -> None:
    """Mark partitions that are throttled for a replica outside the ISR."""
    replica_id = fetch.limits.replica_id
    if replica_id < 0:
        return
    is_limited = throttles.limit(broker, Side.LEADER) != UNLIMITED
    for place in fetch.places:
        number, topic = place.cached.requested.partition, place.topic
        is_outside = (
            is_limited and topic is not None and replica_id not in topic.partitions[number].isr
        )
        if is_outside and throttles.is_too_fast(broker, (place.topic_id, number)):
            place.notes = ReadNotes(is_held=True)


def _prefer(broker: Broker, place: FetchPlace, rack_id: str) -> None:
    """Note the preferred replica for a consumer in a rack, if there is one."""
    fetch_partition, topic = place.cached.requested, place.topic
    if topic is None or place.log not in broker.tables.logs:
        return
    partition, at = (
        topic.partitions[fetch_partition.partition],
        (topic.topic_id, fetch_partition.partition),
    )
    place.notes = ReadNotes(
        preferred_replica.preferred(broker, at, partition, rack_id, fetch_partition.fetch_offset),
        preferred_replica.may_prefer(broker, partition, rack_id),
    )


def _fetch_of(broker: Broker, waiting: PendingRequest) -> Fetch:
    """Restore a pending fetch with its session's changes in the meantime."""
    state = decode_item(waiting.state, DelayedFetch)
    cache, session_id = _cache(broker), state.context.session_id
    if state.context.kind is INCREMENTAL and cache.session(session_id):
        refused = {item.requested.identity for item in state.refused}
        readable = [each for each in cache.active(session_id) if each.identity not in refused]
    else:
        readable = [
            places.of_request(broker.id, item.requested.identity, item.requested, item.topic_id)
            for item in state.readable
        ]
    for place in readable:
        topic = broker.tables.metadata.get(place.topic_key, Topic)
        number = place.cached.requested.partition
        is_there = topic is not None and 0 <= number < len(topic.partitions)
        place.topic = topic if is_there else None  # a later request may name a missing topic
        place.notes = NO_NOTES
    return Fetch(
        cache,
        state.context,
        readable,
        state.refused,
        ReadLimits(state.max_bytes, state.isolation_level, state.replica_id, state.rack_id),
        state.min_bytes,
        state.nonce,
        state.chosen_session_id,
    )


def _activate_denied(
    broker: Broker, request: Request, cache: SessionCache, session_id: int, replica_id: int
) -> None:
    """Activate the session's partitions that the client may no longer read."""
    cached = [each.requested for each in cache.partitions(session_id)]
    denied = _denied(broker, request, cached, replica_id)
    for item in cached:
        if denied and _name_of(broker, item) in denied:
            cache.activate(session_id, item.identity)


def _has_readable(fetch: Fetch) -> bool:
    """Return whether any partition of the request or session was not refused."""
    session = fetch.cache.session(fetch.context.session_id)
    if fetch.context.kind is INCREMENTAL and session is not None:
        return session.size > len(fetch.refused)
    return bool(fetch.places)


def _wake_keys(broker: Broker, fetch: Fetch) -> list[str]:
    """Return the keys that end the wait: the session's or the logs'."""
    if fetch.context.kind is INCREMENTAL:
        return [session_key(broker.id, fetch.context.session_id)]
    return [place.log for place in fetch.places]


def _cache(broker: Broker) -> SessionCache:
    layout = ShardLayout.of(broker.settings)
    return SessionCache(broker.tables.fetch_sessions, broker.id, layout, broker.now)


def _topic_of(broker: Broker, partition: FetchPartition) -> Topic | None:
    """Return the topic by id, or by name if the request has no id."""
    if partition.topic_id != ZERO_UUID:
        return broker.topic_by_id(partition.topic_id)
    return broker.topic_by_name(partition.topic)


def _name_of(broker: Broker, partition: FetchPartition) -> str:
    """Return the topic's current name, or the requested name if unknown."""
    topic = _topic_of(broker, partition)
    return partition.topic if topic is None else topic.name


def _screen(
    broker: Broker,
    request: Request,
    fetch: Fetch,
    fetch_places: list[FetchPlace],
    named: Container[str],
) -> None:
    """Split partitions into readable and refused; unknown ids come first.

    Partitions that are `named` in the request get the name of their topic id. A session watches the
    logs of its readable partitions.
    """
    seen, replica_id = broker.topics_seen, fetch.limits.replica_id
    may_read = replica_id < 0 or broker.allows_cluster(request, Operation.CLUSTER_ACTION)
    readable = fetch.places
    unknown_ids: list[RefusedPartition] = []
    unknown_partitions: list[RefusedPartition] = []
    denied: frozenset[str] = frozenset()
    if broker.settings.authorizer_class_name:
        requested = [place.cached.requested for place in fetch_places]
        denied = _denied(broker, request, requested, replica_id)
    if denied or not may_read:
        seen = {}
    for place in fetch_places:
        topic, item = place.topic, place.cached.requested
        place.notes = NO_NOTES
        if topic is None or seen.get(item.topic_id) is not topic or item.topic != topic.name:
            is_named = place.identity in named
            error = _admit(broker, place, is_named, may_read, denied, request.version)
            if error is not NONE:
                is_unknown_id = error is Error.UNKNOWN_TOPIC_ID
                (unknown_ids if is_unknown_id else unknown_partitions).append(
                    RefusedPartition(item, int(error))
                )
                continue
        readable.append(place)
        if place.key and place.cached.watched_log != place.log:
            fetch.cache.watch(fetch.context.session_id, place.identity, place.log)
    fetch.refused = [*unknown_ids, *unknown_partitions]


def _admit(
    broker: Broker,
    place: FetchPlace,
    is_named: bool,
    may_read: bool,
    denied: frozenset[str],
    version: int,
) -> Error:
    """Return the error of a partition's topic, or store topic and name."""
    item = place.cached.requested
    if item.topic_id != ZERO_UUID:
        topic = broker.topic_by_id(item.topic_id)
        if topic is not None and is_named:
            item.topic = topic.name
    else:
        topic = broker.topic_by_name(item.topic)
    error = fetch_errors.topic_error(broker, item, topic, may_read, denied, version)
    place.topic = topic if error is NONE else None
    if error is NONE and topic is not None and place.topic_id != topic.topic_id:
        place.set_topic(broker.id, topic.topic_id)
    return error


def _denied(
    broker: Broker, request: Request, partitions: list[FetchPartition], replica_id: int
) -> frozenset[str]:
    """Return the topics that the consumer or follower may not read."""
    names = {_name_of(broker, item) for item in partitions}
    if replica_id >= 0:
        may_read = broker.allows_cluster(request, Operation.CLUSTER_ACTION)
        return frozenset() if may_read else frozenset(names)
    return broker.denied_topics(request, Operation.READ, names)


def _is_enough(reads: list[PartitionRead], fetch: Fetch) -> bool:
    """Return whether to respond: an error, a truncated log, or min bytes."""
    size = 0
    for read in reads:
        if read.is_elsewhere:
            return True
        size += read.size_in_bytes
    return size >= fetch.min_bytes


def _may_respond(broker: Broker, fetch: Fetch) -> bool:
    """Return whether min bytes are there or a partition moved or changed."""
    table, limits, size = broker.tables.logs, fetch.limits, 0
    needs_leader = limits.needs_leader
    for place in fetch.places:
        fetch_partition, topic = place.cached.requested, place.topic
        log = table.get(place.log, logs.Log)
        if topic is None or log is None or broker.has_lost(log.topic_id, log.partition):
            return True
        partition = topic.partitions[fetch_partition.partition]
        if fetch_errors.leader_error(broker, partition, fetch_partition, needs_leader) is not NONE:
            return True
        end = log.readable_end(limits.isolation_level)
        if fetch_partition.fetch_offset > end:
            return True
        if place.notes.is_held:
            continue
        if reading.is_older(broker, log, fetch_partition.fetch_offset, end):
            return True
        if fetch_partition.fetch_offset < end:
            available = logs.bytes_between(broker, log, fetch_partition.fetch_offset, end)
            size += min(available, fetch_partition.max_bytes)
    return size >= fetch.min_bytes


def _respond(
    broker: Broker,
    fetch: Fetch,
    reads: list[PartitionRead],
    quiet: list[str],
    requester: _Requester,
) -> Decision:
    """Build the response and update the session."""
    context, cache = fetch.context, fetch.cache
    records: list[Record] = []
    session_id = context.session_id
    if fetch.refused:
        refused = [item.requested for item in fetch.refused]
        is_fatal = fetch_errors.is_fatal_for_version(refused, requester.version)
        if is_fatal and not cache.is_superseded(context):
            return _failed(Error.UNKNOWN_SERVER_ERROR, session_id)
        for item in fetch.refused:
            reads.append(reading.refused(item.requested, item.requested.identity, item.error))
            reads[-1].was_screened = True
    shown = reads
    throttle = _throttle_ms(broker, fetch, reads, requester)
    if throttle:
        return Decision(response=_throttled(cache, context, throttle))
    if context.kind is INCREMENTAL:
        selected = cache.select(context, reads, quiet)
        if selected is None:
            return _failed(Error.INVALID_FETCH_SESSION_EPOCH, session_id)
        shown = list(compress(reads, selected))
    elif context.kind is ContextKind.FULL:
        new = NewSession(
            requester.client_id or "",
            fetch.limits.replica_id >= 0,
            requester.version >= TOPIC_ID_VERSION,
            fetch.nonce,
            fetch.chosen_session_id,
            fetch.limits.isolation_level,
        )
        session_id = cache.create(new, reads)
        for place in fetch.places if session_id else ():
            cache.watch(session_id, place.identity, place.log)
        if broker.settings.brokertwin_trace_sessions:
            names = [f"{r.requested.topic}-{r.requested.partition}" for r in reads]
            records = session_lines.of_full_request(
                session_id, new.is_privileged, names, broker.now
            )
    if fetch.limits.replica_id >= 0:
        sizes = zip(fetch.places, reads, strict=False)  # refused partitions come last
        copied = [
            ((p.topic_id, p.cached.requested.partition), r.found.size_in_bytes) for p, r in sizes
        ]
        throttles.count_bytes(broker, Side.LEADER, copied)
    runs = reading.by_topic(broker, shown, fetch.limits.isolation_level)
    if requester.version < TOPIC_ID_VERSION:
        named = list(starmap(fetch_bodies.topic_of, runs))
        return Decision(records, FetchResponse(session_id=session_id, responses=named))
    by_id = [FetchResponseTopicById(one.topic_id, parts) for one, parts in runs]
    return Decision(records, FetchResponseById(session_id=session_id, responses=by_id))


def _failed(error: Error, session_id: int) -> Decision:
    return Decision(response=FetchResponse(error_code=int(error), session_id=session_id))


def _throttle_ms(
    broker: Broker, fetch: Fetch, reads: list[PartitionRead], requester: _Requester
) -> int:
    """Return a consumer's throttle time, by the size of the whole response."""
    if requester.limit is None:
        return 0
    shown = reads
    if fetch.context.kind is INCREMENTAL:
        would_show = fetch.cache.would_show(fetch.context, reads)
        shown = list(compress(reads, would_show))
    runs = reading.by_topic(broker, shown, fetch.limits.isolation_level)
    topics = list(starmap(fetch_bodies.topic_of, runs))
    size = response_size.size_of(topics, requester.version)
    return quota_rates.throttle_ms(broker, requester.limit, size)


def _throttled(cache: SessionCache, context: FetchContext, throttle: int) -> FetchResponse:
    """Build a response without partitions; they are fetched again later."""
    response = FetchResponse(throttle_time_ms=throttle)
    if context.kind is INCREMENTAL:
        response.session_id = context.session_id
        if cache.is_superseded(context):
            response.error_code = int(Error.INVALID_FETCH_SESSION_EPOCH)
    return response


API = Api(kafka_apis.FETCH, handle, ready=ready, complete=complete)
