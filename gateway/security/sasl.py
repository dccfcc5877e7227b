"""Who a connection is: nobody in particular, the owner of a certificate, or whom SASL proves.

`SaslHandshake` (key 17, versions 0 and 1) names a mechanism. After version 1 its messages go in
`SaslAuthenticate` requests (key 36, versions 0 to 2), after version 0 as frames without a header.

    START --ApiVersions--> VERSIONS --SaslHandshake--> AUTHENTICATE --proof--> COMPLETE
      '--------------SaslHandshake-----------------------^  ^--SaslHandshake------'

Until COMPLETE every other request ends the connection; while AUTHENTICATE it is first answered
ILLEGAL_SASL_STATE. What fails is answered, and the connection closed, only after
`connection.failed.authentication.delay.ms`. With `connections.max.reauth.ms` a client is told how
long it may go on, and has to authenticate again by then, at most once a second, with the same
mechanism and as the same user (KIP-368). Where there is nothing to prove, or no more, both APIs
are answered ILLEGAL_SASL_STATE.

Beyond Kafka: a user that there is not gets a SCRAM challenge like any other and fails with the
proof; in Kafka its first message fails.

Sources: `SaslServerAuthenticator`, `KafkaChannel.maybeBeginServerReauthentication` in Kafka;
KIP-43, KIP-152, KIP-368; checked against Kafka 4.3.1
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
from brokertwin.gateway.protocol.frames import Request, api_key_of, decode_request, encode_response
from brokertwin.gateway.security import oauthbearer, plain, scram
from brokertwin.gateway.security.credentials import Credentials
from brokertwin.gateway.security.delegation_tokens import Owned, Tokens
from brokertwin.gateway.security.scram import (
    AuthenticationError,
    Challenge,
    ClientFirst,
    Credential,
)
from brokertwin.state.core.errors import Error
from brokertwin.state.core.kafka_apis import (
    API_VERSIONS,
    KAFKA_APIS,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
)

WITH_USERS = (plain.MECHANISM, *scram.MECHANISMS)
"""The mechanisms that need a credentials file."""

MECHANISMS = (*WITH_USERS, oauthbearer.MECHANISM)
REAUTHENTICATION_INTERVAL_S = 1
ANONYMOUS = "User:ANONYMOUS"

_AFTERWARDS = "SaslAuthenticate request received after successful authentication"


class Outcome(NamedTuple):
    """What to do after a frame: send an answer, and where there is a reason, close the connection.

    `is_delayed`: both only after `connection.failed.authentication.delay.ms`, because somebody
    could not authenticate.
    """

    answer: bytes | bytearray | None = None
    reason: str | None = None
    is_delayed: bool = False


class Authentication:
    """Who is at the other end of a connection; this one has nothing more to prove.

    Args:
        principal: who it is, such as `User:alice`.

    Attributes:
        principal: who it is.
        is_complete: whether that is certain; until then every frame is for `receive`.
        is_by_token: whether a delegation token has proven it.
    """

    def __init__(self, principal: str = ANONYMOUS) -> None:
        self.principal = principal
        self.is_complete = True
        self.is_by_token = False

    @property
    def frame_bytes_max(self) -> int | None:
        """The longest frame for now; None: as long as any other."""
        return None

    def takes(self, frame: bytes) -> bool:
        """Whether a frame is for `receive` and not for the broker."""
        return api_key_of(frame) in SASL_APIS

    @property
    def claimed(self) -> dict[str, str]:
        """What a failure's log line says of who tried: mechanism and user, as far as known."""
        return {}

    async def receive(self, frame: bytes) -> Outcome:
        """Answer a frame. Raises MalformedError."""
        return _not_now(decode_request(frame))


class SaslSettings(NamedTuple):
    """How SASL goes on a listener.

    `lifetimes_ms` has `connections.max.reauth.ms` of each mechanism, 0 for no limit; `gate` lets
    one password at a time be hashed. `bearer` has the rules of OAUTHBEARER. There are no
    credentials where no mechanism needs them.
    """

    credentials: Credentials | None
    mechanisms: tuple[str, ...]
    lifetimes_ms: dict[str, int]
    receive_bytes_max: int
    gate: asyncio.Semaphore
    bearer: oauthbearer.TokenRules = oauthbearer.Rules()

    @property
    def users(self) -> Credentials:
        """The credentials, for a mechanism that needs them."""
        assert self.credentials is not None, "there is a file for every mechanism with users"
        return self.credentials


class State(Enum):
    """What is expected next."""

    START = auto()
    VERSIONS = auto()
    AUTHENTICATE = auto()
    ANOTHER_MECHANISM = auto()
    COMPLETE = auto()


class SaslAuthentication(Authentication):
    """Authentication with SASL, of one connection.

    Args:
        settings: those of the listener.
        clock: seconds that only grow.
        features: what ApiVersions tells of the cluster before authentication, too.
        tokens: the delegation tokens that SCRAM takes.
        broker: whose connection it is.
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
        self._owned: Owned | None = None
        self._ends: int | None = None
        self._told = ""
        self._lifetime_ms = 0
        self._features = features
        self.is_complete = False
        self._settings = settings
        self._clock = clock
        self._state = State.START
        self._has_headers = False
        self._mechanism = ""
        self._challenge: Challenge | None = None
        self._user = ""
        self._proven: tuple[str, str] | None = None
        self._expires: float | None = None
        self._began_again: float | None = None

    @property
    def frame_bytes_max(self) -> int | None:
        """`sasl.server.max.receive.size` until authentication is complete."""
        return None if self.is_complete else self._settings.receive_bytes_max

    @property
    def claimed(self) -> dict[str, str]:
        """Mechanism and user, as the client sent them, of a try that is not complete."""
        named = {"mechanism": self._mechanism, "user": self._user}
        return {name: text for name, text in named.items() if text}

    def takes(self, frame: bytes) -> bool:
        """Everything until complete, then what concerns SASL, and everything of a stale session."""
        return not self.is_complete or self._is_expired() or super().takes(frame)

    def _is_expired(self) -> bool:
        return self._expires is not None and self._clock() > self._expires

    async def receive(self, frame: bytes) -> Outcome:
        """Take a frame. Raises MalformedError."""
        api_key = api_key_of(frame)
        if self._state is State.COMPLETE:
            return self._after(frame, api_key)
        if self._state is State.ANOTHER_MECHANISM:
            return Outcome(None, "another mechanism for re-authentication", True)
        if self._state is State.AUTHENTICATE:
            if not self._has_headers:
                return await self._bare_message(frame)
            return await self._authenticate(decode_request(frame))
        if api_key == SASL_HANDSHAKE.key:
            return self._handshake(decode_request(frame))
        if api_key == API_VERSIONS.key and self._state is State.START:
            return self._versions(frame)
        name = KAFKA_APIS[api_key].name if api_key in KAFKA_APIS else f"API key {api_key}"
        return Outcome(None, f"{name} before authentication")

    def _after(self, frame: bytes, api_key: int) -> Outcome:
        """Authentication is complete: it may begin again, where a session ends some time."""
        now = self._clock()
        may_again = (
            self._began_again is None or now - self._began_again >= REAUTHENTICATION_INTERVAL_S
        )
        if api_key == SASL_HANDSHAKE.key and self._expires is not None and may_again:
            self._began_again = now
            self.is_complete = False
            return self._handshake(decode_request(frame))
        if self._is_expired():
            return Outcome(None, "the session has expired without re-authentication")
        return _not_now(decode_request(frame))

    def _versions(self, frame: bytes) -> Outcome:
        answer, error = api_versions.answer_to(frame, self._features)
        if error == Error.NONE:
            self._state = State.VERSIONS
        return Outcome(answer)

    def _handshake(self, request: Request) -> Outcome:
        mechanism = self._mechanism = request.body["mechanism"]
        is_served = mechanism in self._settings.mechanisms
        code = Error.NONE if is_served else Error.UNSUPPORTED_SASL_MECHANISM
        answer = _answer(request, {"errorCode": code, "mechanisms": self._settings.mechanisms})
        if not is_served:
            return Outcome(answer, "a SASL mechanism that is not enabled", True)
        self._has_headers = request.version > 0
        self._state = State.AUTHENTICATE
        if self._proven is not None and mechanism != self._proven[0]:
            self._state = State.ANOTHER_MECHANISM
        self._user = ""
        self._challenge = self._owned = self._ends = None
        self._told = ""
        return Outcome(answer)

    async def _bare_message(self, message: bytes) -> Outcome:
        """A frame without a header, after a handshake of version 0."""
        try:
            answer = await self._evaluate(message)
        except AuthenticationError as error:
            return Outcome(None, self._failure(error), True)
        return Outcome(answer)

    async def _authenticate(self, request: Request) -> Outcome:
        if request.api_key != SASL_AUTHENTICATE.key:
            name = request.header["requestApiKeyName"]
            body = refusals.error_response(request, Error.ILLEGAL_SASL_STATE)
            answer = _answer(request, body) if body is not None else None
            return Outcome(answer, f"{name} during authentication", True)
        body = {"errorCode": Error.NONE}
        try:
            body["authBytes"] = await self._evaluate(b64decode(request.body["authBytes"]))
        except AuthenticationError as error:
            message = self._failure(error)
            body = {"errorCode": Error.SASL_AUTHENTICATION_FAILED, "errorMessage": message}
            return Outcome(_answer(request, body), message, True)
        if self.is_complete:
            body["sessionLifetimeMs"] = self._lifetime_ms
        return Outcome(_answer(request, body))

    def _failure(self, error: AuthenticationError) -> str:
        doing = "authentication" if self._proven is None else "re-authentication"
        return error.told or (
            f"Authentication failed during {doing} due to invalid credentials"
            f" with SASL mechanism {self._mechanism}"
        )

    async def _evaluate(self, message: bytes) -> bytes:
        """The mechanism's answer to a message of the client. Raises AuthenticationError."""
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
        answer = self._challenge.verify(message)
        self._complete(self._user if self._owned is None else self._owned.owner)
        return answer

    def _bearer(self, message: bytes) -> bytes:
        """The answer to a token, or to who has been told why it is not taken."""
        if self._told and message == oauthbearer.ERROR_SEEN:
            raise AuthenticationError(self._told)
        self._told = ""
        rules = self._settings.bearer
        self._user = oauthbearer.claimed_user(message, rules)
        try:
            found = oauthbearer.authenticate(rules, message, now_ms())
        except oauthbearer.RefusedTokenError as refused:
            self._told = str(refused)
            return self._told.encode()
        self._ends = found.expiry_timestamp
        self._complete(found.user)
        return b""

    async def _credential(self, first: ClientFirst) -> Credential:
        """What the client's proof is checked with: a user's entry, or a token's secret."""
        if not first.is_token:
            return self._settings.users.find(first.user, self._mechanism)
        if self._tokens is None:
            raise AuthenticationError
        self._owned = await self._tokens.find(self._broker, first.user)
        self._ends = self._owned.expiry_timestamp
        return self._tokens.credential(first.user, scram.MECHANISMS[self._mechanism])

    def _complete(self, user: str) -> None:
        if self._proven is not None and user != self._proven[1]:
            raise AuthenticationError(
                "Cannot change principals during re-authentication"
                f" from User.{self._proven[1]}: User.{user}"
            )
        self._proven = (self._mechanism, user)
        self.principal = f"User:{user}"
        self._begin_session()
        self._challenge = None
        self._state = State.COMPLETE
        self.is_complete = True

    def _begin_session(self) -> None:
        """It ends after `connections.max.reauth.ms`, and with the token that it began with."""
        ends = [each for each in (self._settings.lifetimes_ms[self._mechanism],) if each]
        self.is_by_token = self._owned is not None
        if self._ends is not None:
            ends.append(max(self._ends - now_ms(), 0))
        self._lifetime_ms = min(ends, default=0)
        self._expires = self._clock() + self._lifetime_ms / 1000 if ends else None


def _not_now(request: Request) -> Outcome:
    """The answer where there is nothing to authenticate, or no more."""
    body: Body = {"errorCode": Error.ILLEGAL_SASL_STATE, "mechanisms": []}
    if request.api_key == SASL_AUTHENTICATE.key:
        body = {"errorCode": Error.ILLEGAL_SASL_STATE, "errorMessage": _AFTERWARDS}
    return Outcome(_answer(request, body))


def _answer(request: Request, body: Body) -> bytearray:
    return encode_response(request.api_key, request.version, request.header["correlationId"], body)
