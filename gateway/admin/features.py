"""The levels of the cluster's features, as the edge tells them in ApiVersions without asking.

A local engine tells its own. A job is asked when an UpdateFeatures has come through this gateway;
until then they are those in which a cluster begins.
"""

import structlog

from brokertwin.gateway.engine.engine import Body, EdgeRequest, Engine, UnansweredError
from brokertwin.state.core.kafka_apis import API_VERSIONS, UPDATE_FEATURES

_VERSION = 4
_ASKED = {"clientSoftwareName": "brokertwin-gateway", "clientSoftwareVersion": "1"}

_log = structlog.get_logger("brokertwin.gateway")


class Features:
    """What is known of the features of an engine's cluster.

    Attributes:
        finalized: features with their levels as ApiVersions names them; None: not known.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.finalized: list[Body] | None = None

    def begin(self) -> None:
        """The engine has started: it may know them."""
        self.finalized = self._engine.known_features()

    def epoch(self) -> int:
        """Return the offset of the last metadata record; 0 if the engine is a job."""
        return self._engine.features_epoch()

    async def learn(self) -> None:
        """Ask the engine again."""
        self.finalized = self._engine.known_features() or await self._answered()

    async def heed(self, api_key: int, response: Body) -> None:
        """Ask again after a request that has changed features."""
        if api_key == UPDATE_FEATURES.key and response["errorCode"] == 0:
            await self.learn()

    async def _answered(self) -> list[Body] | None:
        header: Body = {"requestApiKey": API_VERSIONS.key, "requestApiVersion": _VERSION}
        header |= {"correlationId": 0, "clientId": _ASKED["clientSoftwareName"]}
        broker = self._engine.brokers[0]
        asked = EdgeRequest(broker, "features", "User:ANONYMOUS", "127.0.0.1", header, _ASKED)
        try:
            answer = await self._engine.submit(asked)
        except UnansweredError as error:
            _log.warning("feature levels are unknown", error=str(error))
            return self.finalized
        return (answer.response or {}).get("finalizedFeatures")
