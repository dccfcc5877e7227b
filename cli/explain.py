"""`brokertwin explain`: why a broker answered as it did, from a recording."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from brokertwin.cli.options import AsJson, BrokerConfig, group
from brokertwin.cli.output import out, show_json, show_table
from brokertwin.cli.sources import Checkpoint, Where, source_of, with_source
from brokertwin.errors import UserError

if TYPE_CHECKING:
    from brokertwin.streaming.explain.story import Entry, Subject
    from brokertwin.streaming.replay.recording import Exchange
    from brokertwin.streaming.state_reader import Cells

app = group()

Key = Annotated[str, typer.Argument(metavar="ID|NAME", help="A producer id or a transactional id.")]
TransactionalId = Annotated[
    str, typer.Argument(metavar="ID", help="A transactional id, or the producer id of one.")
]
PartitionName = Annotated[
    str, typer.Argument(metavar="TOPIC-N", help="The topic and the number of the partition.")
]
GroupId = Annotated[str, typer.Argument(metavar="GROUP", help="The group's id.")]
ClientId = Annotated[str, typer.Argument(metavar="ID", help="The client id.")]
SessionId = Annotated[str, typer.Argument(metavar="ID", help="The fetch session's id.")]
Errors = Annotated[
    bool, typer.Option("--errors", help="Only what was refused, and what it comes of.")
]
Client = Annotated[
    str | None, typer.Option("--client", metavar="ID", help="Only requests of this client id.")
]
ErrorName = Annotated[
    str | None,
    typer.Argument(metavar="CODE|NAME", help="The error, like 47 or INVALID_PRODUCER_EPOCH."),
]
Place = Annotated[
    str,
    typer.Argument(metavar="FILE:LINE", help="The exchange, as `replay` and --json name it."),
]
StateAround = Annotated[
    bool,
    typer.Option(
        "--state", help="Decide it again, too, and say what it changed: before and after."
    ),
]


STYLES = {"head": "bold", "note": "cyan", "refused": "red"}


@app.callback()
def explain_command() -> None:
    """Why a broker answered a client as it did: a timeline from a recording, with reasons.

    Nothing is decided again: it tells what the recorded broker answered. Times are in UTC.
    """


class _About(NamedTuple):
    """What a story may be about: the type of its key, what the command says, and who tells it."""

    key: Any
    help: str
    tell: "Callable[[Where, str], Subject]"


def _producers(where: Where, key: str) -> "Subject":
    from brokertwin.streaming.explain.producers import Producers

    return Producers(_exchanges(where), key)


def _transactions(where: Where, key: str) -> "Subject":
    from brokertwin.streaming.explain.transactions import Transactions

    return Transactions(_exchanges(where), key)


def _partitions(where: Where, key: str) -> "Subject":
    from brokertwin.streaming.explain.partitions import Partitions
    from brokertwin.streaming.observed.watching import watch

    with source_of(where) as source:
        return Partitions(watch(source, where.headers()), key)


def _groups(where: Where, key: str) -> "Subject":
    from brokertwin.streaming.explain.groups import Groups

    return Groups(_exchanges(where), key)


def _sessions(where: Where, key: str) -> "Subject":
    from brokertwin.streaming.explain.sessions import Sessions

    return Sessions(_exchanges(where), key)


def _clients(where: Where, key: str) -> "Subject":
    from brokertwin.streaming.explain.clients import Clients

    return Clients(_exchanges(where), key)


SUBJECTS = {
    "client": _About(
        ClientId,
        """A client: what befell its producers, its groups' members and its fetch sessions, and why.

        For who knows which service is in trouble, and not yet of what it is a part. At the end
        stands what was refused, and whose stories tell what others did.
        """,
        _clients,
    ),
    "producer": _About(
        Key,
        """A producer: its epochs and who got them, its batches, and why requests were refused.

        For each error: whose request it comes of, the rule and where it is from, and what the
        client should do. At the end stand the epoch and the last five batches that the broker
        knows.
        """,
        _producers,
    ),
    "transaction": _About(
        TransactionalId,
        """A transactional id: what each transaction took in, how it ended, and who aborted it.

        At the end stands each transaction with its partitions and groups, and how long it was open.
        """,
        _transactions,
    ),
    "partition": _About(
        PartitionName,
        """A partition: leaders and epochs, in-sync sets, who wrote, who had to cut its log, errors.

        Give the logs of all brokers, and of the controller: only there is AlterPartition. At the
        end stand leader, in-sync set, log ends, high watermark, and the last batch of each
        producer.
        """,
        _partitions,
    ),
    "group": _About(
        GroupId,
        """A consumer group: who began each rebalance, which offsets go back, what was refused.

        Heartbeats that went well are left out. At the end stand the generation and the committed
        offsets, each with the request that brought it.
        """,
        _groups,
    ),
    "session": _About(
        SessionId,
        """A fetch session: who opened it, what it forgets, how it ended.

        Of a session that the broker does not know any more it says who used it last, and who has
        opened sessions since: they are what it may have made room for.
        """,
        _sessions,
    ),
}
"""Name of a command to what it is about."""


def _command(name: str, about: _About) -> "Callable[..., None]":
    def command(
        key: str,
        where: Where,
        errors: Errors = False,
        client: Client = None,
        checkpoint: Checkpoint = None,
        as_json: AsJson = False,
    ) -> None:
        if checkpoint is not None:
            _refuse_beside_checkpoint(where, errors, client)
            _show_stored(name, key, checkpoint, as_json)
        else:
            _tell(about.tell(where, key), errors, client, as_json)

    command.__annotations__["key"] = about.key
    command.__doc__ = about.help
    return with_source(command)


for _name, _about in SUBJECTS.items():
    app.command(_name)(_command(_name, _about))


@app.command()
@with_source
def line(
    place: Place,
    where: Where,
    state: StateAround = False,
    broker_config: BrokerConfig = None,
    as_json: AsJson = False,
) -> None:
    """One exchange: what was asked, why it was refused, and whose request that comes of.

    It is told as the stories of its producer, group or session tell it, from all that came before.
    With --state the recording is decided again up to it, as `replay` does, and what the request
    changed of the brokers' state is told: each field before and after.
    """
    from brokertwin.streaming.explain.exchange import explained

    if broker_config is not None and not state:
        raise UserError("--broker-config is for deciding again.", "Give it with --state.")
    _show_all(explained(_exchanges(where), place), as_json)
    if state:
        _show_states(where, place, broker_config, as_json)


@app.command()
def error(name: ErrorName = None, as_json: AsJson = False) -> None:
    """An error: what it means, where the rule is from, who causes it, what to do.

    It is what stands in docs/errors; without a name all errors are listed.
    """
    from brokertwin.streaming.explain import error_pages

    codes = [error_pages.code_of(name)] if name is not None else sorted(error_pages.RULES)
    if as_json:
        for code in codes:
            show_json(error_pages.document(code))
    elif name is None:
        rows = [(code, error_pages.name_of(code), error_pages.RULES[code].why) for code in codes]
        show_table(("code", "error", "what it means"), rows)
    else:
        _say(error_pages.page(codes[0]))


def _show_states(where: Where, place: str, broker_config: Path | None, as_json: bool) -> None:
    """What an exchange changes, of all that brokers keep."""
    from brokertwin.cli import replay, state_diffs
    from brokertwin.streaming.replay.state_diff import changes
    from brokertwin.streaming.state_rows import WHOLE

    found = changes(*replay.states_around(where, place, broker_config), WHOLE)
    if as_json:
        for change in found:
            show_json(change.document)
    elif found:
        state_diffs.show_changes(found, (f"before {place}", "after it"))
    if not found and not as_json:
        _say("It has changed nothing of the state.")


def _refuse_beside_checkpoint(where: Where, errors: bool, client: str | None) -> None:
    if not where.is_nowhere():
        raise UserError("--checkpoint stands in the place of a recording: give one of them.")
    if errors or client is not None:
        raise UserError("A checkpoint has no requests: --errors and --client choose among those.")


def _show_stored(subject: str, key: str, checkpoint: Path, as_json: bool) -> None:
    """What a checkpoint knows, as the tables of `brokertwin state`."""
    from brokertwin.cli import state_tables
    from brokertwin.streaming.explain.stored import stored

    cells, when = _stored_cells(checkpoint)
    for kind, rows in stored(subject, key, cells):
        if as_json:
            for row in rows:
                show_json({"kind": kind.value, **row})
        elif rows:
            state_tables.show(kind.value, rows, when)
    if not as_json:
        _say("A checkpoint has no story: --job has what the job was asked and answered.", "dim")


def _stored_cells(directory: Path) -> "tuple[Cells, str]":
    """The cells of a checkpoint, a snapshot, or what `replay --keep` has left, and of when."""
    from brokertwin import tables
    from brokertwin.streaming import state_reader

    found = tables.stored(directory)
    if found is not None:
        return found
    batch = state_reader.committed_batch(directory)
    return state_reader.read_cells(directory, batch), f"after micro-batch {batch}"


def _exchanges(where: Where) -> "list[Exchange]":
    """What is recorded of clients, in order."""
    from brokertwin.streaming.replay import recording

    with source_of(where) as source:
        return recording.read_from(source, where.headers()).exchanges


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
            for shade, text in entry.lines(explained):
                _say(text, STYLES.get(shade, ""))


def _say(line: str, style: str = "") -> None:
    out.print(line, style=style or None, markup=False, highlight=False, soft_wrap=True)
