"""StreamsGroupTopologyDescriptionUpdate (key 93, version 0, since Kafka 4.4).

A client describes its topology for a plugin of the broker (KIP-1331). There is no plugin here, as
by default in Kafka, so each response is 35 UNSUPPORTED_VERSION. Source: responses of Kafka 4.4.0.
"""

from brokertwin.protocol import kafka_apis
from brokertwin.protocol.errors import Error
from brokertwin.protocol.generated.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateResponse,
)
from brokertwin.state.cluster.machines import Broker
from brokertwin.state.core.api import Api
from brokertwin.state.core.decision import Decision, Request

NO_PLUGIN = "The broker has no streams group topology description plugin configured."


def handle(_broker: Broker, _request: Request) -> Decision:
    response = StreamsGroupTopologyDescriptionUpdateResponse(
        error_code=Error.UNSUPPORTED_VERSION, error_message=NO_PLUGIN
    )
    return Decision(response=response)


API = Api(kafka_apis.STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE, handle)
