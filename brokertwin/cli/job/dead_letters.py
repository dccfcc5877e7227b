"""`brokertwin dead-letters`: refused events and the reasons."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
import typer

from brokertwin.cli.options import (
    AsJson,
    group,
    with_settings,
)
from brokertwin.cli.output import out, show_fields, show_json, show_table
from brokertwin.errors import UserError
from brokertwin.settings import Settings
from brokertwin.wording import counted

app = group()

Limit = Annotated[
    int, typer.Option("--limit", metavar="N", min=1, help="Only the newest N; newest last.")
]
Place = Annotated[
    str,
    typer.Argument(metavar="PARTITION/OFFSET", help="Position of the event, as `list` prints it."),
]


@app.callback()
def dead_letters_command() -> None:
    """Show events that the job refused; the topic `dead-letters` stores each with the reason."""


@app.command("list")
@with_settings("bootstrap", "kafka_config", "prefix")
def list_command(
    settings: Settings,
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """List dead letters: time, position of the event, reason and detail."""
    letters = list(_letters(settings))
    shown = letters[-limit:]
    if as_json:
        for letter in shown:
            show_json(letter)
        return
    if shown:
        show_table(
            ["time", "cell", "partition/offset", "reason", "detail"],
            ((x["when"], x["cell"], _place(x), x["reason"], x["detail"]) for x in shown),
        )
    out.print(f"{len(shown):,} of {counted(len(letters), 'dead letter')}")


@app.command()
@with_settings("bootstrap", "kafka_config", "prefix")
def show(
    place: Place,
    settings: Settings,
    as_json: AsJson = False,
) -> None:
    """Show one dead letter with the original event (up to 64 KiB of it)."""
    for letter in _letters(settings):
        if _place(letter) == place:
            if as_json:
                show_json(letter)
            else:
                show_fields(letter)
            return
    raise UserError(
        f"There is no dead letter for an event at {place}.",
        "List the positions with: brokertwin dead-letters list",
    )


def _letters(settings: Settings) -> Iterator[dict[str, Any]]:
    """Yield every dead letter once, in the order of writing."""
    from brokertwin.kafka_io.kafka_clients import client_properties
    from brokertwin.kafka_io.topic_reader import read_all, without_repeats
    from brokertwin.kafka_io.topics import full_name
    from brokertwin.state.core.outputs import DEAD_LETTERS

    topic = full_name(settings.prefix, DEAD_LETTERS)
    for row in without_repeats(read_all(client_properties(settings), topic)):
        when = datetime.fromtimestamp(row.timestamp / 1000, UTC)
        letter: dict[str, Any] = msgspec.json.decode(row.value or b"{}")
        yield {"when": when.isoformat(" ", "seconds"), **letter}


def _place(letter: dict[str, Any]) -> str:
    index = letter.get("packIndex")
    return f"{letter['partition']}/{letter['offset']}" + (f".{index}" if index else "")
