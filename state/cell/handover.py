"""What coordinators do when a partition of their internal topic gets another leader.

Source: `GroupMetadataManager.onUnloaded` and `onLoaded`, `TransactionCoordinator.onElection` and
`onResignation` in Kafka. What is durable goes over with records (`leaders.py`). This is about what
a coordinator holds beside it.

    old coordinator   joins and syncs that wait are answered with NOT_COORDINATOR; the timers of its
                      groups and transactional ids stop
    new coordinator   groups are as they were last written, and their members have their session
                      time-outs anew; open transactions are looked at again
"""

from brokerstream.state.cluster.coordinators import GROUP_TOPIC, TRANSACTION_TOPIC, partition_for
from brokerstream.state.cluster.machines import Broker
from brokerstream.state.core.decision import Decision, LateAnswer
from brokerstream.state.core.records import PartitionChanged
from brokerstream.state.groups import groups, kinds
from brokerstream.state.transactions import transactional_ids


def hand_over(broker: Broker, record: PartitionChanged) -> Decision:
    """What a broker does that has just read of the change; nothing where it does not concern it."""
    topic = broker.topic_by_id(record.topic_id)
    assert topic is not None, record.topic_id
    count = len(topic.partitions)

    def is_of(name: str) -> bool:
        return partition_for(name, count) == record.partition

    answers: list[LateAnswer] = []
    if topic.name == GROUP_TOPIC and broker.id == record.former_leader:
        for group_id in filter(is_of, kinds.loaded_ids(broker)):
            answers += kinds.unload(broker, group_id)
    elif topic.name == GROUP_TOPIC and broker.id == record.leader:
        for group_id in groups.written_ids(broker.tables, broker.id):
            if is_of(group_id):
                kinds.load(broker, group_id)
    elif topic.name == TRANSACTION_TOPIC and broker.id == record.former_leader:
        for transactional_id in filter(is_of, transactional_ids.checked_ids(broker)):
            transactional_ids.stop_checks(broker, transactional_id)
    elif topic.name == TRANSACTION_TOPIC and broker.id == record.leader:
        for transactional_id, known in transactional_ids.all_ids(
            broker.tables.transactions, broker.id
        ):
            if is_of(transactional_id):
                transactional_ids.set_check(broker, transactional_id, known)
    return Decision(answers=answers)
