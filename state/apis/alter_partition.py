"""AlterPartition (key 56, versions 2 to 3): change an in-sync set.

Runs on the controller. Source: KIP-497, KIP-841; `ReplicationControlManager.alterPartition` in
Kafka. The checks for each partition are in `state/replication/isr_controller.py`. The leader
handles the response in `state/replication/in_sync.py`. The errors of the whole request:

    no CLUSTER_ACTION on the cluster          31 CLUSTER_AUTHORIZATION_FAILED
    broker unknown, or of another epoch       77 STALE_BROKER_EPOCH

Version 2 lists the new in-sync set without the epochs of its members.
"""

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.bodies import Uuid
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
    BrokerState,
)
from brokertwin.state.access.authorizer import Operation
from brokertwin.state.cluster.image import Partition, altered
from brokertwin.state.cluster.machines import Controller
from brokertwin.state.core.api import Api, Refused
from brokertwin.state.core.decision import Decision, Request
from brokertwin.state.core.records import PartitionAltered
from brokertwin.state.replication import elections, in_sync, isr_controller
from brokertwin.state.replication.elections import ElectionRules, TargetState
from brokertwin.state.replication.isr_controller import NO_BROKER_EPOCH


def handle(controller: Controller, request: Request) -> Decision:
    body: AlterPartitionRequest = request.body
    if not controller.allows_cluster(request, Operation.CLUSTER_ACTION):
        raise Refused(Error.CLUSTER_AUTHORIZATION_FAILED)
    if not controller.is_of_epoch(body.broker_id, body.broker_epoch):
        raise Refused(Error.STALE_BROKER_EPOCH)
    if request.version < 3:
        for each in (partition for topic in body.topics for partition in topic.partitions):
            each.new_isr_with_epochs = [BrokerState(broker_id=broker) for broker in each.new_isr]
    records: list[PartitionAltered] = []
    topics = [
        AlterPartitionResponseTopicData(
            topic_id=wanted.topic_id,
            partitions=[
                _alter(controller, body.broker_id, wanted.topic_id, each, records)
                for each in wanted.partitions
            ],
        )
        for wanted in body.topics
    ]
    return Decision(records=list(records), response=AlterPartitionResponse(topics=topics))


def _alter(
    controller: Controller,
    sender: int,
    topic_id: Uuid,
    partition_data: AlterPartitionRequestPartitionData,
    records: list[PartitionAltered],
) -> AlterPartitionResponsePartitionData:
    topic = controller.topic_by_id(topic_id)
    index = partition_data.partition_index
    if topic is None:
        return AlterPartitionResponsePartitionData(
            partition_index=index, error_code=int(Error.UNKNOWN_TOPIC_ID)
        )
    is_known = 0 <= index < len(topic.partitions)
    partition = topic.partitions[index] if is_known else None

    def may_be_in_sync(state: BrokerState) -> bool:
        epochs = (NO_BROKER_EPOCH, controller.registration(state.broker_id).epoch)
        return controller.is_active(state.broker_id) and state.broker_epoch in epochs

    error = isr_controller.refusal(partition, sender, partition_data, may_be_in_sync)
    if error is not Error.NONE or partition is None:
        return AlterPartitionResponsePartitionData(partition_index=index, error_code=int(error))
    target = TargetState.of(partition)
    target.isr = [state.broker_id for state in partition_data.new_isr_with_epochs]
    target.leader_recovery_state = partition_data.leader_recovery_state
    rules = ElectionRules.of(controller, topic)
    record = elections.change((topic_id, index), partition, target, rules)
    if record is not None:
        records.append(record)
        partition = altered(partition, record)
    return _now(index, sender, partition)


def _now(index: int, sender: int, partition: Partition) -> AlterPartitionResponsePartitionData:
    """Return the new state, or an error if the leader has changed."""
    if partition.leader != sender:
        return AlterPartitionResponsePartitionData(
            partition_index=index, error_code=int(Error.NEW_LEADER_ELECTED)
        )
    return AlterPartitionResponsePartitionData(
        partition_index=index,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        isr=partition.isr,
        leader_recovery_state=partition.leader_recovery_state,
        partition_epoch=partition.partition_epoch,
    )


API = Api(kafka_apis.ALTER_PARTITION, handle, on_reply=in_sync.on_reply)
