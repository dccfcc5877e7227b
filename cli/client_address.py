"""Where our own clients reach Kafka: without TLS and SASL, as they speak neither."""

from typing import TYPE_CHECKING

from brokerstream.errors import UserError

if TYPE_CHECKING:
    from brokerstream.settings import Settings

PLAINTEXT = "PLAINTEXT"


def plain_address(settings: "Settings") -> str:
    """host:port,… of a Kafka that accepts connections.

    Raises:
        UserError: there is none, nobody answers, or it wants TLS or SASL.
    """
    from brokerstream.kafka_io.kafka_clients import check_reachable, client_properties

    known = client_properties(settings)
    protocol = known.values.get("security.protocol", PLAINTEXT).upper()
    if protocol != PLAINTEXT:
        raise UserError(
            f"security.protocol is {protocol}; this command speaks {PLAINTEXT} alone.",
            "Give it the address of a listener without TLS and SASL.",
        )
    check_reachable(known.bootstrap)
    return known.bootstrap
