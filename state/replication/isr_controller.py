"""The controller's part in in-sync sets: it takes a leader's wish, or says why not.

Source: seed 004; `ReplicationControlManager.alterPartition`, `PartitionChangeBuilder` in Kafka. A
partition that a leader wants to alter is checked in this order:

    no such partition                                        3 UNKNOWN_TOPIC_OR_PARTITION
    a leader or partition epoch above the controller's       41 NOT_CONTROLLER
    a leader epoch below                                     74 FENCED_LEADER_EPOCH
    who asks does not lead it                                42 INVALID_REQUEST
    a partition epoch below                                  95 INVALID_UPDATE_VERSION
    in-sync replicas that are none, or without the leader    42
    a leader that recovers and is not alone, or recovers
    again                                                    42
    an in-sync replica that is fenced, about to go, or
    registered in another epoch than is said                 107 INELIGIBLE_REPLICA

What is accepted raises the partition epoch, never the leader epoch. An in-sync set that is the
controller's already is accepted and changes nothing.
"""

from collections.abc import Callable
from typing import Annotated

from brokertwin.state.cluster.image import Partition
from brokertwin.state.core.errors import Error
from brokertwin.state.core.schema import Body, Int8, Int16, Int32, Int64, Uuid, since

NO_BROKER_EPOCH = -1
"""In a new in-sync set: the epoch of the replica is not looked at."""

RECOVERED, RECOVERING = 0, 1
"""Kafka's codes of a leader's recovery state, after an unclean election."""


class BrokerState(Body):
    """A replica of the new in-sync set."""

    broker_id: Int32
    broker_epoch: Int64 = NO_BROKER_EPOCH


class AlteredPartition(Body):
    """The in-sync set that a leader wants, and the epochs that it knows."""

    partition_index: Int32
    leader_epoch: Int32
    new_isr: Annotated[list[Int32], since(0, 2)] = []
    new_isr_with_epochs: Annotated[list[BrokerState], since(3)] = []
    leader_recovery_state: Int8 = RECOVERED
    partition_epoch: Int32 = 0


class AlteredTopic(Body):
    """Partitions of one topic."""

    topic_id: Uuid
    partitions: list[AlteredPartition] = []


class AlterPartitionRequest(Body):
    """What the leader of some partitions wants."""

    broker_id: Int32
    broker_epoch: Int64 = NO_BROKER_EPOCH
    topics: list[AlteredTopic] = []


class PartitionNow(Body):
    """The partition as it is with the change, or why there was none."""

    partition_index: Int32
    error_code: Int16 = 0
    leader_id: Int32 = 0
    leader_epoch: Int32 = 0
    isr: list[Int32] = []
    leader_recovery_state: Int8 = RECOVERED
    partition_epoch: Int32 = 0


class TopicNow(Body):
    """The answers of one topic."""

    topic_id: Uuid
    partitions: list[PartitionNow]


class AlterPartitionResponse(Body):
    """The answers in the order of the request."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    topics: list[TopicNow] = []


def refusal(
    partition: Partition | None,
    sender: int,
    wanted: AlteredPartition,
    may_be_in_sync: Callable[[BrokerState], bool],
) -> Error:
    """Why the controller does not alter a partition; NONE where it does."""
    if partition is None:
        return Error.UNKNOWN_TOPIC_OR_PARTITION
    if wanted.leader_epoch > partition.leader_epoch:
        return Error.NOT_CONTROLLER
    if wanted.partition_epoch > partition.partition_epoch:
        return Error.NOT_CONTROLLER
    if wanted.leader_epoch < partition.leader_epoch:
        return Error.FENCED_LEADER_EPOCH
    if sender != partition.leader:
        return Error.INVALID_REQUEST
    if wanted.partition_epoch < partition.partition_epoch:
        return Error.INVALID_UPDATE_VERSION
    isr = [state.broker_id for state in wanted.new_isr_with_epochs]
    if _is_malformed(partition, isr):
        return Error.INVALID_REQUEST
    may_not_recover = len(isr) > 1 or partition.leader_recovery_state == RECOVERED
    if wanted.leader_recovery_state == RECOVERING and may_not_recover:
        return Error.INVALID_REQUEST
    if not all(map(may_be_in_sync, wanted.new_isr_with_epochs)):
        return Error.INELIGIBLE_REPLICA
    return Error.NONE


def _is_malformed(partition: Partition, isr: list[int]) -> bool:
    """In-sync replicas that are no replicas, that come twice, or without the leader."""
    is_distinct = len(set(isr)) == len(isr)
    return not is_distinct or not set(isr) <= set(partition.replicas) or partition.leader not in isr
