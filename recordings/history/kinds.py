"""The table of entity kinds."""

from collections.abc import Mapping

from brokertwin.recordings.history import batches, clients, groups, producers, sessions, shares
from brokertwin.recordings.history.entity import EntityKind

KINDS: Mapping[str, EntityKind] = {
    "client": clients.CLIENTS,
    "group": groups.GROUPS,
    "producer": producers.PRODUCERS,
    "producer-in-partition": batches.PRODUCERS,
    "partition": batches.PARTITIONS,
    "session-cache": sessions.CACHES,
    "share-group": shares.SHARE_GROUPS,
}
"""Name of a kind, as in its keys, to the kind."""
