"""Server side of SCRAM: RFC 5802, with SHA-256 (RFC 7677) and SHA-512 as in Kafka.

A server stores no password. It derives the salted password, then the stored key, which verifies a
client's proof, and the server key, which authenticates the server to the client. As in Kafka there
is no channel binding and no extensions. User names and passwords are UTF-8 bytes without SASLprep,
because Kafka's clients do not normalise either.

Unlike in Kafka, names may be non-ASCII, the nonce must match, and a reserved extension (`m=`) is
rejected, as the RFC requires. As in Kafka, the channel binding data of the last message is not
compared.

Sources: `ScramSaslServer`, `ScramMessages`, `ScramMechanism` in Kafka; KIP-84.
"""

import hashlib
import hmac
import re
import secrets
from base64 import b64decode, b64encode
from typing import NamedTuple

import msgspec

NONCE_BYTES = 18
ITERATIONS_MIN = 4096
"""Minimum of RFC 7677, enforced by Kafka's clients."""

ITERATIONS_MAX = 16384
"""Maximum accepted by Kafka."""

_SASL_NAME = rb"(?:[^\x00=,]|=2C|=3D)+"
_PRINTABLE = rb"[\x21-\x2b\x2d-\x7e]+"
_BASE64 = rb"(?:[a-zA-Z0-9/+]{4})*(?:[a-zA-Z0-9/+]{3}=|[a-zA-Z0-9/+]{2}==)?"
_EXTENSIONS = rb"(?:,[A-Za-z]+=[^\x00,]+)*"
_CLIENT_FIRST = re.compile(
    rb"n,(?:a=(?P<authorization>%b))?,(?P<bare>n=(?P<name>%b),r=(?P<nonce>%b)(?P<extensions>%b))"
    % (_SASL_NAME, _SASL_NAME, _PRINTABLE, _EXTENSIONS)
)
_CLIENT_FINAL = re.compile(
    rb"(?P<without_proof>c=%b,r=(?P<nonce>%b)%b),p=(?P<proof>%b)"
    % (_BASE64, _PRINTABLE, _EXTENSIONS, _BASE64)
)


class Mechanism(NamedTuple):
    """A SCRAM mechanism, and its hash function in hashlib."""

    name: str
    digest: str


MECHANISMS = {
    mechanism.name: mechanism
    for mechanism in (Mechanism("SCRAM-SHA-256", "sha256"), Mechanism("SCRAM-SHA-512", "sha512"))
}
"""Kafka's SCRAM mechanisms by name."""


class LoginError(Exception):
    """Authentication failed, or the client violates the mechanism's protocol.

    Attributes:
        detail: error message for the client, or None for a generic one. It has nothing the client
            sent.
    """

    def __init__(self, detail: str | None = None) -> None:
        super().__init__(detail)
        self.detail = detail


OTHER_AUTHORIZATION = (
    "Authentication failed: Client requested an authorization id that is different from username"
)


class Credential(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Verifier of a password, for one user and one mechanism.

    With the keys and a recorded login, an attacker can impersonate the user, so they are never
    shown.
    """

    user: str
    mechanism: str
    iterations: int
    salt: bytes
    stored_key: bytes
    server_key: bytes

    def __repr__(self) -> str:
        """Show user and mechanism only."""
        return f"Credential({self.user!r}, {self.mechanism})"


def derive(
    user: str, mechanism: Mechanism, password: bytes, salt: bytes, iterations: int
) -> Credential:
    """Derive the verifier of a password; takes some ms of processor time."""
    salted = hashlib.pbkdf2_hmac(mechanism.digest, password, salt, iterations)
    return of_salted(user, mechanism, salted, salt, iterations)


def of_salted(
    user: str, mechanism: Mechanism, salted: bytes, salt: bytes, iterations: int
) -> Credential:
    """Derive the verifier of a salted password."""
    client_key = hmac.digest(salted, b"Client Key", mechanism.digest)
    return Credential(
        user=user,
        mechanism=mechanism.name,
        iterations=iterations,
        salt=salt,
        stored_key=hashlib.new(mechanism.digest, client_key).digest(),
        server_key=hmac.digest(salted, b"Server Key", mechanism.digest),
    )


def matches(credential: Credential, password: bytes) -> bool:
    """True if a credential was derived from a password; takes as long as `derive`."""
    mechanism = MECHANISMS[credential.mechanism]
    key = derive(
        credential.user, mechanism, password, credential.salt, credential.iterations
    ).stored_key
    return hmac.compare_digest(key, credential.stored_key)


class ClientFirst(NamedTuple):
    """A client's first message: its user, and the parts that later proofs sign."""

    user: str
    bare: bytes
    nonce: bytes
    is_token: bool = False
    """Whether the user is a delegation token's id (`tokenauth=true`)."""


def parse_client_first(message: bytes) -> ClientFirst:
    """Parse a client's first message. Raises LoginError."""
    match = _CLIENT_FIRST.fullmatch(message)
    if match is None:
        raise LoginError
    try:
        user = _unescaped(match["name"]).decode()
    except UnicodeDecodeError:
        raise LoginError from None
    if match["authorization"] not in (None, match["name"]):
        raise LoginError(OTHER_AUTHORIZATION)
    extensions = dict(each.split(b"=", 1) for each in match["extensions"].split(b",") if each)
    is_token = extensions.get(b"tokenauth", b"").lower() == b"true"
    return ClientFirst(user, match["bare"], match["nonce"], is_token)


class Challenge:
    """The server's challenge, and the verification of the client's proof.

    Args:
        credential: verifier of the user's password.
        nonce: the server's part of the nonce; random by default.
    """

    def __init__(
        self, first: ClientFirst, credential: Credential, nonce: bytes | None = None
    ) -> None:
        self._credential = credential
        self._digest = MECHANISMS[credential.mechanism].digest
        self._first = first
        own = nonce or b64encode(secrets.token_bytes(NONCE_BYTES))
        self._nonce = first.nonce + own
        self.message = b"r=%b,s=%b,i=%d" % (
            self._nonce,
            b64encode(credential.salt),
            credential.iterations,
        )

    def verify(self, message: bytes) -> bytes:
        """Return the server's final message. Raises LoginError if the proof is wrong."""
        match = _CLIENT_FINAL.fullmatch(message)
        if match is None or not hmac.compare_digest(match["nonce"], self._nonce):
            raise LoginError
        signed = b",".join((self._first.bare, self.message, match["without_proof"]))
        signature = hmac.digest(self._credential.stored_key, signed, self._digest)
        proof = b64decode(match["proof"])
        if len(proof) != len(signature):
            raise LoginError
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        stored_key = hashlib.new(self._digest, client_key).digest()
        if not hmac.compare_digest(stored_key, self._credential.stored_key):
            raise LoginError
        own = hmac.digest(self._credential.server_key, signed, self._digest)
        return b"v=" + b64encode(own)


class ClientExchange:
    """A client's side of one login; the user's name and password are UTF-8.

    Raises:
        ValueError: the server's message is invalid, or the server does not know the password.
    """

    def __init__(self, user: str, password: str, mechanism: Mechanism, nonce: str = "") -> None:
        self._mechanism, self._password = mechanism, password.encode()
        name = user.replace("=", "=3D").replace(",", "=2C")
        self._nonce = nonce or secrets.token_urlsafe(NONCE_BYTES)
        self._bare = f"n={name},r={self._nonce}".encode()
        self._signature = b""

    def first(self) -> bytes:
        return b"n,," + self._bare

    def final(self, server_first: bytes) -> bytes:
        """Return the last message, with the proof."""
        fields = dict(part.split(b"=", 1) for part in server_first.split(b","))
        if not fields.get(b"r", b"").startswith(self._nonce.encode()) or b"m" in fields:
            raise ValueError("the server's nonce does not begin with the client's")
        iterations = int(fields.get(b"i", b"0"))
        if iterations < ITERATIONS_MIN:
            raise ValueError(f"{iterations} iterations, but at least {ITERATIONS_MIN} are required")
        digest, salt = self._mechanism.digest, b64decode(fields[b"s"], validate=True)
        salted = hashlib.pbkdf2_hmac(digest, self._password, salt, iterations)
        without_proof = b"c=biws,r=" + fields[b"r"]
        signed = b",".join([self._bare, server_first, without_proof])
        key = hmac.digest(salted, b"Client Key", digest)
        signature = hmac.digest(hashlib.new(digest, key).digest(), signed, digest)
        proof = bytes(one ^ other for one, other in zip(key, signature, strict=True))
        self._signature = hmac.digest(hmac.digest(salted, b"Server Key", digest), signed, digest)
        return without_proof + b",p=" + b64encode(proof)

    def check(self, server_final: bytes) -> None:
        """Check that the server knows the password, too."""
        if not hmac.compare_digest(server_final, b"v=" + b64encode(self._signature)):
            raise ValueError("its signature is wrong")


def _unescaped(name: bytes) -> bytes:
    return name.replace(b"=2C", b",").replace(b"=3D", b"=")
