"""The credentials file: who may authenticate, with hashed entries only.

One JSON document on each line, one line for each user and SCRAM mechanism:

    {"user":"alice","mechanism":"SCRAM-SHA-256","iterations":16384,
     "salt":"…","storedKey":"…","serverKey":"…"}

`brokertwin credentials` writes it. The same entries serve PLAIN: what comes is derived and
compared. Whoever reads the file can try passwords, and with a server key answer in a broker's
place: it is for its owner only.
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
    """An entry for a password, with a new salt.

    Raises:
        UserError: no user name or password, or a number of iterations that Kafka does not take.
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
    """The entries of a file.

    Raises:
        UserError: the file cannot be read, or a line is no entry; what the line has is not told.
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
    found: dict[tuple[str, str], Credential] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            credential = _DECODER.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise _no_entry(path, number) from None
        if not _is_sound(credential):
            raise _no_entry(path, number)
        found[credential.user, credential.mechanism] = credential
    return list(found.values())


def write(path: Path, credentials: Iterable[Credential]) -> None:
    """Put the entries in the place of the file, as a whole, readable for its owner only.

    Raises:
        UserError: it cannot be written.
    """
    text = b"".join(msgspec.json.encode(each) + b"\n" for each in credentials)
    try:
        secret_files.replace(path, text)
    except OSError as error:
        raise UserError(f"Cannot write to {path}: {error.strerror}.") from None


def mode_warning(path: Path) -> str | None:
    """What to say where others than its owner can read or write the file."""
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
        path: the file of a journal; None keeps the entries in memory only.

    Raises:
        UserError: as `read`.
    """

    may_be_empty = True

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._entries = read(path) if path is not None and path.exists() else []

    def entries(self) -> list[Credential]:
        """Return every entry."""
        return list(self._entries)

    def replace(self, credentials: list[Credential]) -> None:
        """Store other entries instead. Raises UserError as `write`."""
        if self._path is not None:
            write(self._path, credentials)
        self._entries = list(credentials)


class Credentials:
    """The entries of a file, looked up by user; a changed file is read anew.

    For a user that there is not, an entry is made up, the same each time, so that neither an
    answer nor its time tells who is known. No password fits it.

    Args:
        path: the file.

    Raises:
        UserError: as `read`, or there is no entry in it.
    """

    may_be_empty = False

    def __init__(self, path: Path) -> None:
        self._path = path
        self._version = self._file_version()
        self._use(read(path))
        if not self._entries:
            raise UserError(
                f"The credentials file {path} is empty, so no client could authenticate.",
                f"Add a user with: brokertwin credentials add {path} USER",
            )

    def find(self, user: str, mechanism: str) -> Credential:
        """The entry of a user for a SCRAM mechanism, made up where there is none."""
        self._refresh()
        return self._entries.get((user, mechanism)) or self._made_up(user, mechanism)

    def find_any(self, user: str) -> Credential:
        """An entry of a user, to verify a password that came in the clear."""
        self._refresh()
        for mechanism in MECHANISMS:
            if (user, mechanism) in self._entries:
                return self._entries[user, mechanism]
        return self._made_up(user, next(iter(MECHANISMS)))

    def entries(self) -> list[Credential]:
        """Every entry, in the order of the file."""
        self._refresh()
        return list(self._entries.values())

    def replace(self, credentials: list[Credential]) -> None:
        """Put other entries in the place of the file's. Raises UserError as `write`."""
        write(self._path, credentials)
        self._refresh()

    def _file_version(self) -> tuple[int, int, int] | None:
        try:
            now = self._path.stat()
        except OSError:
            return None
        return now.st_mtime_ns, now.st_size, now.st_ino

    def _refresh(self) -> None:
        """Read the file again where it has changed; one that cannot be read changes nothing."""
        version = self._file_version()
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
        """Of the file's own secrets: every gateway with this file makes up the same."""

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
