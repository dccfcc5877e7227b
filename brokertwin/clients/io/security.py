"""Connection settings of the clients: an address, or Java client properties.

    Consumer("localhost:9092", …)
    Consumer(ClientProperties({"bootstrap.servers": …, "security.protocol": "SASL_SSL", …}), …)

Supported are security.protocol, sasl.mechanism, sasl.jaas.config, and of ssl.* the key and trust
stores (PEM, PKCS12, JKS), passwords, enabled.protocols and endpoint.identification.algorithm.

Source: `ChannelBuilders`, `DefaultSslEngineFactory` in Kafka; KIP-651.
"""

import ssl
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from brokertwin.clients.io.sasl import SaslLogin, login_of
from brokertwin.errors import UserError
from brokertwin.gateway.security.security_protocol import SecurityProtocol
from brokertwin.kafka_io.kafka_clients import ClientProperties, addresses_of

Kafka = str | ClientProperties
"""host:port,… of listeners without TLS and SASL, or properties."""

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


class ClientSecurity(NamedTuple):
    """TLS and SASL settings of a connection; None if not used."""

    context: ssl.SSLContext | None = None
    login: SaslLogin | None = None


def properties_of(kafka: Kafka) -> ClientProperties:
    return ClientProperties({"bootstrap.servers": kafka}) if isinstance(kafka, str) else kafka


def security_of(kafka: Kafka) -> ClientSecurity:
    """Return TLS and SASL settings. Raises UserError for invalid properties."""
    properties = properties_of(kafka)
    protocol = protocol_of(properties.values)
    context = properties.ssl_context() if protocol.has_tls else None
    if context is not None:
        _set_versions(context, properties.values.get("ssl.enabled.protocols", ""))
    return ClientSecurity(context, login_of(properties.values) if protocol.has_sasl else None)


def overridden(kafka: Kafka, prefix: str) -> Kafka:
    if isinstance(kafka, str):
        return kafka
    special = {n.removeprefix(prefix): v for n, v in kafka.values.items() if n.startswith(prefix)}
    return ClientProperties({**kafka.values, **special})


def addresses_to(kafka: Kafka) -> Iterator[tuple[str, int]]:
    """Bootstrap hosts and ports. Raises UserError."""
    return addresses_of(kafka if isinstance(kafka, str) else kafka.bootstrap)


def protocol_of(properties: Mapping[str, str]) -> SecurityProtocol:
    """Return `security.protocol`. Raises UserError."""
    name = properties.get("security.protocol", SecurityProtocol.PLAINTEXT).upper()
    try:
        return SecurityProtocol(name)
    except ValueError:
        protocols = ", ".join(SecurityProtocol)
        raise UserError(f"Invalid security.protocol {name}.", f"Use one of: {protocols}.") from None


def _set_versions(context: ssl.SSLContext, names: str) -> None:
    version_names = [name.strip() for name in names.split(",") if name.strip()]
    unknown = [name for name in version_names if name not in _VERSIONS]
    if unknown:
        raise UserError(
            f"Unsupported value of ssl.enabled.protocols: {names}.",
            f"Use {' and '.join(_VERSIONS)}.",
        )
    if version_names:
        context.minimum_version = min(_VERSIONS[name] for name in version_names)
        context.maximum_version = max(_VERSIONS[name] for name in version_names)
