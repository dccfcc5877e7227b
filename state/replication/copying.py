"""Replication between a leader and its followers: fetches, responses, timers.

Source: seed 004; `ReplicaManager`, `DelayedFetch`, `ReplicaFetcherThread` in Kafka.

    follower              leader
    fetch at log end      -> reads, then updates its view of the follower and raises the high
                             watermark. If there is nothing to read, the fetch is pending.
                          <- responds once the log has grown, or the high watermark or the log start
                             has moved; the high watermark is that of the read
    appends, fetches again

So the leader learns of an append from the follower's next fetch, and the follower of the high
watermark one fetch later. A pending fetch is a flag at the leader (`Replica.has_pending_fetch`): an
idle follower costs nothing and does not poll. In Kafka a pending fetch times out twice a second;
here the follower counts as caught up until the log grows, and a new high watermark is sent at once.

A follower of a new partition starts with a pending fetch at offset 0.

A leader's view of its followers is in the table `replication`, `<broker>/leading/<topic
id>/<partition>`, from the first append on. Like a pending request it is lost with the process.

A follower that needs batches sealed by its leader (`Log.segments`) takes over the leader's log.
"""

from collections.abc import Collection, Iterable

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    BrokerState,
)
from brokertwin.state.cluster.image import Partition, Topic
from brokertwin.state.cluster.machines import Broker, Machine
from brokertwin.state.core import pending
from brokertwin.state.core.decision import (
    CONTROLLER,
    Decision,
    FollowedPartition,
    Message,
    ReplicaFetch,
    ReplicaFetchPartition,
    ReplicaResponse,
)
from brokertwin.state.core.records import (
    HighWatermarkMoved,
    PartitionAltered,
    Record,
    ReplicasAssigned,
)
from brokertwin.state.core.settings import UNLIMITED
from brokertwin.state.eras import high_watermark_truncation, replication_lines
from brokertwin.state.logs import log as logs
from brokertwin.state.logs.log import Log
from brokertwin.state.replication import fetchers, follower, leader, network, reading, throttles
from brokertwin.state.replication.leader import Leadership, Replica
from brokertwin.state.replication.throttles import Side

IN_SYNC_TIMER = "in-sync"
"""Kind of the timers that shrink in-sync sets (`in_sync.py`)."""

FETCH_TIMER = "replica-fetch"
"""Kind of the timers of followers that wait before their next fetch."""

_TRIED_AGAIN = frozenset(
    {Error.NOT_LEADER_OR_FOLLOWER, Error.UNKNOWN_LEADER_EPOCH, Error.UNKNOWN_TOPIC_OR_PARTITION}
)
"""Errors of a leader whose metadata is older than the follower's."""

Place = throttles.Place


def _key(broker: int, place: Place) -> str:
    return f"{broker}/leading/{place[0]}/{place[1]}"


def partition_of(broker: Machine, place: Place) -> Partition | None:
    topic = broker.topic_by_id(place[0])
    if topic is None or not 0 <= place[1] < len(topic.partitions):
        return None
    return topic.partitions[place[1]]


def has_too_few_in_sync(broker: Broker, topic: Topic, partition: int) -> bool:
    """True if an append with acks=all needs more in-sync replicas."""
    part = topic.partitions[partition]
    if len(part.isr) == len(part.replicas):
        return False  # all replicas are always enough
    return len(part.isr) < broker.min_in_sync(topic, partition)


def view(broker: Broker, place: Place) -> Leadership | None:
    """The leader's view of its followers, read-only; None before the first append."""
    return broker.tables.replication.get(_key(broker.id, place), Leadership)


def view_or_initial(broker: Broker, place: Place) -> Leadership:
    """The leader's view of its followers, read-only; a new one before the first append."""
    leadership = view(broker, place)
    if leadership is None:
        partition, log = partition_of(broker, place), broker.log(*place)
        assert partition is not None and log is not None, place
        leadership = _initial_view(broker, partition, log)
    return leadership


def places_led(broker: Broker) -> list[Place]:
    """Partitions with a leader's view in state."""
    keys = broker.tables.replication.keys(f"{broker.id}/leading/")
    return [(topic_id, int(number)) for _, _, topic_id, number in (k.split("/") for k in keys)]


def mutable_view(broker: Broker, place: Place) -> Leadership:
    """The leader's view of its followers, to be changed."""
    key = _key(broker.id, place)
    if key not in broker.tables.replication:
        partition, log = partition_of(broker, place), broker.log(*place)
        assert partition is not None and log is not None, place
        broker.tables.replication.put(key, _initial_view(broker, partition, log))
    return broker.tables.replication.change(key, Leadership)


def _initial_view(broker: Broker, partition: Partition, log: Log) -> Leadership:
    """The view in a new partition: each reachable follower has a pending fetch at offset 0.

    If the partition had a single replica before, no follower is in sync.
    """
    replicas = {each: Replica() for each in partition.replicas if each != broker.id}
    for each, replica in replicas.items():
        if each not in partition.isr:
            continue
        replica.last_caught_up = broker.now
        if not network.is_cut(broker.tables.cluster, broker.id, each):
            leader.update_follower(replica, 0, 0, 0, broker.now)
            replica.has_pending_fetch, replica.sent_high_watermark = True, 0
    isr, epoch, start = list(partition.isr), partition.partition_epoch, logs.epoch_start(log)
    return Leadership(broker.id, partition.leader_epoch, start, isr, epoch, replicas)


def new_leader(broker: Broker, place: Place) -> Decision:
    partition, log = partition_of(broker, place), broker.log(*place)
    assert partition is not None, place
    if partition.leader != broker.id:
        forget(broker, place)
        decision = high_watermark_truncation.become_follower(broker, [place])
        decision.records += fetchers.lines_of_new_fetches(broker, [place])
        return decision
    if log is None:  # its directory has failed, and the controller does not know yet
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
    leader.begin_epoch(leadership, view(broker, place), end, broker.now)
    broker.tables.replication.put(_key(broker.id, place), leadership)
    return Decision()


def partition_altered(broker: Broker, record: PartitionAltered, former: Partition) -> Decision:
    """React to a `PartitionAltered`; `former` is the partition before it."""
    place = (record.topic_id, record.partition)
    partition = partition_of(broker, place)
    assert partition is not None, place
    if record.leader is not None:
        return new_leader(broker, place)
    if partition.leader != broker.id:
        is_new = broker.id in partition.replicas and broker.id not in former.replicas
        if not is_new:
            return Decision()
        decision = fetches(broker, [place])
        decision.records += fetchers.lines_of_new_fetches(broker, [place])
        return decision
    if view(broker, place) is None and set(former.replicas) == set(partition.replicas):
        return Decision()
    if broker.has_lost(*place):
        return Decision()
    leadership = mutable_view(broker, place)
    for each in partition.replicas:
        if each != broker.id and each not in leadership.replicas:
            leadership.replicas[each] = Replica()
    return Decision(copies=list(_altered_in_epoch(broker, place)))


def _altered_in_epoch(broker: Broker, place: Place) -> list[Message]:
    """Messages of a leader that reads a new partition epoch."""
    partition, log, leadership = (
        partition_of(broker, place),
        broker.log(*place),
        view(broker, place),
    )
    if partition is None or log is None or leadership is None:
        return []
    if partition.partition_epoch <= leadership.partition_epoch:
        return []
    leadership = mutable_view(broker, place)
    leader.set_isr(leadership, partition.partition_epoch, partition.isr)
    watch_if_behind(broker, leadership, log)
    return expansion(broker, place, leadership)


def directories_assigned(broker: Broker, record: ReplicasAssigned) -> Decision:
    """React to assigned directories, which raise the partition epochs."""
    decision = Decision()
    for number in record.directories:
        place = (record.topic_id, number)
        decision.copies += _altered_in_epoch(broker, place)
    return decision


def low_watermark(broker: Broker, place: Place, log_start_offset: int) -> int:
    """The least log start offset of the leader and the live replicas.

    Source: `Partition.lowWatermarkIfLeader` in Kafka. -1 if a replica has not fetched yet.
    """
    leadership = view(broker, place)
    followers = leadership.replicas if leadership is not None else {}
    starts = [each.log_start_offset for b, each in followers.items() if broker.is_alive(b)]
    return min([log_start_offset, *starts])


UNSOLICITED = -1
"""Fetch offset of a response without a request, which makes its follower fetch."""


def drop_pending_fetches(broker: Broker, place: Place, follower_ids: Iterable[int]) -> None:
    """Drop the pending fetches of followers that cannot reach their leader.

    A follower that returns is sent the high watermark again, because it may have an older one
    (`checkpoints.py`). A broker elected while severed does not know that it leads.
    """
    partition = partition_of(broker, place)
    if partition is None or partition.leader != broker.id or broker.has_lost(*place):
        return
    leadership = mutable_view(broker, place)
    if broker.settings.brokertwin_isr_by_time_only:
        watch_in_sync(broker)
    for each in follower_ids:
        replica = leadership.replicas[each]
        replica.sent_high_watermark = leader.UNKNOWN
        if replica.has_pending_fetch:
            replica.has_pending_fetch = False
            if not replica.is_held:
                replica.last_caught_up = broker.now


def request_isr_change(broker: Broker, place: Place, leadership: Leadership) -> Message:
    """The AlterPartition request for the pending in-sync set."""
    partition_data = AlterPartitionRequestPartitionData(
        partition_index=place[1],
        leader_epoch=leadership.leader_epoch,
        new_isr_with_epochs=[
            BrokerState(broker_id=each, broker_epoch=broker.registration(each).epoch)
            for each in leadership.pending or ()
        ],
        partition_epoch=leadership.partition_epoch,
    )
    topics = [AlterPartitionRequestTopicData(topic_id=place[0], partitions=[partition_data])]
    body = AlterPartitionRequest(broker_id=broker.id, broker_epoch=broker.epoch, topics=topics)
    return Message(broker.id, CONTROLLER, kafka_apis.ALTER_PARTITION.key, body)


def broker_registered(broker: Broker) -> Decision:
    """After a broker has registered: it may be in sync again."""
    decision = Decision()
    for place in places_led(broker):
        leadership = view(broker, place)
        if leadership is not None and set(leadership.replicas) - set(leadership.isr):
            decision.copies += expansion(broker, place, mutable_view(broker, place))
    return decision


def watch_in_sync(broker: Broker) -> None:
    """Start the timer that shrinks in-sync sets, if it does not run.

    It fires at multiples of its interval since 1970, so the time does not depend on what started
    it.
    """
    name = f"{IN_SYNC_TIMER}/{broker.id}/"
    if pending.timer_of(broker.tables.pending, name) is None:
        interval_ms = max(broker.settings.replica_lag_time_max_ms // 2, 1)
        deadline = (broker.event_time // interval_ms + 1) * interval_ms
        pending.set_timer(broker.tables.pending, name, deadline)


def watch_if_behind(broker: Broker, leadership: Leadership, log: Log) -> None:
    """Start that timer if an in-sync replica may have to leave later."""
    if has_lagging_replica(broker, leadership, log):
        watch_in_sync(broker)


def has_lagging_replica(broker: Broker, leadership: Leadership, log: Log) -> bool:
    """True if an in-sync replica may have to leave later."""
    by_time_only = broker.settings.brokertwin_isr_by_time_only
    return leader.has_lagging_replica(leadership, log.log_end_offset, by_time_only)


def forget(broker: Broker, place: Place) -> None:
    """Drop the view of a partition that the broker no longer leads."""
    broker.tables.replication.drop(_key(broker.id, place))


def log_grown(broker: Broker, places: Iterable[Place]) -> Decision:
    """After logs have changed: raise high watermarks and complete pending fetches."""
    records: list[Record] = []
    responses: dict[int, list[FollowedPartition]] = {}
    for place in places:
        partition, log = partition_of(broker, place), broker.log(*place)
        if partition is None or log is None or partition.leader != broker.id:
            continue
        if len(partition.replicas) == 1:
            continue
        leadership = mutable_view(broker, place)
        rise = high_watermark_raise(broker, place, leadership, log)
        if rise is not None:
            records.append(rise)  # the fetches are completed once it is applied
            continue
        has_absent_replica = any(
            not replica.has_pending_fetch
            or each not in broker.cell.brokers_here  # it may be unreachable
            for each, replica in leadership.replicas.items()
            if each in leadership.isr
        )
        if has_absent_replica and has_lagging_replica(broker, leadership, log):
            watch_in_sync(broker)
        for each, replica in leadership.replicas.items():
            if not replica.has_pending_fetch:
                continue
            offset, epoch, was_held = replica.log_end_offset, log.leader_epoch, replica.is_held
            room = reading.room(broker, leadership, each, offset, replica.log_start_offset, log)
            if room is not None:
                replica.has_pending_fetch = False
                if not was_held:
                    replica.last_caught_up = broker.event_time
                response = reading.read_for_follower(broker, log, replica, offset, epoch, room)
                responses.setdefault(each, []).append(response)
    copies = [ReplicaResponse(broker.id, each, found) for each, found in responses.items()]
    for found in responses.values():
        throttles.count(broker, Side.LEADER, found)
    return Decision(records=records, copies=list(copies))


def handle_fetch(broker: Broker, fetch: ReplicaFetch) -> Decision:
    """Handle a follower's fetch: respond at once if there is something to send."""
    decision = Decision()
    responses = []
    for requested in fetch.partitions:
        place = (requested.topic_id, requested.partition)
        partition, log = partition_of(broker, place), broker.log(*place)
        refused = reading.refusal(broker, fetch.sender, requested, partition, log)
        if refused is not None:
            responses.append(refused)
            continue
        assert partition is not None and log is not None
        leadership = mutable_view(broker, place)
        replica = leadership.replicas[fetch.sender]
        replica.has_pending_fetch = False
        offset, epoch = requested.fetch_offset, requested.leader_epoch
        room = reading.room(
            broker, leadership, fetch.sender, offset, requested.log_start_offset, log
        )
        if room is not None:
            responses.append(reading.read_for_follower(broker, log, replica, offset, epoch, room))
        note_fetch(broker, place, fetch.sender, offset, requested.log_start_offset, decision)
        replica.has_pending_fetch = room is None
    if responses:
        decision.copies.append(ReplicaResponse(broker.id, fetch.sender, responses))
        throttles.count(broker, Side.LEADER, responses)
    return decision


def is_follower(broker: Broker, replica_id: int, place: Place) -> bool:
    partition = partition_of(broker, place)
    if partition is None or partition.leader != broker.id or broker.log(*place) is None:
        return False
    return replica_id != broker.id and replica_id in partition.replicas


def note_fetch(
    broker: Broker, place: Place, sender: int, offset: int, log_start: int, decision: Decision
) -> None:
    """Update the view of a follower after its fetch was read; effects go into `decision`."""
    partition, log = partition_of(broker, place), broker.log(*place)
    assert partition is not None and log is not None, place
    leadership = mutable_view(broker, place)
    replica = leadership.replicas[sender]
    if replica.log_start_offset != log_start:
        decision.woken.append(broker.log_key(*place))
    leader.update_follower(replica, offset, log_start, log.log_end_offset, broker.now)
    decision.copies += expansion(broker, place, leadership, sender)
    rise = high_watermark_raise(broker, place, leadership, log)
    if rise is not None:
        decision.records.append(rise)


def expansion(
    broker: Broker, place: Place, leadership: Leadership, sender: int | None = None
) -> list[Message]:
    """Request that one more replica joins the in-sync set: `sender`, or any with a pending fetch.

    In Kafka a pending fetch times out and is checked when it is repeated; here it is checked after
    each change of the in-sync set.
    """
    partition, log = partition_of(broker, place), broker.log(*place)
    assert partition is not None and log is not None, place
    for each, replica in leadership.replicas.items():
        is_there = each == sender if sender is not None else replica.has_pending_fetch
        may_join = is_there and leader.may_expand(leadership, each, log.high_watermark)
        if may_join and broker.is_active(each):
            isr = {*leadership.isr, each}
            leadership.pending = [broker_id for broker_id in partition.replicas if broker_id in isr]
            return [request_isr_change(broker, place, leadership)]
    return []


def handle_fetch_response(broker: Broker, response: ReplicaResponse) -> Decision:
    """Handle a leader's response on a follower."""
    records: list[Record] = []
    handled = []
    for fetched in response.partitions:
        log = _unchanged_log(broker, response.sender, fetched)
        if log is None:
            continue
        handled.append(fetched)
        if broker.settings.brokertwin_trace_replication and not fetched.error:
            count = broker.settings.num_replica_fetchers
            fetcher = fetchers.fetcher_id(log.topic, log.partition, count)
            thread = fetchers.thread_name(fetcher, response.sender)
            records += replication_lines.copied(broker.id, thread, log, fetched)
        records += follower.take(log, fetched)
        if fetched.error in _TRIED_AGAIN:
            _fetch_later(broker, (fetched.topic_id, fetched.partition))
    throttles.count(broker, Side.FOLLOWER, handled)
    return Decision(records=records)


def _fetch_later(broker: Broker, place: Place) -> None:
    """Set the timer of a follower's next fetch."""
    name = f"{FETCH_TIMER}/{broker.id}/{place[0]}/{place[1]}"
    deadline = broker.now + broker.settings.replica_fetch_backoff_ms
    pending.set_timer(broker.tables.pending, name, deadline)


def fire(broker: Broker, name: str) -> Decision:
    """Timer of a follower that waits before its next fetch."""
    topic_id, _, partition = name.partition("/")
    return fetches(broker, [(topic_id, int(partition))])


def release_throttled(broker: Broker, side: str) -> Decision:
    """Timer of a throttled broker, or change of a throttle: continue its held partitions."""
    places = throttles.release(broker, Side(side))
    return log_grown(broker, places) if side == Side.LEADER else fetches(broker, places)


def next_fetches(broker: Broker, response: ReplicaResponse) -> Decision:
    """Next fetches of a follower that has handled a response.

    With `brokertwin.fetch.by.backoff` they follow after `replica.fetch.backoff.ms`.
    """
    read = [
        each
        for each in response.partitions
        if each.error in (Error.NONE, Error.OFFSET_OUT_OF_RANGE)
    ]
    places = [(each.topic_id, each.partition) for each in read]
    if broker.settings.brokertwin_fetch_by_backoff:
        for place in places:
            _fetch_later(broker, place)
        return Decision()
    if throttles.limit(broker, Side.FOLLOWER) == UNLIMITED:
        return fetches(broker, places)
    in_sync = {
        place
        for place, each in zip(places, read, strict=True)
        if (log := broker.log(*place)) is not None and follower.is_in_sync(log, each)
    }
    return fetches(broker, places, in_sync)


def fetches(broker: Broker, places: Iterable[Place], in_sync: Collection[Place] = ()) -> Decision:
    """Fetches of these partitions, one for each leader and fetcher thread.

    Partitions `in_sync` have all committed records; a throttle may hold back the others.
    """
    requested: dict[tuple[int, int], list[ReplicaFetchPartition]] = {}
    sends_epoch = not high_watermark_truncation.is_enabled(broker)
    for place in throttles.admitted(broker, places, in_sync):
        partition, log = partition_of(broker, place), broker.log(*place)
        if partition is None or log is None or partition.leader in (broker.id, -1):
            continue
        count = broker.settings.num_replica_fetchers
        fetcher = fetchers.fetcher_id(log.topic, log.partition, count)
        fetch_partition = follower.fetch_request(log, partition.leader_epoch, sends_epoch)
        requested.setdefault((partition.leader, fetcher), []).append(fetch_partition)
    copies = [
        ReplicaFetch(broker.id, leader_id, each, fetcher)
        for (leader_id, fetcher), each in requested.items()
    ]
    return Decision(copies=list(copies))


def prompt_followers(broker: Broker, follower_id: int, places: Iterable[Place]) -> Decision:
    """Make a follower fetch that its leader can reach again."""
    unsolicited = [
        FollowedPartition(*place, UNSOLICITED, partition.leader_epoch)
        for place in places
        if (partition := partition_of(broker, place)) is not None
    ]
    return Decision(copies=[ReplicaResponse(broker.id, follower_id, unsolicited)])


def high_watermark_raise(
    broker: Broker, place: Place, leadership: Leadership, log: Log
) -> HighWatermarkMoved | None:
    topic = broker.topic_by_id(place[0])
    assert topic is not None, place
    rises_under_min_isr = broker.settings.brokertwin_high_watermark_under_min_isr
    offset = leader.high_watermark(
        leadership,
        log.log_end_offset,
        0 if rises_under_min_isr else broker.min_in_sync(topic, place[1]),
        broker.now,
        broker.settings.replica_lag_time_max_ms,
        broker.is_active,
    )
    if offset is None or offset <= log.high_watermark:
        return None
    return HighWatermarkMoved(*place, offset)


def _unchanged_log(broker: Broker, sender: int, response: FollowedPartition) -> Log | None:
    """The follower's log, if it has not changed since the fetch."""
    place = (response.topic_id, response.partition)
    partition, log = partition_of(broker, place), broker.log(*place)
    if partition is None or log is None or partition.leader != sender:
        return None
    is_current = partition.leader_epoch == response.leader_epoch
    return log if is_current and log.log_end_offset == response.fetch_offset else None
