"""Key and trust stores in Kafka's three formats: PEM, PKCS12 and JKS.

As in Java, the first bytes distinguish PKCS12 and JKS. A store is rejected if its `type` is PEM and
its content is not, or the reverse. PKCS12 and JKS are converted to PEM in memory. A private key is
in a file only while OpenSSL loads it, encrypted with a random password.

A JKS store is a list of entries with a digest at its end (`JavaKeyStore` in OpenJDK); no maintained
library reads it. Its keys are only masked by a stream of SHA-1 digests.

Sources: `DefaultSslEngineFactory` in Kafka; KIP-651 (PEM); RFC 7292 (PKCS12).
"""

import errno
import hashlib
import hmac
import secrets
import ssl
import struct
from collections.abc import Iterable, Mapping
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from brokertwin.errors import UserError
from brokertwin.extras import need

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
    from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12Certificate

PEM, PKCS12, JKS = "PEM", "PKCS12", "JKS"
TYPES = (PEM, PKCS12, JKS)

STORE_BYTES_MAX = 16 * 1024 * 1024
"""Maximum size of a store file."""

_CERTIFICATE = "-----BEGIN CERTIFICATE-----"
_JKS_MAGIC = b"\xfe\xed\xfe\xed"
_KEY_ENTRY, _CERTIFICATE_ENTRY = 1, 2
_TYPED_CERTIFICATES = 2  # first version whose certificates have a type
_DIGEST_BYTES = 20
_WHITENER = b"Mighty Aphrodite"


class StoreEntry(NamedTuple):
    """An entry of a store: alias, and certificate in DER."""

    alias: str
    certificate: bytes


class KeyStore(NamedTuple):
    """Content of a PKCS12 or JKS store, in PEM.

    `identity` has the private key, encrypted with `password`, and its certificate chain. `trusted`
    has the authorities' certificates. Both may be empty.
    """

    identity: str
    password: str
    trusted: str
    entries: tuple[StoreEntry, ...] = ()


def as_pem(properties: Mapping[str, str]) -> dict[str, str]:
    """Return a client's properties with PKCS12 and JKS stores replaced by PEM texts.

    Raises:
        UserError: as `content` and `read`, or a store lacks what it is for.
    """
    values = dict(properties)
    for store in ("ssl.truststore", "ssl.keystore"):
        if location := values.get(f"{store}.location"):
            _make_pem(values, store, location)
    return values


def _make_pem(values: dict[str, str], store: str, location: str) -> None:
    declared = values.get(f"{store}.type")
    kind, data = content(Path(location), store, declared.upper() if declared else None)
    values[f"{store}.type"] = PEM
    password = values.pop(f"{store}.password", None)
    if kind == PEM:
        return
    found = read(kind, data, store, password, values.get("ssl.key.password"))
    del values[f"{store}.location"]
    is_trust = store == "ssl.truststore"
    if not (found.trusted if is_trust else found.identity):
        what = "certificate of an authority" if is_trust else "private key"
        raise UserError(f"{store}.location {location} has no {what}.")
    if is_trust:
        values["ssl.truststore.certificates"] = found.trusted
    else:
        key, begin, chain = found.identity.partition(_CERTIFICATE)
        values["ssl.keystore.key"] = key
        values["ssl.keystore.certificate.chain"] = begin + chain
        values["ssl.key.password"] = found.password


def content(file: Path, name: str, declared: str | None) -> tuple[str, bytes]:
    """Return a store's type and bytes.

    Args:
        file: path of the store.
        name: prefix of its settings, such as `ssl.keystore`.
        declared: its `type` setting.

    Raises:
        UserError: the file cannot be read, or the type is unknown or does not match.
    """
    if declared not in (None, PEM) and str(declared).upper() not in (PKCS12, JKS):
        raise UserError(f"Unknown {name}.type {declared}.", f"Use one of: {', '.join(TYPES)}.")
    try:
        data = bytes_of(file)
    except OSError as error:
        raise UserError(f"Cannot read {name}.location {file}: {error.strerror}.") from None
    kind = JKS if data.startswith(_JKS_MAGIC) else PKCS12 if data[:1] == b"\x30" else PEM
    if declared is not None and (declared == PEM) != (kind == PEM):
        raise UserError(
            f"{name}.type is {declared}, but {file} looks like {kind}.", f"Set {name}.type={kind}."
        )
    return kind, data


def bytes_of(file: Path) -> bytes:
    """Read a store file, which a client may have named. Raises OSError."""
    try:
        is_file = file.is_file()
        file.stat()
    except ValueError:  # a NUL or a lone surrogate
        raise OSError(errno.EINVAL, "it is not a valid path") from None
    if not is_file:
        raise OSError(errno.EINVAL, "it is not a file")
    if file.stat().st_size > STORE_BYTES_MAX:
        raise OSError(errno.EFBIG, f"it has more than {STORE_BYTES_MAX} bytes")
    return file.read_bytes()


def read(kind: str, data: bytes, name: str, password: str | None, of_key: str | None) -> KeyStore:
    """Read a PKCS12 or JKS store.

    Args:
        kind: PKCS12 or JKS.
        data: bytes of the store.
        name: prefix of its settings.
        password: password of the store.
        of_key: password of the key; None: that of the store, as in Kafka.

    Raises:
        UserError: a password is wrong or missing, or the store is damaged.
    """
    need(f"A {kind} store", "cryptography")
    try:
        return (_of_jks if kind == JKS else _of_pkcs12)(data, password, of_key)
    except _HiddenKeyError:
        raise UserError(
            f"Cannot decrypt the key in the {kind} store of {name}.location.",
            "Set ssl.key.password.",
        ) from None
    except (ValueError, struct.error, EOFError):
        raise UserError(
            f"Cannot open the {kind} store of {name}.location: it is damaged, or the password is"
            " wrong.",
            f"Set {name}.password.",
        ) from None


def _of_pkcs12(data: bytes, password: str | None, of_key: str | None) -> KeyStore:
    """Read PKCS12, which has one password for the store and its key."""
    from cryptography.hazmat.primitives.serialization import pkcs12

    store = pkcs12.load_pkcs12(data, (password or of_key or "").encode() or None)
    others = [_entry(each) for each in store.additional_certs]
    trusted = [each.certificate for each in others]
    if store.key is None or store.cert is None:
        return KeyStore("", "", _pem(trusted), tuple(others))
    own = _entry(store.cert)
    key_store = _with_key(store.key, [own.certificate, *trusted], _pem(trusted))
    return key_store._replace(entries=(own,))


def _entry(entry: "PKCS12Certificate") -> StoreEntry:
    from cryptography.hazmat.primitives.serialization import Encoding

    alias = (entry.friendly_name or b"1").decode(errors="replace").lower()
    return StoreEntry(alias, entry.certificate.public_bytes(Encoding.DER))


def _of_jks(data: bytes, password: str | None, of_key: str | None) -> KeyStore:
    """Read JKS. As in Java, certificates can be read unverified without a password."""
    body, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    secret = (password or "").encode("utf-16-be")
    if password is not None and not hmac.compare_digest(
        hashlib.sha1(secret + _WHITENER + body).digest(), digest
    ):
        raise ValueError
    reader = _JksReader(body)
    _, version, count = reader.numbers(">4sII")
    store: KeyStore | None = None
    trusted: list[bytes] = []
    entries: list[StoreEntry] = []
    for _ in range(count):
        (tag,) = reader.numbers(">I")
        alias = reader.text()
        reader.numbers(">Q")  # creation time
        if tag == _CERTIFICATE_ENTRY:
            trusted.append(reader.certificate(version))
            entries.append(StoreEntry(alias, trusted[-1]))
        elif tag == _KEY_ENTRY:
            hidden = reader.counted(">I")
            chain = [reader.certificate(version) for _ in range(*reader.numbers(">I"))]
            entries += [StoreEntry(alias, each) for each in chain[:1]]
            if store is None:
                store = _with_key(_shown(hidden, of_key or password or ""), chain, "")
        else:
            raise ValueError
    store = store or KeyStore("", "", "")
    return store._replace(trusted=_pem(trusted), entries=tuple(entries))


def _shown(hidden: bytes, password: str) -> "PrivateKeyTypes":
    """Decrypt a JKS key: salt, the key under a stream of digests, and a digest."""
    from cryptography.hazmat.primitives.serialization import load_der_private_key

    secret = password.encode("utf-16-be")
    protected = _octets(hidden)
    salt, digest = protected[:_DIGEST_BYTES], protected[-_DIGEST_BYTES:]
    covered = protected[_DIGEST_BYTES:-_DIGEST_BYTES]
    stream, last = b"", salt
    while len(stream) < len(covered):
        last = hashlib.sha1(secret + last).digest()
        stream += last
    key = bytes(a ^ b for a, b in zip(covered, stream, strict=False))
    if not hmac.compare_digest(hashlib.sha1(secret + key).digest(), digest):
        raise _HiddenKeyError
    return load_der_private_key(key, None)


def _octets(der: bytes) -> bytes:
    """Return the octets of an EncryptedPrivateKeyInfo: after its algorithm."""
    reader = _JksReader(der)
    reader.length()
    reader.take(reader.length())  # the algorithm
    return reader.take(reader.length())


def _with_key(key: "PrivateKeyTypes", chain: Iterable[bytes], trusted: str) -> KeyStore:
    from cryptography.hazmat.primitives import serialization as to

    password = secrets.token_hex(32)
    hidden = to.BestAvailableEncryption(password.encode())
    pem = key.private_bytes(to.Encoding.PEM, to.PrivateFormat.PKCS8, hidden).decode()
    return KeyStore(pem + _pem(chain), password, trusted)


def _pem(certificates: Iterable[bytes]) -> str:
    return "".join(ssl.DER_cert_to_PEM_cert(each) for each in certificates)


class _HiddenKeyError(Exception):
    """The password of a key is wrong."""


class _JksReader:
    """Reads a store sequentially. Raises EOFError at its end."""

    def __init__(self, data: bytes) -> None:
        self._file = BytesIO(data)

    def take(self, count: int) -> bytes:
        data = self._file.read(count)
        if len(data) < count:
            raise EOFError
        return data

    def numbers(self, layout: str) -> tuple[int, ...]:
        return struct.unpack(layout, self.take(struct.calcsize(layout)))

    def counted(self, layout: str) -> bytes:
        return self.take(*self.numbers(layout))

    def text(self) -> str:
        """Read a text in Java's modified UTF-8."""
        return self.counted(">H").decode()

    def certificate(self, version: int) -> bytes:
        if version >= _TYPED_CERTIFICATES:
            self.text()
        return self.counted(">I")

    def length(self) -> int:
        _, first = self.take(2)
        return int.from_bytes(self.take(first & 0x7F)) if first & 0x80 else first
