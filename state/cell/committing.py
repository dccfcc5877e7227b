"""Responses of coordinators wait until their records are committed.

If the records of a decision go to a log with followers (`state/replication/internal_logs.py`), the
rest of the decision waits until the high watermark has passed them: the response, responses to
other requests (joins), assignments, markers, and rows of offsets and groups. `PendingCommit` is the
uncommitted write; its id is that of the log and the offset.

    the high watermark has passed       everything is sent; records of transactions are applied
    too few replicas in sync by then    15 COORDINATOR_NOT_AVAILABLE for transactions; groups do not
                                        require it
    offsets.commit.timeout.ms is over   15 for groups; the records stay in the log, like in Kafka
    share.coordinator.write.timeout.ms  15 for states of share groups
    is over
    the transaction's time-out is over  15 for transactions; the id is as before
    the broker is no longer the leader  16 NOT_COORDINATOR

Some responses without records wait, too (`state/apis/earlier_writes.py`). Responses for errors are
in `state/apis/uncommitted.py`. The coordinator of a group sends requests to share coordinators
after its own records are committed. If they are not, it sends none, and the client gets error 15.

A leader that writes a marker responds with Produce's errors (7 REQUEST_TIMED_OUT, 20
NOT_ENOUGH_REPLICAS_AFTER_APPEND, 6 NOT_LEADER_OR_FOLLOWER), after request.timeout.ms at the latest.

Source: `CoordinatorRuntime` (deferred events), `TransactionStateManager` in Kafka.
"""

from itertools import count
from typing import Any, NamedTuple

import msgspec

from brokertwin.protocol.bodies import Body, render
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.group_rows import GroupMetadataValue
from brokertwin.state.apis import uncommitted
from brokertwin.state.apis.registry import BUILT
from brokertwin.state.apis.uncommitted import coordinator_error
from brokertwin.state.cell.delivery import delayed, undelayed
from brokertwin.state.cluster.coordinators import GROUP_TOPIC, SHARE_TOPIC
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core import pending
from brokertwin.state.core.api import Api
from brokertwin.state.core.decision import (
    AnyRequest,
    Decision,
    Message,
    PendingRequest,
    Request,
    Resumed,
)
from brokertwin.state.core.group_records import GroupRecord
from brokertwin.state.core.pending import LateMessage, PendingCommit
from brokertwin.state.core.records import Record, TransactionMetadataWritten
from brokertwin.state.core.tables import Table, decode_item
from brokertwin.state.groups import classic_coordinator
from brokertwin.state.groups.group_rows import GROUP_RECORD_TYPES
from brokertwin.state.logs.log import batches_from
from brokertwin.state.replication import acks, copying, internal_logs
from brokertwin.state.replication.copying import Place
from brokertwin.state.replication.internal_logs import OF_TRANSACTIONS, Required, WrittenRecords
from brokertwin.state.transactions import transactional_ids


class Prepared(msgspec.Struct, array_like=True):
    """The response to a pending request, rendered for each outcome of the commit."""

    event_id: str
    committed: dict[str, Any]
    unavailable: dict[str, Any]
    moved: dict[str, Any]


class Reply(msgspec.Struct, array_like=True):
    """The reply to another machine's message; its body as msgpack bytes of the response type."""

    message: LateMessage
    awaited_by: str
    response: bytes


class Synced(msgspec.Struct, array_like=True):
    """A group with an assignment by its leader, and its generation."""

    group_id: str
    generation_id: int


class Committing(msgspec.Struct, array_like=True):
    """The continuation of an uncommitted write.

    Attributes:
        required: the offsets that high watermarks must reach.
        responses: responses to pending requests.
        records: to apply after the commit.
        messages: to send after the commit.
        replies: to messages of other machines.
        rows: applied records without a row in `offsets.CLUSTER` yet.
        synced: groups whose members wait for their assignments.
        refusals: responses of requests that continue with `messages`, if these are not sent.
    """

    required: list[Required]
    responses: list[Prepared] = []
    records: list[Record] = []
    messages: list[LateMessage] = []
    replies: list[Reply] = []
    rows: list[Record] = []
    synced: list[Synced] = []
    refusals: list[Prepared] = []


class CommitOutcome(NamedTuple):
    """The effects of a finished write: records to apply, rows, responses and messages to send.

    `responses` are event ids and rendered responses.
    """

    records: list[Record]
    rows: list[Record]
    responses: list[tuple[str, dict[str, Any]]]
    messages: list[Message]
    replies: list[tuple[Message, Body]]


def suspend(
    broker: Broker,
    written: WrittenRecords,
    decision: Decision,
    request: AnyRequest | None,
    reply_to: Message | None,
) -> None:
    """Suspend the rest of a decision until its records are committed.

    Args:
        broker: the coordinator.
        written: the records.
        decision: their decision.
        request: the request that it responds to, if any.
        reply_to: the message that it replies to, if any.
    """
    table = broker.tables.pending
    responses = [_prepare_resumed(broker, each) for each in decision.resumed]
    if request is not None and decision.response is not None:
        pending.add(table, _client(request))
        responses.append(_prepare(broker, request, decision.response))
    replies = []
    if reply_to is not None and decision.response is not None:
        response = msgspec.msgpack.encode(decision.response)
        replies.append(Reply(delayed(reply_to), reply_to.awaited_by, response))
    late = [each for each in decision.messages if is_sent_when_committed(each)]
    synced = _synced(request, written.records) if request is not None else []
    refusals = _refusals(broker, request, late)
    is_awaited = bool(responses or replies or synced or refusals)
    for transactional_id in _ids(written.late):
        transactional_ids.begin_write(broker, transactional_id)
    _add(
        broker,
        Committing(
            required=written.required,
            responses=[each for each in responses if each is not None],
            records=written.late,
            messages=[delayed(message) for message in late],
            replies=replies,
            rows=[each for each in written.records if _has_row(each)],
            synced=synced,
            refusals=refusals,
        ),
        _deadline(broker, written, reply_to) if is_awaited else pending.NO_DEADLINE,
    )


def _synced(request: AnyRequest, records: list[Record]) -> list[Synced]:
    """Return the group of a SyncGroup with assignments."""
    if not BUILT[request.header.request_api_key].completes_syncs:
        return []
    return [
        Synced(each.group_id, each.value.generation)
        for each in records
        if isinstance(each, GroupRecord) and isinstance(each.value, GroupMetadataValue)
    ]


def _refusals(broker: Broker, request: AnyRequest | None, late: list[Message]) -> list[Prepared]:
    """Return the response of a request that continues with messages, if they are not sent."""
    if request is None or not any(each.awaited_by == request.event_id for each in late):
        return []
    response_type = BUILT[request.header.request_api_key].response_type
    return [_prepare(broker, request, response_type())]


def is_sent_when_committed(message: Message) -> bool:
    """Whether a message is sent only after the records of its decision are committed."""
    return BUILT[message.api_key].is_sent_when_committed


def earlier(
    broker: Broker, response: Body, request: AnyRequest | None, reply_to: Message | None
) -> list[Required]:
    """Return the earlier writes that a response without records waits for."""
    body: Body | None
    if reply_to is not None:
        api, body = BUILT[reply_to.api_key], reply_to.body
    elif request is not None:
        api = BUILT[request.header.request_api_key]
        body = request.body if isinstance(request, Request) else _pending_body(api, request)
    else:
        return []
    if api.earlier_writes is None or body is None:
        return []
    required = []
    for place in dict.fromkeys(api.earlier_writes(broker, body, response)):
        log = broker.log(*place) if place is not None and _leads(broker, place) else None
        if place is not None and log is not None and log.high_watermark < log.log_end_offset:
            required.append(Required(*place, log.log_end_offset))
    return required


def _pending_body(api: Api, request: PendingRequest) -> Body | None:
    return api.pending_body(request) if api.pending_body is not None else None


def _leads(broker: Broker, place: Place) -> bool:
    partition = copying.partition_of(broker, place)
    return partition is not None and partition.leader == broker.id


def refuse(broker: Broker, decision: Decision, request: AnyRequest | None, error: Error) -> None:
    """Change a decision whose records are refused: only error responses remain."""
    api = BUILT[request.header.request_api_key] if request is not None else None
    if decision.response is not None:
        decision.response = _uncommitted(broker, api, decision.response, error)
    decision.resumed = [
        Resumed(
            each.event_id,
            each.response and uncommitted.failed(each.response, coordinator_error(error)),
        )
        for each in decision.resumed
    ]
    decision.messages = [each for each in decision.messages if not is_sent_when_committed(each)]
    for transactional_id in _ids(decision.records):
        transactional_ids.reset_timer(broker, transactional_id)


def suspend_tail(broker: Broker, place: Place) -> None:
    """Suspend the rows of a new coordinator's log above its high watermark."""
    log = broker.log(*place)
    if log is None:  # its directory has failed meanwhile
        return
    rows = [
        record
        for batch in batches_from(broker, log, log.high_watermark)
        for record in internal_logs.in_batch(batch.written)
        if _has_row(record)
    ]
    if rows:
        required = [Required(*place, log.log_end_offset)]
        _add(broker, Committing(required, rows=rows), pending.NO_DEADLINE)


def error_of(broker: Broker, commit: PendingCommit) -> Error | None:
    """Return the result of an uncommitted write, or None while it has none."""
    state = _state(commit)
    found = [_error_of(broker, each) for each in state.required]
    errors = [each for each in found if each not in (None, Error.NONE)]
    if errors:
        return errors[0]
    return None if None in found else Error.NONE


def finish(broker: Broker, commit: PendingCommit, error: Error) -> CommitOutcome:
    """Return the effects of a committed or failed write.

    After a time-out, the rows still wait for the commit.
    """
    state = _state(commit)
    for transactional_id in _ids(state.records):
        transactional_ids.end_write(broker, transactional_id)
    if error is Error.NONE:
        responses = [(each.event_id, each.committed) for each in state.responses]
        messages = [undelayed(each) for each in state.messages]
        replies = [_reply(broker, each, Error.NONE) for each in state.replies]
        return CommitOutcome(state.records, state.rows, responses, messages, replies)
    if error is Error.REQUEST_TIMED_OUT and state.rows:
        rest = Committing(state.required, rows=state.rows)
        _add(broker, rest, pending.NO_DEADLINE)
    is_moved = coordinator_error(error) is Error.NOT_COORDINATOR
    refused = [*state.responses, *state.refusals]
    responses = [(t.event_id, t.moved if is_moved else t.unavailable) for t in refused]
    return CommitOutcome(
        [], [], responses, [], [_reply(broker, each, error) for each in state.replies]
    )


def finished(broker: Broker, commit: PendingCommit, error: Error) -> list[Decision]:
    """Check the transactional ids again, after the records of the outcome are applied.

    Returns:
        The decisions of groups with an assignment by their leader.
    """
    state = _state(commit)
    for transactional_id in _ids(state.records):
        transactional_ids.reset_timer(broker, transactional_id)
    return [
        classic_coordinator.assignment_written(broker, each.group_id, each.generation_id, shown)
        for each in state.synced
        if (shown := coordinator_error(error)) is not Error.NOT_COORDINATOR
    ]


def _error_of(broker: Broker, required: Required) -> Error | None:
    place = (required.topic_id, required.partition)
    error = acks.outcome(broker, place, required.offset)
    if error is Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND:
        topic = broker.topic_by_id(required.topic_id)
        is_groups = topic is not None and topic.name == GROUP_TOPIC
        return Error.NONE if is_groups else error
    return error


def _add(broker: Broker, state: Committing, deadline: int) -> None:
    keys = [broker.log_key(each.topic_id, each.partition) for each in state.required]
    table, name = broker.tables.pending, f"{keys[0]}@{state.required[0].offset}"
    commit = PendingCommit(
        event_id=name if pending.get(table, name) is None else _beside(table, name, state),
        broker=broker.id,
        deadline=deadline,
        logs=keys,
        state=msgspec.msgpack.encode(state),
    )
    pending.add(table, commit)


def _beside(table: Table, name: str, state: Committing) -> str:
    """Return another id for a write that waits for the same offset: by its request, or a number."""
    if state.responses:
        return f"{name}/{state.responses[0].event_id}"
    numbers = (f"{name}/{number}" for number in count(1))
    return next(each for each in numbers if pending.get(table, each) is None)


def _client(request: AnyRequest) -> PendingRequest:
    """Return the pending request whose response is in `Committing`."""
    return PendingRequest(
        event_id=request.event_id,
        broker=request.broker,
        api_key=request.header.request_api_key,
        deadline=pending.NO_DEADLINE,
        header=request.header,
        connection=request.connection,
        principal=request.principal,
        reply_to=request.reply_to,
        logs=[],
        state=pending.UNTIL_COMMITTED,
    )


def _prepare_resumed(broker: Broker, resumed: Resumed) -> Prepared | None:
    """Return the response to another request; one that is dropped has none and ends at once."""
    waited = pending.get_request(broker.tables.pending, resumed.event_id)
    if waited is None or resumed.response is None:
        pending.take(broker.tables.pending, resumed.event_id)
        return None
    pending.keep_state(broker.tables.pending, resumed.event_id, pending.UNTIL_COMMITTED)
    return _prepare(broker, waited, resumed.response)


def _prepare(broker: Broker, request: AnyRequest, response: Body) -> Prepared:
    api, version = BUILT[request.header.request_api_key], request.header.request_api_version
    errors = (Error.REQUEST_TIMED_OUT, Error.NOT_LEADER_OR_FOLLOWER)
    others = [_uncommitted(broker, api, response, each) for each in errors]
    return Prepared(request.event_id, *(render(body, version) for body in (response, *others)))


def _deadline(broker: Broker, written: WrittenRecords, reply_to: Message | None) -> int:
    """Return until when responses wait, in ms since 1970."""
    times = [
        each.metadata.transaction_timeout_ms
        for each in written.late
        if isinstance(each, TransactionMetadataWritten)
    ]
    if times:
        return broker.now + max(times)
    timeout_ms = BUILT[reply_to.api_key].commit_timeout_ms if reply_to is not None else None
    if timeout_ms is not None:
        return broker.now + timeout_ms(broker.settings)
    topic = broker.topic_by_id(written.required[0].topic_id)
    if topic is not None and topic.name == SHARE_TOPIC:
        return broker.now + broker.settings.share_coordinator_write_timeout_ms
    return broker.now + broker.settings.offsets_commit_timeout_ms


def _reply(broker: Broker, reply: Reply, error: Error) -> tuple[Message, Body]:
    message = undelayed(reply.message)
    message.awaited_by = reply.awaited_by
    api = BUILT[message.api_key]
    response: Body = msgspec.msgpack.decode(reply.response, type=api.response_type)
    if error is Error.NONE:
        return message, response
    return message, _uncommitted(broker, api, response, error)


def _uncommitted(broker: Broker, api: Api | None, response: Body, error: Error) -> Body:
    if api is not None and api.uncommitted is not None:
        return api.uncommitted(response, error, broker.settings)
    results = api.results if api is not None else uncommitted.ACCEPTED
    return uncommitted.failed(response, coordinator_error(error), results)


def _ids(records: list[Record]) -> list[str]:
    ids = [each.transactional_id for each in records if isinstance(each, OF_TRANSACTIONS)]
    return list(dict.fromkeys(ids))


def _has_row(record: Record) -> bool:
    return type(record) in GROUP_RECORD_TYPES


def _state(commit: PendingCommit) -> Committing:
    return decode_item(commit.state, Committing)
