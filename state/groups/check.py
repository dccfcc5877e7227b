"""What must hold of groups: members, their waits and their timers agree; offsets have an index."""

from collections.abc import Sequence

from brokertwin.state.cluster.coordinators import GROUP_TOPIC, leads
from brokertwin.state.core import pending
from brokertwin.state.core.check import ALL, Touched, Violations, by_kind, machine_of
from brokertwin.state.core.kafka_apis import JOIN_GROUP, SYNC_GROUP
from brokertwin.state.core.tables import Tables, escape
from brokertwin.state.groups import groups
from brokertwin.state.groups.classic_group import ClassicGroup
from brokertwin.state.groups.committed_offsets import Committed
from brokertwin.state.groups.kinds import kind_of

LIVING = ("live-group", "live-streams")
"""The kinds of items of groups in the table `live_groups`."""


def check(tables: Tables, brokers: Sequence[int], touched: Touched = ALL) -> Violations:
    """The groups that some brokers coordinate."""
    has_groups = touched.has("groups") or touched.has("live_groups", *LIVING)
    is_led = touched.has("metadata", "topic") or touched.has("cluster", "network")
    are_timers = has_groups or is_led or touched.has_timer(groups.TIMER)
    are_waits = has_groups or is_led or touched.has("pending", "wait")
    if are_timers:
        yield from _groups(tables, {each: _known(tables, each) for each in brokers})
    if are_waits:
        yield from _waits(tables, brokers)
    if touched.has("groups"):
        yield from _offsets(tables)


Known = list[tuple[str, groups.Group, bool]]
"""The groups that a broker knows, by id, and whether it coordinates them."""


def _known(tables: Tables, broker: int) -> Known:
    found: Known = []
    ids = {*groups.written_ids(tables, broker), *groups.living_ids(tables, broker)}
    for group_id in sorted(ids):
        group = groups.known(tables, broker, group_id)
        assert group is not None, group_id
        found.append((group_id, group, _is_there(tables, broker, group_id, group)))
    return found


def _is_there(tables: Tables, broker: int, group_id: str, group: groups.Group) -> bool:
    """Whether a broker coordinates a group, and it is more than written."""
    if not leads(tables, broker, GROUP_TOPIC, group_id):
        return False
    is_classic = isinstance(group, ClassicGroup)
    return not is_classic or groups.living(tables, broker, group_id) is not None


def _groups(tables: Tables, known: dict[int, Known]) -> Violations:
    for broker, found in known.items():
        timers = set(pending.timers_of(tables.pending, f"{groups.TIMER}/{broker}/"))
        written = groups.written_ids(tables, broker)
        for group_id, group, is_there in found:
            mine = {name for name in timers if name.split("/", 1)[0] == escape(group_id)}
            timers -= mine
            if not is_there:
                continue
            running = {groups.timer_of(name)[1] for name in mine}
            for violation in kind_of(group).check(group, running):
                yield f"group {group_id!r} of broker {broker}: {violation}"
            if isinstance(group, ClassicGroup) and not (
                group.members or group.pending or group.is_kept or group_id in written
            ):
                yield f"group {group_id!r} of broker {broker} lives without anybody"
        for name in sorted(timers):
            yield f"the timer {name} of broker {broker} is of no group that lives"


def _waits(tables: Tables, brokers: Sequence[int]) -> Violations:
    """Joins and syncs that wait are those of members."""
    waiting_ids: set[str] = set()
    for key in by_kind(tables.live_groups).get(LIVING[0], ()):
        broker, group = machine_of(key), tables.live_groups.get(key, ClassicGroup)
        if group is None or broker is None or broker not in brokers:
            continue
        ids = _waiting_ids(group)
        if ids and leads(tables, broker, GROUP_TOPIC, group.group_id):
            waiting_ids |= ids
    joins_and_syncs = {
        each.event_id
        for each in pending.requests(tables.pending)
        if each.api_key in (JOIN_GROUP.key, SYNC_GROUP.key)
        and not each.is_held
        and each.state != pending.UNTIL_COMMITTED
    }
    for event_id in sorted(waiting_ids - joins_and_syncs):
        yield f"request {event_id} does not wait, and its member says that it does"
    for event_id in sorted(joins_and_syncs - waiting_ids):
        yield f"request {event_id} waits, and is no member's"


def _waiting_ids(group: ClassicGroup) -> set[str]:
    """The joins and syncs that members say wait."""
    members = group.members.values()
    return {each for m in members for each in (m.join_id, m.sync_id) if each}


def _offsets(tables: Tables) -> Violations:
    table = tables.groups
    kinds = by_kind(table)
    indexed = set()
    for key in kinds.get("committed", []):
        committed = table.get(key, Committed)
        assert committed is not None, key
        broker, _, group = key.split("/")
        if f"{broker}/group/{group}" not in table:
            yield f"{key} is of no group"
        for topic, partitions in committed.partitions.items():
            if not partitions or partitions != sorted(set(partitions)):
                yield f"{key} has the partitions {partitions} of {topic}"
            indexed |= {f"{broker}/offset/{group}/{escape(topic)}/{p}" for p in partitions}
    for key in sorted(indexed ^ set(kinds.get("offset", []))):
        yield f"{key} {'is not there' if key in indexed else 'is in no index'}"
