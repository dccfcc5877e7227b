"""ApiVersions (key 18, versions 0 to 4): supported APIs and features.

For any other version the response is `35 UNSUPPORTED_VERSION` and lists only the versions of this
API, so that the client can retry (KIP-511). On the wire that response has the format of version 0.
From version 3, an invalid client software name or version is `42 INVALID_REQUEST`. Version 3 omits
features with a minimum version of 0.

`finalizedFeaturesEpoch` is the offset of the last record of the metadata log. In Kafka it also
grows over time (NoOpRecords).

Sources: `ApiKeys`, `ApiVersionsRequest`, `ApiVersionManager` in Kafka; KIP-35, KIP-511, KIP-584.
"""

import re

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from brokertwin.protocol.kafka_apis import API_VERSIONS, KAFKA_APIS
from brokertwin.state.cluster import features, metadata_log
from brokertwin.state.cluster.machines import Machine
from brokertwin.state.core.api import Api
from brokertwin.state.core.decision import CONTROLLER, Decision, Request
from brokertwin.state.core.settings import BrokerSettings
from brokertwin.state.core.tables import Table

_FIRST, _LAST = 0, 4

_LISTED_FIRST = {0: 0}
"""PRODUCE is listed from version 0 because of old librdkafka clients."""

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


_API_KEYS = [
    ApiVersion(api_key=key, min_version=_LISTED_FIRST.get(key, api.first), max_version=api.last)
    for key, api in KAFKA_APIS.items()
    if api.is_listed
]

_SUPPORTED_FEATURES = [
    SupportedFeatureKey(name=name, min_version=levels.first, max_version=levels.last)
    for name, levels in features.SUPPORTED.items()
]


def _finalized(machine: Machine | None) -> list[FinalizedFeatureKey]:
    """Return the finalized features; a feature at level 0 is not finalized."""
    if machine is None:
        levels = features.finalized(Table(), CONTROLLER, BrokerSettings())
    else:
        table = machine.tables.metadata
        levels = features.finalized(table, machine.id, machine.cell.broker_settings)
    return [
        FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
        for name, level in levels.items()
        if level > 0
    ]


def _epoch(machine: Machine | None) -> int:
    end = metadata_log.end_offset(machine.tables.metadata) if machine is not None else 0
    return max(end - 1, 0)


def _handle(machine: Machine | None, request: Request) -> Decision:
    if not _FIRST <= request.version <= _LAST:
        return Decision(response=_unsupported_version())
    if request.version >= 3 and not _is_valid(request.body):
        return Decision(response=ApiVersionsResponse(error_code=Error.INVALID_REQUEST))
    return Decision(
        response=ApiVersionsResponse(
            api_keys=_API_KEYS,
            supported_features=[
                feature
                for feature in _SUPPORTED_FEATURES
                if request.version >= 4 or feature.min_version > 0
            ],
            finalized_features_epoch=_epoch(machine),
            finalized_features=_finalized(machine),
        )
    )


def _is_valid(body: ApiVersionsRequest) -> bool:
    return all(
        _SOFTWARE.fullmatch(text)
        for text in (body.client_software_name, body.client_software_version)
    )


def _unsupported_version() -> ApiVersionsResponse:
    own = [version for version in _API_KEYS if version.api_key == API_VERSIONS.key]
    return ApiVersionsResponse(error_code=Error.UNSUPPORTED_VERSION, api_keys=own)


API = Api(kafka_apis.API_VERSIONS, ApiVersionsRequest, _handle)
