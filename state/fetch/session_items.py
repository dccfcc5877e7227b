"""Items of fetch sessions in the table `fetch_sessions`, and their keys.

    <broker>/session/<session id>            FetchSession
    <broker>/members/<session id>            Members
    <broker>/active/<session id>             Active
    <broker>/cached/<session id>/<identity>  CachedFetchPartition
    <broker>/watchers/<rest of a log's key>  Watchers

Shards of the cache are in `shards.py`, counts of evictions in `fetch_session_counts.py`.
"""

import msgspec

from brokertwin.protocol.bodies import ZERO_UUID, Uuid
from brokertwin.state.core.tables import cached_key


class FetchPartition(msgspec.Struct, array_like=True, gc=False):
    """A requested partition; `topic` is empty if its id is unknown here.

    Epochs are -1 if the request has none.
    """

    topic_id: Uuid
    topic: str
    partition: int
    fetch_offset: int
    max_bytes: int
    log_start_offset: int
    current_leader_epoch: int
    last_fetched_epoch: int

    @property
    def identity(self) -> str:
        """Identity in a session: topic and number."""
        return f"{topic_identity(self.topic_id, self.topic)}/{self.partition}"


class CachedFetchPartition(msgspec.Struct, array_like=True, gc=False):
    """A partition in a session: its latest request, and the last response.

    Partitions are read in ascending `order`. `watched_log` is the key of its log, if it has one.
    """

    requested: FetchPartition
    order: int
    high_watermark: int = -1
    log_start_offset: int = -1
    watched_log: str = ""


class FetchSession(msgspec.Struct):
    """A session without its partitions. Times are ms since 1970.

    `size` is the number of partitions, `cached_size` that at the last touch, -1 before. As in
    Kafka, a touch decides if the session can be evicted. `isolation_level` is that of the last
    request. A follower sends no request here if nothing has changed, so its session (`is_polling`)
    never counts as idle.
    """

    session_id: int
    client_id: str
    is_privileged: bool
    uses_topic_ids: bool
    creation_ms: int
    last_used_ms: int
    epoch: int
    size: int = 0
    cached_size: int = -1
    next_order: int = 0
    is_evictable_by_all: bool = False
    is_evictable_by_privileged: bool = False
    isolation_level: int = 0
    is_polling: bool = False


class Members(msgspec.Struct, array_like=True):
    """Identities of a session's partitions."""

    identities: list[str]


class Active(msgspec.Struct, array_like=True):
    """Identities of the partitions that the next response may show."""

    identities: list[str]


class Watchers(msgspec.Struct, array_like=True):
    """Sessions that watch a log, and the partition's identity in each."""

    entries: list[tuple[int, str]]


def topic_identity(topic_id: Uuid, name: str) -> str:
    """Identity of a topic in a session: its id, or its name in requests without ids."""
    return topic_id if topic_id != ZERO_UUID else f"={name}"


@cached_key
def session_key(broker: int, session_id: int) -> str:
    """Key of a session; pending fetches wait for it."""
    return f"{broker}/session/{session_id}"


def members_key(broker: int, session_id: int) -> str:
    return f"{broker}/members/{session_id}"


def active_key(broker: int, session_id: int) -> str:
    return f"{broker}/active/{session_id}"


def partition_key(broker: int, session_id: int, identity: str) -> str:
    return f"{broker}/cached/{session_id}/{identity}"


@cached_key
def watchers_key(log: str) -> str:
    broker, _, place = log.partition("/")
    return f"{broker}/watchers/{place}"
