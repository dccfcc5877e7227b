"""Which replica a consumer reads a partition from: its leader, or one in its rack (KIP-392).

Source: `SubscriptionState.preferredReadReplica`, `AbstractFetch.selectReadReplica` and
`FetchCollector.handleInitializeErrors` in Kafka.

    the leader names a replica     the next fetches go to it, for metadata.max.age.ms
    that time is over              the leader is asked again, and may name one again
    the replica is not there       the leader is asked, and new metadata is
    1 OFFSET_OUT_OF_RANGE of it    the leader is asked: it may have what the replica has not
    6, 74, 75, others, no answer   the same, with new metadata
"""

from collections.abc import Collection

from brokertwin.clients.metadata_snapshot import MetadataSnapshot
from brokertwin.clients.partitions import TopicPartition


class PreferredReplicas:
    """What leaders have named, by partition; times in ms."""

    def __init__(self, lasts_ms: int) -> None:
        self._lasts_ms = lasts_ms
        self._named: dict[TopicPartition, tuple[int, int]] = {}

    def name(self, partition: TopicPartition, replica: int, now: int) -> None:
        """A leader has named a replica; one that is named again lasts as long as it did."""
        former = self._named.get(partition)
        if former is None or former[0] != replica:
            self._named[partition] = (replica, now + self._lasts_ms)

    def of(self, partition: TopicPartition, now: int) -> int | None:
        """The replica to ask, None for the leader."""
        replica, until = self._named.get(partition, (None, 0))
        if replica is not None and now >= until:
            del self._named[partition]
            return None
        return replica

    def is_there(self, partition: TopicPartition, replica: int, snapshot: MetadataSnapshot) -> bool:
        """Whether the replica can be asked; if not the leader is, from now on."""
        known = snapshot.partitions[partition]
        is_offline = replica not in snapshot.nodes or replica in known.offline_ids
        if is_offline:
            self.forget(partition)
        return not is_offline

    def forget(self, partition: TopicPartition) -> bool:
        """The leader is asked from now on; tells whether it was not."""
        return self._named.pop(partition, None) is not None

    def keep(self, partitions: Collection[TopicPartition]) -> None:
        """Forgets those that are assigned no more."""
        if self._named:
            self._named = {each: at for each, at in self._named.items() if each in partitions}
