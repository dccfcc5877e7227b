"""Who is behind a connection, from the SASL exchange that passes through.

PLAIN names the user in its only token, SCRAM in the client's first message, OAUTHBEARER in its
token's claim `sub`, where brokers look that are not told otherwise. Whom GSSAPI logs in, and whose
delegation token a SCRAM login uses, only the broker knows: the principal is then None.

Before SaslAuthenticate (SaslHandshake version 0), tokens go as frames of their own, without header.

Source: RFC 4616, RFC 5802, RFC 7628, KIP-43, KIP-152; `SaslServerAuthenticator` in Kafka.
"""

from brokertwin.gateway.security import oauthbearer, plain, scram

ANONYMOUS = "User:ANONYMOUS"
HANDSHAKE_WITHOUT_HEADERS = 0
_ROUNDS = {plain.MECHANISM: 1, oauthbearer.MECHANISM: 1, **dict.fromkeys(scram.MECHANISMS, 2)}
"""How often client and broker send a token, by mechanism."""


class Login:
    """Follows the logins of one connection.

    Attributes:
        principal: who is logged in; None where that cannot be told.
    """

    def __init__(self) -> None:
        self.principal: str | None = ANONYMOUS
        self._mechanism = ""
        self._candidate: str | None = None
        self._rounds_left = 0
        self._is_raw = False

    def takes_raw(self, frame: bytes) -> bool:
        """Whether a frame of the client is a token without header.

        Where only the mechanism knows how many tokens there are (GSSAPI), a first byte of 0 makes
        it a request: no token begins so, and all API keys do.
        """
        if self._is_raw:
            is_known = self._mechanism in _ROUNDS
            self._is_raw = self._rounds_left > 0 if is_known else not frame.startswith(b"\0")
        return self._is_raw

    def handshake(self, version: int, mechanism: object) -> None:
        """SaslHandshake was answered without error."""
        self._mechanism = str(mechanism)
        self._rounds_left = _ROUNDS.get(self._mechanism, 0)
        self._is_raw = version == HANDSHAKE_WITHOUT_HEADERS
        self._candidate = None

    def token(self, token: bytes) -> None:
        """The client sends a token."""
        if self._rounds_left == _ROUNDS.get(self._mechanism):
            self._candidate = _user_of(self._mechanism, token)

    def accepted(self, answer: bytes = b"") -> None:
        """The broker takes the token, and maybe wants another one; with what it says to it.

        To a token of OAUTHBEARER it says something only where it refuses it, without an error.
        """
        if self._mechanism == oauthbearer.MECHANISM and answer:
            return
        self._rounds_left -= 1
        if self._rounds_left <= 0:
            self.principal = self._candidate


def _user_of(mechanism: str, token: bytes) -> str | None:
    """The principal that a client's first token names; None where it names none."""
    if mechanism == plain.MECHANISM:
        parts = token.split(b"\0")
        return f"User:{parts[1].decode(errors='replace')}" if len(parts) == 3 else None
    if mechanism == oauthbearer.MECHANISM:
        user = oauthbearer.told_user(token)
        return f"User:{user}" if user else None
    if mechanism not in scram.MECHANISMS or b"tokenauth=true" in token.split(b","):
        return None
    try:
        return f"User:{scram.parse_client_first(token).user}"
    except scram.AuthenticationError:
        return None
