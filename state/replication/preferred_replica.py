"""Which replica a consumer had better read: one in its rack, in place of the leader (KIP-392).

Source: `ReplicaManager.findPreferredReadReplica`, `RackAwareReplicaSelector`, `ReplicaView` in
Kafka. The leader answers with the replica's id and without records; the consumer goes there until
its metadata are old, or the replica refuses it.

    replica.selector.class             the leader names
    none, LeaderSelector               nobody
    RackAwareReplicaSelector           nobody for a consumer that is in no rack, or in the leader's;
                                       else of the in-sync replicas in its rack that have what it
                                       asks for the one that has most: by log end offset, then who
                                       was caught up last, then the greater id
    another class                      nobody: it is not here
"""

from brokertwin.state.cluster.image import Partition
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.replication import copying
from brokertwin.state.replication.leader import Replica
from brokertwin.state.replication.throttles import Place

NO_REPLICA = -1

RACK_AWARE = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
BY_LEADER = "org.apache.kafka.common.replica.LeaderSelector"


def may_prefer(broker: Broker, partition: Partition, rack_id: str) -> bool:
    """Whether a consumer in this rack may be told of another replica, now or later."""
    if not rack_id or partition.leader != broker.id:
        return False
    if broker.settings.replica_selector_class != RACK_AWARE:
        return False
    return broker.rack_of(broker.id) != rack_id


def preferred(
    broker: Broker, place: Place, partition: Partition, rack_id: str, fetch_offset: int
) -> int:
    """The replica that a consumer had better read from this offset on, -1 for the leader."""
    if not may_prefer(broker, partition, rack_id):
        return NO_REPLICA
    leadership = copying.known_or_new(broker, place)

    def most(replica_id: int) -> tuple[int, int, int]:
        known = leadership.replicas[replica_id]
        return known.log_end_offset, known.last_caught_up, replica_id

    nearby = [
        each
        for each, replica in leadership.replicas.items()
        if each in leadership.isr and broker.is_alive(each)
        if broker.rack_of(each) == rack_id and _has(replica, fetch_offset)
    ]
    return max(nearby, key=most, default=NO_REPLICA)


def _has(replica: Replica, fetch_offset: int) -> bool:
    return replica.log_start_offset <= fetch_offset <= replica.log_end_offset
