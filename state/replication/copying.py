"""The steps between a leader and its followers: fetches, answers, and what they leave behind.

Source: seed 004; `ReplicaManager`, `DelayedFetch`, `ReplicaFetcherThread` in Kafka.

    follower          leader
    fetch at its end  -> reads, then notes what the fetch says of the follower; raises the high
                         watermark. Where all was read the fetch waits.
                      <- answers when the log has grown, or the high watermark or the log start
                         moved: with the high watermark as of that read
    appends, asks again

So the leader learns of an append by the follower's next fetch, and the follower of the high
watermark one fetch later. A fetch that waits is a mark at the leader (`Replica.waits`): who has all
costs nothing, and nobody polls. In Kafka such a fetch comes again twice a second; here the follower
counts as caught up until the log grows, and is told of a new high watermark at once.

A follower of a new partition has its first fetch, at offset 0, waiting at the leader.

What a leader knows of its followers lies in the table `replication`, `<broker>/leading/<topic
id>/<partition>`, from the first append on: like what waits it is forgotten with the process.

A follower whose leader has sealed what it needs (`Log.segments`) takes the leader's log whole.
"""

from collections.abc import Collection, Iterable

from brokertwin.state.cluster.image import Partition, Topic
from brokertwin.state.cluster.machines import Broker, Machine
from brokertwin.state.core import kafka_apis, pending
from brokertwin.state.core.decision import (
    CONTROLLER,
    AskedPartition,
    Decision,
    FollowedPartition,
    Message,
    ReplicaAnswer,
    ReplicaFetch,
)
from brokertwin.state.core.errors import Error
from brokertwin.state.core.records import (
    HighWatermarkMoved,
    LogTruncated,
    PartitionAltered,
    Record,
    ReplicasAssigned,
)
from brokertwin.state.core.settings import UNLIMITED
from brokertwin.state.logs import log as logs
from brokertwin.state.logs.log import Log
from brokertwin.state.replication import (
    fetchers,
    follower,
    leader,
    network,
    reading,
    throttles,
    trace,
)
from brokertwin.state.replication.isr_controller import (
    AlteredPartition,
    AlteredTopic,
    AlterPartitionRequest,
    BrokerState,
)
from brokertwin.state.replication.leader import Leadership, Replica
from brokertwin.state.replication.throttles import Side

IN_SYNC_TIMER = "in-sync"
"""The kind of the timers by which leaders look for replicas that have to leave (`in_sync.py`)."""

FETCH_TIMER = "replica-fetch"
"""The kind of the timers of followers that were refused."""

BY_HIGH_WATERMARK = "hw"
"""The value of `brokertwin.truncation` for the rule of Kafka before 0.11."""

_TRIED_AGAIN = frozenset(
    {
        *(Error.NOT_LEADER_OR_FOLLOWER, Error.UNKNOWN_LEADER_EPOCH),
        Error.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
"""Errors of a leader that has not read the metadata yet that its follower has read."""

Place = throttles.Place


def _key(broker: int, place: Place) -> str:
    return f"{broker}/leading/{place[0]}/{place[1]}"


def partition_of(broker: Machine, place: Place) -> Partition | None:
    """The partition as the broker's image has it."""
    topic = broker.topic_by_id(place[0])
    if topic is None or not 0 <= place[1] < len(topic.partitions):
        return None
    return topic.partitions[place[1]]


def has_too_few_in_sync(broker: Broker, topic: Topic, partition: int) -> bool:
    """Whether a partition has fewer replicas in sync than an append with acks -1 needs."""
    found = topic.partitions[partition]
    if len(found.isr) == len(found.replicas):
        return False  # more than all is never asked for
    return len(found.isr) < broker.min_in_sync(topic, partition)


def known(broker: Broker, place: Place) -> Leadership | None:
    """What the leader knows of its followers, to be read only; None before the first append."""
    return broker.tables.replication.get(_key(broker.id, place), Leadership)


def known_or_new(broker: Broker, place: Place) -> Leadership:
    """What the leader knows of its followers, to be read only, before the first append, too."""
    found = known(broker, place)
    if found is None:
        partition, log = partition_of(broker, place), broker.log(*place)
        assert partition is not None and log is not None, place
        found = _at_the_beginning(broker, partition, log)
    return found


def places_led(broker: Broker) -> list[Place]:
    """The partitions of which the leader knows something of its followers."""
    keys = broker.tables.replication.keys(f"{broker.id}/leading/")
    return [(topic_id, int(number)) for _, _, topic_id, number in (k.split("/") for k in keys)]


def changeable(broker: Broker, place: Place) -> Leadership:
    """What the leader knows of its followers, for changing."""
    key = _key(broker.id, place)
    if key not in broker.tables.replication:
        partition, log = partition_of(broker, place), broker.log(*place)
        assert partition is not None and log is not None, place
        broker.tables.replication.put(key, _at_the_beginning(broker, partition, log))
    return broker.tables.replication.change(key, Leadership)


def _at_the_beginning(broker: Broker, partition: Partition, log: Log) -> Leadership:
    """A new partition: all followers that reach the leader have asked for its first record.

    Or one that had a single replica until now; then nobody else is in sync.
    """
    replicas = {each: Replica() for each in partition.replicas if each != broker.id}
    for each, replica in replicas.items():
        if each not in partition.isr:
            continue
        replica.last_caught_up = broker.now
        if not network.is_cut(broker.tables.cluster, broker.id, each):
            leader.fetched(replica, 0, 0, 0, broker.now)
            replica.waits, replica.told_high_watermark = True, 0
    isr, epoch, start = list(partition.isr), partition.partition_epoch, logs.epoch_start(log)
    return Leadership(broker.id, partition.leader_epoch, start, isr, epoch, replicas)


def new_leader(broker: Broker, place: Place) -> Decision:
    """What a broker does that has read of a new leader epoch: it leads, or is to follow."""
    partition, log = partition_of(broker, place), broker.log(*place)
    assert partition is not None, place
    if partition.leader != broker.id:
        forget(broker, place)
        return begins_to_follow(broker, [place])
    if log is None:  # its directory has failed; the controller does not know yet
        forget(broker, place)
        return Decision()
    end = log.log_end_offset
    if len(partition.replicas) == 1:
        forget(broker, place)
        is_committed = log.high_watermark == end
        return Decision(records=[] if is_committed else [HighWatermarkMoved(*place, end)])
    leadership = Leadership(
        broker.id,
        partition.leader_epoch,
        end,
        list(partition.isr),
        partition.partition_epoch,
        {each: Replica() for each in partition.replicas if each != broker.id},
    )
    leader.begin(leadership, known(broker, place), end, broker.now)
    broker.tables.replication.put(_key(broker.id, place), leadership)
    return Decision()


def altered(broker: Broker, record: PartitionAltered, former: Partition) -> Decision:
    """What a broker does that has read of an altered partition; `former` is what that was."""
    place = (record.topic_id, record.partition)
    partition = partition_of(broker, place)
    assert partition is not None, place
    if record.leader is not None:
        return new_leader(broker, place)
    if partition.leader != broker.id:
        is_new = broker.id in partition.replicas and broker.id not in former.replicas
        return fetches(broker, [place]) if is_new else Decision()
    if known(broker, place) is None and set(former.replicas) == set(partition.replicas):
        return Decision()
    if broker.has_lost(*place):
        return Decision()
    leadership = changeable(broker, place)
    for each in partition.replicas:
        if each != broker.id and each not in leadership.replicas:
            leadership.replicas[each] = Replica()
    return Decision(copies=list(_altered_in_epoch(broker, place)))


def _altered_in_epoch(broker: Broker, place: Place) -> list[Message]:
    """What a leader wishes that has read of a partition epoch, if it is new to it."""
    partition, log, leadership = (
        partition_of(broker, place),
        broker.log(*place),
        known(broker, place),
    )
    if partition is None or log is None or leadership is None:
        return []
    if partition.partition_epoch <= leadership.partition_epoch:
        return []
    leadership = changeable(broker, place)
    leader.committed(leadership, partition.partition_epoch, partition.isr)
    watch_if_behind(broker, leadership, log)
    return expansion(broker, place, leadership)


def assigned(broker: Broker, record: ReplicasAssigned) -> Decision:
    """What a broker does that has read where replicas lie: the partition epochs that it knows."""
    decision = Decision()
    for number in record.directories:
        place = (record.topic_id, number)
        decision.copies += _altered_in_epoch(broker, place)
    return decision


def low_watermark(broker: Broker, place: Place, log_start_offset: int) -> int:
    """The least log start offset of the leader's, and of the replicas that are alive.

    Source: `Partition.lowWatermarkIfLeader` in Kafka. -1 where one has not fetched yet.
    """
    leadership = known(broker, place)
    followers = leadership.replicas if leadership is not None else {}
    starts = [each.log_start_offset for b, each in followers.items() if broker.is_alive(b)]
    return min([log_start_offset, *starts])


NOTHING_ASKED = -1
"""The fetch offset of an answer that only has its follower fetch."""


def cut_off(broker: Broker, place: Place, follower_ids: Iterable[int]) -> None:
    """These followers do not reach their leader any more: no fetch of theirs waits there.

    Who is back is told the high watermark again: it may know an older one (`checkpoints.py`). A
    broker that is elected while it is severed does not know that it leads.
    """
    partition = partition_of(broker, place)
    if partition is None or partition.leader != broker.id or broker.has_lost(*place):
        return
    leadership = changeable(broker, place)
    if broker.settings.brokertwin_isr_by_time_only:
        watch_in_sync(broker)
    for each in follower_ids:
        replica = leadership.replicas[each]
        replica.told_high_watermark = leader.UNKNOWN
        if replica.waits:
            replica.waits = False
            if not replica.is_held:
                replica.last_caught_up = broker.now


def wish(broker: Broker, place: Place, leadership: Leadership) -> Message:
    """A leader asks the controller for the in-sync set that is pending."""
    wanted = AlteredPartition(
        partition_index=place[1],
        leader_epoch=leadership.leader_epoch,
        new_isr_with_epochs=[
            BrokerState(broker_id=each, broker_epoch=broker.registration(each).epoch)
            for each in leadership.pending or ()
        ],
        partition_epoch=leadership.partition_epoch,
    )
    topics = [AlteredTopic(topic_id=place[0], partitions=[wanted])]
    body = AlterPartitionRequest(broker_id=broker.id, broker_epoch=broker.epoch, topics=topics)
    return Message(broker.id, CONTROLLER, kafka_apis.ALTER_PARTITION.key, body)


def registration_changed(broker: Broker) -> Decision:
    """What a leader does that has read of a broker that has come: it may be in sync again."""
    decision = Decision()
    for place in places_led(broker):
        leadership = known(broker, place)
        if leadership is not None and set(leadership.replicas) - set(leadership.isr):
            decision.copies += expansion(broker, place, changeable(broker, place))
    return decision


def watch_in_sync(broker: Broker) -> None:
    """Starts the timer that looks for replicas that have to leave, if it does not run.

    It fires at multiples of its interval since 1970: when does not depend on who has started it.
    """
    name = f"{IN_SYNC_TIMER}/{broker.id}/"
    if pending.timer_of(broker.tables.pending, name) is None:
        interval_ms = max(broker.settings.replica_lag_time_max_ms // 2, 1)
        deadline = (broker.told_at // interval_ms + 1) * interval_ms
        pending.set_timer(broker.tables.pending, name, deadline)


def watch_if_behind(broker: Broker, leadership: Leadership, log: Log) -> None:
    """Starts that timer where an in-sync replica may have to leave one day."""
    if is_anyone_behind(broker, leadership, log):
        watch_in_sync(broker)


def is_anyone_behind(broker: Broker, leadership: Leadership, log: Log) -> bool:
    """Whether an in-sync replica may have to leave one day."""
    by_time_only = broker.settings.brokertwin_isr_by_time_only
    return leader.is_anyone_behind(leadership, log.log_end_offset, by_time_only)


def forget(broker: Broker, place: Place) -> None:
    """The broker does not lead the partition any more."""
    broker.tables.replication.drop(_key(broker.id, place))


def grown(broker: Broker, places: Iterable[Place]) -> Decision:
    """What a leader does whose logs have changed: raises high watermarks, answers who waits."""
    records: list[Record] = []
    answers: dict[int, list[FollowedPartition]] = {}
    for place in places:
        partition, log = partition_of(broker, place), broker.log(*place)
        if partition is None or log is None or partition.leader != broker.id:
            continue
        if len(partition.replicas) == 1:
            continue
        leadership = changeable(broker, place)
        rise = raised(broker, place, leadership, log)
        if rise is not None:
            records.append(rise)  # who waits is answered when that has happened
            continue
        is_anyone_away = any(
            not replica.waits or each not in broker.cell.brokers_here  # who may not answer
            for each, replica in leadership.replicas.items()
            if each in leadership.isr
        )
        if is_anyone_away and is_anyone_behind(broker, leadership, log):
            watch_in_sync(broker)
        for each, replica in leadership.replicas.items():
            if not replica.waits:
                continue
            offset, epoch, was_held = replica.log_end_offset, log.leader_epoch, replica.is_held
            room = reading.room(broker, leadership, each, offset, replica.log_start_offset, log)
            if room is not None:
                replica.waits = False
                if not was_held:
                    replica.last_caught_up = broker.told_at
                answer = reading.answer(broker, log, replica, offset, epoch, room)
                answers.setdefault(each, []).append(answer)
    copies = [ReplicaAnswer(broker.id, each, found) for each, found in answers.items()]
    for found in answers.values():
        throttles.count(broker, Side.LEADER, found)
    return Decision(records=records, copies=list(copies))


def fetched(broker: Broker, fetch: ReplicaFetch) -> Decision:
    """A leader takes a follower's fetch: it answers at once where there is something to tell."""
    decision = Decision()
    answers = []
    for asked in fetch.partitions:
        place = (asked.topic_id, asked.partition)
        partition, log = partition_of(broker, place), broker.log(*place)
        refused = reading.refusal(broker, fetch.sender, asked, partition, log)
        if refused is not None:
            answers.append(refused)
            continue
        assert partition is not None and log is not None
        leadership = changeable(broker, place)
        replica = leadership.replicas[fetch.sender]
        replica.waits = False
        offset, epoch = asked.fetch_offset, asked.leader_epoch
        room = reading.room(broker, leadership, fetch.sender, offset, asked.log_start_offset, log)
        if room is not None:
            answers.append(reading.answer(broker, log, replica, offset, epoch, room))
        followed(broker, place, fetch.sender, offset, asked.log_start_offset, decision)
        replica.waits = room is None
    if answers:
        decision.copies.append(ReplicaAnswer(broker.id, fetch.sender, answers))
        throttles.count(broker, Side.LEADER, answers)
    return decision


def is_follower(broker: Broker, replica_id: int, place: Place) -> bool:
    """Whether that broker follows a partition that this one leads."""
    partition = partition_of(broker, place)
    if partition is None or partition.leader != broker.id or broker.log(*place) is None:
        return False
    return replica_id != broker.id and replica_id in partition.replicas


def followed(
    broker: Broker, place: Place, sender: int, offset: int, log_start: int, decision: Decision
) -> None:
    """Notes what a fetch that was read says of a follower; what follows comes into `decision`."""
    partition, log = partition_of(broker, place), broker.log(*place)
    assert partition is not None and log is not None, place
    leadership = changeable(broker, place)
    replica = leadership.replicas[sender]
    if replica.log_start_offset != log_start:
        decision.woken.append(broker.log_key(*place))
    leader.fetched(replica, offset, log_start, log.log_end_offset, broker.now)
    decision.copies += expansion(broker, place, leadership, sender)
    rise = raised(broker, place, leadership, log)
    if rise is not None:
        decision.records.append(rise)


def expansion(
    broker: Broker, place: Place, leadership: Leadership, sender: int | None = None
) -> list[Message]:
    """The leader's wish to have one more in sync: who has just fetched, or whose fetch waits.

    In Kafka a fetch that waits comes again, and is looked at then; here when a change is over.
    """
    partition, log = partition_of(broker, place), broker.log(*place)
    assert partition is not None and log is not None, place
    for each, replica in leadership.replicas.items():
        is_there = each == sender if sender is not None else replica.waits
        may_join = is_there and leader.may_expand(leadership, each, log.high_watermark)
        if may_join and broker.is_active(each):
            isr = {*leadership.isr, each}
            leadership.pending = [broker_id for broker_id in partition.replicas if broker_id in isr]
            return [wish(broker, place, leadership)]
    return []


def answered(broker: Broker, answer: ReplicaAnswer) -> Decision:
    """A follower takes its leader's answer."""
    records: list[Record] = []
    taken = []
    for followed_one in answer.partitions:
        log = _log_that_asked(broker, answer.sender, followed_one)
        if log is None:
            continue
        taken.append(followed_one)
        if broker.settings.brokertwin_trace_replication and not followed_one.error:
            count = broker.settings.num_replica_fetchers
            records += trace.copied(broker.id, answer.sender, count, log, followed_one)
        records += follower.take(log, followed_one)
        if followed_one.error in _TRIED_AGAIN:
            name = f"{FETCH_TIMER}/{broker.id}/{followed_one.topic_id}/{followed_one.partition}"
            deadline = broker.now + broker.settings.replica_fetch_backoff_ms
            pending.set_timer(broker.tables.pending, name, deadline)
    throttles.count(broker, Side.FOLLOWER, taken)
    return Decision(records=records)


def fire(broker: Broker, name: str) -> Decision:
    """The timer of a follower that was refused: it asks again."""
    topic_id, _, partition = name.partition("/")
    return fetches(broker, [(topic_id, int(partition))])


def go_on(broker: Broker, side: str) -> Decision:
    """The timer of a broker that has held partitions back, or their throttle is another one."""
    places = throttles.release(broker, Side(side))
    return grown(broker, places) if side == Side.LEADER else fetches(broker, places)


def asks_again(broker: Broker, answer: ReplicaAnswer) -> Decision:
    """The next fetch of a follower that has taken an answer."""
    read = [
        each for each in answer.partitions if each.error in (Error.NONE, Error.OFFSET_OUT_OF_RANGE)
    ]
    places = [(each.topic_id, each.partition) for each in read]
    if throttles.limit(broker, Side.FOLLOWER) == UNLIMITED:
        return fetches(broker, places)
    in_sync = {
        place
        for place, each in zip(places, read, strict=True)
        if (log := broker.log(*place)) is not None and follower.is_in_sync(log, each)
    }
    return fetches(broker, places, in_sync)


def begins_to_follow(broker: Broker, places: Iterable[Place]) -> Decision:
    """A follower of Kafka 0.10 first cuts off what it does not know to be committed.

    That is `brokertwin.truncation=hw`. Today its leader says what differs.
    """
    records: list[Record] = []
    for place in places if broker.settings.brokertwin_truncation == BY_HIGH_WATERMARK else ():
        partition, log = partition_of(broker, place), broker.log(*place)
        if partition is None or log is None or partition.leader == broker.id:
            continue
        cut = follower.to_high_watermark(log).offset
        if cut < log.log_end_offset:
            records.append(LogTruncated(*place, cut))
    return Decision(records=records)


def fetches(broker: Broker, places: Iterable[Place], in_sync: Collection[Place] = ()) -> Decision:
    """A follower asks the leaders of these partitions, each of its threads for its own.

    It knows of those `in_sync` that it has what is committed; others may have to wait.
    """
    asked: dict[tuple[int, int], list[AskedPartition]] = {}
    says_epoch = broker.settings.brokertwin_truncation != BY_HIGH_WATERMARK
    for place in throttles.let_through(broker, places, in_sync):
        partition, log = partition_of(broker, place), broker.log(*place)
        if partition is None or log is None or partition.leader in (broker.id, -1):
            continue
        count = broker.settings.num_replica_fetchers
        fetcher = fetchers.fetcher_id(log.topic, log.partition, count)
        wanted = follower.asked(log, partition.leader_epoch, says_epoch)
        asked.setdefault((partition.leader, fetcher), []).append(wanted)
    copies = [ReplicaFetch(broker.id, leader_id, each) for (leader_id, _), each in asked.items()]
    return Decision(copies=list(copies))


def asks_to_fetch(broker: Broker, follower_id: int, places: Iterable[Place]) -> Decision:
    """A leader that is reached again has its follower fetch: an answer to nothing it has asked."""
    nothing = [
        FollowedPartition(*place, NOTHING_ASKED, partition.leader_epoch)
        for place in places
        if (partition := partition_of(broker, place)) is not None
    ]
    return Decision(copies=[ReplicaAnswer(broker.id, follower_id, nothing)])


def raised(
    broker: Broker, place: Place, leadership: Leadership, log: Log
) -> HighWatermarkMoved | None:
    """The record of a high watermark that may be raised."""
    topic = broker.topic_by_id(place[0])
    assert topic is not None, place
    offset = leader.high_watermark(
        leadership,
        log.log_end_offset,
        broker.min_in_sync(topic, place[1]),
        broker.now,
        broker.settings.replica_lag_time_max_ms,
        broker.is_active,
    )
    if offset is None or offset <= log.high_watermark:
        return None
    return HighWatermarkMoved(*place, offset)


def _log_that_asked(broker: Broker, sender: int, answer: FollowedPartition) -> Log | None:
    """The follower's log, where it is still what the answer is about."""
    place = (answer.topic_id, answer.partition)
    partition, log = partition_of(broker, place), broker.log(*place)
    if partition is None or log is None or partition.leader != sender:
        return None
    is_current = partition.leader_epoch == answer.leader_epoch
    return log if is_current and log.log_end_offset == answer.fetch_offset else None
