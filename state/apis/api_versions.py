"""ApiVersions (key 18, versions 0 to 4, in Kafka 4.4 to 5): supported APIs and features.

For any other version the response is `35 UNSUPPORTED_VERSION` and lists only the versions of this
API, so that the client can retry (KIP-511). On the wire that response has the format of version 0.
From version 3, an invalid client software name or version is `42 INVALID_REQUEST`. Version 3 omits
features with a minimum version of 0.

In version 5 a client may name the cluster and the broker that it expects (KIP-1242): one without
the other is `42 INVALID_REQUEST`, others than this broker's are `129 REBOOTSTRAP_REQUIRED`.

`finalizedFeaturesEpoch` is the offset of the last record of the metadata log. In Kafka it also
grows over time (NoOpRecords).

Sources: `ApiKeys`, `ApiVersionsRequest`, `ApiVersionManager` in Kafka; KIP-35, KIP-511, KIP-584,
KIP-1242.
"""

import re
from functools import cache

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
from brokertwin.state.apis.metadata import cluster_id
from brokertwin.state.cluster import features, metadata_log
from brokertwin.state.cluster.machines import Machine
from brokertwin.state.core.api import Api
from brokertwin.state.core.decision import CONTROLLER, Decision, Request
from brokertwin.state.core.settings import BrokerSettings
from brokertwin.state.core.tables import CellTables

NO_NODE = -1

_LISTED_FIRST = {0: 0}
"""PRODUCE is listed from version 0 because of old librdkafka clients."""

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


EXPECTATIONS_SINCE = 5


@cache
def _listed(is_4_4: bool) -> list[ApiVersion]:
    return [
        ApiVersion(
            api_key=key,
            min_version=_LISTED_FIRST.get(key, api.first),
            max_version=api.last_in(is_4_4),
        )
        for key, api in KAFKA_APIS.items()
        if api.is_listed and api.first <= api.last_in(is_4_4)
    ]


def _finalized(machine: Machine | None, settings: BrokerSettings) -> list[FinalizedFeatureKey]:
    """Return the finalized features; a feature at level 0 is not finalized."""
    levels = features.finalized(machine or CellTables().of(CONTROLLER), settings)
    return [
        FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
        for name, level in levels.items()
        if level > 0
    ]


def _epoch(machine: Machine | None) -> int:
    end = metadata_log.end_offset(machine.tables.metadata) if machine is not None else 0
    return max(end - 1, 0)


def _handle(machine: Machine, request: Request) -> Decision:
    body: ApiVersionsRequest = request.body
    response = respond(request.version, body, machine.cell.broker_settings, machine)
    if request.version >= EXPECTATIONS_SINCE and response.error_code == Error.NONE:
        own = cluster_id(machine.cell.cluster, request.choices.cluster_id)
        response = expectation_error(body, own, machine.id) or response
    return Decision(response=response)


def respond(
    version: int, body: ApiVersionsRequest, settings: BrokerSettings, machine: Machine | None = None
) -> ApiVersionsResponse:
    """Return the response of brokers with these settings; without a machine, of a new cluster."""
    is_4_4 = settings.is_4_4
    if not API_VERSIONS.first <= version <= API_VERSIONS.last_in(is_4_4):
        own = [each for each in _listed(is_4_4) if each.api_key == API_VERSIONS.key]
        return ApiVersionsResponse(error_code=Error.UNSUPPORTED_VERSION, api_keys=own)
    if version >= 3 and not _is_valid(body):
        return ApiVersionsResponse(error_code=Error.INVALID_REQUEST)
    return ApiVersionsResponse(
        api_keys=_listed(is_4_4),
        supported_features=[
            SupportedFeatureKey(name=name, min_version=levels.first, max_version=levels.last)
            for name, levels in features.supported(settings).items()
            if version >= 4 or levels.first > 0
        ],
        finalized_features_epoch=_epoch(machine),
        finalized_features=_finalized(machine, settings),
    )


def expectation_error(
    body: ApiVersionsRequest, cluster: str, node: int
) -> ApiVersionsResponse | None:
    """Return the error for a client that expects another cluster or broker (version 5)."""
    if (body.cluster_id is None) != (body.node_id == NO_NODE):
        return ApiVersionsResponse(error_code=Error.INVALID_REQUEST)
    if body.cluster_id is None or (body.cluster_id, body.node_id) == (cluster, node):
        return None
    return ApiVersionsResponse(error_code=Error.REBOOTSTRAP_REQUIRED)


def _is_valid(body: ApiVersionsRequest) -> bool:
    return all(
        _SOFTWARE.fullmatch(text)
        for text in (body.client_software_name, body.client_software_version)
    )


API = Api(kafka_apis.API_VERSIONS, _handle)
