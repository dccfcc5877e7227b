"""Finalized feature levels that the gateway adds to ApiVersions responses.

A local engine provides them. A job is queried after an UpdateFeatures through this gateway; until
then the initial levels of a cluster apply.
"""

import structlog

from brokertwin.gateway.admin.releases import Release
from brokertwin.gateway.engine.engine import (
    Body,
    BrokerEngine,
    EdgeRequest,
    NoResponseError,
    internal_header,
)
from brokertwin.protocol.generated.update_features import UpdateFeaturesResponse
from brokertwin.protocol.kafka_apis import API_VERSIONS
from brokertwin.state.apis import metadata

_VERSION = 4
_SOFTWARE = {"clientSoftwareName": "brokertwin-gateway", "clientSoftwareVersion": "1"}

_log = structlog.get_logger("brokertwin.gateway")


class Features:
    """Known features of an engine's cluster.

    Attributes:
        release: the release of Kafka whose API versions are offered; None: 4.3.
        finalized: features with levels in the form of ApiVersions; None if unknown.
    """

    def __init__(self, engine: BrokerEngine, release: Release | None = None) -> None:
        self._engine = engine
        self.release = release
        self.finalized: list[Body] | None = None

    def begin(self) -> None:
        self.finalized = self._engine.known_features()

    @property
    def cluster_id(self) -> str:
        return metadata.cluster_id(self._engine.cluster, None)

    def epoch(self) -> int:
        """Return the offset of the last metadata record; 0 if the engine is a job."""
        return self._engine.features_epoch()

    async def learn(self) -> None:
        self.finalized = self._engine.known_features() or await self._query()

    async def note_response(self, response: UpdateFeaturesResponse) -> None:
        """Query the engine again after a request that has changed features."""
        if response.error_code == 0:
            await self.learn()

    async def _query(self) -> list[Body] | None:
        header = internal_header(API_VERSIONS.key, _VERSION, _SOFTWARE["clientSoftwareName"])
        broker = self._engine.brokers[0]
        request = EdgeRequest(broker, "features", "User:ANONYMOUS", "127.0.0.1", header, _SOFTWARE)
        try:
            response = await self._engine.submit(request)
        except NoResponseError as error:
            _log.warning("feature levels are unknown", error=str(error))
            return self.finalized
        return response.document(_VERSION).get("finalizedFeatures")
