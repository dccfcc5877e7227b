"""The replica that a consumer reads from: the leader, or one nearby (KIP-392).

Source: `SubscriptionState.preferredReadReplica`, `AbstractFetch.selectReadReplica` and
`FetchCollector.handleInitializeErrors` in Kafka.

    the leader names a replica     fetch from it for metadata.max.age.ms
    that time is over              fetch from the leader, which may name one again
    the replica is offline         fetch from the leader, and refresh metadata
    its 1 OFFSET_OUT_OF_RANGE      fetch from the leader, which may have the offset
    any other error, no response   fetch from the leader, and refresh metadata
"""

from collections.abc import Collection

from brokertwin.clients.metadata_snapshot import MetadataSnapshot
from brokertwin.clients.partitions import TopicPartition


class PreferredReplicas:
    """Preferred replicas by partition; times in ms."""

    def __init__(self, lasts_ms: int) -> None:
        self._lasts_ms = lasts_ms
        self._named: dict[TopicPartition, tuple[int, int]] = {}

    def name(self, partition: TopicPartition, replica: int, now: int) -> None:
        """Set the replica that a leader named; naming it again does not extend it."""
        former = self._named.get(partition)
        if former is None or former[0] != replica:
            self._named[partition] = (replica, now + self._lasts_ms)

    def of(self, partition: TopicPartition, now: int) -> int | None:
        """The replica to fetch from, or None for the leader."""
        replica, until = self._named.get(partition, (None, 0))
        if replica is not None and now >= until:
            del self._named[partition]
            return None
        return replica

    def is_available(
        self, partition: TopicPartition, replica: int, snapshot: MetadataSnapshot
    ) -> bool:
        """Whether the replica is online; if not, falls back to the leader."""
        info = snapshot.partitions[partition]
        is_offline = replica not in snapshot.nodes or replica in info.offline_ids
        if is_offline:
            self.forget(partition)
        return not is_offline

    def forget(self, partition: TopicPartition) -> bool:
        """Fall back to the leader; returns whether a replica was set."""
        return self._named.pop(partition, None) is not None

    def keep(self, partitions: Collection[TopicPartition]) -> None:
        if self._named:
            self._named = {each: at for each, at in self._named.items() if each in partitions}
