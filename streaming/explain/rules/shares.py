"""Errors of share groups' fetches and acknowledgements."""

from brokertwin.state.core.errors import Error
from brokertwin.streaming.explain.rules.rule import Rule

SESSIONS = "state/share/share_sessions.py"
MANAGER = "KIP-932; SharePartitionManager"

RULES: dict[int, Rule] = {
    Error.INVALID_RECORD_STATE: Rule(
        "The member acknowledges records that it does not hold: their lock is over, somebody else"
        " has them, or they are acknowledged.",
        "KIP-932; SharePartition",
        "The records come again, to this member or another one. Work that is repeated has to do no"
        " harm; raise share.record.lock.duration.ms where it takes longer, or renew the lock.",
        "A consumer that is slower than its lock.",
        "state/share/share_partition.py",
    ),
    Error.SHARE_SESSION_NOT_FOUND: Rule(
        "The broker knows no share session of this member, or no longer.",
        MANAGER,
        "Clients open a new one by themselves.",
        "A broker that was started again; a leader that moved; a session whose connection ended.",
        SESSIONS,
    ),
    Error.INVALID_SHARE_SESSION_EPOCH: Rule(
        "The request has another epoch than the one that comes next in the share session.",
        MANAGER,
        "Clients open a new session by themselves.",
        "A request that was sent twice, or whose answer was lost.",
        SESSIONS,
    ),
    Error.SHARE_SESSION_LIMIT_REACHED: Rule(
        "The broker has as many share sessions as it may; none was silent for too long.",
        MANAGER,
        "Clients try again by themselves; raise group.share.max.share.sessions.",
        "More members than the broker was set up for.",
        "state/apis/share_fetch.py",
    ),
}
