"""What coordinators do when a partition of their internal topic gets another leader.

Source: `GroupMetadataManager.onUnloaded` and `onLoaded`, `TransactionCoordinator.onElection` and
`onResignation` in Kafka. What is durable goes and comes with records (`loading.py`, `leaders.py`).
This is about what a coordinator holds beside it.

    old coordinator   joins and syncs that wait are answered with NOT_COORDINATOR; the timers of its
                      groups and transactional ids stop
    new coordinator   groups are as they were last written, and their members have their session
                      time-outs anew; open transactions are looked at again
    deleted topic     as for an old coordinator, and nobody knows any more what was written; open
                      transactions never end at the leaders of their partitions
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
from brokertwin.state.core import waiting
from brokertwin.state.core.decision import Decision, LateAnswer
from brokertwin.state.core.records import PartitionLoaded, PartitionUnloaded
from brokertwin.state.groups import groups, kinds
from brokertwin.state.replication import copying, internal_logs
from brokertwin.state.replication.copying import Place
from brokertwin.state.transactions import transactional_ids


def altered(broker: Broker, place: Place, former: Partition) -> Decision:
    """A broker has read of another leader, or of more replicas: what that makes of what it knows.

    `former` is the partition as it was. With its first follower a log has all that is known.
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
    """What `altered` has loaded lives; nothing where the broker was not elected."""
    topic, now = broker.topic_by_id(place[0]), copying.partition_of(broker, place)
    if topic is None or now is None or topic.name not in COORDINATED:
        return
    is_elected = now.leader_epoch > former.leader_epoch and now.leader == broker.id
    if is_elected and not waiting.timer_of(broker.tables.waiting, _timer(broker, place)):
        if _is_in_log(former, now):
            committing.hold_tail(broker, place)
        take_over(broker, place)


def load_later(broker: Broker, place: Place) -> None:
    """Loading takes a while: until then the coordinator says 14."""
    deadline = broker.now + broker.settings.brokertwin_coordinator_load_ms
    waiting.set_timer(broker.tables.waiting, _timer(broker, place), deadline)


def fire(broker: Broker, name: str) -> Decision:
    """The while is over: what is in the log is known."""
    return Decision(records=[PartitionLoaded(*_place_of(name))])


def loaded(broker: Broker, name: str) -> None:
    """What `fire` has loaded lives."""
    committing.hold_tail(broker, _place_of(name))
    take_over(broker, _place_of(name))


def _timer(broker: Broker, place: Place) -> str:
    return f"{LOADING}/{broker.id}/{loading_place(*place)}"


def _place_of(name: str) -> Place:
    topic_id, _, partition = name.partition("/")
    return topic_id, int(partition)


def _is_in_log(former: Partition, now: Partition) -> bool:
    """Whether the log says what there is to coordinate: it has followers, or has just had some."""
    return max(len(former.replicas), len(now.replicas)) > 1


def resign(broker: Broker, place: Place, is_in_log: bool) -> Decision:
    """A broker does not lead the partition any more; what is in its log it forgets."""
    topic = broker.topic_by_id(place[0])
    assert topic is not None, place
    count = len(topic.partitions)
    answers: list[LateAnswer] = []
    waiting.set_timer(broker.tables.waiting, _timer(broker, place), None)
    if topic.name == GROUP_TOPIC:
        for group_id in kinds.loaded_ids(broker):
            if partition_for(group_id, count) == place[1]:
                answers += kinds.unload(broker, group_id)
    elif topic.name == TRANSACTION_TOPIC:
        for transactional_id in transactional_ids.ids_with_timer(broker):
            if partition_for(transactional_id, count) == place[1]:
                transactional_ids.cancel_check(broker, transactional_id)
    return Decision(records=[PartitionUnloaded(*place)] if is_in_log else [], answers=answers)


def forget_deleted(broker: Broker, topic: Topic) -> Iterator[Decision]:
    """An internal topic goes: whoever has coordinated by it forgets all of that.

    It may be known to a broker that nobody lets lead: one that was stopped has read so before.
    """
    for number, partition in enumerate(topic.partitions):
        place = (topic.topic_id, number)
        if partition.leader == broker.id or loading.knows_any(broker.tables, broker.id, *place):
            yield resign(broker, place, is_in_log=True)


def take_over(broker: Broker, place: Place) -> None:
    """A broker leads the partition, and knows what is written in it."""
    topic = broker.topic_by_id(place[0])
    assert topic is not None, place
    count = len(topic.partitions)
    if topic.name == GROUP_TOPIC:
        for group_id in groups.stored_ids(broker.tables, broker.id):
            if partition_for(group_id, count) == place[1]:
                kinds.load(broker, group_id)
    elif topic.name == TRANSACTION_TOPIC:
        known_ids = transactional_ids.all_ids(broker.tables.transactions, broker.id)
        for transactional_id, known in known_ids:
            if partition_for(transactional_id, count) == place[1]:
                transactional_ids.schedule_check(broker, transactional_id, known)
