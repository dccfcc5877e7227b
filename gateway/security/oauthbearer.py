"""SASL/OAUTHBEARER (RFC 7628), and its unsecured tokens, as Kafka has it where nothing is set up.

An unsecured token is a JWS without a signature: whoever writes one is whoever it says. It is for
development, as in Kafka; tokens with a signature are in `signed_tokens`. Options are those of the
module in `sasl.jaas.config` of the listener and mechanism:

    unsecuredValidatorPrincipalClaimName      sub
    unsecuredValidatorScopeClaimName          scope
    unsecuredValidatorRequiredScope           none
    unsecuredValidatorAllowableClockSkewMs    0

A token that is not taken is answered with a document; the failure comes with what the client says
next. A session ends with its token.

Sources: `OAuthBearerSaslServer`, `OAuthBearerClientInitialResponse`, `OAuthBearerUnsecuredJws`,
`OAuthBearerUnsecuredValidatorCallbackHandler`, `OAuthBearerValidationUtils` in Kafka; KIP-255.
"""

import binascii
import re
from base64 import b64decode
from typing import Any, NamedTuple, Protocol

import msgspec

from brokertwin.errors import UserError
from brokertwin.gateway.protocol.primitives import MalformedError
from brokertwin.gateway.security.scram import AuthenticationError

MECHANISM = "OAUTHBEARER"
JAAS = "sasl.jaas.config"
ERROR_SEEN = b"\x01"
"""What a client says that has got the document of its failure."""

INVALID_TOKEN, INSUFFICIENT_SCOPE = "invalid_token", "insufficient_scope"
_PREFIX = "unsecuredValidator"
_OPTION = re.compile(r"([\w.]+)\s*=\s*(?:\"([^\"]*)\"|([^\s;\"]+))")
_SASL_NAME = rb"(?:[\x01-\x7f](?<![=,])|=2C|=3D)+"
_PAIRS = rb"(?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)*"
_FIRST = re.compile(rb"n,(?:a=(?P<authorization>%b))?,\x01(?P<pairs>%b)\x01" % (_SASL_NAME, _PAIRS))
_AUTH = re.compile(r"(?P<scheme>\w+) +(?P<token>[-_~+/.a-zA-Z0-9]+=*)", re.ASCII)


class Bearer(NamedTuple):
    """Who a token says it is of, and until when; ms since 1970."""

    user: str
    expiry_timestamp: int


class TokenRules(Protocol):
    """What a token has to have."""

    def user_of(self, token: str) -> str:
        """Who a token says it is of, be it taken or not; empty where it does not say."""

    def bearer(self, token: str, now: int) -> Bearer:
        """Whose a token is, at a time in ms. Raises RefusedTokenError."""


def options(jaas: str | None) -> dict[str, str]:
    """The options of the module in a text of `sasl.jaas.config`; empty ones are left out."""
    found = {name: quoted or plain for name, quoted, plain in _OPTION.findall(jaas or "")}
    return {name: value.strip() for name, value in found.items() if value.strip()}


class Rules(NamedTuple):
    """What an unsecured token has to have."""

    principal_claim: str = "sub"
    scope_claim: str = "scope"
    required_scope: tuple[str, ...] = ()
    skew_ms: int = 0

    @classmethod
    def of(cls, jaas: str | None) -> "Rules":
        """Those of a module's options. Raises UserError where a number is none."""
        found = {k.removeprefix(_PREFIX): v for k, v in options(jaas).items()}
        skew = found.get("AllowableClockSkewMs", "0")
        if not skew.isdecimal():
            raise UserError(
                f"Invalid {_PREFIX}AllowableClockSkewMs {skew}.", "Use a number of ms, 0 or more."
            )
        return cls(
            found.get("PrincipalClaimName", "sub"),
            found.get("ScopeClaimName", "scope"),
            tuple(found.get("RequiredScope", "").split()),
            int(skew),
        )

    def user_of(self, token: str) -> str:
        """Who a token says it is of, be it taken or not; empty where it does not say."""
        try:
            found = _claims(token).get(self.principal_claim, "")
        except RefusedTokenError:
            return ""
        return found if isinstance(found, str) else ""

    def bearer(self, token: str, now: int) -> Bearer:
        """Whose a token is, at a time in ms. Raises RefusedTokenError."""
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
    """A token is not taken; the text is the document that the client gets."""


def claimed_user(message: bytes, rules: TokenRules) -> str:
    """Who a message says it is from; empty where it does not say."""
    try:
        token, _ = _parse(message)
    except (AuthenticationError, MalformedError):
        return ""
    return rules.user_of(token)


def told_user(message: bytes) -> str:
    """As `claimed_user`, of a token that somebody else judges: its claim `sub`."""
    try:
        token, _ = _parse(message)
        found = _document(token.split(".")[1]).get("sub", "")
    except (AuthenticationError, MalformedError, RefusedTokenError, IndexError):
        return ""
    return found.strip() if isinstance(found, str) else ""


def authenticate(rules: TokenRules, message: bytes, now: int) -> Bearer:
    """Who a client's first message proves to be.

    A text for a scope is one scope, be it of several words, as in Kafka.

    Raises:
        AuthenticationError: it is none, or asks to act for another user.
        MalformedError: it is of another scheme, for which Kafka closes the connection.
        RefusedTokenError: its token is not taken.
    """
    token, authorization = _parse(message)
    bearer = rules.bearer(token, now)
    if authorization not in ("", bearer.user):
        raise AuthenticationError(
            f"Authentication failed: Client requested an authorization id ({authorization})"
            f" that is different from the token's principal name ({bearer.user})"
        )
    return bearer


def _parse(message: bytes) -> tuple[str, str]:
    """The token of a client's first message, and for whom it wants to act."""
    found = _FIRST.fullmatch(message)
    if found is None:
        raise AuthenticationError
    pairs = dict(
        pair.split("=", 1) for pair in found["pairs"].decode("ascii").split("\x01") if pair
    )
    auth = _AUTH.fullmatch(pairs.get("auth", ""))
    if auth is None:
        raise AuthenticationError
    if auth["scheme"].lower() != "bearer":
        raise MalformedError(f"OAUTHBEARER with the scheme {auth['scheme']}")
    return auth["token"], (found["authorization"] or b"").decode()


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
    found = claims.get(name)
    if found is not None and (isinstance(found, bool) or not isinstance(found, int | float)):
        raise refused()
    return found


def refused(status: str = INVALID_TOKEN, scope: str = "") -> RefusedTokenError:
    """The error for a token that is not taken."""
    more = f', "scope":"{scope}"' if scope else ""
    return RefusedTokenError(f'{{"status":"{status}"{more}}}')
