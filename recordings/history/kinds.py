"""The table of entity kinds."""

from collections.abc import Mapping

from brokertwin.recordings.history import batches, groups, producers, sessions, shares
from brokertwin.recordings.history.entity import EntityKind

KINDS: Mapping[str, EntityKind] = {
    "group": groups.GROUPS,
    "producer": producers.PRODUCERS,
    "producer-in-partition": batches.PRODUCERS,
    "acknowledged-offsets": batches.OFFSETS,
    "session-cache": sessions.CACHES,
    "session-opener": sessions.OPENERS,
    "share-group": shares.SHARE_GROUPS,
}
"""Name of a kind, as in its keys, to the kind."""
