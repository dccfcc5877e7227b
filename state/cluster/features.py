"""Features of a cluster: supported and finalized levels (KIP-584).

A cluster starts with the levels of its Kafka version (`brokertwin.kafka.version`), except two that
are settings (`brokertwin.transaction.version`, `brokertwin.eligible.leader.replicas.version`).
UpdateFeatures changes them. Each feature's code checks its level: `group.version` 0 disables
consumer groups, `share.version` 0 share groups, `transaction.version` 1 the epoch bumps at the end
of transactions.
`metadata.version` cannot be changed here.

Item of the table `metadata`: `<machine>/features`, the changed levels. Source:
`FeatureControlManager`, `QuorumFeatures`, `Feature` in Kafka.
"""

from typing import NamedTuple

import msgspec

from brokertwin.state.core.records import FeatureLevelChanged
from brokertwin.state.core.settings import BrokerSettings
from brokertwin.state.core.tables import MachineTables

GROUP = "group.version"
KRAFT = "kraft.version"
METADATA = "metadata.version"
TRANSACTION = "transaction.version"
ELIGIBLE = "eligible.leader.replicas.version"
SHARE = "share.version"
STREAMS = "streams.version"


class FeatureRange(NamedTuple):
    """Supported levels of a feature, both inclusive."""

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
"""Features of Kafka 4.3.1, in the order of its ApiVersions."""

_SUPPORTED_4_4 = SUPPORTED | {METADATA: FeatureRange(7, 33), SHARE: FeatureRange(0, 2)}


def supported(broker_settings: BrokerSettings) -> dict[str, FeatureRange]:
    return _SUPPORTED_4_4 if broker_settings.is_4_4 else SUPPORTED


class FinalizedLevels(msgspec.Struct):
    levels: dict[str, int]


def _key(at: MachineTables) -> str:
    return f"{at.prefix}/features"


def changed(at: MachineTables) -> dict[str, int]:
    levels = at.tables.metadata.get(_key(at), FinalizedLevels)
    return levels.levels if levels is not None else {}


def finalized(at: MachineTables, broker_settings: BrokerSettings) -> dict[str, int]:
    """Level of every feature, 0 if not finalized, in the order of Kafka's responses.

    `broker_settings` are the initial settings.
    """
    return {
        GROUP: 1,
        KRAFT: 0,
        STREAMS: 1,
        TRANSACTION: broker_settings.brokertwin_transaction_version,
        ELIGIBLE: broker_settings.brokertwin_eligible_leader_replicas_version,
        SHARE: supported(broker_settings)[SHARE].last,
        METADATA: supported(broker_settings)[METADATA].last,
    } | changed(at)


def apply_changed(at: MachineTables, record: FeatureLevelChanged) -> None:
    levels = changed(at) | {record.name: record.level}
    at.tables.metadata.put(_key(at), FinalizedLevels(levels))


def in_settings(settings: BrokerSettings, levels: dict[str, int]) -> BrokerSettings:
    return msgspec.structs.replace(
        settings,
        brokertwin_transaction_version=levels.get(
            TRANSACTION, settings.brokertwin_transaction_version
        ),
        brokertwin_eligible_leader_replicas_version=levels.get(
            ELIGIBLE, settings.brokertwin_eligible_leader_replicas_version
        ),
    )
