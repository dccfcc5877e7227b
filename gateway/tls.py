"""TLS on the gateway's ports, by Kafka's settings for key and trust stores in PEM (KIP-651).

Other types of stores are not read; a type that is not given is PEM.
"""

import asyncio
import ssl
import tempfile
from collections.abc import Callable
from pathlib import Path

import structlog

from brokerstream.errors import UserError
from brokerstream.gateway.broker_properties import BrokerProperties

SETTINGS = frozenset(
    {
        "ssl.client.auth",
        "ssl.enabled.protocols",
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.type",
        "ssl.principal.mapping.rules",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.type",
    }
)
"""The settings that are heeded with SSL and SASL_SSL."""

SHUTDOWN_MAX_S = 5.0
"""How long a connection that is closed waits for its client to agree."""

PEM = "PEM"
_CONVERT = "openssl pkcs12 -in STORE.p12 -out broker.pem -nodes makes PEM of a PKCS12 store."
_CLIENT_AUTH = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}

_log = structlog.get_logger("brokerstream.gateway")


def server_context(properties: BrokerProperties) -> ssl.SSLContext:
    """What a broker's settings make of TLS.

    Raises:
        UserError: certificate or key is missing, unreadable, or does not fit; a type of store or a
            version of TLS that is not served.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _set_versions(context, properties)
    _load_identity(context, properties)
    context.verify_mode = _CLIENT_AUTH[properties.text("ssl.client.auth") or "none"]
    if context.verify_mode is not ssl.CERT_NONE:
        _load_trust(context, properties)
    return context


def _set_versions(context: ssl.SSLContext, properties: BrokerProperties) -> None:
    names = properties.names("ssl.enabled.protocols")
    unknown = [name for name in names if name not in _VERSIONS]
    if unknown or not names:
        raise UserError(
            f"ssl.enabled.protocols {','.join(names)}: served are {' and '.join(_VERSIONS)}."
        )
    context.minimum_version = min(_VERSIONS[name] for name in names)
    context.maximum_version = max(_VERSIONS[name] for name in names)


def _check_type(properties: BrokerProperties, store: str) -> None:
    name = f"{store}.type"
    kind = properties.given(name)
    if kind not in (None, PEM):
        raise UserError(f"{name} {kind}: only {PEM} is read.", _CONVERT)


def _load_identity(context: ssl.SSLContext, properties: BrokerProperties) -> None:
    _check_type(properties, "ssl.keystore")
    chain, key = (properties.given(f"ssl.keystore.{part}") for part in ("certificate.chain", "key"))
    password = properties.given("ssl.key.password") or ""
    if chain and key:
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:  # made with mode 0600
            file.write(f"{key.strip()}\n{chain.strip()}\n")
            file.flush()
            _load_chain(context, Path(file.name), "ssl.keystore.key", password)
        return
    location = properties.given("ssl.keystore.location")
    if location is None:
        raise UserError(
            "TLS needs the broker's certificate and key.",
            "Give --set ssl.keystore.location=FILE, a PEM file with the private key (PKCS #8) and"
            " the certificate chain.",
        )
    _load_chain(context, Path(location), f"ssl.keystore.location {location}", password)


def _load_chain(context: ssl.SSLContext, file: Path, what: str, password: str) -> None:
    try:
        context.load_cert_chain(file, password=password)
    except ssl.SSLError as error:
        reason = (error.reason or str(error)).replace("_", " ").lower()
        raise UserError(
            f"{what}: no certificate with its private key, in PEM, can be read: {reason}.",
            "An encrypted key needs ssl.key.password.",
        ) from None
    except OSError as error:
        raise UserError(f"{what} cannot be read: {error.strerror}.") from None


def _load_trust(context: ssl.SSLContext, properties: BrokerProperties) -> None:
    _check_type(properties, "ssl.truststore")
    certificates = properties.given("ssl.truststore.certificates")
    location = properties.given("ssl.truststore.location")
    try:
        if certificates:
            context.load_verify_locations(cadata=certificates)
        elif location:
            context.load_verify_locations(cafile=location)
        else:
            raise UserError(
                "ssl.client.auth needs the certificates of the authorities that clients may have.",
                "Give --set ssl.truststore.location=FILE, in PEM.",
            )
    except ssl.SSLError:
        raise UserError(
            f"{location or 'ssl.truststore.certificates'} has no PEM certificate."
        ) from None
    except OSError as error:
        raise UserError(f"{location} cannot be read: {error.strerror}.") from None


class TlsHandshake(asyncio.Protocol):
    """A connection whose TLS is not agreed yet; then the connection goes on over TLS.

    Args:
        connection: what takes over.
        context: the server's side.
        time_max_s: how long the handshake may take.
        on_end: is told when it is over, and whether the connection took over.
    """

    def __init__(
        self,
        connection: asyncio.Protocol,
        context: ssl.SSLContext,
        time_max_s: float,
        on_end: Callable[["TlsHandshake", bool], None],
    ) -> None:
        self._connection = connection
        self._context = context
        self._time_max_s = time_max_s
        self._on_end = on_end
        self._early = bytearray()
        self._transport: asyncio.Transport | None = None
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        assert isinstance(transport, asyncio.Transport)
        transport.pause_reading()  # until asyncio's own protocol is in place
        self._transport = transport
        loop = asyncio.get_running_loop()
        self._task = loop.create_task(self._shake_hands(loop, transport))

    def data_received(self, data: bytes) -> None:
        """What came with the end of the handshake, before the connection took over."""
        self._early += data

    def abort(self) -> None:
        """End it at once."""
        if self._task is not None and self._transport is not None:
            self._transport.abort()
            self._task.cancel()

    async def _shake_hands(
        self, loop: asyncio.AbstractEventLoop, transport: asyncio.Transport
    ) -> None:
        host = str((transport.get_extra_info("peername") or ("",))[0])
        is_done = False
        try:
            secured = await loop.start_tls(
                transport,
                self,
                self._context,
                server_side=True,
                ssl_handshake_timeout=self._time_max_s,
                ssl_shutdown_timeout=SHUTDOWN_MAX_S,
            )
            if secured is not None and not secured.is_closing():
                secured.set_protocol(self._connection)
                self._connection.connection_made(secured)
                is_done = True
                if self._early:
                    self._connection.data_received(bytes(self._early))
        except (TimeoutError, OSError) as error:
            reason = getattr(error, "reason", None) or type(error).__name__
            _log.warning("connection closed", reason=f"{host}: TLS handshake: {reason}")
        finally:
            self._on_end(self, is_done)
