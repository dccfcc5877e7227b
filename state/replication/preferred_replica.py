"""Fetching from the closest replica (KIP-392): the preferred read replica.

Source: `ReplicaManager.findPreferredReadReplica`, `RackAwareReplicaSelector`, `ReplicaView` in
Kafka. The leader returns the replica's id without records. The consumer fetches from it until its
metadata expire or the replica returns an error.

    replica.selector.class             preferred replica
    none, LeaderSelector               none
    RackAwareReplicaSelector           none if the consumer has no rack, or the leader's; else an
                                       in-sync replica in its rack with the fetch offset: the
                                       greatest log end, then last caught up, then the greatest id
    another class                      none
"""

from brokertwin.state.cluster.image import Partition
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.replication import copying
from brokertwin.state.replication.leader import Replica
from brokertwin.state.replication.throttles import Place

NO_REPLICA = -1

RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


def may_prefer(broker: Broker, partition: Partition, rack_id: str) -> bool:
    """True if a consumer in this rack may get a preferred replica, now or later."""
    if not rack_id or partition.leader != broker.id:
        return False
    if broker.settings.replica_selector_class != RACK_AWARE:
        return False
    return broker.rack_of(broker.id) != rack_id


def preferred(
    broker: Broker, place: Place, partition: Partition, rack_id: str, fetch_offset: int
) -> int:
    if not may_prefer(broker, partition, rack_id):
        return NO_REPLICA
    leadership = copying.view_or_initial(broker, place)

    def most(replica_id: int) -> tuple[int, int, int]:
        replica = leadership.replicas[replica_id]
        return replica.log_end_offset, replica.last_caught_up, replica_id

    nearby = [
        each
        for each, replica in leadership.replicas.items()
        if each in leadership.isr and broker.is_alive(each)
        if broker.rack_of(each) == rack_id and _has(replica, fetch_offset)
    ]
    return max(nearby, key=most, default=NO_REPLICA)


def _has(replica: Replica, fetch_offset: int) -> bool:
    return replica.log_start_offset <= fetch_offset <= replica.log_end_offset
