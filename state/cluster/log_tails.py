"""The ends of a machine's logs, with the rules of their topics."""

from brokertwin.protocol.bodies import Uuid
from brokertwin.state.cluster import image, retention_limits
from brokertwin.state.cluster.topic_rules import TopicRules
from brokertwin.state.core.tables import CellTables
from brokertwin.state.logs.log import UNSEALED, Log, log_key
from brokertwin.state.logs.log_tail import LogTail


class PartitionTail(LogTail):
    """The end of a log, with the rules of its topic.

    Attributes:
        topic_rules: if the machine leads the partition, enough replicas are in sync, and any client
            may write to the topic; None if this is not known.
    """

    __slots__ = ("topic_rules",)

    topic_rules: TopicRules | None


def tail_of(
    tables: CellTables, machine: int, topic_id: Uuid, partition: int
) -> PartitionTail | None:
    """The end of a log, or None if the machine does not have the log."""
    found: PartitionTail | None = tables.tails.get((machine, topic_id, partition))
    return found or _opened(tables, machine, topic_id, partition)


def _opened(
    tables: CellTables, machine: int, topic_id: Uuid, partition: int
) -> PartitionTail | None:
    log = tables.logs.get(log_key(machine, topic_id, partition), Log)
    if log is None:
        return None
    rules = None
    if log.topic not in UNSEALED:
        rules = retention_limits.rolling_rules_in(tables, machine, topic_id)
    is_only_replica = image.replica_count(tables.metadata, machine, topic_id, partition) == 1
    found = PartitionTail((tables.logs, tables.producers), machine, log, rules, is_only_replica)
    found.topic_rules = None
    tables.tails[machine, topic_id, partition] = found
    return found
