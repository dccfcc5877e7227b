"""A broker reads the metadata log: the effects of each record on it.

The part of the loop after a record of the controller has reached a broker. First its image changes,
then everything that depends on it.

Source: `BrokerMetadataPublisher`, `ReplicaManager.applyDelta` in Kafka.
"""

from brokertwin.protocol.bodies import Uuid
from brokertwin.protocol.errors import Error
from brokertwin.state.cell import follower_sessions, handover
from brokertwin.state.cell.broker_changes import BrokerChanges
from brokertwin.state.cell.causes import CommitEnded
from brokertwin.state.cluster.coordinators import COORDINATED, GROUP_TOPIC, TRANSACTION_TOPIC
from brokertwin.state.cluster.image import Topic
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core import pending
from brokertwin.state.core.decision import Decision
from brokertwin.state.core.pending import PendingCommit
from brokertwin.state.core.records import (
    BrokerRegistered,
    BrokerRegistrationChanged,
    ConfigChanged,
    PartitionAltered,
    PartitionChanged,
    PartitionsAdded,
    Record,
    ReplicasAssigned,
    TopicCreated,
    TopicRemoved,
)
from brokertwin.state.groups import committed_offsets, kinds, share_states
from brokertwin.state.logs import log as logs
from brokertwin.state.replication import checkpoints, copying, directories, disk, throttles
from brokertwin.state.share import state_store
from brokertwin.state.transactions import transactional_offsets


class MetadataReading(BrokerChanges):
    """The part of the loop about metadata; `CellLoop` is the whole loop."""

    def _deliver_metadata(self, broker: int, record: Record) -> None:
        """Let a broker read a metadata record."""
        if isinstance(record, TopicRemoved):
            self._lose_topic(broker, record)
        if isinstance(record, PartitionAltered):
            self._read_of_altered(broker, record)
            return
        older: frozenset[int] = frozenset()
        if isinstance(record, PartitionsAdded):
            older = disk.without_place(self._broker(broker), record.topic_id)
        self._apply(broker, record)
        if isinstance(record, BrokerRegistrationChanged):
            self._carry_on(broker, copying.broker_registered(self._broker(broker)))
            if record.broker == broker and not record.is_fenced:
                self._fetch_again(broker)  # its leaders may not know yet that it follows
        if isinstance(record, ConfigChanged) and record.name in throttles.SETTINGS:
            for side in throttles.Side:
                self._carry_on(broker, copying.release_throttled(self._broker(broker), side))
        if isinstance(record, TopicCreated | PartitionsAdded):
            self._place_logs(self._broker(broker), record.topic_id, older)
        if isinstance(record, ReplicasAssigned):
            self._carry_on(broker, copying.directories_assigned(self._broker(broker), record))
        if isinstance(record, BrokerRegistered) and record.broker == broker:
            self._registered(record)
        if isinstance(record, PartitionChanged):
            self._read_of_changed(broker, record)

    def _lose_topic(self, broker: int, record: TopicRemoved) -> None:
        """Tombstone the offsets and share states of a topic and wake requests pending on its logs.

        Deleting an internal topic also deletes everything that it coordinated.
        """
        machine = self._broker(broker)
        topic = machine.topic_by_id(record.topic_id)
        assert topic is not None, record.topic_id
        if topic.name in COORDINATED:
            self._lose_coordinated(machine, topic)
        for owner in (committed_offsets, transactional_offsets):
            gone = owner.tombstones_of_topic(self._tables.groups, broker, topic.name)
            self._carry_on(broker, Decision(records=list(gone)))
        for records in (
            share_states.records_of_deleted_topic(machine, record.topic_id),
            list[Record](
                state_store.tombstones_of_topic(self._tables.groups, broker, topic.topic_id)
            ),
        ):
            self._carry_on(broker, Decision(records=records))
        for partition, known in enumerate(topic.partitions):
            self._effects.log_changed(broker, machine.log_key(record.topic_id, partition))
            follower_sessions.forget(machine, topic, partition, known.replicas)
            copying.forget(machine, (record.topic_id, partition))
            checkpoints.forget(machine, (record.topic_id, partition))

    def _lose_coordinated(self, broker: Broker, topic: Topic) -> None:
        """Resume the uncommitted writes of a deleted internal topic: 16 NOT_COORDINATOR.

        For transactions, after the log is gone: 15 COORDINATOR_NOT_AVAILABLE.
        """
        table = broker.tables.pending
        for number in range(len(topic.partitions)) if topic.name != TRANSACTION_TOPIC else ():
            for event_id in pending.watchers(table, broker.log_key(topic.topic_id, number)):
                if isinstance(pending.get(table, event_id), PendingCommit):
                    self.resume(event_id, CommitEnded(Error.NOT_LEADER_OR_FOLLOWER))
        for gone in kinds.tombstones_of_all(broker) if topic.name == GROUP_TOPIC else ():
            self._rows.of_group(gone)
        for decision in handover.forget_deleted(broker, topic):
            self._carry_on(broker.id, decision)

    def _read_of_changed(self, broker: int, record: PartitionChanged) -> None:
        """Let a broker read that a test has moved a leader."""
        place = (record.topic_id, record.partition)
        self._carry_on(broker, copying.new_leader(self._broker(broker), place))
        self._carry_on(broker, copying.fetches(self._broker(broker), [place]))
        self._effects.to_copy(broker, place)
        self._place_logs(self._broker(broker), record.topic_id)
        if broker == record.former_leader:
            topic = self._broker(broker).topic_by_id(record.topic_id)
            if topic is not None:
                replicas = topic.partitions[record.partition].replicas
                follower_sessions.forget(self._broker(broker), topic, record.partition, replicas)
            checkpoints.forget(self._broker(broker), place)
            self._carry_on(broker, handover.resign(self._broker(broker), place, False))
        elif broker == record.leader:
            handover.take_over(self._broker(broker), place)
        self._effects.log_changed(broker, logs.log_key(broker, *place))

    def _read_of_altered(self, broker_id: int, record: PartitionAltered) -> None:
        """Let a broker read a change of leader, replicas or in-sync replicas."""
        broker, place = self._broker(broker_id), (record.topic_id, record.partition)
        former = copying.partition_of(broker, place)
        assert former is not None, record
        older = disk.without_place(broker, record.topic_id)
        self._apply(broker_id, record)
        follower_sessions.altered(broker, *place, former)
        if broker.held_log(*place) is None:
            checkpoints.forget(broker, place)
        self._place_logs(broker, record.topic_id, older)
        self._carry_on(broker_id, copying.partition_altered(broker, record, former))
        if record.leader is not None:
            self._carry_on(broker_id, copying.fetches(broker, [place]))
        self._carry_on(broker_id, handover.altered(broker, place, former))
        handover.elected(broker, place, former)
        if record.isr is not None or record.leader is not None or record.replicas is not None:
            self._effects.to_copy(
                broker_id, place
            )  # eligible leader replicas raise no high watermark
        self._effects.log_changed(broker_id, logs.log_key(broker_id, *place))

    def _place_logs(
        self, broker: Broker, topic_id: Uuid, older: frozenset[int] = frozenset()
    ) -> None:
        """Place new logs of a topic in log directories, and report them if there are several."""
        placed = disk.placed(broker, topic_id, older)
        for each in placed:
            self._apply(broker.id, each)
        if placed:
            self._delivery.send(directories.assignments(broker, [topic_id]))
