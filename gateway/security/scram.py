"""SCRAM on the server's side: RFC 5802, with SHA-256 (RFC 7677) and SHA-512 as Kafka has it.

A server keeps no password: of salt and iterations it makes the salted password, and of that the
stored key, which checks a client's proof, and the server key, which proves to the client that the
server knows it. Channel binding and extensions are not used, as in Kafka. User names and passwords
are taken as their UTF-8 bytes and not normalised (no SASLprep): Kafka's clients do not either, so
that a library that does would refuse passwords that they send.

Beyond Kafka, names may have characters beyond ASCII. The nonce must be the one that was given, and
a reserved extension (`m=`) is refused, as the RFC wants. Like Kafka, what the client says of
channel binding in its last message is not compared: there is nothing to bind.

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
"""RFC 7677's least number, below which Kafka's clients refuse to go on."""

ITERATIONS_MAX = 16384
"""The most that Kafka takes."""

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
    """A SCRAM mechanism: its name and that of its hash function in hashlib."""

    name: str
    digest: str


MECHANISMS = {
    mechanism.name: mechanism
    for mechanism in (Mechanism("SCRAM-SHA-256", "sha256"), Mechanism("SCRAM-SHA-512", "sha512"))
}
"""The mechanisms that Kafka has, by name."""


class AuthenticationError(Exception):
    """A client is not who it says it is, or does not speak its mechanism.

    Attributes:
        told: what the client is told of it; None for no more than that it failed. Neither has
            anything that the client sent.
    """

    def __init__(self, told: str | None = None) -> None:
        super().__init__(told)
        self.told = told


OTHER_AUTHORIZATION = (
    "Authentication failed: Client requested an authorization id that is different from username"
)


class Credential(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What a server keeps of a password, for one user and one mechanism.

    The keys do for whoever has them and listens what the password does: they are shown nowhere.
    """

    user: str
    mechanism: str
    iterations: int
    salt: bytes
    stored_key: bytes
    server_key: bytes

    def __repr__(self) -> str:
        """User and mechanism only."""
        return f"Credential({self.user!r}, {self.mechanism})"


def derive(
    user: str, mechanism: Mechanism, password: bytes, salt: bytes, iterations: int
) -> Credential:
    """What to keep of a password; takes some ms of a core."""
    salted = hashlib.pbkdf2_hmac(mechanism.digest, password, salt, iterations)
    return of_salted(user, mechanism, salted, salt, iterations)


def of_salted(
    user: str, mechanism: Mechanism, salted: bytes, salt: bytes, iterations: int
) -> Credential:
    """What to keep of a salted password."""
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
    """Whether a credential was made of a password; takes as long as `derive`."""
    mechanism = MECHANISMS[credential.mechanism]
    found = derive(
        credential.user, mechanism, password, credential.salt, credential.iterations
    ).stored_key
    return hmac.compare_digest(found, credential.stored_key)


class ClientFirst(NamedTuple):
    """A client's first message: whom it wants to be, and what later proofs are made over."""

    user: str
    bare: bytes
    nonce: bytes
    is_token: bool = False
    """The user is a delegation token's id (`tokenauth=true`)."""


def parse_client_first(message: bytes) -> ClientFirst:
    """Raises AuthenticationError where the message is malformed or asks to act for another user."""
    found = _CLIENT_FIRST.fullmatch(message)
    if found is None:
        raise AuthenticationError
    try:
        user = _unescaped(found["name"]).decode()
    except UnicodeDecodeError:
        raise AuthenticationError from None
    if found["authorization"] not in (None, found["name"]):
        raise AuthenticationError(OTHER_AUTHORIZATION)
    extensions = dict(each.split(b"=", 1) for each in found["extensions"].split(b",") if each)
    is_token = extensions.get(b"tokenauth", b"").lower() == b"true"
    return ClientFirst(user, found["bare"], found["nonce"], is_token)


class Challenge:
    """What a server sends after the first message, and its check of the client's proof.

    Args:
        first: the client's first message.
        credential: what is kept of the password of the user that it names.
        nonce: the server's part of the nonce; random where not given.
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
        """The server's last message. Raises AuthenticationError where the proof is none."""
        found = _CLIENT_FINAL.fullmatch(message)
        if found is None or not hmac.compare_digest(found["nonce"], self._nonce):
            raise AuthenticationError
        signed = b",".join((self._first.bare, self.message, found["without_proof"]))
        signature = hmac.digest(self._credential.stored_key, signed, self._digest)
        proof = b64decode(found["proof"])
        if len(proof) != len(signature):
            raise AuthenticationError
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        stored_key = hashlib.new(self._digest, client_key).digest()
        if not hmac.compare_digest(stored_key, self._credential.stored_key):
            raise AuthenticationError
        own = hmac.digest(self._credential.server_key, signed, self._digest)
        return b"v=" + b64encode(own)


def _unescaped(name: bytes) -> bytes:
    return name.replace(b"=2C", b",").replace(b"=3D", b"=")
