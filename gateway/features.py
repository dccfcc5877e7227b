"""The levels of the cluster's features, as the edge tells them in ApiVersions without asking.

They are asked of the engine when the gateway starts, and again when an UpdateFeatures has come
through it. Of one that came through another gateway this one hears when it starts again; until the
first answer is there, they are those in which a cluster begins.
"""

import structlog

from brokerstream.gateway.engine import Body, EdgeRequest, Engine, UnansweredError
from brokerstream.state.core.kafka_apis import API_VERSIONS

UPDATE_FEATURES = 57
OWN_CONNECTION = "features"
"""What stands in the place of a connection: the gateway itself asks."""

_VERSION = 4
_ASKED = {"clientSoftwareName": "brokerstream-gateway", "clientSoftwareVersion": "1"}

_log = structlog.get_logger("brokerstream.gateway")


class Features:
    """What is known of the features of an engine's cluster.

    Attributes:
        finalized: features with their levels as ApiVersions names them; None: not known.
        has_users: whether the gateway has users' credentials (`scram_users.py`).
    """

    def __init__(self, engine: Engine, has_users: bool = False) -> None:
        self._engine = engine
        self.has_users = has_users
        self.finalized: list[Body] | None = None

    async def learn(self) -> None:
        """Ask the engine."""
        header: Body = {"requestApiKey": API_VERSIONS, "requestApiVersion": _VERSION}
        header |= {"correlationId": 0, "clientId": _ASKED["clientSoftwareName"]}
        broker = self._engine.brokers[0]
        asked = EdgeRequest(broker, OWN_CONNECTION, "User:ANONYMOUS", "127.0.0.1", header, _ASKED)
        try:
            answer = await self._engine.submit(asked)
        except UnansweredError as error:
            _log.warning("the levels of features are not known", error=str(error))
            return
        if answer.response is not None:
            self.finalized = answer.response.get("finalizedFeatures")
