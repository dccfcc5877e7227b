"""One file of Java client properties for all Kafka clients in use.

Spark uses Kafka's names with the prefix `kafka.`, confluent-kafka librdkafka's names, kafka-python
keyword arguments. Only connection properties are converted (addresses, TLS, SASL, timeouts), not
those of reading and writing.

Source: the names of Kafka's CommonClientConfigs, SslConfigs, SaslConfigs; PEM stores: KIP-651;
OAUTHBEARER with client credentials: KIP-768; librdkafka's CONFIGURATION.md.
"""

import re
import socket
import ssl
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from brokertwin.errors import UserError
from brokertwin.kafka_io import key_stores, properties, tokens
from brokertwin.kafka_io.kafka_broker import EmbeddedKafka
from brokertwin.settings import Settings

T = TypeVar("T")

CONNECTION = re.compile(
    r"bootstrap\.servers|security\.|sasl\.|ssl\.|client\.(id|dns\.lookup)$|socket\.|reconnect\."
    r"|retry\.backoff\.|metadata\.max\.age\.ms|connections\.max\.idle\.ms|request\.timeout\.ms"
    r"|(send|receive)\.buffer\.bytes"
)
"""Names of connection properties; others are ignored."""

CONFLUENT_NAMES: Mapping[str, str] = {
    "bootstrap.servers": "bootstrap.servers",
    "client.id": "client.id",
    "client.dns.lookup": "client.dns.lookup",
    "connections.max.idle.ms": "connections.max.idle.ms",
    "metadata.max.age.ms": "metadata.max.age.ms",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "reconnect.backoff.max.ms": "reconnect.backoff.max.ms",
    "reconnect.backoff.ms": "reconnect.backoff.ms",
    "request.timeout.ms": "socket.timeout.ms",
    "retry.backoff.max.ms": "retry.backoff.max.ms",
    "retry.backoff.ms": "retry.backoff.ms",
    "sasl.mechanism": "sasl.mechanisms",
    "security.protocol": "security.protocol",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "socket.connection.setup.timeout.ms": "socket.connection.setup.timeout.ms",
    "ssl.key.password": "ssl.key.password",
}
CONFLUENT_FILES: Mapping[str, tuple[str, ...]] = {
    "ssl.truststore.location": ("ssl.ca.location",),
    "ssl.keystore.location": ("ssl.certificate.location", "ssl.key.location"),
}
CONFLUENT_TEXTS: Mapping[str, str] = {
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
}
KAFKA_PYTHON_TEXTS: Mapping[str, str] = {
    "bootstrap.servers": "bootstrap_servers",
    "client.id": "client_id",
    "client.dns.lookup": "client_dns_lookup",
    "sasl.mechanism": "sasl_mechanism",
    "security.protocol": "security_protocol",
    "ssl.key.password": "ssl_password",
}
KAFKA_PYTHON_NUMBERS: Mapping[str, str] = {
    "connections.max.idle.ms": "connections_max_idle_ms",
    "metadata.max.age.ms": "metadata_max_age_ms",
    "receive.buffer.bytes": "receive_buffer_bytes",
    "reconnect.backoff.max.ms": "reconnect_backoff_max_ms",
    "reconnect.backoff.ms": "reconnect_backoff_ms",
    "request.timeout.ms": "request_timeout_ms",
    "retry.backoff.ms": "retry_backoff_ms",
    "send.buffer.bytes": "send_buffer_bytes",
}
CONNECT_S = 3.0
"""Connection timeout, after which a command reports that no broker responds."""

LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})
CONNECT_PAUSE_S = 0.2
PORT = 9092
PORT_MAX = 65535
_ADDRESS = re.compile(r"(?P<host>\[[^\]]+\]|[^:]+)(:(?P<port>\d{1,5}))?")
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
PASSWORD_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
MECHANISMS = (*PASSWORD_MECHANISMS, tokens.OAUTHBEARER, tokens.AWS_MSK_IAM)
NEEDED_BY_JAVA_ONLY = frozenset({"ssl.keystore.type", "ssl.truststore.type"})
"""Properties without a counterpart that other clients do not need."""

_JAAS_LOGIN = re.compile(r"\s*(?P<module>[\w.$]+)\s+\w+\s*(?P<options>.*?)\s*;\s*", re.DOTALL)
_JAAS_OPTION = re.compile(r"""([\w.\-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'([^']*)'|([^\s;]+))""")
STORE_OF = {"ca": "ssl.truststore", "certificate": "ssl.keystore", "key": "ssl.keystore"}
_LIBRDKAFKA_STORE = re.compile(r"ssl\.(ca|certificate|key)(\.(?:location|pem))")
_PEM_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)


@dataclass(frozen=True, repr=False)
class ClientProperties:
    """Connection properties of a Kafka cluster.

    Attributes:
        values: Java client properties by name; they may contain secrets and are never shown.
    """

    values: Mapping[str, str]

    def __repr__(self) -> str:
        """Show only the names."""
        return f"ClientProperties({', '.join(sorted(self.values))})"

    @property
    def bootstrap(self) -> str:
        """`bootstrap.servers`: host:port, separated by commas."""
        return self.values["bootstrap.servers"]

    @property
    def protocol(self) -> str:
        """`security.protocol`; Kafka's default is PLAINTEXT."""
        return self.values.get("security.protocol", PROTOCOLS[0]).upper()

    def for_spark(self) -> dict[str, str]:
        """Return options for `spark.readStream.format("kafka")` and the sink."""
        return {f"kafka.{name}": value for name, value in _connection(self.values).items()}

    def for_confluent(self) -> dict[str, str]:
        """Return the configuration of a confluent-kafka Producer, Consumer or AdminClient."""
        return _confluent(self._with_pem()).out

    def for_kafka_python(self) -> dict[str, Any]:
        """Return keyword arguments of kafka-python's clients."""
        return _kafka_python(self._with_pem()).out

    def ssl_context(self) -> ssl.SSLContext | None:
        """Return a TLS context for plain sockets, or None without TLS.

        Raises:
            UserError: a store cannot be read.
        """
        if "SSL" not in self.protocol:
            return None
        try:
            return _ssl_context(self._with_pem())
        except OSError as error:
            raise UserError(
                f"Could not read the certificates for TLS: {error.strerror or error}.",
                "Check the files of ssl.truststore.location and ssl.keystore.location.",
            ) from None

    def warnings(self) -> list[str]:
        """Return a sentence for each client that does not support all properties.

        Raises:
            UserError: a store cannot be read.
        """
        connection = self._with_pem()
        left = sorted(name for name in self.values if not CONNECTION.match(name))
        sentences = [f"not about the connection, left out: {', '.join(left)}"] if left else []
        for client, mapped in (
            ("confluent-kafka", _confluent(connection)),
            ("kafka-python", _kafka_python(connection)),
        ):
            if mapped.missing:
                names = ", ".join(sorted(mapped.missing))
                sentences.append(f"{client} has nothing like {names}")
        return sentences

    def _with_pem(self) -> dict[str, str]:
        """Return the connection properties with stores as only Java reads them in PEM.

        Without TLS stores are not read, as in Java.
        """
        connection = _connection(self.values)
        return key_stores.as_pem(connection) if "SSL" in self.protocol else connection


def client_properties(settings: Settings) -> ClientProperties:
    """Return the connection properties of the settings.

    The address is `bootstrap`, or `bootstrap.servers` of the `kafka_config` file, or that of the
    running embedded broker.

    Raises:
        UserError: the file cannot be read, SASL credentials cannot be parsed, or there is no
            address.
    """
    values = properties.read(settings.kafka_config) if settings.kafka_config else {}
    if settings.bootstrap:
        values["bootstrap.servers"] = settings.bootstrap
    elif not values.get("bootstrap.servers"):
        embedded = EmbeddedKafka(settings.kafka_home, settings.home).status()
        if not embedded.running or not embedded.bootstrap:
            raise UserError(
                "There is no Kafka broker to connect to.",
                "Pass --bootstrap, or start the embedded broker with: brokertwin kafka start",
            )
        values["bootstrap.servers"] = embedded.bootstrap
    if "sasl.jaas.config" in values:
        parse_jaas(values["sasl.jaas.config"])
    _check_login(values)
    return ClientProperties(values)


def _check_login(values: Mapping[str, str]) -> None:
    """Raise UserError if no client can log in with these properties."""
    protocol = values.get("security.protocol", PROTOCOLS[0]).upper()
    if protocol not in PROTOCOLS:
        raise UserError(
            f"Unknown security.protocol {protocol}.", f"Use one of {', '.join(PROTOCOLS)}."
        )
    if not protocol.startswith("SASL"):
        return
    mechanism = tokens.mechanism_of(values)
    check_mechanism(mechanism)
    login = parse_jaas(values["sasl.jaas.config"]) if "sasl.jaas.config" in values else {}
    if mechanism in (tokens.OAUTHBEARER, tokens.AWS_MSK_IAM):
        tokens.source_of(values, login)
    elif mechanism in PASSWORD_MECHANISMS and not (login.get("username") and login.get("password")):
        raise UserError(
            f"sasl.mechanism {mechanism} needs username and password in sasl.jaas.config.",
            "Set them in the file of --kafka-config.",
        )


def check_mechanism(mechanism: str) -> None:
    """Raise UserError unless all clients support it; confluent-kafka's wheels have no GSSAPI."""
    if mechanism not in MECHANISMS:
        raise UserError(
            f"Unsupported sasl.mechanism {mechanism}; supported are {', '.join(MECHANISMS)}.",
            "Set sasl.mechanism in the file of --kafka-config (Kafka's default is GSSAPI), or use a"
            " client certificate with SSL.",
        )


def made(kind: Callable[[dict[str, Any]], T], configuration: dict[str, Any]) -> T:
    """Create a confluent-kafka client. Raises UserError if librdkafka rejects the properties."""
    from confluent_kafka import KafkaException

    try:
        return kind(configuration)
    except (KafkaException, ValueError, TypeError) as error:
        why = error.args[0].str() if isinstance(error, KafkaException) else str(error)
        why = with_kafkas_names(why).rstrip(".")
        raise UserError(
            f"Cannot connect to {configuration.get('bootstrap.servers')}: {why}.",
            "Check the properties in the file of --kafka-config.",
        ) from None


def with_kafkas_names(message: str) -> str:
    """Name the stores in a message of librdkafka as the user does, who has Java's properties."""
    return _LIBRDKAFKA_STORE.sub(
        lambda match: STORE_OF[match[1]] + match[2].removesuffix(".pem"), message
    )


def broker_client(broker: str, settings: Settings) -> ClientProperties:
    """Return the properties for connecting to the broker at an address."""
    values = properties.read(settings.kafka_config) if settings.kafka_config is not None else {}
    return ClientProperties({**values, "bootstrap.servers": broker})


def check_reachable(addresses: str, patience_s: float = CONNECT_S) -> tuple[str, int]:
    """Return an address that accepts connections; Kafka's clients would retry for half a minute.

    Args:
        addresses: host:port, separated by commas; one accepting address is enough.
        patience_s: how long refused connections are retried; 0: not at all.

    Raises:
        UserError: no address accepts a connection.
    """
    deadline = time.monotonic() + patience_s
    while True:
        reasons = []
        for host, port in addresses_of(addresses):
            reason = connection_error(host, port)
            if reason is None:
                return host, port
            reasons.append(reason)
        if time.monotonic() + CONNECT_PAUSE_S >= deadline:
            raise UserError(
                f"Kafka at {addresses} did not respond: {', '.join(dict.fromkeys(reasons))}.",
                "Check that it is running and that the address is right." + _start_hint(addresses),
            )
        time.sleep(CONNECT_PAUSE_S)


def connection_error(host: str, port: int) -> str | None:
    """Return why an address does not accept a connection, or None."""
    try:
        socket.create_connection((host, port), CONNECT_S).close()
    except TimeoutError:
        return f"no response within {CONNECT_S:.0f} s"
    except (OSError, UnicodeError) as error:
        return getattr(error, "strerror", None) or str(error)
    return None


def _start_hint(addresses: str) -> str:
    """Advise to start a broker if an address is one of this machine."""
    if any(host in LOCAL for host, _ in addresses_of(addresses)):
        return " `brokertwin kafka start` starts a local broker."
    return ""


def addresses_of(text: str) -> Iterator[tuple[str, int]]:
    """Yield host and port of each address; the default port is Kafka's.

    Raises:
        UserError: an invalid address.
    """
    for part in filter(None, (part.strip() for part in text.split(","))):
        bare = part.rpartition("://")[2]
        match = _ADDRESS.fullmatch(bare)
        port = int(match["port"] or PORT) if match else PORT_MAX + 1
        if match is None or port > PORT_MAX:
            raise UserError(f"Invalid Kafka address {part!r}.", "Pass HOST:PORT,…")
        yield match["host"].strip("[]"), port


def parse_jaas(text: str) -> dict[str, str]:
    """Parse the options of a `sasl.jaas.config` with one login module.

    Raises:
        UserError: it is not `<class> required name="value" …;` (the message omits its content).
    """
    match = _JAAS_LOGIN.fullmatch(text)
    rest = _JAAS_OPTION.sub("", match["options"]).strip() if match else "?"
    if match is None or rest:
        raise UserError(
            "Could not parse sasl.jaas.config.",
            'Write it as: <login module class> required name="value" name="value";',
        )
    return {
        name: re.sub(r"\\(.)", r"\1", quoted) if quoted else single or bare
        for name, quoted, single, bare in _JAAS_OPTION.findall(match["options"])
    }


def pem(text: str) -> str:
    """Restore line ends in PEM blocks, which properties files often replace by blanks."""
    blocks = [
        "\n".join([f"-----BEGIN {kind}-----", *body.split(), f"-----END {kind}-----"])
        for kind, body in _PEM_BLOCK.findall(text)
    ]
    return "\n".join([*blocks, ""])


@dataclass
class _Mapped:
    """Properties converted for one client."""

    out: dict[str, Any] = field(default_factory=dict)
    missing: set[str] = field(default_factory=set)


def _connection(values: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in values.items() if CONNECTION.match(name)}


def _confluent(values: Mapping[str, str]) -> _Mapped:
    mapped = _Mapped(
        {CONFLUENT_NAMES[name]: value for name, value in values.items() if name in CONFLUENT_NAMES}
    )
    used = set(CONFLUENT_NAMES) | NEEDED_BY_JAVA_ONLY
    if "ssl.endpoint.identification.algorithm" in values:
        algorithm = values["ssl.endpoint.identification.algorithm"].lower()
        mapped.out["ssl.endpoint.identification.algorithm"] = algorithm or "none"
        used.add("ssl.endpoint.identification.algorithm")
    used |= _confluent_stores(values, mapped.out) | _confluent_login(values, mapped.out)
    mapped.missing = values.keys() - used
    return mapped


def _confluent_stores(values: Mapping[str, str], out: dict[str, Any]) -> set[str]:
    """Convert trust and key store; return the supported properties."""
    for name, ours in CONFLUENT_FILES.items():
        if name in values:
            out.update(dict.fromkeys(ours, values[name]))
    for name, our in CONFLUENT_TEXTS.items():
        if name in values:
            out[our] = pem(values[name])
    return {*CONFLUENT_FILES, *CONFLUENT_TEXTS}


def _confluent_login(values: Mapping[str, str], out: dict[str, Any]) -> set[str]:
    """Convert the login; return the supported properties."""
    mechanism = tokens.mechanism_of(values)
    login = parse_jaas(values["sasl.jaas.config"]) if "sasl.jaas.config" in values else {}
    if mechanism in (tokens.OAUTHBEARER, tokens.AWS_MSK_IAM) and not login.get("clientId"):
        names = {}
        token = tokens.source_of(values, login)
        out["sasl.mechanisms"] = tokens.OAUTHBEARER
        out["oauth_cb"] = lambda _: (found := token(), tokens.expires_at(found))
    elif mechanism == tokens.OAUTHBEARER:
        names = {
            "sasl.oauthbearer.client.id": login.get("clientId"),
            "sasl.oauthbearer.client.secret": login.get("clientSecret"),
            "sasl.oauthbearer.scope": login.get("scope"),
            "sasl.oauthbearer.token.endpoint.url": values.get(
                "sasl.oauthbearer.token.endpoint.url"
            ),
        }
        out["sasl.oauthbearer.method"] = "oidc"
    else:
        names = {"sasl.username": login.get("username"), "sasl.password": login.get("password")}
    out.update({name: value for name, value in names.items() if value is not None})
    return {"sasl.jaas.config", "sasl.oauthbearer.token.endpoint.url"}


def _kafka_python(values: Mapping[str, str]) -> _Mapped:
    texts = {KAFKA_PYTHON_TEXTS[n]: v for n, v in values.items() if n in KAFKA_PYTHON_TEXTS}
    numbers = {
        KAFKA_PYTHON_NUMBERS[n]: _number(n, v)
        for n, v in values.items()
        if n in KAFKA_PYTHON_NUMBERS
    }
    mapped = _Mapped({**texts, **numbers})
    used = {*KAFKA_PYTHON_TEXTS, *KAFKA_PYTHON_NUMBERS, *NEEDED_BY_JAVA_ONLY}
    if values.get("ssl.endpoint.identification.algorithm") == "":
        mapped.out["ssl_check_hostname"] = False
    used.add("ssl.endpoint.identification.algorithm")
    used |= _kafka_python_stores(values, mapped.out)
    login = parse_jaas(values["sasl.jaas.config"]) if "sasl.jaas.config" in values else {}
    mechanism = tokens.mechanism_of(values)
    if mechanism in (tokens.OAUTHBEARER, tokens.AWS_MSK_IAM):
        mapped.out["sasl_mechanism"] = tokens.OAUTHBEARER
        mapped.out["sasl_oauth_token_provider"] = _token_provider(tokens.source_of(values, login))
        used |= {"sasl.jaas.config", tokens.ENDPOINT}
    elif mechanism in PASSWORD_MECHANISMS:
        mapped.out["sasl_plain_username"] = login.get("username")
        mapped.out["sasl_plain_password"] = login.get("password")
        used.add("sasl.jaas.config")
    mapped.missing = values.keys() - used
    return mapped


def _token_provider(source: Callable[[], str]) -> object:
    from kafka.net.sasl.oauth import AbstractTokenProvider

    class Provider(AbstractTokenProvider):  # type: ignore[misc,unused-ignore]
        def token(self) -> str:
            return source()

    return Provider()


def _number(name: str, value: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise UserError(f"Invalid value of {name}: {value!r} is not a number.") from None


def _kafka_python_stores(values: Mapping[str, str], out: dict[str, Any]) -> set[str]:
    """Convert trust and key store; return the supported properties."""
    if "ssl.truststore.location" in values:
        out["ssl_cafile"] = values["ssl.truststore.location"]
    if "ssl.keystore.location" in values:
        out["ssl_certfile"] = out["ssl_keyfile"] = values["ssl.keystore.location"]
    if CONFLUENT_TEXTS.keys() & values.keys():
        out["ssl_context"] = _ssl_context(values)
    return {*CONFLUENT_FILES, *CONFLUENT_TEXTS}


def _ssl_context(values: Mapping[str, str]) -> ssl.SSLContext:
    """Create a TLS context from certificates in the properties."""
    certificates = values.get("ssl.truststore.certificates")
    context = ssl.create_default_context(
        cafile=values.get("ssl.truststore.location"),
        cadata=pem(certificates) if certificates else None,
    )
    if values.get("ssl.endpoint.identification.algorithm") == "":
        context.check_hostname = False
    password = values.get("ssl.key.password")
    if "ssl.keystore.certificate.chain" in values:
        with tempfile.TemporaryDirectory() as scratch:
            file = Path(scratch) / "client.pem"
            file.touch(mode=0o600)
            chain = pem(values["ssl.keystore.certificate.chain"])
            file.write_text(chain + pem(values.get("ssl.keystore.key", "")), encoding="ascii")
            context.load_cert_chain(file, password=password)
    elif "ssl.keystore.location" in values:
        context.load_cert_chain(values["ssl.keystore.location"], password=password)
    return context
