"""Authentication of a connection: anonymous, by certificate, or with SASL.

`SaslHandshake` (key 17, versions 0 and 1) selects a mechanism. After version 1 its messages are in
`SaslAuthenticate` requests (key 36, versions 0 to 2), after version 0 in frames without a header.

    START --ApiVersions--> VERSIONS --SaslHandshake--> AUTHENTICATE --proof--> COMPLETE
      '--------------SaslHandshake-----------------------^  ^--SaslHandshake------'

Before COMPLETE, any other request closes the connection; in AUTHENTICATE it first gets `34
ILLEGAL_SASL_STATE`. Failure responses and the close are delayed by
`connection.failed.authentication.delay.ms`. With `connections.max.reauth.ms` a client receives its
session lifetime and must re-authenticate within it, at most once a second, with the same mechanism
and user (KIP-368). If authentication is not required or complete, both APIs get `34
ILLEGAL_SASL_STATE`.

Unlike in Kafka, an unknown user gets a SCRAM challenge and fails with its proof; in Kafka its first
message fails.

Sources: `SaslServerAuthenticator`, `KafkaChannel.maybeBeginServerReauthentication` in Kafka;
KIP-43, KIP-152, KIP-368; compared with Kafka 4.3.1
(`tests/gateway/security/test_sasl_like_kafka.py`).
"""

import asyncio
import time
from base64 import b64decode
from collections.abc import Callable
from enum import Enum, auto
from typing import NamedTuple

from brokertwin.gateway import refusals
from brokertwin.gateway.admin import api_versions
from brokertwin.gateway.admin.api_versions import SASL_APIS
from brokertwin.gateway.admin.features import Features
from brokertwin.gateway.engine.engine import Body, now_ms
from brokertwin.gateway.security import oauthbearer, plain, scram
from brokertwin.gateway.security.credentials import Credentials
from brokertwin.gateway.security.delegation_tokens import TokenLogin, Tokens
from brokertwin.gateway.security.scram import Challenge, ClientFirst, Credential, LoginError
from brokertwin.protocol.errors import Error
from brokertwin.protocol.frames import RequestFrame, api_key_of, decode_request, encode_response
from brokertwin.protocol.kafka_apis import (
    API_VERSIONS,
    KAFKA_APIS,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
)

WITH_USERS = (plain.MECHANISM, *scram.MECHANISMS)
"""Mechanisms that require a credentials file."""

MECHANISMS = (*WITH_USERS, oauthbearer.MECHANISM)
REAUTHENTICATION_INTERVAL_S = 1
ANONYMOUS = "User:ANONYMOUS"

_AFTERWARDS = "SaslAuthenticate request received after successful authentication"


class SaslStep(NamedTuple):
    """Response to a frame, and a reason if the connection is to be closed.

    `is_delayed`: after a failed authentication, both wait for
    `connection.failed.authentication.delay.ms`.
    """

    response: bytes | bytearray | None = None
    reason: str | None = None
    is_delayed: bool = False


class Authentication:
    """Authentication of a connection that has nothing to prove.

    Attributes:
        is_complete: whether it is authenticated; until then `receive` gets every frame.
        is_by_token: whether it was authenticated with a delegation token.
    """

    def __init__(self, principal: str = ANONYMOUS) -> None:
        self.principal = principal
        self.is_complete = True
        self.is_by_token = False

    is_plain = True
    """Whether only frames of `SASL_APIS` are for `receive`; a class with `takes` decides."""

    def __init_subclass__(cls) -> None:
        cls.is_plain = cls.takes is Authentication.takes

    @property
    def frame_bytes_max(self) -> int | None:
        """Maximum frame size in the current state; None: the general limit."""
        return None

    def takes(self, frame: bytes) -> bool:
        """True if a frame is for `receive` and not for the broker."""
        return api_key_of(frame) in SASL_APIS

    @property
    def claimed(self) -> dict[str, str]:
        """Mechanism and user of an incomplete authentication, as far as known."""
        return {}

    async def receive(self, frame: bytes) -> SaslStep:
        """Process a frame. Raises MalformedError."""
        return _not_now(decode_request(frame))


class SaslSettings(NamedTuple):
    """SASL settings of a listener.

    `lifetimes_ms` has `connections.max.reauth.ms` of each mechanism, 0 for no limit. `gate` allows
    one password hash at a time. `bearer` has the requirements of OAUTHBEARER. `credentials` is None
    if no mechanism requires them.
    """

    credentials: Credentials | None
    mechanisms: tuple[str, ...]
    lifetimes_ms: dict[str, int]
    receive_bytes_max: int
    gate: asyncio.Semaphore
    bearer: oauthbearer.TokenRules = oauthbearer.TokenRequirements()

    @property
    def users(self) -> Credentials:
        assert self.credentials is not None, "there is a file for every mechanism with users"
        return self.credentials


class SaslState(Enum):
    """The next expected message."""

    START = auto()
    VERSIONS = auto()
    AUTHENTICATE = auto()
    ANOTHER_MECHANISM = auto()
    COMPLETE = auto()


class SaslAuthentication(Authentication):
    """SASL authentication of one connection.

    Args:
        clock: monotonic seconds.
        features: finalized features for ApiVersions before authentication.
        tokens: delegation tokens that SCRAM accepts.
    """

    def __init__(
        self,
        settings: SaslSettings,
        clock: Callable[[], float] = time.monotonic,
        features: Features | None = None,
        tokens: Tokens | None = None,
        broker: int = 1,
    ) -> None:
        super().__init__()
        self._tokens = tokens
        self._broker = broker
        self._owned: TokenLogin | None = None
        self._ends: int | None = None
        self._rejection = ""
        self._lifetime_ms = 0
        self._features = features
        self.is_complete = False
        self._settings = settings
        self._clock = clock
        self._state = SaslState.START
        self._has_headers = False
        self._mechanism = ""
        self._challenge: Challenge | None = None
        self._user = ""
        self._proven: tuple[str, str] | None = None
        self._expires: float | None = None
        self._began_again: float | None = None

    @property
    def frame_bytes_max(self) -> int | None:
        """Return `sasl.server.max.receive.size` until authentication is complete."""
        return None if self.is_complete else self._settings.receive_bytes_max

    @property
    def claimed(self) -> dict[str, str]:
        named = {"mechanism": self._mechanism, "user": self._user}
        return {name: text for name, text in named.items() if text}

    def takes(self, frame: bytes) -> bool:
        return not self.is_complete or self._is_expired() or super().takes(frame)

    def _is_expired(self) -> bool:
        return self._expires is not None and self._clock() > self._expires

    async def receive(self, frame: bytes) -> SaslStep:
        """Process a frame. Raises MalformedError."""
        api_key = api_key_of(frame)
        if self._state is SaslState.COMPLETE:
            return self._after(frame, api_key)
        if self._state is SaslState.ANOTHER_MECHANISM:
            return SaslStep(None, "another mechanism for re-authentication", True)
        if self._state is SaslState.AUTHENTICATE:
            if not self._has_headers:
                return await self._bare_message(frame)
            return await self._authenticate(decode_request(frame))
        if api_key == SASL_HANDSHAKE.key:
            return self._handshake(decode_request(frame))
        if api_key == API_VERSIONS.key and self._state is SaslState.START:
            return self._versions(frame)
        name = KAFKA_APIS[api_key].name if api_key in KAFKA_APIS else f"API key {api_key}"
        return SaslStep(None, f"{name} before authentication")

    def _after(self, frame: bytes, api_key: int) -> SaslStep:
        """Process a frame after authentication, which may start re-authentication."""
        now = self._clock()
        may_again = (
            self._began_again is None or now - self._began_again >= REAUTHENTICATION_INTERVAL_S
        )
        if api_key == SASL_HANDSHAKE.key and self._expires is not None and may_again:
            self._began_again = now
            self.is_complete = False
            return self._handshake(decode_request(frame))
        if self._is_expired():
            return SaslStep(None, "the session has expired without re-authentication")
        return _not_now(decode_request(frame))

    def _versions(self, frame: bytes) -> SaslStep:
        response, error = api_versions.response_frame(frame, self._features, self._broker)
        if error == Error.NONE:
            self._state = SaslState.VERSIONS
        return SaslStep(response)

    def _handshake(self, request: RequestFrame) -> SaslStep:
        mechanism = self._mechanism = request.body["mechanism"]
        is_served = mechanism in self._settings.mechanisms
        code = Error.NONE if is_served else Error.UNSUPPORTED_SASL_MECHANISM
        response = _encoded(request, {"errorCode": code, "mechanisms": self._settings.mechanisms})
        if not is_served:
            return SaslStep(response, "a SASL mechanism that is not enabled", True)
        self._has_headers = request.version > 0
        self._state = SaslState.AUTHENTICATE
        if self._proven is not None and mechanism != self._proven[0]:
            self._state = SaslState.ANOTHER_MECHANISM
        self._user = ""
        self._challenge = self._owned = self._ends = None
        self._rejection = ""
        return SaslStep(response)

    async def _bare_message(self, message: bytes) -> SaslStep:
        """Process a frame without a header, after a handshake of version 0."""
        try:
            response = await self._evaluate(message)
        except LoginError as error:
            return SaslStep(None, self._failure(error), True)
        return SaslStep(response)

    async def _authenticate(self, request: RequestFrame) -> SaslStep:
        if request.api_key != SASL_AUTHENTICATE.key:
            name = request.header["requestApiKeyName"]
            body = refusals.error_response(request, Error.ILLEGAL_SASL_STATE)
            response = _encoded(request, body) if body is not None else None
            return SaslStep(response, f"{name} during authentication", True)
        body = {"errorCode": Error.NONE}
        try:
            body["authBytes"] = await self._evaluate(b64decode(request.body["authBytes"]))
        except LoginError as error:
            message = self._failure(error)
            body = {"errorCode": Error.SASL_AUTHENTICATION_FAILED, "errorMessage": message}
            return SaslStep(_encoded(request, body), message, True)
        if self.is_complete:
            body["sessionLifetimeMs"] = self._lifetime_ms
        return SaslStep(_encoded(request, body))

    def _failure(self, error: LoginError) -> str:
        doing = "authentication" if self._proven is None else "re-authentication"
        return error.detail or (
            f"Authentication failed during {doing} due to invalid credentials"
            f" with SASL mechanism {self._mechanism}"
        )

    async def _evaluate(self, message: bytes) -> bytes:
        """Return the mechanism's reply to a client message. Raises LoginError."""
        if self._mechanism == plain.MECHANISM:
            self._user = plain.claimed_user(message)
            async with self._settings.gate:
                user = await asyncio.to_thread(plain.authenticate, self._settings.users, message)
            self._complete(user)
            return b""
        if self._mechanism == oauthbearer.MECHANISM:
            return self._bearer(message)
        if self._challenge is None:
            first = scram.parse_client_first(message)
            self._user = first.user
            self._challenge = Challenge(first, await self._credential(first))
            return self._challenge.message
        response = self._challenge.verify(message)
        self._complete(self._user if self._owned is None else self._owned.owner)
        return response

    def _bearer(self, message: bytes) -> bytes:
        """Return the reply to a token, or fail after the client has seen the error."""
        if self._rejection and message == oauthbearer.ERROR_SEEN:
            raise LoginError(self._rejection)
        self._rejection = ""
        rules = self._settings.bearer
        self._user = oauthbearer.claimed_user(message, rules)
        try:
            found = oauthbearer.authenticate(rules, message, now_ms())
        except oauthbearer.RefusedTokenError as refused:
            self._rejection = str(refused)
            return self._rejection.encode()
        self._ends = found.expiry_timestamp
        self._complete(found.user)
        return b""

    async def _credential(self, first: ClientFirst) -> Credential:
        """Return the credential for the proof: a user's entry, or a token's."""
        if not first.is_token:
            return self._settings.users.find(first.user, self._mechanism)
        if self._tokens is None:
            raise LoginError
        self._owned = await self._tokens.find(self._broker, first.user)
        self._ends = self._owned.expiry_timestamp
        return self._tokens.credential(first.user, scram.MECHANISMS[self._mechanism])

    def _complete(self, user: str) -> None:
        if self._proven is not None and user != self._proven[1]:
            raise LoginError(
                "Cannot change principals during re-authentication"
                f" from User.{self._proven[1]}: User.{user}"
            )
        self._proven = (self._mechanism, user)
        self.principal = f"User:{user}"
        self._begin_session()
        self._challenge = None
        self._state = SaslState.COMPLETE
        self.is_complete = True

    def _begin_session(self) -> None:
        """Start a session that ends with its maximum lifetime or its token."""
        ends = [each for each in (self._settings.lifetimes_ms[self._mechanism],) if each]
        self.is_by_token = self._owned is not None
        if self._ends is not None:
            ends.append(max(self._ends - now_ms(), 0))
        self._lifetime_ms = min(ends, default=0)
        self._expires = self._clock() + self._lifetime_ms / 1000 if ends else None


def _not_now(request: RequestFrame) -> SaslStep:
    """Return the response if there is nothing to authenticate."""
    body: Body = {"errorCode": Error.ILLEGAL_SASL_STATE, "mechanisms": []}
    if request.api_key == SASL_AUTHENTICATE.key:
        body = {"errorCode": Error.ILLEGAL_SASL_STATE, "errorMessage": _AFTERWARDS}
    return SaslStep(_encoded(request, body))


def _encoded(request: RequestFrame, body: Body) -> bytearray:
    return encode_response(request.api_key, request.version, request.header["correlationId"], body)
