"""Errors of share groups' fetches and acknowledgements."""

from brokertwin.protocol.errors import Error
from brokertwin.recordings.rules.rule import Rule

SESSIONS = "state/share/share_sessions.py"
MANAGER = "KIP-932; SharePartitionManager"

RULES: dict[int, Rule] = {
    Error.INVALID_RECORD_STATE: Rule(
        "The member acknowledges records that it does not hold: their locks expired, another"
        " member has them, or they are already acknowledged.",
        "KIP-932; SharePartition",
        "The records are delivered again, to this or another member, so processing must be"
        " idempotent. For long processing, raise share.record.lock.duration.ms or renew the lock.",
        "A consumer that is slower than its lock.",
        "state/share/share_partition.py",
    ),
    Error.SHARE_SESSION_NOT_FOUND: Rule(
        "The broker has no share session of this member, or no longer.",
        MANAGER,
        "Clients open a new session.",
        "A broker restart; a leader that moved; a session whose connection ended.",
        SESSIONS,
    ),
    Error.INVALID_SHARE_SESSION_EPOCH: Rule(
        "The request does not have the next epoch of the share session.",
        MANAGER,
        "Clients open a new session.",
        "A request that was sent twice, or whose response was lost.",
        SESSIONS,
    ),
    Error.SHARE_SESSION_LIMIT_REACHED: Rule(
        "The broker has the maximum number of share sessions, and none is idle.",
        MANAGER,
        "Clients retry. Raise group.share.max.share.sessions.",
        "More members than the broker is configured for.",
        "state/apis/share_fetch.py",
    ),
}
