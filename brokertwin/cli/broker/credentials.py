"""`brokertwin credentials`: the users that can authenticate at a gateway."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from brokertwin.cli.options import AsJson, group
from brokertwin.cli.output import say, show_json, show_table, warn
from brokertwin.errors import UserError

if TYPE_CHECKING:
    from brokertwin.gateway.security.scram import Credential

app = group()


class MechanismName(StrEnum):
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"


File = Annotated[Path, typer.Argument(metavar="FILE", help="The credentials file.")]
User = Annotated[str, typer.Argument(metavar="USER", help="User name, as clients send it.")]
Mechanisms = Annotated[
    list[MechanismName] | None,
    typer.Option("--mechanism", help="Only this mechanism; repeatable. Default: both."),
]
Iterations = Annotated[
    int,
    typer.Option(
        "--iterations",
        metavar="N",
        help="Number of hash iterations for a password, 4096 to 16384 as in Kafka.",
    ),
]


@app.callback()
def credentials_command() -> None:
    """Manage the users of a gateway with SASL: a file with password hashes.

    Each entry has a user and a SCRAM mechanism. PLAIN logins are checked against the same entries.
    A running gateway rereads the file when a client authenticates after a change.
    """


@app.command()
def add(
    file: File, user: User, mechanism: Mechanisms = None, iterations: Iterations = 16384
) -> None:
    """Add a user or change a password; it is prompted for, or read from standard input.

    Only the first line of standard input is read. A new file is created with read and write
    permission for its owner only.
    """
    from brokertwin.gateway.security import credentials, scram

    kept = credentials.read(file) if file.exists() else []
    password = _password(user)
    mechanisms = mechanism or list(MechanismName)
    made = [
        credentials.make(user, scram.MECHANISMS[name], password, iterations) for name in mechanisms
    ]
    others = _without(kept, user, mechanisms)
    credentials.write(file, [*others, *made])
    done = "replaced" if len(others) < len(kept) else "added"
    say(f"{done} {user} with {' and '.join(mechanisms)} in {file}")


@app.command("list")
def list_users(file: File, as_json: AsJson = False) -> None:
    """List the users and their mechanisms, without secrets."""
    from brokertwin.gateway.security import credentials

    users = credentials.read(file)
    warning = credentials.mode_warning(file)
    if warning is not None:
        warn(warning)
    if as_json:
        names = ("user", "mechanism", "iterations")
        show_json([{name: getattr(each, name) for name in names} for each in users])
    else:
        rows = sorted((each.user, each.mechanism, each.iterations) for each in users)
        show_table(["user", "mechanism", "iterations"], rows)


@app.command()
def remove(file: File, user: User, mechanism: Mechanisms = None) -> None:
    """Remove a user, or only some mechanisms of a user."""
    from brokertwin.gateway.security import credentials

    kept = credentials.read(file)
    others = _without(kept, user, mechanism or list(MechanismName))
    if len(others) == len(kept):
        which = f" with {' or '.join(mechanism)}" if mechanism else ""
        raise UserError(
            f"{file} has no user {user}{which}.",
            f"List the users with: brokertwin credentials list {file}",
        )
    credentials.write(file, others)
    say(f"removed {user} from {file}; open connections are not closed")


def _without(
    kept: "list[Credential]", user: str, mechanisms: list[MechanismName]
) -> "list[Credential]":
    return [each for each in kept if each.user != user or each.mechanism not in mechanisms]


def _password(user: str) -> str:
    """Prompt for the password twice, or read the first line of standard input."""
    if sys.stdin.isatty():
        prompt = f"Password of {user}"
        return str(typer.prompt(prompt, hide_input=True, confirmation_prompt=True))
    try:
        return sys.stdin.buffer.readline().decode().rstrip("\r\n")
    except UnicodeDecodeError:
        raise UserError(
            "The password on standard input is not valid UTF-8.", "Encode it as UTF-8."
        ) from None
