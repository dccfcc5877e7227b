"""UpdateFeatures (key 57, versions 0 to 2): change feature levels.

Runs on the controller. Source: KIP-584, KIP-778; `FeatureControlManager.updateFeature` in Kafka;
responses of 4.3.1. One invalid update rejects the whole request (95 INVALID_UPDATE_VERSION).
The error message is that of the first invalid feature, in the order of a Java `HashMap`. The last
level of a duplicate feature counts. Checks, in this order:

    no ALTER on the cluster                          31 CLUSTER_AUTHORIZATION_FAILED
    an unknown upgrade type
    a negative level
    a feature or level that brokers do not support
    a level below the current one, as an upgrade
    a level above the current one, as a downgrade
    `metadata.version` or `kraft.version` downgraded

Version 0 has upgrades only; like in Kafka, even its `allowDowngrade` does not lower a level.
"""

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from brokertwin.state.access.authorizer import Operation, needs
from brokertwin.state.cluster import features
from brokertwin.state.cluster.machines import Controller
from brokertwin.state.core.api import Api, Refused
from brokertwin.state.core.decision import Decision, Request
from brokertwin.state.core.java_hashes import hash_order
from brokertwin.state.core.records import FeatureLevelChanged, Record

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3


def handle(controller: Controller, request: Request) -> Decision:
    body: UpdateFeaturesRequest = request.body
    if not controller.allows_cluster(request, Operation.ALTER):
        raise Refused(Error.CLUSTER_AUTHORIZATION_FAILED, needs(Operation.ALTER))
    updates = {update.feature: update for update in body.feature_updates}
    broker_settings = controller.cell.broker_settings
    levels = features.finalized(controller, broker_settings)
    for name in hash_order(updates, len(updates)):
        fault = _fault(controller, updates[name], levels.get(name, 0), request.version)
        if fault is not None:
            text = "The update failed for all features since the following feature had an error: "
            raise Refused(Error.INVALID_UPDATE_VERSION, text + fault)
    records: list[Record] = [
        FeatureLevelChanged(name, update.max_version_level)
        for name, update in updates.items()
        if update.max_version_level != levels[name]
    ]
    is_only_checked = body.validate_only and request.version > 0
    done = [UpdatableFeatureResult(feature=update.feature) for update in body.feature_updates]
    return Decision(
        records=[] if is_only_checked else records, response=UpdateFeaturesResponse(results=done)
    )


def _fault(controller: Controller, update: FeatureUpdateKey, now: int, version: int) -> str | None:
    """Return Kafka's error message; `now` is the feature's current level."""
    name, level = update.feature, update.max_version_level
    kind = update.upgrade_type if version > 0 else UPGRADE
    why = _support_error(controller, name, level)
    if kind not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        why = "The controller does not support the given upgrade type."
    elif level < 0:
        why = "A feature version cannot be less than 0."
    elif why is not None:
        pass
    elif level < now and kind == UPGRADE:
        why = (
            "Can't downgrade the version of this feature without setting the upgrade type to either"
            " safe or unsafe downgrade."
        )
    elif level > now and kind != UPGRADE:
        why = "Can't downgrade to a newer version."
    elif level < now and name == features.METADATA:
        return f"Unsupported metadata.version downgrade from {now} to {level}. {_LOSSES[kind]}"
    elif level < now and name == features.KRAFT:
        why = "Can't downgrade the version of this feature."
    return f"Invalid update version {level} for feature {name}. {why}" if why else None


_LOSSES = {
    SAFE_DOWNGRADE: "Refusing to perform the requested downgrade because it might delete metadata"
    " information.",
    UNSAFE_DOWNGRADE: "Unsafe metadata downgrade is not supported in this version.",
}


def _support_error(controller: Controller, name: str, level: int) -> str | None:
    """Return the error of an unsupported level, first the controller's."""
    levels = features.supported(controller.cell.broker_settings).get(name)
    who = f"Local controller {controller.cell.brokers[0]}"
    if levels is None:
        if level == 0:
            return f"Feature {name} not found."
        return f"{who} does not support this feature."
    if not levels.first <= level <= levels.last:
        return f"{who} only supports versions {levels.first}-{levels.last}"
    return None


API = Api(kafka_apis.UPDATE_FEATURES, handle)
