"""SASL/OAUTHBEARER (RFC 7628), and its unsecured tokens, Kafka's default.

An unsecured token is a JWS without a signature: any client can claim any user. As in Kafka, it is
for development. `signed_tokens` handles signed ones. Options of the module in the listener's and
mechanism's `sasl.jaas.config`:

    unsecuredValidatorPrincipalClaimName      sub
    unsecuredValidatorScopeClaimName          scope
    unsecuredValidatorRequiredScope           none
    unsecuredValidatorAllowableClockSkewMs    0

The reply to a rejected token is a JSON document; authentication fails with the client's next
message. A session ends when its token expires.

Sources: `OAuthBearerSaslServer`, `OAuthBearerClientInitialResponse`, `OAuthBearerUnsecuredJws`,
`OAuthBearerUnsecuredValidatorCallbackHandler`, `OAuthBearerValidationUtils` in Kafka; KIP-255.
"""

import binascii
import re
from base64 import b64decode
from typing import Any, NamedTuple, Protocol

import msgspec

from brokertwin.errors import UserError
from brokertwin.gateway.security.scram import LoginError
from brokertwin.protocol.primitives import MalformedError

MECHANISM = "OAUTHBEARER"
JAAS = "sasl.jaas.config"
ERROR_SEEN = b"\x01"
"""Client's message after the document of a failure."""

INVALID_TOKEN, INSUFFICIENT_SCOPE = "invalid_token", "insufficient_scope"
_PREFIX = "unsecuredValidator"
_OPTION = re.compile(r"([\w.]+)\s*=\s*(?:\"([^\"]*)\"|([^\s;\"]+))")
_SASL_NAME = rb"(?:[\x01-\x7f](?<![=,])|=2C|=3D)+"
_PAIRS = rb"(?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)*"
_FIRST = re.compile(rb"n,(?:a=(?P<authorization>%b))?,\x01(?P<pairs>%b)\x01" % (_SASL_NAME, _PAIRS))
_AUTH = re.compile(r"(?P<scheme>\w+) +(?P<token>[-_~+/.a-zA-Z0-9]+=*)", re.ASCII)


class Bearer(NamedTuple):
    """User and expiry of a token; time in ms since 1970."""

    user: str
    expiry_timestamp: int


class TokenRules(Protocol):
    """Requirements of a kind of tokens."""

    def user_of(self, token: str) -> str:
        """Return the user that an unverified token names, or an empty text."""

    def bearer(self, token: str, now: int) -> Bearer:
        """Verify a token at a time in ms. Raises RefusedTokenError."""


def options(jaas: str | None) -> dict[str, str]:
    """Return the non-empty options of the module in a `sasl.jaas.config`."""
    values = {name: quoted or plain for name, quoted, plain in _OPTION.findall(jaas or "")}
    return {name: value.strip() for name, value in values.items() if value.strip()}


class TokenRequirements(NamedTuple):
    principal_claim: str = "sub"
    scope_claim: str = "scope"
    required_scope: tuple[str, ...] = ()
    skew_ms: int = 0

    @classmethod
    def of(cls, jaas: str | None) -> "TokenRequirements":
        """Create from a module's options. Raises UserError for an invalid number."""
        values = {k.removeprefix(_PREFIX): v for k, v in options(jaas).items()}
        skew = values.get("AllowableClockSkewMs", "0")
        if not skew.isdecimal():
            raise UserError(
                f"Invalid {_PREFIX}AllowableClockSkewMs {skew}.", "Use a number of ms, 0 or more."
            )
        return cls(
            values.get("PrincipalClaimName", "sub"),
            values.get("ScopeClaimName", "scope"),
            tuple(values.get("RequiredScope", "").split()),
            int(skew),
        )

    def user_of(self, token: str) -> str:
        """Return the user that an unverified token names, or an empty text."""
        try:
            user = _claims(token).get(self.principal_claim, "")
        except RefusedTokenError:
            return ""
        return user if isinstance(user, str) else ""

    def bearer(self, token: str, now: int) -> Bearer:
        """Verify a token at a time in ms. Raises RefusedTokenError."""
        claims = _claims(token)
        user, expires = claims.get(self.principal_claim), _number(claims, "exp")
        issued = _number(claims, "iat")
        if not isinstance(user, str) or not user.strip() or expires is None:
            raise refused()
        if issued is not None and (1000 * issued > now + self.skew_ms or expires <= issued):
            raise refused()
        if now - self.skew_ms >= 1000 * expires:
            raise refused()
        scope = claims.get(self.scope_claim)
        held = [scope.strip()] if isinstance(scope, str) else scope
        if held is not None and not isinstance(held, list):
            raise refused()
        if not set(self.required_scope) <= {str(each) for each in held or ()}:
            raise refused(INSUFFICIENT_SCOPE, f"[{', '.join(self.required_scope)}]")
        return Bearer(user, round(1000 * expires))


class RefusedTokenError(Exception):
    """A token is rejected; the message is the document for the client."""


def claimed_user(message: bytes, rules: TokenRules) -> str:
    """Return the user that an unverified message names, or an empty text."""
    try:
        token, _ = _parse(message)
    except (LoginError, MalformedError):
        return ""
    return rules.user_of(token)


def sub_claim(message: bytes) -> str:
    """Same for a token that another broker verifies: its claim `sub`."""
    try:
        token, _ = _parse(message)
        claim = _document(token.split(".")[1]).get("sub", "")
    except (LoginError, MalformedError, RefusedTokenError, IndexError):
        return ""
    return claim.strip() if isinstance(claim, str) else ""


def authenticate(rules: TokenRules, message: bytes, now: int) -> Bearer:
    """Authenticate a client's first message.

    As in Kafka, a scope given as text is a single scope, even with several words.

    Raises:
        LoginError: the message is malformed, or requests another authorization id.
        MalformedError: another scheme, for which Kafka closes the connection.
        RefusedTokenError: the token is rejected.
    """
    token, authorization = _parse(message)
    bearer = rules.bearer(token, now)
    if authorization not in ("", bearer.user):
        raise LoginError(
            f"Authentication failed: Client requested an authorization id ({authorization})"
            f" that is different from the token's principal name ({bearer.user})"
        )
    return bearer


def _parse(message: bytes) -> tuple[str, str]:
    """Return the token and the authorization id of a client's first message."""
    match = _FIRST.fullmatch(message)
    if match is None:
        raise LoginError
    pairs = dict(
        pair.split("=", 1) for pair in match["pairs"].decode("ascii").split("\x01") if pair
    )
    auth = _AUTH.fullmatch(pairs.get("auth", ""))
    if auth is None:
        raise LoginError
    if auth["scheme"].lower() != "bearer":
        raise MalformedError(f"OAUTHBEARER with the scheme {auth['scheme']}")
    return auth["token"], (match["authorization"] or b"").decode()


def _claims(token: str) -> dict[str, Any]:
    parts = token.split(".")
    if len(parts) != 3 or not parts[1] or parts[2]:
        raise refused()
    header, claims = _document(parts[0]), _document(parts[1])
    if header.get("alg") != "none":
        raise refused()
    return claims


def _document(part: str) -> dict[str, Any]:
    try:
        text = b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True)
        return msgspec.json.decode(text, type=dict[str, Any])
    except (binascii.Error, msgspec.DecodeError, UnicodeDecodeError):
        raise refused() from None


def _number(claims: dict[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise refused()
    return value


def refused(status: str = INVALID_TOKEN, scope: str = "") -> RefusedTokenError:
    more = f', "scope":"{scope}"' if scope else ""
    return RefusedTokenError(f'{{"status":"{status}"{more}}}')
