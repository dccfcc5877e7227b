"""Who has written to an internal topic waits until its followers have it, then says so.

Source: seed 003; `CoordinatorRuntime` (deferred events), `TransactionStateManager` in Kafka. A
decision whose records go to a log with followers (`state/replication/internal_logs.py`) is told
when the high watermark has passed them: the answer to its own request, the answers that it has for
others (joins), assignments, markers, and rows of offsets and groups.

    the high watermark has passed       everything is told; records of transactions are applied
    too few in sync by then             15 for transactions; nobody asks that of groups
    offsets.commit.timeout.ms is over   15 for groups; it stays written, as in Kafka
    share.coordinator.write.timeout.ms  the same for states of share groups
    is over
    the transaction's time-out is over  15 for transactions; the id is as it was
    the broker does not lead any more   16

Some answers with no records of their own wait as well (`behind.py`). What is told where nothing
is committed is in `not_committed.py`. A group's coordinator asks share coordinators when its reason
is committed; where it is not, they are not asked, and who waits for what they say is told 15.

A leader that writes a marker says Produce's errors (7, 20, 6), after request.timeout.ms at the
latest.

What waits is a `Waiting` that no client has sent: its id is that of the log and the offset.
"""

from itertools import count
from typing import Any, NamedTuple

import msgspec

from brokertwin.state.apis import uncommitted
from brokertwin.state.apis.registry import BUILT
from brokertwin.state.apis.uncommitted import coordinator_error
from brokertwin.state.cell.delivery import delayed, undelayed
from brokertwin.state.cluster.coordinators import GROUP_TOPIC, SHARE_TOPIC
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core import waiting
from brokertwin.state.core.api import Api
from brokertwin.state.core.decision import Asked, Decision, LateAnswer, Message, Waiting
from brokertwin.state.core.errors import Error
from brokertwin.state.core.events import RequestHeader
from brokertwin.state.core.group_records import GroupMetadataWritten
from brokertwin.state.core.records import (
    Record,
    TransactionMetadataWritten,
)
from brokertwin.state.core.schema import Body, render
from brokertwin.state.core.tables import Table, decode_item
from brokertwin.state.core.waiting import COMMITTING, LateMessage
from brokertwin.state.groups import group_coordinator
from brokertwin.state.groups.group_rows import OF_ROWS
from brokertwin.state.logs.log import batches_from
from brokertwin.state.replication import acks, internal_logs
from brokertwin.state.replication.copying import Place
from brokertwin.state.replication.internal_logs import OF_TRANSACTIONS, Required, Written
from brokertwin.state.transactions import transactional_ids


class Told(msgspec.Struct, array_like=True):
    """The answer to a request that waits, as rendered: where it is committed, and for 15 and 16."""

    event_id: str
    committed: dict[str, Any]
    unavailable: dict[str, Any]
    moved: dict[str, Any]


class Reply(msgspec.Struct, array_like=True):
    """The answer to another machine's message; the response as msgpack bytes of its API's type."""

    message: LateMessage
    awaited_by: str
    response: bytes


class Synced(msgspec.Struct, array_like=True):
    """A group whose leader has assigned something, and its generation."""

    group_id: str
    generation_id: int


class Committing(msgspec.Struct, array_like=True):
    """What follows when some records are committed.

    `records` are applied then; `rows` have been applied, but not told to `offsets.CLUSTER`.
    Members of groups that have `synced` wait for their assignments. `refusals` are for requests
    that go on with `messages`, and are told where these are not sent.
    """

    required: list[Required]
    answers: list[Told] = []
    records: list[Record] = []
    messages: list[LateMessage] = []
    replies: list[Reply] = []
    rows: list[Record] = []
    synced: list[Synced] = []
    refusals: list[Told] = []


class Outcome(NamedTuple):
    """What is done now: records to apply, rows to tell, answers and messages.

    `answers` are event ids and rendered responses.
    """

    records: list[Record]
    rows: list[Record]
    answers: list[tuple[str, dict[str, Any]]]
    messages: list[Message]
    replies: list[tuple[Message, Body]]


def hold(
    broker: Broker,
    written: Written,
    decision: Decision,
    asked: Asked | None,
    reply_to: Message | None,
) -> None:
    """Lets what a decision says wait until what it has written is committed.

    `asked` is the request that the decision answers, `reply_to` the message; or neither is there.
    """
    table = broker.tables.waiting
    answers = [_told_late(broker, each) for each in decision.answers]
    if asked is not None and decision.response is not None:
        waiting.add(table, _client(asked))
        answers.append(_told(broker, asked, decision.response))
    replies = []
    if reply_to is not None and decision.response is not None:
        response = msgspec.msgpack.encode(decision.response)
        replies.append(Reply(delayed(reply_to), reply_to.awaited_by, response))
    late = [each for each in decision.messages if waits(each)]
    synced = _synced(asked, written.records) if asked is not None else []
    refusals = _refusals(broker, asked, late)
    is_awaited = bool(answers or replies or synced or refusals)
    for transactional_id in _ids(written.late):
        transactional_ids.begin_write(broker, transactional_id)
    _add(
        broker,
        Committing(
            required=written.required,
            answers=[told for told in answers if told is not None],
            records=written.late,
            messages=[delayed(message) for message in late],
            replies=replies,
            rows=[each for each in written.records if _has_row(each)],
            synced=synced,
            refusals=refusals,
        ),
        _deadline(broker, written, reply_to) if is_awaited else waiting.NO_DEADLINE,
    )


def _synced(asked: Asked, records: list[Record]) -> list[Synced]:
    """The group of a SyncGroup that has assignments."""
    if not BUILT[asked.header.request_api_key].completes_syncs:
        return []
    groups = [each for each in records if isinstance(each, GroupMetadataWritten)]
    return [Synced(each.group_id, each.metadata.generation) for each in groups]


def _refusals(broker: Broker, asked: Asked | None, late: list[Message]) -> list[Told]:
    """What a client is told whose request goes on with these messages, where they are not sent."""
    if asked is None or not any(each.awaited_by == asked.event_id for each in late):
        return []
    response_type = BUILT[asked.header.request_api_key].response_type
    assert response_type is not None, asked.header.request_api_key
    return [_told(broker, asked, response_type())]


def waits(message: Message) -> bool:
    """Whether a message is sent only when its reason is committed.

    Markers are, and what a group's coordinator asks share coordinators.
    """
    return BUILT[message.api_key].is_sent_when_committed


def refuse(broker: Broker, decision: Decision, asked: Asked | None, error: Error) -> None:
    """Nothing is written: who asks is told, nothing else happens, and ids are as they were."""
    api = BUILT[asked.header.request_api_key] if asked is not None else None
    if decision.response is not None:
        decision.response = _uncommitted(broker, api, decision.response, error)
    decision.answers = [
        LateAnswer(
            each.event_id,
            each.response and uncommitted.failed(each.response, coordinator_error(error)),
        )
        for each in decision.answers
    ]
    decision.messages = [each for each in decision.messages if not waits(each)]
    for transactional_id in _ids(decision.records):
        transactional_ids.look_again(broker, transactional_id)


def hold_tail(broker: Broker, place: Place) -> None:
    """A new coordinator tells what its log has above the high watermark, later on."""
    log = broker.log(*place)
    if log is None:  # its directory has failed meanwhile
        return
    rows = [
        record
        for batch in batches_from(broker.tables.logs, broker.id, log, log.high_watermark)
        for record in internal_logs.in_batch(batch.written)
        if _has_row(record)
    ]
    if rows:
        required = [Required(*place, log.log_end_offset)]
        _add(broker, Committing(required, rows=rows), waiting.NO_DEADLINE)


def error_of(broker: Broker, waited: Waiting) -> Error | None:
    """What has become of what was written; None while it is not committed."""
    state = _state(waited)
    found = [_error_of(broker, each) for each in state.required]
    errors = [each for each in found if each not in (None, Error.NONE)]
    if errors:
        return errors[0]
    return None if None in found else Error.NONE


def finish(broker: Broker, waited: Waiting, error: Error) -> Outcome:
    """What follows when it is committed, or when nobody waits for that any longer.

    Where time is up, the rows are still told when they are committed.
    """
    state = _state(waited)
    for transactional_id in _ids(state.records):
        transactional_ids.end_write(broker, transactional_id)
    if error is Error.NONE:
        answers = [(told.event_id, told.committed) for told in state.answers]
        messages = [undelayed(each) for each in state.messages]
        replies = [_reply(broker, each, Error.NONE) for each in state.replies]
        return Outcome(state.records, state.rows, answers, messages, replies)
    if error is Error.REQUEST_TIMED_OUT and state.rows:
        rest = Committing(state.required, rows=state.rows)
        _add(broker, rest, waiting.NO_DEADLINE)
    is_moved = coordinator_error(error) is Error.NOT_COORDINATOR
    refused = [*state.answers, *state.refusals]
    answers = [(t.event_id, t.moved if is_moved else t.unavailable) for t in refused]
    return Outcome([], [], answers, [], [_reply(broker, each, error) for each in state.replies])


def finished(broker: Broker, waited: Waiting, error: Error) -> list[Decision]:
    """After what follows has been applied: checks of transactional ids are by what is known now.

    Gives back what becomes of groups whose leader has assigned something.
    """
    state = _state(waited)
    for transactional_id in _ids(state.records):
        transactional_ids.look_again(broker, transactional_id)
    return [
        group_coordinator.assignment_written(broker, each.group_id, each.generation_id, told)
        for each in state.synced
        if (told := coordinator_error(error)) is not Error.NOT_COORDINATOR
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
    table, name = broker.tables.waiting, f"{keys[0]}@{state.required[0].offset}"
    waited = Waiting(
        event_id=name if waiting.get(table, name) is None else _beside(table, name, state),
        broker=broker.id,
        api_key=COMMITTING,
        deadline=deadline,
        header=RequestHeader(COMMITTING, 0),
        connection="",
        principal="",
        reply_to=0,
        logs=keys,
        state=msgspec.msgpack.encode(state),
    )
    waiting.add(table, waited)


def _beside(table: Table, name: str, state: Committing) -> str:
    """Who waits for what another has written is told apart by its own request, or by how many."""
    if state.answers:
        return f"{name}/{state.answers[0].event_id}"
    numbers = (f"{name}/{number}" for number in count(1))
    return next(each for each in numbers if waiting.get(table, each) is None)


def _client(asked: Asked) -> Waiting:
    """A client's request that waits for its answer; `Committing` has it."""
    return Waiting(
        event_id=asked.event_id,
        broker=asked.broker,
        api_key=asked.header.request_api_key,
        deadline=waiting.NO_DEADLINE,
        header=asked.header,
        connection=asked.connection,
        principal=asked.principal,
        reply_to=asked.reply_to,
        logs=[],
        state=waiting.TOLD_WHEN_COMMITTED,
    )


def _told_late(broker: Broker, answer: LateAnswer) -> Told | None:
    """The answer to another request; one that is forgotten has none and does not wait either."""
    waited = waiting.get(broker.tables.waiting, answer.event_id)
    if waited is None or answer.response is None:
        waiting.take(broker.tables.waiting, answer.event_id)
        return None
    waiting.keep_state(broker.tables.waiting, answer.event_id, waiting.TOLD_WHEN_COMMITTED)
    return _told(broker, waited, answer.response)


def _told(broker: Broker, asked: Asked, response: Body) -> Told:
    api, version = BUILT[asked.header.request_api_key], asked.header.request_api_version
    errors = (Error.REQUEST_TIMED_OUT, Error.NOT_LEADER_OR_FOLLOWER)
    others = [_uncommitted(broker, api, response, each) for each in errors]
    return Told(asked.event_id, *(render(body, version) for body in (response, *others)))


def _deadline(broker: Broker, written: Written, reply_to: Message | None) -> int:
    """Until when somebody waits to be told, in ms since 1970."""
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
    assert api.response_type is not None, api.name
    response: Body = msgspec.msgpack.decode(reply.response, type=api.response_type)
    if error is Error.NONE:
        return message, response
    return message, _uncommitted(broker, api, response, error)


def _uncommitted(broker: Broker, api: Api | None, response: Body, error: Error) -> Body:
    """Return the response for an error of the log."""
    if api is not None and api.uncommitted is not None:
        return api.uncommitted(response, error, broker.settings)
    results = api.results if api is not None else uncommitted.ACCEPTED
    return uncommitted.failed(response, coordinator_error(error), results)


def _ids(records: list[Record]) -> list[str]:
    """The transactional ids that records are about."""
    ids = [each.transactional_id for each in records if isinstance(each, OF_TRANSACTIONS)]
    return list(dict.fromkeys(ids))


def _has_row(record: Record) -> bool:
    return type(record) in OF_ROWS


def _state(waited: Waiting) -> Committing:
    return decode_item(waited.state, Committing)
