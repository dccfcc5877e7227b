"""How a leader's in-sync set changes: it finds out, the controller decides, it hears of it.

Source: seed 004; `Partition.maybeShrinkIsr`, `submitAlterPartition`, `AlterPartitionManager` in
Kafka. A leader looks for replicas that have to leave every half of replica.lag.time.max.ms; here
only while it has some that do not have all and may ask for a change, so that an idle cluster has no
timer, and no leader that the controller does not hear. What it wants is pending until the
controller has answered; a wish that was refused for now is told again by the same timer. Metadata
that comes first counts as the answer.
"""

from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.decision import CONTROLLER, Decision, Message
from brokertwin.state.core.errors import Error
from brokertwin.state.core.wire.generated.alter_partition import (
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
)
from brokertwin.state.replication import copying, leader
from brokertwin.state.replication.copying import Place
from brokertwin.state.replication.leader import Answered


def fire(broker: Broker, _name: str) -> Decision:
    """The timer: who is behind for too long has to leave; it runs on while somebody is behind."""
    lag_time_max_ms = broker.settings.replica_lag_time_max_ms
    messages: list[Message] = []
    is_anyone_behind = False
    for place in copying.places_led(broker):
        leadership, log = copying.changeable(broker, place), broker.log(*place)
        assert log is not None, place
        end = log.log_end_offset
        by_time_only = broker.settings.brokertwin_isr_by_time_only
        leaving = leader.out_of_sync(leadership, end, broker.now, lag_time_max_ms, by_time_only)
        if leaving:
            leadership.pending = [each for each in leadership.isr if each not in leaving]
        if leaving or leadership.retries:
            leadership.retries = False
            messages.append(copying.wish(broker, place, leadership))
        if copying.is_anyone_behind(broker, leadership, log):
            is_anyone_behind = True
    if is_anyone_behind:
        copying.watch_in_sync(broker)
    return Decision(messages=messages)


def on_reply(broker: Broker, message: Message, response: AlterPartitionResponse) -> Decision:
    """The leader takes the controller's answer."""
    assert message.receiver == CONTROLLER, message
    wishes = {
        (topic.topic_id, each.partition_index): each
        for topic in message.body.topics  # type: ignore[attr-defined]
        for each in topic.partitions
    }
    answers = [(topic.topic_id, each) for topic in response.topics for each in topic.partitions]
    if response.error_code:
        answers = [
            (
                p[0],
                AlterPartitionResponsePartitionData(
                    partition_index=p[1], error_code=response.error_code
                ),
            )
            for p in wishes
        ]
    decision = Decision()
    for topic_id, answer in answers:
        place = (topic_id, answer.partition_index)
        wanted = [each.broker_id for each in wishes[place].new_isr_with_epochs]
        _answered(broker, place, wanted, answer, decision)
    return decision


def _answered(
    broker: Broker,
    place: Place,
    wanted: list[int],
    answer: AlterPartitionResponsePartitionData,
    decision: Decision,
) -> None:
    """Takes the answer to what is still wanted; metadata may have come before it."""
    known, log = copying.known(broker, place), broker.log(*place)
    if known is None or log is None or known.pending != wanted:
        return
    leadership = copying.changeable(broker, place)
    error = Error(answer.error_code)
    epochs = (answer.leader_epoch, answer.partition_epoch)
    found = leader.answered(leadership, error, *epochs, answer.isr)
    copying.watch_if_behind(broker, leadership, log)
    if found is Answered.COMMITTED:
        decision.copies += copying.expansion(broker, place, leadership)
        raised = copying.raised(broker, place, leadership, log)
        decision.records += [raised] if raised is not None else []
