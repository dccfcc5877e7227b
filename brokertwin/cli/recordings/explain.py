"""`brokertwin explain`: why a broker responded as it did, from a recording."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from brokertwin.cli.options import AsJson, BrokerConfig, group, kafka_of
from brokertwin.cli.output import out, show_json
from brokertwin.cli.recordings.sources import (
    Checkpoint,
    LiveTopics,
    Where,
    source_of,
    with_source,
)
from brokertwin.errors import UserError
from brokertwin.patterns import later
from brokertwin.places import place

if TYPE_CHECKING:
    from brokertwin.recordings.explain.producers import ProducerTimeline
    from brokertwin.recordings.explain.story import Subject, TimelineEntry
    from brokertwin.recordings.formats.prefilter import NeededLines
    from brokertwin.recordings.replay.recording import Exchange, Recording
    from brokertwin.tables import StoredState

app = group()

Key = Annotated[str, typer.Argument(metavar="ID|NAME", help="Producer id or transactional id.")]
TransactionalId = Annotated[
    str, typer.Argument(metavar="ID", help="Transactional id, or the producer id of one.")
]
PartitionName = Annotated[
    str, typer.Argument(metavar="TOPIC-N", help="Topic and partition number.")
]
GroupId = Annotated[str, typer.Argument(metavar="GROUP", help="Group id.")]
ClientId = Annotated[str, typer.Argument(metavar="ID", help="Client id.")]
SessionId = Annotated[str, typer.Argument(metavar="ID", help="Fetch session id.")]
Errors = Annotated[
    bool, typer.Option("--errors", help="Show only refused requests and their causes.")
]
Client = Annotated[
    str | None, typer.Option("--client", metavar="ID", help="Show only this client id's requests.")
]
ErrorName = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="CODE|NAME",
        help="Error: 47, INVALID_PRODUCER_EPOCH, InvalidProducerEpochException, a text.",
    ),
]
Place = Annotated[
    str,
    typer.Argument(metavar="FILE:LINE", help="The exchange, as printed by `replay` and --json."),
]
StateAround = Annotated[
    bool,
    typer.Option(
        "--state",
        help="Also show how the exchange changed the brokers' state, by running the recording"
        " through the broker model.",
    ),
]


NAMED = later(r"clientId=([^,\]\s]+)|\|([^|#]*)#(?:consumer|producer)-\d+\|")
"""The client of a line, as Java's and librdkafka's loggers name it."""

STYLES = {"head": "bold", "note": "cyan", "refused": "red"}


@app.callback()
def explain_command() -> None:
    """Explain why a broker responded as it did: a timeline from a recording, with reasons.

    It shows the recorded broker's responses and runs no broker model. Times are in UTC.
    """


class _About(NamedTuple):
    """A subject of a timeline: the type of its key, the command's help, and the constructor."""

    key: Any
    help: str
    timeline: "Callable[[Where, str], Subject]"


def _producers(where: Where, key: str) -> "Subject":
    from brokertwin.recordings.explain.producers import ProducerTimeline

    return _of_producer(where, key, ProducerTimeline)


def _transactions(where: Where, key: str) -> "Subject":
    from brokertwin.recordings.explain.transactions import TransactionTimeline

    return _of_producer(where, key, TransactionTimeline)


def _of_producer(where: Where, key: str, timeline: "type[ProducerTimeline]") -> "Subject":
    from brokertwin.recordings.formats.prefilter import OF_MEMBERS, OF_PRODUCERS

    def subject_of(needed: "NeededLines | None") -> "tuple[Subject, set[str]]":
        made = timeline(_exchanges(where, needed), key)
        return made, {made.entity.name} - {""}

    apis = (*OF_MEMBERS, *OF_PRODUCERS) if not key.isdecimal() else OF_MEMBERS
    return _narrowed(where, key, apis, subject_of)


def _partitions(where: Where, key: str) -> "Subject":
    from brokertwin.recordings.explain.partitions import PartitionTimeline
    from brokertwin.recordings.formats.prefilter import OF_MEMBERS, OF_PRODUCERS
    from brokertwin.recordings.observed.watching import watch

    def subject_of(needed: "NeededLines | None") -> "tuple[Subject, set[str]]":
        with source_of(where, needed=needed) as source:
            made = PartitionTimeline(watch(source, where.headers()), key)
        return made, made.topics | made.transactional_ids

    topic, fields = key.rpartition("-")[0], ("transactionalId",)
    return _narrowed(where, topic, (*OF_MEMBERS, *OF_PRODUCERS), subject_of, fields)


def _stable_offsets(where: Where, key: str) -> "Subject":
    from brokertwin.recordings.explain.lso import LsoTimeline
    from brokertwin.recordings.history.recording import observed_recording

    return LsoTimeline(observed_recording(_exchanges(where)), key)


def _groups(where: Where, key: str) -> "Subject":
    from brokertwin.recordings.explain.groups import GroupTimeline
    from brokertwin.recordings.formats.prefilter import OF_MEMBERS

    def subject_of(needed: "NeededLines | None") -> "tuple[Subject, set[str]]":
        recording = _recording(where, with_logged=True, needed=needed)
        made = GroupTimeline(recording.exchanges, key, recording.logged)
        return made, made.transactional_ids

    return _narrowed(where, key, (*OF_MEMBERS, "END_TXN"), subject_of)


def _sessions(where: Where, key: str) -> "Subject":
    from brokertwin.recordings.explain.sessions import SessionTimeline

    return SessionTimeline(_exchanges(where), key)


def _clients(where: Where, key: str) -> "Subject":
    from brokertwin.recordings.explain.clients import ClientTimeline
    from brokertwin.recordings.explain.story import AbsentError
    from brokertwin.recordings.formats.prefilter import OF_MEMBERS, OF_PRODUCERS
    from brokertwin.recordings.formats.summary import OtherKindError

    def subject_of(needed: "NeededLines | None") -> "tuple[Subject, set[str]]":
        recording = _recording(where, needed=needed)
        made = ClientTimeline(recording.exchanges, key, recording.own, recording.undecoded)
        everything = {""} if made.lost_sessions else set()
        return made, everything | {*made.producers, *made.groups, *made.topics}

    fields = "groupId", "transactionalId"
    try:
        return _narrowed(where, key, (*OF_MEMBERS, *OF_PRODUCERS), subject_of, fields)
    except (OtherKindError, AbsentError) as nothing:
        raise _with_own_text(where.files, key, nothing) from None


def _with_own_text(files: "Sequence[Path]", client: str, nothing: UserError) -> UserError:
    """Explain the first text of a client about itself in logs without its requests or refusals.

    Lines that name no client are its own where no other client is in the logs.
    """
    from brokertwin.recordings.explain.error_pages import of_client
    from brokertwin.recordings.explain.story import AbsentError
    from brokertwin.recordings.formats.lines import STDIN, read_lines

    for line in read_lines([each for each in files if each != STDIN]):
        text = line.text.decode("utf-8", "replace")
        named = NAMED.search(text)
        is_own = client in named.groups() if named else not isinstance(nothing, AbsentError)
        own = of_client(text) if is_own else None
        if own is not None:
            said = f"No request of it is there, but line {line.number} says: {own.message}"
            return UserError(said, own.hint)
    return nothing


def _narrowed(
    where: Where,
    name: str,
    apis: "Sequence[str]",
    subject_of: "Callable[[NeededLines | None], tuple[Subject, set[str]]]",
    fields: "Sequence[str]" = (),
) -> "Subject":
    """Read the lines that name a subject; then those with the names that these show, too.

    Names in some fields of its lines are found before, so that most logs are read once.

    All lines are read if the source is not of files, or the subject is not in the lines: then the
    message lists others.
    """
    from brokertwin.recordings.formats.lines import STDIN
    from brokertwin.recordings.formats.prefilter import DisorderedError, NeededLines, names_beside

    names, needed = {name}, None
    if where.files and STDIN not in where.files and not where.batches:
        names |= names_beside(where.files, name, fields) if fields else set()
        needed = NeededLines.of(names, apis)
    while needed is not None:
        try:
            subject, more = subject_of(needed)
        except (DisorderedError, UserError):
            break
        if more <= names:
            return subject
        names |= more
        needed = NeededLines.of(names, apis)
    return subject_of(None)[0]


SUBJECTS = {
    "client": _About(
        ClientId,
        """Explain a client: events of its producers, group members and fetch sessions.

        Start here if you only know the failing service. The end lists its refused requests and the
        commands that show what other clients did.
        """,
        _clients,
    ),
    "producer": _About(
        Key,
        """Explain a producer: its epochs and their owners, its batches, and why requests failed.

        Each error has the request that caused it, the rule with its source, and advice for the
        client. The end shows the epoch and the last five batches that the broker knows.
        """,
        _producers,
    ),
    "transaction": _About(
        TransactionalId,
        """Explain a transactional id: contents and outcome of each transaction, and who aborted it.

        The end lists each transaction with its partitions, groups and duration.
        """,
        _transactions,
    ),
    "partition": _About(
        PartitionName,
        """Explain a partition: leaders and epochs, ISR changes, writers, truncations, errors.

        Pass the logs of all brokers and of the controller, because only the controller's log has
        AlterPartition. The end shows the leader, ISR, log end offsets, high watermark and the last
        batch of each producer.
        """,
        _partitions,
    ),
    "group": _About(
        GroupId,
        """Explain a consumer group: the cause of each rebalance, offsets that moved back, refusals.

        Successful heartbeats are left out. The end shows the generation and the committed offsets,
        each with the request that set it.
        """,
        _groups,
    ),
    "lso": _About(
        PartitionName,
        """Explain why consumers of committed records stop: the last stable offset of a partition.

        Consumers with isolation.level=read_committed read up to the first record of the oldest open
        transaction. The end shows that transaction, its client, the records behind it and the
        consumers that wait.
        """,
        _stable_offsets,
    ),
    "session": _About(
        SessionId,
        """Explain a fetch session: the client that opened it, removed partitions, and its end.

        For a session that the broker no longer knows, it shows the client that used it last and
        the clients that opened sessions since, which may have evicted it.
        """,
        _sessions,
    ),
}
"""Command name to its subject."""


def _command(name: str, about: _About) -> "Callable[..., None]":
    def command(
        key: str,
        where: Where,
        errors: Errors = False,
        client: Client = None,
        checkpoint: Checkpoint = None,
        live: LiveTopics = None,
        as_json: AsJson = False,
    ) -> None:
        if live is not None:
            if checkpoint is not None:
                raise UserError("Cannot combine --live with --checkpoint.")
            _refuse_beside("--live", where, errors, client)
            _show_live(name, key, where, live, as_json)
        elif checkpoint is not None:
            _refuse_beside("--checkpoint", where, errors, client)
            _show_stored(name, key, checkpoint, as_json)
        else:
            _show_timeline(about.timeline(where, key), errors, client, as_json)

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
    """Explain one exchange: the request, why it was refused, and the request that caused that.

    The explanation is the one in the timeline of its producer, group or session. --state runs the
    recording through the broker model up to the exchange, as `replay` does, and shows each field of
    the brokers' state that it changed, before and after.
    """
    from brokertwin.recordings.explain.exchange import explained

    if broker_config is not None and not state:
        raise UserError(
            "--broker-config has no effect without --state.", "Add --state, or leave it out."
        )
    _show_all(explained(_recording(where), place), as_json)
    if state:
        _show_states(where, place, broker_config, as_json)


@app.command()
def error(words: ErrorName = None, as_json: AsJson = False) -> None:
    """Explain an error code: its meaning, the rule's source, its cause, and what to do.

    Without a name it lists all errors.
    """
    from brokertwin.recordings.explain import error_pages

    name = " ".join(words) if words else None
    try:
        codes = [error_pages.code_of(name)] if name is not None else sorted(error_pages.RULES)
    except error_pages.OfClientError as own:
        if as_json:
            show_json({"cause": own.message, "do": own.hint})
        else:
            out.print(own.message, own.hint, markup=False, highlight=False)
        return
    if as_json:
        for code in codes:
            show_json(error_pages.document(code))
    elif name is None:
        for code in codes:
            line = f"{code:>3} {error_pages.name_of(code)}: {error_pages.RULES[code].why}"
            out.print(line, soft_wrap=True, markup=False, highlight=False)
    else:
        out.print(error_pages.text(codes[0]), markup=False, highlight=False)


def _show_states(where: Where, place: str, broker_config: Path | None, as_json: bool) -> None:
    """Print all changes of the brokers' state by an exchange."""
    from brokertwin.cli.recordings import planning, replay_diff
    from brokertwin.recordings.replay.state_diff import changes
    from brokertwin.tables.state_rows import WHOLE

    before, after, without_ends = planning.states_around(where, place, broker_config)
    found = changes(before, after, WHOLE, without_ends=without_ends)
    if as_json:
        for change in found:
            show_json(change.document)
    elif found:
        replay_diff.show_changes(found, (f"before {place}", f"after {place}"))
    if not found and not as_json:
        _say(f"{place} did not change the state.")


def _refuse_beside(option: str, where: Where, errors: bool, client: str | None) -> None:
    if not where.is_nowhere():
        raise UserError(f"Cannot combine {option} with a recording.", "Leave out one of them.")
    if errors or client is not None:
        raise UserError(
            f"Cannot combine {option} with --errors or --client: there are no requests.",
            "Leave out --errors and --client, or pass a recording.",
        )


def _show_live(subject: str, key: str, where: Where, prefix: str, as_json: bool) -> None:
    """Print the rows and findings in the topics of a live audit."""
    from brokertwin.cli.recordings.live_subjects import show_rows

    client = kafka_of(where.settings())
    _show_all(show_rows(client, prefix, subject, key, as_json), as_json)


def _show_stored(subject: str, key: str, checkpoint: Path, as_json: bool) -> None:
    """Print the state in a checkpoint, as `brokertwin state` does."""
    from brokertwin.cli.job import state_tables
    from brokertwin.recordings.explain.stored import stored

    state = _stored_state(place(checkpoint))
    for kind, rows in stored(subject, key, state.cells, state.without_ends):
        if as_json:
            for row in rows:
                show_json({"kind": kind.value, **row})
        elif rows:
            state_tables.show(kind.value, rows, state.origin)
    if not as_json:
        _say("A checkpoint has no timeline. Add --job to read the job's requests.", "dim")


def _stored_state(directory: Path) -> "StoredState":
    """Return the state of a checkpoint, snapshot or `replay --keep` directory."""
    from brokertwin import tables
    from brokertwin.streaming.checkpoint import state_reader

    state = tables.stored(directory)
    if state is not None:
        return state
    batch = state_reader.committed_batch(directory)
    cells = state_reader.read_cells(directory, batch)
    return tables.StoredState(cells, f"after micro-batch {batch}")


def _exchanges(where: Where, needed: "NeededLines | None" = None) -> "list[Exchange]":
    return _recording(where, needed=needed).exchanges


def _recording(
    where: Where, with_logged: bool = False, needed: "NeededLines | None" = None
) -> "Recording":
    """Return the recording; lines about groups in server.log are enough if `with_logged`."""
    from brokertwin.recordings.formats.documents import Texts
    from brokertwin.recordings.replay import recording

    with source_of(where, Texts.ALL, needed) as source:
        return recording.read_from(source, where.headers(), with_logged)


def _show_timeline(subject: "Subject", errors: bool, client: str | None, as_json: bool) -> None:
    """Print the selected entries and the final state."""
    shown = [
        each
        for each in subject.story()
        if (each.refused or each.notes or not errors) and client in (None, each.client)
    ]
    _show_all(shown, as_json)
    if not as_json:
        for line in subject.ending():
            _say(line, "bold")


def _show_all(entries: "list[TimelineEntry]", as_json: bool) -> None:
    """Print entries, and each new date if they are of several days."""
    from brokertwin.recordings.explain.story import of_several_hosts
    from brokertwin.recordings.history.words import moment

    explained, shared = set[int](), of_several_hosts(entries)
    days = [moment(entry.time).partition(" ")[0] for entry in entries]
    shown = days[0] if len(set(days)) == 1 else ""
    for day, entry in zip(days, entries, strict=True):
        if as_json:
            show_json(entry.document())
        else:
            if day != shown:
                shown = day
                _say(f"{day} (UTC)", "bold")
            for shade, text in entry.lines(explained, shared):
                _say(text, STYLES.get(shade, ""))


def _say(line: str, style: str = "") -> None:
    out.print(line, style=style or None, markup=False, highlight=False, soft_wrap=True)
