"""Features of a cluster: what they are, and at which levels they are finalized (KIP-584).

A cluster begins with Kafka 4.3.1's levels; of two of them the broker settings say otherwise
(`brokertwin.transaction.version`, `brokertwin.eligible.leader.replicas.version`).
UpdateFeatures changes them while it runs. What a level means is acted on where its feature is:
`group.version` 0 refuses consumer groups, `share.version` 0 share groups, `transaction.version` 1
the bumps of epochs at the end of
transactions. `metadata.version` can neither rise nor fall here.

An item of the table `metadata`: `<machine>/features`, the levels that have been changed.
Source: `FeatureControlManager`, `QuorumFeatures`, `Feature` in Kafka.
"""

from typing import NamedTuple

import msgspec

from brokertwin.state.cluster.image import machine_prefix
from brokertwin.state.core.records import FeatureLevelChanged
from brokertwin.state.core.settings import BrokerSettings
from brokertwin.state.core.tables import Table

GROUP = "group.version"
KRAFT = "kraft.version"
METADATA = "metadata.version"
TRANSACTION = "transaction.version"
ELIGIBLE = "eligible.leader.replicas.version"
SHARE = "share.version"
STREAMS = "streams.version"


class FeatureRange(NamedTuple):
    """The levels of a feature that brokers can do, both inclusive."""

    first: int
    last: int


SUPPORTED = {
    GROUP: FeatureRange(0, 1),
    KRAFT: FeatureRange(0, 1),
    METADATA: FeatureRange(7, 30),
    SHARE: FeatureRange(0, 1),
    STREAMS: FeatureRange(0, 1),
    TRANSACTION: FeatureRange(0, 2),
    ELIGIBLE: FeatureRange(0, 1),
}
"""What Kafka 4.3.1 has, in the order of its ApiVersions."""


class FinalizedLevels(msgspec.Struct):
    """Levels that are others than in the beginning, by feature."""

    levels: dict[str, int]


def _key(machine: int) -> str:
    return f"{machine_prefix(machine)}/features"


def changed(table: Table, machine: int) -> dict[str, int]:
    """The levels that have been changed since the beginning."""
    found = table.get(_key(machine), FinalizedLevels)
    return found.levels if found is not None else {}


def finalized(table: Table, machine: int, given: BrokerSettings) -> dict[str, int]:
    """Every feature's level, 0 where it is not finalized, in the order of Kafka's answers.

    `given` are the settings of the beginning.
    """
    return {
        GROUP: 1,
        KRAFT: 0,
        STREAMS: 1,
        TRANSACTION: given.brokertwin_transaction_version,
        ELIGIBLE: given.brokertwin_eligible_leader_replicas_version,
        SHARE: 1,
        METADATA: SUPPORTED[METADATA].last,
    } | changed(table, machine)


def apply_changed(table: Table, machine: int, record: FeatureLevelChanged) -> None:
    """A feature has another level."""
    levels = changed(table, machine) | {record.name: record.level}
    table.put(_key(machine), FinalizedLevels(levels))


def in_settings(settings: BrokerSettings, levels: dict[str, int]) -> BrokerSettings:
    """The settings with the levels of the features that are settings in the beginning."""
    return msgspec.structs.replace(
        settings,
        brokertwin_transaction_version=levels.get(
            TRANSACTION, settings.brokertwin_transaction_version
        ),
        brokertwin_eligible_leader_replicas_version=levels.get(
            ELIGIBLE, settings.brokertwin_eligible_leader_replicas_version
        ),
    )
