"""SASL/PLAIN: user and password in the clear (RFC 4616), verified against hashed entries.

The messages to the client are those of Kafka's `PlainSaslServer`; KIP-43.
"""

from brokertwin.gateway.security.credentials import Credentials
from brokertwin.gateway.security.scram import OTHER_AUTHORIZATION, AuthenticationError, matches

MECHANISM = "PLAIN"
_PARTS = 3


def claimed_user(message: bytes) -> str:
    """Who a message says it is from; empty where it does not say."""
    parts = message.split(b"\0", _PARTS)
    return parts[1].decode(errors="replace") if len(parts) == _PARTS else ""


def authenticate(credentials: Credentials, message: bytes) -> str:
    """The user that a message proves to be; takes some ms of a core.

    Raises:
        AuthenticationError: it proves nothing.
    """
    parts = message.split(b"\0", _PARTS)
    if len(parts) != _PARTS:
        raise AuthenticationError(
            f"Invalid SASL/PLAIN response: expected {_PARTS} tokens, got {len(parts)}"
        )
    authorization, name, password = parts
    if not name:
        raise AuthenticationError("Authentication failed: username not specified")
    if not password:
        raise AuthenticationError("Authentication failed: password not specified")
    user = name.decode(errors="replace")
    if not matches(credentials.find_any(user), password):
        raise AuthenticationError("Authentication failed: Invalid username or password")
    if authorization not in (b"", name):
        raise AuthenticationError(OTHER_AUTHORIZATION)
    return user
