"""Directories of checkpoints and snapshots: local ones, and those in object stores and HDFS.

`place("s3a://bucket/orders")` has the methods of `pathlib.Path` that the project uses, on
`pyarrow.fs`. Credentials and address of S3 come from AWS's environment variables.
"""

import io
import os
import re
import secrets
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Any

import msgspec

from brokertwin.errors import UserError

SCHEME = re.compile(r"([a-z][a-z0-9+.-]+):/+", re.IGNORECASE)
S3, HDFS, FILE = ("s3a", "s3"), ("hdfs",), "file"
REMOTE = (*S3, *HDFS)
S3_ADDRESS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
"""Environment variables with the address of an S3 service that is not AWS."""

LEASE_S, RENEWED_S = 30.0, 10.0
"""How long a lock is valid after its last renewal, and how often it is renewed."""

SETTLED_S = 1.0
"""After writing a lock, how long another writer may still replace it."""


def place(path: "str | os.PathLike[str]") -> Path:
    """Return the path of a directory or file.

    Args:
        path: a local path, `file:///…`, `s3a://…` or `hdfs://…`; also with one slash, as
            `pathlib` leaves it.

    Raises:
        UserError: another scheme.
    """
    if isinstance(path, RemotePath):
        return path
    text = os.fspath(path)
    found = SCHEME.match(text)
    if found is None:
        return Path(path)
    scheme, rest = found[1].lower(), text[found.end() :]
    if scheme == FILE:
        return Path("/", rest)
    if scheme not in REMOTE:
        raise UserError(
            f"Cannot use {scheme}://{rest}: the file system {scheme} is not supported.",
            f"Use a local path, or one of {', '.join(f'{each}://' for each in REMOTE)}.",
        )
    return RemotePath(f"{'s3a' if scheme in S3 else scheme}:", rest)


def is_remote(path: Path) -> bool:
    """Whether a path is in an object store or HDFS."""
    return isinstance(path, RemotePath)


def is_s3(path: Path) -> bool:
    """Whether a path is in an object store with S3's protocol."""
    return is_remote(path) and path.parts[0][:-1] in S3


def s3_address() -> str | None:
    """Return the address of an S3 service that is not AWS."""
    return next((os.environ[name] for name in S3_ADDRESS if os.environ.get(name)), None)


@cache
def _filesystem(scheme: str, authority: str) -> Any:
    """Return the file system of a scheme. Raises UserError if it cannot be used."""
    from pyarrow import fs

    if scheme in S3:
        address = s3_address()
        return fs.S3FileSystem(endpoint_override=address) if address else fs.S3FileSystem()
    host, _, port = authority.partition(":")
    try:
        return fs.HadoopFileSystem(host or "default", int(port or 0))
    except OSError as error:
        raise UserError(
            f"Cannot open hdfs://{authority}: {error}.",
            "pyarrow needs Hadoop's native library: set HADOOP_HOME, and CLASSPATH to the output"
            " of `hadoop classpath --glob`.",
        ) from None


if TYPE_CHECKING:
    _Base = Path
else:
    _Base = PurePosixPath


class RemotePath(_Base):
    """A path in an object store or HDFS; its first part is the scheme.

    Directories of an object store exist while they have files.
    """

    def __str__(self) -> str:
        return super().__str__().replace(":/", "://", 1)

    def __fspath__(self) -> str:
        return str(self)

    @property
    def _fs(self) -> Any:
        return _filesystem(self.parts[0][:-1], self.parts[1])

    @property
    def _key(self) -> str:
        """The path in the file system: with the bucket, or absolute in HDFS."""
        is_s3 = self.parts[0][:-1] in S3
        return "/".join(self.parts[1:]) if is_s3 else "/" + "/".join(self.parts[2:])

    def _kind(self) -> str:
        return str(self._fs.get_file_info(self._key).type.name)

    def exists(self) -> bool:
        return self._kind() != "NotFound"

    def is_file(self) -> bool:
        return self._kind() == "File"

    def is_dir(self) -> bool:
        return self._kind() == "Directory"

    def _below(self, recursive: bool) -> Iterator["RemotePath"]:
        from pyarrow import fs

        selector = fs.FileSelector(self._key, allow_not_found=True, recursive=recursive)
        for info in self._fs.get_file_info(selector):
            yield self.joinpath(PurePosixPath(info.path).relative_to(self._key))

    def iterdir(self) -> Generator["RemotePath", None, None]:
        """As in pathlib; nothing for a missing directory."""
        yield from self._below(recursive=False)

    def rglob(self, pattern: str) -> Iterator["RemotePath"]:  # type: ignore[override]
        """As in pathlib, for a pattern of a name."""
        return (each for each in self._below(recursive=True) if each.match(pattern))

    def glob(self, pattern: str) -> Iterator["RemotePath"]:  # type: ignore[override]
        """As in pathlib, for a pattern without `**`."""
        depth = pattern.count("/") + 1
        found = self.iterdir() if depth == 1 else self._below(recursive=True)
        inside = len(self.parts) + depth
        return (each for each in found if len(each.parts) == inside and each.match(pattern))

    def open(  # type: ignore[override]
        self, mode: str = "r", encoding: str | None = None
    ) -> IO[Any]:
        """As in pathlib, to read or write a whole file."""
        stream = self._fs.open_input_file if "r" in mode else self._fs.open_output_stream
        opened = stream(self._key)
        return opened if "b" in mode else io.TextIOWrapper(opened, encoding=encoding or "utf-8")

    def read_bytes(self) -> bytes:
        with self._fs.open_input_file(self._key) as file:
            return bytes(file.read())

    def write_bytes(self, data: Any) -> int:
        """As in pathlib; an object appears at once."""
        with self._fs.open_output_stream(self._key) as out:
            out.write(data)
        return len(data)

    def read_text(self, encoding: str | None = None, errors: str | None = None) -> str:
        return self.read_bytes().decode(encoding or "utf-8", errors or "strict")

    def write_text(self, data: str, encoding: str | None = None) -> int:  # type: ignore[override]
        return self.write_bytes(data.encode(encoding or "utf-8"))

    def mkdir(self, mode: int = 0, parents: bool = False, exist_ok: bool = False) -> None:
        """As in pathlib, always with parents."""
        if not exist_ok and self.exists():
            raise FileExistsError(str(self))
        if self.parts[0][:-1] not in S3:
            self._fs.create_dir(self._key, recursive=True)

    def unlink(self, missing_ok: bool = False) -> None:
        if not missing_ok or self.exists():
            self._fs.delete_file(self._key)

    def replace(self, target: Any) -> Any:
        """As in pathlib, for a file."""
        to = place(target)
        assert isinstance(to, RemotePath)
        self._fs.move(self._key, to._key)
        return target


@contextmanager
def new_directory(path: Path, hidden: str) -> Iterator[Path]:
    """Give an empty directory that can become `path`: one beside it, or a local one.

    Args:
        path: as for `publish`.
        hidden: the name beside `path`.
    """
    if not isinstance(path, RemotePath):
        fresh = path.with_name(hidden)
        fresh.mkdir(parents=True)
        yield fresh
        return
    with tempfile.TemporaryDirectory(prefix="brokertwin-") as scratch:
        yield Path(scratch)


def publish(fresh: Path, path: Path, last: str) -> None:
    """Rename a directory, or copy it to an object store, the file `last` at the end.

    So a directory with this file is complete.
    """
    if not isinstance(path, RemotePath):
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh.rename(path)
        return
    files = [each for each in fresh.rglob("*") if each.is_file()]
    for file in sorted(files, key=lambda each: each == fresh / last):
        (path / file.relative_to(fresh)).write_bytes(file.read_bytes())


def remove_directory(directory: Path) -> None:
    """Remove a directory with its content."""
    if isinstance(directory, RemotePath):
        directory._fs.delete_dir(directory._key)
    else:
        shutil.rmtree(directory)


@contextmanager
def local_copy(file: Path) -> Iterator[Path]:
    """Give a local file with the same content, for libraries that need one."""
    if not isinstance(file, RemotePath):
        yield file
        return
    with tempfile.TemporaryDirectory(prefix="brokertwin-") as scratch:
        copy = Path(scratch, file.name)
        copy.write_bytes(file.read_bytes())
        yield copy


class _Lease(msgspec.Struct, frozen=True):
    """A lock: its owner and the time of its last renewal, in seconds since 1970."""

    owner: str
    renewed: float


@contextmanager
def leased(lock: Path, wait: Callable[[float], object] = time.sleep) -> Iterator[None]:
    """Hold a lock that is a file in an object store, and renew it.

    A lock that its owner does not renew is valid for `LEASE_S`. So a job that follows a killed one
    waits as long.

    Args:
        lock: the file.
        wait: sleeps for a number of seconds.

    Raises:
        BlockingIOError: another owner renews it.
    """
    owner = secrets.token_hex(8)
    first, waited = _lease(lock), 0.0
    while first is not None and waited <= LEASE_S + SETTLED_S:
        wait(SETTLED_S)
        waited += SETTLED_S
        now = _lease(lock)
        if now is not None and now != first:
            raise BlockingIOError(str(lock))
        first = now
    lock.write_bytes(msgspec.json.encode(_Lease(owner, time.time())))
    wait(SETTLED_S)
    held = _lease(lock)
    if held is None or held.owner != owner:
        raise BlockingIOError(str(lock))
    ended = threading.Event()
    keeper = threading.Thread(target=_renew, args=(lock, owner, ended), daemon=True)
    keeper.start()
    try:
        yield
    finally:
        ended.set()
        keeper.join()
        lock.unlink(missing_ok=True)


def _renew(lock: Path, owner: str, ended: threading.Event) -> None:
    while not ended.wait(RENEWED_S):
        try:
            lock.write_bytes(msgspec.json.encode(_Lease(owner, time.time())))
        except OSError:
            continue  # the next renewal is before the end of the lease


def is_leased(lock: Path) -> bool:
    """Whether a lock was renewed lately, by the clock of this machine."""
    lease = _lease(lock)
    return lease is not None and time.time() - lease.renewed < LEASE_S


def _lease(lock: Path) -> _Lease | None:
    try:
        return msgspec.json.decode(lock.read_bytes(), type=_Lease)
    except (FileNotFoundError, msgspec.MsgspecError):
        return None
