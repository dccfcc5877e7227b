"""Delegation tokens at the edge: their ids and hmacs, which no event and no topic ever has.

The hmac of a token is HMAC-SHA-512 of its id with `delegation.token.secret.key`, as in Kafka; who
has it in base64 logs in with SCRAM, the id for a user and `tokenauth=true` (KIP-48). The engine
keeps all else (`state/access/delegation_tokens.py`). All gateways of a cluster have the same key.
Without one there are no tokens: 61 DELEGATION_TOKEN_AUTH_DISABLED.

Source: `DelegationTokenControlManager.createHmac`, `DelegationTokenPublisher` in Kafka.
"""

import hashlib
import hmac
import secrets
from base64 import b64decode, b64encode, urlsafe_b64encode
from typing import NamedTuple
from uuid import uuid4

from brokertwin.gateway.engine.engine import Answer, Body, EdgeRequest, Engine
from brokertwin.gateway.security import scram
from brokertwin.gateway.security.scram import (
    ITERATIONS_MIN,
    AuthenticationError,
    Credential,
    Mechanism,
)
from brokertwin.state.core.kafka_apis import (
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


class Owned(NamedTuple):
    """What somebody who logs in with a token needs to know of it; time in ms since 1970."""

    owner: str
    expiry_timestamp: int


class Tokens:
    """The tokens of a gateway's cluster.

    Args:
        engine: keeps them.
        secret_key: of which their hmacs are made; None: there are none.
    """

    def __init__(self, engine: Engine, secret_key: str | None) -> None:
        self._engine = engine
        self._key = None if secret_key is None else secret_key.encode()

    def hmac_of(self, token_id: str) -> bytes:
        """The secret of a token."""
        assert self._key is not None, "without a key there are no tokens"
        return hmac.digest(self._key, token_id.encode(), "sha512")

    async def answer(self, asked: EdgeRequest, is_allowed: bool) -> Answer:
        """What the engine says of a request, with hmacs where the answer has some.

        `is_allowed` tells whether such requests may come over the connection.
        """
        api_key = asked.header["requestApiKey"]
        edge = self._edge(is_allowed)
        body = dict(asked.body)
        if api_key == CREATE and self._key is not None:
            edge["tokenId"] = _new_id()
            edge["digest"] = _digest(self.hmac_of(edge["tokenId"]))
        elif api_key in (RENEW, EXPIRE):
            edge["digest"] = _digest(b64decode(body.pop("hmac")))
        answer = await self._engine.submit(asked._replace(body=body | {"edge": edge}))
        if self._key is not None and answer.response is not None:
            self._put_hmacs(answer.response)
        return answer

    def _edge(self, is_allowed: bool) -> Body:
        return {"isEnabled": self._key is not None, "isAllowed": is_allowed}

    def _put_hmacs(self, response: Body) -> None:
        for each in (response, *response.get("tokens", ())):
            if each.get("tokenId"):
                each["hmac"] = b64encode(self.hmac_of(each["tokenId"])).decode()

    async def find(self, broker: int, token_id: str) -> Owned:
        """Whose a token is. Raises AuthenticationError where there is none, UnansweredError."""
        if self._key is None:
            raise AuthenticationError
        header: Body = {"requestApiKey": DESCRIBE, "requestApiVersion": _VERSION}
        header |= {"correlationId": 0, "clientId": "brokertwin-gateway"}
        body = {"owners": None, "edge": self._edge(True) | {"login": token_id}}
        asked = EdgeRequest(broker, "tokens", "User:ANONYMOUS", "127.0.0.1", header, body)
        answer = await self._engine.submit(asked)
        found = (answer.response or {}).get("tokens")
        if not found:
            raise AuthenticationError
        return Owned(found[0]["principalName"], found[0]["expiryTimestamp"])

    def credential(self, token_id: str, mechanism: Mechanism) -> Credential:
        """What a SCRAM exchange is checked with: the password is the hmac in base64."""
        password = b64encode(self.hmac_of(token_id))
        salt = secrets.token_bytes(_SALT_BYTES)
        return scram.derive(token_id, mechanism, password, salt, ITERATIONS_MIN)


def _digest(secret: bytes) -> str:
    """By which the engine finds a token: nobody gets the hmac from it."""
    return hashlib.sha256(secret).hexdigest()


def _new_id() -> str:
    """A random UUID as Kafka prints it; none that begins with a dash, which tools would take."""
    while True:
        found = urlsafe_b64encode(uuid4().bytes).rstrip(b"=").decode()
        if not found.startswith("-"):
            return found
