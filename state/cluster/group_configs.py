"""The settings that single groups were given, as a machine knows them (KIP-1071's `GROUP`).

Also where there is no such group (`given_configs` has the items).
A coordinator looks here with each heartbeat, so a change holds from a member's next one on.
"""

from brokertwin.state.cluster import given_configs
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.configs import durations, group_configs
from brokertwin.state.configs.config_keys import trim
from brokertwin.state.core.tables import Table
from brokertwin.state.logs.log import READ_COMMITTED

_NANOS_IN_MS = 1_000_000


def of_group(table: Table, machine: int, group_id: str) -> dict[str, str]:
    """What a group was given."""
    return given_configs.of(table, machine, given_configs.GROUPS, group_id)


def group_ids(broker: Broker) -> list[str]:
    """The groups that were given settings, sorted; also those that do not exist."""
    return given_configs.names(broker.tables.metadata, broker.id, given_configs.GROUPS)


def _number(broker: Broker, group_id: str, name: str, otherwise: int) -> int:
    own = of_group(broker.tables.metadata, broker.id, group_id)
    return group_configs.number(name, own, broker.settings) if name in own else otherwise


def session_timeout_ms(broker: Broker, group_id: str) -> int:
    """After how long a consumer group's member that says nothing is gone."""
    otherwise = broker.settings.group_consumer_session_timeout_ms
    return _number(broker, group_id, group_configs.SESSION, otherwise)


def heartbeat_interval_ms(broker: Broker, group_id: str) -> int:
    """How often a consumer group's members are to send heartbeats."""
    otherwise = broker.settings.group_consumer_heartbeat_interval_ms
    return _number(broker, group_id, group_configs.HEARTBEAT, otherwise)


def share_session_timeout_ms(broker: Broker, group_id: str) -> int:
    """After how long a share group's member that says nothing is gone."""
    return of_kind(broker, group_id, "share.session.timeout.ms")


def share_heartbeat_interval_ms(broker: Broker, group_id: str) -> int:
    """How often a share group's members are to send heartbeats."""
    return of_kind(broker, group_id, "share.heartbeat.interval.ms")


def share_assignment_interval_ms(broker: Broker, group_id: str) -> int:
    """The least time between two target assignments of a share group."""
    return of_kind(broker, group_id, "share.assignment.interval.ms")


def of_kind(broker: Broker, group_id: str, name: str) -> int:
    """A setting of share and streams groups: the group's own, else the broker's."""
    own = of_group(broker.tables.metadata, broker.id, group_id)
    return group_configs.number(name, own, broker.settings)


def share_flag(broker: Broker, group_id: str, name: str) -> bool:
    """The same for one that is true or false; the broker has none behind it."""
    return _share_text(broker, group_id, name) == "true"


def share_offset_reset(broker: Broker, group_id: str) -> str:
    """Where a share group begins: `earliest`, `latest`, `by_duration:` and a duration."""
    return _share_text(broker, group_id, "share.auto.offset.reset")


def since_ms(reset: str) -> int | None:
    """The milliseconds of `by_duration:` and a duration; None where it is none."""
    found = durations.nanoseconds(reset.removeprefix(group_configs.BY_DURATION))
    return None if found is None else found // _NANOS_IN_MS


def share_isolation(broker: Broker, group_id: str) -> int:
    """Up to where a share group reads: 1 for committed records only, as in Fetch."""
    level = _share_text(broker, group_id, "share.isolation.level")
    return READ_COMMITTED if level == "read_committed" else 0


def _share_text(broker: Broker, group_id: str, name: str) -> str:
    own = of_group(broker.tables.metadata, broker.id, group_id)
    default = group_configs.GROUP_CONFIGS[name].default or ""
    return trim(own.get(name, default)).lower()


def share_max_sessions(broker: Broker) -> int:
    """How many share sessions a broker has at most."""
    return group_configs.of_broker("group.share.max.share.sessions", broker.settings)


def share_max_size(broker: Broker) -> int:
    """How many members a share group may have."""
    return group_configs.of_broker("group.share.max.size", broker.settings)


def share_initialize_retry_ms(broker: Broker) -> int:
    """After how long a share coordinator that has not answered is asked again."""
    name = "group.share.initialize.retry.interval.ms"
    return group_configs.of_broker(name, broker.settings)


def streams_session_timeout_ms(broker: Broker, group_id: str) -> int:
    """After how long a streams group's member that says nothing is gone."""
    return of_kind(broker, group_id, "streams.session.timeout.ms")


def streams_heartbeat_interval_ms(broker: Broker, group_id: str) -> int:
    """How often a streams group's members are to send heartbeats."""
    return of_kind(broker, group_id, "streams.heartbeat.interval.ms")


def streams_assignment_interval_ms(broker: Broker, group_id: str) -> int:
    """The least time between two target assignments of a streams group."""
    return of_kind(broker, group_id, "streams.assignment.interval.ms")


def streams_initial_rebalance_delay_ms(broker: Broker, group_id: str) -> int:
    """How long a streams group waits for more members once the first has come."""
    return of_kind(broker, group_id, "streams.initial.rebalance.delay.ms")


def streams_standby_replicas(broker: Broker, group_id: str) -> int:
    """How many copies of a task with state a streams group has."""
    return of_kind(broker, group_id, "streams.num.standby.replicas")


def streams_max_size(broker: Broker) -> int:
    """How many members a streams group may have."""
    return group_configs.of_broker("group.streams.max.size", broker.settings)


def assignment_interval_ms(broker: Broker, group_id: str) -> int:
    """The least time between two target assignments of a consumer group."""
    otherwise = broker.settings.group_consumer_assignment_interval_ms
    return _number(broker, group_id, group_configs.ASSIGNMENT, otherwise)
