"""Where our own clients reach Kafka, and how: by the properties of Java's clients."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from brokertwin.kafka_io.kafka_clients import ClientProperties
    from brokertwin.settings import Settings


def accessible(
    settings: "Settings", defaults: Mapping[str, str] | None = None
) -> "ClientProperties":
    """The properties of a Kafka that lets clients in; `defaults` where the settings say nothing.

    Raises:
        UserError: there is none, nobody answers, or it does not let us in.
    """
    from brokertwin.drivers.access import check_access
    from brokertwin.kafka_io.kafka_clients import ClientProperties, client_properties

    known = ClientProperties({**(defaults or {}), **client_properties(settings).values})
    check_access(known)
    return known
