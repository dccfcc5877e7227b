"""SASL over a raw connection: the requests, and SCRAM's client as kafka-python has it."""

from base64 import b64decode
from typing import Any

from kafka.net.sasl.scram import ScramClient

from tests.support.gateways import Client

PLAIN, SCRAM_256, SCRAM_512 = "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"
USER, PASSWORD = "alice", "wonder land"


def plain(user: str = USER, password: str = PASSWORD, authorization: str = "") -> bytes:
    return f"{authorization}\0{user}\0{password}".encode()


def handshake(client: Client, mechanism: str, version: int = 1) -> dict[str, Any]:
    return client.call("SASL_HANDSHAKE", version, mechanism=mechanism)


def authenticate(client: Client, message: bytes, version: int = 2) -> dict[str, Any]:
    return client.call("SASL_AUTHENTICATE", version, authBytes=message)


def token(response: dict[str, Any]) -> bytes:
    return b64decode(response["authBytes"])


class _TokenClient(ScramClient):
    """Says that the user is a delegation token's id."""

    def first_message(self) -> bytes:
        bare: bytes = b"n=%b,r=%b,tokenauth=true" % (self.user, self.nonce)
        self.auth_message += bare
        return b"n,," + bare


def scram(
    client: Client,
    mechanism: str = SCRAM_256,
    user: str = USER,
    password: str = PASSWORD,
    is_token: bool = False,
) -> dict[str, Any]:
    """The exchange after the handshake; returns the last response, whose proof is checked."""
    exchange = (_TokenClient if is_token else ScramClient)(user, password, mechanism)
    first = authenticate(client, exchange.first_message())
    if first["errorCode"]:
        return first
    exchange.process_server_first_message(token(first))
    last = authenticate(client, exchange.final_message())
    if not last["errorCode"]:
        exchange.process_server_final_message(token(last))
    return last


def log_in(client: Client, user: str = USER, password: str = PASSWORD) -> dict[str, Any]:
    """Handshake and authentication with PLAIN; returns the last response."""
    handshake(client, PLAIN)
    return authenticate(client, plain(user, password))
