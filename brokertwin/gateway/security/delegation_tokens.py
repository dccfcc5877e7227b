"""Delegation tokens at the gateway: ids and HMACs, which never reach an event or topic.

The HMAC of a token is HMAC-SHA-512 of its id with `delegation.token.secret.key`, as in Kafka. A
client with the base64 HMAC logs in with SCRAM, with the id as user and `tokenauth=true` (KIP-48).
The engine keeps everything else (`state/access/delegation_tokens.py`). All gateways of a cluster
have the same key. Without a key, tokens are disabled: `61 DELEGATION_TOKEN_AUTH_DISABLED`.

Source: `DelegationTokenControlManager.createHmac`, `DelegationTokenPublisher` in Kafka.
"""

import hashlib
import hmac
import secrets
from base64 import b64decode, b64encode, urlsafe_b64encode
from typing import NamedTuple
from uuid import uuid4

from brokertwin.gateway import refusals
from brokertwin.gateway.engine.engine import (
    Body,
    BrokerEngine,
    EdgeRequest,
    EngineResponse,
    internal_header,
)
from brokertwin.gateway.security import scram
from brokertwin.gateway.security.scram import ITERATIONS_MIN, Credential, LoginError, Mechanism
from brokertwin.protocol.kafka_apis import (
    CREATE_DELEGATION_TOKEN,
    DESCRIBE_DELEGATION_TOKEN,
    EXPIRE_DELEGATION_TOKEN,
    RENEW_DELEGATION_TOKEN,
)

SETTING = "delegation.token.secret.key"
CREATE, RENEW = CREATE_DELEGATION_TOKEN.key, RENEW_DELEGATION_TOKEN.key
EXPIRE, DESCRIBE = EXPIRE_DELEGATION_TOKEN.key, DESCRIBE_DELEGATION_TOKEN.key
APIS = frozenset({CREATE, RENEW, EXPIRE, DESCRIBE})
_SALT_BYTES = 16
_VERSION = 3


class TokenLogin(NamedTuple):
    """Owner and expiry of a token, for a login; time in ms since 1970."""

    owner: str
    expiry_timestamp: int


class Tokens:
    """Delegation tokens of a gateway's cluster.

    Args:
        engine: stores them.
        secret_key: key of their HMACs; None disables tokens.
    """

    def __init__(self, engine: BrokerEngine, secret_key: str | None) -> None:
        self._engine = engine
        self._key = None if secret_key is None else secret_key.encode()

    def hmac_of(self, token_id: str) -> bytes:
        assert self._key is not None, "without a key there are no tokens"
        return hmac.digest(self._key, token_id.encode(), "sha512")

    async def respond(self, request: EdgeRequest, is_allowed: bool) -> EngineResponse:
        """Process a request; add HMACs to the response.

        `is_allowed` is False if the connection may not send requests about tokens.
        """
        api_key = request.api_key
        edge = self._edge(is_allowed)
        body = request.document().body
        if api_key == CREATE and self._key is not None:
            edge["tokenId"] = _new_id()
            edge["digest"] = _digest(self.hmac_of(edge["tokenId"]))
        elif api_key in (RENEW, EXPIRE):
            edge["digest"] = _digest(b64decode(body.pop("hmac")))
        submitted = await self._engine.submit(request._replace(body=body | {"edge": edge}))
        if self._key is not None and submitted.response is not None:
            document = submitted.document(request.version)
            self._put_hmacs(document)
            return submitted._replace(response=refusals.to_struct(api_key, document))
        return submitted

    def _edge(self, is_allowed: bool) -> Body:
        return {"isEnabled": self._key is not None, "isAllowed": is_allowed}

    def _put_hmacs(self, response: Body) -> None:
        for each in (response, *response.get("tokens", ())):
            if each.get("tokenId"):
                each["hmac"] = b64encode(self.hmac_of(each["tokenId"])).decode()

    async def find(self, broker: int, token_id: str) -> TokenLogin:
        """Look up a token. Raises LoginError if it does not exist, and NoResponseError."""
        if self._key is None:
            raise LoginError
        header = internal_header(DESCRIBE, _VERSION, "brokertwin-gateway")
        body = {"owners": None, "edge": self._edge(True) | {"login": token_id}}
        request = EdgeRequest(broker, "tokens", "User:ANONYMOUS", "127.0.0.1", header, body)
        submitted = await self._engine.submit(request)
        tokens = submitted.document(_VERSION).get("tokens")
        if not tokens:
            raise LoginError
        return TokenLogin(tokens[0]["principalName"], tokens[0]["expiryTimestamp"])

    def credential(self, token_id: str, mechanism: Mechanism) -> Credential:
        """Return the SCRAM credential of a token: the password is the base64 HMAC."""
        password = b64encode(self.hmac_of(token_id))
        salt = secrets.token_bytes(_SALT_BYTES)
        return scram.derive(token_id, mechanism, password, salt, ITERATIONS_MIN)


def _digest(secret: bytes) -> str:
    """Hash an HMAC: the engine finds a token by it, and cannot derive the HMAC."""
    return hashlib.sha256(secret).hexdigest()


def _new_id() -> str:
    """Return a random UUID as Kafka prints it, without a leading dash.

    Command-line tools would parse it as an option.
    """
    while True:
        token_id = urlsafe_b64encode(uuid4().bytes).rstrip(b"=").decode()
        if not token_id.startswith("-"):
            return token_id
