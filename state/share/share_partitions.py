"""The share partitions of a broker: its items, their locks' timers, what goes to the persister.

    sessions   <broker>/share-partition/<group>/<topic id>/<partition>   SharePartition
    waiting    timer/share-lock/<broker>/<group>/<topic id>/<partition>  the first lock that is over

A share partition is there from the first fetch on, in the partition's leader epoch: it asks the
share coordinator for its state. It goes with the topic, with the leadership, and where the share
coordinator says that it is not what it was. Where `__share_group_state` is gone it is made anew,
and its coordinators know of no state. A group whose sessions were all closed asks again, so
offsets that were set meanwhile hold; what it has here is forgotten at a check (`expired`; Kafka
forgets with the last session).
Source: `SharePartitionManager`, `SharePartition.maybeInitialize` in Kafka; KIP-932.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from brokertwin.state.cluster import coordinators, group_configs, internal_topics
from brokertwin.state.cluster.coordinators import SHARE_TOPIC
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core import kafka_apis, pending
from brokertwin.state.core.decision import Decision, Message
from brokertwin.state.core.errors import Error
from brokertwin.state.core.records import Record
from brokertwin.state.core.schema import Uuid
from brokertwin.state.core.tables import Tables, escape, unescape
from brokertwin.state.share import share_sessions, start_offsets, state_store
from brokertwin.state.share.share_partition import Limits, SharePartition, Status
from brokertwin.state.share.state_bodies import (
    ReadPartition,
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
    ReadTopic,
    ShareGroupStateResponse,
    StateBatch,
    WriteShareGroupStateRequest,
    WrittenPartition,
    WrittenTopic,
)
from brokertwin.state.share.state_store import NO_OFFSET, Fault

KIND = "share-partition"
TIMER = "share-lock"

Place = tuple[str, Uuid, int]
"""A group, and a partition of a topic."""

_GONE = (Error.NOT_LEADER_OR_FOLLOWER, Error.GROUP_ID_NOT_FOUND, Error.UNKNOWN_TOPIC_OR_PARTITION)
"""Answers of a share coordinator after which a share partition is begun anew."""

_PERSISTERS = {
    Error.NOT_COORDINATOR: Error.COORDINATOR_NOT_AVAILABLE,
    Error.COORDINATOR_NOT_AVAILABLE: Error.COORDINATOR_NOT_AVAILABLE,
    Error.COORDINATOR_LOAD_IN_PROGRESS: Error.COORDINATOR_NOT_AVAILABLE,
    Error.GROUP_ID_NOT_FOUND: Error.GROUP_ID_NOT_FOUND,
    Error.UNKNOWN_TOPIC_OR_PARTITION: Error.UNKNOWN_TOPIC_OR_PARTITION,
    Error.FENCED_LEADER_EPOCH: Error.NOT_LEADER_OR_FOLLOWER,
    Error.FENCED_STATE_EPOCH: Error.NOT_LEADER_OR_FOLLOWER,
}
"""What members are told for what a share coordinator says; else UNKNOWN_SERVER_ERROR."""


def limits_of(broker: Broker, group_id: str) -> Limits:
    """What holds for a group now."""
    return Limits(
        group_configs.of_kind(broker, group_id, "share.record.lock.duration.ms"),
        group_configs.of_kind(broker, group_id, "share.partition.max.record.locks"),
        group_configs.of_kind(broker, group_id, "share.delivery.count.limit"),
        group_configs.share_flag(broker, group_id, "share.renew.acknowledge.enable"),
    )


def find(broker: Broker, place: Place) -> SharePartition | None:
    """A share partition that holds in the partition's leader epoch, to be changed."""
    key = _key(broker, place)
    if key not in broker.tables.shares:
        return None
    share = broker.tables.shares.change(key, SharePartition)
    if share.leader_epoch != _leader_epoch(broker, place) or broker.log(*place[1:]) is None:
        forget(broker, place)
        return None
    return share


def begin(broker: Broker, place: Place) -> list[Message]:
    """A share partition is wanted: its share coordinator is asked, where that has not been done."""
    known = find(broker, place)
    if known is not None and known.status != Status.FAILED:
        return []
    forget(broker, place)
    share = SharePartition(*place, leader_epoch=_leader_epoch(broker, place))
    broker.tables.shares.put(_key(broker, place), share)
    return [_question(broker, place, share.leader_epoch)]


def ask_again(broker: Broker, group_id: str) -> list[Message]:
    """A group opens its first session: what it had here may have been set anew meanwhile."""
    messages = []
    for key in broker.tables.shares.keys(f"{broker.id}/{KIND}/{escape(group_id)}/"):
        place = _place(key.split("/", 2)[2])
        share = find(broker, place)
        if share is not None and share.status == Status.ACTIVE:
            share.status = Status.LOADING
            messages.append(_question(broker, place, share.leader_epoch))
    return messages


def _question(broker: Broker, place: Place, leader_epoch: int) -> Message:
    group_id, topic_id, partition = place
    asked = ReadPartition(partition=partition, leader_epoch=leader_epoch)
    topics = [ReadTopic(topic_id=topic_id, partitions=[asked])]
    body = ReadShareGroupStateRequest(group_id=group_id, topics=topics)
    return Message(
        broker.id, _coordinator(broker, place), kafka_apis.READ_SHARE_GROUP_STATE.key, body
    )


def read(broker: Broker, message: Message, response: ReadShareGroupStateResponse) -> Decision:
    """The share coordinator has said what it knows, or that it does not."""
    body, topic = message.body, response.results[0]
    assert isinstance(body, ReadShareGroupStateRequest), body
    group_id = body.group_id
    told = topic.partitions[0]
    place = (group_id, topic.topic_id, told.partition)
    share = find(broker, place)
    if share is None or share.status != Status.LOADING:
        return Decision()
    error = Error(told.error_code)
    messages = made_anew(broker) if error is Error.NOT_COORDINATOR else []
    if messages:
        error = state_store.not_begun("read").error
    if error is not Error.NONE:
        share.status, share.error = (
            Status.FAILED,
            _PERSISTERS.get(error, Error.UNKNOWN_SERVER_ERROR),
        )
        pending.set_timer(broker.tables.pending, _timer(broker, place), None)
        return Decision(messages=messages, woken=[broker.log_key(*place[1:])])
    is_known = bool(share.batches) or share.end_offset > 0
    if is_known and told.start_offset != NO_OFFSET and share.state_epoch == told.state_epoch:
        share.status = Status.ACTIVE
    else:
        start = told.start_offset
        if start == NO_OFFSET:
            start = start_offsets.settled(broker, group_id, topic.topic_id, told.partition)
        share.load(told.state_epoch, start, told.state_batches)
    set_timer(broker, place)
    return Decision(woken=[broker.log_key(*place[1:])])


def made_anew(broker: Broker) -> list[Message]:
    """What has `__share_group_state` made anew where it is gone.

    Kafka's persister asks the new share coordinator then, which does not know the state.
    """
    is_there = broker.topic_by_name(SHARE_TOPIC) is not None
    return internal_topics.creation(broker, [] if is_there else [SHARE_TOPIC])


def give_up(broker: Broker, place: Place) -> None:
    """The share coordinator has not said in time what it knows: it is asked again later."""
    share = find(broker, place)
    if share is not None and share.status == Status.LOADING:
        share.status, share.error = Status.FAILED, int(Error.COORDINATOR_NOT_AVAILABLE)


def write(broker: Broker, place: Place, told: list[StateBatch]) -> Message | None:
    """What the share coordinator is told of records; nothing where there is nothing to tell."""
    share = find(broker, place)
    if share is None or not told:
        return None
    group_id, topic_id, partition = place
    written = WrittenPartition(
        partition=partition,
        state_epoch=share.state_epoch,
        leader_epoch=share.leader_epoch,
        start_offset=share.start_offset,
        delivery_complete_count=share.done_count,
        state_batches=told,
    )
    topics = [WrittenTopic(topic_id=topic_id, partitions=[written])]
    body = WriteShareGroupStateRequest(group_id=group_id, topics=topics)
    return Message(
        broker.id, _coordinator(broker, place), kafka_apis.WRITE_SHARE_GROUP_STATE.key, body
    )


def place_of(message: Message) -> Place:
    """Of which share partition a share coordinator was told."""
    body = message.body
    assert isinstance(body, WriteShareGroupStateRequest), body
    return body.group_id, body.topics[0].topic_id, body.topics[0].partitions[0].partition


class Written(NamedTuple):
    """What is wrong with what a share coordinator was told, and the log whose waits look again.

    `messages` have the internal topic made anew.
    """

    fault: Fault | None
    woken: list[str]
    messages: list[Message]


def written(broker: Broker, message: Message, response: ShareGroupStateResponse) -> Written:
    """The share coordinator has answered.

    Who waits looks again where the start offset has moved. Records that were released alone wake
    nobody now, as in Kafka (`SharePartition.rollbackOrProcessStateUpdates`): they are found at the
    end of a max wait, by the next request, or when a member acknowledges the next time, fetches
    or gives back (`share_fetch.look_again`).
    """
    body, place = message.body, place_of(message)
    assert isinstance(body, WriteShareGroupStateRequest), body
    said = response.results[0].partitions[0]
    code, text = Error(said.error_code), said.error_message or ""
    messages = made_anew(broker) if code is Error.NOT_COORDINATOR else []
    if messages:
        code, text = state_store.not_begun("write")
    error = code if code is Error.NONE else _PERSISTERS.get(code, Error.UNKNOWN_SERVER_ERROR)
    fault = Fault(error, f"Error in write state RPC. {text}")
    is_written, has_moved = error is Error.NONE, False
    share = find(broker, place)
    told: Sequence[StateBatch] = body.topics[0].partitions[0].state_batches
    if share is not None:
        has_moved = share.written(told, is_written, broker.now)
        set_timer(broker, place)
    if error in _GONE:
        forget(broker, place)
    woken = [broker.log_key(*place[1:])] if has_moved or error in _GONE else []
    return Written(None if is_written else fault, woken, messages)


def reply(broker: Broker, message: Message, response: ShareGroupStateResponse) -> Decision:
    """A share coordinator has answered, and no request waits for it."""
    done = written(broker, message, response)
    return Decision(messages=done.messages, woken=done.woken)


def give_back(
    broker: Broker, group_id: str, member_id: str, places: Iterable[share_sessions.Place]
) -> list[Message]:
    """What a member has in these partitions is available again."""
    messages = []
    for each in places:
        place = (group_id, *each)
        share = find(broker, place)
        if share is None or share.status == Status.FAILED:
            continue
        message = write(broker, place, share.release(member_id, limits_of(broker, group_id)))
        set_timer(broker, place)
        messages += [message] if message is not None else []
    return messages


def fire(broker: Broker, name: str) -> Decision:
    """Locks of a share partition are over: others may have the records."""
    place = _place(name)
    share = find(broker, place)
    if share is None:
        return Decision()
    message = write(broker, place, share.expire(limits_of(broker, place[0]), broker.now))
    set_timer(broker, place)
    messages = [message] if message is not None else []
    return Decision(messages=messages, woken=[broker.log_key(*place[1:])])


def set_timer(broker: Broker, place: Place) -> None:
    """Has the broker told when the first lock of a share partition is over."""
    share = find(broker, place)
    deadline = share.earliest_lock() if share is not None else None
    pending.set_timer(broker.tables.pending, _timer(broker, place), deadline)


def forget(broker: Broker, place: Place) -> None:
    """Forgets a share partition, if it is there."""
    broker.tables.shares.drop(_key(broker, place))
    pending.set_timer(broker.tables.pending, _timer(broker, place), None)


def forget_topic(tables: Tables, machine: int, topic_id: Uuid) -> None:
    """Forgets the share partitions of a topic that goes."""
    for key in tables.shares.keys(f"{machine}/{KIND}/"):
        name = key.split("/", 2)[2]
        if name.split("/")[1] == topic_id:
            tables.shares.drop(key)
            pending.set_timer(tables.pending, f"{TIMER}/{machine}/{name}", None)


def expired(broker: Broker) -> Iterable[Record]:
    """Forgets those of groups without a session, whose records nobody has; no record says so."""
    for key in broker.tables.shares.keys(f"{broker.id}/{KIND}/"):
        place = _place(key.split("/", 2)[2])
        is_locked = pending.timer_of(broker.tables.pending, _timer(broker, place)) is not None
        if not is_locked and not share_sessions.has_any(broker, place[0]):
            forget(broker, place)
    return ()


def _leader_epoch(broker: Broker, place: Place) -> int:
    topic = broker.topic_by_id(place[1])
    if topic is None or place[2] >= len(topic.partitions):
        return -1
    partition = topic.partitions[place[2]]
    return partition.leader_epoch if partition.leader == broker.id else -1


def _coordinator(broker: Broker, place: Place) -> int:
    """The share coordinator of a share partition; this broker where nobody is known to be it."""
    key = coordinators.coordinator_key(*place)
    receiver = coordinators.coordinator_of(broker, SHARE_TOPIC, key)
    return broker.id if receiver in (None, -1) else receiver


def _name(place: Place) -> str:
    return f"{escape(place[0])}/{place[1]}/{place[2]}"


def _place(name: str) -> Place:
    group_id, topic_id, partition = name.split("/")
    return unescape(group_id), topic_id, int(partition)


def _key(broker: Broker, place: Place) -> str:
    return f"{broker.id}/{KIND}/{_name(place)}"


def _timer(broker: Broker, place: Place) -> str:
    return f"{TIMER}/{broker.id}/{_name(place)}"
