"""Dynamic settings of brokers, groups and client metrics, as a machine's items.

Items of the table `metadata`, one for each resource with settings:

    <machine>/config/<broker>          GivenConfigs
    <machine>/config/cluster           GivenConfigs
    <machine>/group-config/<group>     GivenConfigs
    <machine>/client-metrics/<name>    GivenConfigs

`broker_configs` and `group_configs` apply them.
"""

import msgspec

from brokertwin.state.core.records import ConfigChanged
from brokertwin.state.core.tables import MachineTables, escape, unescape

BROKERS = "config"
GROUPS = "group-config"
CLIENT_METRICS = "client-metrics"
KINDS = (BROKERS, GROUPS, CLIENT_METRICS)

_ALL_BROKERS = "cluster"
_NOTHING: dict[str, str] = {}


class GivenConfigs(msgspec.Struct):
    """Values by Kafka's names."""

    configs: dict[str, str]


def _key(at: MachineTables, kind: str, name: str) -> str:
    return f"{at.prefix}/{kind}/{escape(name) or _ALL_BROKERS}"


def of(at: MachineTables, kind: str, name: str) -> dict[str, str]:
    """Settings of a broker (by id), all brokers (by an empty name), or a group."""
    configs = at.tables.metadata.get(_key(at, kind, name), GivenConfigs)
    return configs.configs if configs is not None else _NOTHING


def everything(at: MachineTables, kind: str) -> dict[str, dict[str, str]]:
    """Settings of all resources of a kind, by their names in keys."""
    prefix = f"{at.prefix}/{kind}/"
    return {
        k.removeprefix(prefix): item.configs
        for k, item in at.tables.metadata.items(prefix, GivenConfigs)
    }


def names(at: MachineTables, kind: str) -> list[str]:
    return sorted(unescape(each) for each in everything(at, kind))


def apply_changed(at: MachineTables, kind: str, record: ConfigChanged) -> None:
    """Set or remove a setting."""
    key = _key(at, kind, record.resource_name)
    if key not in at.tables.metadata:
        at.tables.metadata.put(key, GivenConfigs({}))
    configs = at.tables.metadata.change(key, GivenConfigs).configs
    if record.value is None:
        configs.pop(record.name, None)
    else:
        configs[record.name] = record.value
    if not configs:
        at.tables.metadata.drop(key)
