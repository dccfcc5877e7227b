"""TLS on the gateway's ports, by Kafka's settings for key and trust stores.

A replaced store file applies to the next connection (`Tls.context`) automatically. Kafka reloads it
only after its setting is altered to the same location.
"""

import asyncio
import ssl
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import structlog

from brokertwin.errors import UserError
from brokertwin.gateway.admin.broker_properties import BrokerProperties
from brokertwin.gateway.security import cipher_suites, secret_files, store_checks
from brokertwin.kafka_io import key_stores
from brokertwin.kafka_io.key_stores import KeyStore

SETTINGS = frozenset(
    {
        cipher_suites.SETTING,
        store_checks.ALLOW_ALTERNATIVE,
        store_checks.ALLOW_NAMES,
        "ssl.client.auth",
        "ssl.enabled.protocols",
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.principal.mapping.rules",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    }
)
"""Settings with an effect for SSL and SASL_SSL."""

SHUTDOWN_MAX_S = 5.0
"""How long a closed connection waits for the peer's close_notify."""

LOOKS_EVERY_S = 1.0
"""Minimum interval of checks of store files, done with new connections."""

_CLIENT_AUTH = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}

_log = structlog.get_logger("brokertwin.gateway")


def server_context(properties: BrokerProperties) -> ssl.SSLContext:
    """Create a server context from a broker's settings.

    Raises:
        UserError: the certificate or key is missing, unreadable or does not match; or a store type,
            TLS version or cipher is unsupported.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _set_versions(context, properties)
    cipher_suites.restrict(context, properties.names(cipher_suites.SETTING))
    _load_identity(context, properties)
    context.verify_mode = _CLIENT_AUTH[properties.text("ssl.client.auth") or "none"]
    if context.verify_mode is not ssl.CERT_NONE:
        _load_trust(context, properties)
    return context


def client_context(options: Mapping[str, str]) -> ssl.SSLContext:
    """Create a client context with a trust store, or with the system's authorities.

    Raises:
        UserError: the trust store is missing or has no certificate of an authority.
    """
    if not {"ssl.truststore.location", "ssl.truststore.certificates"} & options.keys():
        return ssl.create_default_context()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    _load_trust(context, BrokerProperties(options, ""))
    return context


def _set_versions(context: ssl.SSLContext, properties: BrokerProperties) -> None:
    names = properties.names("ssl.enabled.protocols")
    unknown = [name for name in names if name not in _VERSIONS]
    if unknown or not names:
        raise UserError(
            f"Unsupported value of ssl.enabled.protocols: {','.join(names)}.",
            f"Use {' and '.join(_VERSIONS)}.",
        )
    context.minimum_version = min(_VERSIONS[name] for name in names)
    context.maximum_version = max(_VERSIONS[name] for name in names)


def _load_identity(context: ssl.SSLContext, properties: BrokerProperties) -> None:
    chain, key = (properties.given(f"ssl.keystore.{part}") for part in ("certificate.chain", "key"))
    password = properties.given("ssl.key.password")
    if chain and key:
        pem = f"{key.strip()}\n{chain.strip()}\n"
        _load_chain(context, pem, "ssl.keystore.key", password or "")
        return
    location = properties.given("ssl.keystore.location")
    if location is None:
        raise UserError(
            "TLS requires the broker's certificate and private key.",
            "Pass --set ssl.keystore.location=FILE: a PEM file with the private key (PKCS #8) and"
            " the certificate chain, or a PKCS12 or JKS store.",
        )
    what = f"ssl.keystore.location {location}"
    store = _store(properties, "ssl.keystore", location)
    if isinstance(store, str):
        _load_chain(context, store, what, password or "")
    elif store.identity:
        _load_chain(context, store.identity, what, store.password)
    else:
        raise UserError(f"{what} has no private key.")


def _store(properties: BrokerProperties, name: str, location: str) -> str | KeyStore:
    kind, data = key_stores.content(Path(location), name, properties.given(f"{name}.type"))
    if kind == key_stores.PEM:
        return data.decode("utf-8", "replace")
    of_key = properties.given("ssl.key.password")
    return key_stores.read(kind, data, name, properties.given(f"{name}.password"), of_key)


def _load_chain(context: ssl.SSLContext, pem: str, what: str, password: str) -> None:
    try:
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:  # mode 0600
            file.write(pem)
            file.flush()
            context.load_cert_chain(file.name, password=password)
    except ssl.SSLError as error:
        reason = (error.reason or str(error)).replace("_", " ").lower()
        raise UserError(
            f"Cannot read a PEM certificate with its private key from {what}: {reason}.",
            "If the key is encrypted, set ssl.key.password.",
        ) from None


def _load_trust(context: ssl.SSLContext, properties: BrokerProperties) -> None:
    certificates = properties.given("ssl.truststore.certificates")
    location = properties.given("ssl.truststore.location")
    if not certificates and location:
        store = _store(properties, "ssl.truststore", location)
        certificates = store if isinstance(store, str) else store.trusted
    elif not certificates:
        raise UserError(
            "ssl.client.auth requires the certificates of the clients' authorities.",
            "Pass --set ssl.truststore.location=FILE: PEM, PKCS12 or JKS.",
        )
    try:
        context.load_verify_locations(cadata=certificates)
    except (ssl.SSLError, ValueError):
        what = location or "ssl.truststore.certificates"
        raise UserError(f"{what} has no certificate of an authority.") from None


class Tls:
    """TLS by a broker's settings, with the current certificates of its files.

    Args:
        clock: monotonic seconds.

    Raises:
        UserError: as `server_context`.
    """

    def __init__(
        self, properties: BrokerProperties, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.properties = properties
        self._clock = clock
        self._files = [
            Path(location)
            for name in ("ssl.keystore.location", "ssl.truststore.location")
            if (location := properties.given(name))
        ]
        self._seen = self._stamps()
        self._looked = clock()
        self._context = server_context(properties)

    def context(self) -> ssl.SSLContext:
        """Return the context for a new connection; checks the files once a second.

        If changed stores cannot be loaded, a warning is logged and the old ones stay in force.
        """
        if self._clock() - self._looked < LOOKS_EVERY_S:
            return self._context
        self._looked = self._clock()
        stamps = self._stamps()
        if stamps != self._seen:
            self._seen = stamps
            try:
                self._context = server_context(self.properties)
                _log.info("certificates replaced")
            except UserError as error:
                _log.warning("certificates not replaced", reason=error.message)
        return self._context

    def _stamps(self) -> list[tuple[int, int, int] | None]:
        return [secret_files.stamp(file) for file in self._files]


class TlsHandshake(asyncio.Protocol):
    """A connection during its TLS handshake; then `connection` takes over.

    Args:
        connection: protocol after the handshake.
        time_max_s: time limit of the handshake.
        on_end: called at the end, with whether the handshake succeeded.
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
        assert isinstance(transport, asyncio.Transport)
        transport.pause_reading()  # until asyncio's own protocol is in place
        self._transport = transport
        loop = asyncio.get_running_loop()
        self._task = loop.create_task(self._shake_hands(loop, transport))

    def data_received(self, data: bytes) -> None:
        self._early += data

    def abort(self) -> None:
        """Close the connection at once."""
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
