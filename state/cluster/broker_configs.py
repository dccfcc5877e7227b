"""Dynamic settings of brokers in a machine's image.

Every machine has those of all brokers (`given_configs` has the items), and applies its own; the
controller applies the cluster's. The resulting settings are computed once (`Table.derived`).
"""

from brokertwin.state.cluster import features, given_configs
from brokertwin.state.configs import dynamic_configs
from brokertwin.state.core.applying import applies
from brokertwin.state.core.records import ConfigChanged, FeatureLevelChanged
from brokertwin.state.core.settings import BrokerSettings
from brokertwin.state.core.tables import Table

_DERIVED = "brokers' settings"


def of_resource(table: Table, machine: int, resource: str) -> dict[str, str]:
    """Dynamic settings of a broker by its id, or the cluster's default for an empty name."""
    return given_configs.of(table, machine, given_configs.BROKERS, resource)


def apply_changed(table: Table, machine: int, record: ConfigChanged) -> None:
    given_configs.apply_changed(table, machine, given_configs.BROKERS, record)
    table.derived.pop(_DERIVED, None)


@applies(FeatureLevelChanged, to="metadata")
def apply_feature(table: Table, machine: int, record: FeatureLevelChanged) -> None:
    """Apply a feature level, because some features are settings."""
    features.apply_changed(table, machine, record)
    table.derived.pop(_DERIVED, None)


def settings_of(table: Table, machine: int, broker: int, given: BrokerSettings) -> BrokerSettings:
    """Settings in effect at a broker or the controller; `given` are its static ones."""
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
