"""The credentials file: hashed entries, looked up by user."""

from pathlib import Path

import msgspec
import pytest

from brokertwin.errors import UserError
from brokertwin.gateway.security import plain, secret_files
from brokertwin.gateway.security.credentials import Credentials, make, mode_warning, read, write
from brokertwin.gateway.security.scram import MECHANISMS, Credential, LoginError, matches

SHA_256, SHA_512 = MECHANISMS.values()
PASSWORD = "a pass,word=ü"


def entry(user: str = "alice", password: str = PASSWORD, **changes: object) -> Credential:
    return msgspec.structs.replace(make(user, SHA_256, password, 4096), **changes)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "users.jsonl"
    write(path, [entry(), make("alice", SHA_512, PASSWORD, 8192), entry("bob", "other")])
    return path


def test_written_entries_are_read_back(file: Path) -> None:
    entries = read(file)
    write(file, entries)
    assert read(file) == entries
    assert [each.user for each in entries] == ["alice", "alice", "bob"]


def test_file_contains_no_form_of_the_password(file: Path) -> None:
    text = file.read_bytes()
    assert b"pass" not in text
    assert len({line.split(b'"salt"')[1] for line in text.splitlines()}) == 3


def test_only_the_owner_can_read_the_file(file: Path) -> None:
    assert file.stat().st_mode & 0o777 == 0o600
    assert mode_warning(file) is None
    file.chmod(0o640)
    assert mode_warning(file) == f"{file} is open to others (mode 640); do: chmod 600 {file}"


@pytest.mark.parametrize(
    "line",
    [
        b"alice:secret",
        b'{"user":"alice"}',
        b'{"user":1}',
        b"\xff",
        msgspec.json.encode(entry(mechanism="SCRAM-SHA-1")),
        msgspec.json.encode(entry(iterations=1)),
        msgspec.json.encode(entry(stored_key=b"short")),
        msgspec.json.encode(entry(server_key=b"")),
        msgspec.json.encode(entry(salt=b"")),
    ],
)
def test_malformed_line_is_reported_by_number_without_its_text(file: Path, line: bytes) -> None:
    file.write_bytes(file.read_bytes() + b"\n" + line + b"\n")
    with pytest.raises(UserError) as error:
        read(file)
    assert error.value.message == f"{file}:5 is not an entry of a credentials file."


@pytest.mark.parametrize(
    ("user", "password", "iterations"), [("", "x", 4096), ("a", "", 4096), ("a", "x", 4095)]
)
def test_invalid_entry_is_refused(user: str, password: str, iterations: int) -> None:
    with pytest.raises(UserError):
        make(user, SHA_256, password, iterations)


def test_unusable_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="does not exist"):
        Credentials(tmp_path / "none")
    (tmp_path / "empty").touch()
    with pytest.raises(UserError, match="no client could authenticate"):
        Credentials(tmp_path / "empty")
    with pytest.raises(UserError, match="Cannot read"):
        Credentials(tmp_path)
    with pytest.raises(UserError, match="Cannot write to"):
        write(tmp_path / "none" / "users", [])


def test_plain_is_verified_with_any_entry(file: Path) -> None:
    credentials = Credentials(file)
    write(file, [make("carol", SHA_512, "c", 4096), *read(file)])
    assert plain.authenticate(credentials, f"\0alice\0{PASSWORD}".encode()) == "alice"
    assert plain.authenticate(credentials, b"\0carol\0c") == "carol"
    for user, password in [("alice", "other"), ("bob", PASSWORD), ("nobody", "x")]:
        with pytest.raises(LoginError, match="Invalid username or password"):
            plain.authenticate(credentials, f"\0{user}\0{password}".encode())


def test_unknown_user_gets_a_challenge_like_a_known_one(file: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.jsonl"
    copy.write_bytes(file.read_bytes())
    credentials, elsewhere = Credentials(file), Credentials(copy)
    for mechanism, iterations in (("SCRAM-SHA-256", 4096), ("SCRAM-SHA-512", 8192)):
        made_up, real = credentials.find("nobody", mechanism), credentials.find("alice", mechanism)
        assert (
            made_up == credentials.find("nobody", mechanism) == elsewhere.find("nobody", mechanism)
        )
        assert made_up.iterations == iterations
        assert len(made_up.salt) == len(real.salt)
        assert len(made_up.stored_key) == len(real.stored_key)
        assert made_up.salt != credentials.find("somebody", mechanism).salt
        assert not matches(made_up, b"")


def test_changed_file_is_read_again(file: Path) -> None:
    credentials = Credentials(file)
    write(file, [entry("dave", "d")])
    assert plain.authenticate(credentials, b"\0dave\0d") == "dave"
    with pytest.raises(LoginError):
        plain.authenticate(credentials, f"\0alice\0{PASSWORD}".encode())
    file.write_text("broken")
    assert plain.authenticate(credentials, b"\0dave\0d") == "dave"
    file.unlink()
    assert plain.authenticate(credentials, b"\0dave\0d") == "dave"
    write(file, [entry("erin", "e")])
    assert plain.authenticate(credentials, b"\0erin\0e") == "erin"


def test_failed_replacement_keeps_the_former_file(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = file.read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(secret_files.os, "fsync", full)
    with pytest.raises(UserError, match="No space left on device"):
        write(file, [])
    assert file.read_bytes() == before
    assert list(file.parent.iterdir()) == [file], "nothing is left behind"
