"""SASL authentication of a client, step by step.

PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 and OAUTHBEARER. Names and
passwords are used as UTF-8 bytes, as in Kafka's clients. Not done: GSSAPI.

Source: `SaslClientAuthenticator`, `ScramSaslClient`, `PlainSaslClient` in Kafka; KIP-43, KIP-84,
KIP-152 (frames with headers), KIP-368 (session lifetime).
"""

from base64 import b64decode
from collections.abc import Callable, Generator, Mapping
from typing import Any, NamedTuple

from brokertwin.errors import UserError
from brokertwin.gateway.security.oauthbearer import ERROR_SEEN
from brokertwin.gateway.security.oauthbearer import MECHANISM as OAUTHBEARER
from brokertwin.gateway.security.scram import MECHANISMS, ClientExchange
from brokertwin.kafka_io import tokens
from brokertwin.kafka_io.kafka_clients import check_mechanism, parse_jaas
from brokertwin.protocol.errors import Error, error_name
from brokertwin.wording import with_full_stop

PLAIN = "PLAIN"
HANDSHAKE_VERSION, AUTHENTICATE_VERSION = 1, 2


class SaslAuthenticationError(UserError):
    """The broker rejects the client, or cannot prove its identity; not retriable."""


class SaslLogin(NamedTuple):
    """Credentials of a client; `token` returns one for OAUTHBEARER."""

    mechanism: str
    username: str
    password: str
    token: Callable[[], str] = str

    def __repr__(self) -> str:
        return f"Login({self.mechanism}, {self.username})"


class SaslRequest(NamedTuple):
    api: str
    version: int
    body: dict[str, Any]


Exchange = Generator[SaslRequest, Mapping[str, Any], int]
"""Yields requests and receives response bodies; returns the session time in ms.

0 means unlimited.
"""


def login_of(properties: Mapping[str, str]) -> SaslLogin:
    """Read `sasl.mechanism` and `sasl.jaas.config`. Raises UserError."""
    mechanism = tokens.mechanism_of(properties)
    if mechanism == tokens.AWS_MSK_IAM:
        return SaslLogin(OAUTHBEARER, "the token", "", tokens.source_of(properties, {}))
    check_mechanism(mechanism)
    options = parse_jaas(properties.get("sasl.jaas.config", ""))
    if mechanism == OAUTHBEARER:
        return SaslLogin(mechanism, "the token", "", tokens.source_of(properties, options))
    missing = [name for name in ("username", "password") if not options.get(name)]
    if missing:
        raise UserError(
            f"sasl.jaas.config has no {' and no '.join(missing)}.",
            "Set sasl.jaas.config in the file of --kafka-config.",
        )
    return SaslLogin(mechanism, options["username"], options["password"])


def exchange(login: SaslLogin) -> Exchange:
    """Run one authentication. Raises SaslAuthenticationError."""
    response = yield SaslRequest(
        "SASL_HANDSHAKE", HANDSHAKE_VERSION, {"mechanism": login.mechanism}
    )
    if response["errorCode"] not in (Error.NONE, Error.UNSUPPORTED_SASL_MECHANISM):
        code = response["errorCode"]
        raise SaslAuthenticationError(f"The broker refused SASL: {code} {error_name(code)}.")
    if response["errorCode"]:
        enabled = ", ".join(sorted(response["mechanisms"])) or "none"
        raise SaslAuthenticationError(
            f"The broker does not support {login.mechanism}; it supports: {enabled}."
        )
    if login.mechanism == PLAIN:
        response = yield _authenticate(f"\0{login.username}\0{login.password}".encode())
        _token(login, response)
        return int(response["sessionLifetimeMs"])
    if login.mechanism == OAUTHBEARER:
        message = f"n,,\1auth=Bearer {login.token()}\1\1".encode()
        response = yield _authenticate(message)
        if refusal := _token(login, response):
            yield _authenticate(ERROR_SEEN)
            raise SaslAuthenticationError(f"The broker rejected the token: {refusal.decode()}.")
        return int(response["sessionLifetimeMs"])
    scram = ClientExchange(login.username, login.password, MECHANISMS[login.mechanism])
    first = _token(login, (yield _authenticate(scram.first())))
    try:
        response = yield _authenticate(scram.final(first))
        scram.check(_token(login, response))
    except (ValueError, KeyError) as error:
        raise SaslAuthenticationError(
            f"The broker could not prove that it knows the user {login.username}: {error}."
        ) from None
    return int(response["sessionLifetimeMs"])


def _authenticate(message: bytes) -> SaslRequest:
    return SaslRequest("SASL_AUTHENTICATE", AUTHENTICATE_VERSION, {"authBytes": message})


def _token(login: SaslLogin, response: Mapping[str, Any]) -> bytes:
    """Return the mechanism's message. Raises SaslAuthenticationError."""
    if response["errorCode"]:
        reason = response["errorMessage"] or error_name(response["errorCode"])
        raise SaslAuthenticationError(
            with_full_stop(f"The broker rejected the login of {login.username}: {reason}"),
            "Check user, password and sasl.mechanism.",
        )
    return b64decode(response["authBytes"])
