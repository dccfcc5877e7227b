"""The settings that brokers were given while they run, as a machine knows them.

Every machine knows all of them (`given_configs` has the items) and acts on its own; the controller
on those of the cluster. What then holds is computed once (`Table.derived`); where nothing has
changed it is what was given.
"""

from brokertwin.state.cluster import features, given_configs
from brokertwin.state.configs import dynamic_configs
from brokertwin.state.core.records import ConfigChanged, FeatureLevelChanged
from brokertwin.state.core.settings import BrokerSettings
from brokertwin.state.core.tables import Table

_DERIVED = "brokers' settings"


def of_resource(table: Table, machine: int, resource: str) -> dict[str, str]:
    """What a broker was given, by its id, or all of them, by no name."""
    return given_configs.of(table, machine, given_configs.BROKERS, resource)


def apply_changed(table: Table, machine: int, record: ConfigChanged) -> None:
    """A broker, or all of them, have another value of a setting, or none."""
    given_configs.apply_changed(table, machine, given_configs.BROKERS, record)
    table.derived.pop(_DERIVED, None)


def apply_feature(table: Table, machine: int, record: FeatureLevelChanged) -> None:
    """A feature has another level; of some it is a setting."""
    features.apply_changed(table, machine, record)
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
        levels = features.changed(table, machine)
        if levels:
            found = features.in_settings(found or given, levels)
        derived[machine, broker] = found
    return given if found is None else found
