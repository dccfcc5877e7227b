"""LeaderAndIsr requests of a ZooKeeper controller: leaders and followers by command.

Source: seeds 003 and 004; `ReplicaManager.becomeLeaderOrFollower` until Kafka 3.9. Enabled by
`brokertwin.leader.and.isr`. The controller sends an election to the partition's replicas as a
command; the other brokers receive metadata alone (UpdateMetadata). A broker returns

    11 STALE_CONTROLLER_EPOCH       the command is of an older controller (for all partitions), or
                                    its leader epoch is not above the broker's; a repeated
                                    command is therefore a no-op
    3 UNKNOWN_TOPIC_OR_PARTITION    the broker has no replica of the partition

Then it becomes leader of its partitions before it becomes follower of the others.

The model has one controller that is never replaced: its epoch is `CONTROLLER_EPOCH`.
"""

from typing import NamedTuple

from brokertwin.protocol.bodies import Uuid
from brokertwin.protocol.errors import Error
from brokertwin.state.cluster.machines import Broker, Controller
from brokertwin.state.core.decision import CONTROLLER, CommandedPartition, LeaderAndIsr
from brokertwin.state.core.records import PartitionAltered, Record

CONTROLLER_EPOCH = 1


class HandledCommand(NamedTuple):
    """The response to a command, and the changes in the order in which they are made."""

    error: Error
    errors: dict[tuple[Uuid, int], Error]
    changes: list[PartitionAltered]


def commands(controller: Controller, record: Record) -> list[LeaderAndIsr]:
    """The commands to a partition's replicas after an election; empty if disabled."""
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


def handle(broker: Broker, command: LeaderAndIsr) -> HandledCommand:
    """Decide the response to a command and the changes it makes."""
    if command.controller_epoch < CONTROLLER_EPOCH:
        return HandledCommand(Error.STALE_CONTROLLER_EPOCH, {}, [])
    errors: dict[tuple[Uuid, int], Error] = {}
    leads: list[PartitionAltered] = []
    follows: list[PartitionAltered] = []
    for state in command.partitions:
        record = state.change
        error = _error(broker, state)
        errors[record.topic_id, record.partition] = error
        if error is Error.NONE:
            (leads if record.leader == broker.id else follows).append(record)
    return HandledCommand(Error.NONE, errors, [*leads, *follows])


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
