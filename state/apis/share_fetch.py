"""ShareFetch (key 78, versions 1 to 2): acquire and fetch records.

Source: `KafkaApis.handleShareFetchRequest`, `SharePartitionManager`, `DelayedShareFetch` in Kafka;
KIP-932, KIP-1206, KIP-1222. Errors of the whole request, in this order:

    share groups are not enabled                   35 UNSUPPORTED_VERSION
    no group, or an invalid member id              42 INVALID_REQUEST
    no READ permission on the group                30 GROUP_AUTHORIZATION_FAILED
    a renewal that also fetches                    42 INVALID_REQUEST
    acknowledgements with epoch 0                  42 INVALID_REQUEST
    too many sessions; after the wait              133 SHARE_SESSION_LIMIT_REACHED
    no session of this member                      122 SHARE_SESSION_NOT_FOUND
    another epoch than the session's next          123 INVALID_SHARE_SESSION_EPOCH
    on a fetch, unknown topic id in the request    -1 UNKNOWN_SERVER_ERROR; an unknown topic id
    or the session, or unknown acquire mode        in Kafka 4.4: 100 UNKNOWN_TOPIC_ID, alone

The session is opened or continued even after -1 UNKNOWN_SERVER_ERROR. For an unknown
topic Kafka fails only when it responds: acknowledgements of other topics count, and the member
keeps the acquired records.

Acknowledgements are applied first (`state/share/acknowledgements.py`), and pending fetches of their
partitions are checked again (`look_again`). The fetch does not wait for the share coordinators; the
response does. If fewer than min bytes can be acquired, the request waits for the log, for released
records, or for max wait. Epoch -1 fetches nothing and closes the session. If the connection ends, a
pending request still acquires records, which are released with their delivery count increased.

A consumer above its quota gets a response without partitions and with a throttle time. Like in
Kafka, it keeps the records acquired for it until their lock expires.
"""

import msgspec

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.read_share_group_state import ReadShareGroupStateResponse
from brokertwin.protocol.generated.share_fetch import (
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
    ShareFetchResponsePartitionData,
)
from brokertwin.protocol.generated.shared import ReadShareGroupStateRequest, ShareGroupStateResponse
from brokertwin.state.access.authorizer import Operation
from brokertwin.state.apis.share_requests import denied_names, request_error
from brokertwin.state.cluster import quota_rates
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core import pending
from brokertwin.state.core.api import Api
from brokertwin.state.core.decision import (
    AnyRequest,
    Condition,
    Decision,
    Message,
    PendingRequest,
    Request,
    Resumed,
)
from brokertwin.state.core.tables import decode_item
from brokertwin.state.share import (
    acknowledgements,
    response_size,
    result_order,
    share_partitions,
    share_reads,
    share_sessions,
)
from brokertwin.state.share.acknowledgements import RENEWAL_VERSION, AcknowledgementResult
from brokertwin.state.share.share_reads import ShareRead
from brokertwin.state.share.share_sessions import FINAL_EPOCH, FIRST_EPOCH, TopicPartitionId

ACQUIRE_MODES = (0, 1)
"""By batch size; by record limit."""


class Shown(msgspec.Struct, array_like=True):
    topic_id: str
    response: ShareFetchResponsePartitionData

    @property
    def place(self) -> TopicPartitionId:
        return self.topic_id, self.response.partition_index


class DelayedShareFetch(msgspec.Struct, array_like=True):
    """A pending request.

    Attributes:
        epoch: share session epoch of the request.
        pending_requests: number of pending requests to share coordinators.
        shown: partitions of the response; complete if `is_read`.
        deadline: end of max wait, in ms since 1970.
        gives_up_at: end of the share coordinators' time, in ms since 1970.
        error: error of the response after the wait.
        is_lost: whether the connection has ended.
        has_unknown_topic: whether a topic is unknown; the response is then an error.
        loads: number of pending requests that load the state of a share partition.
    """

    read: ShareRead
    epoch: int
    outcomes: list[AcknowledgementResult]
    pending_requests: int
    shown: list[Shown]
    deadline: int
    gives_up_at: int
    is_read: bool = False
    error: int = 0
    is_lost: bool = False
    has_unknown_topic: bool = False
    loads: int = 0


def handle(broker: Broker, request: Request) -> Decision:
    """Acknowledge and fetch; respond if there are enough records."""
    body: ShareFetchRequest = request.body
    error = request_error(broker, request)
    if error is Error.NONE and _is_false_renewal(request):
        error = Error.INVALID_REQUEST
    if error is not Error.NONE:
        return _refuse(error)
    assert body.group_id is not None and body.member_id is not None
    group_id, member_id = body.group_id, body.member_id
    effects = Decision()
    places = _open(broker, request, effects)
    if places is Error.SHARE_SESSION_LIMIT_REACHED:
        state = _state(broker, request, [])
        state.error = places
        return joined(effects, _wait(broker, state))
    if isinstance(places, Error):
        return _refuse(places)
    context = acknowledgements.AcknowledgeContext(
        group_id, member_id, request.version, body.is_renew_ack, denied_names(broker, request)
    )
    state = _state(broker, request, places)
    named = [topic.topic_id for topic in body.topics] + [topic_id for topic_id, _ in places]
    state.has_unknown_topic = (
        body.share_session_epoch != FINAL_EPOCH
        and not broker.settings.is_4_4
        and any(broker.topic_by_id(topic_id) is None for topic_id in named)
    )
    limit = quota_rates.fetch_limit(broker, request.principal, request.header.client_id)
    state.read.max_bytes = min(state.read.max_bytes, quota_rates.max_bytes(broker, limit))
    state.read.min_bytes = min(state.read.min_bytes, state.read.max_bytes)
    if _has_acknowledgements(body):
        taken = acknowledgements.acknowledge(broker, context, body.topics)
        state.outcomes, effects.messages = taken.outcomes, [*taken.messages, *effects.messages]
        effects = joined(effects, look_again(broker, group_id, taken.places))
    if places and body.share_acquire_mode not in ACQUIRE_MODES:
        return joined(effects, _refuse(Error.UNKNOWN_SERVER_ERROR))
    _begin(broker, request, state, effects.messages)
    requests = [each.body for each in effects.messages]
    state.pending_requests = len(requests)
    state.loads = sum(isinstance(each, ReadShareGroupStateRequest) for each in requests)
    decision = joined(effects, _try(broker, request, state))
    return _retry_woken(broker, decision) if decision.messages or decision.copies else decision


def _refuse(error: Error) -> Decision:
    return Decision(response=ShareFetchResponse(error_code=int(error)))


def joined(effects: Decision, decision: Decision) -> Decision:
    """Return `decision` with the effects of `effects` before its own."""
    decision.messages = [*effects.messages, *decision.messages]
    decision.copies = [*effects.copies, *decision.copies]
    decision.resumed = [*effects.resumed, *decision.resumed]
    decision.woken = [*effects.woken, *decision.woken]
    return decision


def _is_false_renewal(request: Request) -> bool:
    body: ShareFetchRequest = request.body
    fetches = body.max_bytes or body.min_bytes or body.max_records or body.max_wait_ms
    return request.version >= RENEWAL_VERSION and body.is_renew_ack and bool(fetches)


def _has_acknowledgements(body: ShareFetchRequest) -> bool:
    return any(each.acknowledgement_batches for topic in body.topics for each in topic.partitions)


def _open(broker: Broker, request: Request, effects: Decision) -> list[TopicPartitionId] | Error:
    """Open or continue the session; return its partitions or an error."""
    body: ShareFetchRequest = request.body
    connection = request.connection
    assert body.group_id is not None and body.member_id is not None
    group_id, member_id, epoch = body.group_id, body.member_id, body.share_session_epoch
    places = [
        (topic.topic_id, each.partition_index) for topic in body.topics for each in topic.partitions
    ]
    if epoch == FIRST_EPOCH:
        if _has_acknowledgements(body):
            return Error.INVALID_REQUEST
        if not share_sessions.has_any(broker, group_id):
            effects.messages += share_partitions.reload_group(broker, group_id)
        opened = (broker, group_id, member_id, places, connection)
        if not share_sessions.open_session(*opened):
            idle = share_sessions.idle_session(broker)
            if idle is None:
                return Error.SHARE_SESSION_LIMIT_REACHED
            joined(close(broker, *idle), effects)
            share_sessions.open_session(*opened)
        return list(dict.fromkeys(places))
    session = share_sessions.continue_session(broker, group_id, member_id, epoch)
    if isinstance(session, Error):
        return session
    if epoch == FINAL_EPOCH:
        return []
    forgotten = [
        (topic.topic_id, each) for topic in body.forgotten_topics_data for each in topic.partitions
    ]
    session.update(places, forgotten)
    return [each.place for each in session.partitions]


def _state(broker: Broker, request: Request, places: list[TopicPartitionId]) -> DelayedShareFetch:
    body: ShareFetchRequest = request.body
    max_bytes = min(body.max_bytes, broker.settings.fetch_max_bytes)
    read = ShareRead(
        body.group_id or "",
        body.member_id or "",
        places,
        min(body.min_bytes, max_bytes),
        max_bytes,
        body.max_records,
        body.batch_size,
        body.share_acquire_mode,
    )
    deadline = broker.now + max(body.max_wait_ms, 0)
    gives_up_at = broker.now + broker.settings.request_timeout_ms
    return DelayedShareFetch(read, body.share_session_epoch, [], 0, [], deadline, gives_up_at)


def _begin(
    broker: Broker, request: Request, state: DelayedShareFetch, messages: list[Message]
) -> None:
    """Select fetchable partitions and load missing share partitions."""
    body: ShareFetchRequest = request.body
    places, state.read.places = state.read.places, []
    if request.version >= RENEWAL_VERSION and body.is_renew_ack:
        state.is_read = True
        return
    topics = {topic_id: broker.topic_by_id(topic_id) for topic_id, _ in places}
    names = (topic.name for topic in topics.values() if topic is not None)
    denied = broker.denied_topics(request, Operation.READ, names)
    for place in places:
        topic = topics[place[0]]
        if topic is None:
            _show(broker, state, place, Error.UNKNOWN_TOPIC_ID)
        elif topic.name in denied:
            _show(broker, state, place, Error.TOPIC_AUTHORIZATION_FAILED)
        elif not 0 <= place[1] < len(topic.partitions):
            _show(broker, state, place, Error.UNKNOWN_TOPIC_OR_PARTITION)
        else:
            state.read.places.append(place)
    if not state.read.max_records or not state.read.max_bytes:
        state.read.places = []
    wanted = _rotated(state.read.places, body.share_session_epoch)
    state.read.places = []
    for place in wanted:
        topic = topics[place[0]]
        assert topic is not None, place
        if broker.has_lost(*place):
            _show(broker, state, place, Error.KAFKA_STORAGE_ERROR)
            continue
        if topic.partitions[place[1]].leader != broker.id or broker.log(*place) is None:
            _show(broker, state, place, Error.NOT_LEADER_OR_FOLLOWER)
            continue
        messages += share_partitions.start_loading(broker, (state.read.group_id, *place))
        state.read.places.append(place)
    state.is_read = not state.read.places


def _rotated(places: list[TopicPartitionId], epoch: int) -> list[TopicPartitionId]:
    at = epoch % len(places) if places and epoch > 0 else 0
    return places[at:] + places[:at]


def _show(broker: Broker, state: DelayedShareFetch, place: TopicPartitionId, error: Error) -> None:
    state.shown.append(Shown(place[0], share_reads.error_response(broker, place, error)))


def _try(
    broker: Broker, request: AnyRequest, state: DelayedShareFetch, looks: bool = True
) -> Decision:
    """Respond if there are enough records and no pending writes, or wait.

    Then pending requests for the same partitions are checked again, even before share coordinators
    respond. This is when Kafka releases the fetch locks of share partitions
    (`DelayedShareFetch.releasePartitionLocksAndAddToActionQueue`). `looks`: whether to try before
    max wait ends.
    """
    is_over = broker.now >= state.deadline and not state.loads
    woken: list[str] = []
    is_due = is_over or (looks and not state.is_read and share_reads.is_ready(broker, state.read))
    if not state.is_read and is_due:
        found = share_reads.acquire(broker, state.read, is_over)
        state.shown += [Shown(place[0], response) for place, response in found.items()]
        state.is_read = True
        woken = [broker.log_key(*at) for at, each in found.items() if not each.error_code]
    is_done = state.is_read and not state.pending_requests
    decision = _respond(broker, request, state) if is_done else _wait(broker, state)
    decision.woken += woken
    return decision


def _wait(broker: Broker, state: DelayedShareFetch) -> Decision:
    deadline = state.deadline
    if state.pending_requests and (state.is_read or deadline <= broker.now):
        deadline = state.gives_up_at
    logs = [broker.log_key(*place) for place in state.read.places if not state.is_read]
    return Decision(condition=Condition(deadline, logs, msgspec.msgpack.encode(state)))


def _respond(broker: Broker, request: AnyRequest, state: DelayedShareFetch) -> Decision:
    """Build the response with the session's partitions and all results."""
    read, shown = state.read, state.shown
    if state.is_lost:
        return _release(broker, state)
    if state.has_unknown_topic:
        return _refuse(Error.UNKNOWN_SERVER_ERROR)
    throttle = _throttle_ms(broker, request, state)
    if throttle:
        shown = []
    elif state.epoch not in (FIRST_EPOCH, FINAL_EPOCH):
        session = share_sessions.find(broker, read.group_id, read.member_id)
        if session is not None and session.epoch != state.epoch % (2**31 - 1) + 1:
            return _refuse(Error.INVALID_SHARE_SESSION_EPOCH)
        shown = [each for each in shown if _is_shown(broker, read, session is not None, each)]
    responses = _in_order(broker, shown)
    for outcome in state.outcomes:
        result = responses.setdefault(
            outcome.place, ShareFetchResponsePartitionData(partition_index=outcome.partition)
        )
        result.acknowledge_error_code = outcome.error
        result.acknowledge_error_message = outcome.message
    topics: dict[str, ShareFetchableTopicResponse] = {}
    for (topic_id, _), result in responses.items():
        topics.setdefault(
            topic_id, ShareFetchableTopicResponse(topic_id=topic_id, partitions=[])
        ).partitions.append(result)
    lock_ms = share_partitions.limits_of(broker, read.group_id).lock_ms
    response = ShareFetchResponse(
        throttle_time_ms=throttle,
        acquisition_lock_timeout_ms=lock_ms,
        responses=list(topics.values()),
    )
    closing = Decision()
    if state.epoch == FINAL_EPOCH:
        closing = close(broker, read.group_id, read.member_id)
    closing.response = response
    return closing


def _in_order(
    broker: Broker, shown: list[Shown]
) -> dict[TopicPartitionId, ShareFetchResponsePartitionData]:
    by_place = {each.place: each.response for each in shown}
    topics = {topic_id: broker.topic_by_id(topic_id) for topic_id, _ in by_place}
    names = {topic_id: topic.name for topic_id, topic in topics.items() if topic is not None}
    ordered = result_order.fetched({place: names.get(place[0], "") for place in by_place})
    return {place: by_place[place] for place in ordered}


def _throttle_ms(broker: Broker, request: AnyRequest, state: DelayedShareFetch) -> int:
    """Return the throttle time of a consumer above its quota, in ms."""
    limit = quota_rates.fetch_limit(broker, request.principal, request.header.client_id)
    if limit is None:
        return 0
    session = None
    if state.epoch not in (FIRST_EPOCH, FINAL_EPOCH):
        session = share_sessions.find(broker, state.read.group_id, state.read.member_id)
    shown = [
        (each.topic_id, each.response)
        for each in state.shown
        if session is None
        or session.would_show(
            each.place, bool(each.response.acquired_records), bool(each.response.error_code)
        )
    ]
    return quota_rates.throttle_ms(broker, limit, response_size.size_of(shown))


def _is_shown(broker: Broker, read: ShareRead, is_open: bool, each: Shown) -> bool:
    """True if the response names the partition, in a session or not."""
    has_records, has_error = bool(each.response.acquired_records), bool(each.response.error_code)
    if not is_open:
        return has_records or has_error
    session = share_sessions.change_session(broker, read.group_id, read.member_id)
    return session.select(each.place, has_records, has_error)


def _release(broker: Broker, state: DelayedShareFetch) -> Decision:
    """Release acquired records because the connection has ended.

    Pending requests for them are checked after this one ends: many connections may end at once.
    """
    read = state.read
    places = [each.place for each in state.shown if each.response.acquired_records]
    decision = _refuse(Error.SHARE_SESSION_NOT_FOUND)
    decision.messages = share_partitions.release_records(
        broker, read.group_id, read.member_id, places
    )
    decision.woken = [broker.log_key(*place) for place in places]
    return decision


def close(broker: Broker, group_id: str, member_id: str) -> Decision:
    session = share_sessions.find(broker, group_id, member_id)
    share_sessions.close(broker, group_id, member_id)
    places = [cached.place for cached in session.partitions] if session is not None else []
    messages = share_partitions.release_records(broker, group_id, member_id, places)
    return joined(Decision(messages=messages), look_again(broker, group_id, places))


def look_again(broker: Broker, group_id: str, places: list[TopicPartitionId]) -> Decision:
    """Retry a group's pending fetches before share coordinators respond.

    Members have acknowledged or released records there. Those records are not available yet, but
    records released earlier are (`SharePartitionManager.acknowledge`, `releaseSession` in Kafka).
    """
    effects = Decision()
    for place in places:
        _retry(broker, broker.log_key(*place), effects, group_id)
    return _retry_woken(broker, effects)


def _retry_woken(broker: Broker, effects: Decision) -> Decision:
    """Retry pending fetches of logs that were read, repeatedly.

    Kafka's action queue runs at the end of the request.
    """
    while effects.woken:
        logs, effects.woken = list(dict.fromkeys(effects.woken)), []
        for log in logs:
            _retry(broker, log, effects)
    return effects


def _retry(broker: Broker, log: str, effects: Decision, group_id: str | None = None) -> None:
    """Retry pending fetches of a log, by arrival; None means all groups."""
    table = broker.tables.pending
    for event_id in pending.watchers(table, log):
        waited = pending.get_request(table, event_id)
        if waited is None or waited.is_held or waited.api_key != API.key:
            continue
        if log not in waited.logs:  # resumed since it was added to the list
            continue
        is_meant = group_id in (None, _state_of(waited).read.group_id)
        if is_meant and ready(broker, waited):
            _resume(broker, waited, effects)


def _resume(broker: Broker, waited: PendingRequest, effects: Decision) -> None:
    """Read for a pending request; it may still wait for coordinators."""
    pending.take(broker.tables.pending, waited.event_id)
    decision = complete(broker, waited)
    condition = decision.condition or Condition(waited.deadline, [], waited.state)
    on = {"logs": condition.logs, "deadline": condition.deadline, "state": condition.state}
    pending.add(broker.tables.pending, msgspec.structs.replace(waited, **on))
    if decision.condition is None:
        effects.resumed.append(Resumed(waited.event_id, decision.response))
    effects.resumed += decision.resumed
    effects.copies += [*decision.messages, *decision.copies]  # these belong to no pending request
    effects.woken += decision.woken


def disconnected(broker: Broker, connection: str) -> Decision:
    """Close the session that the ended connection opened."""
    session_key = share_sessions.session_of_connection(broker, connection)
    if session_key is None:
        return Decision()
    session = share_sessions.find(broker, *session_key)
    assert session is not None, session_key
    table = broker.tables.pending
    for cached in session.partitions:
        for event_id in pending.watchers(table, broker.log_key(*cached.place)):
            waited = pending.get_request(table, event_id)
            if waited is None or (waited.api_key, waited.connection) != (API.key, connection):
                continue
            state = _state_of(waited)
            state.is_lost = True
            pending.keep_state(table, event_id, msgspec.msgpack.encode(state))
    return close(broker, *session_key)


def ready(broker: Broker, waiting: PendingRequest) -> bool:
    """True if a pending request has enough records now."""
    state = _state_of(waiting)
    return not state.error and not state.is_read and share_reads.is_ready(broker, state.read)


def resume(
    broker: Broker,
    waiting: PendingRequest,
    message: Message,
    response: ReadShareGroupStateResponse | ShareGroupStateResponse,
) -> Decision:
    """Handle a share coordinator's response to a read or a write."""
    state = _state_of(waiting)
    state.pending_requests -= 1
    if isinstance(response, ReadShareGroupStateResponse):
        read, looks = share_partitions.on_read_response(broker, message, response), True
        woken, messages = read.woken, read.messages
        state.loads = max(0, state.loads - 1)
    else:  # pending requests, this one included, are woken in their own order
        fault, woken, messages = share_partitions.on_write_response(broker, message, response)
        acknowledgements.apply_write_error(state.outcomes, message, fault)
        looks = False
    decision = _try(broker, waiting, state, looks)
    decision.copies = [*decision.copies, *messages]
    decision.woken += woken
    return decision


def complete(broker: Broker, waiting: PendingRequest) -> Decision:
    """Continue at the end of max wait or of the share coordinators' time."""
    state = _state_of(waiting)
    if state.error:
        return _refuse(Error(state.error))
    if state.pending_requests and broker.now >= state.gives_up_at:
        for each in state.outcomes:
            each.error = each.error or Error.COORDINATOR_NOT_AVAILABLE
            share_partitions.forget(broker, (state.read.group_id, *each.place))
        for place in state.read.places:
            share_partitions.fail_loading(broker, (state.read.group_id, *place))
        state.pending_requests = state.loads = 0
    return _try(broker, waiting, state)


def _state_of(waiting: PendingRequest) -> DelayedShareFetch:
    return decode_item(waiting.state, DelayedShareFetch)


API = Api(
    kafka_apis.SHARE_FETCH,
    handle,
    ready=ready,
    resume=resume,
    complete=complete,
    outlives_leader=True,
)
