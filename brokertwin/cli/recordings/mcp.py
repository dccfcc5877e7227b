"""`brokertwin mcp`: the tools of this project for assistants, over the Model Context Protocol.

The tools read files of this machine and write none. Each result has its evidence: file and line, or
the row of a table. What a recording does not show is `unknown`.

Source: the Model Context Protocol; its Python SDK serves standard input and output.
"""

from collections.abc import Callable
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from pydantic import Field

from brokertwin import extras
from brokertwin.errors import UserError

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

Logs = Annotated[
    list[str],
    Field(description="Files: Kafka request logs of all brokers, captures, protocol logs."),
]
Most = Annotated[int, Field(ge=1, le=500, description="Maximum number of items in the result.")]
Kind = Literal["group", "transaction", "producer", "client", "partition", "session"]

INSTRUCTIONS = """
Reads recorded traffic of Apache Kafka clusters and says what happened, with evidence.
Begin with `audit`. Then use `explain` for a group, a transaction or a client that it names.
Results name lines as FILE:LINE. Report "unknown" as unknown: do not guess a cause.
"""


def command(
    check: Annotated[
        bool, typer.Option("--check", help="List the tools and exit, without serving.")
    ] = False,
) -> None:
    """Serve tools for assistants over standard input and output (MCP).

    Read-only tools: audit a log, explain a subject of it, explain an error, the history of a
    committed offset, and the state of a recording or a job at a moment. Add the command
    `brokertwin mcp` to your assistant's configuration.
    """
    extras.need("mcp", "mcp")
    made = server()
    if check:
        import asyncio

        for tool in asyncio.run(made.list_tools()):
            typer.echo(f"{tool.name}: {(tool.description or '').splitlines()[0]}")
        return
    made.run("stdio")


def server() -> "MCPServer":
    """The server with all tools."""
    import logging

    from mcp.server.mcpserver import MCPServer
    from mcp.types import ToolAnnotations

    logging.getLogger("mcp").setLevel(logging.WARNING)
    made = MCPServer("brokertwin", instructions=INSTRUCTIONS)
    for tool in (audit, explain, explain_error, offset_history, state):
        made.add_tool(_telling(tool), annotations=ToolAnnotations(read_only_hint=True))
    return made


def _telling(tool: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """A tool whose errors reach the assistant: the SDK hides the text of other exceptions."""
    from mcp.server.mcpserver.exceptions import ToolError

    @wraps(tool)
    def call(*given: Any, **named: Any) -> dict[str, Any]:
        try:
            return tool(*given, **named)
        except UserError as error:
            raise ToolError(str(error)) from None

    return call


def audit(logs: Logs, most: Most = 50) -> dict[str, Any]:
    """Report problems in recorded traffic, the worst first, each with lines and clients.

    A finding has a cause only if the recording shows it.
    """
    from brokertwin.recordings.audit.finders import findings
    from brokertwin.recordings.audit.one_pass import pass_over
    from brokertwin.recordings.formats.pipeline import FileReading, read_files
    from brokertwin.recordings.history.holes import sentences

    warnings: list[str] = []
    reading = FileReading(warn=warnings.append)
    done = pass_over(partial(read_files, _paths(logs), reading))
    found = findings(done.history)
    begin, end = done.history.span
    return {
        "from": begin,
        "to": end,
        "exchanges": done.history.exchanges,
        "warnings": [*warnings, *sentences(done.holes)],
        "unreadableLines": [f"{each.place}: {each.reason}" for each in done.broken[:10]],
        "findings": [each.document(10) for each in found[:most]],
        "findingsLeftOut": max(0, len(found) - most),
    }


def explain(
    kind: Annotated[Kind, Field(description="Kind of the subject.")],
    name: Annotated[
        str, Field(description="Group id, transactional id, client id, TOPIC-N, session id.")
    ],
    logs: Logs,
    only_errors: Annotated[bool, Field(description="Only refused requests and notes.")] = True,
    most: Most = 100,
) -> dict[str, Any]:
    """Explain one subject of a recording: its requests in order, refusals and their causes."""
    timeline = _timeline(kind, name, _paths(logs))
    entries = [each for each in timeline.story() if each.refused or each.notes or not only_errors]
    return {
        "entries": [each.document() | {"certainty": _certainty(each)} for each in entries[-most:]],
        "earlierEntriesLeftOut": max(0, len(entries) - most),
        "atTheEnd": timeline.ending(),
    }


def _certainty(entry: Any) -> str:
    """`unknown` if a refusal has no cause in the recording, otherwise `seen`."""
    return "unknown" if any(not each.because for each in entry.refused) else "seen"


def _timeline(kind: Kind, name: str, paths: list[Path]) -> Any:
    from brokertwin.recordings.formats.documents import Texts
    from brokertwin.recordings.formats.pipeline import FileReading, read_files
    from brokertwin.recordings.observed.watching import watch
    from brokertwin.recordings.replay import recording

    if kind == "partition":
        from brokertwin.recordings.explain.partitions import PartitionTimeline

        return PartitionTimeline(
            watch(lambda summary: read_files(paths, FileReading(), summary), None), name
        )
    reading = FileReading(texts=Texts.ALL)
    found = recording.read_from(
        lambda summary: read_files(paths, reading, summary), None, kind == "group"
    )
    if kind == "group":
        from brokertwin.recordings.explain.groups import GroupTimeline

        return GroupTimeline(found.exchanges, name, found.logged)
    if kind == "transaction":
        from brokertwin.recordings.explain.transactions import TransactionTimeline

        return TransactionTimeline(found.exchanges, name)
    if kind == "producer":
        from brokertwin.recordings.explain.producers import ProducerTimeline

        return ProducerTimeline(found.exchanges, name)
    if kind == "client":
        from brokertwin.recordings.explain.clients import ClientTimeline

        return ClientTimeline(found.exchanges, name, found.own, found.undecoded)
    from brokertwin.recordings.explain.sessions import SessionTimeline

    return SessionTimeline(found.exchanges, name)


def explain_error(
    name: Annotated[str, Field(description="Error code or name: 47, INVALID_PRODUCER_EPOCH.")],
) -> dict[str, Any]:
    """Explain an error code of Kafka: the rule with its source, and what to do."""
    from brokertwin.recordings.explain import error_pages

    return dict(error_pages.document(error_pages.code_of(name)))


def offset_history(
    directory: Annotated[str, Field(description="A directory of `brokertwin offsets import`.")],
    group: Annotated[str, Field(description="Group id.")],
    most: Most = 100,
) -> dict[str, Any]:
    """Show each change of a group's committed offsets, with the member that made it if known."""
    from brokertwin.cli.offsets.offsets import _document
    from brokertwin.offsets.sources import OffsetSource

    if not Path(directory).is_dir():
        raise UserError(
            f"{directory} is not a directory.", "Make one with `brokertwin offsets import`."
        )
    unread: list[str] = []
    moves = list(OffsetSource(directory, _no_cluster, unread.append).moves(groups=[group]))
    return {
        "changes": [
            _document(each) | {"certainty": "seen" if each.by else "unknown"}
            for each in moves[-most:]
        ],
        "earlierChangesLeftOut": max(0, len(moves) - most),
        "unread": unread,
    }


def _no_cluster(address: str) -> Any:
    raise UserError(f"{address} is an address; tools for assistants read files only.")


def state(
    path: Annotated[str, Field(description="A recording, a checkpoint or a snapshot of a job.")],
    table: Annotated[str, Field(description="groups, offsets, producers, sessions, logs, …")],
    at: Annotated[
        str, Field(description="FILE:LINE, a micro-batch or an ISO time; default: the end.")
    ] = "",
    most: Most = 100,
) -> dict[str, Any]:
    """Show a table of a broker's state at a moment, as the broker model has it."""
    from brokertwin import tables

    found = tables.read(path, as_of=at or None)
    rows = found.rows(table)
    return {
        "origin": found.origin,
        "certainty": "derived",
        "rows": [dict(each) for each in rows[:most]],
        "rowsLeftOut": max(0, len(rows) - most),
    }


def _paths(names: list[str]) -> list[Path]:
    """The files. Raises UserError if none is named."""
    if not names:
        raise UserError("No log is named.", "Pass the files of all brokers.")
    return [Path(name) for name in names]
