"""Where a share group begins in a partition for which nobody has set it.

`share.auto.offset.reset`: the end of the log, its start, or the first record that is not older than
a duration. Source: `SharePartition.startOffsetDuringInitialization`; KIP-932, KIP-1106.
"""

import re

from brokerstream.state.cluster import group_configs
from brokerstream.state.cluster.machines import Broker
from brokerstream.state.core.schema import Uuid
from brokerstream.state.logs import timestamp_index

_PART = re.compile(r"([\d.,]+)([DHMS])")
_UNITS_MS = {"D": 86_400_000, "H": 3_600_000, "M": 60_000, "S": 1_000}


def settled(broker: Broker, group_id: str, topic_id: Uuid, partition: int) -> int:
    """The offset from which on a group gets records, as its settings say now."""
    log = broker.log(topic_id, partition)
    assert log is not None, (topic_id, partition)
    reset = group_configs.share_offset_reset(broker, group_id)
    if reset == "earliest":
        return log.log_start_offset
    if reset == "latest":
        return log.high_watermark
    oldest = broker.now - duration_ms(reset)
    found = timestamp_index.first_at_or_after(broker.tables.logs, broker.id, log, oldest, False)
    return log.high_watermark if found is None else found.offset


def duration_ms(reset: str) -> int:
    """The milliseconds of `by_duration:PnDTnHnMn.nS`."""
    parts = _PART.findall(reset.partition(":")[2].upper())
    return int(sum(float(count.replace(",", ".")) * _UNITS_MS[unit] for count, unit in parts))
