"""The settings that brokers were given while they run, as a machine knows them.

An item of the table `metadata` for each broker, and for all of them:

    <machine>/config/<broker>     BrokerConfigs
    <machine>/config/cluster      BrokerConfigs

Every machine knows all of them and acts on its own; the controller on those of the cluster. What
then holds is computed once (`Table.derived`), where nothing has changed it is what was given.
"""

import msgspec

from brokerstream.state.cluster.image import machine_prefix
from brokerstream.state.configs import dynamic_configs
from brokerstream.state.core.records import ConfigChanged
from brokerstream.state.core.settings import BrokerSettings
from brokerstream.state.core.tables import Table, escape

_ALL_BROKERS = "cluster"
_DERIVED = "brokers' settings"
_NOTHING: dict[str, str] = {}


class BrokerConfigs(msgspec.Struct):
    """Texts by Kafka's names."""

    configs: dict[str, str]


def _key(machine: int, resource: str) -> str:
    return f"{machine_prefix(machine)}/config/{escape(resource) or _ALL_BROKERS}"


def of_resource(table: Table, machine: int, resource: str) -> dict[str, str]:
    """What a broker was given, by its id, or all of them, by no name."""
    found = table.get(_key(machine, resource), BrokerConfigs)
    return found.configs if found is not None else _NOTHING


def everything(table: Table, machine: int) -> dict[str, dict[str, str]]:
    """All that brokers were given, by their names in keys."""
    prefix = f"{machine_prefix(machine)}/config/"
    return {k.removeprefix(prefix): i.configs for k, i in table.items(prefix, BrokerConfigs)}


def apply_changed(table: Table, machine: int, record: ConfigChanged) -> None:
    """A broker, or all of them, have another value of a setting, or none."""
    key = _key(machine, record.resource_name)
    if key not in table:
        table.put(key, BrokerConfigs({}))
    configs = table.change(key, BrokerConfigs).configs
    if record.value is None:
        configs.pop(record.name, None)
    else:
        configs[record.name] = record.value
    if not configs:
        table.drop(key)
    table.derived.pop(_DERIVED, None)


def settings_of(table: Table, machine: int, broker: int, given: BrokerSettings) -> BrokerSettings:
    """What holds for a broker, or for the controller, that was `given` these settings."""
    derived: dict[tuple[int, int], BrokerSettings | None] | None = table.derived.get(_DERIVED)
    if derived is None:
        derived = table.derived[_DERIVED] = {}
    try:
        found = derived[machine, broker]
    except KeyError:
        of_cluster = of_resource(table, machine, "")
        of_broker = of_resource(table, machine, str(broker))
        found = None
        if of_cluster or of_broker:
            found = dynamic_configs.layered(given, of_cluster, of_broker)
        derived[machine, broker] = found
    return given if found is None else found
