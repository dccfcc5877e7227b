"""Changes of a leader's in-sync set by AlterPartition.

Source: seed 004; `Partition.maybeShrinkIsr`, `submitAlterPartition`, `AlterPartitionManager` in
Kafka. A leader checks for replicas to remove every half of replica.lag.time.max.ms. Here the timer
runs only while an in-sync replica is behind and no change is pending, so an idle cluster has no
timer, and neither has a leader that cannot reach the controller. A change is pending until the
controller responds; one that failed for now is sent again by the same timer. Metadata that arrives
first counts as the response.
"""

from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.alter_partition import (
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
)
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.decision import CONTROLLER, Decision, Message
from brokertwin.state.replication import copying, leader
from brokertwin.state.replication.copying import Place
from brokertwin.state.replication.leader import AlterPartitionOutcome


def fire(broker: Broker, _name: str) -> Decision:
    """Timer: remove replicas that are behind for too long; restart while any is behind."""
    lag_time_max_ms = broker.settings.replica_lag_time_max_ms
    messages: list[Message] = []
    has_lagging_replica = False
    for place in copying.places_led(broker):
        leadership, log = copying.mutable_view(broker, place), broker.log(*place)
        assert log is not None, place
        end = log.log_end_offset
        by_time_only = broker.settings.brokertwin_isr_by_time_only
        leaving = leader.out_of_sync(leadership, end, broker.now, lag_time_max_ms, by_time_only)
        if leaving:
            leadership.pending = [each for each in leadership.isr if each not in leaving]
        if leaving or leadership.retries:
            leadership.retries = False
            messages.append(copying.request_isr_change(broker, place, leadership))
        if copying.has_lagging_replica(broker, leadership, log):
            has_lagging_replica = True
    if has_lagging_replica:
        copying.watch_in_sync(broker)
    return Decision(messages=messages)


def on_reply(broker: Broker, message: Message, response: AlterPartitionResponse) -> Decision:
    """Handle the controller's response to AlterPartition."""
    assert message.receiver == CONTROLLER, message
    requests = {
        (topic.topic_id, each.partition_index): each
        for topic in message.body.topics  # type: ignore[attr-defined]
        for each in topic.partitions
    }
    results = [(topic.topic_id, each) for topic in response.topics for each in topic.partitions]
    if response.error_code:
        results = [
            (
                p[0],
                AlterPartitionResponsePartitionData(
                    partition_index=p[1], error_code=response.error_code
                ),
            )
            for p in requests
        ]
    decision = Decision()
    for topic_id, result in results:
        place = (topic_id, result.partition_index)
        broker_ids = [each.broker_id for each in requests[place].new_isr_with_epochs]
        _handle_result(broker, place, broker_ids, result, decision)
    return decision


def _handle_result(
    broker: Broker,
    place: Place,
    broker_ids: list[int],
    result: AlterPartitionResponsePartitionData,
    decision: Decision,
) -> None:
    """Handle one partition of the response, unless metadata has replaced the pending change."""
    known, log = copying.view(broker, place), broker.log(*place)
    if known is None or log is None or known.pending != broker_ids:
        return
    leadership = copying.mutable_view(broker, place)
    error = Error(result.error_code)
    epochs = (result.leader_epoch, result.partition_epoch)
    outcome = leader.handle_alter_partition(leadership, error, *epochs, result.isr)
    copying.watch_if_behind(broker, leadership, log)
    if outcome is AlterPartitionOutcome.COMMITTED:
        decision.copies += copying.expansion(broker, place, leadership)
        raised = copying.high_watermark_raise(broker, place, leadership, log)
        decision.records += [raised] if raised is not None else []
