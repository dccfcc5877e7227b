"""What of fetch sessions lies in the state: items of the table `fetch_sessions`, and their keys.

    <broker>/session/<session id>            Session
    <broker>/members/<session id>            Members
    <broker>/active/<session id>             Active
    <broker>/cached/<session id>/<identity>  CachedPartition
    <broker>/watchers/<rest of a log's key>  Watchers

The slices of the cache are in `slices.py`, counts of evictions in `fetch_session_counts.py`.
"""

import msgspec

from brokertwin.state.core.schema import ZERO_UUID, Uuid
from brokertwin.state.core.tables import kept


class FetchPartition(msgspec.Struct, array_like=True, gc=False):
    """What a fetch asks of one partition; an empty `topic` is one whose id is not known here.

    Epochs are -1 where the request gives none.
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
        """What a session calls it: its topic, and its number."""
        return f"{called(self.topic_id, self.topic)}/{self.partition}"


class CachedPartition(msgspec.Struct, array_like=True, gc=False):
    """A partition in a session: the latest request for it and what the last answer said.

    `order` gives the partitions of a session their order; the smallest is read first.
    `watched_log` is the key of the log whose changes the session is told of, where there is one.
    """

    requested: FetchPartition
    order: int
    high_watermark: int = -1
    log_start_offset: int = -1
    watched_log: str = ""


class Session(msgspec.Struct):
    """A session without its partitions. Times are ms since 1970.

    `size` is the number of partitions, `cached_size` that when it was last touched, -1 before.
    Whether it is a candidate for eviction is decided when it is touched, as in Kafka.
    `isolation_level` is that of the last request: what is quiet has nothing to show below its end.
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


class Members(msgspec.Struct, array_like=True):
    """The identities of a session's partitions."""

    identities: list[str]


class Active(msgspec.Struct, array_like=True):
    """The identities of the partitions that the next answer of a session may show."""

    identities: list[str]


class Watchers(msgspec.Struct, array_like=True):
    """The sessions that are told of a log's changes, and what the partition is called in each."""

    entries: list[tuple[int, str]]


def called(topic_id: Uuid, name: str) -> str:
    """What a session calls a topic: by its id, or by its name where the request has no id."""
    return topic_id if topic_id != ZERO_UUID else f"={name}"


@kept
def session_key(broker: int, session_id: int) -> str:
    """The key of a session, by which requests wait for a change of any of its logs."""
    return f"{broker}/session/{session_id}"


def members_key(broker: int, session_id: int) -> str:
    """The key of the list of a session's partitions."""
    return f"{broker}/members/{session_id}"


def active_key(broker: int, session_id: int) -> str:
    """The key of the list of those that the next answer may show."""
    return f"{broker}/active/{session_id}"


def partition_key(broker: int, session_id: int, identity: str) -> str:
    """The key of a partition in a session."""
    return f"{broker}/cached/{session_id}/{identity}"


@kept
def watchers_key(log: str) -> str:
    """The key of those who are told of the changes of a log."""
    broker, _, place = log.partition("/")
    return f"{broker}/watchers/{place}"
