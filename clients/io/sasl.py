"""SASL towards a broker: what a client says before its first request, step by step.

PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512; kafka-python does SCRAM's arithmetic. Names and passwords
are taken as their UTF-8 bytes, as Kafka's clients do. Not done: GSSAPI, OAUTHBEARER.

Source: `SaslClientAuthenticator`, `ScramSaslClient`, `PlainSaslClient` in Kafka; KIP-43, KIP-84,
KIP-152 (frames with headers), KIP-368 (how long a session lasts).
"""

from base64 import b64decode
from collections.abc import Generator, Mapping
from typing import Any, NamedTuple

from kafka.net.sasl.scram import ScramClient

from brokertwin.errors import UserError
from brokertwin.gateway.security.scram import ITERATIONS_MIN, MECHANISMS
from brokertwin.kafka_io.kafka_clients import parse_jaas
from brokertwin.state.core.errors import Error, error_name

PLAIN = "PLAIN"
SPOKEN = (PLAIN, *MECHANISMS)
HANDSHAKE_VERSION, AUTHENTICATE_VERSION = 1, 2


class AuthenticationError(UserError):
    """A broker does not let the client in, or is not who it should be. Trying again is no use."""


class Login(NamedTuple):
    """Who a client says it is."""

    mechanism: str
    username: str
    password: str

    def __repr__(self) -> str:
        """Without the password."""
        return f"Login({self.mechanism}, {self.username})"


class Ask(NamedTuple):
    """A request of an exchange."""

    api: str
    version: int
    body: dict[str, Any]


Exchange = Generator[Ask, Mapping[str, Any], int]
"""Gives requests, is sent the bodies of their answers; returns how many ms the session lasts, or 0
where it does not end."""


def login_of(properties: Mapping[str, str]) -> Login:
    """The login by `sasl.mechanism` and `sasl.jaas.config`. Raises UserError."""
    mechanism = properties.get("sasl.mechanism", "GSSAPI").upper()
    if mechanism not in SPOKEN:
        raise UserError(
            f"Unsupported sasl.mechanism {mechanism}; supported are {', '.join(SPOKEN)}.",
            "Set sasl.mechanism in the file of --kafka-config.",
        )
    options = parse_jaas(properties.get("sasl.jaas.config", ""))
    missing = [name for name in ("username", "password") if not options.get(name)]
    if missing:
        raise UserError(
            f"sasl.jaas.config has no {' and no '.join(missing)}.",
            "Set sasl.jaas.config in the file of --kafka-config.",
        )
    return Login(mechanism, options["username"], options["password"])


def exchange(login: Login) -> Exchange:
    """One authentication. Raises AuthenticationError."""
    answer = yield Ask("SASL_HANDSHAKE", HANDSHAKE_VERSION, {"mechanism": login.mechanism})
    if answer["errorCode"] not in (Error.NONE, Error.UNSUPPORTED_SASL_MECHANISM):
        code = answer["errorCode"]
        raise AuthenticationError(f"The broker refused SASL: {code} {error_name(code)}.")
    if answer["errorCode"]:
        enabled = ", ".join(sorted(answer["mechanisms"])) or "none"
        raise AuthenticationError(
            f"The broker does not support {login.mechanism}; it supports: {enabled}."
        )
    if login.mechanism == PLAIN:
        answer = yield _authenticate(f"\0{login.username}\0{login.password}".encode())
        _token(login, answer)
        return int(answer["sessionLifetimeMs"])
    scram = ScramClient(_escaped(login.username), login.password, login.mechanism)
    first = _token(login, (yield _authenticate(scram.first_message())))
    try:
        _check_iterations(first)
        scram.process_server_first_message(first)
        answer = yield _authenticate(scram.final_message())
        scram.process_server_final_message(_token(login, answer))
    except (ValueError, KeyError) as error:
        raise AuthenticationError(
            f"The broker could not prove that it knows the user {login.username}: {error}."
        ) from None
    return int(answer["sessionLifetimeMs"])


def _authenticate(message: bytes) -> Ask:
    return Ask("SASL_AUTHENTICATE", AUTHENTICATE_VERSION, {"authBytes": message})


def _token(login: Login, answer: Mapping[str, Any]) -> bytes:
    """The mechanism's message. Raises AuthenticationError."""
    if answer["errorCode"]:
        said = answer["errorMessage"] or error_name(answer["errorCode"])
        raise AuthenticationError(
            f"The broker rejected the login of {login.username}: {said.rstrip('.')}.",
            "Check user, password and sasl.mechanism.",
        )
    return b64decode(answer["authBytes"])


def _escaped(name: str) -> str:
    return name.replace("=", "=3D").replace(",", "=2C")


def _check_iterations(message: bytes) -> None:
    """A server that wants few could be one that tries to learn the password."""
    count = int(dict(part.split(b"=", 1) for part in message.split(b","))[b"i"])
    if count < ITERATIONS_MIN:
        raise ValueError(f"{count} iterations, but at least {ITERATIONS_MIN} are required")
