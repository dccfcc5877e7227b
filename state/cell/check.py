"""`check(cell)`: what must hold between all items of a cell, between two events.

Each room checks its own items; here is what lies across rooms, and that there is nothing else.
No job pays for it: tests have it after every event, and `brokerstream replay --check`.
"""

from functools import partial

from brokerstream.state.cell.cell import Cell
from brokerstream.state.cluster import check as cluster
from brokerstream.state.core import check as core
from brokerstream.state.core import waiting
from brokerstream.state.core.check import (
    Violations,
    by_kind,
    machine_of,
    names_machine,
    of_keys,
)
from brokerstream.state.core.decision import Waiting
from brokerstream.state.core.tables import TABLE_NAMES, Tables
from brokerstream.state.core.waiting import NO_DEADLINE
from brokerstream.state.fetch import check as fetch
from brokerstream.state.fetch.session_items import Active, CachedPartition, Session
from brokerstream.state.fetch.slices import Slices
from brokerstream.state.groups import check as groups
from brokerstream.state.logs import check as logs
from brokerstream.state.logs.log import Log
from brokerstream.state.replication import check as replication
from brokerstream.state.replication import network
from brokerstream.state.share import check as share
from brokerstream.state.transactions import check as transactions

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
            *("producer-id-request", "wished-dirs", "leading", "network", "told", "heard"),
            *("checkpointing", "checkpointed", "busy", "held"),
        }
    ),
}
"""The kinds of items that each table has."""


class ViolationError(AssertionError):
    """An invariant of a cell does not hold; the sentences say which."""


def check(cell: Cell) -> list[str]:
    """What does not hold, in words; nothing where all does."""
    tables, settings = cell.tables, cell.settings
    stopped = network.stopped(tables.waiting)
    unread = [each for each in settings.brokers if network.is_severed(tables.waiting, each)]
    running = [broker for broker in settings.brokers_here if broker not in stopped]
    slices = Slices.of(settings.broker_settings)
    return [
        *_kinds(tables, settings.brokers_here),
        *core.check(tables.waiting),
        *logs.check(tables.logs, tables.producers),
        *cluster.check(tables, settings.brokers_here, settings.has_controller, [*stopped, *unread]),
        *replication.check(tables),
        *fetch.check(tables.sessions, settings.brokers_here, slices),
        *groups.check(tables, running),
        *share.check(tables),
        *transactions.check(tables, running),
        *_quiet_partitions(tables),
        *_waits(tables),
        *_deadline(cell),
    ]


def hold(cell: Cell) -> None:
    """Raises ViolationError where `check` finds something."""
    violations = check(cell)
    if violations:
        raise ViolationError("; ".join(violations))


def _kinds(tables: Tables, brokers: list[int]) -> Violations:
    for name in TABLE_NAMES:
        for kind, keys in by_kind(tables[name]).items():
            if kind not in KINDS[name]:
                yield f"the table `{name}` has items of an unknown kind: {keys[0]}"
        nobodys, by_broker = of_keys(tables[name], "owners", partial(_owners, name))
        for key in nobodys:
            yield f"{key} in the table `{name}` does not say whose it is"
        for broker in sorted(by_broker.keys() - set(brokers)):
            for key in by_broker[broker]:
                yield f"{key} is of broker {broker}, which this cell does not hold"


def _owners(name: str, keys: list[str]) -> tuple[list[str], dict[int, list[str]]]:
    """The keys of the table `name` that do not say whose they are, and those of each broker."""
    by_broker: dict[int, list[str]] = {}
    for key in keys:
        broker = machine_of(key)
        if broker is not None:
            by_broker.setdefault(broker, []).append(key)
    return [key for key in keys if not names_machine(name, key)], by_broker


def _quiet_partitions(tables: Tables) -> Violations:
    """What a session does not look at has nothing to show."""
    for key in by_kind(tables.sessions).get("cached", []):
        broker, _, session_id, identity = key.split("/", 3)
        cached = tables.sessions.get(key, CachedPartition)
        active = tables.sessions.get(f"{broker}/active/{session_id}", Active)
        session = tables.sessions.get(f"{broker}/session/{session_id}", Session)
        if not cached or not active or not session or identity in active.identities:
            continue
        log = tables.logs.get(cached.watched_log, Log)
        end = log.readable_end(session.isolation_level) if log is not None else 0
        if log is None or cached.requested.fetch_offset < end:
            yield f"session {session_id} does not look at {identity}, which has records for it"
        elif cached.high_watermark != log.high_watermark:
            yield f"session {session_id} has not shown the high watermark of {identity}"
        elif cached.log_start_offset != log.log_start_offset:
            yield f"session {session_id} has not shown the log start offset of {identity}"


def _waits(tables: Tables) -> Violations:
    """Nobody waits for what is not there and nothing else."""
    for key in by_kind(tables.waiting).get("watch", []):
        watched = key.removeprefix("watch/")
        if _is_there(tables, watched):
            continue
        watch = tables.waiting.get(key, waiting.Watch)
        waits = [waiting.get(tables.waiting, each) for each in (watch.event_ids if watch else ())]
        is_session = "/session/" in watched
        if not all(wait and _goes_on(tables, wait, is_session) for wait in waits):
            yield f"somebody waits for {watched}, which is not there"


def _goes_on(tables: Tables, wait: Waiting, is_session: bool) -> bool:
    """Whether a wait ends without what has gone meanwhile.

    A session may be closed or evicted: then time ends the wait. Of a Produce's logs one may be
    deleted while others are waited for.
    """
    if wait.deadline == NO_DEADLINE:
        return False
    return is_session or any(_is_there(tables, each) for each in wait.logs)


def _is_there(tables: Tables, watched: str) -> bool:
    return watched in tables.logs or watched in tables.sessions


def _deadline(cell: Cell) -> Violations:
    """The clock knows of the earliest deadline."""
    earliest = waiting.earliest(cell.tables.waiting)
    outstanding = cell.meta.outstanding
    if earliest is not None and (outstanding == NO_DEADLINE or outstanding > earliest[0]):
        yield f"the deadline {earliest[0]} of {earliest[1]} was not announced"
