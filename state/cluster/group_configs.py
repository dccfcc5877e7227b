"""The settings that single groups were given, as a machine knows them (KIP-1071's `GROUP`).

An item of the table `metadata` for each group that has any, also where there is no such group:

    <machine>/group-config/<group>    GroupConfigs

A coordinator looks here with each heartbeat, so a change holds from a member's next one on.
"""

import msgspec

from brokerstream.state.cluster.image import machine_prefix
from brokerstream.state.cluster.machines import Broker
from brokerstream.state.configs import group_configs
from brokerstream.state.core.records import ConfigChanged
from brokerstream.state.core.tables import Table, escape

_NOTHING: dict[str, str] = {}


class GroupConfigs(msgspec.Struct):
    """Texts by Kafka's names."""

    configs: dict[str, str]


def _key(machine: int, group_id: str) -> str:
    return f"{machine_prefix(machine)}/group-config/{escape(group_id)}"


def of_group(table: Table, machine: int, group_id: str) -> dict[str, str]:
    """What a group was given."""
    found = table.get(_key(machine, group_id), GroupConfigs)
    return found.configs if found is not None else _NOTHING


def everything(table: Table, machine: int) -> dict[str, dict[str, str]]:
    """All that groups were given, by their names in keys."""
    prefix = f"{machine_prefix(machine)}/group-config/"
    return {k.removeprefix(prefix): i.configs for k, i in table.items(prefix, GroupConfigs)}


def apply_changed(table: Table, machine: int, record: ConfigChanged) -> None:
    """A group has another value of a setting, or none of its own."""
    key = _key(machine, record.resource_name)
    if key not in table:
        table.put(key, GroupConfigs({}))
    configs = table.change(key, GroupConfigs).configs
    if record.value is None:
        configs.pop(record.name, None)
    else:
        configs[record.name] = record.value
    if not configs:
        table.drop(key)


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


def assignment_interval_ms(broker: Broker, group_id: str) -> int:
    """The least time between two target assignments of a consumer group."""
    otherwise = broker.settings.group_consumer_assignment_interval_ms
    return _number(broker, group_id, group_configs.ASSIGNMENT, otherwise)
