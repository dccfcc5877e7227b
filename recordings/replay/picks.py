"""What the machine would have picked itself where a choice took an id's place.

A choice hides whether the machine's own ids are any good. So each request with a choice is also
handled on a copy of the cell without it, and the ids that the machine gives there are held against
each other over the history:

- an id that the broker gave for the first time: the machine gives one that it has given to nobody;
- an id that the broker gave before: the machine gives the same one by itself.

Producer, member, session and topic ids are looked at, and those of client instances; a cluster has
one id.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from brokertwin.recordings.replay import local
from brokertwin.recordings.replay.comparison import Answer, Difference, decode_answer
from brokertwin.state.cell.cell import Cell
from brokertwin.state.cluster.image import topic_by_name
from brokertwin.state.core import outputs
from brokertwin.state.core.decision import CONTROLLER
from brokertwin.state.core.events import Choices, Event, Kind
from brokertwin.state.core.outputs import Position
from brokertwin.state.core.schema import ZERO_UUID

NOWHERE = Position(0, 0)
WAIT_MS = 3_600_000
"""How long a request that waits is given on the copy, so that it has an answer."""

TOPIC_ID = "topicId"
PRODUCER_ID = "producerId"
"""Producer ids are counted, the others drawn: only a drawn one can never be another's."""

NONE: dict[str, tuple[Any, ...]] = {
    "sessionId": (None, 0),
    PRODUCER_ID: (None, -1),
    "memberId": (None, ""),
    "clientInstanceId": (None, ZERO_UUID),
}
"""What a field holds where no id is given."""

FIELDS = (
    ("session_id", "sessionId"),
    ("producer_id", PRODUCER_ID),
    ("member_id", "memberId"),
    ("client_instance_id", "clientInstanceId"),
)
"""The choices that an answer shows, and where."""


class Pick(NamedTuple):
    """An id: where it stands, the one that the broker picked, and the machine's own."""

    field: str
    chosen: Any
    own: Any


def decided_with_picks(
    documents: Sequence[bytes],
    cell: Cell,
    on_progress: Callable[[int], None] = lambda _: None,
) -> tuple[dict[str, Answer], dict[str, list[Difference]]]:
    """Hand the events to a cell, and hold the ids that it would have picked against the broker's.

    Args:
        documents: the events, in order, with their choices.
        cell: as it is before the first one.
        on_progress: called with the number of events that are handled.

    Returns:
        The answer to each request, as the engine `local` gives it, and the exchanges whose own ids
        are not as the broker's; both by id.
    """
    answers: dict[str, Answer] = {}
    picks: list[tuple[str, list[Pick]]] = []
    for offset, document in enumerate(documents):
        event = _decoder.decode(document)
        if event.kind is Kind.REQUEST and event.choices is not None:
            picks.append((event.id, list(own_picks(cell, event, event.choices))))
        answers.update(local.answers_in(cell.handle(document, Position(0, offset))))
        on_progress(offset + 1)
    return answers, differing(picks)


def differing(picks: Iterable[tuple[str, Sequence[Pick]]]) -> dict[str, list[Difference]]:
    """What is wrong with the ids that the machine gives: exchange to its differences.

    Args:
        picks: each exchange and its ids, in the order in which they were given.
    """
    given = _Given()
    found = {}
    for exchange_id, own in picks:
        differences = [each for pick in own if (each := given.difference(pick)) is not None]
        if differences:
            found[exchange_id] = differences
    return found


class _Given:
    """The ids that were given so far."""

    def __init__(self) -> None:
        self._chosen: dict[str, set[Any]] = defaultdict(set)
        self._own: dict[str, set[Any]] = defaultdict(set)

    def difference(self, pick: Pick) -> Difference | None:
        """What is wrong with an id, if anything is; it is given from now on."""
        chosen, own = self._chosen[pick.field], self._own[pick.field]
        is_known = pick.chosen in chosen
        is_taken = pick.own in own or (pick.field != PRODUCER_ID and pick.own in chosen)
        chosen.add(pick.chosen)
        own.add(pick.own)
        if pick.own == pick.chosen:
            return None
        if is_known:
            expected = f"{pick.chosen} again, without a choice"
            return Difference(pick.field, expected, pick.own)
        expected = f"an id that nobody has, without a choice ({pick.chosen})"
        return Difference(pick.field, expected, pick.own) if is_taken else None


def own_picks(cell: Cell, event: Event, choices: Choices) -> Iterator[Pick]:
    """The ids that the machine gives without the choices; none for a request that it refuses."""
    fields = [(at, value) for name, at in FIELDS if (value := getattr(choices, name)) is not None]
    known = {
        name for name in choices.topic_ids if topic_by_name(cell.tables.metadata, CONTROLLER, name)
    }
    if not fields and not choices.topic_ids.keys() - known:
        return
    copy = cell.copy()
    response = _answer(copy, event)
    if not isinstance(response, dict):
        return
    for at, value in fields:
        if response.get(at) not in NONE[at]:
            yield Pick(at, value, response[at])
    for name in sorted(choices.topic_ids.keys() - known):
        created = topic_by_name(copy.tables.metadata, CONTROLLER, name)
        if created is not None:
            yield Pick(TOPIC_ID, choices.topic_ids[name], created.topic_id)


def _answer(cell: Cell, event: Event) -> Any:
    """The answer to a request without its choices; one that waits is ended by time."""
    plain = msgspec.structs.replace(event, choices=None, is_held=False)
    later = Event(
        id=f"{event.id}/later",
        cluster=event.cluster,
        time=event.time + WAIT_MS,
        kind=Kind.TICK,
    )
    for one in (plain, later):
        for row in cell.handle(_encoder.encode(one), NOWHERE):
            if row.topic == outputs.RESPONSES and row.id == event.id and row.value:
                answer: Answer = decode_answer(row.value)
                return answer.response
    return None


_decoder = msgspec.json.Decoder(Event)
_encoder = msgspec.json.Encoder()
