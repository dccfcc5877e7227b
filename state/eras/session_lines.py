"""Log lines about fetch sessions, as written by brokers of Kafka 1.1 to 2.x.

Source: seed 000; `FetchSessionCache.maybeCreateSession`, `FullFetchContext` in Kafka 1.1. Enabled
by `brokertwin.trace.sessions`. A full request with epoch 0 writes two lines, each a LineLogged in
the topic `records`.
"""

from collections.abc import Collection

from brokertwin.state.core.records import LineLogged, Record

FIRST_EPOCH = 1
"""The epoch of a new session: that of its request, 0, and one."""


def of_full_request(
    session_id: int, is_privileged: bool, partitions: Collection[str], now: int
) -> list[Record]:
    """The lines for a full request; the session id is 0 if the cache has no room."""
    privileged, size = str(is_privileged).lower(), len(partitions)
    created = (
        f"Created fetch session FetchSession(id={session_id}, privileged={privileged},"
        f" partitionMap.size={size}, creationMs={now}, lastUsedMs={now}, epoch={FIRST_EPOCH})"
    )
    if not session_id:
        created = f"No fetch session created for privileged={privileged}, size={size}."
    returned = (
        f"Full fetch context with session id {session_id} returning ({', '.join(partitions)})"
    )
    return [LineLogged(created), LineLogged(returned)]
