"""Commands of a controller of the ZooKeeper era: which replicas lead, and which follow.

Source: seed 003 and 004; `ReplicaManager.becomeLeaderOrFollower` in Kafka 0.10. With
`brokertwin.leader.and.isr` the controller tells an election to the partition's replicas by a
command, and to the other brokers alone as metadata (Kafka's UpdateMetadata). A broker answers

    the command of an older controller                     11 STALE_CONTROLLER_EPOCH, for all of it
    a leader epoch that is not above the one it knows      11; so a command that comes again does
                                                           nothing
    it has no replica of the partition                     3 UNKNOWN_TOPIC_OR_PARTITION

and then becomes leader of what it is to lead, before it becomes follower of the rest.

There is one controller, and it is never elected anew: its epoch is `CONTROLLER_EPOCH`.
"""

from typing import NamedTuple

from brokertwin.state.cluster.machines import Broker, Controller
from brokertwin.state.core.decision import CONTROLLER, CommandedPartition, LeaderAndIsr
from brokertwin.state.core.errors import Error
from brokertwin.state.core.records import PartitionAltered, Record
from brokertwin.state.core.schema import Uuid

CONTROLLER_EPOCH = 1


class Taken(NamedTuple):
    """What a broker makes of a command: the answer, and what it does, in this order."""

    error: Error
    errors: dict[tuple[Uuid, int], Error]
    changes: list[PartitionAltered]


def commands(controller: Controller, record: Record) -> list[LeaderAndIsr]:
    """The commands to the replicas of a partition that has just got a leader, if it is told so."""
    is_election = isinstance(record, PartitionAltered) and record.leader is not None
    if not is_election or not controller.settings.brokertwin_leader_and_isr:
        return []
    assert isinstance(record, PartitionAltered)
    topic = controller.topic_by_id(record.topic_id)
    assert topic is not None, record
    partition = topic.partitions[record.partition]
    state = CommandedPartition(partition.leader_epoch, record)
    return [
        LeaderAndIsr(CONTROLLER, broker, CONTROLLER_EPOCH, [state]) for broker in partition.replicas
    ]


def take(broker: Broker, command: LeaderAndIsr) -> Taken:
    """What a broker makes of a command."""
    if command.controller_epoch < CONTROLLER_EPOCH:
        return Taken(Error.STALE_CONTROLLER_EPOCH, {}, [])
    errors: dict[tuple[Uuid, int], Error] = {}
    leads: list[PartitionAltered] = []
    follows: list[PartitionAltered] = []
    for state in command.partitions:
        record = state.change
        error = _error(broker, state)
        errors[record.topic_id, record.partition] = error
        if error is Error.NONE:
            (leads if record.leader == broker.id else follows).append(record)
    return Taken(Error.NONE, errors, [*leads, *follows])


def _error(broker: Broker, state: CommandedPartition) -> Error:
    record = state.change
    topic = broker.topic_by_id(record.topic_id)
    if topic is None or record.partition >= len(topic.partitions):
        return Error.UNKNOWN_TOPIC_OR_PARTITION
    partition = topic.partitions[record.partition]
    if state.leader_epoch <= partition.leader_epoch:
        return Error.STALE_CONTROLLER_EPOCH
    replicas = record.replicas if record.replicas is not None else partition.replicas
    return Error.NONE if broker.id in replicas else Error.UNKNOWN_TOPIC_OR_PARTITION
