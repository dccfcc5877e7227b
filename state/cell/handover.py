"""Coordinators when a partition of their internal topic gets another leader.

Durable state moves with records (`loading.py`, `leaders.py`). This module is about the memory of
coordinators.

    old coordinator   pending joins and syncs: 16 NOT_COORDINATOR; the timers of its groups and
                      transactional ids stop
    new coordinator   groups are as last written, and their members have new session time-outs; open
                      transactions are checked again
    deleted topic     as for an old coordinator, and its content is lost; open transactions never
                      end at the leaders of their partitions

Source: `GroupMetadataManager.onUnloaded` and `onLoaded`, `TransactionCoordinator.onElection` and
`onResignation` in Kafka.
"""

from collections.abc import Iterator

from brokertwin.state.cell import committing, leaders, loading
from brokertwin.state.cluster.coordinators import (
    COORDINATED,
    GROUP_TOPIC,
    LOADING,
    TRANSACTION_TOPIC,
    loading_place,
    partition_for,
)
from brokertwin.state.cluster.image import Partition, Topic
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core import pending
from brokertwin.state.core.decision import Decision, Resumed
from brokertwin.state.core.records import PartitionLoaded, PartitionUnloaded
from brokertwin.state.groups import groups, kinds
from brokertwin.state.replication import copying, internal_logs
from brokertwin.state.replication.copying import Place
from brokertwin.state.transactions import transactional_ids


def altered(broker: Broker, place: Place, former: Partition) -> Decision:
    """Return a broker's decision after it has read of another leader, or of more replicas.

    With the first follower, the log contains everything known. `former` is the former partition.
    """
    topic, now = broker.topic_by_id(place[0]), copying.partition_of(broker, place)
    if topic is None or now is None or topic.name not in COORDINATED:
        return Decision()
    decision = Decision()
    is_in_log, is_election = _is_in_log(former, now), now.leader_epoch > former.leader_epoch
    if is_election and former.leader == broker.id:
        decision = resign(broker, place, is_in_log)
    if is_election and now.leader == broker.id and is_in_log:
        if broker.settings.brokertwin_coordinator_load_ms:
            load_later(broker, place)
        else:
            decision.records = [*decision.records, PartitionLoaded(*place)]
    has_first_follower = len(former.replicas) == 1 < len(now.replicas)
    if has_first_follower and now.leader == broker.id and not is_election:
        known = leaders.coordinated(broker, place)
        decision.records = [internal_logs.whole(broker, place, known)]
    return decision


def elected(broker: Broker, place: Place, former: Partition) -> None:
    """Start the coordinator that `altered` has loaded, if the broker was elected."""
    topic, now = broker.topic_by_id(place[0]), copying.partition_of(broker, place)
    if topic is None or now is None or topic.name not in COORDINATED:
        return
    is_elected = now.leader_epoch > former.leader_epoch and now.leader == broker.id
    if is_elected and not pending.timer_of(broker.tables.pending, _timer(broker, place)):
        if _is_in_log(former, now):
            committing.suspend_tail(broker, place)
        take_over(broker, place)


def load_later(broker: Broker, place: Place) -> None:
    """Delay the load: until then clients see the error 14 COORDINATOR_LOAD_IN_PROGRESS."""
    deadline = broker.now + broker.settings.brokertwin_coordinator_load_ms
    pending.set_timer(broker.tables.pending, _timer(broker, place), deadline)


def fire(broker: Broker, name: str) -> Decision:
    return Decision(records=[PartitionLoaded(*_place_of(name))])


def loaded(broker: Broker, name: str) -> None:
    """Start the coordinator that `fire` has loaded."""
    committing.suspend_tail(broker, _place_of(name))
    take_over(broker, _place_of(name))


def _timer(broker: Broker, place: Place) -> str:
    return f"{LOADING}/{broker.id}/{loading_place(*place)}"


def _place_of(name: str) -> Place:
    topic_id, _, partition = name.partition("/")
    return topic_id, int(partition)


def _is_in_log(former: Partition, now: Partition) -> bool:
    """Whether the log contains the coordinator's state: it has, or has just had, followers."""
    return max(len(former.replicas), len(now.replicas)) > 1


def resign(broker: Broker, place: Place, is_in_log: bool) -> Decision:
    """Unload a broker that no longer leads the partition."""
    topic = broker.topic_by_id(place[0])
    assert topic is not None, place
    count = len(topic.partitions)
    resumed: list[Resumed] = []
    pending.set_timer(broker.tables.pending, _timer(broker, place), None)
    if topic.name == GROUP_TOPIC:
        for group_id in kinds.loaded_ids(broker):
            if partition_for(group_id, count) == place[1]:
                resumed += kinds.unload(broker, group_id)
    elif topic.name == TRANSACTION_TOPIC:
        for transactional_id in transactional_ids.ids_with_timer(broker):
            if partition_for(transactional_id, count) == place[1]:
                transactional_ids.cancel_check(broker, transactional_id)
    return Decision(records=[PartitionUnloaded(*place)] if is_in_log else [], resumed=resumed)


def forget_deleted(broker: Broker, topic: Topic) -> Iterator[Decision]:
    """Unload the coordinators of a deleted internal topic.

    A broker can have loaded it without being the leader now, for example if it was stopped.
    """
    for number, partition in enumerate(topic.partitions):
        place = (topic.topic_id, number)
        if partition.leader == broker.id or loading.knows_any(broker, *place):
            yield resign(broker, place, is_in_log=True)


def take_over(broker: Broker, place: Place) -> None:
    """Start to coordinate the content of the partition."""
    topic = broker.topic_by_id(place[0])
    assert topic is not None, place
    count = len(topic.partitions)
    if topic.name == GROUP_TOPIC:
        for group_id in groups.stored_ids(broker):
            if partition_for(group_id, count) == place[1]:
                kinds.load(broker, group_id)
    elif topic.name == TRANSACTION_TOPIC:
        known_ids = transactional_ids.all_ids(broker)
        for transactional_id, metadata in known_ids:
            if partition_for(transactional_id, count) == place[1]:
                transactional_ids.schedule_check(broker, transactional_id, metadata)
