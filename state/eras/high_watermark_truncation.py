"""Followers that truncate to their high watermark, as before KIP-101.

Source: seed 004; `ReplicaManager.makeFollowers` in Kafka 0.10. Enabled by `brokertwin.truncation`
hw. Such a follower sends no leader epoch in its fetches, and its truncation can lose committed
records.
"""

from collections.abc import Iterable

from brokertwin.protocol.bodies import Uuid
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.decision import Decision
from brokertwin.state.core.records import LogTruncated, Record


def is_enabled(broker: Broker) -> bool:
    return broker.settings.brokertwin_truncation == "hw"


def become_follower(broker: Broker, places: Iterable[tuple[Uuid, int]]) -> Decision:
    """Truncate the logs that have a new leader; no-op if disabled."""
    records: list[Record] = []
    for topic_id, partition in places if is_enabled(broker) else ():
        topic, log = broker.topic_by_id(topic_id), broker.log(topic_id, partition)
        if topic is None or log is None or partition >= len(topic.partitions):
            continue
        is_leader = topic.partitions[partition].leader == broker.id
        if not is_leader and log.high_watermark < log.log_end_offset:
            records.append(LogTruncated(topic_id, partition, log.high_watermark))
    return Decision(records=records)
