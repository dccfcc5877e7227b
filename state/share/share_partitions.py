"""The share partitions of a broker: storage, timers, state requests.

    shares     <broker>/share-partition/<group>/<topic id>/<partition>   SharePartition
    pending    timer/share-lock/<broker>/<group>/<topic id>/<partition>  the first lock to expire

A share partition is created by the first fetch in a leader epoch and loaded from the share
coordinator. It is removed with the topic or the leadership, and if the share coordinator returns
certain errors (`_FORGET_ERRORS`). If `__share_group_state` was deleted, it is created again,
without state. A group that opens its first session reloads its share partitions, because offsets
may have been altered. The other ones are removed by a periodic check (`expired`); Kafka removes
them with the last session.

Source: `SharePartitionManager`, `SharePartition.maybeInitialize` in Kafka; KIP-932.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.bodies import Uuid
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.produce import ProduceResponse
from brokertwin.protocol.generated.read_share_group_state import ReadShareGroupStateResponse
from brokertwin.protocol.generated.shared import (
    ReadShareGroupStateRequest,
    ReadStateData,
    ReadStatePartition,
    ShareGroupStateResponse,
    StateBatch,
)
from brokertwin.protocol.generated.write_share_group_state import (
    WriteShareGroupStateRequest,
    WriteShareGroupStateRequestPartitionData,
    WriteStateData,
)
from brokertwin.state.cluster import coordinators, group_configs, internal_topics
from brokertwin.state.cluster.coordinators import SHARE_TOPIC
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core import pending
from brokertwin.state.core.decision import Decision, Message
from brokertwin.state.core.records import Record
from brokertwin.state.core.tables import MachineTables, escape, unescape
from brokertwin.state.logs import timestamp_index
from brokertwin.state.share import dead_letters, share_sessions, state_store
from brokertwin.state.share.dead_letters import WrittenLetters
from brokertwin.state.share.share_partition import (
    DeadLetters,
    ShareLimits,
    SharePartition,
    ShareStatus,
)
from brokertwin.state.share.state_store import NO_OFFSET, ShareStateError

KIND = "share-partition"
TIMER = "share-lock"

ShareKey = tuple[str, Uuid, int]
"""Group id, topic id and partition."""

_FORGET_ERRORS = (
    Error.NOT_LEADER_OR_FOLLOWER,
    Error.GROUP_ID_NOT_FOUND,
    Error.UNKNOWN_TOPIC_OR_PARTITION,
)
"""Share coordinator errors that remove a share partition."""

_MEMBER_ERRORS = {
    Error.NOT_COORDINATOR: Error.COORDINATOR_NOT_AVAILABLE,
    Error.COORDINATOR_NOT_AVAILABLE: Error.COORDINATOR_NOT_AVAILABLE,
    Error.COORDINATOR_LOAD_IN_PROGRESS: Error.COORDINATOR_NOT_AVAILABLE,
    Error.GROUP_ID_NOT_FOUND: Error.GROUP_ID_NOT_FOUND,
    Error.UNKNOWN_TOPIC_OR_PARTITION: Error.UNKNOWN_TOPIC_OR_PARTITION,
    Error.FENCED_LEADER_EPOCH: Error.NOT_LEADER_OR_FOLLOWER,
    Error.FENCED_STATE_EPOCH: Error.NOT_LEADER_OR_FOLLOWER,
}
"""Errors for members by share coordinator error.

Other errors become UNKNOWN_SERVER_ERROR.
"""


def limits_of(broker: Broker, group_id: str) -> ShareLimits:
    return ShareLimits(
        group_configs.of_kind(broker, group_id, "share.record.lock.duration.ms"),
        group_configs.of_kind(broker, group_id, "share.partition.max.record.locks"),
        group_configs.of_kind(broker, group_id, "share.delivery.count.limit"),
        group_configs.share_flag(broker, group_id, "share.renew.acknowledge.enable"),
        dead_letters.are_enabled(broker, group_id),
    )


def find(broker: Broker, share_key: ShareKey) -> SharePartition | None:
    """Return a share partition of the current leader epoch, for modification."""
    key = _key(broker, share_key)
    if key not in broker.tables.shares:
        return None
    share = broker.tables.shares.change(key, SharePartition)
    if share.leader_epoch != _leader_epoch(broker, share_key) or broker.log(*share_key[1:]) is None:
        forget(broker, share_key)
        return None
    return share


def start_loading(broker: Broker, share_key: ShareKey) -> list[Message]:
    """Create a share partition and request its state, unless it exists."""
    known = find(broker, share_key)
    if known is not None and known.status != ShareStatus.FAILED:
        return []
    forget(broker, share_key)
    share = SharePartition(*share_key, leader_epoch=_leader_epoch(broker, share_key))
    broker.tables.shares.put(_key(broker, share_key), share)
    return [_read_request(broker, share_key, share.leader_epoch)]


def reload_group(broker: Broker, group_id: str) -> list[Message]:
    """Request the state of a group's share partitions again."""
    messages = []
    for key in broker.tables.shares.keys(f"{broker.id}/{KIND}/{escape(group_id)}/"):
        share_key = _parsed_key(key.split("/", 2)[2])
        share = find(broker, share_key)
        if share is not None and share.status == ShareStatus.ACTIVE:
            share.status = ShareStatus.LOADING
            messages.append(_read_request(broker, share_key, share.leader_epoch))
    return messages


def _read_request(broker: Broker, share_key: ShareKey, leader_epoch: int) -> Message:
    group_id, topic_id, partition = share_key
    requested = ReadStatePartition(partition=partition, leader_epoch=leader_epoch)
    topics = [ReadStateData(topic_id=topic_id, partitions=[requested])]
    body = ReadShareGroupStateRequest(group_id=group_id, topics=topics)
    return Message(
        broker.id, _coordinator(broker, share_key), kafka_apis.READ_SHARE_GROUP_STATE.key, body
    )


def on_read_response(
    broker: Broker, message: Message, response: ReadShareGroupStateResponse
) -> Decision:
    body, topic = message.body, response.results[0]
    assert isinstance(body, ReadShareGroupStateRequest), body
    group_id = body.group_id
    result = topic.partitions[0]
    share_key = (group_id, topic.topic_id, result.partition)
    share = find(broker, share_key)
    if share is None or share.status != ShareStatus.LOADING:
        return Decision()
    error = Error(result.error_code)
    messages = recreate_topic(broker) if error is Error.NOT_COORDINATOR else []
    if messages:
        error = state_store.uninitialized_error("read").error
    if error is not Error.NONE:
        share.status, share.error = (
            ShareStatus.FAILED,
            _MEMBER_ERRORS.get(error, Error.UNKNOWN_SERVER_ERROR),
        )
        pending.set_timer(broker.tables.pending, _timer(broker, share_key), None)
        return Decision(messages=messages, woken=[broker.log_key(*share_key[1:])])
    is_known = bool(share.batches) or share.end_offset > 0
    if is_known and result.start_offset != NO_OFFSET and share.state_epoch == result.state_epoch:
        share.status = ShareStatus.ACTIVE
    else:
        start = result.start_offset
        if start == NO_OFFSET:
            start = _initial_offset(broker, group_id, topic.topic_id, result.partition)
        share.load(result.state_epoch, start, result.state_batches)
        messages = _write_letters(broker, share_key, result.state_batches)
    set_timer(broker, share_key)
    return Decision(messages=messages, woken=[broker.log_key(*share_key[1:])])


def recreate_topic(broker: Broker) -> list[Message]:
    """Return the request that creates `__share_group_state` if it is missing.

    Kafka's persister then calls the new share coordinator, which has no state.
    """
    exists = broker.topic_by_name(SHARE_TOPIC) is not None
    return internal_topics.creation(broker, [] if exists else [SHARE_TOPIC])


def fail_loading(broker: Broker, share_key: ShareKey) -> None:
    """Note that the share coordinator has not responded in time."""
    share = find(broker, share_key)
    if share is not None and share.status == ShareStatus.LOADING:
        share.status, share.error = ShareStatus.FAILED, int(Error.COORDINATOR_NOT_AVAILABLE)


def write_request(broker: Broker, share_key: ShareKey, batches: list[StateBatch]) -> Message | None:
    share = find(broker, share_key)
    if share is None or not batches:
        return None
    group_id, topic_id, partition = share_key
    complete_write = WriteShareGroupStateRequestPartitionData(
        partition=partition,
        state_epoch=share.state_epoch,
        leader_epoch=share.leader_epoch,
        start_offset=share.start_offset,
        delivery_complete_count=share.done_count,
        state_batches=batches,
    )
    topics = [WriteStateData(topic_id=topic_id, partitions=[complete_write])]
    body = WriteShareGroupStateRequest(group_id=group_id, topics=topics)
    return Message(
        broker.id, _coordinator(broker, share_key), kafka_apis.WRITE_SHARE_GROUP_STATE.key, body
    )


def key_of(message: Message) -> ShareKey:
    body = message.body
    assert isinstance(body, WriteShareGroupStateRequest), body
    return body.group_id, body.topics[0].topic_id, body.topics[0].partitions[0].partition


class WriteResult(NamedTuple):
    """The result of a write to a share coordinator.

    `woken` are logs whose pending fetches are checked again. `messages` create the internal topic
    or write dead letters.
    """

    fault: ShareStateError | None
    woken: list[str]
    messages: list[Message]


def on_write_response(
    broker: Broker, message: Message, response: ShareGroupStateResponse
) -> WriteResult:
    """Complete the changes of a write.

    Pending fetches are checked if the start offset has advanced. As in Kafka, released records
    alone do not wake them (`SharePartition.rollbackOrProcessStateUpdates`): they are found at the
    end of a max wait, by the next request, or when a member acknowledges, fetches or releases
    records (`share_fetch.look_again`).
    """
    body, share_key = message.body, key_of(message)
    assert isinstance(body, WriteShareGroupStateRequest), body
    result = response.results[0].partitions[0]
    code, message_text = Error(result.error_code), result.error_message or ""
    messages = recreate_topic(broker) if code is Error.NOT_COORDINATOR else []
    if messages:
        code, message_text = state_store.uninitialized_error("write")
    error = code if code is Error.NONE else _MEMBER_ERRORS.get(code, Error.UNKNOWN_SERVER_ERROR)
    fault = ShareStateError(error, f"Error in write state RPC. {message_text}")
    is_written, has_advanced = error is Error.NONE, False
    share = find(broker, share_key)
    batches: Sequence[StateBatch] = body.topics[0].partitions[0].state_batches
    if share is not None:
        has_advanced = share.complete_write(batches, is_written, broker.now)
        messages = [*messages, *_write_letters(broker, share_key, batches)]
        set_timer(broker, share_key)
    if error in _FORGET_ERRORS:
        forget(broker, share_key)
    woken = [broker.log_key(*share_key[1:])] if has_advanced or error in _FORGET_ERRORS else []
    return WriteResult(None if is_written else fault, woken, messages)


def _write_letters(
    broker: Broker, share_key: ShareKey, batches: Sequence[StateBatch]
) -> list[Message]:
    """Write dead letters for ARCHIVING records; archive those that cannot be written."""
    share = find(broker, share_key)
    due = share.dead_letters(batches) if share is not None else []
    if due and group_configs.creates_dead_letter_topic(broker, share_key[0]):
        return [dead_letters.creation(broker, share_key[0])]
    return _send_letters(broker, share_key, due)


def on_topics_created(broker: Broker, created: dict[str, Error]) -> list[Message]:
    """Write dead letters to created topics; archive those whose topic could not be created.

    A broker learns of a topic after the response. Like Kafka, it then tries to create it again.

    Args:
        broker: the leader of share partitions.
        created: the result of each creation, by name.
    """
    messages: list[Message] = []
    repeated: dict[str, Message] = {}
    for key in broker.tables.shares.keys(f"{broker.id}/{KIND}/"):
        share_key = _parsed_key(key.split("/", 2)[2])
        name = group_configs.dead_letters_to(broker, share_key[0])
        share = find(broker, share_key) if name in created else None
        due = share.dead_letters(share.states()) if share is not None else []
        if due and created[name] is Error.NONE and broker.topic_by_name(name) is None:
            repeated[name] = dead_letters.creation(broker, share_key[0])
        else:
            messages += _send_letters(broker, share_key, due)
    return [*messages, *repeated.values()]


def _send_letters(broker: Broker, share_key: ShareKey, due: list[DeadLetters]) -> list[Message]:
    share = find(broker, share_key)
    if share is None:
        return []
    messages: list[Message] = []
    for letters in due:
        message = dead_letters.write_request(broker, share_key, letters, letters.first)
        if message is None:
            messages += _archive(broker, share_key, letters)
        elif message.receiver < 0:
            messages += _postpone(broker, share_key, letters)
        else:
            share.note_sent(letters, broker.now + broker.settings.request_timeout_ms)
            messages.append(message)
    set_timer(broker, share_key)
    return messages


def _archive(broker: Broker, share_key: ShareKey, letters: DeadLetters) -> list[Message]:
    share = find(broker, share_key)
    if share is None:
        return []
    message = write_request(broker, share_key, share.archive_written(letters))
    set_timer(broker, share_key)
    return [message] if message is not None else []


def _postpone(broker: Broker, share_key: ShareKey, letters: DeadLetters) -> list[Message]:
    """Write dead letters again later, or archive the records after the last attempt."""
    share = find(broker, share_key)
    if share is not None and not share.postpone(letters, broker.now):
        return _archive(broker, share_key, letters)
    set_timer(broker, share_key)
    return []


def on_letters_written(broker: Broker, message: Message, response: ProduceResponse) -> Decision:
    """Write the next dead letters; archive the records after the last ones, or a failed write."""
    written = msgspec.json.decode(message.context, type=WrittenLetters)
    share_key, letters = written.share_key, written.letters
    error = response.responses[0].partition_responses[0].error_code
    first = max(written.first, letters.first)
    is_repeated = error == Error.NOT_LEADER_OR_FOLLOWER
    if error == Error.NONE and written.last < letters.last:
        first = written.last + 1
        following = dead_letters.write_request(broker, share_key, letters, first)
        if following is not None and following.receiver >= 0:
            return Decision(messages=[following])
        is_repeated = following is not None
    if not is_repeated:
        return Decision(messages=_archive(broker, share_key, letters))
    replace = msgspec.structs.replace
    messages = _postpone(broker, share_key, replace(letters, first=first))
    if first > letters.first:
        messages += _archive(broker, share_key, replace(letters, last=first - 1))
    return Decision(messages=messages)


def on_unawaited_write_response(
    broker: Broker, message: Message, response: ShareGroupStateResponse
) -> Decision:
    """Complete the changes of a write without a pending request."""
    result = on_write_response(broker, message, response)
    return Decision(messages=result.messages, woken=result.woken)


def release_records(
    broker: Broker, group_id: str, member_id: str, places: Iterable[share_sessions.TopicPartitionId]
) -> list[Message]:
    messages = []
    for each in places:
        share_key = (group_id, *each)
        share = find(broker, share_key)
        if share is None or share.status == ShareStatus.FAILED:
            continue
        message = write_request(
            broker, share_key, share.release(member_id, limits_of(broker, group_id))
        )
        set_timer(broker, share_key)
        messages += [message] if message is not None else []
    return messages


def fire(broker: Broker, name: str) -> Decision:
    """Release records whose locks have expired, and write dead letters again."""
    share_key = _parsed_key(name)
    share = find(broker, share_key)
    if share is None:
        return Decision()
    due, unsent = share.due_letters(broker.now), share.dead_letters(share.states())
    letters = _send_letters(broker, share_key, [each for each in due if each in unsent])
    for each in due:
        if each not in unsent:  # a broker that is gone does not respond
            letters += _postpone(broker, share_key, each)
    message = write_request(
        broker, share_key, share.expire(limits_of(broker, share_key[0]), broker.now)
    )
    set_timer(broker, share_key)
    messages = [message, *letters] if message is not None else letters
    return Decision(messages=messages, woken=[broker.log_key(*share_key[1:])])


def set_timer(broker: Broker, share_key: ShareKey) -> None:
    share = find(broker, share_key)
    deadline = share.earliest_lock() if share is not None else None
    pending.set_timer(broker.tables.pending, _timer(broker, share_key), deadline)


def forget(broker: Broker, share_key: ShareKey) -> None:
    broker.tables.shares.drop(_key(broker, share_key))
    pending.set_timer(broker.tables.pending, _timer(broker, share_key), None)


def forget_topic(at: MachineTables, topic_id: Uuid) -> None:
    for key in at.tables.shares.keys(f"{at.id}/{KIND}/"):
        name = key.split("/", 2)[2]
        if name.split("/")[1] == topic_id:
            at.tables.shares.drop(key)
            pending.set_timer(at.tables.pending, f"{TIMER}/{at.id}/{name}", None)


def expired(broker: Broker) -> Iterable[Record]:
    """Remove share partitions of groups without sessions and acquired records.

    Volatile state: no record is written.
    """
    for key in broker.tables.shares.keys(f"{broker.id}/{KIND}/"):
        share_key = _parsed_key(key.split("/", 2)[2])
        is_locked = pending.timer_of(broker.tables.pending, _timer(broker, share_key)) is not None
        if not is_locked and not share_sessions.has_any(broker, share_key[0]):
            forget(broker, share_key)
    return ()


def _leader_epoch(broker: Broker, share_key: ShareKey) -> int:
    topic = broker.topic_by_id(share_key[1])
    if topic is None or share_key[2] >= len(topic.partitions):
        return -1
    partition = topic.partitions[share_key[2]]
    return partition.leader_epoch if partition.leader == broker.id else -1


def _coordinator(broker: Broker, share_key: ShareKey) -> int:
    """Return the share coordinator; this broker if none is known."""
    key = coordinators.coordinator_key(*share_key)
    receiver = coordinators.coordinator_of(broker, SHARE_TOPIC, key)
    return broker.id if receiver in (None, -1) else receiver


def _name(share_key: ShareKey) -> str:
    return f"{escape(share_key[0])}/{share_key[1]}/{share_key[2]}"


def _parsed_key(name: str) -> ShareKey:
    group_id, topic_id, partition = name.split("/")
    return unescape(group_id), topic_id, int(partition)


def item_key(broker: int, share_key: ShareKey) -> str:
    return f"{broker}/{KIND}/{_name(share_key)}"


def _key(broker: Broker, share_key: ShareKey) -> str:
    return item_key(broker.id, share_key)


def _timer(broker: Broker, share_key: ShareKey) -> str:
    return f"{TIMER}/{broker.id}/{_name(share_key)}"


def _initial_offset(broker: Broker, group_id: str, topic_id: Uuid, partition: int) -> int:
    """Return the start offset by share.auto.offset.reset.

    Source: `SharePartition.startOffsetDuringInitialization` in Kafka; KIP-1106.
    """
    log = broker.log(topic_id, partition)
    assert log is not None, (topic_id, partition)
    reset = group_configs.share_offset_reset(broker, group_id)
    if reset == "earliest":
        return log.log_start_offset
    if reset == "latest":
        return log.high_watermark
    since_ms = group_configs.since_ms(reset)
    if since_ms is None:  # beyond Java's range; older versions accepted it
        return log.log_start_offset
    oldest = broker.now - since_ms
    match = timestamp_index.first_at_or_after(broker, log, oldest, False)
    return log.high_watermark if match is None else match.offset
