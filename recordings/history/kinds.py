"""The table of entity kinds."""

from collections.abc import Mapping

from brokertwin.recordings.history import batches, producers, sessions
from brokertwin.recordings.history.entity import EntityKind

KINDS: Mapping[str, EntityKind] = {
    "producer": producers.PRODUCERS,
    "producer-in-partition": batches.PRODUCERS,
    "acknowledged-offsets": batches.OFFSETS,
    "session-cache": sessions.CACHES,
    "session-opener": sessions.OPENERS,
}
"""Name of a kind, as in its keys, to the kind."""
