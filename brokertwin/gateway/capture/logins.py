"""Principal of a connection, from the SASL exchange that passes through.

PLAIN names the user in its only token, SCRAM in the client's first message, OAUTHBEARER in the
claim `sub` by default. For GSSAPI, and for SCRAM with a delegation token, only the broker knows the
principal; it is then None.

Without SaslAuthenticate (SaslHandshake version 0), tokens are frames without a header.

Source: RFC 4616, RFC 5802, RFC 7628, KIP-43, KIP-152; `SaslServerAuthenticator` in Kafka.
"""

from brokertwin.gateway.security import oauthbearer, plain, scram

ANONYMOUS = "User:ANONYMOUS"
HANDSHAKE_WITHOUT_HEADERS = 0
_ROUNDS = {plain.MECHANISM: 1, oauthbearer.MECHANISM: 1, **dict.fromkeys(scram.MECHANISMS, 2)}
"""Number of tokens that client and broker each send, by mechanism."""


class LoginTracker:
    """Tracks the logins of one connection.

    Attributes:
        principal: authenticated principal; None if unknown.
    """

    def __init__(self) -> None:
        self.principal: str | None = ANONYMOUS
        self._mechanism = ""
        self._candidate: str | None = None
        self._rounds_left = 0
        self._is_raw = False

    def takes_raw(self, frame: bytes) -> bool:
        """True if a client's frame is a token without header.

        The number of GSSAPI tokens is unknown. A frame whose first byte is 0 is then a request,
        because all API keys begin with it and no token does.
        """
        if self._is_raw:
            is_known = self._mechanism in _ROUNDS
            self._is_raw = self._rounds_left > 0 if is_known else not frame.startswith(b"\0")
        return self._is_raw

    def handshake(self, version: int, mechanism: object) -> None:
        """Record a successful SaslHandshake."""
        self._mechanism = str(mechanism)
        self._rounds_left = _ROUNDS.get(self._mechanism, 0)
        self._is_raw = version == HANDSHAKE_WITHOUT_HEADERS
        self._candidate = None

    def token(self, token: bytes) -> None:
        if self._rounds_left == _ROUNDS.get(self._mechanism):
            self._candidate = _user_of(self._mechanism, token)

    def accepted(self, response: bytes = b"") -> None:
        """Record that the broker accepted a token, with its reply.

        A non-empty reply to an OAUTHBEARER token is a refusal without an error code.
        """
        if self._mechanism == oauthbearer.MECHANISM and response:
            return
        self._rounds_left -= 1
        if self._rounds_left <= 0:
            self.principal = self._candidate


def _user_of(mechanism: str, token: bytes) -> str | None:
    """Return the principal in a client's first token, or None."""
    if mechanism == plain.MECHANISM:
        parts = token.split(b"\0")
        return f"User:{parts[1].decode(errors='replace')}" if len(parts) == 3 else None
    if mechanism == oauthbearer.MECHANISM:
        user = oauthbearer.sub_claim(token)
        return f"User:{user}" if user else None
    if mechanism not in scram.MECHANISMS or b"tokenauth=true" in token.split(b","):
        return None
    try:
        return f"User:{scram.parse_client_first(token).user}"
    except scram.LoginError:
        return None
