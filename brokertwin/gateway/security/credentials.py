"""The credentials file: users with hashed passwords.

One JSON document on each line, one line for each user and SCRAM mechanism:

    {"user":"alice","mechanism":"SCRAM-SHA-256","iterations":16384,
     "salt":"…","storedKey":"…","serverKey":"…"}

`brokertwin credentials` writes it. PLAIN uses the same entries: the received password is hashed and
compared. A reader of the file can guess passwords offline, and impersonate a broker with a server
key. Only its owner may read it.
"""

import hashlib
import hmac
import secrets
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

import msgspec
import structlog

from brokertwin.errors import UserError
from brokertwin.gateway.security import secret_files
from brokertwin.gateway.security.scram import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    MECHANISMS,
    Credential,
    Mechanism,
    derive,
)

SALT_BYTES = 16
FOR_OWNER_ONLY = 0o600
_OTHERS = 0o077
_KEY_BYTES = {name: hashlib.new(each.digest).digest_size for name, each in MECHANISMS.items()}
_DECODER = msgspec.json.Decoder(Credential)

_log = structlog.get_logger("brokertwin.gateway")


def make(
    user: str, mechanism: Mechanism, password: str, iterations: int = ITERATIONS_MAX
) -> Credential:
    """Create an entry for a password, with a new salt.

    Raises:
        UserError: the user name or password is empty, or the number of iterations is out of range.
    """
    if not user or "\0" in user:
        raise UserError("A user name must have at least one character and no NUL.")
    if not password or "\0" in password:
        raise UserError("A password must have at least one character and no NUL.")
    if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
        raise UserError(
            f"Invalid --iterations {iterations}.",
            f"Pass {ITERATIONS_MIN} to {ITERATIONS_MAX}, as in Kafka.",
        )
    return derive(user, mechanism, password.encode(), secrets.token_bytes(SALT_BYTES), iterations)


def read(path: Path) -> list[Credential]:
    """Read the entries of a file.

    Raises:
        UserError: the file cannot be read, or a line is no entry. The message omits the line's
            content.
    """
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        raise UserError(
            f"The credentials file {path} does not exist.",
            f"Create it with: brokertwin credentials add {path} USER",
        ) from None
    except OSError as error:
        raise UserError(f"Cannot read {path}: {error.strerror}.") from None
    credentials: dict[tuple[str, str], Credential] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            credential = _DECODER.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise _no_entry(path, number) from None
        if not _is_sound(credential):
            raise _no_entry(path, number)
        credentials[credential.user, credential.mechanism] = credential
    return list(credentials.values())


def write(path: Path, credentials: Iterable[Credential]) -> None:
    """Replace the file atomically; only its owner may read it.

    Raises:
        UserError: it cannot be written.
    """
    text = b"".join(msgspec.json.encode(each) + b"\n" for each in credentials)
    try:
        secret_files.replace(path, text)
    except OSError as error:
        raise UserError(f"Cannot write to {path}: {error.strerror}.") from None


def mode_warning(path: Path) -> str | None:
    """Return a warning if others than its owner can read or write the file."""
    mode = path.stat().st_mode & 0o777
    if not mode & _OTHERS:
        return None
    return f"{path} is open to others (mode {mode:o}); do: chmod {FOR_OWNER_ONLY:o} {path}"


def _no_entry(path: Path, number: int) -> UserError:
    return UserError(
        f"{path}:{number} is not an entry of a credentials file.",
        "Create entries with: brokertwin credentials add",
    )


def _is_sound(credential: Credential) -> bool:
    size = _KEY_BYTES.get(credential.mechanism)
    return (
        bool(credential.user)
        and bool(credential.salt)
        and ITERATIONS_MIN <= credential.iterations <= ITERATIONS_MAX
        and len(credential.stored_key) == len(credential.server_key) == size
    )


class Users(Protocol):
    """Entries that requests describe and alter."""

    may_be_empty: bool
    """Whether the last entry can be deleted."""

    def entries(self) -> list[Credential]:
        """Return every entry."""

    def replace(self, credentials: list[Credential]) -> None:
        """Store other entries instead. Raises UserError as `write`."""


class KeptUsers:
    """Entries of a gateway that authenticates no client with them.

    Args:
        path: a file beside the journal; None keeps the entries in memory only.

    Raises:
        UserError: as `read`.
    """

    may_be_empty = True

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._entries = read(path) if path is not None and path.exists() else []

    def entries(self) -> list[Credential]:
        return list(self._entries)

    def replace(self, credentials: list[Credential]) -> None:
        """Store other entries instead. Raises UserError as `write`."""
        if self._path is not None:
            write(self._path, credentials)
        self._entries = list(credentials)


class Credentials:
    """Entries of a file, looked up by user. A changed file is reloaded.

    An unknown user gets a derived entry, always the same, so that neither the response nor its
    timing reveals which users exist. No password matches it.

    Raises:
        UserError: as `read`, or the file is empty.
    """

    may_be_empty = False

    def __init__(self, path: Path) -> None:
        self._path = path
        self._version = secret_files.stamp(self._path)
        self._use(read(path))
        if not self._entries:
            raise UserError(
                f"The credentials file {path} is empty, so no client could authenticate.",
                f"Add a user with: brokertwin credentials add {path} USER",
            )

    def find(self, user: str, mechanism: str) -> Credential:
        """Return a user's entry for a SCRAM mechanism, or a derived one."""
        self._refresh()
        return self._entries.get((user, mechanism)) or self._made_up(user, mechanism)

    def find_any(self, user: str) -> Credential:
        """Return any entry of a user, to verify a plaintext password."""
        self._refresh()
        for mechanism in MECHANISMS:
            if (user, mechanism) in self._entries:
                return self._entries[user, mechanism]
        return self._made_up(user, next(iter(MECHANISMS)))

    def entries(self) -> list[Credential]:
        self._refresh()
        return list(self._entries.values())

    def replace(self, credentials: list[Credential]) -> None:
        """Replace the entries of the file. Raises UserError as `write`."""
        write(self._path, credentials)
        self._refresh()

    def _refresh(self) -> None:
        """Reload a changed file; if that fails, keep the old entries."""
        version = secret_files.stamp(self._path)
        if version == self._version:
            return
        self._version = version
        try:
            self._use(read(self._path))
            _log.info("credentials reloaded", users=len({user for user, _ in self._entries}))
        except UserError as error:
            _log.error("cannot reload credentials; the old ones stay", error=error.message)

    def _use(self, credentials: list[Credential]) -> None:
        self._entries = {(each.user, each.mechanism): each for each in credentials}
        keys = sorted(each.server_key for each in credentials)
        self._secret = hashlib.sha256(b"".join(keys)).digest()
        self._iterations = {
            name: Counter(
                [each.iterations for each in credentials if each.mechanism == name]
                or [ITERATIONS_MAX]
            ).most_common(1)[0][0]
            for name in MECHANISMS
        }

    def _made_up(self, user: str, mechanism: str) -> Credential:
        """Derive an entry from the file's secrets, so all gateways with this file agree."""

        def drawn(what: str, size: int) -> bytes:
            seed = f"{what} {mechanism} {user}".encode()
            return hmac.digest(self._secret, seed, "sha512")[:size]

        size = _KEY_BYTES[mechanism]
        return Credential(
            user=user,
            mechanism=mechanism,
            iterations=self._iterations[mechanism],
            salt=drawn("salt", SALT_BYTES),
            stored_key=drawn("stored", size),
            server_key=drawn("server", size),
        )
