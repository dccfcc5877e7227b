"""The console script `brokertwin`: finds the command and shows errors.

Adding a command takes one file and two entries:

1. `cli/<command>.py` (a hyphen in the command is an underscore in the file) has either
   `command`, a function that typer makes a command of, or `app = group()` with subcommands and a
   callback; docstrings are the help. Shared options and `group` are in `cli/options.py`, output
   helpers in `cli/output.py`.
2. One line in `COMMANDS` here: the name and a one-line help.
3. An example in `cli/examples.py` for it and for each of its subcommands.

A command's file is imported only when that command is called, so that `brokertwin --help` answers
at once; it should itself import Spark and Kafka clients only inside functions, so that its own
`--help` is quick too. An error that the user can put right is raised as
`brokertwin.errors.UserError`: it is shown as one line and a hint, and the exit code is 2.
"""

import importlib
import sys
from collections.abc import Callable
from itertools import takewhile
from typing import Annotated, Any, NoReturn

import typer
import typer.main
from typer.core import TyperCommand

import brokertwin
from brokertwin import extras
from brokertwin.cli.examples import as_markdown
from brokertwin.cli.options import HelpfulGroup
from brokertwin.errors import UserError

COMMANDS = {
    "demo": "Send real captures through a real Kafka broker and Spark, and sum up.",
    "setup": "Fetch the Spark-Kafka connector and the Kafka broker's jars.",
    "kafka": "Start, stop or look at the embedded Kafka broker.",
    "run": "Run the streaming job: requests in, responses and offsets out.",
    "send": "Send events from files or standard input to a job.",
    "ingest": "Make events of Kafka's request logs, protocol logs and captures.",
    "report": "Show how a recorded cluster replicated: leaders, ISR, high watermarks.",
    "replay": "Decide recorded requests again and compare the answers with the recorded ones.",
    "explain": "Why a producer was fenced, or a group rebalanced: a timeline with reasons.",
    "audit": "Report what went wrong in recorded traffic, with the lines that show it.",
    "offsets": "What groups of a real cluster commit: history, diff, backup, restore.",
    "consume": "Read topics of any Kafka as members of a group; see who owns what.",
    "produce": "Send lines to a topic of any Kafka.",
    "streams": "Run word count or a join on any Kafka, in threads; see who runs which task.",
    "connect": "Run workers of Kafka Connect: files to topics, topics to files.",
    "gateway": "Serve unmodified Kafka clients.",
    "cluster": "Show a cluster's brokers and replicas; stop brokers, elect, reassign.",
    "credentials": "Who may authenticate at a gateway: hashed entries in a file.",
    "capture": "Record what clients and a real Kafka say to each other.",
    "top": "Watch a job or a gateway: batch time, lag, rate, errors by API, groups, ISR.",
    "state": "Show the state of a live or stopped job: groups, producers, sessions, logs, ...",
    "snapshot": "Take, list, check and restore snapshots of a job: offsets and full state.",
    "query": "Ask for the state in SQL: of a job, a snapshot, or a replayed recording.",
    "check": "Data checks of snapshots and topics, with great-expectations.",
    "dead-letters": "Show events that were refused, and why.",
    "simulate": "A whole cluster and its clients in virtual time, faults everywhere, audited.",
    "gc": "Delete record batches that no log has any more.",
    "config": "Show the settings in effect and where each came from.",
}
"""Command name to its line in `brokertwin --help`, in the order shown."""

NEEDS = {
    "demo": extras.SPARK,
    "run": extras.SPARK,
    "setup": ("pyspark",),
}
"""What of the extras a command cannot do without: missed before it does anything."""

USER_ERROR = 2


class LazyGroup(HelpfulGroup):
    """A group that knows its commands' help lines and imports a command when it is called."""

    def __init__(self, **attributes: Any) -> None:
        attributes["commands"] = {
            name: TyperCommand(name=name, help=line) for name, line in COMMANDS.items()
        }
        super().__init__(**attributes)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Replace the line shown in help by the real command."""
        name, line, rest = super().resolve_command(ctx, args)
        return name, load(name) if name else line, rest


def load(name: str) -> Any:
    """Import a command.

    Args:
        name: its name in `COMMANDS`.

    Returns:
        The click command or group that typer makes of the module's `app` or `command`.
    """
    module = importlib.import_module(f"brokertwin.cli.{name.replace('-', '_')}")
    app = getattr(module, "app", None)
    if app is None:
        app = typer.Typer(add_completion=False, rich_markup_mode="markdown")
        app.command(name)(module.command)
    command = typer.main.get_command(app)
    command.name = name
    _show_examples(name, command)
    if name in NEEDS and command.callback:
        command.callback = _needing(name, command.callback)
    return command


def _show_examples(words: str, command: Any) -> None:
    """Put the examples at the end of a command's help, and of those below it."""
    command.help = (command.help or "") + as_markdown(words)
    for name, below in getattr(command, "commands", {}).items():
        _show_examples(f"{words} {name}", below)


def _needing(name: str, callback: Callable[..., Any]) -> Callable[..., Any]:
    """The command, which first looks for what it needs; its help does without."""

    def checked(**arguments: Any) -> Any:
        extras.need(f"`brokertwin {name}`", *NEEDS[name])
        return callback(**arguments)

    return checked


app = typer.Typer(
    cls=LazyGroup,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"brokertwin {brokertwin.__version__}")
        raise typer.Exit


@app.callback()
def brokertwin_command(
    version: Annotated[
        bool,
        typer.Option("--version", "-V", callback=_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """A Kafka broker's coordination state (producers, fetch sessions, groups) as a Spark job.

    Events come from a Kafka topic or from recorded request logs; answers, committed offsets and
    snapshots go to topics and files. Settings come from flags, BROKERTWIN_… variables and
    brokertwin.toml, in that order.
    """


def main() -> None:
    """Run the console script."""
    command = typer.main.get_command(app)
    command.help = (command.help or "") + as_markdown("")
    try:
        command(prog_name="brokertwin")
    except UserError as error:
        _fail(error)
    except ModuleNotFoundError as error:
        module = (error.name or "").partition(".")[0]
        if module not in extras.EXTRA_OF:
            raise
        _fail(extras.missing(f"`brokertwin {_called()}`", module))


def _fail(error: UserError) -> NoReturn:
    from brokertwin.cli.output import show_error

    show_error(error)
    sys.exit(USER_ERROR)


def _called() -> str:
    """The command on the command line, with its subcommand."""
    words = list(takewhile(lambda word: not word.startswith("-"), sys.argv[1:]))
    known = getattr(load(words[0]), "commands", {})
    return " ".join([words[0], *(word for word in words[1:2] if word in known)])
