"""Initial start offset of a share group in a partition.

share.auto.offset.reset: latest, earliest, or the first record within a duration. Source:
`SharePartition.startOffsetDuringInitialization` in Kafka; KIP-932, KIP-1106.
"""

from brokertwin.state.cluster import group_configs
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.schema import Uuid
from brokertwin.state.logs import timestamp_index


def initial_offset(broker: Broker, group_id: str, topic_id: Uuid, partition: int) -> int:
    """Return the offset by the group's current settings."""
    log = broker.log(topic_id, partition)
    assert log is not None, (topic_id, partition)
    reset = group_configs.share_offset_reset(broker, group_id)
    if reset == "earliest":
        return log.log_start_offset
    if reset == "latest":
        return log.high_watermark
    since_ms = group_configs.since_ms(reset)
    if since_ms is None:  # beyond Java's range; older versions accepted it
        return log.log_start_offset
    oldest = broker.now - since_ms
    found = timestamp_index.first_at_or_after(broker.tables.logs, broker.id, log, oldest, False)
    return log.high_watermark if found is None else found.offset
