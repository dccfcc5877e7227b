"""The table of entity kinds."""

from collections.abc import Mapping

from brokertwin.recordings.history import sessions
from brokertwin.recordings.history.entity import EntityKind

KINDS: Mapping[str, EntityKind] = {
    "session-cache": sessions.CACHES,
    "session-opener": sessions.OPENERS,
}
"""Name of a kind, as in its keys, to the kind."""
