"""`check(cell)`: what must hold between all items of a cell, between two events.

Each room checks its own items; here is what lies across rooms, and that there is nothing else.
No job pays for it: tests have it after every event, and `brokertwin replay --check`. Who looks
after every event (`Checker`) looks at what the event has touched, and now and then at all.
"""

from brokertwin.state.apis.registry import BUILT
from brokertwin.state.cell.cell import Cell
from brokertwin.state.cluster import check as cluster
from brokertwin.state.cluster import image
from brokertwin.state.core import check as core
from brokertwin.state.core import waiting
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
from brokertwin.state.core.decision import Waiting
from brokertwin.state.core.remembered import remembering
from brokertwin.state.core.tables import TABLE_NAMES, Tables
from brokertwin.state.core.waiting import NO_DEADLINE
from brokertwin.state.fetch import check as fetch
from brokertwin.state.fetch.session_items import Active, CachedPartition, Session
from brokertwin.state.fetch.slices import Slices
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
    "sessions": frozenset(
        {
            *("session", "members", "active", "cached", "watchers", "shard", "next-shard"),
            *("evictions", "rate", "bucket", "live-group", "live-streams"),
            *("share-session", "share-partition", "client-instance", "client-instances"),
        }
    ),
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
    "waiting": frozenset(
        {
            *("wait", "watch", "timer", "late-metadata", "late-messages", "verifications"),
            *(
                "producer-id-request",
                "wished-dirs",
                "failed-dirs",
                "leading",
                "network",
                "told",
                "heard",
            ),
            *("checkpointing", "checkpointed", "busy", "held"),
        }
    ),
}
"""The kinds of items that each table has."""


class ViolationError(AssertionError):
    """An invariant of a cell does not hold; the sentences say which."""


def check(cell: Cell, touched: Touched = ALL) -> list[str]:
    """What does not hold, in words; nothing where all does.

    `touched`: where a check has found nothing, what was touched since; nothing else is looked at.
    """
    tables, settings = cell.tables, cell.settings
    stopped = network.stopped(tables.waiting)
    unread = [each for each in settings.brokers if network.is_severed(tables.waiting, each)]
    running = [broker for broker in settings.brokers_here if broker not in stopped]
    slices = Slices.of(settings.broker_settings)
    return [
        *_kinds(tables, settings.brokers_here, touched),
        *core.check(tables.waiting, touched),
        *logs.check(tables.logs, tables.producers, touched),
        *cluster.check(
            tables,
            settings.brokers_here,
            settings.has_controller,
            [*stopped, *unread],
            touched,
        ),
        *replication.check(tables, touched),
        *fetch.check(tables.sessions, settings.brokers_here, slices, touched),
        *groups.check(tables, running, touched),
        *share.check(tables, touched),
        *transactions.check(tables, running, touched),
        *_quiet_partitions(tables, touched),
        *_waits(tables, touched),
        *_deadline(cell),
    ]


def hold(cell: Cell, touched: Touched = ALL) -> None:
    """Raises ViolationError where `check` finds something."""
    violations = check(cell, touched)
    if violations:
        raise ViolationError("; ".join(violations))


class Checker:
    """Holds a cell after each event, and looks only at what the event has touched.

    What nobody notes as touched, an item that was got for reading and written all the same, is
    found by every `whole_every`th check, which looks at all there is.
    """

    def __init__(self, whole_every: int) -> None:
        self._whole_every = whole_every
        self._looks = 0
        self._since_begun: Keys | None = None
        """What was touched in the cell that is held, and `_not_seen` before it; None: anything."""
        self._not_seen: Keys | None = None
        self._tables: Tables | None = None

    def begin(self, cell: Cell) -> None:
        """A cell before its first event, with the state as of the last commit of the one before.

        What was touched in the one before is looked at again: it was encoded, or is undone. One
        that begins before anything was held has what the one before it had to look at.
        """
        if self._tables is not None:
            for name in TABLE_NAMES:
                hand_on_kinds(self._tables[name], cell.tables[name])
        self._tables = cell.tables
        cell.tables.take_touched()
        self._not_seen, self._since_begun = _joined(self._not_seen, self._since_begun), {}

    def hold(self, cell: Cell) -> None:
        """Raises ViolationError where something does not hold after an event."""
        found = cell.tables.take_touched()
        keys = (
            None
            if found is None
            else {name: dict.fromkeys(each) for name, each in found.items() if each}
        )
        self._looks += 1
        self._since_begun = _joined(self._since_begun, keys)
        not_seen, self._not_seen = _joined(self._not_seen, keys), {}
        hold(cell, ALL if self._looks % self._whole_every == 0 else Touched(not_seen))


Keys = dict[str, dict[str, None]]
"""Keys of items by table, each in the order in which they were touched."""


def _joined(one: Keys | None, other: Keys | None) -> Keys | None:
    """The first, which grows by the second; None where either is not known."""
    if one is None or other is None:
        return None
    for name, keys in other.items():
        if keys:
            one.setdefault(name, {}).update(keys)
    return one


def _kinds(tables: Tables, brokers: list[int], touched: Touched) -> Violations:
    for name in TABLE_NAMES:
        table = tables[name]
        for key in touched.keys(name, table):
            if key not in table:
                continue
            broker, wrong = _read(name, key)
            yield from wrong
            if broker is not None and broker not in brokers:
                yield f"{key} is of broker {broker}, which this cell does not hold"


@remembering(KEYS_KNOWN)
def _read(name: str, key: str) -> tuple[int | None, list[str]]:
    """The broker that a key of a table names, if it does, and what is wrong with the key."""
    wrong = []
    if kind_of(key) not in KINDS[name]:
        wrong.append(f"the table `{name}` has items of an unknown kind: {key}")
    if not names_machine(name, key):
        wrong.append(f"{key} in the table `{name}` does not say whose it is")
    return machine_of(key), wrong


def _quiet_partitions(tables: Tables, touched: Touched) -> Violations:
    """What a session does not look at has nothing to show."""
    if not touched.has("sessions", *fetch.KINDS) and not touched.has("logs", "log"):
        return
    for key in by_kind(tables.sessions).get("cached", []):
        active_key, session_key, session_id, identity = _of_cached(key)
        active = tables.sessions.get(active_key, Active)
        if not active or identity in active.identities:
            continue
        cached = tables.sessions.get(key, CachedPartition)
        session = tables.sessions.get(session_key, Session)
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


@remembering(KEYS_KNOWN)
def _of_cached(key: str) -> tuple[str, str, str, str]:
    """Of a cached partition: the keys of its session's two items, the session, its identity."""
    broker, _, session_id, identity = key.split("/", 3)
    return f"{broker}/active/{session_id}", f"{broker}/session/{session_id}", session_id, identity


def _waits(tables: Tables, touched: Touched) -> Violations:
    """Nobody waits for what is not there and nothing else."""
    is_gone = touched.is_gone("logs", tables.logs, "log")
    is_gone = is_gone or touched.is_gone("sessions", tables.sessions, "session")
    if not is_gone and not touched.has("waiting", "wait", "watch"):
        return
    for key in by_kind(tables.waiting).get("watch", []):
        watched = key.removeprefix("watch/")
        if _is_there(tables, watched):
            continue
        watch = tables.waiting.get(key, waiting.Watch)
        waits = [waiting.get(tables.waiting, each) for each in (watch.event_ids if watch else ())]
        is_session = "/session/" in watched
        has_topic = not is_session and _has_topic(tables, watched)
        if not all(wait and _goes_on(tables, wait, is_session, has_topic) for wait in waits):
            yield f"somebody waits for {watched}, which is not there"


def _goes_on(tables: Tables, wait: Waiting, is_session: bool, has_topic: bool) -> bool:
    """Whether a wait ends without what has gone meanwhile.

    A session may be closed or evicted, and another broker lead a partition of a topic that is still
    there, of which a share group's member waits for records: then time ends the wait. Of a
    Produce's logs one may be deleted while others are waited for.
    """
    if wait.deadline == NO_DEADLINE:
        return False
    api = BUILT.get(wait.api_key)
    if is_session or (has_topic and api is not None and api.outlives_leader):
        return True
    return any(_is_there(tables, each) for each in wait.logs)


def _has_topic(tables: Tables, watched: str) -> bool:
    """Whether the topic of a log is still there."""
    broker = machine_of(watched)
    assert broker is not None, watched
    return image.topic_by_id(tables.metadata, broker, topic_id_of(watched)) is not None


def _is_there(tables: Tables, watched: str) -> bool:
    return watched in tables.logs or watched in tables.sessions


def _deadline(cell: Cell) -> Violations:
    """The clock knows of the earliest deadline."""
    earliest = waiting.earliest(cell.tables.waiting)
    outstanding = cell.meta.outstanding
    if earliest is not None and (outstanding == NO_DEADLINE or outstanding > earliest[0]):
        yield f"the deadline {earliest[0]} of {earliest[1]} was not announced"
