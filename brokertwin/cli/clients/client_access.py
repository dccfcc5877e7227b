"""Connection properties for this project's own Kafka clients."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from brokertwin.kafka_io.kafka_clients import ClientProperties
    from brokertwin.settings import Settings


def accessible(
    settings: "Settings", defaults: Mapping[str, str] | None = None
) -> "ClientProperties":
    """Return the properties for a reachable Kafka; `defaults` apply if the settings have none.

    Raises:
        UserError: no Kafka is configured, it does not respond, or it refuses the connection.
    """
    from brokertwin.clients.io.access import check_access
    from brokertwin.kafka_io.kafka_clients import ClientProperties, client_properties

    properties = ClientProperties({**(defaults or {}), **client_properties(settings).values})
    check_access(properties)
    return properties
