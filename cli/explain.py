"""`brokerstream explain`: why a broker answered as it did, from a recording."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from brokerstream.cli.options import AsJson, group
from brokerstream.cli.output import out, show_json

if TYPE_CHECKING:
    from brokerstream.streaming.explain.story import Entry, Subject

app = group()

Key = Annotated[str, typer.Argument(metavar="ID|NAME", help="A producer id or a transactional id.")]
GroupId = Annotated[str, typer.Argument(metavar="GROUP", help="The group's id.")]
SessionId = Annotated[str, typer.Argument(metavar="ID", help="The fetch session's id.")]
Files = Annotated[
    list[Path],
    typer.Argument(metavar="FILE…", help="Recorded exchanges, as `replay` takes them."),
]
Errors = Annotated[
    bool, typer.Option("--errors", help="Only what was refused, and what it comes of.")
]
Client = Annotated[
    str | None, typer.Option("--client", metavar="ID", help="Only requests of this client id.")
]
Place = Annotated[
    str,
    typer.Argument(metavar="FILE:LINE", help="The exchange, as `replay` and --json name it."),
]


@app.callback()
def explain_command() -> None:
    """Why a broker answered a client as it did: a timeline from a recording, with reasons.

    Nothing is decided again: it tells what the recorded broker answered. Times are in UTC.
    """


@app.command()
def producer(
    key: Key,
    files: Files,
    errors: Errors = False,
    client: Client = None,
    as_json: AsJson = False,
) -> None:
    """A producer: its epochs and who got them, its batches, and why requests were refused.

    For each error: whose request it comes of, the rule and where it is from, and what the client
    should do. At the end stand the epoch and the last five batches that the broker knows.
    """
    from brokerstream.streaming.explain.producers import Producers
    from brokerstream.streaming.replay import recording

    _tell(Producers(recording.read(files).exchanges, key), errors, client, as_json)


@app.command("group")
def consumer_group(
    key: GroupId,
    files: Files,
    errors: Errors = False,
    client: Client = None,
    as_json: AsJson = False,
) -> None:
    """A consumer group: who began each rebalance, which offsets go back, why requests were refused.

    Heartbeats that went well are left out. At the end stand the generation and the committed
    offsets, each with the request that brought it.
    """
    from brokerstream.streaming.explain.groups import Groups
    from brokerstream.streaming.replay import recording

    _tell(Groups(recording.read(files).exchanges, key), errors, client, as_json)


@app.command()
def session(
    key: SessionId,
    files: Files,
    errors: Errors = False,
    client: Client = None,
    as_json: AsJson = False,
) -> None:
    """A fetch session: who opened it, what it forgets, how it ended.

    Of a session that the broker does not know any more it says who used it last, and who has opened
    sessions since: they are what it may have made room for.
    """
    from brokerstream.streaming.explain.sessions import Sessions
    from brokerstream.streaming.replay import recording

    _tell(Sessions(recording.read(files).exchanges, key), errors, client, as_json)


@app.command()
def line(place: Place, files: Files, as_json: AsJson = False) -> None:
    """One exchange: what was asked, why it was refused, and whose request that comes of.

    It is told as the stories of its producer, group or session tell it, from all that came before.
    """
    from brokerstream.streaming.explain.exchange import explained
    from brokerstream.streaming.replay import recording

    _show_all(explained(recording.read(files).exchanges, place), as_json)


def _tell(found: "Subject", errors: bool, client: str | None, as_json: bool) -> None:
    """The entries that are asked for, and what a broker knows at the end."""
    shown = [
        each
        for each in found.story()
        if (each.refused or each.notes or not errors) and client in (None, each.client)
    ]
    _show_all(shown, as_json)
    if not as_json:
        for line in found.ending():
            _say(line, "bold")


def _show_all(entries: "list[Entry]", as_json: bool) -> None:
    explained: set[int] = set()
    for entry in entries:
        if as_json:
            show_json(entry.document())
        else:
            _show(entry, explained)


def _show(entry: "Entry", explained: set[int]) -> None:
    """An exchange; what an error means is said where it comes first."""
    from brokerstream.streaming.explain.story import clock

    head = f"{clock(entry.time)}  client {entry.client}  {entry.api} v{entry.version}  {entry.id}"
    _say(head, "bold")
    if entry.said:
        _say(f"    {entry.said}")
    for note in entry.notes:
        _say(f"    {note}", "cyan")
    for refused in entry.refused:
        _say(f"    refused: {refused.code} {refused.name}", "red")
        if refused.because:
            _say(f"    because  {refused.because}")
        if refused.rule is not None and refused.code not in explained:
            explained.add(refused.code)
            _say(f"    rule     {refused.rule.why} [{refused.rule.source}]")
            _say(f"    do       {refused.rule.do}")


def _say(line: str, style: str = "") -> None:
    out.print(line, style=style or None, markup=False, highlight=False, soft_wrap=True)
