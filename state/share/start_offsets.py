"""Where a share group begins in a partition for which nobody has set it.

`share.auto.offset.reset`: the end of the log, its start, or the first record that is not older than
a duration. Source: `SharePartition.startOffsetDuringInitialization`; KIP-932, KIP-1106.
"""

from brokertwin.state.cluster import group_configs
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.schema import Uuid
from brokertwin.state.logs import timestamp_index


def initial_offset(broker: Broker, group_id: str, topic_id: Uuid, partition: int) -> int:
    """The offset from which on a group gets records, as its settings say now."""
    log = broker.log(topic_id, partition)
    assert log is not None, (topic_id, partition)
    reset = group_configs.share_offset_reset(broker, group_id)
    if reset == "earliest":
        return log.log_start_offset
    if reset == "latest":
        return log.high_watermark
    since_ms = group_configs.since_ms(reset)
    if since_ms is None:  # longer than Java counts, which former versions took
        return log.log_start_offset
    oldest = broker.now - since_ms
    found = timestamp_index.first_at_or_after(broker.tables.logs, broker.id, log, oldest, False)
    return log.high_watermark if found is None else found.offset
