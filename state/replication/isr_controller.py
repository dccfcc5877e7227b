"""AlterPartition on the controller: accept or reject a leader's in-sync set.

Source: seed 004; `ReplicationControlManager.alterPartition`, `PartitionChangeBuilder` in Kafka.
Checks for each partition, in this order:

    no such partition                                        3 UNKNOWN_TOPIC_OR_PARTITION
    leader or partition epoch above the controller's         41 NOT_CONTROLLER
    leader epoch below                                       74 FENCED_LEADER_EPOCH
    the sender is not the leader                             42 INVALID_REQUEST
    partition epoch below                                    95 INVALID_UPDATE_VERSION
    in-sync set with other brokers, or without the leader    42 INVALID_REQUEST
    a recovering leader with other in-sync replicas, or
    one that has recovered before                            42 INVALID_REQUEST
    an in-sync replica that is fenced, shutting down, or
    registered in another epoch                              107 INELIGIBLE_REPLICA

An accepted change raises the partition epoch, never the leader epoch. The controller's own in-sync
set is accepted and changes nothing.
"""

from collections.abc import Callable

from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.alter_partition import (
    AlterPartitionRequestPartitionData,
    BrokerState,
)
from brokertwin.state.cluster.image import Partition

NO_BROKER_EPOCH = -1
"""Broker epoch that is not checked."""

RECOVERED, RECOVERING = 0, 1
"""Kafka's recovery states of a leader after an unclean election."""


def refusal(
    partition: Partition | None,
    sender: int,
    target: AlterPartitionRequestPartitionData,
    may_be_in_sync: Callable[[BrokerState], bool],
) -> Error:
    if partition is None:
        return Error.UNKNOWN_TOPIC_OR_PARTITION
    if target.leader_epoch > partition.leader_epoch:
        return Error.NOT_CONTROLLER
    if target.partition_epoch > partition.partition_epoch:
        return Error.NOT_CONTROLLER
    if target.leader_epoch < partition.leader_epoch:
        return Error.FENCED_LEADER_EPOCH
    if sender != partition.leader:
        return Error.INVALID_REQUEST
    if target.partition_epoch < partition.partition_epoch:
        return Error.INVALID_UPDATE_VERSION
    isr = [state.broker_id for state in target.new_isr_with_epochs]
    if _is_malformed(partition, isr):
        return Error.INVALID_REQUEST
    may_not_recover = len(isr) > 1 or partition.leader_recovery_state == RECOVERED
    if target.leader_recovery_state == RECOVERING and may_not_recover:
        return Error.INVALID_REQUEST
    if not all(map(may_be_in_sync, target.new_isr_with_epochs)):
        return Error.INELIGIBLE_REPLICA
    return Error.NONE


def _is_malformed(partition: Partition, isr: list[int]) -> bool:
    """True for an in-sync set with strangers or repeats, or without the leader."""
    is_distinct = len(set(isr)) == len(isr)
    return not is_distinct or not set(isr) <= set(partition.replicas) or partition.leader not in isr
