"""Signed OAUTHBEARER tokens, verified with the keys of a JWKS (RFC 7517).

For listeners whose `sasl.server.callback.handler.class` is Kafka's
`OAuthBearerValidatorCallbackHandler`. `token_keys` provides the keys. A token requires `exp`, `iat`
and a user, and `aud` only if an audience is expected. PyJWT verifies signatures; the claims are
checked here against the gateway's clock.

Sources: `OAuthBearerValidatorCallbackHandler`, `BrokerJwtValidator`, `ClaimValidationUtils` in
Kafka, `VerificationJwkSelector` and `NumericDateValidator` in jose4j; KIP-768.
"""

from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from brokertwin.errors import UserError
from brokertwin.extras import need
from brokertwin.gateway.admin.broker_properties import BrokerProperties
from brokertwin.gateway.security import token_keys
from brokertwin.gateway.security.oauthbearer import MECHANISM, Bearer, refused
from brokertwin.gateway.security.token_keys import KeySource, key_source

if TYPE_CHECKING:
    from jwt import PyJWK

HANDLER = "sasl.server.callback.handler.class"
VALIDATOR = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
SKEW = "sasl.oauthbearer.clock.skew.seconds"
ISSUER, AUDIENCE = "sasl.oauthbearer.expected.issuer", "sasl.oauthbearer.expected.audience"
USER_CLAIM, SCOPE_CLAIM = "sasl.oauthbearer.sub.claim.name", "sasl.oauthbearer.scope.claim.name"
SETTINGS = frozenset({SKEW, ISSUER, AUDIENCE, USER_CLAIM, SCOPE_CLAIM}) | token_keys.SETTINGS
"""Settings with an effect, beside the handler's, which belongs to the mechanism."""

SECONDS_MAX = (2**63 - 1) // 1000
"""Maximum time in s whose ms fit into 64 bits."""

_KEY_TYPES = {"RS": "RSA", "PS": "RSA", "ES": "EC", "HS": "oct", "Ed": "OKP"}
_CURVES = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}
_ALGORITHMS = frozenset(
    {f"{kind}{bits}" for kind in ("RS", "PS", "ES", "HS") for bits in (256, 384, 512)} | {"EdDSA"}
)


class SignedRules(NamedTuple):
    keys: KeySource
    skew_s: int = 30
    issuer: str | None = None
    audience: frozenset[str] = frozenset()
    user_claim: str = "sub"
    scope_claim: str = "scope"

    @classmethod
    def of(cls, properties: BrokerProperties) -> "SignedRules":
        """Create from a listener's settings.

        Raises:
            UserError: the keys cannot be loaded, or the extra is not installed.
        """
        need("OAUTHBEARER with signed tokens", "jwt")
        return cls(
            key_source(properties),
            properties.value(SKEW, MECHANISM),
            properties.text(ISSUER, MECHANISM),
            frozenset(properties.names(AUDIENCE, MECHANISM)),
            properties.text(USER_CLAIM, MECHANISM) or "sub",
            properties.text(SCOPE_CLAIM, MECHANISM) or "scope",
        )

    def user_of(self, token: str) -> str:
        """Return the user that an unverified token names, or an empty text."""
        from jwt import PyJWT, PyJWTError

        try:
            claims = PyJWT().decode_complete(token, options={"verify_signature": False})["payload"]
        except PyJWTError:
            return ""
        user = claims.get(self.user_claim, "")
        return user if isinstance(user, str) else ""

    def bearer(self, token: str, now: int) -> Bearer:
        """Verify a token at a time in ms. Raises RefusedTokenError."""
        claims = self._verified(token)
        user, seconds = claims.get(self.user_claim), now // 1000
        expires, issued = _whole(claims, "exp"), _whole(claims, "iat")
        if expires is None or issued is None or not isinstance(user, str) or not user.strip():
            raise refused()
        begins = _whole(claims, "nbf")
        if seconds - self.skew_s >= expires or expires < max(issued, begins or issued):
            raise refused()
        if begins is not None and begins > seconds + self.skew_s:
            raise refused()
        if self.issuer is not None and claims.get("iss") != self.issuer:
            raise refused()
        self._check_audience(claims)
        self._check_scopes(claims)
        return Bearer(user.strip(), 1000 * expires)

    def _verified(self, token: str) -> dict[str, Any]:
        from jwt import PyJWS, PyJWTError

        verifier = PyJWS(options={"enforce_minimum_key_length": True})
        try:
            header = verifier.get_unverified_header(token)
            algorithm = header.get("alg")
            if not isinstance(algorithm, str) or algorithm not in _ALGORITHMS:
                raise refused()
            key = self._key(algorithm, header.get("kid"))
            payload = verifier.decode(token, key, algorithms=[algorithm])
            return msgspec.json.decode(payload, type=dict[str, Any])
        except (PyJWTError, msgspec.DecodeError, UnicodeDecodeError):
            raise refused() from None

    def _key(self, algorithm: str, kid: str | None) -> "PyJWK":
        """Return the first key that may have signed; invalid keys are skipped."""
        from jwt import PyJWK, PyJWTError

        for key in self.keys.newest():
            parameters = {"kty": _KEY_TYPES[algorithm[:2]], "crv": _CURVES.get(algorithm)}
            if kid is not None:
                parameters["kid"] = kid
            if any(value and key.get(name) != value for name, value in parameters.items()):
                continue
            if key.get("alg", algorithm) != algorithm or key.get("use", "sig") != "sig":
                continue
            with suppress(PyJWTError, KeyError, TypeError, ValueError):
                return PyJWK(dict(key), algorithm)
        if isinstance(kid, str):
            self.keys.missing(kid)
        raise refused()

    def _check_audience(self, claims: dict[str, Any]) -> None:
        audience = claims.get("aud")
        if not isinstance(audience, str | list | None):
            raise refused()
        named = {audience} if isinstance(audience, str) else set(map(str, audience or ()))
        if ("aud" in claims or self.audience) and not named & self.audience:
            raise refused()

    def _check_scopes(self, claims: dict[str, Any]) -> None:
        """Reject empty or duplicate scopes; scopes are optional."""
        scopes = claims.get(self.scope_claim)
        listed = [scopes] if isinstance(scopes, str) else scopes if isinstance(scopes, list) else []
        words = [str(each).strip() for each in listed]
        if "" in words or len(set(words)) < len(words):
            raise refused()


def is_wanted(properties: BrokerProperties) -> bool:
    """True if a listener accepts signed tokens. Raises UserError for another handler."""
    handler = properties.given(HANDLER, MECHANISM)
    if handler not in (None, "", VALIDATOR):
        raise UserError(f"Unsupported {HANDLER}: {handler}.", f"Use {VALIDATOR}.")
    return bool(handler)


def _whole(claims: dict[str, Any], name: str) -> int | None:
    """Return a time in seconds, truncated."""
    value = claims.get(name)
    if value is None:
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not abs(value) <= SECONDS_MAX:
        raise refused()
    return int(value)
