"""SASL/PLAIN: plaintext user and password (RFC 4616), verified against hashed entries.

The error messages are those of Kafka's `PlainSaslServer`; KIP-43.
"""

from brokertwin.gateway.security.credentials import Credentials
from brokertwin.gateway.security.scram import OTHER_AUTHORIZATION, LoginError, matches

MECHANISM = "PLAIN"
_PARTS = 3


def claimed_user(message: bytes) -> str:
    """Return the user that an unverified message names, or an empty text."""
    parts = message.split(b"\0", _PARTS)
    return parts[1].decode(errors="replace") if len(parts) == _PARTS else ""


def authenticate(credentials: Credentials, message: bytes) -> str:
    """Authenticate a message; takes some ms of processor time.

    Raises:
        LoginError: authentication failed.
    """
    parts = message.split(b"\0", _PARTS)
    if len(parts) != _PARTS:
        raise LoginError(f"Invalid SASL/PLAIN response: expected {_PARTS} tokens, got {len(parts)}")
    authorization, name, password = parts
    if not name:
        raise LoginError("Authentication failed: username not specified")
    if not password:
        raise LoginError("Authentication failed: password not specified")
    user = name.decode(errors="replace")
    if not matches(credentials.find_any(user), password):
        raise LoginError("Authentication failed: Invalid username or password")
    if authorization not in (b"", name):
        raise LoginError(OTHER_AUTHORIZATION)
    return user
