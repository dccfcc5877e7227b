"""`brokertwin credentials`: who may authenticate at a gateway."""

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from brokertwin.cli.options import AsJson, group
from brokertwin.cli.output import say, show_json, show_table, warn
from brokertwin.errors import UserError

if TYPE_CHECKING:
    from brokertwin.gateway.scram import Credential

app = group()


class MechanismName(StrEnum):
    """The mechanisms that have entries of their own."""

    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"


File = Annotated[Path, typer.Argument(metavar="FILE", help="The credentials file.")]
User = Annotated[str, typer.Argument(metavar="USER", help="The user's name, as clients send it.")]
Mechanisms = Annotated[
    list[MechanismName] | None,
    typer.Option("--mechanism", help="Only this mechanism; repeatable. Without it both."),
]
Iterations = Annotated[
    int,
    typer.Option(
        "--iterations",
        metavar="N",
        help="How often a password is hashed, 4096 to 16384, as in Kafka.",
    ),
]


@app.callback()
def credentials_command() -> None:
    """The users of a gateway with SASL: a file of hashed entries, without any password.

    An entry belongs to a user and a SCRAM mechanism. PLAIN is verified against the same entries.
    A gateway that runs sees a changed file with the next client that authenticates.
    """


@app.command()
def add(
    file: File, user: User, mechanism: Mechanisms = None, iterations: Iterations = 16384
) -> None:
    """Add a user, or give one another password; it is asked for, or read from standard input.

    Standard input is read up to the end of its first line. The file is made if there is none, and
    is readable for its owner only.
    """
    from brokertwin.gateway import credentials, scram

    kept = credentials.read(file) if file.exists() else []
    password = _password(user)
    wanted = mechanism or list(MechanismName)
    made = [credentials.make(user, scram.MECHANISMS[name], password, iterations) for name in wanted]
    others = _without(kept, user, wanted)
    credentials.write(file, [*others, *made])
    done = "replaced" if len(others) < len(kept) else "added"
    say(f"{done} {user} with {' and '.join(wanted)} in {file}")


@app.command("list")
def list_users(file: File, as_json: AsJson = False) -> None:
    """Show the users and their mechanisms; nothing that is secret."""
    from brokertwin.gateway import credentials

    found = credentials.read(file)
    warning = credentials.mode_warning(file)
    if warning is not None:
        warn(warning)
    if as_json:
        names = ("user", "mechanism", "iterations")
        show_json([{name: getattr(each, name) for name in names} for each in found])
    else:
        rows = sorted((each.user, each.mechanism, each.iterations) for each in found)
        show_table(["user", "mechanism", "iterations"], rows)


@app.command()
def remove(file: File, user: User, mechanism: Mechanisms = None) -> None:
    """Remove a user, or only some of the user's mechanisms."""
    from brokertwin.gateway import credentials

    kept = credentials.read(file)
    others = _without(kept, user, mechanism or list(MechanismName))
    if len(others) == len(kept):
        which = f" with {' or '.join(mechanism)}" if mechanism else ""
        raise UserError(f"{file} has no user {user}{which}.")
    credentials.write(file, others)
    say(f"removed {user} from {file}; connections that are open stay open")


def _without(
    kept: "list[Credential]", user: str, mechanisms: list[MechanismName]
) -> "list[Credential]":
    return [each for each in kept if each.user != user or each.mechanism not in mechanisms]


def _password(user: str) -> str:
    """What is typed, twice and hidden, or the first line of standard input."""
    if sys.stdin.isatty():
        prompt = f"Password of {user}"
        return str(typer.prompt(prompt, hide_input=True, confirmation_prompt=True))
    try:
        return sys.stdin.buffer.readline().decode().rstrip("\r\n")
    except UnicodeDecodeError:
        raise UserError("The password on standard input is not UTF-8.") from None
