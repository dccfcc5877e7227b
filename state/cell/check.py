"""`check(cell)`: invariants between all items of a cell, between two events.

Each room checks its own items. This module checks invariants across rooms, and the kinds of items.
Jobs do not run it; tests do after every event, and `brokertwin replay --check`. `Checker` checks
the items that the last event touched, and everything from time to time.
"""

from brokertwin.state.apis.registry import BUILT
from brokertwin.state.cell.cell import Cell
from brokertwin.state.cluster import check as cluster
from brokertwin.state.cluster import image
from brokertwin.state.core import check as core
from brokertwin.state.core import pending
from brokertwin.state.core.bounded_cache import bounded_cache
from brokertwin.state.core.check import (
    ALL,
    KEYS_KNOWN,
    Touched,
    Violations,
    by_kind,
    hand_on_kinds,
    kind_of,
    machine_of,
    names_machine,
)
from brokertwin.state.core.decision import PendingRequest
from brokertwin.state.core.pending import NO_DEADLINE, Pending
from brokertwin.state.core.tables import TABLE_NAMES, CellTables
from brokertwin.state.fetch import check as fetch
from brokertwin.state.fetch.session_items import Active, CachedFetchPartition, FetchSession
from brokertwin.state.fetch.shards import ShardLayout
from brokertwin.state.groups import check as groups
from brokertwin.state.logs import check as logs
from brokertwin.state.logs.log import Log, topic_id_of
from brokertwin.state.replication import check as replication
from brokertwin.state.replication import network
from brokertwin.state.share import check as share
from brokertwin.state.transactions import check as transactions

KINDS: dict[str, frozenset[str]] = {
    "logs": frozenset({"log", "chunk", "sealed", "aborted", "rolled"}),
    "producers": frozenset({"producer"}),
    "fetch_sessions": frozenset(
        {
            *("session", "members", "active", "cached", "watchers", "shard", "next-shard"),
            *("evictions", "follower"),
        }
    ),
    "shares": frozenset({"share-session", "share-partition"}),
    "live_groups": frozenset({"live-group", "live-streams"}),
    "quotas": frozenset({"rate", "bucket"}),
    "client_instances": frozenset({"client-instance", "client-instances"}),
    "groups": frozenset({"group", "committed", "offset", "pending", "pending-in", "share-state"}),
    "transactions": frozenset({"id"}),
    "metadata": frozenset(
        {
            *(
                "topic",
                "name",
                "topics-created",
                "acl",
                "acl-id",
                "acl-prefixes",
                "quota",
                "quotas",
            ),
            *("producer-ids", "latest_producer_id_block", "broker", "config", "group-config"),
            "client-metrics",
            *("token", "token-digest"),
            *("features", "metadata-log"),
        }
    ),
    "pending": frozenset({"wait", "commit", "watch", "timer", "late-metadata", "late-messages"}),
    "in_flight": frozenset({"verifications", "producer-id-request", "busy"}),
    "replication": frozenset(
        ("leading", "held", "checkpointing", "checkpointed", "wished-dirs", "failed-dirs")
    ),
    "cluster": frozenset({"network", "told", "heard"}),
}
"""The kinds of items in each table."""


class ViolationError(AssertionError):
    """An invariant of a cell is violated; the message lists the violations."""


def check(cell: Cell, touched: Touched = ALL) -> list[str]:
    """Return the violations as sentences.

    Args:
        cell: between two events.
        touched: the items touched since a check without violations; no others are checked.
    """
    return [each for part in PARTS for each in part(cell, touched)]


def hold(cell: Cell, touched: Touched = ALL) -> None:
    """Raise ViolationError if `check` returns violations."""
    violations = check(cell, touched)
    if violations:
        raise ViolationError("; ".join(violations))


class Checker:
    """Checks a cell after each event, but only the touched items.

    An item that was read and then written without a note is found by every `whole_every`th check,
    which checks everything.
    """

    def __init__(self, whole_every: int) -> None:
        self._whole_every = whole_every
        self._looks = 0
        self._since_begun: Keys | None = None
        """Items touched in the checked cell, and `_not_seen` before it; None for all."""
        self._not_seen: Keys | None = None
        self._tables: CellTables | None = None

    def begin(self, cell: Cell) -> None:
        """Start with a cell before its first event, in the state of the former cell's last commit.

        Items touched in the former cell are checked again because they were encoded or rolled back.
        If nothing was checked yet, the items of the former cell remain to be checked.
        """
        if self._tables is not None:
            for name in TABLE_NAMES:
                hand_on_kinds(self._tables[name], cell.tables[name])
        self._tables = cell.tables
        cell.tables.take_touched()
        self._not_seen, self._since_begun = _joined(self._not_seen, self._since_begun), {}

    def hold(self, cell: Cell) -> None:
        """Raise ViolationError if an invariant is violated after an event."""
        touched = cell.tables.take_touched()
        keys = (
            None
            if touched is None
            else {name: dict.fromkeys(each) for name, each in touched.items() if each}
        )
        self._looks += 1
        self._since_begun = _joined(self._since_begun, keys)
        not_seen, self._not_seen = _joined(self._not_seen, keys), {}
        hold(cell, ALL if self._looks % self._whole_every == 0 else Touched(not_seen))


Keys = dict[str, dict[str, None]]
"""Keys of items by table, in the order in which they were touched."""


def _joined(one: Keys | None, other: Keys | None) -> Keys | None:
    """Add the second to the first and return it; None if either is None."""
    if one is None or other is None:
        return None
    for name, keys in other.items():
        if keys:
            one.setdefault(name, {}).update(keys)
    return one


def _kinds(tables: CellTables, brokers: list[int], touched: Touched) -> Violations:
    for name in TABLE_NAMES:
        table = tables[name]
        for key in touched.keys(name, table):
            if key not in table:
                continue
            broker, wrong = _read(name, key)
            yield from wrong
            if broker is not None and broker not in brokers:
                yield f"{key} is of broker {broker}, which this cell does not hold"


@bounded_cache(KEYS_KNOWN)
def _read(name: str, key: str) -> tuple[int | None, list[str]]:
    """Return the broker that a key names, if any, and the faults of the key."""
    wrong = []
    if kind_of(key) not in KINDS[name]:
        wrong.append(f"the table `{name}` has items of an unknown kind: {key}")
    if not names_machine(name, key):
        wrong.append(f"{key} in the table `{name}` does not name its machine")
    return machine_of(key), wrong


def _quiet_partitions(tables: CellTables, touched: Touched) -> Violations:
    """Check that partitions a session does not look at have no news."""
    if not touched.has("fetch_sessions", *fetch.KINDS) and not touched.has("logs", "log"):
        return
    for key in by_kind(tables.fetch_sessions).get("cached", []):
        active_key, session_key, session_id, identity = _of_cached(key)
        active = tables.fetch_sessions.get(active_key, Active)
        if not active or identity in active.identities:
            continue
        cached = tables.fetch_sessions.get(key, CachedFetchPartition)
        session = tables.fetch_sessions.get(session_key, FetchSession)
        if not cached or not session:
            continue
        log = tables.logs.get(cached.watched_log, Log)
        end = log.readable_end(session.isolation_level) if log is not None else 0
        if log is None or cached.requested.fetch_offset < end:
            yield f"session {session_id} does not look at {identity}, which has records for it"
        elif cached.high_watermark != log.high_watermark:
            yield f"session {session_id} has not shown the high watermark of {identity}"
        elif cached.log_start_offset != log.log_start_offset:
            yield f"session {session_id} has not shown the log start offset of {identity}"


@bounded_cache(KEYS_KNOWN)
def _of_cached(key: str) -> tuple[str, str, str, str]:
    """Return the active item's key, the session's key and id, and the identity of a partition."""
    broker, _, session_id, identity = key.split("/", 3)
    return f"{broker}/active/{session_id}", f"{broker}/session/{session_id}", session_id, identity


def _orphaned_pending(tables: CellTables, touched: Touched) -> Violations:
    """Check that nothing pending waits only for a missing log or session."""
    is_gone = touched.is_gone("logs", tables.logs, "log")
    is_gone = is_gone or touched.is_gone("fetch_sessions", tables.fetch_sessions, "session")
    if not is_gone and not touched.has("pending", "wait", "commit", "watch"):
        return
    for key in by_kind(tables.pending).get("watch", []):
        watched = key.removeprefix("watch/")
        if _is_there(tables, watched):
            continue
        watch = tables.pending.get(key, pending.Watch)
        watching = [
            pending.get(tables.pending, each) for each in (watch.event_ids if watch else ())
        ]
        is_session = "/session/" in watched
        has_topic = not is_session and _has_topic(tables, watched)
        if not all(each and _goes_on(tables, each, is_session, has_topic) for each in watching):
            yield f"somebody waits for {watched}, which is not there"


def _goes_on(tables: CellTables, item: Pending, is_session: bool, has_topic: bool) -> bool:
    """Whether something pending resumes without the log or session that is gone.

    A session can be closed or evicted. Another broker can lead a partition of an existing topic
    whose records a member of a share group waits for. In both cases time resumes the request. A
    Produce continues if one of its logs is deleted.
    """
    if item.deadline == NO_DEADLINE:
        return False
    outlives = isinstance(item, PendingRequest) and BUILT[item.api_key].outlives_leader
    if is_session or (has_topic and outlives):
        return True
    return any(_is_there(tables, each) for each in item.logs)


def _has_topic(tables: CellTables, watched: str) -> bool:
    """Whether the topic of a log still exists."""
    broker = machine_of(watched)
    assert broker is not None, watched
    return image.topic_by_id(tables.of(broker), topic_id_of(watched)) is not None


def _is_there(tables: CellTables, watched: str) -> bool:
    return watched in tables.logs or watched in tables.fetch_sessions


def _deadline(cell: Cell) -> Violations:
    deadlines, outstanding = pending.deadlines(cell.tables.pending), cell.meta.outstanding
    if outstanding != NO_DEADLINE and deadlines.first >= outstanding:
        return
    earliest = deadlines.earliest()
    if earliest is not None and (outstanding == NO_DEADLINE or outstanding > earliest[0]):
        yield f"the deadline {earliest[0]} of {earliest[1]} was not announced"


def _machines(cell: Cell, touched: Touched) -> Violations:
    tables, settings = cell.tables, cell.settings
    stopped = network.stopped(tables.cluster)
    unread = [each for each in settings.brokers if network.is_severed(tables.cluster, each)]
    brokers, silent = settings.brokers_here, [*stopped, *unread]
    yield from _kinds(tables, brokers, touched)
    yield from core.check(tables.pending, touched)
    yield from cluster.check(tables, brokers, settings.has_controller, silent, touched)


def _logs(cell: Cell, touched: Touched) -> Violations:
    yield from logs.check(cell.tables, touched)
    yield from replication.check(cell.tables, touched)


def _fetch(cell: Cell, touched: Touched) -> Violations:
    settings = cell.settings
    layout = ShardLayout.of(settings.broker_settings)
    yield from fetch.check(cell.tables.fetch_sessions, settings.brokers_here, layout, touched)
    yield from _quiet_partitions(cell.tables, touched)


def _groups(cell: Cell, touched: Touched) -> Violations:
    yield from groups.check(cell.tables, _running(cell), touched)


def _transactions(cell: Cell, touched: Touched) -> Violations:
    yield from transactions.check(cell.tables, _running(cell), touched)


def _share(cell: Cell, touched: Touched) -> Violations:
    yield from share.check(cell.tables, touched)


def _pending(cell: Cell, touched: Touched) -> Violations:
    yield from _orphaned_pending(cell.tables, touched)
    yield from _deadline(cell)


def _running(cell: Cell) -> list[int]:
    stopped = network.stopped(cell.tables.cluster)
    return [broker for broker in cell.settings.brokers_here if broker not in stopped]


PARTS = (_machines, _logs, _fetch, _groups, _transactions, _share, _pending)
"""Checks that can be done apart."""
