"""Dynamic settings of brokers in a machine's image.

Every machine has those of all brokers (`given_configs` has the items), and applies its own; the
controller applies the cluster's. The resulting settings are computed once (`Table.derived`).
"""

from brokertwin.state.cluster import features, given_configs
from brokertwin.state.configs import dynamic_configs
from brokertwin.state.core.applying import applies
from brokertwin.state.core.records import ConfigChanged, FeatureLevelChanged
from brokertwin.state.core.settings import BrokerSettings
from brokertwin.state.core.tables import MachineTables

_DERIVED = "brokers' settings"


def of_resource(at: MachineTables, resource: str) -> dict[str, str]:
    """Dynamic settings of a broker by its id, or the cluster's default for an empty name."""
    return given_configs.of(at, given_configs.BROKERS, resource)


def apply_changed(at: MachineTables, record: ConfigChanged) -> None:
    given_configs.apply_changed(at, given_configs.BROKERS, record)
    at.tables.metadata.derived.pop(_DERIVED, None)


@applies(FeatureLevelChanged)
def apply_feature(at: MachineTables, record: FeatureLevelChanged) -> None:
    """Apply a feature level, because some features are settings."""
    features.apply_changed(at, record)
    at.tables.metadata.derived.pop(_DERIVED, None)


def settings_of(at: MachineTables, broker: int, broker_settings: BrokerSettings) -> BrokerSettings:
    """Settings in effect at a broker or the controller; `broker_settings` are its static ones."""
    derived = at.tables.metadata.derived
    kept: dict[tuple[int, int], BrokerSettings | None] | None = derived.get(_DERIVED)
    if kept is None:
        kept = derived[_DERIVED] = {}
    try:
        settings = kept[at.id, broker]
    except KeyError:
        of_cluster = of_resource(at, "")
        of_broker = of_resource(at, str(broker))
        settings = None
        if of_cluster or of_broker:
            settings = dynamic_configs.layered(broker_settings, of_cluster, of_broker)
        levels = features.changed(at)
        if levels:
            settings = features.in_settings(settings or broker_settings, levels)
        kept[at.id, broker] = settings
    return broker_settings if settings is None else settings
