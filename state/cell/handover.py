"""What coordinators do when a partition of their internal topic gets another leader.

Source: `GroupMetadataManager.onUnloaded` and `onLoaded`, `TransactionCoordinator.onElection` and
`onResignation` in Kafka. What is durable goes and comes with records (`loading.py`, `leaders.py`).
This is about what a coordinator holds beside it.

    old coordinator   joins and syncs that wait are answered with NOT_COORDINATOR; the timers of its
                      groups and transactional ids stop
    new coordinator   groups are as they were last written, and their members have their session
                      time-outs anew; open transactions are looked at again
"""

from brokerstream.state.cell import committing, leaders
from brokerstream.state.cluster.coordinators import (
    COORDINATED,
    GROUP_TOPIC,
    TRANSACTION_TOPIC,
    partition_for,
)
from brokerstream.state.cluster.image import Partition
from brokerstream.state.cluster.machines import Broker
from brokerstream.state.core.decision import Decision, LateAnswer
from brokerstream.state.core.records import PartitionLoaded, PartitionUnloaded
from brokerstream.state.groups import groups, kinds
from brokerstream.state.replication import copying, internal_logs
from brokerstream.state.replication.copying import Place
from brokerstream.state.transactions import transactional_ids


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
    if now.leader_epoch > former.leader_epoch and now.leader == broker.id:
        if _is_in_log(former, now):
            committing.hold_tail(broker, place)
        take_over(broker, place)


def _is_in_log(former: Partition, now: Partition) -> bool:
    """Whether the log says what there is to coordinate: it has followers, or has just had some."""
    return max(len(former.replicas), len(now.replicas)) > 1


def resign(broker: Broker, place: Place, is_in_log: bool) -> Decision:
    """A broker does not lead the partition any more; what is in its log it forgets."""
    topic = broker.topic_by_id(place[0])
    assert topic is not None, place
    count = len(topic.partitions)
    answers: list[LateAnswer] = []
    if topic.name == GROUP_TOPIC:
        for group_id in kinds.loaded_ids(broker):
            if partition_for(group_id, count) == place[1]:
                answers += kinds.unload(broker, group_id)
    elif topic.name == TRANSACTION_TOPIC:
        for transactional_id in transactional_ids.checked_ids(broker):
            if partition_for(transactional_id, count) == place[1]:
                transactional_ids.stop_checks(broker, transactional_id)
    return Decision(records=[PartitionUnloaded(*place)] if is_in_log else [], answers=answers)


def take_over(broker: Broker, place: Place) -> None:
    """A broker leads the partition, and knows what is written in it."""
    topic = broker.topic_by_id(place[0])
    assert topic is not None, place
    count = len(topic.partitions)
    if topic.name == GROUP_TOPIC:
        for group_id in groups.written_ids(broker.tables, broker.id):
            if partition_for(group_id, count) == place[1]:
                kinds.load(broker, group_id)
    elif topic.name == TRANSACTION_TOPIC:
        known_ids = transactional_ids.all_ids(broker.tables.transactions, broker.id)
        for transactional_id, known in known_ids:
            if partition_for(transactional_id, count) == place[1]:
                transactional_ids.set_check(broker, transactional_id, known)
