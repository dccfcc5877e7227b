"""Dynamic settings of brokers, groups and client metrics, as a machine's items.

Items of the table `metadata`, one for each resource with settings:

    <machine>/config/<broker>          GivenConfigs
    <machine>/config/cluster           GivenConfigs
    <machine>/group-config/<group>     GivenConfigs
    <machine>/client-metrics/<name>    GivenConfigs

`broker_configs` and `group_configs` apply them.
"""

import msgspec

from brokertwin.state.cluster.image import machine_prefix
from brokertwin.state.core.records import ConfigChanged
from brokertwin.state.core.tables import Table, escape, unescape

BROKERS = "config"
GROUPS = "group-config"
CLIENT_METRICS = "client-metrics"
KINDS = (BROKERS, GROUPS, CLIENT_METRICS)

_ALL_BROKERS = "cluster"
_NOTHING: dict[str, str] = {}


class GivenConfigs(msgspec.Struct):
    """Values by Kafka's names."""

    configs: dict[str, str]


def _prefix(machine: int, kind: str) -> str:
    return f"{machine_prefix(machine)}/{kind}/"


def _key(machine: int, kind: str, name: str) -> str:
    return _prefix(machine, kind) + (escape(name) or _ALL_BROKERS)


def of(table: Table, machine: int, kind: str, name: str) -> dict[str, str]:
    """Settings of a broker (by id), all brokers (by an empty name), or a group."""
    found = table.get(_key(machine, kind, name), GivenConfigs)
    return found.configs if found is not None else _NOTHING


def everything(table: Table, machine: int, kind: str) -> dict[str, dict[str, str]]:
    """Settings of all resources of a kind, by their names in keys."""
    prefix = _prefix(machine, kind)
    return {k.removeprefix(prefix): item.configs for k, item in table.items(prefix, GivenConfigs)}


def names(table: Table, machine: int, kind: str) -> list[str]:
    return sorted(unescape(each) for each in everything(table, machine, kind))


def apply_changed(table: Table, machine: int, kind: str, record: ConfigChanged) -> None:
    """Set or remove a setting."""
    key = _key(machine, kind, record.resource_name)
    if key not in table:
        table.put(key, GivenConfigs({}))
    configs = table.change(key, GivenConfigs).configs
    if record.value is None:
        configs.pop(record.name, None)
    else:
        configs[record.name] = record.value
    if not configs:
        table.drop(key)
