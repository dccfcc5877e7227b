"""Key and trust stores that a broker's listener is given while it runs, as `kafka-configs` can.

Source: `SslFactory.reconfigure`, `SslConfigs.RECONFIGURABLE_CONFIGS` in Kafka (KIP-226). The place
and type of a store, under the listener's name, count for the next connection to that broker; the
passwords are those of the start, as a machine keeps no secrets. Kafka refuses a place where no
store can be loaded, or one whose certificate has another name; here the former is warned of, the
store before it stays in force, and the latter is taken.
"""

import ssl
from collections.abc import Mapping

import structlog

from brokerstream.errors import UserError
from brokerstream.gateway.tls import Tls

SETTINGS = (
    "ssl.keystore.location",
    "ssl.keystore.type",
    "ssl.truststore.location",
    "ssl.truststore.type",
)
"""What may be altered, each with the listener's name before it."""

_log = structlog.get_logger("brokerstream.gateway")


class AlteredStores:
    """TLS of each broker.

    Args:
        given: TLS by the settings of the start.
    """

    def __init__(self, given: Tls) -> None:
        self._given = given
        self._altered: dict[int, tuple[Mapping[str, str], Tls]] = {}

    def context(self, broker: int, changed: Mapping[str, str]) -> ssl.SSLContext:
        """That for a new connection to a broker whose settings have `changed` since the start."""
        properties = self._given.properties
        own = properties.named(SETTINGS, changed)
        known, tls = self._altered.get(broker, ({}, self._given))
        if own != known:
            try:
                tls = Tls(properties.altered(own)) if own else self._given
                _log.info("stores altered", broker=broker)
            except UserError as error:
                _log.warning("stores not altered", broker=broker, reason=error.message)
            self._altered[broker] = (own, tls)
        return tls.context()
