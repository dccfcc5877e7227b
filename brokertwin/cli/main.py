"""The console script `brokertwin`: finds commands and prints errors.

To add a command, write one file and three entries:

1. `cli/<family>/<command>.py` (with underscores for hyphens) defines either `command`, a function
   that typer turns into a command, or `app = group()` with subcommands and a callback.
   Docstrings are the help. Shared options and `group` are in `cli/options.py`, output helpers in
   `cli/output.py`.
2. `COMMANDS` here gets the name and a one-line summary, `FAMILIES` the name.
3. `cli/examples.py` gets an example for it and for each subcommand.

A command's file is only imported when the command runs, so that `brokertwin --help` is fast. It
should import Spark and Kafka clients inside functions, so that its own `--help` is fast too. Raise
errors that the user can fix as `brokertwin.errors.UserError`: the command line prints the message
and the hint, and exits with code 2.
"""

import errno
import gc
import importlib
import os
import re
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from itertools import takewhile
from typing import Annotated, Any, NoReturn

import typer
import typer.main
from typer.core import TyperCommand

import brokertwin
from brokertwin import extras
from brokertwin.cli import former_names
from brokertwin.cli.examples import as_markdown
from brokertwin.cli.options import HelpfulGroup
from brokertwin.errors import UserError

COMMANDS = {
    "demo": "Send recorded captures through a real Kafka broker and Spark, and summarize.",
    "setup": "Download the Spark-Kafka connector and the Kafka broker's jars.",
    "kafka": "Start, stop or inspect the embedded Kafka broker.",
    "run": "Run the streaming job: reads requests, writes responses and offsets.",
    "send": "Send events from files or standard input to a job.",
    "ingest": "Convert Kafka request logs, protocol logs and captures to events.",
    "replication": "Show replication in a recorded cluster: leaders, ISR, high watermarks.",
    "replay": "Run recorded requests through the broker model and compare the responses.",
    "replay state": "Show the state that recorded requests leave, or at any moment.",
    "replay diff": "Show what differs between two states of recordings.",
    "replay records": "Rebuild the records of a job from its requests.",
    "explain": "Explain from a recording why a producer was fenced or a group rebalanced.",
    "audit": "Report problems in recorded traffic, with the lines that show them.",
    "page": "Write a page that shows recorded traffic and its findings over time.",
    "mcp": "Serve tools over recorded traffic for assistants (Model Context Protocol).",
    "live": "Audit real clusters continuously: a Spark query over topics with their exchanges.",
    "offsets": "Inspect, compare, back up and restore committed offsets of a real cluster.",
    "consume": "Read topics of any Kafka as members of a group, and show the assignment.",
    "produce": "Send lines to a topic of any Kafka.",
    "streams": "Run a word count or a join on any Kafka, and show the task assignment.",
    "connect": "Run Kafka Connect workers that copy files to topics and topics to files.",
    "gateway": "Serve unmodified Kafka clients.",
    "proxy": "Inject faults between clients and a Kafka cluster, or the fixture.",
    "exam-client": "Examine a Kafka client under faults: does it keep Kafka's promises?",
    "cluster": "Show brokers and replicas; stop brokers, elect leaders, reassign partitions.",
    "credentials": "Manage the users of a gateway: a file with password hashes.",
    "capture": "Record the requests and responses between clients and a real Kafka.",
    "exam": "Examine over the wire whether a broker responds like Apache Kafka.",
    "top": "Watch a job or a gateway: batch time, lag, rate, errors by API, groups, ISR.",
    "state": "Show the state of a job: groups, producers, fetch sessions, logs, …",
    "snapshot": "Take, list, check and restore snapshots of a job: offsets and full state.",
    "query": "Query the state of a job, a snapshot or a replayed recording with SQL.",
    "check": "Check snapshots and topics against expectations, with great-expectations.",
    "dead-letters": "Show refused events and the reasons.",
    "simulate": "Test the broker model: clusters and clients in virtual time, with faults.",
    "explore": "Search every order of deliveries of a small model for a broken guarantee.",
    "gc": "Delete record batches that no log references.",
    "config": "Show all settings with their values and sources.",
}
"""Command name, of one or two words, to its summary."""

PANELS = {
    "Recorded traffic": (
        *("audit", "page", "explain", "replay", "replay state", "replay diff"),
        *("replay records", "replication", "ingest", "capture", "mcp"),
    ),
    "Live audit": ("live",),
    "Committed offsets": ("offsets",),
    "Tests of clients and brokers": (
        *("gateway", "proxy", "exam", "exam-client", "explore", "simulate", "credentials"),
    ),
    "Clients": ("consume", "produce", "streams", "connect"),
    "The broker as a Spark job": (
        *("run", "send", "state", "query", "snapshot", "check", "dead-letters", "gc"),
        *("cluster", "top"),
    ),
    "Set-up": ("demo", "setup", "kafka", "config"),
}
"""Heading to its commands, in the order of `brokertwin --help`."""

FAMILIES = {
    "recordings": {
        *("ingest", "replication", "explain", "audit", "capture", "page", "mcp"),
        *("replay", "replay state", "replay diff", "replay records"),
    },
    "offsets": {"offsets"},
    "job": {"run", "send", "state", "snapshot", "query", "check", "dead-letters", "gc"},
    "clients": {"consume", "produce", "streams", "connect"},
    "broker": {
        *("kafka", "gateway", "proxy", "exam", "exam-client", "cluster", "credentials"),
        *("simulate", "explore"),
    },
    "watching": {"live", "top"},
}
"""Package of `cli` to its commands; all others are modules of `cli` itself."""

NEEDS = {
    "demo": extras.SPARK,
    "live": extras.SPARK,
    "run": extras.SPARK,
    "setup": ("pyspark",),
}
"""Modules that a command needs, checked before it runs."""

BATCH = {"ingest", "replication", "replay", "replay state", "replay diff", "explain", "audit"}
"""Commands that keep what they read until they end, so that there is no garbage to collect."""

USER_ERROR = 2
INTERRUPTED = 130
ENDING_S = 4.0

UNWRITABLE = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT}
"""Errors of a folder without permission, and of a full disk."""


class LazyGroup(HelpfulGroup):
    """A group that knows its commands' summaries and imports a command when it runs."""

    def __init__(self, **attributes: Any) -> None:
        attributes["commands"] = {
            name: TyperCommand(name=name, help=COMMANDS[name], rich_help_panel=panel)
            for panel, names in PANELS.items()
            for name in names
            if name in COMMANDS
        }
        super().__init__(**attributes)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Replace the summary by the real command, and former names by today's."""
        words, notices = former_names.renamed(args)
        if notices:
            from brokertwin.cli.output import warn

            warn("; ".join(notices))
        if " ".join(words[:2]) in COMMANDS:
            words = [" ".join(words[:2]), *words[2:]]
        name, line, rest = super().resolve_command(ctx, words)
        loaded = load(name) if name else line
        if name not in BATCH:
            gc.enable()
        return name, loaded, rest


def load(name: str) -> Any:
    """Import a command: what typer creates from the `app` or `command` of its module."""
    families = [f"{family}." for family, names in FAMILIES.items() if name in names]
    path = "".join([*families, re.sub("[- ]", "_", name)])
    module = importlib.import_module(f"brokertwin.cli.{path}")
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
    command.help = (command.help or "") + as_markdown(words)
    for name, below in getattr(command, "commands", {}).items():
        _show_examples(f"{words} {name}", below)


def _needing(name: str, callback: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a command to check the modules it needs; its help works without them."""

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
    """A Kafka broker in Python for tests, recordings and Spark.

    Inspect and audit recorded Kafka traffic, back up and restore offsets, serve Kafka clients in
    tests, or run the broker's coordination state (producers, fetch sessions, groups) as a Spark
    Structured Streaming job. Settings precedence: flags, BROKERTWIN_… variables, brokertwin.toml.

    Exit codes: 0 done, 1 done but something is wrong, 2 the command could not run, 3 and higher
    something worse than 1, 130 Ctrl-C.
    """
    from brokertwin.cli import output

    output.fit()


def main() -> None:
    """Run the console script."""
    gc.disable()  # imports make no garbage
    _end_soon_after_ctrl_c()
    command = typer.main.get_command(app)
    command.help = (command.help or "") + as_markdown("")
    try:
        try:
            command(prog_name="brokertwin")
        finally:
            sys.stdout.flush()
    except UserError as error:
        _fail(error)
    except OSError as error:
        if error.errno not in UNWRITABLE:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the rest of a full one
        place = error.filename or "standard output or a file"
        message = f"Cannot write to {place}: {error.strerror}."
        _fail(UserError(message, "Check the permissions of the folder and the free space."))
    except ModuleNotFoundError as error:
        module = (error.name or "").partition(".")[0]
        if module not in extras.EXTRA_OF:
            raise
        _fail(extras.missing(f"`brokertwin {_called()}`", module))


def _end_soon_after_ctrl_c() -> None:
    """End the process `ENDING_S` after Ctrl-C, even if it waits in a call to a broker that is gone.

    A command that handles SIGINT itself ends as it says.
    """
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    threading.Thread(target=_watch_for_ctrl_c, args=(reader, writer), daemon=True).start()


def _watch_for_ctrl_c(reader: socket.socket, _writer: socket.socket) -> None:
    while signal.SIGINT not in reader.recv(1):
        pass
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        time.sleep(ENDING_S)
        sys.stderr.write("Ended without waiting any longer. Sent requests may have an effect.\n")
        sys.stderr.flush()
        os._exit(INTERRUPTED)


def _fail(error: UserError) -> NoReturn:
    from brokertwin.cli.output import show_error

    show_error(error)
    sys.exit(USER_ERROR)


def _called() -> str:
    """Return the command and subcommand on the command line."""
    words = list(takewhile(lambda word: not word.startswith("-"), sys.argv[1:]))
    if " ".join(words[:2]) in COMMANDS:
        return " ".join(words[:2])
    commands = getattr(load(words[0]), "commands", {})
    return " ".join([words[0], *(word for word in words[1:2] if word in commands)])
